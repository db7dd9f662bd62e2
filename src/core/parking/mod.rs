//! [`Parking`]: how a timer's driver sleeps, what wakes it, and who turns if it does not come.
//!
//! The handshake with those who register deadlines is the [parker](super::parker)'s. Here is what a driver has beside it:
//! an alarm for the tick at which it wakes, a watch over a driver that is late, the coalescing of dense timers, and the
//! timer's clock.
//
// Invariants
// 1. An alarm of the driver's own stays set whatever a stand-in publishes in its place.
// 2. While the driver is expected, the alarm thread has a booking to see that it came, unless a clock is paused.
// 3. While `certain` is finite, the alarm thread withdraws it soon after the tick that is slept for.
// 4. While somebody shows the time the parker is `Away`, but for a turn that began before: who shows it fires what is due.
//
// Must not know: wheels, shards, the driver's work.

pub(crate) mod coalesce;
mod unconfirmed;

// No part of any handshake, so models share it.
use std::sync::atomic::AtomicU64 as Counter;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use self::coalesce::Coalesce;
pub(crate) use self::unconfirmed::Unconfirmed;
use crate::clock::instant;
use crate::clock::source::Source;
use crate::core::alarm::SharedAlarm;
use crate::core::alarm::thread::{self, Booker, BookerId};
use crate::core::parker::{Found, Locked, Parker, Phase};
use crate::util::catch_panic::catch_panic;
use crate::util::sync;
use crate::util::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::wheel::{Tick, Ticks};

/// How late the alarm thread may be before [`Parking::is_surely_future`] answers a poll wrongly: 134 ms. Even then only a
/// sleep that is polled after its deadline goes on waiting, and it is woken as soon as the thread runs.
const ALARM_MAY_LAG: Ticks = Ticks(1 << 27);

/// How long a driver may take to come round once it was woken, before a stand-in turns in its place.
const PATIENCE: Duration = Duration::from_millis(1);

/// The same if the driver's own alarm fires what is due without it, so that only the next alarm waits for it.
const PATIENCE_WITH_OWN_ALARM: Duration = Duration::from_millis(5);

/// How often the alarm thread looks whether the driver's own alarm was in time, while there is none that is late.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// How often a driver looks at a clock for which it has no alarm.
const NOW_AND_THEN: Duration = Duration::from_millis(10);

pub(crate) struct Parking {
    pub(super) parker: Parker<Plan>,
    /// No deadline after this tick can have passed; `Tick::MAX` if that is not known.
    pub(super) certain: AtomicU64,
    pub(crate) unconfirmed: Unconfirmed,
    pub(crate) clock: Source,
    /// Whether the timer has no driver, so that stand-ins make all its turns.
    pub(super) driverless: AtomicBool,
    pub(super) id: BookerId,
    booker: OnceLock<&'static dyn Booker>,
}

/// What is kept beside the parker.
pub(super) struct Plan {
    /// Whether there is a timer.
    pub(super) is_open: bool,
    waker: Option<DriverWaker>,
    /// Whether the driver was woken, or comes by itself, and has not begun a turn since.
    is_expected: bool,
    wakes_by: WakesBy,
    /// What is set if that is the driver's own alarm.
    alarm: Option<Arc<dyn SharedAlarm>>,
    /// When the alarm thread is to see whether the driver's own alarm was in time, at the latest.
    looks_at: Option<Instant>,
    /// The driver's runtime, if a test may pause its clock unnoticed.
    runtime: Option<Handle>,
    coalesce: Coalesce,
    /// When the driver was last woken.
    woken_at: Instant,
}

/// How to have the driver polled.
pub(crate) struct DriverWaker {
    pub(crate) waker: Waker,
    /// Whether it may be foreign code, which the alarm thread does not run. A tokio task's is not: it never blocks.
    pub(crate) is_foreign: bool,
}

impl DriverWaker {
    pub(crate) fn wake(self) {
        // It is no fault of whoever arms a timer, shuts it down, or waits on it.
        catch_panic(|| self.waker.wake());
    }
}

/// What wakes a sleeping driver at the tick that it sleeps for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakesBy {
    /// The alarm thread.
    Thread,
    /// The alarm thread, or an alarm of tokio's beside it if a test pauses the clock meanwhile.
    ThreadOrTokio,
    /// An alarm of the driver's own, which only the driver can set earlier. The alarm thread sees to it that it comes.
    OwnAlarm,
    /// The alarm thread, now and then: the clock is another than the system's, and the driver has no alarm for it.
    NowAndThen,
    /// An alarm of the driver's own, on a clock that the alarm thread does not know, or less precise than the thread.
    Itself,
}

