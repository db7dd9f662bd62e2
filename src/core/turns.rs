//! [`Turns`]: when a timer's next turn begins, what starts it, and which thread runs it.
//!
//! A turn fires due timers, finds the earliest remaining deadline, and sets an alarm for it. It comes after a pass of
//! the runtime's own drivers, so what is fired finds the sockets' events delivered; or, if the runtime does not come to
//! that for long, from a helper thread. A thread that wants to begin a turn during another makes that one scan again.
//! The [parker](super::parker) is the handshake with threads that register deadlines.
//
// Invariants
// 1. Turns do not overlap. When a turn ends, the next is certain to begin in time: an alarm is set, or the driver was
//    called. The driver is called if it was wanted during another thread's turn, or if only it can set the alarm.
// 2. A called driver is watched, unless only it can set the alarm. Until a turn comes, the alarm thread wakes it again
//    from time to time, since the worker that polled it may block before its pass. After `patience` it sends a helper.
// 3. All entries up to `reached` have been taken out, or the scan in progress repeats, and none is inserted any more.
// 4. While a test sets the time, the test fires timers, and no turn begins.
// 5. A timer that has ended keeps no waker, no alarm and no runtime.

use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::clock::source::{self, Source};
use crate::clock::{self, instant};
use crate::core::alarm::driver_sleep::is_processed;
use crate::core::alarm::io_probe::IoProbe;
use crate::core::alarm::thread::{self, AlarmHandler, BookingId};
use crate::core::alarm::{TimerfdAlarm, TurnAlarm};
use crate::core::coalesce::Coalesce;
use crate::core::epoch::Epoch;
use crate::core::parker::{Locked, Parker, Phase, Then};
use crate::core::wake_list::WakeList;
use crate::util::panics::catch_panic;
use crate::util::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::util::sync::{self, Counter};
use crate::wheel::{Tick, Ticks};

/// How long a called driver may take until the alarm thread looks for its turn; each time, twice as long. Without a
/// runtime, how long a turn may take to begin before another helper is sent.
const PATIENCE: Duration = Duration::from_millis(1);

/// How long a runtime may fail to come to its drivers before a helper turns for it. A worker that computes is not a
/// runtime that nobody drives: what a helper fires has not seen the sockets.
const PATIENCE_WITH_RUNTIME: Duration = Duration::from_secs(1);

/// How late a `timerfd` may be before the driver is called. `PATIENCE`, if it was late within `DISTRUST`: a worker that
/// took its event from the I/O driver, and then blocks, does not look for the next.
const PATIENCE_WITH_TIMERFD: Duration = Duration::from_millis(5);

const DISTRUST: Duration = Duration::from_secs(1);

/// The minimum time between checks of a `timerfd` that was on time.
const BETWEEN_CHECKS: Duration = Duration::from_millis(20);

pub(crate) struct Turns {
    pub(crate) parker: Parker<TurnState>,
    /// The last tick that a turn has reached in all shards, or that a test has set the clock to.
    pub(crate) reached: AtomicU64,
    pub(crate) clock: Source,
    pub(crate) io: IoProbe,
    pub(crate) id: BookingId,
    handler: OnceLock<&'static dyn AlarmHandler>,
}

#[derive(Default)]
pub(crate) struct TurnState {
    pub(crate) name: Option<&'static str>,
    /// Whether the timer has no driver and helpers run all turns.
    is_driverless: bool,
    /// Wakes the driver's task. `None` once it was woken.
    driver: Option<DriverWaker>,
    /// Since when the driver has been called and no turn of its own has come.
    called: Option<Instant>,
    /// Whether a tokio runtime polls the driver. Elsewhere there is no pass to wait for.
    pub(crate) has_runtime: bool,
    pub(crate) alarm: TurnAlarm,
    /// When the alarm thread next checks the `timerfd` or the helpers, at the latest.
    checks_at: Option<Instant>,
    /// When a check last found that the `timerfd` was late.
    was_late: Option<Instant>,
    /// The driver's runtime, if tokio can pause its clock.
    pub(crate) runtime: Option<Handle>,
    pub(crate) coalesce: Coalesce,
}

