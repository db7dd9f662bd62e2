//! Charts as SVG, without a background and in colours that are legible on white and on black.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const TEXT: RGBColor = RGBColor(128, 136, 145);
const FONT: &str = "system-ui, 'DejaVu Sans', sans-serif";

/// One per curve.
const COLOURS: [RGBColor; 8] = [
    RGBColor(63, 143, 210),
    RGBColor(224, 135, 42),
    RGBColor(47, 158, 89),
    RGBColor(154, 110, 224),
    RGBColor(168, 121, 59),
    RGBColor(29, 155, 176),
    RGBColor(208, 86, 159),
    RGBColor(229, 72, 77),
];

/// An axis that all panels share.
#[derive(Debug, Clone)]
pub struct Axis {
    pub range: Range<f64>,
    pub label: fn(f64) -> String,
}

#[derive(Debug, Clone)]
pub struct Panel {
    pub title: String,
    /// One line per curve, in its colour.
    pub notes: Vec<String>,
    pub curves: Vec<Vec<(f64, f64)>>,
}

/// Panels of curves, optionally filled. Each panel has the same curves, called `names`.
pub fn curves(
    head: [&str; 2],
    names: &[&str],
    panels: &[Panel],
    axes: [&Axis; 2],
    columns: usize,
    fill: bool,
) -> String {
    let rows = panels.len().div_ceil(columns);
    svg((1_000, 70 + 300 * rows as u32 + 20), head, names, |area| {
        for (area, panel) in area.split_evenly((rows, columns)).iter().zip(panels) {
            draw_panel(area, panel, axes, fill);
        }
    })
}

fn draw_panel(area: &Area<'_>, panel: &Panel, [x, y]: [&Axis; 2], fill: bool) {
    let notes = 18 * panel.notes.len() as i32;
    write(area, (58, 10), 14, TEXT, &panel.title);
    for (number, note) in panel.notes.iter().enumerate() {
        write(area, (58, 30 + 18 * number as i32), 12, colour(number), note);
    }
    let mut chart = ChartBuilder::on(area);
    chart.margin_top(30 + notes).margin_right(24).x_label_area_size(30).y_label_area_size(56);
    let mut chart = chart.build_cartesian_2d(x.range.clone(), y.range.clone()).expect("it is in memory");
    let (x_label, y_label) = (|value: &f64| (x.label)(*value), |value: &f64| (y.label)(*value));
    let mut mesh = chart.configure_mesh();
    mesh.x_labels(6).y_labels(7).x_label_formatter(&x_label).y_label_formatter(&y_label).axis_style(TEXT.mix(0.3));
    mesh.light_line_style(TRANSPARENT).bold_line_style(TEXT.mix(0.3)).label_style(font(12).color(&TEXT));
    mesh.draw().expect("it is in memory");
    for (number, curve) in panel.curves.iter().enumerate() {
        let points = curve.iter().copied();
        let colour = colour(number);
        let drawn = if fill {
            let area = AreaSeries::new(points, y.range.start, colour.mix(0.35));
            chart.draw_series(area.border_style(colour.stroke_width(2))).map(drop)
        } else {
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2))).map(drop)
        };
        drawn.expect("it is in memory");
    }
}

/// A picture with a title, a footnote and a legend.
fn svg(size: (u32, u32), [title, note]: [&str; 2], names: &[&str], draw: impl FnOnce(&Area<'_>)) -> String {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        write(&area, (12, 8), 17, TEXT, title);
        write(&area, (12, size.1 as i32 - 16), 10, TEXT, note);
        let mut left = 12;
        for (number, name) in names.iter().enumerate() {
            area.draw(&Rectangle::new([(left, 38), (left + 12, 50)], colour(number).filled()))
                .expect("it is in memory");
            write(&area, (left + 18, 37), 13, TEXT, name);
            left += 24 + 6 * name.len() as i32;
        }
        let (_, rest) = area.split_vertically(60);
        let (inner, _) = rest.split_vertically(size.1 - 80);
        draw(&inner);
        area.present().expect("it is in memory");
    }
    svg
}

fn write(area: &Area<'_>, at: (i32, i32), size: u32, colour: RGBColor, text: &str) {
    area.draw_text(text, &font(size).color(&colour), at).expect("it is in memory");
}

fn font<'a>(size: u32) -> TextStyle<'a> {
    (FONT, size).into_text_style(&(1_000, 1_000))
}

fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_draws_every_panel_even_if_it_is_empty() {
        let axis = Axis { range: 0.0..3.0, label: |value| format!("{value} ms") };
        let panel = |curve: &[(f64, f64)]| Panel {
            title: "a scenario".to_owned(),
            notes: vec!["p50 1".to_owned()],
            curves: vec![curve.to_vec()],
        };
        let panels = [panel(&[(0.0, 1.0), (1.0, 2.0)]), panel(&[])];
        for fill in [true, false] {
            let svg = curves(["How late", "a note"], &["ours"], &panels, [&axis, &axis], 2, fill);
            assert_eq!(svg.matches("a scenario").count(), 2);
            assert!(["How late", "a note", "ours", "p50 1", "1 ms"].iter().all(|text| svg.contains(text)), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