/// What is to be done when an alarm has gone off.
pub(crate) enum Due {
    /// Nothing more.
    Nothing,
    /// The driver is to be woken.
    Wake(DriverWaker),
    /// A stand-in is to turn: there is no driver, or it was woken before and has not come round.
    StandIn,
}

impl Parking {
    pub(crate) fn new() -> Self {
        static NEXT: Counter = Counter::new(0);
        Parking {
            parker: Parker::new(Plan {
                is_open: false,
                waker: None,
                is_expected: false,
                wakes_by: WakesBy::Thread,
                alarm: None,
                looks_at: None,
                runtime: None,
                coalesce: Coalesce::new(),
                woken_at: sync::now(),
            }),
            certain: AtomicU64::new(u64::MAX),
            unconfirmed: Unconfirmed::none(),
            clock: Source::runtime(),
            driverless: AtomicBool::new(false),
            id: BookerId(NEXT.fetch_add(1, SeqCst)),
            booker: OnceLock::new(),
        }
    }

    /// Whether there is a timer, and no thread that this process has not got held the lock when the process was forked off.
    /// Only for a process that has one thread.
    #[cfg_attr(hairspring_loom, allow(dead_code))] // No model forks.
    pub(crate) fn has_survived(&self) -> bool {
        self.parker.try_lock().is_some_and(|plan| plan.is_open)
    }

    /// A driver is about to be spawned; the alarm thread calls `booker` for it.
    pub(crate) fn open(&self, booker: &'static dyn Booker) {
        let mut plan = self.prepare(booker, false);
        let before = std::mem::replace(&mut plan.runtime, instant::runtime_that_may_pause());
        self.expect_driver(&mut plan);
        if instant::clock_is_the_systems() {
            self.watch_driver(&mut plan);
        }
        drop(plan);
        drop(before);
    }

    /// A timer without a driver begins: a stand-in turns whenever something is due.
    pub(crate) fn open_driverless(&self, booker: &'static dyn Booker) {
        let mut plan = self.prepare(booker, true);
        plan.wakes_by = WakesBy::Thread;
        plan.park(Tick::MAX);
        self.certain.store(u64::MAX, SeqCst);
    }

    fn prepare(&self, booker: &'static dyn Booker, driverless: bool) -> Locked<'_, Plan> {
        self.booker.get_or_init(|| {
            thread::list(booker);
            booker
        });
        self.driverless.store(driverless, SeqCst);
        self.unconfirmed.forget();
        self.clock.follow_runtime();
        self.begin()
    }

    pub(super) fn begin(&self) -> Locked<'_, Plan> {
        let mut plan = self.parker.lock();
        plan.look();
        (plan.is_open, plan.is_expected, plan.coalesce) = (true, false, Coalesce::new());
        plan.looks_at = None;
        plan
    }

    /// Whether the timer has no driver.
    #[inline]
    pub(crate) fn is_driverless(&self) -> bool {
        self.driverless.load(Relaxed)
    }

    /// The timer has ended. Its driver is polled once more, to see it.
    pub(crate) fn close(&self) {
        let mut plan = self.parker.lock();
        plan.leave();
        plan.is_open = false;
        self.certain.store(u64::MAX, SeqCst);
        thread::cancel(self.id);
        let gone = (plan.runtime.take(), plan.alarm.take());
        wake(plan);
        drop(gone);
    }

    /// A deadline was registered, earlier than any other of its shard, and the shard has published it. Returns whether the
    /// clock was found to be paused, which the driver has yet to see.
    #[inline]
    pub(crate) fn registered(&self, deadline: Tick) -> bool {
        self.parker.is_too_late_for(deadline) && self.turn_by(self.parker.lock(), deadline)
    }

    /// Has a turn begin when `deadline` is reached. Returns whether the clock was found to be paused.
    #[cold]
    fn turn_by(&self, mut plan: Locked<'_, Plan>, deadline: Tick) -> bool {
        let deadline = plan.coalesce.earliest_turn(deadline);
        let looking = matches!(plan.phase(), Phase::Looking { .. });
        match plan.registered(deadline) {
            Found::Served => looking && !self.is_driverless() && !instant::clock_is_the_systems(),
            Found::Sleeper => {
                let by = plan.wakes_by;
                // The driver sleeps on, and only the alarm is moved; unless a test has paused the clock.
                let only_the_alarm = matches!(by, WakesBy::Thread | WakesBy::OwnAlarm);
                if only_the_alarm && (self.is_driverless() || instant::clock_is_the_systems()) {
                    plan.wake_earlier(deadline);
                    self.set_alarm(&mut plan, deadline);
                    return false;
                }
                if by == WakesBy::ThreadOrTokio {
                    self.watch_driver(&mut plan);
                }
                self.wake_up(plan);
                only_the_alarm
            }
        }
    }

