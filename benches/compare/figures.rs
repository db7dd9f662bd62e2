//! Figures in nanoseconds, and rows of them.

/// How wide the columns are.
macro_rules! columns {
    () => {
        "{:<52}{:>11}{:>11}{:>8}   {}"
    };
}

pub(crate) fn heading() -> String {
    format!(columns!(), "", "hairspring", "tokio", "ratio", "lowest..highest")
}

/// A row: the medians of both sides, and of the ratio in each round. There is a figure for each round.
pub(crate) fn row(name: &str, ours: &[f64], theirs: &[f64]) -> String {
    let ratios: Vec<_> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    let [ours, theirs] = [ours, theirs].map(|side| in_words(percentile(side, 50)));
    let [low, middle, high] = [0, 50, 100].map(|percent| format!("{:.2}", percentile(&ratios, percent)));
    format!(columns!(), format!("  {name}"), ours, theirs, middle, format!("{low}..{high}"))
}

/// The figure with so many percent of the others below it: 0 for the lowest, 100 for the highest. NaN of nothing.
pub(crate) fn percentile(figures: &[f64], percent: usize) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (percent * sorted.len().saturating_sub(1) + 50) / 100;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

fn in_words(nanos: f64) -> String {
    match nanos {
        ..99.95 => format!("{nanos:.1} ns"),
        ..999.5 => format!("{nanos:.0} ns"),
        ..99_950.0 => format!("{:.1} µs", nanos / 1e3),
        ..999_500.0 => format!("{:.0} µs", nanos / 1e3),
        _ => format!("{:.2} ms", nanos / 1e6),
    }
}
