//! The tables for the terminal and the records as CSV.

use std::fmt::Write;

use crate::curves::{MEAN, OPERATIONS, Point};
use crate::load::Shape;
use crate::rule::{Rule, SIZE};
use crate::schemes::{LEVELS, SLOTS};

pub(crate) fn shape_name(shape: Shape) -> &'static str {
    match shape {
        Shape::Exponential => "exponential",
        Shape::Uniform => "uniform",
    }
}

/// Three digits are all that such a measurement is good for.
fn short(ns: f64) -> String {
    match ns {
        ..10.0 => format!("{ns:.1}"),
        ..10_000.0 => format!("{ns:.0}"),
        _ => format!("{:.0}k", ns / 1_000.0),
    }
}

pub(crate) fn curves_table(points: &[Point], sizes: &[u32]) -> String {
    let mut out = String::new();
    let line = &mut out;
    for shape in [Shape::Exponential, Shape::Uniform] {
        for (operation, name) in OPERATIONS.iter().enumerate() {
            let _ = write!(line, "\n{:<22}", format!("{name}, ns"));
            for size in sizes {
                let _ = write!(line, "{size:>9}");
            }
            let _ = writeln!(line, "   timers, {} intervals, mean {MEAN} ticks", shape_name(shape));
            let of_shape: Vec<&Point> = points.iter().filter(|point| point.shape == shape).collect();
            for scheme in of_shape.chunks(sizes.len()) {
                let _ = write!(line, "{:<22}", scheme[0].scheme);
                for point in scheme {
                    let cost = point.cost(operation).map_or("-".to_owned(), |cost| short(cost.median));
                    let _ = write!(line, "{cost:>9}");
                }
                line.push('\n');
            }
        }
    }
    out
}

pub(crate) fn curves_csv(points: &[Point], machine: &str) -> String {
    let mut out = format!(
        "# {machine}\n# nanoseconds: the middle and the quartiles of the samples\n\
         scheme,intervals,mean_ticks,timers,operation,median_ns,lower_quartile_ns,upper_quartile_ns,samples\n"
    );
    for point in points {
        for (operation, name) in OPERATIONS.iter().enumerate() {
            let Some(cost) = point.cost(operation) else { continue };
            let _ = writeln!(
                out,
                "{},{},{MEAN},{},{name},{:.2},{:.2},{:.2},{}",
                point.scheme,
                shape_name(point.shape),
                point.size,
                cost.median,
                cost.low,
                cost.high,
                point.samples()
            );
        }
    }
    out
}

fn or_none(crossing: Option<f64>) -> String {
    crossing.map_or("not in this range".to_owned(), |mean| format!("T = {mean:.0}"))
}

pub(crate) fn rule_table(rule: &Rule) -> String {
    let mut out = format!(
        "\nScheme 6 or 7? {SIZE} timers that all fire, exponential intervals of mean T ticks; \
         M = {SLOTS} slots each, m = {LEVELS} levels\n\n\
         {:>8} | {:>9}{:>9}{:>9} | {:>10}{:>10} | {:>10}\n\
         {:>8} | {:>9}{:>9}{:>9} | {:>10}{:>10} |\n",
        "", "6", "7", "8", "6: counted", "7: moved", "cheaper", "T", "ns/tick", "ns/tick", "ns/tick", "down", "down"
    );
    for row in &rule.rows {
        let [six, seven, ours] = row.per_tick;
        let _ = writeln!(
            out,
            "{:>8} | {:>9}{:>9}{:>9} | {:>10.2}{:>10.2} | {:>10}",
            row.mean,
            short(six),
            short(seven),
            short(ours),
            row.touched[0],
            row.touched[1],
            if six < seven { "scheme 6" } else { "scheme 7" }
        );
    }
    let _ = write!(
        out,
        "\nc6 = {:.2} ns to count a timer down, c7 = {:.2} ns to move one down a level\n\n\
         scheme 7 becomes the cheaper one at\n\
         \x20 {:<18} as measured\n\
         \x20 {:<18} by the rule, T/M * c6 < m * c7\n\
         \x20 {:<18} by the rule with the touches that were counted in place of T/M and m\n",
        rule.c6,
        rule.c7,
        or_none(rule.measured()),
        or_none(Some(rule.by_bounds())),
        or_none(rule.by_counts())
    );
    out
}

pub(crate) fn rule_csv(rule: &Rule, machine: &str) -> String {
    let mut out = format!(
        "# {machine}\n# {SIZE} timers, {SLOTS} slots, {LEVELS} levels, c6 = {:.3} ns, c7 = {:.3} ns\n\
         mean_ticks,scheme_6_ns_per_tick,scheme_7_ns_per_tick,hairspring_ns_per_tick,\
         scheme_6_counted_down,scheme_7_moved_down,hairspring_moved_down\n",
        rule.c6, rule.c7
    );
    for row in &rule.rows {
        let [six, seven, ours] = row.per_tick;
        let [counted, moved, ours_moved] = row.touched;
        let _ = writeln!(out, "{},{six:.2},{seven:.2},{ours:.2},{counted:.3},{moved:.3},{ours_moved:.3}", row.mean);
    }
    out
}
