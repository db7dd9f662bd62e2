//! [`Schedule`]: when a timer's next turn begins, what starts it, and which thread makes it.
//!
//! A turn fires due timers, finds the earliest remaining deadline, and sets an alarm for it. The driver's task makes
//! it, or the driver's own alarm, or a helper thread if the driver is late. A thread that wants to begin a turn during
//! another makes that one scan again. The [parker](super::parker) is the handshake with threads that register
//! deadlines.
//
// Invariants
// 1. Turns do not overlap. When a turn ends, the next is certain to begin in time: an alarm is set, or the driver was
//    woken. The driver is woken if it was wanted during another thread's turn, or if only it can set the alarm.
// 2. A woken driver is watched, unless only it can set the alarm. If it is late, the alarm thread sends a helper.
// 3. While `certain` is finite, the alarm thread withdraws it soon after `next_wake`.
// 4. While a test sets the time, the test fires timers, and no turn begins.

use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::clock::instant;
use crate::clock::source::{self, Source};
use crate::core::alarm::SharedAlarm;
use crate::core::alarm::find_io::FindIo;
use crate::core::alarm::thread::{self, Booker, BookerId};
use crate::core::coalesce::Coalesce;
use crate::core::epoch::Epoch;
use crate::core::parker::{Locked, Parker, Phase};
use crate::util::panics::catch_panic;
use crate::util::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::SeqCst};
use crate::util::sync::{self, Counter};
use crate::wheel::{Tick, Ticks};

/// How late the alarm thread may be before [`Schedule::is_surely_future`] is wrong: 134 ms. A sleep polled after its
/// deadline then waits until the thread runs.
const ALARM_MAY_LAG: Ticks = Ticks(1 << 27);

/// How long a woken driver may take to turn before a helper does.
const PATIENCE: Duration = Duration::from_millis(1);

/// How late a driver's own alarm may be before the driver is woken. `PATIENCE`, if it was late within `DISTRUST`: a
/// worker that took the alarm's event from the I/O driver, and then blocks, does not look for the next.
const PATIENCE_WITH_OWN_ALARM: Duration = Duration::from_millis(5);

const DISTRUST: Duration = Duration::from_secs(1);

/// The minimum time between checks of a driver's own alarm that was on time.
const BETWEEN_CHECKS: Duration = Duration::from_millis(20);

/// How often a driver reads a clock for which it has no alarm.
const NOW_AND_THEN: Duration = Duration::from_millis(10);

pub(crate) struct Schedule {
    pub(crate) parker: Parker<Plan>,
    /// No deadline after this tick can have passed. `Tick::MAX` if that is unknown.
    certain: AtomicU64,
    pub(crate) clock: Source,
    pub(crate) io: FindIo,
    /// Whether the timer has no driver and helpers make all turns.
    driverless: AtomicBool,
    /// How long due timers may wait to share a turn, in ticks.
    pub(crate) longest_wait: AtomicU64,
    pub(crate) id: BookerId,
    booker: OnceLock<&'static dyn Booker>,
}

pub(crate) struct Plan {
    pub(crate) is_open: bool,
    name: Option<&'static str>,
    /// Wakes the driver's task. `None` once it was woken.
    driver: Option<DriverWaker>,
    driver_turns: bool,
    /// Whether the driver was polled or woken during another thread's turn. Only the driver chooses the alarm.
    pub(crate) driver_is_wanted: bool,
    alarm: WakesBy,
    /// When the alarm thread next checks the driver's own alarm, at the latest.
    checks_at: Option<Instant>,
    /// When a check last found that the driver's own alarm was late.
    was_late: Option<Instant>,
    /// The driver's runtime, if tokio can pause its clock.
    runtime: Option<Handle>,
    coalesce: Coalesce,
}

impl Plan {
    fn only_the_driver_sets_it(&self) -> bool {
        matches!(self.alarm, WakesBy::Tokio | WakesBy::NowAndThen)
    }

