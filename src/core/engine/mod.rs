//! [`Engine`]: decides when a timer's next turn begins, what starts it, and which thread runs it. Shards report to it.
//!
//! A turn fires due timers, finds the earliest remaining deadline, and sets an alarm for it. Only the runtime's own
//! drivers bring one, so what is fired finds the sockets' events delivered; outside any runtime, a helper thread does.
//! A thread that wants to begin a turn during another makes that one scan again. The [parker](super::parker) is the
//! handshake with threads that register deadlines.
//!
//! An engine is part of a [memory](super::memory), which timers reuse, one after the other.
//
// Invariants
// 1. Turns do not overlap. When a turn ends, the next is certain to begin in time: an alarm is set, or the driver was
//    called. The driver is called if it was wanted during another thread's turn, or if only it can set the alarm.
// 2. If a turn is to come and does not, the alarm thread wakes the driver's task, and again each time that this was
//    polled in vain: the worker that polled it may block before its pass, and another may be idle.
// 3. All entries up to `reached` have been taken out, or the scan in progress repeats, and none is inserted any more.
// 4. While a test sets the time, the test fires timers, and no turn begins.
// 5. A timer that has ended keeps no waker, no alarm and no runtime.
// 6. No worker that registers a deadline wakes the driver's task, except on a paused clock: tokio keeps a task that a
//    worker wakes for that worker, which may compute.
//
// They hold because the phase and the alarm that goes with it change under one lock: whoever finds `Idle` finds an
// alarm, and whoever finds `Away` leaves the turn to the thread that was called.

mod alarm;
#[cfg(feature = "test-util")]
mod shown;
#[cfg(all(test, not(hairspring_loom)))]
mod tests;
mod turn;

use std::sync::OnceLock;
use std::task::Waker;
use std::time::Instant;

use tokio::runtime::Handle;

pub(crate) use self::alarm::PATIENCE_WITH_TIMERFD;
pub(crate) use self::turn::Runner;
use crate::clock::instant;
use crate::clock::source::Source;
use crate::core::alarm::TurnAlarm;
use crate::core::alarm::driver_sleep::{is_processed, processed};
use crate::core::alarm::io_probe::IoProbe;
use crate::core::alarm::thread::BookingId;
use crate::core::capacity::Capacity;
use crate::core::coalesce::Coalesce;
use crate::core::epoch::Epoch;
use crate::core::parker::{Locked, Parker, Phase};
use crate::util::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::util::sync::{self, Counter, keep};
use crate::wheel::{Tick, Ticks};

/// What an engine asks of the memory that it is part of, which knows the shards.
pub(crate) trait Above: Sync {
    /// Lets a helper thread run a turn.
    fn turn_without_a_driver(&'static self);

    /// The timer with this epoch has lost the last user of a shard.
    fn lose_users(&'static self, epoch: Epoch);
}

pub(crate) struct Engine {
    pub(crate) parker: Parker<EngineState>,
    /// The last tick that a turn has reached in all shards, or that a test has set the clock to.
    pub(crate) reached: AtomicU64,
    pub(crate) clock: Source,
    pub(crate) io: IoProbe,
    pub(crate) id: BookingId,
    pub(crate) capacity: Capacity,
    /// Set once, because it points back.
    above: OnceLock<&'static dyn Above>,
    #[cfg(test)]
    pub(crate) ignores_alarm: std::sync::atomic::AtomicBool,
}

#[derive(Default)]
pub(crate) struct EngineState {
    pub(crate) name: Option<&'static str>,
    /// Whether the timer has no driver and helpers run all turns.
    is_driverless: bool,
    /// Wakes the driver's task. `None` once it was woken.
    driver: Option<Waker>,
    /// When the turn was first wanted that has not begun.
    called: Option<Instant>,
    pub(crate) alarm: TurnAlarm,
    /// When the alarm thread next looks whether a turn has come, at the latest.
    checks_at: Option<Instant>,
    /// When a check last found that the `timerfd` was late.
    was_late: Option<Instant>,
    /// The driver's runtime, if tokio can pause its clock.
    pub(crate) runtime: Option<Handle>,
    pub(crate) coalesce: Coalesce,
}

impl EngineState {
    /// Whether a test has paused the clock.
    fn is_paused(&self) -> bool {
        self.runtime.is_some() && !instant::clock_is_the_systems()
    }

    /// Whether only the driver can set the alarm, or has to choose another because the clock `is_paused`.
    fn needs_driver(&self, is_paused: bool) -> bool {
        is_paused
            || match &self.alarm {
                TurnAlarm::Paused => true,
                // A thread that drops its thread-local variables may have no context of tokio's any more.
                TurnAlarm::Tokio(_) => Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed()),
                TurnAlarm::Thread | TurnAlarm::Timerfd(_) => false,
            }
    }
}

impl Engine {
    /// An engine, which is never freed.
    pub(crate) fn new() -> &'static Engine {
        static NEXT: Counter = Counter::new(0);
        let next_id = || BookingId(NEXT.fetch_add(1, SeqCst));
        keep!(
            Engine,
            Engine {
                parker: Parker::new(EngineState::default()),
                reached: AtomicU64::new(0),
                clock: Source::runtime(),
                io: IoProbe::new(next_id()),
                id: next_id(),
                capacity: Capacity::new(),
                above: OnceLock::new(),
                #[cfg(test)]
                ignores_alarm: false.into(),
            }
        )
    }