impl TurnState {
    fn is_distrusted(&self, now: Instant) -> bool {
        self.was_late.is_some_and(|late| now < late + DISTRUST)
    }

    /// How late a turn may be before the alarm thread calls the driver; `None` if it does not.
    fn patience(&self, now: Instant) -> Option<Duration> {
        match self.alarm {
            TurnAlarm::DriverSleep | TurnAlarm::Nothing => None,
            TurnAlarm::Thread => Some(Duration::ZERO),
            TurnAlarm::Timerfd(_) if self.is_distrusted(now) => Some(PATIENCE),
            TurnAlarm::Timerfd(_) => Some(PATIENCE_WITH_TIMERFD),
        }
    }
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

/// Who runs a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The driver's task. It fires only what the last turn has left, and sets its own alarm.
    Driver,
    /// The runtime, after it has looked at its I/O. Its clock is the system's, or paused.
    Pass {
        is_paused: bool,
    },
    Helper,
}

pub(crate) enum Due {
    Nothing,
    Wake(DriverWaker),
    /// Send a helper to run a turn: there is no driver, or it was woken and is late.
    Helper,
}

impl Turns {
    pub(crate) fn new() -> Self {
        static NEXT: Counter = Counter::new(0);
        Turns {
            parker: Parker::new(TurnState::default()),
            reached: AtomicU64::new(0),
            clock: Source::runtime(),
            io: IoProbe::new(),
            id: BookingId(NEXT.fetch_add(1, SeqCst)),
            handler: OnceLock::new(),
        }
    }

    /// Makes the alarm thread call `handler`. Only the first call has an effect.
    pub(crate) fn set_handler(&self, handler: &'static dyn AlarmHandler) {
        self.handler.get_or_init(|| handler);
    }

    /// Opens a timer whose driver is about to be spawned, or one without a driver. Returns whether its clock is paused.
    pub(crate) fn open(&self, is_driverless: bool, coalesce: Ticks) -> bool {
        self.clock.follow_runtime();
        let mut state = self.begin(is_driverless, coalesce);
        if is_driverless {
            state.park(Tick::MAX);
            return false;
        }
        state.runtime = instant::runtime_that_may_pause();
        let is_paused = !instant::clock_is_the_systems();
        if is_paused {
            source::one_is_held();
            // As in tokio, what is due when a paused runtime begins does not wait.
            self.reach(self.clock.now());
        } else {
            self.watch(&mut state);
        }
        is_paused
    }

