//! The histograms on the terminal.

use std::fmt::Write;
use std::time::Duration;

use crate::comparison::{Comparison, Outcome};
use crate::distribution::in_words;

/// Where a line of the histogram ends and the next begins, in microseconds.
const EDGES: [u64; 10] = [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];
/// How many characters the longest bar has.
const BAR: f64 = 24.0;
/// How many a library has for itself.
const COLUMN: usize = 36;
const LABEL: usize = 18;

/// Both histograms side by side, and the figures below them.
pub(crate) fn show(comparison: &Comparison) -> String {
    let both = [&comparison.hairspring, &comparison.tokio];
    let edges = EDGES.map(Duration::from_micros);
    let shares = both.map(|outcome| outcome.lateness.shares(&edges));
    let longest = shares.iter().flatten().copied().fold(0.0, f64::max);

    let mut text = format!("{}\n", comparison.scenario);
    line(&mut text, "late by", ["hairspring", "tokio::time"].map(|name| format!("{:10}{name}", "")));
    let is_empty = |row: usize| shares.iter().all(|shares| shares[row] == 0.0);
    let rows = 0..shares[0].len();
    let first = rows.clone().find(|&row| !is_empty(row)).unwrap_or(0);
    for row in first..rows.end {
        if (row..rows.end).all(is_empty) {
            break;
        }
        let bars =
            [&shares[0], &shares[1]].map(|shares| format!("{}  {}", share(shares[row]), bar(shares[row], longest)));
        line(&mut text, &label(row), bars);
    }
    let mut figure = |name, of: fn(&Outcome) -> Option<String>| {
        // Where the system does not tell, there is no such line.
        if let (Some(ours), Some(theirs)) = (of(both[0]), of(both[1])) {
            line(&mut text, name, [ours, theirs].map(|figure| format!("{figure:>8}")));
        }
    };
    figure("p50", |outcome| Some(in_words(outcome.lateness.percentile(50))));
    figure("p90", |outcome| Some(in_words(outcome.lateness.percentile(90))));
    figure("p99", |outcome| Some(in_words(outcome.lateness.percentile(99))));
    figure("max", |outcome| Some(in_words(outcome.lateness.percentile(100))));
    figure("sleeps", |outcome| Some(outcome.lateness.count().to_string()));
    figure("processor", |outcome| Some(format!("{:.1} %", outcome.processor?)));
    text.truncate(text.trim_end().len());
    text
}

fn line(text: &mut String, label: &str, columns: [String; 2]) {
    let [ours, theirs] = columns;
    let line = format!("  {label:>LABEL$}  {ours:COLUMN$}{theirs}");
    let _ = writeln!(text, "{}", line.trim_end());
}

fn label(row: usize) -> String {
    let edge = |number: usize| match EDGES[number] {
        micros @ ..1_000 => format!("{micros} µs"),
        micros => format!("{} ms", micros / 1_000),
    };
    match row {
        0 => format!("less than {}", edge(0)),
        _ if row == EDGES.len() => format!("{} or more", edge(row - 1)),
        _ => format!("{} to {}", edge(row - 1), edge(row)),
    }
}

/// A share of so many per cent, in eight characters.
fn share(percent: f64) -> String {
    match percent {
        0.0 => " ".repeat(8),
        ..0.05 => " < 0.1 %".to_owned(),
        _ => format!("{percent:>6.1} %"),
    }
}

/// A bar to an eighth of a character, and no less than that for what is not nothing.
fn bar(share: f64, longest: f64) -> String {
    const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    if share == 0.0 {
        return String::new();
    }
    let mut rest = share / longest * BAR;
    let mut bar = String::new();
    while rest > 1.0 {
        bar.push('█');
        rest -= 1.0;
    }
    let mut last = EIGHTHS[0];
    for eighth in EIGHTHS {
        last = eighth;
        rest -= 1.0 / 8.0;
        if rest < 1.0 / 16.0 {
            break;
        }
    }
    bar.push(last);
    bar
}

// Run with `cargo test --example lateness`.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(0.0, 50.0), "");
        assert_eq!(bar(0.001, 50.0), "▏");
        assert_eq!(bar(50.0, 50.0), "█".repeat(24));
        assert_eq!(bar(25.0, 50.0), "█".repeat(12));
        assert_eq!(bar(26.0, 50.0), "█".repeat(12) + "▌");
    }

    #[test]
    fn rows_name_their_limits() {
        assert_eq!([0, 1, 7, 10].map(label), ["less than 10 µs", "10 µs to 20 µs", "1 ms to 2 ms", "10 ms or more"]);
    }
}
