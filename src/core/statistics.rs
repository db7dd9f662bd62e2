//! A timer's counts: [`Snapshot`], and [`Lateness`], how long after their deadlines timers fired.
//!
//! `Lateness` is a histogram with buckets of constant relative width, as in Gil Tene's `HdrHistogram`. Recording takes
//! place under a shard's lock and is cheap: the highest bits of the value are the index of a counter.

use std::time::Duration;

use crate::wheel::Ticks;

/// Each power of two is divided into 2^`FINE` buckets.
const FINE: u32 = 4;
/// Buckets reach up to 2^`WIDEST` nanoseconds, 18 minutes. The last one also counts everything above.
const WIDEST: u32 = 40;
const BUCKETS: usize = ((WIDEST - FINE + 1) << FINE) as usize;

/// How long after their deadlines timers fired: a snapshot from [`Metrics::lateness`](crate::timer::Metrics::lateness).
///
/// ```
/// use hairspring::{Duration, Timer, sleep};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// sleep(Duration::from_millis(1)).await;
/// let lateness = Timer::current().metrics().lateness().clone();
/// assert!(lateness.quantile(0.5) <= lateness.quantile(0.99));
/// assert!(lateness.quantile(1.0) == lateness.max());
/// # }
/// ```
///
/// Lateness is the time from the deadline, rounded up to the timer's resolution, until the driver fires the timer. It
/// does not include the time until the runtime polls the woken task. A sleep is not counted if the timer had reached its
/// deadline before its first poll.
#[doc(alias = "histogram")]
#[derive(Clone, PartialEq, Eq)]
pub struct Lateness {
    counts: [u64; BUCKETS],
    max: Ticks,
}

impl Default for Lateness {
    fn default() -> Self {
        Lateness { counts: [0; BUCKETS], max: Ticks(0) }
    }
}

impl Lateness {
    #[inline]
    pub(crate) fn record(&mut self, late: Ticks) {
        self.counts[bucket(late)] += 1;
        self.max = self.max.max(late);
    }

    pub(crate) fn add(&mut self, other: &Lateness) {
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
        self.max = self.max.max(other.max);
    }

    /// The values recorded since `before`, rounded up as in [`quantile`](Lateness::quantile), and how often each
    /// occurred.
    #[cfg(feature = "metrics")]
    pub(crate) fn since(&self, before: &Lateness) -> impl Iterator<Item = (Duration, usize)> {
        let counts = self.counts.iter().zip(&before.counts).enumerate();
        counts.filter_map(|(bucket, (now, before))| {
            // The count is lower than before if the timer has ended and its memory was reused.
            let count = usize::try_from(now.saturating_sub(*before)).unwrap_or(usize::MAX);
            (count > 0).then(|| (Duration::from_nanos(last_of(bucket).min(self.max).0), count))
        })
    }

    /// Returns the number of timers that fired.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let metrics = hairspring::Timer::current().metrics();
    /// assert_eq!(metrics.lateness().count(), metrics.fired());
    /// # }
    /// ```
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the lateness that the given share of timers did not exceed. With 0.99, one timer in a hundred was later.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lateness = hairspring::Timer::current().metrics().lateness().clone();
    /// assert_eq!(lateness.quantile(0.99), hairspring::Duration::ZERO, "nothing has fired");
    /// # }
    /// ```
    ///
    /// The result is rounded up, by at most a sixteenth, and is never above [`max`](Lateness::max). If it exceeds 18
    /// minutes, it is `max`. It is zero if no timer has fired.
    ///
    /// # Panics
    ///
    /// Panics if `share` is not in the range 0 to 1.
    #[doc(alias = "percentile")]
    #[must_use]
    #[track_caller]
    pub fn quantile(&self, share: f64) -> Duration {
        assert!((0.0..=1.0).contains(&share), "quantile({share}): the share must be from 0 to 1");
        // The product of a share such as 7/25 may lie a little above a whole number.
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let wanted = ((self.count() as f64 * share * (1.0 - f64::EPSILON)).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.counts.iter().position(|&count| {
            seen += count;
            seen >= wanted
        });
        let late = reached.map_or(Ticks(0), |bucket| last_of(bucket).min(self.max));
        Duration::from_nanos(late.0)
    }

    /// Returns the exact lateness of the latest timer; zero if no timer has fired.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lateness = hairspring::Timer::current().metrics().lateness().clone();
    /// assert_eq!(lateness.max(), hairspring::Duration::ZERO, "nothing has fired");
    /// # }
    /// ```
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max.0)
    }
}

