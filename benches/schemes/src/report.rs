//! The tables for the terminal and the records as CSV.

use std::error::Error;
use std::fmt::Write;

use csv::Writer;
use tools::table;

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
    for shape in [Shape::Exponential, Shape::Uniform] {
        let of_shape: Vec<&Point> = points.iter().filter(|point| point.shape == shape).collect();
        for (operation, name) in OPERATIONS.iter().enumerate() {
            let head: Vec<String> =
                [format!("{name}, ns")].into_iter().chain(sizes.iter().map(ToString::to_string)).collect();
            let row = |scheme: &[&Point]| {
                let cost = |point: &&Point| point.cost(operation).map_or("-".to_owned(), |cost| short(cost[1]));
                [scheme[0].scheme.to_owned()].into_iter().chain(scheme.iter().map(cost)).collect()
            };
            let rows: Vec<Vec<String>> = of_shape.chunks(sizes.len()).map(row).collect();
            let _ = writeln!(out, "\n{} intervals, mean {MEAN} ticks, by the number of timers", shape_name(shape));
            let _ = writeln!(out, "{}", table(&head, &rows));
        }
    }
    out
}

type Csv = Result<String, Box<dyn Error>>;

/// CSV with comments in front.
fn with_comments(comments: &str, csv: Writer<Vec<u8>>) -> Csv {
    Ok(comments.to_owned() + &String::from_utf8(csv.into_inner()?)?)
}

pub(crate) fn curves_csv(points: &[Point], machine: &str) -> Csv {
    let mut csv = Writer::from_writer(Vec::new());
    csv.write_record(
        "scheme,intervals,mean_ticks,timers,operation,median_ns,lower_quartile_ns,upper_quartile_ns,samples".split(','),
    )?;
    for point in points {
        for (operation, name) in OPERATIONS.iter().enumerate() {
            let Some(cost) = point.cost(operation) else { continue };
            let [mean, size, samples] = [MEAN as usize, point.size as usize, point.samples()].map(|n| n.to_string());
            let [low, median, high] = cost.map(|nanos| format!("{nanos:.2}"));
            let shape = shape_name(point.shape);
            csv.write_record([point.scheme, shape, &mean, &size, name, &median, &low, &high, &samples])?;
        }
    }
    with_comments(&format!("# {machine}\n# nanoseconds: the middle and the quartiles of the samples\n"), csv)
}

fn or_none(crossing: Option<f64>) -> String {
    crossing.map_or("not in this range".to_owned(), |mean| format!("T = {mean:.0}"))
}

pub(crate) fn rule_table(rule: &Rule) -> String {
    let head = ["T", "6, ns/tick", "7, ns/tick", "8, ns/tick", "6: counted down", "7: moved down", "cheaper"];
    let row = |row: &crate::rule::Row| {
        let [six, seven, ours] = row.per_tick;
        let [counted, moved, _] = row.touched.map(|touched| format!("{touched:.2}"));
        let cheaper = if six < seven { "scheme 6" } else { "scheme 7" };
        vec![row.mean.to_string(), short(six), short(seven), short(ours), counted, moved, cheaper.to_owned()]
    };
    let rows: Vec<Vec<String>> = rule.rows.iter().map(row).collect();
    format!(
        "\nScheme 6 or 7? {SIZE} timers that all fire, exponential intervals of mean T ticks; \
         M = {SLOTS} slots each, m = {LEVELS} levels\n\n{}\n\n\
         c6 = {:.2} ns to count a timer down, c7 = {:.2} ns to move one down a level\n\n\
         scheme 7 becomes the cheaper one at\n\
         \x20 {:<18} as measured\n\
         \x20 {:<18} by the rule, T/M * c6 < m * c7\n\
         \x20 {:<18} by the rule with the touches that were counted in place of T/M and m\n",
        table(&head, &rows),
        rule.c6,
        rule.c7,
        or_none(rule.measured()),
        or_none(Some(rule.by_bounds())),
        or_none(rule.by_counts())
    )
}

pub(crate) fn rule_csv(rule: &Rule, machine: &str) -> Csv {
    let mut csv = Writer::from_writer(Vec::new());
    csv.write_record("mean_ticks,scheme_6_ns_per_tick,scheme_7_ns_per_tick,hairspring_ns_per_tick,scheme_6_counted_down,scheme_7_moved_down,hairspring_moved_down".split(','))?;
    for row in &rule.rows {
        let figures = row.per_tick.map(|nanos| format!("{nanos:.2}")).into_iter();
        let figures = figures.chain(row.touched.map(|touched| format!("{touched:.3}")));
        csv.write_record([row.mean.to_string()].into_iter().chain(figures))?;
    }
    let constants = format!("c6 = {:.3} ns, c7 = {:.3} ns", rule.c6, rule.c7);
    with_comments(&format!("# {machine}\n# {SIZE} timers, {SLOTS} slots, {LEVELS} levels, {constants}\n"), csv)
}
