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

use super::Metrics;
use crate::hub::{Held, HubLease};
use crate::interval::{MissedTickBehavior, interval};
use crate::lateness::Lateness;

const REGISTERED: &str = "hairspring_registered_total";
const FIRED: &str = "hairspring_fired_total";
const CANCELLED: &str = "hairspring_cancelled_total";
const PENDING: &str = "hairspring_pending";
const LATENESS: &str = "hairspring_lateness_seconds";
const TURNS: &str = "hairspring_turns_total";
const CASCADED: &str = "hairspring_cascaded_total";

/// Tells the recorder of the crate `metrics` what a timer has done. Made by
/// [`Timer::reporter`](super::Timer::reporter).
///
/// | name | kind | unit | what |
/// |---|---|---|---|
/// | `hairspring_registered_total` | counter | | timers armed |
/// | `hairspring_fired_total` | counter | | timers fired |
/// | `hairspring_cancelled_total` | counter | | timers dropped before they were fired, and those of a shutdown |
/// | `hairspring_pending` | gauge | | timers that wait |
/// | `hairspring_lateness_seconds` | histogram | seconds | how long after their deadlines timers fired |
/// | `hairspring_turns_total` | counter | | looks at the wheels for something due |
/// | `hairspring_cascaded_total` | counter | | entries that moved down a level of a wheel |
///
/// Each has the label `timer`, with the name given to the reporter. They are what [`Metrics`] has under the same names.
///
/// Install the recorder first: what fired before the first report is in it, and not told again to another recorder.
/// The lateness is rounded up, by a sixteenth at most. It is handed over by `Histogram::record_many`; recorders that have
/// no shorter way, `metrics-exporter-prometheus` among them, then take one sample for each timer fired since the last
/// report.
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
    timer: HubLease,
    /// So that there is something to read when the timer has ended. `None` if it had, and nothing was left of it.
    _held: Option<Held>,
    name: String,
    /// What has been told.
    lateness: Box<Lateness>,
}

impl Reporter {
    pub(super) fn new(timer: HubLease, name: String) -> Self {
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
        let histogram = histogram!(LATENESS, "timer" => name());
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
                over = self.timer.is_over();
                self.publish();
            }
        }
    }
}

/// Tells what the names mean. Each time, as nothing says when a recorder is installed.
fn describe() {
    describe_counter!(REGISTERED, Unit::Count, "Timers armed.");
    describe_counter!(FIRED, Unit::Count, "Timers fired.");
    describe_counter!(CANCELLED, Unit::Count, "Timers dropped before they were fired, and those of a shutdown.");
    describe_counter!(TURNS, Unit::Count, "Looks at the wheels for something due.");
    describe_counter!(CASCADED, Unit::Count, "Entries that moved down a level of a wheel.");
    describe_gauge!(PENDING, Unit::Count, "Timers that wait.");
    describe_histogram!(LATENESS, Unit::Seconds, "How long after their deadlines timers fired.");
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("name", &self.name).finish_non_exhaustive()
    }
}