#[inline]
fn bucket(late: Ticks) -> usize {
    let late = late.0.min((1 << WIDEST) - 1);
    // Leaves the `FINE` + 1 highest bits of the value.
    let shift = (u64::BITS - 1 - FINE).saturating_sub(late.leading_zeros());
    #[allow(clippy::cast_possible_truncation)] // It is less than `BUCKETS`.
    let bucket = ((u64::from(shift) << FINE) + (late >> shift)) as usize;
    bucket
}

fn last_of(bucket: usize) -> Ticks {
    let bucket = bucket as u64;
    if bucket == BUCKETS as u64 - 1 {
        return Ticks(u64::MAX);
    }
    let shift = (bucket >> FINE).saturating_sub(1);
    let within = bucket - (shift << FINE);
    Ticks(((within + 1) << shift) - 1)
}

impl std::fmt::Debug for Lateness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lateness")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

/// A timer's counts; see [`Metrics`](crate::timer::Metrics). An entry that neither fired nor is pending was cancelled.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) registered: u64,
    pub(crate) pending: u64,
    pub(crate) refused: u64,
    pub(crate) capacity: Option<usize>,
    pub(crate) turns: u64,
    pub(crate) cascaded: u64,
    pub(crate) lateness: Lateness,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> impl Iterator<Item = u64> {
        let edges = (0..64).map(|power| 1_u64 << power).flat_map(|edge| [edge - 1, edge, edge + 1, edge + edge / 3]);
        (0..5000).chain(edges).chain([u64::MAX])
    }

    #[test]
    fn a_bucket_is_a_sixteenth_wide_and_holds_its_values() {
        for value in values() {
            let bucket = bucket(Ticks(value));
            let last = last_of(bucket).0;
            assert!(value <= last, "{value} is in bucket {bucket}, which ends at {last}");
            assert!(bucket == 0 || value > last_of(bucket - 1).0, "{value} is in bucket {bucket}");
            assert!(bucket == BUCKETS - 1 || last - value <= value / 16, "{value} is rounded up to {last}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut lateness = Lateness::default();
        let mut values: Vec<u64> = (0..1000).map(|n| n * n * 37).collect();
        for &value in &values {
            lateness.record(Ticks(value));
        }
        values.sort_unstable();
        for (share, rank) in [(0.0, 1), (0.001, 1), (0.5, 500), (0.99, 990), (0.999, 999), (1.0, 1000)] {
            let exact = values[rank - 1];
            let reported = u64::try_from(lateness.quantile(share).as_nanos()).unwrap();
            assert!(reported >= exact && reported - exact <= exact / 16, "{share}: {reported} for {exact}");
        }
        assert_eq!(lateness.quantile(1.0), lateness.max());
        assert_eq!(lateness.max(), Duration::from_nanos(999 * 999 * 37));
    }

    #[test]
    fn adding_two_is_recording_into_one() {
        let (mut left, mut right, mut both) = (Lateness::default(), Lateness::default(), Lateness::default());
        for value in values() {
            if value % 3 == 0 {
                left.record(Ticks(value));
            } else {
                right.record(Ticks(value));
            }
            both.record(Ticks(value));
        }
        left.add(&right);
        assert_eq!((left.counts, left.max), (both.counts, both.max));
    }

    /// A bug that this crate had: 25 times 0.28 is a little more than 7.
    #[test]
    fn a_share_that_ends_between_two_timers_does_not_count_the_later() {
        for of in 1..200 {
            for soon in 1..of {
                let mut lateness = Lateness::default();
                (0..of).for_each(|n| lateness.record(Ticks(if n < soon { 1 } else { 1_000_000_000 })));
                let share = f64::from(soon) / f64::from(of);
                assert_eq!(lateness.quantile(share), Duration::from_nanos(1), "{soon} of {of}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "quantile(99): the share must be from 0 to 1")]
    fn a_share_above_one_is_refused() {
        let _ = Lateness::default().quantile(99.0);
    }
}
