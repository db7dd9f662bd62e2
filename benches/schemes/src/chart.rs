//! The curves as an SVG: three panels, both axes logarithmic.
//!
//! There is no background, and the colours are of middling brightness, so that it can be read on white and on black.

use std::fmt::Write;

use crate::curves::{MEAN, OPERATIONS, Point};
use crate::load::Shape;

const WIDTH: f64 = 1_140.0;
const HEIGHT: f64 = 500.0;
const TOP: f64 = 62.0;
const PANEL_WIDTH: f64 = 290.0;
const PANEL_HEIGHT: f64 = 330.0;
const PANEL_STEP: f64 = 375.0;
const LEFT: f64 = 52.0;
const TEXT: &str = "#808891";
/// One for each scheme, hairspring's last.
const COLOURS: [&str; 8] = ["#a8793b", "#c58a00", "#2f9e59", "#1d9bb0", "#4f86e0", "#9a6ee0", "#d0569f", "#e5484d"];

/// Logarithmic, from decade to decade.
struct Scale {
    low: i32,
    high: i32,
    from: f64,
    to: f64,
}

impl Scale {
    fn around(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min).log10().floor() as i32;
        let high = values.fold(0.0, f64::max).log10().ceil() as i32;
        Scale { low, high: high.max(low + 1), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + (self.to - self.from) * share
    }
}

/// One scheme's costs of one operation.
struct Curve {
    number: usize,
    /// Timers and nanoseconds.
    points: Vec<(f64, f64)>,
}

pub(crate) fn draw(points: &[Point], sizes: &[u32]) -> String {
    let drawn: Vec<&Point> = points.iter().filter(|point| point.shape == Shape::Exponential).collect();
    let schemes: Vec<&[&Point]> = drawn.chunks(sizes.len()).collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"system-ui, Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"{TEXT}\">\n\
         <title>Cost of starting, stopping and a tick against the number of timers, for eight timer schemes</title>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"15\">Nanoseconds against outstanding timers; \
         exponential intervals, mean {MEAN} ticks</text>\n"
    );
    for (operation, name) in OPERATIONS.iter().enumerate() {
        let curves: Vec<Curve> = schemes
            .iter()
            .enumerate()
            .map(|(number, scheme)| Curve {
                number,
                points: scheme
                    .iter()
                    .filter_map(|point| Some((f64::from(point.size), point.cost(operation)?.median)))
                    .collect(),
            })
            .collect();
        panel(&mut svg, LEFT + operation as f64 * PANEL_STEP, name, &curves);
    }
    for (number, scheme) in schemes.iter().enumerate() {
        let (x, y) = (LEFT + (number % 4) as f64 * 270.0, HEIGHT - 42.0 + (number / 4) as f64 * 24.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{x} {:.1}h26\" stroke=\"{}\" stroke-width=\"{}\"/><text x=\"{:.1}\" y=\"{y}\">{}</text>",
            y - 4.5,
            COLOURS[number],
            thickness(number),
            x + 34.0,
            scheme[0].scheme
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// The eighth is what this is drawn for.
fn thickness(number: usize) -> f64 {
    if number == 7 { 3.5 } else { 2.0 }
}

fn panel(svg: &mut String, left: f64, name: &str, curves: &[Curve]) {
    let bottom = TOP + PANEL_HEIGHT;
    let right = left + PANEL_WIDTH;
    let all = curves.iter().flat_map(|curve| curve.points.iter().copied());
    let across = Scale::around(all.clone().map(|point| point.0), left, right);
    let up = Scale::around(all.map(|point| point.1), bottom, TOP);
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"{:.1}\" font-weight=\"bold\">{name}</text>", TOP - 14.0);
    for decade in up.low..=up.high {
        let y = up.at(10_f64.powi(decade));
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {y:.1}h{PANEL_WIDTH}\" stroke=\"{TEXT}\" stroke-opacity=\"0.3\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"12\">{}</text>",
            left - 6.0,
            y + 4.0,
            nanoseconds(decade)
        );
    }
    for decade in across.low..=across.high {
        let x = across.at(10_f64.powi(decade));
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {TOP}v{PANEL_HEIGHT}\" stroke=\"{TEXT}\" stroke-opacity=\"0.15\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"12\">{}</text>",
            bottom + 18.0,
            count(decade)
        );
    }
    for Curve { number, points } in curves {
        let path: Vec<String> = points.iter().map(|&(x, y)| format!("{:.1} {:.1}", across.at(x), up.at(y))).collect();
        let _ = writeln!(
            svg,
            "<path d=\"M{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"/>",
            path.join("L"),
            COLOURS[*number],
            thickness(*number)
        );
    }
    labels(svg, curves, &across, &up);
}

/// A curve that ends within the panel is labelled at its end, the others beside the panel, pushed apart where they
/// would cover one another.
fn labels(svg: &mut String, curves: &[Curve], across: &Scale, up: &Scale) {
    const LINE: f64 = 15.0;
    let mut beside = Vec::new();
    for Curve { number, points } in curves {
        let Some(&(x, y)) = points.last() else { continue };
        let (x, y) = (across.at(x), up.at(y));
        if x < across.to - 1.0 {
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{0}\"/>\
                 <text x=\"{1:.1}\" y=\"{2:.1}\" fill=\"{0}\">{3}</text>",
                COLOURS[*number],
                x + 5.0,
                y + 17.0,
                number + 1
            );
        } else {
            beside.push((y, *number));
        }
    }
    beside.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut heights: Vec<f64> = beside.iter().map(|curve| curve.0).collect();
    for _ in 0..100 {
        for lower in 1..heights.len() {
            let overlap = LINE - (heights[lower] - heights[lower - 1]);
            if overlap > 0.0 {
                heights[lower - 1] -= overlap / 2.0;
                heights[lower] += overlap / 2.0;
            }
        }
    }
    for ((y, number), at) in beside.into_iter().zip(heights) {
        let _ = writeln!(
            svg,
            "<path d=\"M{0:.1} {y:.1}L{1:.1} {at:.1}\" stroke=\"{2}\" stroke-opacity=\"0.6\"/>\
             <text x=\"{3:.1}\" y=\"{4:.1}\" fill=\"{2}\">{5}</text>",
            across.to + 1.0,
            across.to + 11.0,
            COLOURS[number],
            across.to + 14.0,
            at + 4.5,
            number + 1
        );
    }
}

fn nanoseconds(decade: i32) -> String {
    match decade {
        6.. => format!("{} ms", 10_i32.pow(decade as u32 - 6)),
        3.. => format!("{} µs", 10_i32.pow(decade as u32 - 3)),
        0.. => format!("{} ns", 10_i32.pow(decade as u32)),
        _ => format!("{} ns", 10_f64.powi(decade)),
    }
}

fn count(decade: i32) -> String {
    match decade {
        3.. => format!("{}k", 10_i32.pow(decade as u32 - 3)),
        _ => 10_f64.powi(decade).to_string(),
    }
}
