//! [`Reporter`]: reports the metrics of timers, maps and queues to the recorder of the crate `metrics`. Needs the
//! feature `metrics`.
//!
//! They keep their own counts and the reporter reads them periodically, so their operations cost the same with and
//! without a reporter.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::collections;
use crate::core::lease::{TimerHold, TimerLease};
use crate::future::{MissedTickBehavior, interval};
use crate::timer::{Lateness, Metrics, Timer};

const REGISTERED: &str = "hairspring_registered_total";
const FIRED: &str = "hairspring_fired_total";
const CANCELLED: &str = "hairspring_cancelled_total";
const PENDING: &str = "hairspring_pending";
const TURNS: &str = "hairspring_turns_total";
const CASCADED: &str = "hairspring_cascaded_total";

const ENTRIES: &str = "hairspring_entries";
const INSERTED: &str = "hairspring_entries_inserted_total";
const EXPIRED: &str = "hairspring_entries_expired_total";
const REMOVED: &str = "hairspring_entries_removed_total";

/// Reports what a timer has done to the recorder of the crate `metrics`. [`Timer::reporter`](crate::Timer::reporter)
/// returns one.
///
/// | name | kind | meaning |
/// |---|---|---|
/// | `hairspring_registered_total` | counter | timers that were registered |
/// | `hairspring_fired_total` | counter | timers that were fired at their deadlines |
/// | `hairspring_cancelled_total` | counter | timers that ended without being fired: dropped, found past their deadlines by a poll, or shut down |
/// | `hairspring_pending` | gauge | timers that wait now |
/// | `hairspring_lateness_seconds` | histogram | how long after its deadline each timer was fired, in seconds |
/// | `hairspring_turns_total` | counter | turns: looks for due timers, whether there were any or not |
/// | `hairspring_cascaded_total` | counter | moves of a waiting timer, down a level or within a slot of its wheel |
///
/// Each has the label `timer`, with the name given to the reporter. [`Metrics`] has the same values under the same
/// names.
///
/// Install the recorder first: the first report includes what fired before it, and another recorder does not get that
/// again. The lateness is rounded up by at most a sixteenth. The reporter passes it on through
/// `Histogram::record_many`. Recorders without a faster way, such as `metrics-exporter-prometheus`, then take one
/// sample for each timer fired since the last report.
///
/// The names follow Prometheus's conventions: counters end in `_total` and seconds in `_seconds`. The reporter gives no
/// unit that an exporter could add to a name, so the names are the same with and without `set_enable_unit_suffix` and
/// `with_recommended_naming` of `metrics-exporter-prometheus`. Without buckets, that exporter turns a histogram into a
/// summary, and you cannot add up the summaries of several processes. So give it [buckets](Reporter::LATENESS_BUCKETS):
///
/// ```ignore
/// PrometheusBuilder::new()
///     .set_buckets_for_metric(Matcher::Full(Reporter::LATENESS.into()), Reporter::LATENESS_BUCKETS)?
///     .install()?;
/// ```
///
/// A reporter is not a handle on the timer: the timer ends with its last handle even if it has a reporter.
///
/// ```
/// use hairspring::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// // Once the recorder is installed:
/// tokio::spawn(Timer::current().reporter("main").run(Duration::from_secs(10)));
/// # }
/// ```
#[must_use = "a reporter does nothing until it runs or publishes"]
pub struct Reporter {
    timer: TimerLease,
    /// So that the counts can still be read after the timer has ended. `None` if it had ended and nothing was left of
    /// it.
    _held: Option<TimerHold>,
    name: String,
    /// What has been reported.
    lateness: Box<Lateness>,
}

impl Timer {
    /// Returns a reporter that sends this timer's metrics to the recorder of the crate `metrics`, with the label
    /// `timer` set to `name`. If `name` is empty, the label is the name that the timer was
    /// [given](crate::timer::Builder::name). Needs the feature `metrics`.
    ///
    /// Give each timer a different name and create one reporter for each. If two reporters share a name, the counters
    /// show the larger value and the histogram shows both.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer};
    /// tokio::spawn(Timer::current().reporter("main").run(Duration::from_secs(10)));
    /// # }
    /// ```
    pub fn reporter(&self, name: impl Into<String>) -> Reporter {
        let name = Some(name.into()).filter(|name| !name.is_empty());
        Reporter::new(self.lease, name.unwrap_or_else(|| self.name().unwrap_or_default().to_owned()))
    }
}

impl Reporter {
    /// The name of the histogram, for an exporter that needs to know its buckets.
    ///
    /// ```
    /// assert_eq!(hairspring::timer::Reporter::LATENESS, "hairspring_lateness_seconds");
    /// ```
    pub const LATENESS: &'static str = "hairspring_lateness_seconds";