    fn is_distrusted(&self, now: Instant) -> bool {
        self.was_late.is_some_and(|late| now < late + DISTRUST)
    }
}

/// The alarm that starts a turn at `next_wake`.
#[derive(Clone)]
pub(crate) enum WakesBy {
    /// The alarm thread, which wakes the driver.
    Thread,
    /// The driver's own alarm. Any thread can set it, it makes the turn, and the alarm thread checks that it does.
    Own(Arc<dyn SharedAlarm>),
    /// A tokio sleep, which only the driver can set.
    Tokio,
    /// Both the alarm thread and a tokio sleep, because a test may pause the clock in between.
    Both,
    /// The alarm thread, periodically: the clock is not the system's and has no alarm.
    NowAndThen,
}

pub(crate) struct DriverWaker {
    pub(crate) waker: Waker,
    /// Whether this may be another executor's waker, which the alarm thread does not run. A tokio task's never blocks.
    pub(crate) is_foreign: bool,
}

impl DriverWaker {
    pub(crate) fn wake(self) {
        catch_panic(|| self.waker.wake());
    }
}

pub(crate) enum Due {
    Nothing,
    Wake(DriverWaker),
    /// Send a helper to turn: there is no driver, or it was woken and is late.
    Helper,
}

impl Schedule {
    pub(crate) fn new() -> Self {
        static NEXT: Counter = Counter::new(0);
        let number = NEXT.fetch_add(1, SeqCst);
        Schedule {
            parker: Parker::new(Plan {
                is_open: false,
                name: None,
                driver: None,
                driver_turns: false,
                driver_is_wanted: false,
                alarm: WakesBy::Thread,
                checks_at: None,
                was_late: None,
                runtime: None,
                coalesce: Coalesce::new(Ticks(0)),
            }),
            certain: AtomicU64::new(u64::MAX),
            clock: Source::runtime(),
            io: FindIo::new(number),
            driverless: AtomicBool::new(false),
            longest_wait: AtomicU64::new(0),
            id: BookerId::Timer(number),
            booker: OnceLock::new(),
        }
    }

