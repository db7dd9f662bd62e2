//! [`Parking`]: how a timer's driver sleeps, what wakes it, and who turns if it is late.
//!
//! The [parker](super::parker) does the handshake with those that register deadlines. Here is the rest: an alarm for
//! the tick at which the driver wakes, a watch over a late driver, the coalescing of dense timers, and the timer's
//! clock.
//
// Invariants
// 1. An alarm of the driver's own stays set, whatever a stand-in publishes in the driver's place.
// 2. While the driver is expected, the alarm thread has a booking to see that it came, unless a clock is paused.
// 3. While `certain` is finite, the alarm thread withdraws it soon after `next_wake`.
// 4. While a test shows the time, the test fires what is due. The parker is then `Away`, except during a turn that
//    began before.

mod alarms;
pub(crate) mod coalesce;
mod driver_waker;
mod turns;
mod unconfirmed;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use self::coalesce::Coalesce;
pub(crate) use self::driver_waker::DriverWaker;
pub(crate) use self::unconfirmed::Unconfirmed;
use crate::clock::instant;
use crate::clock::source::Source;
use crate::core::alarm::SharedAlarm;
use crate::core::alarm::find_io::FindIo;
use crate::core::alarm::thread::{self, Booker, BookerId};
use crate::core::parker::{Found, Locked, Parker, Phase};
use crate::core::pool::Epoch;
use crate::util::name::Name;
use crate::util::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::SeqCst};
use crate::util::sync::{self, Counter};
use crate::wheel::{Tick, Ticks};

/// How late the alarm thread may be before [`Parking::is_surely_future`] is wrong: 134 ms. Even then, a sleep that is
/// polled after its deadline only goes on waiting, until the thread runs and wakes it.
const ALARM_MAY_LAG: Ticks = Ticks(1 << 27);

/// How long a driver may take to turn once it was woken, before a stand-in turns in its place.
const PATIENCE: Duration = Duration::from_millis(1);

/// How late a driver's own alarm may go off, before a stand-in turns in the driver's place.
const PATIENCE_WITH_OWN_ALARM: Duration = Duration::from_millis(5);

/// How often the alarm thread checks the driver's own alarm, as long as it is not late.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// How often a driver looks at a clock for which it has no alarm.
const NOW_AND_THEN: Duration = Duration::from_millis(10);

pub(crate) struct Parking {
    pub(super) parker: Parker<Plan>,
    /// No deadline after this tick can have passed. `Tick::MAX` if that is not known.
    pub(super) certain: AtomicU64,
    pub(crate) unconfirmed: Unconfirmed,
    pub(crate) clock: Source,
    /// Whether the driver's runtime has an I/O driver.
    pub(crate) io: FindIo,
    /// Whether the timer has no driver, so that stand-ins make all its turns.
    pub(super) driverless: AtomicBool,
    pub(super) id: BookerId,
    /// The number of the timer's name.
    name: AtomicU32,
    booker: OnceLock<&'static dyn Booker>,
}

/// The state under the parker's lock.
pub(super) struct Plan {
    /// Whether the timer is open.
    pub(super) is_open: bool,
    waker: Option<DriverWaker>,
    /// Whether the driver was woken, or will turn by itself, and has not begun a turn since.
    is_expected: bool,
    wakes_by: WakesBy,
    /// The driver's own alarm, if it has one.
    alarm: Option<Arc<dyn SharedAlarm>>,
    /// When the alarm thread next checks the driver's own alarm, at the latest.
    looks_at: Option<Instant>,
    /// The driver's runtime, if a test may pause its clock unnoticed.
    runtime: Option<Handle>,
    coalesce: Coalesce,
    /// When the driver was last woken.
    woken_at: Instant,
}