    /// What was to come at `before` was taken out or put off, on a clock that would jump there, and the shard has published
    /// what is left: the driver's alarm is to be moved.
    pub(crate) fn put_off(&self, before: Tick) {
        // The driver wakes for something earlier, or is away.
        if self.next_wake() < before {
            return;
        }
        let mut plan = self.parker.lock();
        match plan.phase() {
            Phase::Looking { .. } => plan.look_again(),
            Phase::Parked if self.next_wake() >= before => self.wake_up(plan),
            Phase::Away | Phase::Parked => {}
        }
    }

    /// The driver's own alarm has gone off, as is found at the time `now`.
    pub(crate) fn own_alarm_went_off(&self, now: Tick) {
        let mut plan = self.parker.lock();
        if plan.phase() == Phase::Parked {
            plan.coalesce.woken_for(self.next_wake().min(now));
        }
    }

    /// Has a sleeping driver polled again, whatever it waits for.
    pub(crate) fn wake_driver(&self) {
        let plan = self.parker.lock();
        if plan.phase() == Phase::Parked && !self.is_driverless() {
            self.wake_up(plan);
        }
    }

    pub(super) fn wake_up(&self, mut plan: Locked<'_, Plan>) {
        // If it slept for a tick, the booking for that finds out whether it comes.
        let is_booked = plan.phase() == Phase::Parked && self.next_wake() < Tick::MAX;
        if !is_booked && !matches!(plan.wakes_by, WakesBy::NowAndThen | WakesBy::Itself) {
            self.watch_driver(&mut plan);
        }
        self.expect_driver(&mut plan);
        wake(plan);
    }

    /// From now on the driver is expected to begin a turn.
    fn expect_driver(&self, plan: &mut Locked<'_, Plan>) {
        plan.look();
        plan.is_expected = true;
        self.certain.store(u64::MAX, SeqCst);
    }

    /// Has the alarm thread see to it that the driver comes.
    fn watch_driver(&self, plan: &mut Locked<'_, Plan>) {
        (plan.woken_at, plan.looks_at) = (sync::now(), None);
        // If timers are dense the next booking is known already, and the thread need not be woken for it.
        let next = plan.coalesce.likely_next().map(|next| self.clock.instant_of(next).into_std());
        self.book(next.unwrap_or(plan.woken_at + PATIENCE));
    }

    /// The alarm thread calls: says who is to act on it.
    pub(crate) fn alarm(&self) -> Due {
        let mut plan = self.parker.lock();
        plan.looks_at = None;
        match (plan.phase(), plan.wakes_by) {
            // The booking was replaced while the thread had it in hand, or comes from before a fork.
            (Phase::Parked, WakesBy::Thread | WakesBy::ThreadOrTokio) if self.next_wake() > self.clock.now() => {
                self.book_for(self.next_wake());
                Due::Nothing
            }
            (Phase::Parked, WakesBy::Thread | WakesBy::ThreadOrTokio) => {
                // There is none, or it was woken the last time and not seen since.
                if self.is_driverless() || plan.waker.is_none() {
                    return Due::StandIn;
                }
                plan.coalesce.woken_for(self.next_wake());
                self.watch_driver(&mut plan);
                self.expect_driver(&mut plan);
                plan.waker.take().map_or(Due::Nothing, Due::Wake)
            }
            (Phase::Parked, WakesBy::NowAndThen) => {
                self.expect_driver(&mut plan);
                plan.waker.take().map_or(Due::Nothing, Due::Wake)
            }
            (Phase::Parked, WakesBy::OwnAlarm) if self.next_wake() < Tick::MAX => {
                let late = self.late(self.next_wake());
                if sync::now() >= late {
                    return Due::StandIn;
                }
                self.look_at(&mut plan, late.max(sync::now() + BETWEEN_LOOKS));
                Due::Nothing
            }
            (Phase::Looking { .. }, _) if plan.is_expected && self.is_driverless() => Due::StandIn,
            (Phase::Looking { .. }, _) if plan.is_expected => self.stand_in_from(plan.woken_at + PATIENCE),
            (Phase::Away | Phase::Looking { .. } | Phase::Parked, _) => Due::Nothing,
        }
    }