    /// Opens a timer as if its driver had been woken.
    pub(crate) fn begin(&self, is_driverless: bool, coalesce: Ticks) -> Locked<'_, TurnState> {
        let mut state = self.parker.lock();
        state.leave();
        let coalesce = Coalesce::new(coalesce);
        *state = TurnState { name: state.name, is_driverless, coalesce, ..TurnState::default() };
        self.reached.store(0, SeqCst);
        state
    }

    /// Ends the timer, and wakes its driver, which then completes. A turn in progress ends without setting an alarm.
    pub(crate) fn close(&self) {
        let mut state = self.parker.lock();
        self.stop(&mut state);
        state.close();
        let gone = (state.runtime.take(), std::mem::take(&mut state.alarm));
        wake(state);
        drop(gone);
    }

    /// Lets no turn begin until the driver is called.
    pub(crate) fn stop(&self, state: &mut Locked<'_, TurnState>) {
        if !state.scan_again() {
            state.leave();
        }
        self.cancel_check(state);
    }

    fn cancel_check(&self, state: &mut TurnState) {
        state.checks_at = None;
        thread::cancel(self.id);
    }

    pub(crate) fn unused(&self, epoch: Epoch) {
        if let Some(handler) = self.handler.get() {
            handler.unused(epoch);
        }
    }

    /// Replaces a part of the state, unless the timer has ended.
    pub(crate) fn replace<T>(&self, part: fn(&mut TurnState) -> &mut T, value: T) {
        let mut state = self.parker.lock();
        let before = if state.is_closed() { value } else { std::mem::replace(part(&mut state), value) };
        drop(state);
        drop(before);
    }

    /// The driver was polled: notes its waker for the next call.
    pub(crate) fn driver_came(&self, driver: DriverWaker, has_runtime: bool) {
        let mut state = self.parker.lock();
        state.has_runtime = has_runtime;
        let before = if state.is_closed() { Some(driver) } else { state.driver.replace(driver) };
        drop(state);
        // Dropped outside the lock: it may be user code.
        catch_panic(|| drop(before));
    }

    /// Another alarm has to be set, by a turn that the caller lets follow.
    pub(crate) fn change_alarm(&self, alarm: TurnAlarm) {
        let mut state = self.parker.lock();
        let before = if state.is_closed() { alarm } else { std::mem::replace(&mut state.alarm, alarm) };
        if !state.is_closed() && !state.call_after_scan() && !self.clock.is_shown() {
            state.leave();
            self.watch(&mut state);
        }
        drop(state);
        drop(before);
    }

    /// Begins a turn, and returns a list for its wakers. It does not if the timer has ended, while a test sets the
    /// time, or during another turn, which then scans again or calls the driver.
    pub(crate) fn begin_turn(&self, by: By) -> Option<WakeList> {
        let mut state = self.parker.lock();
        let begun = !self.clock.is_shown() && state.claim();
        if by != By::Helper {
            state.called = None;
        }
        let calls = match by {
            By::Driver => !begun,
            By::Pass { is_paused } => begun && !state.alarm.goes_on(is_paused),
            By::Helper => begun && state.alarm.is_the_drivers(),
        };
        if calls {
            state.call_after_scan();
        }
        begun.then(WakeList::default)
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

    /// Ends a turn that `fired` timers by `now` and found `earliest`. Returns when the next turn begins, which may be
    /// later than `earliest` if timers are coalesced, or `None` if this turn has to scan again.
    pub(crate) fn end_turn(&self, now: Tick, fired: usize, earliest: Tick) -> Option<Tick> {
        let mut state = self.parker.lock();
        if !self.goes_on(&mut state) {
            return Some(Tick::MAX);
        }
        if state.phase() == Phase::Scanning(Then::Call) {
            self.call(state);
            return Some(Tick::MAX);
        }
        // No time passes on a paused clock, so nothing would be coalesced.
        let waits = !state.alarm.is_the_drivers();
        let coalesce = if waits { state.coalesce.after_turn(now, fired, earliest) } else { state.coalesce };
        let earliest = if waits { coalesce.earliest_turn(earliest) } else { earliest };
        if !state.park(earliest) {
            return None;
        }
        state.coalesce = coalesce;
        self.set_alarm(&mut state, earliest);
        Some(earliest)
    }

    /// Ends a turn early. The next has to begin soon.
    pub(crate) fn interrupt_turn(&self) {
        let mut state = self.parker.lock();
        if self.goes_on(&mut state) {
            self.call(state);
        }
    }

    /// Whether another turn follows the one that is ending.
    fn goes_on(&self, state: &mut Locked<'_, TurnState>) -> bool {
        if self.clock.is_shown() && !state.is_closed() {
            state.leave();
        }
        matches!(state.phase(), Phase::Scanning(_))
    }

    /// The file that the driver's runtime waits on, if that is the alarm.
    pub(crate) fn timerfd(&self) -> Option<Arc<TimerfdAlarm>> {
        if let TurnAlarm::Timerfd(alarm) = &self.parker.lock().alarm { Some(alarm.clone()) } else { None }
    }

    /// A sleep until `deadline` begins to wait. If tokio has paused the clock, and its timers have processed that in a pass
    /// in which none of ours was due, it is reached, too.
    #[cold]
    pub(crate) fn catch_up(&self, deadline: Tick) {
        if deadline <= self.reached() || deadline > self.clock.now() || instant::clock_is_the_systems() {
            return;
        }
        let here = Handle::try_current().ok().map(|runtime| runtime.id());
        let state = self.parker.lock();
        let is_tokios = state.alarm.is_the_drivers() && state.runtime.as_ref().map(Handle::id) == here;
        drop(state);
        if is_tokios && here.is_some() && is_processed(deadline) {
            self.reach(deadline);
        }
    }

    /// The time of a paused clock, as far as tokio's timers have `processed` it if they move the clock.
    pub(crate) fn shown(&self, processed: fn(Tick) -> Tick) -> Tick {
        let now = self.clock.now();
        let is_tokios = self.parker.lock().alarm.is_the_drivers();
        if is_tokios { processed(now) } else { now }
    }

    /// A shard has published `deadline` as its earliest. Returns whether the clock is found paused.
    #[inline]
    pub(crate) fn registered(&self, deadline: Tick) -> bool {
        self.parker.is_too_late_for(deadline) && self.turn_by(deadline)
    }

    #[cold]
    fn turn_by(&self, deadline: Tick) -> bool {
        let mut state = self.parker.lock();
        let runs = state.runtime.is_none() || instant::clock_is_the_systems();
        let waits = runs && !state.alarm.is_the_drivers();
        let deadline = if waits { state.coalesce.earliest_turn(deadline) } else { deadline };
        if !state.registered(deadline) {
            return !runs;
        }
        // Unless only the driver can set its alarm, it sleeps on and the alarm moves. What is due already needs none.
        let is_due = |state: &TurnState| {
            matches!(state.alarm, TurnAlarm::Thread) && clock::instant_of(deadline).into_std() <= sync::now()
        };
        if !runs || state.alarm.is_the_drivers() || !state.is_driverless && is_due(&state) {
            self.call(state);
        } else {
            state.publish(deadline);
            self.set_alarm(&mut state, deadline);
        }
        !runs
    }

    /// An entry due at `before` was removed or postponed, and the shard has published its earliest deadline. A paused
    /// clock must not jump to an alarm for the removed entry.
    pub(crate) fn postponed(&self, before: Tick) {
        if self.next_wake() < before {
            return;
        }
        let mut state = self.parker.lock();
        if state.scan_again() || state.phase() != Phase::Idle || self.next_wake() < before {
            return;
        }
        if state.is_driverless {
            self.call(state);
        } else {
            // The alarm that is set is only early: nobody has to watch whether the driver comes.
            wake(state);
        }
    }

    /// Wakes a sleeping driver unconditionally.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn wake_driver(&self) {
        let mut state = self.parker.lock();
        if !state.call_after_scan() && state.phase() == Phase::Idle && !state.is_driverless {
            self.call(state);
        }
    }

    /// Wakes the driver, makes the alarm thread check that a turn follows, and unlocks.
    pub(crate) fn call(&self, mut state: Locked<'_, TurnState>) {
        state.leave();
        self.watch(&mut state);
        wake(state);
    }

    /// Makes the alarm thread check that a turn follows a call of the driver, unless only the driver can set the alarm.
    fn watch(&self, state: &mut Locked<'_, TurnState>) {
        let now = sync::now();
        if state.patience(now).is_none() {
            return;
        }
        let at = now + PATIENCE;
        // A helper that runs turn after turn keeps the check that is booked.
        if state.is_driverless && state.checks_at.is_some_and(|before| before <= at) {
            return;
        }
        state.called.get_or_insert(now);
        state.checks_at = state.is_driverless.then_some(at);
        self.book(at);
    }

    /// Called by the alarm thread.
    pub(crate) fn alarm(&self) -> Due {
        let mut state = self.parker.lock();
        state.checks_at = None;
        match state.phase() {
            Phase::Closed | Phase::Scanning(_) => Due::Nothing,
            _ if self.clock.is_shown() => Due::Nothing,
            Phase::Idle => self.alarm_in_time(state),
            Phase::Away => self.call_again(state),
        }
    }

    /// The driver was called, and no turn has come.
    fn call_again(&self, mut state: Locked<'_, TurnState>) -> Due {
        let now = sync::now();
        let since = *state.called.get_or_insert(now);
        let patience = if state.has_runtime { PATIENCE_WITH_RUNTIME } else { Duration::ZERO };
        if now.duration_since(since) >= patience {
            return Due::Helper;
        }
        self.book((now + now.duration_since(since).max(PATIENCE)).min(since + patience));
        // If it was polled meanwhile, its worker may block: another polls it now.
        state.driver.take().map_or(Due::Nothing, Due::Wake)
    }

    /// Handles the alarm in phase `Idle`.
    fn alarm_in_time(&self, mut state: Locked<'_, TurnState>) -> Due {
        let (now, next_wake) = (sync::now(), self.next_wake());
        let patience = state.patience(now).filter(|_| next_wake < Tick::MAX);
        let Some(patience) = patience else { return Due::Nothing };
        if clock::instant_of(next_wake).into_std() + patience > now {
            // The booking was replaced just before the call, or a check has found nothing: the next is not due soon.
            state.checks_at = Some(now);
            self.set_alarm(&mut state, next_wake);
            return Due::Nothing;
        }
        if let TurnAlarm::Timerfd(_) = state.alarm {
            state.was_late = Some(now);
        }
        state.leave();
        let Some(driver) = state.driver.take() else { return self.call_again(state) };
        self.watch(&mut state);
        Due::Wake(driver)
    }

    fn set_alarm(&self, state: &mut Locked<'_, TurnState>, tick: Tick) {
        if let TurnAlarm::Timerfd(alarm) = &state.alarm {
            // A spurious wake-up is cheaper than disarming the alarm every time. Setting it fails if the program has
            // closed the file, or in a forked process. The driver keeps the alarm.
            if tick < Tick::MAX && alarm.set(clock::instant_of(tick).into_std()).is_err() {
                state.alarm = TurnAlarm::Thread;
            }
        }
        let now = sync::now();
        match state.patience(now).filter(|_| tick < Tick::MAX) {
            None if matches!(state.alarm, TurnAlarm::Timerfd(_)) => {}
            None => self.cancel_check(state),
            Some(patience) => self.check_at(state, now, clock::instant_of(tick).into_std() + patience),
        }
    }

    /// Makes the alarm thread call the driver at an instant, unless a turn comes before. For a `timerfd`, postpones a
    /// check that is due soon, to save a wake-up: it was on time, or has yet to go off. Not while it is distrusted.
    fn check_at(&self, state: &mut Locked<'_, TurnState>, now: Instant, at: Instant) {
        let is_trusted = matches!(state.alarm, TurnAlarm::Timerfd(_)) && !state.is_distrusted(now);
        let at = match state.checks_at {
            Some(before) if is_trusted && before < now + BETWEEN_CHECKS * 3 / 4 => at.max(now + BETWEEN_CHECKS),
            Some(before) if is_trusted && before < at + BETWEEN_CHECKS => return,
            _ => at,
        };
        state.checks_at = Some(at);
        self.book(at);
    }

    fn book(&self, at: Instant) {
        if let Some(handler) = self.handler.get() {
            thread::book(self.id, at, *handler);
        }
    }

    pub(crate) fn next_wake(&self) -> Tick {
        self.parker.next_wake()
    }
}

