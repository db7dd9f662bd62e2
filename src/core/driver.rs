//! [`Driver`]: the task that fires a timer's due entries, then sleeps until the earliest remaining deadline.
//
// Invariants
// 1. Each poll runs one turn, after it has chosen another alarm if the clock has changed. During another thread's turn
//    it does nothing, and the task is woken when that turn ends. A turn that stops early wakes the task.
// 2. Dropping the driver ends its timer and wakes all waiting tasks. The driver completes once the timer has ended.
// 3. If the runtime lacks what an alarm needs, the driver uses the alarm thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::{self, Handle};

use crate::clock::{Hooks, Instant, instant, source};
use crate::core::alarm::driver_sleep::DriverSleep;
use crate::core::alarm::{Alarm, TimerfdAlarm, TurnAlarm, has_threads};
use crate::core::jumps;
use crate::core::lease::{TimerHold, TimerHooks, TimerLease, Turn};
use crate::core::turns::DriverWaker;
use crate::util::panics;
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
    fn approach(_: &mut Self::Approach, _: &mut DriverSleep, _: TimerLease, _: Tick) -> bool {
        false
    }
}

#[cfg(not(feature = "test-util"))]
impl DriverHooks for Hooks {
    type Approach = ();
}

/// How often the driver reads a paused clock for which it has no sleep: nothing else reveals that it moves.
const NOW_AND_THEN: Ticks = Ticks(10_000_000);

fn now_and_then(timer: TimerLease) -> Tick {
    if timer.first_deadline() < Tick::MAX { source::system_now() + NOW_AND_THEN } else { Tick::MAX }
}

/// The future that fires a timer's sleeps, timeouts and intervals. If nothing polls it, they end late, on threads of this
/// crate.
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
#[must_use = "a timer needs its driver to be polled"]
pub struct Driver {
    timer: TimerLease,
    /// The user's choice, or what replaces it.
    alarm: Alarm,
    /// Whether the runtime may have `enable_time`, which a clock that a test pauses needs.
    may_have_time: bool,
    /// The clock for which the alarm was chosen.
    clock: Option<Clock>,
    sleep: Option<DriverSleep>,
    timerfd: Option<Arc<TimerfdAlarm>>,
    /// Runs a turn inside the runtime's own drivers, which call it when a sleep or a `timerfd` goes off.
    inline: Waker,
    approach: <Hooks as DriverHooks>::Approach,
    /// Whether this crate spawned it, so its waker is tokio's.
    is_a_task: bool,
    /// The runtime that last polled it, if another task may poll it on another runtime.
    runtime: Option<runtime::Id>,
}

/// The runtime's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// The system's.
    Runs,
    /// The system's, but a test may pause it while the driver sleeps. A tokio sleep reveals that.
    MayBePaused,
    Paused,
}

/// Fires due timers inside tokio's drivers, and calls the timer's driver only for the rest. A worker that fires there
/// wakes another worker once per batch; a task would do so once per timer.
struct FireInline(TimerHold);

impl Driver {
    pub(crate) fn new(timer: TimerLease, alarm: Alarm) -> Self {
        let alarm = match alarm {
            Alarm::Auto | Alarm::Thread if !has_threads() => Alarm::Tokio,
            alarm => alarm,
        };
        let inline = Waker::from(Arc::new(FireInline(timer.hold())));
        let (sleep, timerfd, approach) = (None, None, <Hooks as DriverHooks>::Approach::default());
        let (may_have_time, clock, is_a_task, runtime) = (true, None, false, None);
        Driver { timer, alarm, may_have_time, clock, sleep, timerfd, inline, approach, is_a_task, runtime }
    }

    /// Call this before spawning the driver, as a whole task, on `runtime`.
    pub(crate) fn in_a_task_of(mut self, runtime: &Handle) -> Self {
        self.is_a_task = true;
        // A `timerfd` would not reveal that a test has paused the clock.
        if self.alarm == Alarm::Auto && !instant::may_be_paused() {
            self.timer.turns().io.begin(runtime);
        }
        self
    }

    /// Creates what the configured alarm needs on the current runtime. Otherwise the first poll does.
    pub(crate) fn make_alarm(&mut self) -> io::Result<()> {
        match self.alarm {
            Alarm::Auto | Alarm::Thread => Ok(()),
            Alarm::Tokio => self.make_sleep(),
            Alarm::Timerfd => self.timerfd().map(drop),
        }
    }

    fn make_sleep(&mut self) -> io::Result<()> {
        if self.sleep.is_none() {
            self.sleep = Some(DriverSleep::new(self.inline.clone())?);
        }
        Ok(())
    }

