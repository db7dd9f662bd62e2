//! A frame as a picture: each cell of the terminal at its place.
//!
//! Blocks and lines are drawn as shapes, so that they join whatever the font is.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

/// Of a cell.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 18.0;
const MARGIN: f64 = 16.0;
/// From the top of a cell to the line that letters stand on.
const BASELINE: f64 = 13.5;
/// Above and below what fills a cell, so that lines of slots stay apart.
const SLOT_GAP: f64 = 2.0;

const BACKGROUND: &str = "#12161c";
const EDGE: &str = "#3a424d";

/// The picture has a background of its own, as a terminal has, so it is the same on white and on black.
pub(crate) fn of(buffer: &Buffer) -> String {
    let width = f64::from(buffer.area.width) * WIDTH + 2.0 * MARGIN;
    let height = f64::from(used_height(buffer)) * HEIGHT + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" role=\"img\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <title>The dashboard: slots of the timing wheel, counts and lateness</title>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{:.1}\" height=\"{:.1}\" rx=\"8\" fill=\"{BACKGROUND}\" stroke=\"{EDGE}\"/>\n",
        width - 1.0,
        height - 1.0,
    );
    for y in 0..used_height(buffer) {
        row(&mut svg, buffer, y);
    }
    svg + "</svg>\n"
}

/// Up to the last row that has something in it.
fn used_height(buffer: &Buffer) -> u16 {
    let is_used = |y: &u16| (0..buffer.area.width).any(|x| buffer[(x, *y)].symbol() != " ");
    (0..buffer.area.height).rfind(is_used).map_or(0, |y| y + 1)
}

fn row(svg: &mut String, buffer: &Buffer, y: u16) {
    let top = MARGIN + f64::from(y) * HEIGHT;
    let mut x = 0;
    while x < buffer.area.width {
        let cell = &buffer[(x, y)];
        let left = MARGIN + f64::from(x) * WIDTH;
        if shape(svg, cell, left, top) || cell.symbol() == " " {
            x += 1;
            continue;
        }
        let end = end_of_text(buffer, x, y);
        let text: String = (x..end).map(|x| buffer[(x, y)].symbol()).collect();
        let weight = if cell.modifier.contains(Modifier::BOLD) { " font-weight=\"600\"" } else { "" };
        let _ = writeln!(
            svg,
            "<text x=\"{left:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" fill=\"{}\"{weight}>{}</text>",
            top + BASELINE,
            f64::from(end - x) * WIDTH,
            colour(cell.fg),
            escape(&text),
        );
        x = end;
    }
}

/// Draws a cell that is a block or a line, and says whether it is.
fn shape(svg: &mut String, cell: &Cell, left: f64, top: f64) -> bool {
    let (x, y, width, height) = match cell.symbol() {
        "▊" => (left + 1.0, top + SLOT_GAP, WIDTH - 2.0, HEIGHT - 2.0 * SLOT_GAP),
        "·" => (left + WIDTH / 2.0 - 1.0, top + HEIGHT / 2.0 - 1.0, 2.0, 2.0),
        "─" => (left, top + HEIGHT / 2.0 - 0.5, WIDTH, 1.0),
        symbol => match "▁▂▃▄▅▆▇█".chars().position(|block| symbol.chars().eq([block])) {
            Some(eighths) => {
                let height = HEIGHT * f64::from(u8::try_from(eighths).unwrap_or(7) + 1) / 8.0;
                (left, top + HEIGHT - height, WIDTH, height)
            }
            None => return false,
        },
    };
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"/>",
        colour(cell.fg)
    );
    true
}

/// Where the words end that begin at a cell: before two blanks, a shape or another style.
fn end_of_text(buffer: &Buffer, start: u16, y: u16) -> u16 {
    let first = &buffer[(start, y)];
    let is_blank = |x: u16| x >= buffer.area.width || buffer[(x, y)].symbol() == " ";
    let goes_on = |x: &u16| {
        let cell = &buffer[(*x, y)];
        let is_shape = shape(&mut String::new(), cell, 0.0, 0.0);
        !is_shape && cell.fg == first.fg && cell.modifier == first.modifier && !(is_blank(*x) && is_blank(x + 1))
    };
    (start..buffer.area.width).take_while(goes_on).last().map_or(start + 1, |last| last + 1)
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn words_are_texts_and_blocks_are_shapes() {
        let mut buffer = Buffer::with_lines(["late by  ▊█", "a<b      ··", "           "]);
        buffer.set_style(ratatui::layout::Rect::new(9, 0, 2, 1), Style::new().fg(Color::Cyan));
        let svg = of(&buffer);
        for part in [">late by</text>", ">a&lt;b</text>", "fill=\"#3fb8d4\""] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
        // The background, and what stands in four cells.
        assert_eq!((svg.matches("<rect").count(), svg.matches("<text").count()), (5, 2));
    }
}
