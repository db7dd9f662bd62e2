//! The expected behaviour of each sleep of a timer. Each sleep has a slot.
//!
//! Invariants
//! 1. While an operation uses a sleep, the sleep is out of its slot, so wakers cannot reach it.
//! 2. A slot's state is the state after the current operation, if no waker interferes.

use std::cell::RefCell;

use hairspring::test_util::ManualClock;
use hairspring::{Duration, Instant, Timer, TrySleep};

use super::super::clock::{LAST, clock_at};
use super::wakers::Caught;
use super::{Answer, Kept, Slot, When};
use crate::common::Random;

thread_local! {
    static MODEL: RefCell<Option<Model>> = const { RefCell::new(None) };
}

pub(super) fn start(model: Model) {
    MODEL.set(Some(model));
}

/// From now on, wakers do nothing.
pub(super) fn end() {
    drop(MODEL.take());
}

pub(super) fn is_there() -> bool {
    MODEL.with(|place| place.try_borrow().is_ok_and(|model| model.is_some()))
}

/// `code` must neither wake nor drop a waker.
pub(super) fn with<R>(code: impl FnOnce(&mut Model) -> R) -> R {
    MODEL.with(|place| code(place.borrow_mut().as_mut().expect("there is a model")))
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    /// In nanoseconds, and 1 if there is none.
    resolution: u64,
    pub(super) max_pending: Option<usize>,
}

impl Setup {
    pub(super) fn random(random: &mut Random, slots: usize) -> Setup {
        let resolution = random.pick(&[1, 1, 1, 1_000, 1_024, 700_000, 1_000_000, 1 << 29, 1_000_000_000]);
        // Less than the number of slots, so some sleeps find the timer full.
        let bits = u64::from(slots.ilog2());
        let max_pending = random.one_in(2).then(|| usize::try_from(random.up_to_bits(bits)).expect("few").max(1));
        Setup { resolution, max_pending }
    }

    fn build(self, clock: &ManualClock) -> Timer {
        let mut builder = Timer::builder().clock(clock).shards(1);
        if self.resolution > 1 {
            builder = builder.resolution(Duration::from_nanos(self.resolution));
        }
        if let Some(max_pending) = self.max_pending {
            builder = builder.max_pending(max_pending);
        }
        builder.build().expect("good settings")
    }

    /// The tick at which a sleep fires: its deadline, rounded up to the resolution.
    fn expiry(self, deadline: u64) -> u64 {
        deadline.checked_next_multiple_of(self.resolution).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    Idle,
    /// Fires at that tick and wakes the waker of that token.
    Waiting {
        expiry: u64,
        token: u64,
    },
    /// Woken, and not polled since.
    Fired,
    /// Woken when its timer was shut down, and not polled since.
    Lost,
    /// A reset makes it wait with the waker of that token.
    Done {
        token: u64,
    },
}

struct Place {
    sleep: Option<TrySleep>,
    kept: Kept,
    state: State,
    deadline: u64,
    era: u64,
}

/// A sleep that was cancelled or polled in the middle of the turn that fires it. Its waker may or may not be woken.
pub(super) struct Limbo {
    slot: Slot,
    token: u64,
    expiry: u64,
    era: u64,
}

pub(super) struct Model {
    pub(super) clock: ManualClock,
    pub(super) timer: Timer,
    /// Whether the clock is being moved, which fires timers.
    firing: bool,
    /// Whether a waker has moved it at the same time.
    pub(super) jumped: bool,
    pub(super) closing: bool,
    pub(super) depth: u32,
    pub(super) tokens: u64,
    origin: Instant,
    /// A clock at the end of time.
    ahead: ManualClock,
    pub(super) setup: Setup,
    /// Counts the timers, so a sleep's era tells its timer.
    era: u64,
    places: Vec<Place>,
    limbo: Vec<Limbo>,
    /// The wakers of sleeps that are being reset to the past, and whether they were woken.
    resetting: Vec<(u64, bool)>,
    registered: u64,
    fired: u64,
    lost: u64,
    compared: u64,
    pub(super) failure: Option<String>,
}

pub(super) enum ToReset {
    /// Nothing waits, or nothing changes.
    Nothing,
    Waits,
    /// The new deadline has passed, so the waker is woken immediately.
    Wakes,
    /// The sleep may already be about to fire.
    Unsure(Limbo),
    /// A completed sleep waits as if it had been polled, or wakes its task if that poll would not be pending.
    Again(Answer),
}

impl Model {
    pub(super) fn new(start: u64, slots: usize, setup: Setup) -> Model {
        let (clock, origin) = clock_at(start);
        let place = |_| Place { sleep: None, kept: None, state: State::Empty, deadline: 0, era: 0 };
        Model {
            timer: setup.build(&clock),
            clock,
            firing: false,
            jumped: false,
            closing: false,
            depth: 0,
            tokens: 0,
            origin,
            ahead: clock_at(LAST).0,
            setup,
            era: 0,
            places: (0..slots).map(place).collect(),
            limbo: Vec::new(),
            resetting: Vec::new(),
            registered: 0,
            fired: 0,
            lost: 0,
            compared: 0,
            failure: None,
        }
    }