    pub(crate) fn name(&self) -> Option<&'static str> {
        self.parker.lock().name
    }

    pub(crate) fn set_name(&self, name: Option<&'static str>) {
        self.parker.lock().name = name;
    }

    /// Makes the alarm thread call `booker`. Only the first call has an effect.
    pub(crate) fn set_booker(&self, booker: &'static dyn Booker) {
        self.booker.get_or_init(|| booker);
    }

    /// Begins a timer whose driver is about to be spawned, or one without a driver, for which helpers turn.
    pub(crate) fn open(&self, driverless: bool, coalesce: Ticks) {
        self.clock.follow_runtime();
        let mut plan = self.begin(driverless, coalesce);
        if driverless {
            plan.park(Tick::MAX);
            return;
        }
        plan.runtime = instant::runtime_that_may_pause();
        if instant::clock_is_the_systems() {
            self.watch(&mut plan);
        } else {
            source::one_is_held();
        }
    }

    /// Opens the plan as if the driver had been woken.
    pub(crate) fn begin(&self, driverless: bool, coalesce: Ticks) -> Locked<'_, Plan> {
        self.driverless.store(driverless, SeqCst);
        self.longest_wait.store(coalesce.0, SeqCst);
        self.io.forget();
        let mut plan = self.parker.lock();
        plan.leave();
        (plan.is_open, plan.alarm, plan.driver_is_wanted) = (true, WakesBy::Thread, false);
        (plan.checks_at, plan.was_late) = (None, None);
        plan.coalesce = Coalesce::new(coalesce);
        plan
    }

    #[inline]
    pub(crate) fn is_driverless(&self) -> bool {
        self.driverless.load(Acquire)
    }

    /// Ends the timer, and wakes its driver, which then completes.
    pub(crate) fn close(&self) {
        let mut plan = self.parker.lock();
        plan.is_open = false;
        self.stop(&mut plan);
        let gone = (plan.runtime.take(), std::mem::replace(&mut plan.alarm, WakesBy::Thread));
        wake(plan);
        drop(gone);
        self.io.forget();
    }

    /// Lets no further turn begin. A turn in progress ends without setting an alarm.
    pub(crate) fn stop(&self, plan: &mut Locked<'_, Plan>) {
        if !plan.scan_again() {
            plan.leave();
        }
        self.certain.store(u64::MAX, SeqCst);
        thread::cancel(self.id);
    }

    pub(crate) fn unused(&self, epoch: Epoch) {
        if let Some(booker) = self.booker.get() {
            booker.unused(epoch);
        }
    }

    /// Begins a turn, and returns whether it did. It does not if the timer has ended, while a test sets the time, or
    /// during another turn, which then scans again. A driver passes its own waker.
    pub(crate) fn begin_turn(&self, driver: Option<DriverWaker>) -> bool {
        let mut plan = self.parker.lock();
        if !plan.is_open {
            return false;
        }
        let by_driver = driver.is_some();
        let before = if by_driver { std::mem::replace(&mut plan.driver, driver) } else { None };
        let begun = !self.clock.is_shown() && plan.claim();
        if begun {
            (plan.driver_turns, plan.driver_is_wanted) = (by_driver, plan.driver_is_wanted && !by_driver);
            self.certain.store(u64::MAX, SeqCst);
        } else {
            plan.driver_is_wanted |= by_driver;
        }
        drop(plan);
        // Dropped outside the lock: it may be user code.
        catch_panic(|| drop(before));
        begun
    }

    /// Ends a turn that `fired` timers by `now` and found `earliest`. Returns when the next turn begins, which may be
    /// later than `earliest` if timers are coalesced, or `None` if this turn has to scan again.
    pub(crate) fn end_turn(&self, now: Tick, fired: usize, earliest: Tick) -> Option<Tick> {
        let mut plan = self.parker.lock();
        if !self.goes_on(&mut plan) {
            return Some(Tick::MAX);
        }
        if plan.driver_is_wanted || !plan.driver_turns && plan.only_the_driver_sets_it() {
            self.call(plan, false);
            return Some(Tick::MAX);
        }
        // No time passes on a paused clock, so nothing would be coalesced.
        let waits = !plan.only_the_driver_sets_it();
        let coalesce = if waits { plan.coalesce.after_turn(now, fired, earliest) } else { plan.coalesce };
        let earliest = if waits { coalesce.earliest_turn(earliest) } else { earliest };
        if !plan.park(earliest) {
            return None;
        }
        plan.coalesce = coalesce;
        self.set_alarm(&mut plan, earliest);
        Some(earliest)
    }

    /// Ends a turn early. The driver makes the next, or a helper if the driver is already late.
    pub(crate) fn interrupt_turn(&self, driver_is_late: bool) {
        let mut plan = self.parker.lock();
        if self.goes_on(&mut plan) {
            self.call(plan, driver_is_late);
        }
    }

    /// Whether another turn follows the one that is ending.
    fn goes_on(&self, plan: &mut Locked<'_, Plan>) -> bool {
        let goes_on = plan.is_open && !self.clock.is_shown();
        if !goes_on {
            plan.leave();
        }
        goes_on
    }

    /// Sets what wakes the driver from the next turn on.
    pub(crate) fn wake_by(&self, alarm: WakesBy) {
        let mut plan = self.parker.lock();
        let before = if plan.is_open { std::mem::replace(&mut plan.alarm, alarm) } else { alarm };
        drop(plan);
        drop(before);
    }

    pub(crate) fn own_alarm(&self) -> Option<Arc<dyn SharedAlarm>> {
        match &self.parker.lock().alarm {
            WakesBy::Own(alarm) => Some(alarm.clone()),
            _ => None,
        }
    }

    /// A shard has published `deadline` as its earliest.
    #[inline]
    pub(crate) fn registered(&self, deadline: Tick) {
        if self.parker.is_too_late_for(deadline) {
            self.turn_by(deadline);
        }
    }

    #[cold]
    fn turn_by(&self, deadline: Tick) {
        let mut plan = self.parker.lock();
        let runs = plan.runtime.is_none() || instant::clock_is_the_systems();
        if !runs {
            source::one_is_held();
        }
        let waits = runs && !plan.only_the_driver_sets_it();
        let deadline = if waits { plan.coalesce.earliest_turn(deadline) } else { deadline };
        if !plan.registered(deadline) {
            return;
        }
        // Unless a test has paused the clock, the driver sleeps on and only its alarm moves.
        if runs && matches!(plan.alarm, WakesBy::Thread | WakesBy::Own(_)) {
            plan.wake_earlier(deadline);
            self.set_alarm(&mut plan, deadline);
        } else {
            self.call(plan, false);
        }
    }

    /// An entry due at `before` was removed or postponed, and the shard has published its earliest deadline. A paused
    /// clock must not jump to an alarm for the removed entry.
    pub(crate) fn postponed(&self, before: Tick) {
        if self.next_wake() < before {
            return;
        }
        let mut plan = self.parker.lock();
        if !plan.scan_again() && plan.phase() == Phase::Idle && self.next_wake() >= before {
            self.call(plan, false);
        }
    }

    /// Wakes a sleeping driver unconditionally.
    pub(crate) fn wake_driver(&self) {
        let mut plan = self.parker.lock();
        match plan.phase() {
            Phase::Scanning { .. } => plan.driver_is_wanted = true,
            Phase::Idle if !self.is_driverless() => self.call(plan, false),
            Phase::Idle | Phase::Away => {}
        }
    }

    /// Wakes the driver, makes the alarm thread check that it turns, and unlocks.
    pub(crate) fn call(&self, mut plan: Locked<'_, Plan>, is_late: bool) {
        plan.leave();
        self.certain.store(u64::MAX, SeqCst);
        if is_late {
            self.book(sync::now());
        } else if !plan.only_the_driver_sets_it() {
            self.watch(&mut plan);
        }
        wake(plan);
    }

    /// Makes the alarm thread check that a woken driver turns.
    fn watch(&self, plan: &mut Locked<'_, Plan>) {
        let at = sync::now() + PATIENCE;
        // A helper that turns again and again keeps the check that is booked.
        if self.is_driverless() && plan.checks_at.is_some_and(|before| before <= at) {
            return;
        }
        plan.checks_at = self.is_driverless().then_some(at);
        self.book(at);
    }

    /// Called by the alarm thread.
    pub(crate) fn alarm(&self) -> Due {
        let mut plan = self.parker.lock();
        plan.checks_at = None;
        if !plan.is_open || self.clock.is_shown() {
            return Due::Nothing;
        }
        match plan.phase() {
            Phase::Scanning { .. } => Due::Nothing,
            Phase::Idle => self.alarm_in_time(plan),
            // The driver is late, or was woken just now and one of the two finds nothing to do.
            Phase::Away => Due::Helper,
        }
    }

    /// Handles the alarm in phase `Idle`.
    fn alarm_in_time(&self, mut plan: Locked<'_, Plan>) -> Due {
        let (now, next_wake) = (sync::now(), self.next_wake());
        match plan.alarm {
            WakesBy::Tokio => return Due::Nothing,
            WakesBy::Own(_) if next_wake == Tick::MAX => return Due::Nothing,
            WakesBy::Own(_) if self.late(&plan, next_wake, now) > now => {
                // This check found nothing, so the next is not due soon.
                plan.checks_at = Some(now);
                self.check_own_alarm(&mut plan, next_wake);
                return Due::Nothing;
            }
            WakesBy::Own(_) => plan.was_late = Some(now),
            // The booking was replaced just before the call.
            WakesBy::Thread | WakesBy::Both if next_wake > self.clock.now() => {
                self.book_for(next_wake);
                return Due::Nothing;
            }
            WakesBy::Thread | WakesBy::Both | WakesBy::NowAndThen => {}
        }
        plan.leave();
        self.certain.store(u64::MAX, SeqCst);
        let Some(driver) = plan.driver.take() else {
            return Due::Helper;
        };
        self.watch(&mut plan);
        Due::Wake(driver)
    }

    /// Called if the driver runs on another runtime than the one its timer was built on.
    pub(crate) fn follow(&self, runtime: Option<Handle>) {
        let mut plan = self.parker.lock();
        let before = if plan.is_open { std::mem::replace(&mut plan.runtime, runtime) } else { runtime };
        drop(plan);
        drop(before);
    }

    pub(crate) fn runtime(&self) -> Option<Handle> {
        self.parker.lock().runtime.clone()
    }

    fn set_alarm(&self, plan: &mut Locked<'_, Plan>, tick: Tick) {
        if let WakesBy::Own(alarm) = &plan.alarm {
            // A spurious wake-up is cheaper than disarming the alarm every time. Setting it fails if the program has
            // closed the file, or in a forked process.
            if tick < Tick::MAX && alarm.set(self.clock.instant_of(tick).into_std()).is_err() {
                plan.alarm = WakesBy::Thread;
            }
        }
        let certain = match plan.alarm {
            WakesBy::Thread | WakesBy::Own(_) => tick + ALARM_MAY_LAG,
            WakesBy::Tokio | WakesBy::Both | WakesBy::NowAndThen => Tick::MAX,
        };
        self.certain.store(certain.0, SeqCst);
        match plan.alarm {
            WakesBy::Own(_) if tick == Tick::MAX => return,
            WakesBy::Own(_) => return self.check_own_alarm(plan, tick),
            WakesBy::Thread | WakesBy::Both => self.book_for(tick),
            WakesBy::NowAndThen if tick < Tick::MAX => self.book(sync::now() + NOW_AND_THEN),
            WakesBy::NowAndThen | WakesBy::Tokio => thread::cancel(self.id),
        }
        plan.checks_at = None;
    }

    /// When a driver whose own alarm is set for `tick` counts as late.
    fn late(&self, plan: &Plan, tick: Tick, now: Instant) -> Instant {
        let patience = if plan.is_distrusted(now) { PATIENCE } else { PATIENCE_WITH_OWN_ALARM };
        self.clock.instant_of(tick).into_std() + patience
    }

    /// Makes the alarm thread check that the driver's own alarm, set for `tick`, goes off. Postpones a check that is due
    /// soon, to save a wake-up: the alarm was on time, or has yet to go off. Not while the alarm is distrusted.
    fn check_own_alarm(&self, plan: &mut Locked<'_, Plan>, tick: Tick) {
        let now = sync::now();
        let at = self.late(plan, tick, now);
        let at = match plan.checks_at {
            _ if plan.is_distrusted(now) => at,
            Some(before) if before < now + BETWEEN_CHECKS * 3 / 4 => at.max(now + BETWEEN_CHECKS),
            Some(before) if before < at + BETWEEN_CHECKS => return,
            _ => at,
        };
        plan.checks_at = Some(at);
        self.book(at);
    }

    /// Books a call by the alarm thread at `tick`. The caller holds the lock.
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

    #[cfg(test)]
    pub(crate) fn booked(&self) -> Option<Instant> {
        thread::booked(self.id)
    }

    /// Whether a deadline is certainly in the future. Reads no clock.
    #[inline]
    pub(crate) fn is_surely_future(&self, deadline: Tick) -> bool {
        deadline.0 > self.certain.load(SeqCst)
    }

    pub(crate) fn next_wake(&self) -> Tick {
        self.parker.next_wake()
    }
}