    pub(crate) fn belongs_to(&self, memory: &'static dyn Above) {
        self.above.get_or_init(|| memory);
    }

    pub(crate) fn above(&self) -> &'static dyn Above {
        *self.above.get().expect("they were made together")
    }

    /// Opens a timer whose driver is about to be spawned, or one without a driver.
    pub(crate) fn open(&'static self, is_driverless: bool, coalesce: Ticks) {
        self.clock.follow_runtime();
        let mut state = self.begin(is_driverless, coalesce);
        if is_driverless {
            state.park(Tick::MAX);
        } else {
            state.runtime = instant::runtime_that_may_pause();
        }
    }

    /// Opens a timer as if its driver had been woken.
    fn begin(&self, is_driverless: bool, coalesce: Ticks) -> Locked<'_, EngineState> {
        let mut state = self.parker.lock();
        state.leave();
        let coalesce = Coalesce::new(coalesce);
        *state = EngineState { name: state.name, is_driverless, coalesce, ..EngineState::default() };
        self.reached.store(0, SeqCst);
        state
    }

    /// Ends the timer, and wakes its driver, which then completes. A turn in progress ends without setting an alarm.
    pub(crate) fn close(&'static self) {
        let mut state = self.parker.lock();
        self.stop(&mut state);
        state.close();
        let gone = (state.runtime.take(), std::mem::take(&mut state.alarm));
        wake(state);
        drop(gone);
    }

    /// Lets no turn begin until the driver is called.
    fn stop(&'static self, state: &mut Locked<'_, EngineState>) {
        if !state.scan_again() {
            state.leave();
        }
        self.cancel_check(state);
    }

    /// The driver was polled: notes its waker for the next call.
    pub(crate) fn driver_came(&self, driver: Waker) {
        let mut state = self.parker.lock();
        let before = if state.is_closed() { Some(driver) } else { state.driver.replace(driver) };
        drop(state);
        // Outside the lock: it may be the last to hold the task of a runtime that has ended.
        drop(before);
    }

    /// Another alarm has to be set, by a turn that the caller lets follow.
    pub(crate) fn change_alarm(&'static self, alarm: TurnAlarm) {
        let mut state = self.parker.lock();
        let before = if state.is_closed() { alarm } else { std::mem::replace(&mut state.alarm, alarm) };
        if !state.is_closed() && !state.call_after_scan() && !self.clock.is_shown() {
            state.leave();
        }
        drop(state);
        drop(before);
    }

    /// A turn has taken out all entries up to `tick` in all shards, or a test has set the clock to it.
    pub(crate) fn reach(&self, tick: Tick) {
        self.reached.fetch_max(tick.0, SeqCst);
    }

    /// The last tick that a turn has reached.
    #[inline]
    pub(crate) fn reached(&self) -> Tick {
        Tick(self.reached.load(SeqCst))
    }

    /// The runtime's I/O driver has reported the alarm's file. Returns the tick for which that was set; `None` if it
    /// was reported before. The next report calls `waker`.
    pub(crate) fn reported(&'static self, waker: &Waker) -> Option<Tick> {
        let state = self.parker.lock();
        let TurnAlarm::Timerfd(alarm) = &state.alarm else { return None };
        if let Ok(tick) = alarm.reported(waker) {
            return tick;
        }
        // The file's runtime has ended.
        drop(state);
        self.change_alarm(TurnAlarm::Thread);
        self.wake_driver();
        None
    }

    /// The driver's task was polled, and a turn is to come. Returns whether the runtime's own drivers bring it.
    /// Otherwise the task does, after a pass: the worker that polled it may block before that.
    pub(crate) fn set_off(&'static self) -> bool {
        self.set_off_alarm(&mut self.parker.lock())
    }

    /// A sleep until `deadline` begins to wait. If tokio has paused the clock, and its timers have processed that in a
    /// pass in which none of ours was due, it is reached, too.
    #[cold]
    pub(crate) fn catch_up(&self, deadline: Tick) {
        if deadline <= self.reached() || deadline > self.clock.now() || instant::clock_is_the_systems() {
            return;
        }
        let here = Handle::try_current().ok().map(|runtime| runtime.id());
        let state = self.parker.lock();
        let is_tokios = state.alarm.is_tokios() && state.runtime.as_ref().map(Handle::id) == here;
        drop(state);
        if is_tokios && here.is_some() && is_processed(deadline) {
            self.reach(deadline);
        }
    }

    /// What has been processed of a paused clock: by tokio's timers, if they move it.
    pub(crate) fn processed_by_tokio(&self) -> Tick {
        let now = self.clock.now();
        let is_tokios = self.parker.lock().alarm.is_tokios();
        if is_tokios { processed(now) } else { now }
    }

    /// A shard has published `deadline` as its earliest. Returns whether the clock is found paused.
    #[inline]
    pub(crate) fn after_insert(&'static self, deadline: Tick) -> bool {
        self.parker.is_too_late_for(deadline) && self.turn_by(deadline)
    }

    #[cold]
    fn turn_by(&'static self, deadline: Tick) -> bool {
        let mut state = self.parker.lock();
        let is_paused = state.is_paused();
        let waits = !is_paused && !state.alarm.is_tokios();
        let deadline = if waits { state.coalesce.earliest_turn(deadline) } else { deadline };
        if !state.note(deadline) {
            return is_paused;
        }
        if state.needs_driver(is_paused) {
            state.leave();
            wake(state);
        } else {
            state.publish(deadline);
            self.set_alarm(&mut state, deadline);
        }
        is_paused
    }

    /// An entry due at `before` was removed or postponed, and the shard has published its earliest deadline. A paused
    /// clock must not jump to an alarm for the removed entry.
    pub(crate) fn after_removal(&'static self, before: Tick) {
        if self.next_wake() < before {
            return;
        }
        let mut state = self.parker.lock();
        if state.scan_again() || state.phase() != Phase::Idle || self.next_wake() < before {
            return;
        }
        if state.needs_driver(state.is_paused()) {
            // The alarm that is set is only early.
            wake(state);
        } else {
            self.call(state);
        }
    }

    /// Lets the driver see that its clock has changed.
    pub(crate) fn wake_driver(&'static self) {
        let mut state = self.parker.lock();
        if !state.call_after_scan() && !state.is_closed() && !state.is_driverless {
            state.leave();
            self.watch(&mut state, sync::now());
            wake(state);
        }
    }

    pub(crate) fn next_wake(&self) -> Tick {
        self.parker.next_wake()
    }
}

fn wake(mut state: Locked<'_, EngineState>) {
    let driver = state.driver.take();
    drop(state);
    if let Some(driver) = driver {
        driver.wake();
    }
}

// The alarm thread calls outside the lock, and finds a consistent state even after a panic.
impl std::panic::RefUnwindSafe for Engine {}
