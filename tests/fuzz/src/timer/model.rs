//! What the sleeps of a timer are to be doing, each in its slot.
//!
//! Invariants
//! 1. While a slot's sleep is operated on it is not in its slot, so nothing that comes back in can touch it.
//! 2. A slot's state is what it will be after the operation that is on, if nothing interferes.
//!
//! Must not know: who operates on them.

use std::cell::RefCell;

use hairspring::test_util::ManualClock;
use hairspring::{Duration, Instant, Timer};

use super::armed::{Answer, Armed};
use super::counts::Counts;
use super::setup::Setup;
use super::wakers::Caught;
use super::{Kept, Slot, When};
use crate::clock::{LAST, clock_at};
use crate::random::Random;

thread_local! {
    static MODEL: RefCell<Option<Model>> = const { RefCell::new(None) };
}

pub(super) fn start(model: Model) {
    MODEL.with(|place| place.replace(Some(model)));
}

/// From here on wakers do nothing.
pub(super) fn end() {
    drop(MODEL.with(RefCell::take));
}

pub(super) fn is_there() -> bool {
    MODEL.with(|place| place.try_borrow().is_ok_and(|model| model.is_some()))
}

/// Nothing that may wake or drop a waker is to be done within.
pub(super) fn with<R>(look: impl FnOnce(&mut Model) -> R) -> R {
    MODEL.with(|place| look(place.borrow_mut().as_mut().expect("there is a model")))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    Idle,
    /// It is to fire at that tick and wake the waker of that token.
    Waiting {
        expiry: u64,
        token: u64,
    },
    /// Woken, and not polled since.
    Fired,
    /// Woken as its timer was shut down, and not polled since.
    Lost,
    Done,
}

struct Place {
    sleep: Option<Armed>,
    kept: Kept,
    state: State,
    deadline: u64,
    era: u64,
}

/// What was taken out of the timer, or not, while what is due at a tick was being fired: it may have been on its way.
pub(super) struct Limbo {
    token: u64,
    expiry: u64,
    era: u64,
}

pub(super) struct Model {
    pub(super) clock: ManualClock,
    pub(super) timer: Timer,
    /// Whether the clock is being moved, so that timers fire.
    pub(super) firing: bool,
    /// Whether a waker has moved it meanwhile.
    pub(super) jumped: bool,
    pub(super) closing: bool,
    pub(super) depth: u32,
    pub(super) tokens: u64,
    origin: Instant,
    /// A clock that is at the end of time.
    ahead: ManualClock,
    pub(super) setup: Setup,
    /// Counts the timers: which one a sleep is on.
    era: u64,
    places: Vec<Place>,
    limbo: Vec<Limbo>,
    /// The wakers of sleeps that are being reset into the past, and whether they were woken.
    resetting: Vec<(u64, bool)>,
    counts: Counts,
    lost: u64,
    compared: u64,
    failure: Option<String>,
}

#[derive(Debug)]
pub(super) enum ToPoll {
    Ready,
    Pending,
    /// Its timer was shut down: it says so, and may be ready if its deadline has passed.
    Refused,
    /// Its timer has as many as it may.
    Full,
}

pub(super) enum ToReset {
    /// Nothing waits, or nothing changes.
    Nothing,
    Waits,
    /// It is past: the waker is woken at once.
    AtOnce,
    /// It may be on its way to be fired.
    Unsure(Limbo),
}

impl Model {
    pub(super) fn new(start: u64, slots: usize, setup: Setup) -> Model {
        let (clock, origin) = clock_at(start);
        let timer = setup.build(&clock);
        let place = |_| Place { sleep: None, kept: None, state: State::Empty, deadline: 0, era: 0 };
        Model {
            clock,
            timer,
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
            counts: Counts::default(),
            lost: 0,
            compared: 0,
            failure: None,
        }
    }

