//! [`Reporter`]: reports the metrics of timers, maps and queues to the recorder of the crate `metrics`. Needs the
//! feature `metrics`.
//!
//! Timers, maps and queues keep their own counts, which the reporter reads periodically. Their operations cost the same
//! with and without it; only a queue copies its counts after each poll.

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::collections::deadline_map::DeadlineMap;
use crate::collections::delay_queue::DelayQueue;
use crate::collections::{self, Published};
use crate::future::{MissedTickBehavior, interval};
use crate::timer::{Lateness, Metrics, Timer};

const REGISTERED: &str = "hairspring_sleeps_registered_total";
const FIRED: &str = "hairspring_sleeps_fired_total";
const CANCELLED: &str = "hairspring_sleeps_cancelled_total";
const REFUSED: &str = "hairspring_sleeps_refused_total";
const PENDING: &str = "hairspring_sleeps_pending";
const MAX_PENDING: &str = "hairspring_sleeps_max_pending";
const TURNS: &str = "hairspring_turns_total";

const INSERTED: &str = "hairspring_entries_inserted_total";
const EXPIRED: &str = "hairspring_entries_expired_total";
const REMOVED: &str = "hairspring_entries_removed_total";
const ENTRIES_REFUSED: &str = "hairspring_entries_refused_total";
const ENTRIES_PENDING: &str = "hairspring_entries_pending";
const ENTRIES_MAX: &str = "hairspring_entries_max";

/// Reports the metrics of a timer, a map or a queue to the recorder of the crate `metrics`.
/// [`Timer::reporter`](crate::Timer::reporter), [`DeadlineMap::reporter`](crate::DeadlineMap::reporter) and
/// [`DelayQueue::reporter`](crate::DelayQueue::reporter) return one.
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
///
/// The reporter of a timer reports these with the label `name`. [`Metrics`] has the same values. Timeouts and ticks of
/// intervals count as sleeps, and so does a queue or a map that waits for its first entry.
///
/// | metric | kind | unit | counts |
/// |---|---|---|---|
/// | `hairspring_sleeps_registered_total` | counter | sleeps | those that had to wait |
/// | `hairspring_sleeps_fired_total` | counter | sleeps | those that fired |
/// | `hairspring_sleeps_cancelled_total` | counter | sleeps | those that ended without firing: dropped, reset to a time that has passed, or shut down |
/// | `hairspring_sleeps_refused_total` | counter | registrations | those refused because the timer was full |
/// | `hairspring_sleeps_pending` | gauge | sleeps | those that wait now |
/// | `hairspring_sleeps_max_pending` | gauge | sleeps | how many may wait at a time; absent if there is no limit |
/// | `hairspring_lateness_seconds` | histogram | seconds | how late each sleep fired |
/// | `hairspring_turns_total` | counter | turns | runs over the timer, whether anything was due or not |
///
/// The reporter of a map or a queue reports these with the labels `name` and `kind`, which is `map` or `queue`.
/// [`deadline_map::Metrics`](crate::deadline_map::Metrics) has the same values.
///
/// | metric | kind | unit | counts |
/// |---|---|---|---|
/// | `hairspring_entries_inserted_total` | counter | entries | those inserted |
/// | `hairspring_entries_expired_total` | counter | entries | those handed out after their deadlines |
/// | `hairspring_entries_removed_total` | counter | entries | those removed in any other way |
/// | `hairspring_entries_refused_total` | counter | entries | those refused because the map was full |
/// | `hairspring_entries_pending` | gauge | entries | those there now, including expired ones that were not yet handed out |
/// | `hairspring_entries_max` | gauge | entries | how many the map may hold; absent if there is no limit |
///
/// Install the recorder first: the first report includes all sleeps that fired before it, and a recorder installed
/// later misses them. The lateness is rounded up by at most a sixteenth, and passed on through
/// `Histogram::record_many`, which recorders such as that of `metrics-exporter-prometheus` turn into one sample per
/// sleep.
///
/// Names follow Prometheus's conventions. They are the same with and without `set_enable_unit_suffix` and
/// `with_recommended_naming` of `metrics-exporter-prometheus`. Without buckets, that exporter turns the histogram into
/// a summary, and summaries of several processes cannot be added up. Give it [buckets](Reporter::LATENESS_BUCKETS):
///
/// ```ignore
/// PrometheusBuilder::new()
///     .set_buckets_for_metric(Matcher::Full(Reporter::LATENESS.into()), Reporter::LATENESS_BUCKETS)?
///     .install()?;
/// ```
///
/// A reporter does not keep a timer, a map or a queue alive.
#[must_use = "a reporter does nothing until it runs or publishes"]
#[doc(alias = "Prometheus")]
pub struct Reporter {
    name: String,
    /// Reports under a name, and returns whether this was the last report.
    report: Box<dyn FnMut(&str) -> bool + Send + Sync>,
}

