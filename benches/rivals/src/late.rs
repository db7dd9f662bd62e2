//! How late sleeps end and what that costs: hairspring with either alarm, `tokio::time` and async-io.
//!
//! They take turns of a second, each in a process of its own and with the same random numbers, and another one begins
//! each time: what else the machine does falls on all.

use std::error::Error;
use std::fs;
use std::time::Duration;

use clap::Args;
use tools::chart::{Axis, Panel, curves};

use crate::cell::{Cell, Outcome, row, save};
use crate::contenders::{TIMERFD, named};
use crate::rival::Rival;
use crate::rivals::{AsyncIo, Hairspring, Tokio};
use crate::{chart_line, in_words, machine_line, results};

const WHOLE_RUN: u32 = 5;

#[derive(Debug, Args)]
pub struct Options {
    /// How many turns of a second each has in each scenario
    #[arg(long, default_value_t = WHOLE_RUN, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
}

/// Who takes part; ratios are to tokio.
const CONTENDERS: [&str; 5] = [Hairspring::NAME, TIMERFD, "hairspring, timerfd, 10 µs", Tokio::NAME, AsyncIo::NAME];

/// Measures, prints tables, and keeps them with a chart. Fails if a sleep of ours ended early.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    println!("{}", machine_line());
    let scenarios = [(1, 2, false), (50, 2, false), (1_000, 2, false), (50, 4, true)];
    let (mut lines, mut panels, mut early) = (Vec::new(), Vec::new(), 0);
    for (tasks, workers, has_blocked) in scenarios {
        let cell = Cell { tasks, workers, has_blocked, ..Cell::default() };
        let rows = cell.compare(&CONTENDERS.map(named), options.seconds, &mut lines);
        let drawn = [Hairspring::NAME, Tokio::NAME].map(|name| &row(&rows, name).expect("it takes part").all);
        panels.push(panel(cell.to_string(), drawn));
        early += rows.iter().filter(|row| row.who.is_ours).map(|row| row.all.early).sum::<u64>();
    }
    // Only a whole run is worth keeping.
    let name = if options.seconds < WHOLE_RUN { "quick" } else { "late" };
    fs::write(results(name).with_extension("svg"), draw(&panels, options.seconds))?;
    save(name, &lines)?;
    if early > 0 {
        Err(format!("BAD: {early} of hairspring's sleeps ended before their deadline").into())
    } else {
        Ok(())
    }
}

/// The histograms of one scenario: the horizontal axis is the power of ten of microseconds, from 10 µs to 10 ms. What is
/// beyond is counted with the first and the last column.
fn panel(title: String, contenders: [&Outcome; 2]) -> Panel {
    const COLUMNS: u32 = 30;
    let power = |column| 1.0 + 3.0 * f64::from(column) / f64::from(COLUMNS);
    let nanos = |column| (1e3 * 10_f64.powf(power(column))) as u64;
    let share = |contender: &Outcome, column| {
        let low = if column == 0 { 0 } else { nanos(column) };
        let high = if column + 1 == COLUMNS { u64::MAX } else { nanos(column + 1) - 1 };
        100.0 * contender.lateness.count_between(low, high) as f64 / contender.lateness.len().max(1) as f64
    };
    let outline = |contender| {
        let steps = |column| [(power(column), share(contender, column)), (power(column + 1), share(contender, column))];
        (0..COLUMNS).flat_map(steps).collect()
    };
    let note = |contender: &Outcome| {
        let [p50, p99] = [50.0, 99.0].map(|percent| in_words(contender.percentile(percent)));
        format!("p50 {p50} · p99 {p99} · processor {:.1} %", contender.processor_percent())
    };
    Panel { title, notes: contenders.map(note).to_vec(), curves: contenders.map(outline).to_vec() }
}

fn draw(panels: &[Panel], seconds: u32) -> String {
    let label = |power: f64| in_words(Duration::from_secs_f64(1e-6 * 10_f64.powf(power)));
    let highest =
        panels.iter().flat_map(|panel| panel.curves.iter().flatten()).map(|point| point.1).fold(1.0, f64::max);
    let late = Axis { range: 1.0..4.0, label };
    let share = Axis { range: 0.0..highest * 1.05, label: |percent| format!("{percent:.0} %") };
    let note = format!(
        "Share of sleeps by how late they end; default settings; {seconds} s each; 100 % is one processor; the columns at \
         the edges hold the rest. {}",
        chart_line(&["tokio"])
    );
    let names = [Hairspring::NAME, Tokio::NAME];
    curves(["How late sleeps of 1 to 10 ms end", &note], &names, panels, [&late, &share], 2, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hold_all_sleeps() {
        let mut contender = Outcome::default();
        for micros in [1, 10, 95, 101, 9_900, 50_000] {
            contender.lateness.record(micros * 1_000).unwrap();
        }
        let panel = panel(String::new(), [&contender, &contender]);
        let columns: Vec<f64> = panel.curves[0].iter().step_by(2).map(|point| point.1).collect();
        assert!((columns.iter().sum::<f64>() - 100.0).abs() < 1e-9, "{columns:?}");
        for (column, of_six) in [(0, 2.0), (9, 1.0), (10, 1.0), (29, 2.0)] {
            assert!((columns[column] - 100.0 * of_six / 6.0).abs() < 1e-9, "{columns:?}");
        }
        let words = [1_500, 63_400, 999_400, 999_600, 12_340_000].map(|nanos| in_words(Duration::from_nanos(nanos)));
        assert_eq!(words, ["1.5 µs", "63 µs", "999 µs", "1.0 ms", "12.3 ms"]);
    }
}