    pub(super) fn failed(&mut self, said: String) {
        self.failure.get_or_insert(said);
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

    /// How long it is to one of the deadlines, or to a tick beside it.
    pub(super) fn until_any(&self, random: &mut Random) -> u64 {
        let deadline = self.any_deadline(random);
        // The last tick is left for the few rounds that end there.
        if deadline == u64::MAX {
            return 1;
        }
        deadline.saturating_add(random.below(3)).saturating_sub(self.now() + 1)
    }

    /// Takes a sleep out of its slot; `None` if there is none.
    pub(super) fn take(&mut self, slot: Slot) -> Option<(Armed, Kept)> {
        let place = &mut self.places[slot];
        Some((place.sleep.take()?, place.kept.take()))
    }

    /// What to make a sleep for a slot from; `None` if there is one, or it is operated on.
    pub(super) fn make(&mut self, slot: Slot, when: When) -> Option<(Timer, u64)> {
        if self.places[slot].state != State::Empty {
            return None;
        }
        let deadline = self.tick_of(when);
        self.places[slot].deadline = deadline;
        self.places[slot].era = self.era;
        Some((self.timer.clone(), deadline))
    }

    pub(super) fn put(&mut self, slot: Slot, sleep: Armed, state: State) {
        self.places[slot].sleep = Some(sleep);
        self.places[slot].state = state;
    }

    /// Where an entry that is taken out may be on its way already.
    fn limbo_of(&self, slot: Slot) -> Option<Limbo> {
        match self.places[slot].state {
            State::Waiting { expiry, token } if self.firing && expiry <= self.now() => {
                Some(Limbo { token, expiry, era: self.places[slot].era })
            }
            _ => None,
        }
    }

    /// Whether the timer takes one more.
    fn has_room(&self) -> bool {
        let Some(capacity) = self.setup.capacity else { return true };
        let (waiting, now) = (self.waiting().count(), self.now());
        let due = if self.firing { self.waiting().filter(|&expiry| expiry <= now).count() } else { 0 };
        if due == 0 {
            return waiting < capacity;
        }
        // What is due may have been taken out by the firing that is on, and its room is free then: the timer knows.
        let pending = usize::try_from(self.timer.metrics().pending()).expect("few");
        assert!(
            waiting - due <= pending && pending <= waiting.min(capacity),
            "{pending} are pending, of {waiting} of which {due} are due, and {capacity} may be"
        );
        pending < capacity
    }

    pub(super) fn before_poll(&mut self, slot: Slot, token: u64) -> ToPoll {
        let (now, deadline, state) = (self.now(), self.places[slot].deadline, self.places[slot].state);
        let expiry = self.setup.expiry(deadline);
        let (to_poll, after) = match state {
            State::Empty => unreachable!("there is a sleep"),
            State::Done => (ToPoll::Ready, State::Done),
            State::Idle | State::Fired | State::Lost if self.places[slot].era != self.era => (ToPoll::Refused, state),
            State::Waiting { .. } | State::Idle | State::Fired | State::Lost if now >= expiry => {
                let limbo = self.limbo_of(slot);
                self.limbo.extend(limbo);
                (ToPoll::Ready, State::Done)
            }
            State::Waiting { expiry, .. } => (ToPoll::Pending, State::Waiting { expiry, token }),
            State::Idle | State::Fired | State::Lost if !self.has_room() => (ToPoll::Full, State::Idle),
            State::Idle | State::Fired | State::Lost => {
                self.counts.registered += 1;
                (ToPoll::Pending, State::Waiting { expiry, token })
            }
        };
        self.places[slot].state = after;
        to_poll
    }

    pub(super) fn after_poll(&mut self, slot: Slot, sleep: Armed, to_poll: &ToPoll, answer: Answer, kept: Kept) {
        let (now, place) = (self.now(), &mut self.places[slot]);
        let deadline = place.deadline;
        match (to_poll, answer) {
            (ToPoll::Ready, Answer::Ready) | (ToPoll::Pending, Answer::Pending | Answer::Thrown) => {}
            // Another waker, dropped, has thrown: its sleep is out of the timer, and has not said so.
            (ToPoll::Ready, Answer::Thrown) => place.state = State::Fired,
            (ToPoll::Refused, Answer::Shutdown) => place.state = State::Idle,
            (ToPoll::Refused, Answer::Ready) if now >= deadline => place.state = State::Done,
            (ToPoll::Full, Answer::Full(pending)) => {
                assert_eq!(Some(pending), self.setup.capacity, "as many are pending as may be");
            }
            (ToPoll::Refused | ToPoll::Full, Answer::Thrown) => panic!("a poll that is refused wakes or drops a waker"),
            _ => panic!("{answer:?} at {now}, with a deadline of {deadline}, but it was to be {to_poll:?}"),
        }
        // One that was taken out, and then thrown past, may say either.
        assert!(sleep.is_elapsed() == (place.state == State::Done) || place.state == State::Fired, "has it elapsed?");
        place.sleep = Some(sleep);
        place.kept = kept;
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
                limbo.map_or(ToReset::AtOnce, ToReset::Unsure)
            }
            State::Waiting { token, .. } => {
                place.state = State::Waiting { expiry, token };
                ToReset::Waits
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
        sleep: Armed,
        to_reset: ToReset,
        done: Result<(), Caught>,
        kept: Kept,
    ) {
        if let Err(Caught::Saying(said)) = done {
            panic!("a reset panics: {said}");
        }
        let expiry = self.setup.expiry(self.places[slot].deadline);
        match to_reset {
            ToReset::Nothing | ToReset::Waits => {}
            ToReset::AtOnce => {
                let (_, woken) = self.resetting.pop().expect("it was put there");
                assert!(woken, "a sleep that was reset into the past wakes at once");
            }
            ToReset::Unsure(limbo) => {
                let (token, woken) = self.resetting.pop().expect("it was put there");
                if format!("{sleep:?}").contains("waiting") && done.is_ok() {
                    self.places[slot].state = State::Waiting { expiry, token };
                } else if !woken {
                    self.limbo.push(limbo);
                }
            }
        }
        assert_eq!(self.tick_at(sleep.deadline()), self.places[slot].deadline, "the deadline that it was reset to");
        let place = &mut self.places[slot];
        place.sleep = Some(sleep);
        place.kept = kept;
    }

    pub(super) fn before_drop(&mut self, slot: Slot) {
        let limbo = self.limbo_of(slot);
        self.limbo.extend(limbo);
        self.places[slot].state = State::Empty;
    }

    /// A waker is woken: by whom, and whether it should be.
    pub(super) fn woken(&mut self, slot: Slot, token: u64) {
        let now = self.now();
        if let Some(resetting) = self.resetting.last_mut().filter(|resetting| **resetting == (token, false)) {
            resetting.1 = true;
            return;
        }
        let on_its_way = self
            .limbo
            .iter()
            .position(|limbo| limbo.token == token && (limbo.expiry == now || (self.jumped && limbo.expiry < now)));
        if let Some(at) = on_its_way.filter(|_| self.firing && !self.closing) {
            self.counts.fired += u64::from(self.limbo.swap_remove(at).era == self.era);
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
                assert!(expiry <= now, "early: at {now}, and was to fire at {expiry}");
                assert!(expiry == now || self.jumped, "late: at {now}, and was to fire at {expiry}");
                assert!(
                    place.sleep.as_ref().is_none_or(Armed::is_elapsed),
                    "woken, and does not say that it has elapsed"
                );
                place.state = State::Fired;
                self.counts.fired += u64::from(place.era == self.era);
            }
            state => panic!("waker {token} of slot {slot} is woken, which is {state:?}"),
        }
    }