// Only counts are reached, not keys and values.
impl UnwindSafe for Reporter {}
impl RefUnwindSafe for Reporter {}

impl Timer {
    /// Returns a reporter of this timer's metrics, with the label `name` set to `name`. Needs the feature `metrics`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer};
    /// tokio::spawn(Timer::current().reporter("main").run(Duration::from_secs(10)));
    /// # }
    /// ```
    ///
    /// The label need not be the timer's own [name](crate::timer::Builder::name), which only spans and errors show.
    /// Create one reporter per timer, each with its own name. If two reporters share a name, counters show the larger
    /// value and the histogram shows both.
    pub fn reporter(&self, name: impl Into<String>) -> Reporter {
        // Keeps the counts readable after the timer has ended.
        let guard = self.lease.guard();
        let mut before = Box::new(Lateness::default());
        Reporter::new(name.into(), move |name| {
            let timer = guard.lease();
            // Asked first, so the last report is complete. While a timer ends, some still wait.
            let has_ended = !timer.is_open();
            let now = Metrics::of(timer);
            publish_timer(name, &now, &before);
            *before = now.lateness().clone();
            has_ended && now.pending() == 0
        })
    }
}

impl<K: Send + 'static, V: Send + 'static, S> DeadlineMap<K, V, S> {
    /// Returns a reporter of this map's metrics, with the label `name` set to `name`, and `kind` to `map`. Needs the
    /// feature `metrics`.
    ///
    /// The last report follows when all handles and the stream have been dropped. It has the final counts, and no
    /// entries.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sessions, expirations) = DeadlineMap::<u64, ()>::new();
    /// let reports = tokio::spawn(sessions.reporter("sessions").run(Duration::from_millis(1)));
    /// drop((sessions, expirations));
    /// reports.await.unwrap();
    /// # }
    /// ```
    pub fn reporter(&self, name: impl Into<String>) -> Reporter {
        Reporter::of_entries(name.into(), "map", self.reader())
    }
}

impl<T> DelayQueue<T> {
    /// Returns a reporter of this queue's metrics, with the label `name` set to `name`, and `kind` to `queue`. Needs
    /// the feature `metrics`.
    ///
    /// A queue belongs to one task, so the reporter sees the counts as of this call, or as of the last poll, or the last
    /// `drain` or `clear` that took entries. When the queue is dropped, those of them that remained count as removed.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use hairspring::{DelayQueue, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut retries = DelayQueue::new();
    /// tokio::spawn(retries.reporter("retries").run(Duration::from_secs(10)));
    /// retries.insert("ping", Duration::from_millis(1));
    /// assert_eq!(retries.next().await.unwrap().into_inner(), "ping");
    /// # }
    /// ```
    pub fn reporter(&mut self, name: impl Into<String>) -> Reporter {
        Reporter::of_entries(name.into(), "queue", self.reader())
    }
}

impl Reporter {
    /// The name of the histogram, to set its buckets in an exporter.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(hairspring::timer::Reporter::LATENESS, "hairspring_lateness_seconds");
    /// ```
    pub const LATENESS: &'static str = "hairspring_lateness_seconds";

