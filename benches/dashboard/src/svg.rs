//! Frames of a terminal as an animated SVG.

use std::fmt::Write;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

/// The size of a cell.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 18.0;
const MARGIN: f64 = 16.0;
/// The baseline of the text, from the top of a cell.
const BASELINE: f64 = 13.5;

/// Shows the frames one after another, `step` apart, in a loop. A viewer without animation shows the last one.
pub(crate) fn of(frames: &[Buffer], step: Duration) -> String {
    let columns = frames.iter().map(|frame| frame.area.width).max().unwrap_or(0);
    let rows = frames.iter().map(|frame| frame.area.height).max().unwrap_or(0);
    let width = f64::from(columns) * WIDTH + 2.0 * MARGIN;
    let height = f64::from(rows) * HEIGHT + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" role=\"img\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <title>The dashboard: slots of the timing wheel, counts and lateness</title>\n\
         <rect width=\"{width:.1}\" height=\"{height:.1}\" rx=\"8\" fill=\"#12161c\"/>\n",
    );
    let length = step.as_secs_f64() * frames.len() as f64;
    for y in 0..rows {
        let mut place = 0;
        // A row is written once for all successive frames that share it.
        for alike in frames.chunk_by(|one, other| row(one, y) == row(other, y)) {
            let text = row(&alike[0], y);
            let (first, behind) = (place, place + alike.len());
            place = behind;
            if text.is_empty() {
                continue;
            }
            if alike.len() == frames.len() {
                let _ = writeln!(svg, "{text}</text>");
                continue;
            }
            let [from, to] = [first, behind].map(|frame| frame as f64 / frames.len() as f64);
            let at_rest = if behind == frames.len() { "visible" } else { "hidden" };
            let _ = writeln!(
                svg,
                "<g visibility=\"{at_rest}\"><animate attributeName=\"visibility\" calcMode=\"discrete\" dur=\"{length}s\" \
                 repeatCount=\"indefinite\" values=\"hidden;visible;hidden\" keyTimes=\"0;{from:.4};{to:.4}\"/>{text}</text></g>",
            );
        }
    }
    svg + "</svg>\n"
}

/// The text of a row, without its closing tag; nothing if the row is empty.
fn row(buffer: &Buffer, y: u16) -> String {
    let mut text = String::new();
    let cells: Vec<_> = (0..buffer.area.width).filter_map(|x| buffer.cell((x, y))).collect();
    if cells.iter().all(|cell| cell.symbol() == " ") {
        return text;
    }
    let _ = write!(
        text,
        "<text x=\"{MARGIN}\" y=\"{:.1}\" textLength=\"{:.1}\" xml:space=\"preserve\">",
        MARGIN + f64::from(y) * HEIGHT + BASELINE,
        cells.len() as f64 * WIDTH,
    );
    for run in cells.chunk_by(|one, other| one.fg == other.fg && one.modifier == other.modifier) {
        let bold = if run[0].modifier.contains(Modifier::BOLD) { " font-weight=\"600\"" } else { "" };
        let symbols: String = run.iter().map(|cell| cell.symbol()).collect();
        let symbols = symbols.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = write!(text, "<tspan fill=\"{}\"{bold}>{symbols}</tspan>", colour(run[0].fg));
    }
    text
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
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn a_row_moves_if_it_changes_and_the_last_one_stays_if_nothing_moves() {
        let frames = ["a<", "a<", "b", "c"].map(|changes| {
            let mut buffer = Buffer::with_lines(["title", changes]);
            buffer.set_style(Rect::new(0, 0, 2, 1), Style::new().fg(Color::Cyan));
            buffer
        });
        let svg = of(&frames, Duration::from_millis(500));
        assert_eq!(
            svg.matches("<tspan fill=\"#3fb8d4\">ti</tspan><tspan fill=\"#dde3ea\">tle</tspan>").count(),
            1,
            "{svg}"
        );
        for (text, at_rest, times) in [
            ("a&lt;", "hidden", "0;0.0000;0.5000"),
            ("b", "hidden", "0;0.5000;0.7500"),
            ("c", "visible", "0;0.7500;1.0000"),
        ] {
            let line = svg.lines().find(|line| line.contains(&format!(">{text} "))).expect(text);
            assert!(line.contains(&format!("<g visibility=\"{at_rest}\">")), "{line}");
            assert!(line.contains("dur=\"2s\"") && line.contains(&format!("keyTimes=\"{times}\"")), "{line}");
        }
    }
}
