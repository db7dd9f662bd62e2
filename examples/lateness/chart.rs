//! The chart: a panel for each scenario, with both histograms over one another.
//!
//! There is no background, and the colours are of middling brightness, so that it can be read on white and on black.
//!
//! `benches/rivals` uses this file too.

use std::fmt::Write;
use std::time::Duration;

use super::comparison::{Comparison, Outcome};
use super::distribution::in_words;

const WIDTH: f64 = 920.0;
/// Above all panels: title and legend.
const HEAD: f64 = 58.0;
/// Above a panel: its scenario and figures.
const ABOVE: f64 = 68.0;
/// Below a panel: the numbers and the name of its axis.
const BELOW: f64 = 54.0;
/// Below all panels: a note.
const FOOT: f64 = 16.0;
const PANEL_HEIGHT: f64 = 180.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 22.0;
const GAP: f64 = 44.0;

const TEXT: &str = "#808891";
const HAIRSPRING: &str = "#3f8fd2";
const TOKIO: &str = "#e0872a";

/// The axis goes from 10 µs to 10 ms. What lies beyond is counted with the first and the last column.
const DECADES: [(f64, &str); 4] = [(0.0, "10 µs"), (1.0, "100 µs"), (2.0, "1 ms"), (3.0, "10 ms")];
const COLUMNS_PER_DECADE: u32 = 10;
const COLUMNS: u32 = 3 * COLUMNS_PER_DECADE;

/// Draws the chart, with a note that says what it is `about`.
pub(crate) fn draw(comparisons: &[Comparison], about: &str) -> String {
    let (in_a_row, panels) = if comparisons.len() == 4 { (2, 2.0) } else { (3, 3.0) };
    let width = (WIDTH - LEFT - RIGHT - GAP * (panels - 1.0)) / panels;
    let scale = Scale::to_hold(comparisons);

    let mut panels = String::new();
    let mut y = HEAD;
    for row in comparisons.chunks(in_a_row) {
        let mut left = LEFT;
        for comparison in row {
            Panel { left, top: y + ABOVE, width, scale: &scale }.draw(&mut panels, comparison);
            left += width + GAP;
        }
        y += ABOVE + PANEL_HEIGHT + BELOW;
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\" fill=\"{TEXT}\">\n\
         <title>How late sleeps of 1 to 10 ms end, on hairspring and on tokio::time</title>\n",
        y + FOOT
    );
    legend(&mut svg);
    footnote(&mut svg, y + 6.0, about);
    svg + &panels + "</svg>\n"
}

fn legend(svg: &mut String) {
    text(svg, LEFT, 22.0, "font-size=\"17\" font-weight=\"600\"", "How late sleeps of 1 to 10 ms end");
    for (x, colour, name) in [(LEFT, HAIRSPRING, "hairspring"), (LEFT + 120.0, TOKIO, "tokio::time")] {
        let _ = writeln!(svg, "<rect x=\"{x:.1}\" y=\"37\" width=\"14\" height=\"12\" {}/>", style(colour));
        text(svg, x + 22.0, 48.0, "font-size=\"13\"", name);
    }
}

fn footnote(svg: &mut String, y: f64, about: &str) {
    let note = format!("{about}. 100 % is one processor. The columns at the edges hold what lies beyond them.");
    text(svg, LEFT, y, "font-size=\"10\"", &note);
}

/// The vertical axis, the same in all panels, in per cent.
struct Scale {
    step: f64,
    top: f64,
}

impl Scale {
    fn to_hold(comparisons: &[Comparison]) -> Self {
        let outcomes = comparisons.iter().flat_map(|comparison| [&comparison.hairspring, &comparison.tokio]);
        let highest = outcomes.flat_map(columns).fold(1.0, f64::max);
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * 6.0 >= highest).unwrap_or(20.0);
        let mut top = 0.0;
        while top < highest {
            top += step;
        }
        Scale { step, top }
    }
}

struct Panel<'a> {
    left: f64,
    top: f64,
    width: f64,
    scale: &'a Scale,
}