    /// Upper bounds of buckets for the lateness, in seconds, in ascending order. They are fine from 10 us, the lateness
    /// of a timer on an idle machine, to 1 s, with one more bound at 10 s. Anything later is beyond the last bound.
    ///
    /// The crate `metrics` has no way to propose buckets, so pass them to the exporter: see [`Reporter`].
    ///
    /// ```
    /// use hairspring::timer::Reporter;
    /// assert!(Reporter::LATENESS_BUCKETS.contains(&0.001), "a millisecond");
    /// ```
    pub const LATENESS_BUCKETS: &'static [f64] = &[
        0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
        0.5, 1.0, 10.0,
    ];

    fn new(timer: TimerLease, name: String) -> Self {
        Reporter { timer, _held: timer.try_hold(), name, lateness: Box::new(Lateness::new()) }
    }

    /// Reports once, to the currently installed recorder. Locks each shard for a moment.
    ///
    /// ```
    /// use hairspring::Timer;
    ///
    /// let (timer, _driver) = Timer::builder().build_with_driver().unwrap();
    /// let mut reporter = timer.reporter("exports");
    /// reporter.publish(); // for example when the metrics are scraped
    /// ```
    pub fn publish(&mut self) {
        describe();
        let now = Metrics::of(self.timer);
        let name = || self.name.clone();
        counter!(REGISTERED, "timer" => name()).absolute(now.registered());
        counter!(FIRED, "timer" => name()).absolute(now.fired());
        counter!(CANCELLED, "timer" => name()).absolute(now.cancelled());
        counter!(TURNS, "timer" => name()).absolute(now.turns());
        counter!(CASCADED, "timer" => name()).absolute(now.cascaded());
        #[allow(clippy::cast_precision_loss)] // The facade has no integer gauges.
        gauge!(PENDING, "timer" => name()).set(now.pending() as f64);
        let histogram = histogram!(Reporter::LATENESS, "timer" => name());
        for (late, count) in now.lateness().since(&self.lateness) {
            histogram.record_many(late.as_secs_f64(), count);
        }
        *self.lateness = now.lateness().clone();
    }

    /// Reports at once and then once per `every`, until the timer has ended. The last report is after that. Spawn the
    /// future on a tokio runtime. It waits on that runtime's timer, not on the timer that it reports on.
    ///
    /// # Panics
    /// If `every` is zero. Polling the future panics in the same cases as [`sleep`](crate::sleep()).
    ///
    /// # Cancel safety
    /// Dropping the future ends the reports. What the timer has done since the last report is not reported.
    ///
    /// ```
    /// use hairspring::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let reports = tokio::spawn(timer.reporter("retries").run(Duration::from_millis(1)));
    /// timer.shutdown();
    /// reports.await.unwrap();
    /// # }
    /// ```
    #[track_caller]
    pub fn run(mut self, every: Duration) -> impl Future<Output = ()> + Send + 'static {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        async move {
            let mut over = false;
            while !over {
                ticks.tick().await;
                // Asked first, so that the last report has everything.
                over = !self.timer.serves();
                self.publish();
            }
        }
    }
}

impl collections::Metrics {
    /// Reports this snapshot of a map or a queue to the recorder of the crate `metrics`, with the label `of` set to
    /// `name`. If `name` is empty, the label is the name that the map was
    /// [given](crate::deadline_map::Builder::name). Needs the feature `metrics`.
    ///
    /// | name | kind | meaning |
    /// |---|---|---|
    /// | `hairspring_entries` | gauge | entries now, including those that have expired and were not handed out yet |
    /// | `hairspring_entries_inserted_total` | counter | entries that were inserted |
    /// | `hairspring_entries_expired_total` | counter | entries that came out after their deadlines |
    /// | `hairspring_entries_removed_total` | counter | entries that were taken out in any other way |
    ///
    /// Call it periodically, or when the metrics are scraped.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration, interval};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sessions, _expirations) = DeadlineMap::<u64, ()>::builder().name("sessions").build().unwrap();
    /// tokio::spawn(async move {
    ///     let mut ticks = interval(Duration::from_secs(10));
    ///     loop {
    ///         ticks.tick().await;
    ///         sessions.metrics().publish("");
    ///     }
    /// });
    /// # }
    /// ```
    pub fn publish(&self, name: &str) {
        describe_counter!(INSERTED, Unit::Count, "Entries inserted into a map or a queue.");
        describe_counter!(EXPIRED, Unit::Count, "Entries of a map or a queue that came out after their deadlines.");
        describe_counter!(REMOVED, Unit::Count, "Entries of a map or a queue that were taken out in any other way.");
        describe_gauge!(ENTRIES, Unit::Count, "Entries of a map or a queue now.");
        let name = if name.is_empty() { self.name().unwrap_or_default() } else { name }.to_owned();
        counter!(INSERTED, "of" => name.clone()).absolute(self.inserted());
        counter!(EXPIRED, "of" => name.clone()).absolute(self.expired());
        counter!(REMOVED, "of" => name.clone()).absolute(self.removed());
        #[allow(clippy::cast_precision_loss)] // The facade has no integer gauges.
        gauge!(ENTRIES, "of" => name).set(self.len() as f64);
    }
}

/// Describes the metrics. It does so each time, because nothing says when a recorder is installed.
fn describe() {
    describe_counter!(REGISTERED, Unit::Count, "Timers registered: sleeps, timeouts and ticks that had to wait.");
    describe_counter!(FIRED, Unit::Count, "Timers fired at their deadlines.");
    describe_counter!(
        CANCELLED,
        Unit::Count,
        "Timers that ended without being fired: dropped, found past their deadlines by a poll, or shut down."
    );
    describe_counter!(TURNS, Unit::Count, "Turns: looks for due timers.");
    describe_counter!(CASCADED, Unit::Count, "Moves of a waiting timer, down a level or within a slot of its wheel.");
    describe_gauge!(PENDING, Unit::Count, "Timers waiting now.");
    // Without a unit: exporters that add it to the name would repeat it.
    describe_histogram!(Reporter::LATENESS, "How long after its deadline each timer was fired, in seconds.");
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("name", &self.name).finish_non_exhaustive()
    }
}