    /// Has a stand-in turn at an instant, if nothing changes until then.
    fn stand_in_from(&self, at: Instant) -> Due {
        if sync::now() >= at {
            return Due::StandIn;
        }
        self.book(at);
        Due::Nothing
    }

    /// The driver is about to look at the shards; `waker` is how to have it polled again.
    pub(crate) fn begin_turn(&self, waker: DriverWaker) {
        let mut plan = self.parker.lock();
        if !plan.is_open {
            return;
        }
        plan.look();
        plan.is_expected = false;
        self.certain.store(u64::MAX, SeqCst);
        let before = plan.waker.replace(waker);
        drop(plan);
        drop(before);
    }

    /// A stand-in is about to look at the shards by the time `now`. `false` if the timer has ended, or somebody shows its
    /// time.
    pub(crate) fn begin_turn_as_stand_in(&self, now: Tick) -> bool {
        let mut plan = self.parker.lock();
        if !plan.is_open || self.clock.is_shown() {
            return false;
        }
        if !self.is_driverless() {
            self.unconfirmed.add(now);
        }
        self.expect_driver(&mut plan);
        true
    }

    /// Whether a test has paused the clock of the driver's runtime, as far as a stand-in has to ask.
    pub(crate) fn is_paused(&self) -> bool {
        let Some(runtime) = self.parker.lock().runtime.clone() else { return false };
        let _entered = runtime.enter();
        !instant::clock_is_the_systems()
    }

    /// A stand-in was not through, and the alarm thread calls it again after what else is due. What is left undone, no other
    /// turn may have seen.
    pub(crate) fn call_again(&self) {
        let plan = self.parker.lock();
        if matches!(plan.phase(), Phase::Looking { .. }) && plan.is_expected {
            self.book(sync::now());
        }
        self.turn_by(plan, Tick::ZERO);
    }

    /// A turn that went by the time `now` has looked. It wants the next when `earliest` is reached, but has timers `wait` for
    /// company first. Returns when the driver will be woken at the latest; `None` if it has to look again.
    pub(crate) fn end_turn(&self, now: Tick, earliest: Tick, wait: Ticks, by: WakesBy) -> Option<Tick> {
        let mut plan = self.parker.lock();
        if !plan.is_open {
            return Some(Tick::MAX);
        }
        let not_before = plan.coalesce.after_turn(now, wait);
        let earliest = earliest.max(not_before);
        // Another turn has ended meanwhile, and may know of something earlier.
        let alarm_serves = matches!(plan.wakes_by, WakesBy::Thread | WakesBy::ThreadOrTokio);
        if alarm_serves && plan.wakes_by(earliest) {
            return Some(earliest);
        }
        if !plan.park(earliest) {
            return None;
        }
        if self.clock.is_shown() {
            plan.leave();
            return Some(earliest);
        }
        plan.wakes_by = by;
        plan.coalesce.wait_until(not_before, wait);
        self.set_alarm(&mut plan, earliest);
        Some(earliest)
    }

    /// Has `waker` woken when the timer ends, or its clock runs. `false` if nobody shows the time.
    pub(crate) fn wait_while_shown(&self, waker: &Waker) -> bool {
        let waker = DriverWaker { waker: waker.clone(), is_foreign: true };
        let mut plan = self.parker.lock();
        if !self.clock.is_shown() {
            drop(plan);
            return false;
        }
        let before = plan.waker.replace(waker);
        if plan.is_open {
            drop(plan);
        } else {
            // It ended meanwhile: the driver sees that when it is polled again.
            wake(plan);
        }
        drop(before);
        true
    }

    /// A turn stops before it is through, and the driver has asked to be polled again.
    pub(crate) fn interrupt_turn(&self) {
        let mut plan = self.parker.lock();
        if let Phase::Looking { .. } = plan.phase() {
            plan.is_expected = true;
            if instant::clock_is_the_systems() {
                self.watch_driver(&mut plan);
            }
        }
    }

    /// Whether a deadline is certainly not reached yet, found without reading a clock.
    #[inline]
    pub(crate) fn is_surely_future(&self, deadline: Tick) -> bool {
        deadline.0 > self.certain.load(SeqCst)
    }

    /// The tick at which the driver wakes; `Tick::MAX` while it looks, tick 0 while there is none.
    pub(crate) fn next_wake(&self) -> Tick {
        self.parker.next_wake()
    }