impl Panel<'_> {
    fn draw(&self, svg: &mut String, comparison: &Comparison) {
        let Panel { left, top, .. } = self;
        text(svg, *left, top - 48.0, "font-weight=\"600\" font-size=\"13\"", &comparison.scenario);
        let both = [(&comparison.hairspring, HAIRSPRING, 31.0), (&comparison.tokio, TOKIO, 14.0)];
        for (outcome, colour, above) in both {
            text(svg, *left, top - above, &format!("fill=\"{colour}\""), &figures(outcome));
        }
        self.axes(svg);
        for (outcome, colour, _) in both {
            let _ =
                writeln!(svg, "<path d=\"{}\" stroke-linejoin=\"round\" {}/>", self.outline(outcome), style(colour));
        }
    }

    fn axes(&self, svg: &mut String) {
        let Panel { left, top, width, scale } = self;
        let bottom = top + PANEL_HEIGHT;
        let is_first = *left <= LEFT;
        let mut percent = 0.0;
        while percent <= scale.top {
            let y = self.height_of(percent);
            let _ =
                writeln!(svg, "<path d=\"M{left:.1} {y:.1}h{width:.1}\" stroke=\"{TEXT}\" stroke-opacity=\"0.3\"/>");
            if is_first {
                text(svg, left - 8.0, y + 4.0, "text-anchor=\"end\"", &format!("{percent} %"));
            }
            percent += scale.step;
        }
        for (decades, name) in DECADES {
            let x = self.place_of(decades);
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {top:.1}v{:.1}\" stroke=\"{TEXT}\" stroke-opacity=\"0.3\"/>",
                PANEL_HEIGHT + 5.0
            );
            text(svg, x, bottom + 19.0, "text-anchor=\"middle\"", name);
        }
        text(svg, left + width / 2.0, bottom + 38.0, "text-anchor=\"middle\"", "late by");
        if is_first {
            let (x, y) = (left - 48.0, top + PANEL_HEIGHT / 2.0);
            let turned = format!("transform=\"rotate(-90 {x:.1} {y:.1})\" text-anchor=\"middle\"");
            text(svg, x, y, &turned, "share of sleeps");
        }
    }

    /// The outline of a histogram, from the first column that is not empty to the last.
    fn outline(&self, outcome: &Outcome) -> String {
        let columns = columns(outcome);
        let is_full = |column: &f64| *column > 0.0;
        let first = columns.iter().position(is_full).unwrap_or(0);
        let last = columns.iter().rposition(is_full).unwrap_or(0);
        let mut outline = String::new();
        for (number, column) in (0..COLUMNS).zip(columns).take(last + 1).skip(first) {
            if outline.is_empty() {
                let _ = write!(outline, "M{:.1} {:.1}", self.place_of(decades_at(number)), self.height_of(0.0));
            }
            let right = self.place_of(decades_at(number + 1));
            let _ = write!(outline, "V{:.1}H{right:.1}", self.height_of(column));
        }
        let _ = write!(outline, "V{:.1}Z", self.height_of(0.0));
        outline
    }

    fn place_of(&self, decades: f64) -> f64 {
        self.left + self.width * decades / decades_at(COLUMNS)
    }

    fn height_of(&self, percent: f64) -> f64 {
        self.top + PANEL_HEIGHT * (1.0 - percent / self.scale.top)
    }
}

/// How many decades the left edge of a column is above 10 µs.
fn decades_at(column: u32) -> f64 {
    f64::from(column) / f64::from(COLUMNS_PER_DECADE)
}

/// The share of each column, in per cent.
fn columns(outcome: &Outcome) -> Vec<f64> {
    let edge = |column| Duration::from_secs_f64(1e-5 * 10_f64.powf(decades_at(column)));
    // The outermost edges are left out: what lies beyond them belongs to the columns beside them.
    let edges: Vec<_> = (1..COLUMNS).map(edge).collect();
    outcome.lateness.shares(&edges)
}

fn figures(outcome: &Outcome) -> String {
    let [p50, p99] = [50, 99].map(|percent| in_words(outcome.lateness.percentile(percent)));
    let processor = outcome.processor.map_or_else(String::new, |percent| format!(" · processor {percent:.1} %"));
    format!("p50 {p50} · p99 {p99}{processor}")
}

fn style(colour: &str) -> String {
    format!("fill=\"{colour}\" fill-opacity=\"0.35\" stroke=\"{colour}\" stroke-width=\"2\"")
}

fn text(svg: &mut String, x: f64, y: f64, style: &str, what: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{what}</text>");
}

// Run with `cargo test --example lateness`.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;

    fn outcome(micros: &[u64]) -> Outcome {
        let lateness = Distribution::of(micros.iter().copied().map(Duration::from_micros).collect());
        Outcome { lateness, processor: None }
    }

    #[test]
    fn columns_hold_all_sleeps() {
        let columns = columns(&outcome(&[1, 10, 99, 101, 9_999, 50_000]));
        assert_eq!(columns.len(), usize::try_from(COLUMNS).unwrap());
        assert!((columns.iter().sum::<f64>() - 100.0).abs() < 1e-9, "{columns:?}");
        for (column, percent) in [(0, 200.0 / 6.0), (9, 100.0 / 6.0), (10, 100.0 / 6.0), (29, 200.0 / 6.0)] {
            assert!((columns[column] - percent).abs() < 1e-9, "{columns:?}");
        }
    }

    #[test]
    fn draws_a_panel_for_each_scenario_also_of_nothing() {
        for panels in [3, 4] {
            let compare = |_| {
                let scenario = "a scenario".to_owned();
                Comparison { scenario, hairspring: outcome(&[60]), tokio: outcome(&[]) }
            };
            let svg = draw(&(0..panels).map(compare).collect::<Vec<_>>(), "a test");
            assert_eq!(svg.matches("late by").count(), panels);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
