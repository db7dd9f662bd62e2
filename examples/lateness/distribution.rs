//! A set of latenesses, to be asked for percentiles and shares.
//!
//! `benches/rivals` uses this file too.

use std::time::Duration;

/// Latenesses, in order.
pub(crate) struct Distribution(Vec<Duration>);

impl Distribution {
    pub(crate) fn of(mut latenesses: Vec<Duration>) -> Self {
        latenesses.sort_unstable();
        Distribution(latenesses)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest that at least `percent` of them do not exceed; zero where there are none.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or_default()
    }

    /// The shares in per cent that lie below the first of the edges, between each two, and from the last on.
    pub(crate) fn shares(&self, edges: &[Duration]) -> Vec<f64> {
        let mut shares = Vec::new();
        let mut below = 0;
        let ends = edges.iter().map(|edge| self.0.partition_point(|late| late < edge)).chain([self.0.len()]);
        for end in ends {
            shares.push(percent(end - below, self.0.len()));
            below = end;
        }
        shares
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    let [part, whole] = [part, whole].map(|count| f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    if whole == 0.0 { 0.0 } else { 100.0 * part / whole }
}

/// Microseconds up to a millisecond, and milliseconds from there on.
pub(crate) fn in_words(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..9.95 => format!("{micros:.1} µs"),
        ..999.5 => format!("{micros:.0} µs"),
        _ => format!("{:.1} ms", micros / 1e3),
    }
}

// Run with `cargo test --example lateness`.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let values = Distribution::of((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!([50, 99, 100].map(|percent| values.percentile(percent).as_millis()), [100, 198, 200]);
        assert_eq!(Distribution::of(Vec::new()).percentile(99), Duration::ZERO);
    }

    #[test]
    fn shares_are_of_all_and_an_edge_belongs_to_the_upper_one() {
        let values = Distribution::of([1, 2, 3, 9].map(Duration::from_millis).to_vec());
        assert_eq!(values.shares(&[2, 5].map(Duration::from_millis)), [25.0, 50.0, 25.0]);
        assert_eq!(Distribution::of(Vec::new()).shares(&[Duration::ZERO]), [0.0, 0.0]);
    }

    #[test]
    fn words_have_the_unit_that_fits() {
        let words = [1_500, 63_400, 999_400, 999_600, 12_340_000].map(|nanos| in_words(Duration::from_nanos(nanos)));
        assert_eq!(words, ["1.5 µs", "63 µs", "999 µs", "1.0 ms", "12.3 ms"]);
    }
}