fn wake(mut state: Locked<'_, TurnState>) {
    let driver = state.driver.take();
    drop(state);
    if let Some(driver) = driver {
        driver.wake();
    }
}

// The alarm thread calls outside the lock, and finds a consistent state even after a panic.
impl std::panic::RefUnwindSafe for Turns {}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use super::*;
    use crate::clock;
    use crate::util::sync::atomic::AtomicBool;

    const PASS: By = By::Pass { is_paused: false };

    fn waker() -> DriverWaker {
        DriverWaker { waker: Waker::noop().clone(), is_foreign: false }
    }

    /// The driver is polled, and a turn follows its runtime's pass.
    fn comes(turns: &Turns) -> bool {
        turns.driver_came(waker(), true);
        turns.begin_turn(PASS).is_some()
    }

    fn helper_comes(turns: &Turns) -> bool {
        turns.begin_turn(By::Helper).is_some()
    }

    fn set_alarm(turns: &Turns, alarm: TurnAlarm) {
        turns.replace(|state| &mut state.alarm, alarm);
    }

    /// The turns of a timer whose driver was polled once, and sleeps.
    fn parked() -> Turns {
        let turns = Turns::new();
        turns.open(false, Ticks(0));
        assert!(comes(&turns));
        assert_eq!(turns.end_turn(clock::now(), 0, Tick::MAX), Some(Tick::MAX));
        turns
    }

    /// A thread that arrives during a turn leaves immediately, and the turn has to scan again.
    #[test]
    fn a_turn_looks_again_for_each_that_came_meanwhile() {
        let turns = parked();
        let comes: [fn(&Turns); 3] = [
            |turns| _ = turns.registered(Tick(1)),
            |turns| turns.postponed(Tick(1)),
            |turns| assert!(!helper_comes(turns)),
        ];
        assert!(helper_comes(&turns));
        for come in comes {
            come(&turns);
            assert_eq!(turns.end_turn(Tick(1), 0, Tick::MAX), None);
        }
        assert_eq!(turns.end_turn(Tick(1), 0, Tick::MAX), Some(Tick::MAX));
    }

    #[test]
    fn a_driver_that_is_wanted_during_the_turn_of_another_is_called_at_its_end() {
        let is_called = |turns: &Turns| {
            turns.end_turn(Tick(1), 0, Tick(5)).unwrap();
            turns.next_wake() == Tick::ZERO && turns.parker.lock().driver.is_none()
        };
        let looks = |turns: &Turns| {
            turns.driver_came(waker(), true);
            assert!(turns.begin_turn(By::Driver).is_none());
        };
        let wants: [fn(&Turns); 2] = [looks, Turns::wake_driver];
        for want in wants {
            let turns = parked();
            assert!(helper_comes(&turns));
            want(&turns);
            assert!(is_called(&turns));
            assert!(comes(&turns));
            assert!(!is_called(&turns), "once");
        }
        let turns = parked();
        set_alarm(&turns, TurnAlarm::DriverSleep);
        assert!(helper_comes(&turns));
        assert!(is_called(&turns), "nobody else sets it");
    }

    /// The waker would keep the task, and with it the runtime and its files, and the next timer would wake it.
    #[test]
    fn a_timer_that_has_ended_keeps_no_waker() {
        let turns = parked();
        turns.close();
        assert!(!comes(&turns));
        assert!(turns.parker.lock().driver.is_none());
    }

    #[test]
    fn a_turn_that_outlives_its_timer_ends_and_sets_no_alarm() {
        let turns = parked();
        assert!(comes(&turns));
        turns.close();
        assert_eq!(turns.end_turn(Tick(1), 0, Tick(5)), Some(Tick::MAX));
        assert_eq!((comes(&turns), turns.booked()), (false, None));
    }

    /// A `timerfd` in a runtime.
    #[cfg(target_os = "linux")]
    fn timerfd() -> (tokio::runtime::Runtime, Arc<TimerfdAlarm>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let alarm = runtime.block_on(async { TimerfdAlarm::new(Waker::noop(), true).unwrap() });
        (runtime, Arc::new(alarm))
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_timerfd_is_moved_to_an_earlier_deadline_and_replaced_if_it_fails() {
        const HOUR: Ticks = Ticks(3_600_000_000_000);
        let turns = parked();
        turns.set_handler(Notes::new());
        let (_runtime, alarm) = timerfd();
        let at = [3, 2, 1].map(|hours| clock::now() + Ticks(hours * HOUR.0));
        let instant = |tick| clock::instant_of(tick).into_std();
        assert!(comes(&turns));
        set_alarm(&turns, TurnAlarm::Timerfd(alarm.clone()));
        assert_eq!(turns.end_turn(Tick(1), 0, at[0]), Some(at[0]));
        assert!(turns.booked() > Some(instant(at[0])), "the thread checks once the driver is late");
        turns.registered(at[1]);
        assert_eq!(alarm.remaining().as_secs().div_ceil(3_600), 2);
        alarm.become_another();
        turns.registered(at[2]);
        assert_eq!((turns.next_wake(), turns.booked()), (at[2], Some(instant(at[2]))), "the thread serves");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn while_a_timerfd_is_in_time_turns_put_the_alarm_threads_check_off() {
        let turns = parked();
        turns.set_handler(Notes::new());
        let (_runtime, alarm) = timerfd();
        set_alarm(&turns, TurnAlarm::Timerfd(alarm));
        let turn = || {
            assert!(comes(&turns));
            turns.end_turn(Tick(1), 1, clock::now() + Ticks(1_000_000)).unwrap();
            turns.parker.lock().checks_at
        };
        let first = turn();
        assert!(turn() > first);
    }

    /// A worker that polls the driver may block before its pass. Another polls it then, and only if none comes for long,
    /// a helper turns.
    #[test]
    fn a_called_driver_is_woken_again_until_a_helper_turns_for_it() {
        let turns = parked();
        turns.set_handler(Notes::new());
        turns.driver_came(waker(), true);
        turns.wake_driver();
        let called = turns.parker.lock().called.unwrap();
        assert!(matches!(turns.alarm(), Due::Nothing), "it was woken and not polled yet");
        for _ in 0..2 {
            turns.driver_came(waker(), true);
            assert!(matches!(turns.alarm(), Due::Wake(_)));
            assert!(turns.booked().unwrap() <= called + PATIENCE_WITH_RUNTIME);
        }
        turns.parker.lock().called = Some(called.checked_sub(PATIENCE_WITH_RUNTIME).unwrap());
        assert!(matches!(turns.alarm(), Due::Helper));
        assert!(helper_comes(&turns));
        turns.end_turn(Tick(1), 1, Tick(1)).unwrap();
        assert!(matches!(turns.alarm(), Due::Helper), "it has still not come");
        assert!(comes(&turns));
        turns.end_turn(Tick(1), 1, Tick(1)).unwrap();
        assert!(matches!(turns.alarm(), Due::Wake(_)));
    }

    #[test]
    fn a_driver_on_another_executor_is_helped_at_once() {
        let turns = parked();
        turns.set_handler(Notes::new());
        turns.driver_came(waker(), false);
        turns.wake_driver();
        assert!(matches!(turns.alarm(), Due::Helper));
    }

    /// If a helper blocks after it has ended a turn early, another has to come soon.
    #[test]
    fn without_a_driver_each_turn_that_ends_early_is_followed_up_soon() {
        let turns = Turns::new();
        turns.set_handler(Notes::new());
        turns.open(true, Ticks(0));
        let mut last = None;
        for _ in 0..3 {
            assert!(helper_comes(&turns));
            turns.interrupt_turn();
            let check = turns.parker.lock().checks_at;
            assert!(check.is_some_and(|at| at <= Instant::now() + PATIENCE), "at {check:?}");
            assert!(last.is_none() || check == last, "no turn postpones it");
            last = check;
        }
    }

    /// A worker that blocks after it took an event from the I/O driver keeps the alarm from being noticed.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_timerfd_that_was_late_is_checked_after_a_millisecond() {
        let turns = parked();
        turns.set_handler(Notes::new());
        let (_runtime, alarm) = timerfd();
        set_alarm(&turns, TurnAlarm::Timerfd(alarm));
        let checks_after = || {
            let deadline = clock::now() + Ticks(1 << 44);
            turns.end_turn(Tick(1), 1, deadline).unwrap();
            turns.booked().unwrap() - clock::instant_of(deadline).into_std()
        };
        assert!(comes(&turns));
        assert_eq!(checks_after(), PATIENCE_WITH_TIMERFD);
        assert!(comes(&turns));
        turns.end_turn(Tick(1), 1, Tick(1)).unwrap();
        assert!(matches!(turns.alarm(), Due::Wake(_)), "the alarm did not go off at tick 1");
        assert!(comes(&turns));
        assert_eq!(checks_after(), PATIENCE);
    }

    struct Notes(AtomicBool);

    impl Notes {
        fn new() -> &'static Notes {
            Box::leak(Box::new(Notes(AtomicBool::new(false))))
        }
    }

    impl AlarmHandler for Notes {
        fn alarm(&'static self) {
            self.0.store(true, SeqCst);
        }
    }

    /// The driver slept without a deadline, so nothing was booked. If it never turned, later timers would not fire.
    #[test]
    fn a_driver_that_is_woken_though_nothing_waits_is_watched() {
        thread::start().unwrap();
        let handler = Notes::new();
        let turns = parked();
        turns.set_handler(handler);
        assert_eq!(turns.booked(), None);
        turns.wake_driver();
        let start = Instant::now();
        while !handler.0.load(SeqCst) {
            assert!(start.elapsed() < Duration::from_secs(60), "nobody sees whether it comes");
            std::thread::yield_now();
        }
    }
}
