//! Charts as SVG, without a background, in colours with a contrast of 4.5 to 1 on white and on black.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const TEXT: RGBColor = RGBColor(117, 117, 117);
const FONT: &str = "system-ui, 'DejaVu Sans', sans-serif";

/// One for each curve.
const COLOURS: [RGBColor; 8] = [
    RGBColor(23, 119, 208),
    RGBColor(192, 86, 10),
    RGBColor(24, 135, 55),
    RGBColor(134, 90, 226),
    RGBColor(139, 114, 67),
    RGBColor(15, 130, 138),
    RGBColor(204, 52, 162),
    RGBColor(225, 42, 53),
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
    pub curves: Vec<Vec<(f64, f64)>>,
}

/// Panels of curves side by side. All have the same `names` of curves, and the first letter of each is at one of its
/// points, so that curves can be told apart where they lie on each other.
pub fn curves(head: [&str; 2], names: &[&str], panels: &[Panel], axes: [&Axis; 2]) -> String {
    svg((1_000, 390), head, names, |area| {
        for (area, panel) in area.split_evenly((1, panels.len())).iter().zip(panels) {
            draw_panel(area, names, panel, axes);
        }
    })
}

fn draw_panel(area: &Area<'_>, names: &[&str], panel: &Panel, [x, y]: [&Axis; 2]) {
    write(area, (58, 10), 14, TEXT, &panel.title);
    let mut chart = ChartBuilder::on(area);
    chart.margin_top(30).margin_right(24).x_label_area_size(30).y_label_area_size(56);
    let mut chart = chart.build_cartesian_2d(x.range.clone(), y.range.clone()).expect("it is in memory");
    let (x_label, y_label) = (|value: &f64| (x.label)(*value), |value: &f64| (y.label)(*value));
    let mut mesh = chart.configure_mesh();
    mesh.x_labels(6).y_labels(7).x_label_formatter(&x_label).y_label_formatter(&y_label).axis_style(TEXT.mix(0.3));
    mesh.light_line_style(TRANSPARENT).bold_line_style(TEXT.mix(0.3)).label_style(font(12).color(&TEXT));
    mesh.draw().expect("it is in memory");
    for (number, curve) in panel.curves.iter().enumerate() {
        let line = LineSeries::new(curve.iter().copied(), colour(number).stroke_width(2));
        chart.draw_series(line).expect("it is in memory");
        let letter = names[number].chars().next().map(String::from).unwrap_or_default();
        let points = curve.iter().skip(number % curve.len().max(1)).take(1);
        let shade = colour(number);
        let style = font(13).color(&shade);
        let mark = |&at: &(f64, f64)| {
            let dot = Circle::new((0, 0), 3, shade.filled());
            EmptyElement::at(at) + dot + Text::new(letter.clone(), (4, -15), style.clone())
        };
        chart.draw_series(points.map(mark)).expect("it is in memory");
    }
}

/// A picture with a title, a note at the bottom and a legend.
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
    fn a_chart_has_a_panel_for_each_set_of_curves_even_without_points() {
        let axis = Axis { range: 0.0..3.0, label: |value| format!("{value} ms") };
        let panel = |curve: &[(f64, f64)]| Panel { title: "a scenario".to_owned(), curves: vec![curve.to_vec()] };
        let panels = [panel(&[(0.0, 1.0), (1.0, 2.0)]), panel(&[])];
        let svg = curves(["How late", "a note"], &["ours"], &panels, [&axis, &axis]);
        assert_eq!(svg.matches("a scenario").count(), 2);
        assert!(["How late", "a note", "ours", "1 ms"].iter().all(|text| svg.contains(text)), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