/// What wakes a sleeping driver at `next_wake`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakesBy {
    /// The alarm thread.
    Thread,
    /// The alarm thread, or tokio's alarm if a test pauses the clock meanwhile.
    ThreadOrTokio,
    /// An alarm of the driver's own, which any thread can set. The alarm thread checks that it goes off.
    OwnAlarm,
    /// The alarm thread, now and then: the clock is not the system's, and the driver has no alarm for it.
    NowAndThen,
    /// An alarm of the driver's own, on a clock that the alarm thread does not know, or less precise than the thread.
    Itself,
}

/// What to do when an alarm has gone off.
pub(crate) enum Due {
    /// Nothing more.
    Nothing,
    /// Wake the driver.
    Wake(DriverWaker),
    /// Send a stand-in to turn: there is no driver, or it was woken before and has not turned.
    StandIn,
}

impl Parking {
    pub(crate) fn new() -> Self {
        // Not part of any handshake, so models share it.
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
                coalesce: Coalesce::new(Ticks(0)),
                woken_at: sync::now(),
            }),
            certain: AtomicU64::new(u64::MAX),
            unconfirmed: Unconfirmed::none(),
            clock: Source::runtime(),
            io: FindIo::new(),
            driverless: AtomicBool::new(false),
            id: BookerId::Timer(NEXT.fetch_add(1, SeqCst)),
            name: AtomicU32::new(0),
            booker: OnceLock::new(),
        }
    }

    /// The name of the timer that has this memory.
    pub(crate) fn name(&self) -> Name {
        Name::numbered(self.name.load(SeqCst))
    }

    pub(crate) fn set_name(&self, name: Name) {
        self.name.store(name.number(), SeqCst);
    }

    /// The alarm thread calls `booker` for this, from the first call of this function on.
    pub(crate) fn set_booker(&self, booker: &'static dyn Booker) {
        self.booker.get_or_init(|| booker);
    }

    /// Begins a timer whose driver is about to be spawned.
    pub(crate) fn open(&self, coalesce: Ticks) {
        let mut plan = self.prepare(false, coalesce);
        let before = std::mem::replace(&mut plan.runtime, instant::runtime_that_may_pause());
        self.expect_driver(&mut plan);
        if instant::clock_is_the_systems() {
            self.watch_driver(&mut plan);
        }
        drop(plan);
        drop(before);
    }

    /// Begins a timer without a driver: a stand-in turns whenever something is due.
    pub(crate) fn open_driverless(&self, coalesce: Ticks) {
        let mut plan = self.prepare(true, coalesce);
        plan.wakes_by = WakesBy::Thread;
        plan.park(Tick::MAX);
        self.certain.store(u64::MAX, SeqCst);
    }

    /// Begins a timer on the clock of its runtime.
    fn prepare(&self, driverless: bool, coalesce: Ticks) -> Locked<'_, Plan> {
        self.driverless.store(driverless, SeqCst);
        self.unconfirmed.forget();
        self.io.forget();
        self.clock.follow_runtime();
        self.begin(coalesce)
    }

    /// Opens the plan, as if a look had begun.
    pub(super) fn begin(&self, coalesce: Ticks) -> Locked<'_, Plan> {
        let mut plan = self.parker.lock();
        plan.look();
        (plan.is_open, plan.is_expected, plan.coalesce) = (true, false, Coalesce::new(coalesce));
        plan.looks_at = None;
        plan
    }

    /// Whether the timer has no driver.
    #[inline]
    pub(crate) fn is_driverless(&self) -> bool {
        self.driverless.load(Acquire)
    }

    /// The timer has ended. Wakes its driver, which completes.
    pub(crate) fn close(&self) {
        let mut plan = self.parker.lock();
        plan.leave();
        plan.is_open = false;
        self.certain.store(u64::MAX, SeqCst);
        thread::cancel(self.id);
        let gone = (plan.runtime.take(), plan.alarm.take());
        wake(plan);
        drop(gone);
        self.io.forget();
    }

    /// A shard of the timer that has this epoch has no users any more.
    pub(crate) fn unused(&self, epoch: Epoch) {
        if let Some(booker) = self.booker.get() {
            booker.unused(epoch);
        }
    }

    /// A deadline was registered that is the earliest of its shard, and the shard has published it. Returns whether the
    /// clock was found to be paused, which the driver does not know yet.
    #[inline]
    pub(crate) fn registered(&self, deadline: Tick) -> bool {
        self.parker.is_too_late_for(deadline) && self.turn_by(self.parker.lock(), deadline)
    }

    /// Makes a turn begin when `deadline` is reached. Returns whether the clock was found to be paused.
    #[cold]
    fn turn_by(&self, mut plan: Locked<'_, Plan>, deadline: Tick) -> bool {
        let deadline = plan.coalesce.earliest_turn(deadline);
        let looking = matches!(plan.phase(), Phase::Looking { .. });
        match plan.registered(deadline) {
            Found::Served => looking && !self.is_driverless() && !instant::clock_is_the_systems(),
            Found::Sleeper => {
                let by = plan.wakes_by;
                // Unless a test has paused the clock, the driver sleeps on and only the alarm moves.
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

    /// An entry that was due at `before` was removed or put off, and the shard has published what is left. The clock
    /// jumps to the driver's alarm, so the driver must not go on waiting for that entry.
    pub(crate) fn put_off(&self, before: Tick) {
        // The driver wakes for an earlier deadline, or is away.
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

    /// Wakes a sleeping driver, whatever it waits for.
    pub(crate) fn wake_driver(&self) {
        let plan = self.parker.lock();
        if plan.phase() == Phase::Parked && !self.is_driverless() {
            self.wake_up(plan);
        }
    }

    /// Wakes the driver, and makes the alarm thread check that it turns.
    pub(super) fn wake_up(&self, mut plan: Locked<'_, Plan>) {
        // If the driver sleeps until a tick, the booking for that tick checks whether it turns.
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

    /// Makes the alarm thread check that the driver turns.
    fn watch_driver(&self, plan: &mut Locked<'_, Plan>) {
        (plan.woken_at, plan.looks_at) = (sync::now(), None);
        self.book(plan.woken_at + PATIENCE);
    }

    /// The alarm thread calls. Returns what to do.
    pub(crate) fn alarm(&self) -> Due {
        let mut plan = self.parker.lock();
        plan.looks_at = None;
        match (plan.phase(), plan.wakes_by) {
            // The booking was replaced while the thread was about to call.
            (Phase::Parked, WakesBy::Thread | WakesBy::ThreadOrTokio) if self.next_wake() > self.clock.now() => {
                self.book_for(self.next_wake());
                Due::Nothing
            }
            (Phase::Parked, WakesBy::Thread | WakesBy::ThreadOrTokio) => {
                // There is no driver, or it was woken the last time and has not turned since.
                if self.is_driverless() || plan.waker.is_none() {
                    return Due::StandIn;
                }
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
                    self.certain.store(u64::MAX, SeqCst);
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

    /// Makes a stand-in turn at an instant, if nothing changes until then.
    fn stand_in_from(&self, at: Instant) -> Due {
        if sync::now() >= at {
            return Due::StandIn;
        }
        self.book(at);
        Due::Nothing
    }

    /// Whether a deadline is certainly in the future, without reading a clock.
    #[inline]
    pub(crate) fn is_surely_future(&self, deadline: Tick) -> bool {
        deadline.0 > self.certain.load(SeqCst)
    }

    /// The tick at which the driver wakes: `Tick::MAX` while it looks, tick 0 while it is away.
    pub(crate) fn next_wake(&self) -> Tick {
        self.parker.next_wake()
    }
}

/// Unlocks, then wakes the driver.
fn wake(mut plan: Locked<'_, Plan>) {
    let waker = plan.waker.take();
    drop(plan);
    if let Some(waker) = waker {
        waker.wake();
    }
}

// The alarm thread calls outside the lock, and finds a consistent state whatever has panicked.
impl std::panic::RefUnwindSafe for Parking {}

#[cfg(test)]
mod tests;
