//! The curves: three panels, both axes logarithmic.

use tools::chart::{Axis, Panel, curves};

use crate::curves::{MEAN, OPERATIONS, Point};
use crate::load::Shape;

pub(crate) fn draw(points: &[Point], sizes: &[u32], machine: &str) -> String {
    let drawn: Vec<&Point> = points.iter().filter(|point| point.shape == Shape::Exponential).collect();
    let schemes: Vec<&[&Point]> = drawn.chunks(sizes.len()).collect();
    let curve = |scheme: &[&Point], operation| {
        let costs = scheme.iter().filter_map(|point| Some((f64::from(point.size), point.cost(operation)?[1])));
        costs.map(|(size, nanos)| (size.log10(), nanos.log10())).collect::<Vec<_>>()
    };
    let panel = |(operation, name): (usize, &&str)| Panel {
        title: (*name).to_owned(),
        notes: Vec::new(),
        curves: schemes.iter().map(|scheme| curve(scheme, operation)).collect(),
    };
    let panels: Vec<Panel> = OPERATIONS.iter().enumerate().map(panel).collect();
    let all = || panels.iter().flat_map(|panel| panel.curves.iter().flatten());
    let [sizes, nanos] = [all().map(|point| point.0).collect(), all().map(|point| point.1).collect::<Vec<f64>>()];
    let title = format!("Nanoseconds against outstanding timers; exponential intervals, mean {MEAN} ticks");
    let names: Vec<&str> = schemes.iter().map(|scheme| scheme[0].scheme).collect();
    let axes = [&decades(&sizes, |power| format!("{:.0}", 10_f64.powf(power))), &decades(&nanos, nanoseconds)];
    curves([&title, machine], &names, &panels, axes, OPERATIONS.len(), false)
}

/// An axis of whole decades.
fn decades(powers: &[f64], label: fn(f64) -> String) -> Axis {
    let low = powers.iter().copied().fold(f64::INFINITY, f64::min).floor();
    let high = powers.iter().copied().fold(low + 1.0, f64::max).ceil();
    Axis { range: low..high, label }
}

fn nanoseconds(power: f64) -> String {
    match power {
        6.0.. => format!("{:.0} ms", 10_f64.powf(power - 6.0)),
        3.0.. => format!("{:.0} µs", 10_f64.powf(power - 3.0)),
        0.0.. => format!("{:.0} ns", 10_f64.powf(power)),
        _ => format!("{:.1} ns", 10_f64.powf(power)),
    }
}