    /// Whether this comes from a waker, as the clock is being moved.
    pub(super) fn before_advance(&mut self) -> bool {
        self.jumped |= self.firing;
        std::mem::replace(&mut self.firing, true)
    }

    /// The clock was moved to a tick. `within` is what `before_advance` said.
    pub(super) fn after_advance(&mut self, target: u64, within: bool) {
        let now = self.now();
        assert!(now == target || (self.jumped && now > target), "at {now}, but the clock was moved to {target}");
        if within {
            // What is on its way has not arrived.
            return;
        }
        (self.firing, self.jumped) = (false, false);
        self.limbo.clear();
        if let Some(earliest) = self.places.iter().find_map(|place| match place.state {
            State::Waiting { expiry, .. } if expiry <= now => Some(expiry),
            _ => None,
        }) {
            panic!("at {now}, what was to fire at {earliest} has not");
        }
    }

    /// The timer to shut down; `None` if that is being done.
    pub(super) fn before_shutdown(&mut self) -> Option<Timer> {
        self.lost = 0;
        (!std::mem::replace(&mut self.closing, true)).then(|| self.timer.clone())
    }

    /// Has another timer in the place of one that was shut down.
    pub(super) fn after_shutdown(&mut self, pending: usize) {
        self.closing = false;
        assert_eq!(pending as u64, self.lost, "as many were pending as were woken");
        let now = self.now();
        let left = self.waiting().find(|&expiry| !self.firing || expiry > now);
        assert!(left.is_none(), "what was to fire at {left:?} is neither fired nor cancelled");
        if !self.firing {
            self.counts.compare(&self.timer, 0);
        }
        self.counts = Counts::default();
        self.era += 1;
        // Takes the place of the one that has ended, and its time must not be taken for that one's.
        self.setup.build(&self.ahead);
        self.timer = self.setup.build(&self.clock);
    }

    /// What can be seen from outside at any moment when no operation is on.
    pub(super) fn compare(&mut self) {
        if let Some(said) = self.failure.take() {
            panic!("{said}");
        }
        let pending = self.waiting().count() as u64;
        self.counts.compare(&self.timer, pending);
        self.compared += 1;
        if self.compared % 16 == 0 {
            assert_eq!(self.clock.pending() as u64, pending);
            assert_eq!(self.tick_at(self.timer.now()), self.now(), "the timer's time is its clock's");
        }
    }
}