fn wake(mut plan: Locked<'_, Plan>) {
    let driver = plan.driver.take();
    drop(plan);
    if let Some(driver) = driver {
        driver.wake();
    }
}

// The alarm thread calls outside the lock, and finds a consistent state even after a panic.
impl std::panic::RefUnwindSafe for Schedule {}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use crate::clock;
    use crate::core::helpers::Helpers;

    fn comes(schedule: &Schedule) -> bool {
        schedule.begin_turn(Some(DriverWaker { waker: Waker::noop().clone(), is_foreign: false }))
    }

    /// The schedule of a timer whose driver was polled once, and sleeps.
    fn parked() -> Schedule {
        let schedule = Schedule::new();
        schedule.open(false, Ticks(0));
        assert!(comes(&schedule));
        assert_eq!(schedule.end_turn(clock::now(), 0, Tick::MAX), Some(Tick::MAX));
        schedule
    }

    /// A thread that arrives during a turn leaves immediately, and the turn has to scan again.
    #[test]
    fn a_turn_looks_again_for_each_that_came_meanwhile() {
        let schedule = parked();
        let comes: [fn(&Schedule); 3] = [
            |schedule| schedule.registered(Tick(1)),
            |schedule| schedule.postponed(Tick(1)),
            |schedule| assert!(!schedule.begin_turn(None)),
        ];
        assert!(schedule.begin_turn(None));
        for come in comes {
            come(&schedule);
            assert_eq!(schedule.end_turn(Tick(1), 0, Tick::MAX), None);
        }
        assert_eq!(schedule.end_turn(Tick(1), 0, Tick::MAX), Some(Tick::MAX));
    }

    #[test]
    fn a_driver_that_is_wanted_during_the_turn_of_another_is_called_at_its_end() {
        let is_called = |schedule: &Schedule| {
            schedule.end_turn(Tick(1), 0, Tick(5)).unwrap();
            schedule.next_wake() == Tick::ZERO && schedule.parker.lock().driver.is_none()
        };
        let wants: [fn(&Schedule); 2] = [|schedule| assert!(!comes(schedule)), Schedule::wake_driver];
        for want in wants {
            let schedule = parked();
            assert!(schedule.begin_turn(None));
            want(&schedule);
            assert!(is_called(&schedule));
            assert!(comes(&schedule));
            assert!(!is_called(&schedule), "once");
        }
        let schedule = parked();
        schedule.wake_by(WakesBy::Tokio);
        assert!(schedule.begin_turn(None));
        assert!(is_called(&schedule), "nobody else sets it");
    }

    /// The waker would keep the task, and with it the runtime and its files, and the next timer would wake it.
    #[test]
    fn a_timer_that_has_ended_keeps_no_waker() {
        let schedule = parked();
        schedule.close();
        assert!(!comes(&schedule));
        assert!(schedule.parker.lock().driver.is_none());
    }

    #[test]
    fn a_turn_that_outlives_its_timer_ends_and_sets_no_alarm() {
        let schedule = parked();
        assert!(comes(&schedule));
        schedule.close();
        assert_eq!(schedule.end_turn(Tick(1), 0, Tick(5)), Some(Tick::MAX));
        assert_eq!((comes(&schedule), schedule.booked()), (false, None));
    }

    /// A driver's own alarm that records its times, and fails after `sets` of them.
    struct Alarm {
        set: Mutex<Vec<Instant>>,
        sets: usize,
    }

    impl Alarm {
        fn new(sets: usize) -> Arc<Self> {
            Arc::new(Alarm { set: Mutex::default(), sets })
        }
    }

    impl SharedAlarm for Alarm {
        fn set(&self, at: Instant) -> std::io::Result<()> {
            let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
            set.push(at);
            if set.len() <= self.sets { Ok(()) } else { Err(std::io::ErrorKind::Other.into()) }
        }

        fn forget(&self, _: &Waker) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_alarm_of_the_drivers_own_is_moved_to_an_earlier_deadline_and_replaced_if_it_fails() {
        let schedule = parked();
        schedule.set_booker(Notes::new());
        let (later, earlier) = (clock::now() + Ticks(1 << 45), clock::now() + Ticks(1 << 44));
        assert!(comes(&schedule));
        let alarm = Alarm::new(1);
        schedule.wake_by(WakesBy::Own(alarm.clone()));
        assert_eq!(schedule.end_turn(Tick(1), 0, later), Some(later));
        let instant = |tick| clock::instant_of(tick).into_std();
        assert!(schedule.booked() > Some(instant(later)), "the thread checks once the driver is late");
        schedule.registered(earlier);
        assert_eq!(*alarm.set.lock().unwrap(), [later, earlier].map(instant));
        assert_eq!((schedule.next_wake(), schedule.booked()), (earlier, Some(instant(earlier))), "the thread serves");
    }

    #[test]
    fn while_the_drivers_own_alarm_is_in_time_turns_put_the_alarm_threads_check_off() {
        let schedule = parked();
        schedule.set_booker(Notes::new());
        schedule.wake_by(WakesBy::Own(Alarm::new(2)));
        let turn = || {
            assert!(comes(&schedule));
            schedule.end_turn(Tick(1), 1, clock::now() + Ticks(1_000_000)).unwrap();
            schedule.parker.lock().checks_at
        };
        let first = turn();
        assert!(turn() > first);
    }

    /// If a helper blocks after it has ended a turn early, another has to come soon.
    #[test]
    fn without_a_driver_each_turn_that_ends_early_is_followed_up_soon() {
        let schedule = Schedule::new();
        schedule.set_booker(Notes::new());
        schedule.open(true, Ticks(0));
        let mut last = None;
        for _ in 0..3 {
            assert!(schedule.begin_turn(None));
            schedule.interrupt_turn(false);
            let check = schedule.parker.lock().checks_at;
            assert!(check.is_some_and(|at| at <= Instant::now() + PATIENCE), "at {check:?}");
            assert!(last.is_none() || check == last, "no turn postpones it");
            last = check;
        }
    }

    /// A worker that blocks after it took an event from the I/O driver keeps the alarm from being noticed.
    #[test]
    fn an_alarm_of_the_drivers_own_that_was_late_is_checked_after_a_millisecond() {
        let schedule = parked();
        schedule.set_booker(Notes::new());
        schedule.wake_by(WakesBy::Own(Alarm::new(3)));
        let checks_after = || {
            let deadline = clock::now() + Ticks(1 << 44);
            schedule.end_turn(Tick(1), 1, deadline).unwrap();
            schedule.booked().unwrap() - clock::instant_of(deadline).into_std()
        };
        assert!(comes(&schedule));
        assert_eq!(checks_after(), PATIENCE_WITH_OWN_ALARM);
        assert!(comes(&schedule));
        schedule.end_turn(Tick(1), 1, Tick(1)).unwrap();
        assert!(matches!(schedule.alarm(), Due::Wake(_)), "the alarm did not go off at tick 1");
        assert!(comes(&schedule));
        assert_eq!(checks_after(), PATIENCE);
    }

    struct Notes(AtomicBool);

    impl Notes {
        fn new() -> &'static Notes {
            Box::leak(Box::new(Notes(AtomicBool::new(false))))
        }
    }

    impl Booker for Notes {
        fn alarm(&'static self, _: &'static Helpers) {
            self.0.store(true, SeqCst);
        }
    }

    /// The driver slept without a deadline, so nothing was booked. If it never turned, later timers would not fire.
    #[test]
    fn a_driver_that_is_woken_though_nothing_waits_is_watched() {
        thread::start().unwrap();
        let booker = Notes::new();
        let schedule = parked();
        schedule.set_booker(booker);
        assert_eq!(schedule.booked(), None);
        schedule.wake_driver();
        let start = Instant::now();
        while !booker.0.load(SeqCst) {
            assert!(start.elapsed() < Duration::from_secs(60), "nobody sees whether it comes");
            std::thread::yield_now();
        }
    }
}
