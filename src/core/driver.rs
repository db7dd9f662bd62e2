//! [`Driver`]: the task that fires a timer's due entries, then sleeps until the earliest remaining deadline.
//
// Invariants
// 1. Each poll chooses the alarm that suits the clock, and makes one turn. During another thread's turn it does
//    nothing, and the task is woken when that turn ends. A turn that stops early wakes the task.
// 2. Dropping the driver ends its timer and wakes all waiting tasks. The driver completes once the timer has ended.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;

use crate::clock::hooks::Hooks;
use crate::clock::{Instant, instant, source};
use crate::core::alarm::Alarm;
use crate::core::alarm::own::OwnAlarm;
use crate::core::lease::{TimerHold, TimerHooks, TimerLease};
use crate::core::schedule::{DriverWaker, WakesBy};
use crate::core::settings::Settings;
use crate::core::shards::Shards;
use crate::wheel::{Tick, Ticks};

pub(crate) trait DriverHooks {
    /// Moves a clock that tokio has paused to the deadlines of one timer.
    type Approach: Default + Send + Sync;

    /// When to set an alarm that a test may overtake by pausing the clock.
    fn ahead_of(at: Instant) -> Instant {
        at
    }

    /// tokio's alarm went off for a timer whose clock is paused. Returns `true` if that was before its deadline.
    fn rang_early(_: TimerLease) -> bool {
        false
    }

    /// The timer begins to wait for a tick. Returns `false` if tokio's alarm alone moves the clock there.
    fn approach(_: &mut Self::Approach, _: &mut OwnAlarm, _: TimerLease, _: Tick) -> bool {
        false
    }
}

#[cfg(not(feature = "test-util"))]
impl DriverHooks for Hooks {
    type Approach = ();
}

/// How far beyond a deadline tokio advances a paused clock: it rounds up to whole milliseconds.
const TOKIO_ROUNDS: Ticks = Ticks(1_000_000);

/// The future that fires a timer's sleeps, timeouts and intervals: they complete only while it is polled.
///
/// [`Builder::build_with_driver`](crate::timer::Builder::build_with_driver) returns one for you to spawn or poll where
/// you like. It completes when the timer is shut down, or when no handle is left and nothing waits on the timer.
/// Dropping it ends the timer.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (timer, driver) = hairspring::Timer::builder().build_with_driver().unwrap();
/// let driver = tokio::spawn(driver);
/// timer.shutdown();
/// driver.await.unwrap();
/// # }
/// ```
#[must_use = "a timer fires only while its driver is polled"]
pub struct Driver {
    timer: TimerLease,
    /// Wakes the driver, if the alarm thread does not.
    alarm: OwnAlarm,
    approach: <Hooks as DriverHooks>::Approach,
    /// Whether this crate spawned it, so its waker is tokio's.
    is_a_task: bool,
}

/// Fires due timers inside tokio's drivers, and wakes the timer's driver only for the rest. A worker that fires there
/// wakes another worker once per batch; a task would do so once per timer.
struct FireInline {
    timer: TimerHold,
}

impl Driver {
    pub(crate) fn with_timer(settings: &Settings) -> (TimerLease, Driver) {
        let timer = TimerLease::open(false, settings);
        (timer, Driver::new(timer, settings.alarm))
    }

    pub(crate) fn new(timer: TimerLease, alarm: Alarm) -> Self {
        let inline = Arc::new(FireInline { timer: timer.hold() });
        let alarm = OwnAlarm::new(alarm, Waker::from(inline));
        Driver { timer, alarm, approach: <Hooks as DriverHooks>::Approach::default(), is_a_task: false }
    }

    /// Call this before spawning the driver, as a whole task, on `runtime`.
    pub(crate) fn in_a_task_of(mut self, runtime: &Handle) -> Self {
        self.is_a_task = true;
        if self.alarm.wants_io() {
            self.timer.schedule.io.begin(runtime);
        }
        self
    }

    /// Creates the configured alarm on the current runtime. Otherwise the first poll does, and falls back to the alarm
    /// thread on failure.
    pub(crate) fn make_alarm(&mut self) -> std::io::Result<()> {
        self.alarm.make()
    }

    fn turn(&mut self) {
        let timer = self.timer;
        if !self.is_a_task {
            timer.schedule.follow(instant::runtime_that_may_pause());
        }
        let runs = instant::clock_is_the_systems();
        if !runs {
            source::one_is_held();
        }
        let watches = runs && self.alarm.watches_for_pause();
        // Before the turn: its scan must not find cancelled entries.
        if !runs || watches {
            timer.publish_removals();
        }
        if timer.schedule.io.found() {
            self.alarm.found_io();
        }
        let alarm = self.alarm.choose(runs, watches);
        let is_tokio = matches!(alarm, WakesBy::Tokio);
        timer.schedule.wake_by(alarm);
        let earliest = if runs { Shards::earliest } else { Shards::first_deadline };
        let Some(at) = timer.turn(earliest, false) else { return };
        if is_tokio && !Hooks::approach(&mut self.approach, &mut self.alarm, timer, at) {
            self.alarm.set_tokio((at < Tick::MAX).then(|| timer.schedule.clock.instant_of(at)));
        } else if watches {
            let at = (at < Tick::MAX).then(|| Hooks::ahead_of(timer.schedule.clock.instant_of(at)));
            self.alarm.watch_for_pause(at);
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let timer = this.timer;
        if let (true, Ok(runtime)) = (source::any_is_held(), Handle::try_current()) {
            Hooks::is_on(runtime.id(), timer);
        }
        timer.schedule.io.note_worker();
        let driver = DriverWaker { waker: cx.waker().clone(), is_foreign: !this.is_a_task };
        if timer.schedule.begin_turn(Some(driver)) {
            this.turn();
        }
        timer.close_if_unneeded();
        if timer.serves() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.timer.close();
        // The timer may have ended before its search began. This still holds its memory.
        self.timer.schedule.io.forget();
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("shards", &self.timer.all().len())
            .field("is_shutdown", &!self.timer.serves())
            .finish_non_exhaustive()
    }
}

impl Wake for FireInline {
    fn wake(self: Arc<Self>) {
        let timer = self.timer.lease();
        let schedule = timer.schedule;
        let runs = instant::clock_is_the_systems();
        if !runs && Hooks::rang_early(timer) {
            return;
        }
        // Before the turn sets it again.
        let is_set = schedule.own_alarm().is_some_and(|alarm| alarm.forget(&Waker::from(self.clone())).is_ok());
        let (now, next_wake) = (schedule.clock.now(), schedule.next_wake());
        if !schedule.begin_turn(None) {
            return;
        }
        if !runs {
            // A paused clock overshoots the deadline by rounding. Fire as of the deadline: no task may see the later
            // time before the tasks of that deadline have run. Fire everything: a test must not find some of it left to
            // the driver.
            let at = if now - next_wake <= TOKIO_ROUNDS { now.min(next_wake) } else { now };
            timer.fire_at(at);
            schedule.interrupt_turn(false);
        } else if timer.turn(Shards::earliest, false).is_some() && !is_set {
            // Only the driver can set it.
            schedule.wake_driver();
        }
        timer.close_if_unneeded();
    }
}
