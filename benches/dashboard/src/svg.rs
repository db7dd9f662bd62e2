//! A frame as a picture: what is in the cells of the terminal, as text.

use std::fmt::Write;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

/// Of a cell.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 18.0;
const MARGIN: f64 = 16.0;
/// From the top of a cell to the line that letters stand on.
const BASELINE: f64 = 13.5;

/// The picture has a background of its own, as a terminal has, so it is the same on white and on black.
pub(crate) fn of(buffer: &Buffer) -> String {
    let width = f64::from(buffer.area.width) * WIDTH + 2.0 * MARGIN;
    let height = f64::from(used_height(buffer)) * HEIGHT + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" role=\"img\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <title>The dashboard: slots of the timing wheel, counts and lateness</title>\n\
         <rect width=\"{width:.1}\" height=\"{height:.1}\" rx=\"8\" fill=\"#12161c\"/>\n",
    );
    for y in 0..used_height(buffer) {
        let cells: Vec<_> = (0..buffer.area.width).map(|x| (x, &buffer[(x, y)])).collect();
        for run in cells.chunk_by(|(_, one), (_, other)| one.fg == other.fg && one.modifier == other.modifier) {
            let (x, first) = run[0];
            let text: String = run.iter().map(|(_, cell)| cell.symbol()).collect();
            if text.trim().is_empty() {
                continue;
            }
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" xml:space=\"preserve\" fill=\"{}\"{}>{}</text>",
                MARGIN + f64::from(x) * WIDTH,
                MARGIN + f64::from(y) * HEIGHT + BASELINE,
                run.len() as f64 * WIDTH,
                colour(first.fg),
                if first.modifier.contains(Modifier::BOLD) { " font-weight=\"600\"" } else { "" },
                text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"),
            );
        }
    }
    svg + "</svg>\n"
}

/// Up to the last row that has something in it.
fn used_height(buffer: &Buffer) -> u16 {
    let is_used = |y: &u16| (0..buffer.area.width).any(|x| buffer[(x, *y)].symbol() != " ");
    (0..buffer.area.height).rfind(is_used).map_or(0, |y| y + 1)
}

fn colour(colour: Color) -> &'static str {
    match colour {
        Color::Cyan => "#3fb8d4",
        Color::Blue => "#24566b",
        Color::Yellow => "#f0a33e",
        Color::Green => "#7ecb8f",
        Color::DarkGray => "#7d8794",
        _ => "#dde3ea",
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn each_style_is_a_text_and_empty_rows_at_the_end_are_none() {
        let mut buffer = Buffer::with_lines(["late by  ▊█", "a<b      ··", "           "]);
        buffer.set_style(ratatui::layout::Rect::new(9, 0, 2, 1), Style::new().fg(Color::Cyan));
        let svg = of(&buffer);
        for part in [">late by  </text>", ">a&lt;b      ··</text>", "fill=\"#3fb8d4\">▊█</text>", " 68.0\""] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
    }
}