    pub(super) fn tick_at(&self, instant: Instant) -> u64 {
        u64::try_from((instant - self.origin).as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn instant_of(&self, tick: u64) -> Instant {
        self.origin + Duration::from_nanos(tick)
    }

    pub(super) fn tick_of(&self, when: When) -> u64 {
        match when {
            When::At(tick) => tick,
            When::In(nanos) => self.now().saturating_add(nanos),
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.tick_at(self.clock.now())
    }

    fn waiting(&self) -> impl Iterator<Item = u64> {
        self.places.iter().filter(|place| place.era == self.era).filter_map(|place| match place.state {
            State::Waiting { expiry, .. } => Some(expiry),
            _ => None,
        })
    }

    pub(super) fn earliest(&self) -> Option<u64> {
        self.waiting().filter(|&expiry| expiry <= LAST).min()
    }

    pub(super) fn slots(&self) -> usize {
        self.places.len()
    }

    pub(super) fn has_sleeps(&self) -> bool {
        self.places.iter().any(|place| place.sleep.is_some())
    }

    pub(super) fn any_deadline(&self, random: &mut Random) -> u64 {
        self.places[random.index(self.places.len())].deadline
    }

    /// The distance to one of the deadlines, or to a tick next to it.
    pub(super) fn until_any(&self, random: &mut Random) -> u64 {
        let deadline = self.any_deadline(random);
        // The last tick is reserved for the few rounds that end there.
        if deadline == u64::MAX {
            return 1;
        }
        deadline.saturating_add(random.below(3)).saturating_sub(self.now() + 1)
    }

    /// Takes the sleep out of a slot.
    pub(super) fn take(&mut self, slot: Slot) -> Option<(TrySleep, Kept)> {
        let place = &mut self.places[slot];
        Some((place.sleep.take()?, place.kept.take()))
    }

    pub(super) fn put(&mut self, slot: Slot, sleep: TrySleep, kept: Kept, state: State) {
        let place = &mut self.places[slot];
        (place.sleep, place.kept, place.state) = (Some(sleep), kept, state);
    }

    /// The timer and the deadline for a new sleep. `None` if the slot has one, or a waker operates on it.
    pub(super) fn before_create(&mut self, slot: Slot, when: When) -> Option<(Timer, u64)> {
        let (deadline, place) = (self.tick_of(when), &mut self.places[slot]);
        if place.state != State::Empty {
            return None;
        }
        (place.deadline, place.era) = (deadline, self.era);
        Some((self.timer.clone(), deadline))
    }

    fn limbo_of(&self, slot: Slot) -> Option<Limbo> {
        match self.places[slot].state {
            State::Waiting { expiry, token } if self.firing && expiry <= self.now() => {
                Some(Limbo { slot, token, expiry, era: self.places[slot].era })
            }
            _ => None,
        }
    }

    fn has_room(&self) -> bool {
        let Some(max_pending) = self.setup.max_pending else { return true };
        // What is never due needs none.
        let (waiting, now) = (self.waiting().filter(|&expiry| expiry < u64::MAX).count(), self.now());
        let due = if self.firing { self.waiting().filter(|&expiry| expiry <= now).count() } else { 0 };
        if due == 0 {
            return waiting < max_pending;
        }
        // The current turn may have taken out due sleeps, which frees their room. Only the timer knows.
        let nevers = self.waiting().count() - waiting;
        let pending = usize::try_from(self.timer.metrics().pending()).expect("few") - nevers;
        assert!(
            waiting - due <= pending && pending <= waiting,
            "{pending} are pending of {waiting}, {due} of which are due, with a limit of {max_pending}"
        );
        pending < max_pending
    }

    /// The answer that the poll must give. If the turn has perhaps not taken out the sleep yet, it may be pending, too.
    pub(super) fn before_poll(&mut self, slot: Slot, token: u64) -> Answer {
        let expiry = self.setup.expiry(self.places[slot].deadline);
        let (answer, after) = match self.places[slot].state {
            State::Empty => unreachable!("there is a sleep"),
            State::Done { .. } => (Answer::Still, State::Done { token }),
            state @ (State::Idle | State::Fired | State::Lost) if self.places[slot].era != self.era => {
                (Answer::Shutdown, state)
            }
            _ if self.now() >= expiry => {
                let limbo = self.limbo_of(slot);
                self.limbo.extend(limbo);
                (Answer::Ready, State::Done { token })
            }
            State::Waiting { expiry, .. } => (Answer::Pending, State::Waiting { expiry, token }),
            _ if expiry < u64::MAX && !self.has_room() => (Answer::Full, State::Idle),
            _ => {
                self.registered += 1;
                (Answer::Pending, State::Waiting { expiry, token })
            }
        };
        self.places[slot].state = after;
        answer
    }

    pub(super) fn after_poll(
        &mut self,
        slot: Slot,
        token: u64,
        sleep: TrySleep,
        expected: Answer,
        answer: Answer,
        kept: Kept,
    ) {
        let (now, deadline) = (self.now(), self.places[slot].deadline);
        let expiry = self.setup.expiry(deadline);
        let state = match (expected, answer) {
            (Answer::Ready, Answer::Ready)
            | (Answer::Still, Answer::Ready | Answer::Thrown)
            | (Answer::Pending, Answer::Pending | Answer::Thrown) => self.places[slot].state,
            // The drop of another waker panicked. The sleep is out of the timer, but its poll gave no answer.
            (Answer::Ready, Answer::Thrown) => State::Fired,
            (Answer::Shutdown, Answer::Shutdown) | (Answer::Full, Answer::Full) => State::Idle,
            // The turn has more sleeps to take out, and will wake this one. The last waker is not woken any more.
            (Answer::Ready, Answer::Pending) if self.firing && format!("{sleep:?}").contains("waiting") => {
                let last = self.limbo.iter().rposition(|limbo| limbo.slot == slot).expect("it was due");
                self.limbo.remove(last);
                State::Waiting { expiry, token }
            }
            // After a shutdown, a sleep may still be ready if its deadline has passed.
            (Answer::Shutdown, Answer::Ready) if now >= deadline => State::Done { token },
            _ => panic!("a poll at {now}, with a deadline of {deadline}, is {answer:?} instead of {expected:?}"),
        };
        // If a poll has panicked, either answer is allowed.
        assert!(sleep.is_elapsed() == matches!(state, State::Done { .. }) || state == State::Fired, "is_elapsed");
        self.put(slot, sleep, kept, state);
    }

    pub(super) fn before_reset(&mut self, slot: Slot, deadline: u64) -> ToReset {
        let (now, expiry, limbo) = (self.now(), self.setup.expiry(deadline), self.limbo_of(slot));
        let place = &mut self.places[slot];
        let same = std::mem::replace(&mut place.deadline, deadline) == deadline;
        match place.state {
            State::Waiting { .. } | State::Fired | State::Lost if same => ToReset::Nothing,
            State::Waiting { token, .. } if limbo.is_some() || expiry <= now => {
                self.resetting.push((token, false));
                place.state = State::Idle;
                limbo.map_or(ToReset::Wakes, ToReset::Unsure)
            }
            State::Waiting { token, .. } => {
                place.state = State::Waiting { expiry, token };
                ToReset::Waits
            }
            State::Done { token } => {
                self.resetting.push((token, false));
                place.state = State::Idle;
                ToReset::Again(self.before_poll(slot, token))
            }
            _ => {
                place.state = State::Idle;
                ToReset::Nothing
            }
        }
    }

    pub(super) fn after_reset(
        &mut self,
        slot: Slot,
        sleep: TrySleep,
        expected: ToReset,
        done: Result<(), Caught>,
        kept: Kept,
    ) {
        let expiry = self.setup.expiry(self.places[slot].deadline);
        let is_done = match done {
            Err(Caught::Message(message)) => panic!("a reset panics: {message}"),
            done => done.is_ok(),
        };
        match expected {
            ToReset::Nothing | ToReset::Waits => {}
            ToReset::Wakes => {
                let (_, woken) = self.resetting.pop().expect("it was put there");
                assert!(woken, "a sleep that is reset to the past wakes immediately");
            }
            ToReset::Unsure(limbo) => {
                let (token, woken) = self.resetting.pop().expect("it was put there");
                if is_done && format!("{sleep:?}").contains("waiting") {
                    self.places[slot].state = State::Waiting { expiry, token };
                } else if !woken {
                    self.limbo.push(limbo);
                }
            }
            ToReset::Again(answer) => {
                let (_, woken) = self.resetting.pop().expect("it was put there");
                assert_eq!(woken, answer != Answer::Pending, "a completed sleep that is reset: {answer:?}");
                if answer == Answer::Ready {
                    self.places[slot].state = State::Fired;
                }
            }
        }
        assert_eq!(self.tick_at(sleep.deadline()), self.places[slot].deadline, "the deadline after a reset");
        self.put(slot, sleep, kept, self.places[slot].state);
    }

    pub(super) fn before_drop(&mut self, slot: Slot) {
        let limbo = self.limbo_of(slot);
        self.limbo.extend(limbo);
        self.places[slot].state = State::Empty;
    }

    /// A waker was woken, which must be expected.
    pub(super) fn woken(&mut self, slot: Slot, token: u64) {
        let now = self.now();
        if let Some(resetting) = self.resetting.last_mut().filter(|resetting| **resetting == (token, false)) {
            resetting.1 = true;
            return;
        }
        let is_late = self.jumped;
        let in_limbo = |limbo: &Limbo| limbo.token == token && (limbo.expiry == now || (is_late && limbo.expiry < now));
        if let Some(at) = self.limbo.iter().position(in_limbo).filter(|_| self.firing && !self.closing) {
            self.fired += u64::from(self.limbo.swap_remove(at).era == self.era);
            return;
        }
        let place = &mut self.places[slot];
        match place.state {
            State::Waiting { token: last, .. } if last == token && self.closing => {
                place.state = State::Lost;
                self.lost += 1;
            }
            State::Waiting { expiry, token: last } if last == token => {
                assert!(self.firing, "woken while the clock does not move");
                assert!(expiry <= now, "early: at {now} instead of {expiry}");
                assert!(expiry == now || self.jumped, "late: at {now} instead of {expiry}");
                assert!(place.sleep.as_ref().is_none_or(TrySleep::is_elapsed), "woken, but not elapsed");
                place.state = State::Fired;
                self.fired += u64::from(place.era == self.era);
            }
            state => panic!("waker {token} of slot {slot} is woken, which is {state:?}"),
        }
    }

    /// Returns whether a waker does this, while the clock is being moved.
    pub(super) fn before_advance(&mut self) -> bool {
        self.jumped |= self.firing;
        std::mem::replace(&mut self.firing, true)
    }

    /// The clock was moved to a tick. `within` is the result of `before_advance`.
    pub(super) fn after_advance(&mut self, target: u64, within: bool) {
        let now = self.now();
        // What a waker asks for is done later.
        assert!(
            within || now == target || (self.jumped && now > target),
            "the clock moved to {now} instead of {target}"
        );
        if !within {
            (self.firing, self.jumped) = (false, false);
            self.limbo.clear();
            let lost = self.places.iter().find_map(|place| match place.state {
                State::Waiting { expiry, .. } if expiry <= now => Some(expiry),
                _ => None,
            });
            assert_eq!(lost, None, "a sleep that is due has not fired at {now}");
        }
    }

    /// The timer to shut down. `None` if a shutdown is going on.
    pub(super) fn before_shutdown(&mut self) -> Option<Timer> {
        self.lost = 0;
        (!std::mem::replace(&mut self.closing, true)).then(|| self.timer.clone())
    }

    /// Replaces the timer, which was shut down.
    pub(super) fn after_shutdown(&mut self, pending: usize) {
        self.closing = false;
        assert_eq!(pending as u64, self.lost, "a shutdown wakes each pending sleep");
        let now = self.now();
        let left = self.waiting().find(|&expiry| !self.firing || expiry > now);
        assert_eq!(left, None, "a sleep neither fired nor was cancelled");
        if !self.firing {
            self.compare_counts(0);
        }
        (self.registered, self.fired) = (0, 0);
        self.era += 1;
        // This timer takes the old one's memory. Its time must not be mistaken for the new timer's.
        self.setup.build(&self.ahead);
        self.timer = self.setup.build(&self.clock);
    }

    /// Compares what is visible between operations.
    pub(super) fn compare(&mut self) {
        if let Some(message) = self.failure.take() {
            panic!("{message}");
        }
        let pending = self.waiting().count() as u64;
        self.compare_counts(pending);
        self.compared += 1;
        if self.compared % 16 == 0 {
            assert_eq!(self.clock.pending() as u64, pending, "pending on the clock");
            assert_eq!(self.tick_at(self.timer.now()), self.now(), "the timer shows its clock's time");
        }
    }

    fn compare_counts(&self, pending: u64) {
        let metrics = self.timer.metrics();
        let counts = [metrics.registered(), metrics.fired(), metrics.pending(), metrics.cancelled()];
        let cancelled = self.registered - self.fired - pending;
        assert_eq!(counts, [self.registered, self.fired, pending, cancelled], "registered, fired, pending, cancelled");
        // A manual clock stops at each deadline. If a waker moves it, wake-ups may be late, but turns are not.
        let lateness = metrics.lateness();
        assert_eq!((lateness.count(), lateness.max()), (self.fired, Duration::ZERO), "the lateness");
    }
}