    /// Upper bounds of buckets for the lateness, in seconds, ascending. They are dense from 10 us to 1 s, and the last
    /// is 10 s. The crate `metrics` cannot propose buckets, so pass them to the exporter: see [`Reporter`].
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::timer::Reporter;
    /// assert!(Reporter::LATENESS_BUCKETS.contains(&0.001), "a millisecond");
    /// ```
    pub const LATENESS_BUCKETS: &'static [f64] = &[
        0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
        0.5, 1.0, 10.0,
    ];

    fn new(name: String, report: impl FnMut(&str) -> bool + Send + Sync + 'static) -> Self {
        Reporter { name, report: Box::new(report) }
    }

    fn of_entries(name: String, kind: &'static str, read: impl Fn() -> Published + Send + Sync + 'static) -> Self {
        Reporter::new(name, move |name| {
            let Published { counts, is_over } = read();
            publish_entries(name, kind, &counts);
            is_over
        })
    }

    /// Reports once, to the currently installed recorder. Briefly locks each shard of the timer or the map.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::Timer;
    ///
    /// let mut reporter = Timer::current().reporter("exports");
    /// reporter.publish(); // for example when the metrics are scraped
    /// ```
    pub fn publish(&mut self) {
        (self.report)(&self.name);
    }

    /// Reports immediately and then once per `every`. Completes with a last report after the timer has ended, or the
    /// map or the queue was dropped. Spawn the future on a tokio runtime: it waits on that runtime's timer, not on the
    /// reported one.
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
    ///
    /// # Panics
    ///
    /// Panics if `every` is zero. Polling panics as [`sleep`](crate::sleep()) does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the reports. Counts since the last report are not reported.
    #[track_caller]
    pub fn run(mut self, every: Duration) -> impl Future<Output = ()> + Send + 'static {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        async move {
            let mut is_over = false;
            while !is_over {
                ticks.tick().await;
                is_over = (self.report)(&self.name);
            }
        }
    }
}

fn publish_timer(name: &str, now: &Metrics, before: &Lateness) {
    describe_timer();
    let name = || name.to_owned();
    counter!(REGISTERED, "name" => name()).absolute(now.registered());
    counter!(FIRED, "name" => name()).absolute(now.fired());
    counter!(CANCELLED, "name" => name()).absolute(now.cancelled());
    counter!(REFUSED, "name" => name()).absolute(now.refused());
    counter!(TURNS, "name" => name()).absolute(now.turns());
    gauge!(PENDING, "name" => name()).set(float(now.pending()));
    if let Some(most) = now.max_pending() {
        gauge!(MAX_PENDING, "name" => name()).set(float(most as u64));
    }
    let histogram = histogram!(Reporter::LATENESS, "name" => name());
    for (late, count) in now.lateness().since(before) {
        histogram.record_many(late.as_secs_f64(), count);
    }
}

fn publish_entries(name: &str, kind: &'static str, now: &collections::Metrics) {
    describe_entries();
    let name = || name.to_owned();
    counter!(INSERTED, "name" => name(), "kind" => kind).absolute(now.inserted());
    counter!(EXPIRED, "name" => name(), "kind" => kind).absolute(now.expired());
    counter!(REMOVED, "name" => name(), "kind" => kind).absolute(now.removed());
    counter!(ENTRIES_REFUSED, "name" => name(), "kind" => kind).absolute(now.refused());
    gauge!(ENTRIES_PENDING, "name" => name(), "kind" => kind).set(float(now.pending()));
    if let Some(most) = now.max_entries() {
        gauge!(ENTRIES_MAX, "name" => name(), "kind" => kind).set(float(most as u64));
    }
}

/// The facade has no integer gauges.
#[allow(clippy::cast_precision_loss)]
fn float(count: u64) -> f64 {
    count as f64
}

/// Called for each report, because a recorder may have been installed since the last.
fn describe_timer() {
    describe_counter!(REGISTERED, Unit::Count, "Sleeps, timeouts and ticks that had to wait.");
    describe_counter!(FIRED, Unit::Count, "Sleeps fired.");
    describe_counter!(
        CANCELLED,
        Unit::Count,
        "Sleeps that ended without firing: dropped, reset to a time that has passed, or shut down."
    );
    describe_counter!(REFUSED, Unit::Count, "Registrations refused because the timer was full.");
    describe_counter!(TURNS, Unit::Count, "Runs over the timer.");
    describe_gauge!(PENDING, Unit::Count, "Sleeps waiting now.");
    describe_gauge!(MAX_PENDING, Unit::Count, "How many sleeps may wait at a time.");
    // Without a unit: exporters that add it to the name would repeat it.
    describe_histogram!(Reporter::LATENESS, "How late each sleep fired, in seconds.");
}

fn describe_entries() {
    describe_counter!(INSERTED, Unit::Count, "Entries inserted into a map or a queue.");
    describe_counter!(EXPIRED, Unit::Count, "Entries of a map or a queue handed out after their deadlines.");
    describe_counter!(REMOVED, Unit::Count, "Entries of a map or a queue removed in any other way.");
    describe_counter!(ENTRIES_REFUSED, Unit::Count, "Entries refused because the map was full.");
    describe_gauge!(ENTRIES_PENDING, Unit::Count, "Entries of a map or a queue now.");
    describe_gauge!(ENTRIES_MAX, Unit::Count, "How many entries a map may hold.");
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("name", &self.name).finish_non_exhaustive()
    }
}