    /// Sets what wakes the driver at a tick.
    fn set_alarm(&self, plan: &mut Locked<'_, Plan>, tick: Tick) {
        // For never, an alarm that goes off for nothing costs less than to take it back each time.
        if plan.wakes_by == WakesBy::OwnAlarm && tick < Tick::MAX && !self.set_own_alarm(plan, tick) {
            plan.wakes_by = WakesBy::Thread;
        }
        let certain = if plan.wakes_by == WakesBy::Thread { tick + ALARM_MAY_LAG } else { Tick::MAX };
        self.certain.store(certain.0, SeqCst);
        if plan.wakes_by == WakesBy::OwnAlarm {
            if tick < Tick::MAX {
                self.look_at(plan, self.late(tick));
            }
            return;
        }
        plan.looks_at = None;
        match plan.wakes_by {
            WakesBy::Thread | WakesBy::ThreadOrTokio => self.book_for(tick),
            WakesBy::NowAndThen if tick < Tick::MAX => self.book(sync::now() + NOW_AND_THEN),
            WakesBy::OwnAlarm | WakesBy::NowAndThen | WakesBy::Itself => thread::cancel(self.id),
        }
    }

    /// `false` if the system refuses, which it has no reason to.
    fn set_own_alarm(&self, plan: &Locked<'_, Plan>, tick: Tick) -> bool {
        let at = self.clock.instant_of(tick).into_std();
        plan.alarm.as_ref().is_some_and(|alarm| alarm.set(at).is_ok())
    }

    /// From when on a driver is late whose own alarm goes off at a tick.
    fn late(&self, tick: Tick) -> Instant {
        self.clock.instant_of(tick).into_std() + PATIENCE_WITH_OWN_ALARM
    }

    /// Has the alarm thread look at an instant, or earlier if it is to in any case.
    fn look_at(&self, plan: &mut Locked<'_, Plan>, at: Instant) {
        if plan.looks_at.is_none_or(|before| at + BETWEEN_LOOKS < before) {
            plan.looks_at = Some(at);
            self.book(at);
        }
    }

    /// From now on this is what is set for [`WakesBy::OwnAlarm`].
    pub(crate) fn use_alarm(&self, alarm: Arc<dyn SharedAlarm>) {
        let mut plan = self.parker.lock();
        let before = if plan.is_open { plan.alarm.replace(alarm) } else { None };
        drop(plan);
        drop(before);
    }

    /// What is set for [`WakesBy::OwnAlarm`].
    pub(crate) fn own_alarm(&self) -> Option<Arc<dyn SharedAlarm>> {
        self.parker.lock().alarm.clone()
    }

    /// The driver's own alarm has gone off, as is found at the time `now`, and whoever was called looks at the shards in
    /// the driver's place. `false` if the timer has ended.
    pub(crate) fn begin_turn_inline(&self, now: Tick) -> bool {
        let mut plan = self.parker.lock();
        if !plan.is_open {
            return false;
        }
        if plan.phase() == Phase::Parked {
            plan.coalesce.woken_for(self.next_wake().min(now));
        }
        self.expect_driver(&mut plan);
        true
    }

    /// A turn in the driver's place was not through.
    pub(crate) fn wake_late_driver(&self) {
        let mut plan = self.parker.lock();
        if let Phase::Looking { .. } = plan.phase() {
            plan.is_expected = true;
            self.watch_driver(&mut plan);
        }
        wake(plan);
    }

    /// Has the alarm thread call at a tick; the lock is held.
    fn book_for(&self, tick: Tick) {
        if tick == Tick::MAX {
            thread::cancel(self.id);
        } else {
            self.book(self.clock.instant_of(tick).into_std());
        }
    }

    fn book(&self, at: Instant) {
        if let Some(booker) = self.booker.get() {
            thread::book(self.id, at, *booker);
        }
    }

    /// When the alarm thread is to call.
    #[cfg(test)]
    pub(crate) fn booked(&self) -> Option<Instant> {
        thread::booked(self.id)
    }
}

/// Wakes the driver, with the lock let go.
fn wake(mut plan: Locked<'_, Plan>) {
    let waker = plan.waker.take();
    drop(plan);
    if let Some(waker) = waker {
        waker.wake();
    }
}

// The alarm thread calls outside of the lock, and what it finds is whole whatever has panicked.
impl std::panic::RefUnwindSafe for Parking {}

#[cfg(test)]
mod tests;