    fn timerfd(&mut self) -> io::Result<Arc<TimerfdAlarm>> {
        if self.timerfd.is_none() {
            self.timerfd = Some(Arc::new(TimerfdAlarm::new(&self.inline)?));
        }
        Ok(self.timerfd.clone().expect("it was just made"))
    }

    /// Reads the clock, and chooses the alarm if that has changed.
    fn prepare(&mut self) -> Clock {
        let turns = self.timer.turns();
        if !self.is_a_task {
            turns.replace(|state| &mut state.runtime, instant::runtime_that_may_pause());
            let here = jumps::here();
            // What waits in another runtime's drivers has perhaps ended with them.
            if self.runtime != here {
                (self.runtime, self.may_have_time, self.clock) = (here, true, None);
                (self.sleep, self.timerfd) = (None, None);
                self.approach = <Hooks as DriverHooks>::Approach::default();
            }
        }
        let clock = match instant::clock_is_the_systems() {
            true if self.may_have_time && instant::may_be_paused() && panics::may_catch() => Clock::MayBePaused,
            true => Clock::Runs,
            false => Clock::Paused,
        };
        if clock != Clock::Runs {
            // Before the turn: its scan must not find cancelled entries.
            self.timer.publish_removals();
        }
        let found_io = self.alarm == Alarm::Auto && turns.io.found();
        if found_io || self.clock != Some(clock) {
            self.alarm = if found_io { Alarm::Timerfd } else { self.alarm };
            self.clock = Some(clock);
            let alarm = self.choose(clock);
            turns.replace(|state| &mut state.alarm, alarm);
        }
        clock
    }

    /// Panics if the runtime lacks what the alarm needs, and there can be no alarm thread.
    fn choose(&mut self, clock: Clock) -> TurnAlarm {
        if clock == Clock::Paused {
            source::one_is_held();
        }
        if self.may_have_time && (self.alarm == Alarm::Tokio || clock != Clock::Runs) {
            self.may_have_time = self.make_sleep().is_ok();
            if self.may_have_time {
                return TurnAlarm::DriverSleep { watched: self.alarm != Alarm::Tokio && clock == Clock::MayBePaused };
            }
        }
        assert!(
            has_threads(),
            "this platform has no threads: a timer's driver needs a tokio runtime with `enable_time`"
        );
        self.sleep = None;
        match self.alarm {
            _ if clock == Clock::Paused => TurnAlarm::DriverSleep { watched: true },
            Alarm::Timerfd => self.timerfd().map_or(TurnAlarm::Thread, TurnAlarm::Timerfd),
            _ => TurnAlarm::Thread,
        }
    }

    /// Sets the driver's sleep, if it has one, for a turn at `next`.
    fn set_sleep(&mut self, clock: Clock, next: Tick) {
        let Some(sleep) = &mut self.sleep else { return };
        let at = (next < Tick::MAX).then(|| self.timer.turns().clock.instant_of(next));
        if self.alarm != Alarm::Tokio && clock == Clock::MayBePaused {
            sleep.set(at.map(Hooks::ahead_of));
        } else if !Hooks::approach(&mut self.approach, sleep, self.timer, next) {
            sleep.set(at);
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
        timer.turns().io.note_worker();
        let driver = DriverWaker { waker: cx.waker().clone(), is_foreign: !this.is_a_task };
        let mut clock = None;
        let next = timer.run_turn(Turn { driver: Some(driver), ..Turn::default() }, || {
            let read = *clock.insert(this.prepare());
            match &this.sleep {
                _ if read != Clock::Paused => TimerLease::earliest,
                Some(_) => TimerLease::first_deadline,
                None => now_and_then,
            }
        });
        match (clock, next) {
            (Some(clock), Some(next)) => this.set_sleep(clock, next),
            (Some(_), None) => {}
            (None, _) => timer.close_if_unneeded(),
        }
        if timer.serves() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.timer.close();
        self.timer.turns().io.forget();
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
        let timer = self.0.lease();
        let turns = timer.turns();
        let runs = instant::clock_is_the_systems();
        if !runs && Hooks::rang_early(timer) {
            return;
        }
        // Before the turn sets it again. If that fails, only the driver can set it.
        let is_set = turns.timerfd().is_some_and(|alarm| alarm.forget(&Waker::from(self.clone())).is_ok());
        let turn = Turn { at: (!runs).then(|| turns.clock.now()), calls_driver: !runs || !is_set, ..Turn::default() };
        timer.run_turn(turn, || TimerLease::earliest);
    }
}
