//! Shared by the other programs in this workspace.

pub mod chart;
mod gate;
pub mod machine;
mod table;

use std::time::Duration;

pub use fastrand::Rng;
pub use gate::Gate;
pub use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};

pub use table::table;

/// A progress bar on standard error, if that is a terminal.
pub fn progress(what: &str, steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}, {elapsed}");
    ProgressBar::new(steps).with_style(style.expect("the template is valid")).with_message(what.to_owned())
}

/// A random duration from `shortest` to `longest`, exclusive, to the nanosecond.
pub fn between(random: &mut Rng, shortest: Duration, longest: Duration) -> Duration {
    let spread = u64::try_from(longest.saturating_sub(shortest).as_nanos()).unwrap_or(u64::MAX);
    shortest + Duration::from_nanos(random.u64(..spread.max(1)))
}

/// Formats a number with commas between the thousands.
pub fn thousands(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// The quantile for a share from 0, the minimum, to 1, the maximum.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}

/// The same of numbers in any order, for several shares.
pub fn quantiles<const N: usize>(mut numbers: Vec<f64>, shares: [f64; N]) -> [f64; N] {
    numbers.sort_by(f64::total_cmp);
    shares.map(|share| quantile(&numbers, share))
}

pub fn median(numbers: Vec<f64>) -> f64 {
    quantiles(numbers, [0.5])[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        let numbers = [1.0, 2.0, 4.0, 8.0];
        assert_eq!([0.0, 0.5, 0.75, 1.0].map(|share| quantile(&numbers, share).to_string()), ["1", "3", "5", "8"]);
        assert_eq!(median(vec![9.0, 1.0, 5.0]).to_string(), "5");
    }

    #[test]
    fn random_durations_are_in_range_and_repeat_for_a_seed() {
        let [short, long] = [1, 3].map(Duration::from_millis);
        let draw = || between(&mut Rng::with_seed(7), short, long);
        assert!((short..long).contains(&draw()));
        assert_eq!(draw(), draw());
        assert_eq!(between(&mut Rng::with_seed(7), long, long), long);
    }
}
