//! [`Reporter`]: a timer's metrics, told to the recorder of the `metrics` crate. Needs the feature `metrics`.
//!
//! A timer counts for itself and is read now and then, so that its operations cost the same whether they are reported or
//! not.
//!
//! Must not know: shards, the wheel.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::core::shards::{TimerHold, TimerLease};
use crate::future::{MissedTickBehavior, interval};
use crate::timer::{Lateness, Metrics, Timer};

const REGISTERED: &str = "hairspring_registered_total";
const FIRED: &str = "hairspring_fired_total";
const CANCELLED: &str = "hairspring_cancelled_total";
const PENDING: &str = "hairspring_pending";
const TURNS: &str = "hairspring_turns_total";
const CASCADED: &str = "hairspring_cascaded_total";

/// Tells the recorder of the crate `metrics` what a timer has done. Made by
/// [`Timer::reporter`](crate::Timer::reporter).
///
/// | name | kind | what |
/// |---|---|---|
/// | `hairspring_registered_total` | counter | timers that were armed |
/// | `hairspring_fired_total` | counter | timers that were fired at their deadlines |
/// | `hairspring_cancelled_total` | counter | timers that ended without being fired: dropped, found past their deadlines by a poll, or shut down |
/// | `hairspring_pending` | gauge | timers that wait now |
/// | `hairspring_lateness_seconds` | histogram | how long after its deadline each timer was fired, in seconds |
/// | `hairspring_turns_total` | counter | times that the timer was looked at for something due, whether there was or not |
/// | `hairspring_cascaded_total` | counter | times that a waiting timer was moved to a finer level of its wheel |
///
/// Each has the label `timer`, with the name given to the reporter. They are what [`Metrics`] has under the same names.
///
/// Install the recorder first: what fired before the first report is in it, and not told again to another recorder.
/// The lateness is rounded up, by a sixteenth at most. It is handed over by `Histogram::record_many`; recorders that have
/// no shorter way, `metrics-exporter-prometheus` among them, then take one sample for each timer fired since the last
/// report.
///
/// The names are those of Prometheus as they are, counters with `_total` and seconds with `_seconds`, so no unit is told
/// that an exporter could add to a name: they come out the same with `set_enable_unit_suffix` and
/// `with_recommended_naming` of `metrics-exporter-prometheus`, and without. That exporter makes a summary of a histogram
/// that has no buckets, and summaries of several processes cannot be added up. So give it [some](Reporter::LATENESS_BUCKETS):
///
/// ```ignore
/// PrometheusBuilder::new()
///     .set_buckets_for_metric(Matcher::Full(Reporter::LATENESS.into()), Reporter::LATENESS_BUCKETS)?
///     .install()?;
/// ```
///
/// The reporter is no handle on the timer: it does not keep it from ending with the last.
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
    /// So that there is something to read when the timer has ended. `None` if it had, and nothing was left of it.
    _held: Option<TimerHold>,
    name: String,
    /// What has been told.
    lateness: Box<Lateness>,
}

impl Timer {
    /// Reports what this timer does to the recorder of the crate `metrics`, with the label `timer` set to `name`. Needs
    /// the feature `metrics`.
    ///
    /// Give each timer a name of its own, and report on it once: the counters of two with one name would show the larger,
    /// and the histogram both.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer};
    /// tokio::spawn(Timer::current().reporter("main").run(Duration::from_secs(10)));
    /// # }
    /// ```
    pub fn reporter(&self, name: impl Into<String>) -> Reporter {
        Reporter::new(self.lease, name.into())
    }
}

impl Reporter {
    /// The name of the histogram, for an exporter that is to be told its buckets.
    ///
    /// ```
    /// assert_eq!(hairspring::timer::Reporter::LATENESS, "hairspring_lateness_seconds");
    /// ```
    pub const LATENESS: &'static str = "hairspring_lateness_seconds";

    /// Upper bounds of buckets for the lateness, in seconds, in rising order: fine from 10 us, as a timer on an idle
    /// machine is that late, to 1 s, and one bound at 10 s. What is later belongs beyond the last.
    ///
    /// The facade has no way to propose buckets, so an exporter has to be given them: see [`Reporter`].
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

    /// Reports once, to the recorder that is installed here. Locks each shard for a moment.
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

    /// Reports at once and then `every` so often, until the timer has ended: the last report comes after that. To be
    /// spawned on a tokio runtime. It waits there, not on the timer that it reports on.
    ///
    /// # Panics
    /// Where `every` is zero, and when polled as [`sleep`](crate::sleep()) does.
    ///
    /// # Cancel safety
    /// Dropping the future ends the reports: what the timer has done since the last is not told.
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

/// Tells what the names mean. Each time, as nothing says when a recorder is installed.
fn describe() {
    describe_counter!(REGISTERED, Unit::Count, "Timers that were armed: sleeps, timeouts and ticks that had to wait.");
    describe_counter!(FIRED, Unit::Count, "Timers that were fired at their deadlines.");
    describe_counter!(
        CANCELLED,
        Unit::Count,
        "Timers that ended without being fired: dropped, found past their deadlines by a poll, or shut down."
    );
    describe_counter!(TURNS, Unit::Count, "Times that the timer was looked at for something due.");
    describe_counter!(CASCADED, Unit::Count, "Times that a waiting timer was moved to a finer level of its wheel.");
    describe_gauge!(PENDING, Unit::Count, "Timers that wait now.");
    // With no unit: exporters that add it to the name would say it twice.
    describe_histogram!(Reporter::LATENESS, "How long after its deadline each timer was fired, in seconds.");
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("name", &self.name).finish_non_exhaustive()
    }
}
