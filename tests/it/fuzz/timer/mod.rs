//! A timer on a manual clock. Sleeps are created, polled, reset and dropped, also by wakers that are woken or dropped.
//! Some wakers panic. The timer is shut down and replaced. Half of the timers have a `max_pending`.
//!
//! Each firing is checked as it happens. It must happen once, at the tick to which the deadline is rounded up, and wake
//! the last waker given. After each operation, the timer's counts must match the model's.
//!
//! Wakers find the model in a thread-local. It is never borrowed during calls to the timer, because these may call
//! wakers.

mod model;
mod wakers;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use hairspring::{Duration, TrySleep};

use self::model::{Model, Setup, State};
use self::wakers::{Caught, Probe, caught};
use super::clock::{LAST, far_start};
use super::run::{Round, Target};
use crate::common::Random;

type Slot = usize;

/// A slot's last waker, if it may be used again.
type Kept = Option<(Waker, u64)>;

/// An operation, performed from outside or by a waker that is woken or dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Do {
    Panic,
    /// Replaces the sleep in the slot.
    Create(Slot, When),
    /// Creates and polls sleeps in this many slots, which may exceed that.
    CreateMany(Slot, usize, When),
    Poll(Slot),
    Reset(Slot, When),
    Drop(Slot),
    Count,
    Shutdown,
    /// Moves the clock. If a waker does this, sleeps that are due but not yet woken are late.
    Advance(u64),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Do(Do),
    /// Polls with a new waker, or with that of the last poll.
    Poll {
        slot: Slot,
        same: bool,
        on_wake: Option<Do>,
        on_drop: Option<Do>,
    },
    AdvanceToNext,
}

/// At a tick, or this many ticks from the time of the operation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    At(u64),
    In(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Ready,
    /// Ready, as the poll before.
    Still,
    Pending,
    /// A waker has panicked.
    Thrown,
    Shutdown,
    Full,
}

/// The model and the timer are in the thread-local.
pub(crate) struct World {
    slots: usize,
    /// How many bits a distance may have.
    reach: u64,
    /// Of 1,000 wakers, how many do something.
    doing: u64,
    /// The deadline of most sleeps in a round where several turns fire sleeps that are due together.
    meeting: Option<u64>,
}

impl Target for World {
    type Op = Op;

    fn new(random: &mut Random) -> Round<World> {
        let slots = random.pick(&[2, 8, 8, 40, 200]);
        let meeting = (slots == 200 && random.one_in(2)).then_some(0);
        let setup = Setup::random(random, slots);
        let reach = random.pick(&[3, 8, 14, 31, 40, 50, 58]);
        let start = if random.one_in(16) { LAST - random.up_to_bits(40) } else { far_start(random, 14) };
        model::start(Model::new(start, slots, setup));
        let target = World { slots, reach, doing: random.pick(&[0, 100, 500]), meeting };
        let length = random.pick(&[100, 1_000]) * if slots == 200 { 4 } else { 1 };
        let set_up = format!("{slots} sleeps, {setup:?}, tick {start}, distances of {reach} bits");
        Round { target, length, set_up }
    }

    fn generate(&mut self, random: &mut Random) -> Op {
        let slot = random.index(self.slots);
        let now = model::with(|model| model.now());
        if self.meeting.is_some_and(|meeting| meeting <= now) {
            self.meeting = Some(now.saturating_add(1 + random.up_to_bits(self.reach)));
        }
        // Time passes more slowly if many sleeps are to be due together.
        let passes = self.meeting.is_none() || random.one_in(40);
        match random.below(if passes { 100 } else { 82 }) {
            0..=19 => Op::Do(Do::Create(slot, self.when(random))),
            20..=54 => {
                let mut reaction = || (random.below(1_000) < self.doing).then(|| self.reaction(random));
                let (on_wake, on_drop) = (reaction(), reaction());
                Op::Poll { slot, same: random.one_in(4), on_wake, on_drop }
            }
            55..=74 => Op::Do(Do::Reset(slot, self.when(random))),
            75..=79 => Op::Do(Do::Drop(slot)),
            80 if random.one_in(5) => Op::Do(Do::Shutdown),
            80 | 81 => Op::Do(Do::Count),
            82..=86 => Op::AdvanceToNext,
            87 => Op::Do(Do::Advance(random.below(2))),
            88..=93 => Op::Do(Do::Advance(model::with(|model| model.until_any(random)))),
            _ => Op::Do(Do::Advance(random.up_to_bits(self.reach))),
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Do(what) => act(what),
            Op::Poll { slot, same, on_wake, on_drop } => poll(slot, same, on_wake, on_drop),
            Op::AdvanceToNext => advance_to_next(),
        }
        model::with(Model::compare);
    }

    fn finish(&mut self) {
        while model::with(|model| model.earliest().is_some()) {
            advance_to_next();
            model::with(Model::compare);
        }
        // A waker that is dropped may create another sleep.
        while model::with(|model| model.has_sleeps()) {
            (0..self.slots).for_each(drop_sleep);
        }
        model::with(|model| {
            model.compare();
            assert_eq!(model.clock.pending(), 0, "all sleeps were dropped");
        });
        fill();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        model::end();
    }
}

impl World {
    fn when(&self, random: &mut Random) -> When {
        if let Some(meeting) = self.meeting.filter(|_| !random.one_in(4)) {
            return When::At(meeting);
        }
        let now = model::with(|model| model.now());
        match random.below(16) {
            0 | 1 => When::In(random.below(2)),
            2 => When::In(u64::MAX),
            3 => When::At(now.saturating_sub(random.up_to_bits(self.reach))),
            4..=7 => model::with(|model| When::At(model.any_deadline(random))),
            8 | 9 => {
                let power = 6 * random.below(1 + self.reach / 6);
                let slot = (u128::from(now >> power) + random.pick(&[1, 2, 64])) << power;
                When::At((u64::try_from(slot).unwrap_or(u64::MAX) - 1).saturating_add(random.below(3)))
            }
            _ => When::In(random.up_to_bits(self.reach)),
        }
    }

    fn reaction(&self, random: &mut Random) -> Do {
        let slot = random.index(self.slots);
        let after = When::In(random.up_to_bits(self.reach));
        match random.below(32) {
            0..=3 => Do::Panic,
            4..=6 => Do::Create(slot, after),
            7 | 8 => Do::CreateMany(slot, random.index(16), after),
            9..=15 => Do::Poll(slot),
            16..=22 => Do::Reset(slot, after),
            23..=29 => Do::Drop(slot),
            30 if random.one_in(8) => Do::Shutdown,
            30 if random.one_in(2) => Do::Advance(random.up_to_bits(self.reach)),
            _ => Do::Count,
        }
    }
}

fn act(what: Do) {
    match what {
        Do::Panic => wakers::throw(),
        Do::Create(slot, when) => create(slot, when),
        Do::CreateMany(slot, count, when) => {
            let slots = model::with(|model| model.slots());
            for slot in (slot..slot + count.min(slots)).map(|slot| slot % slots) {
                create(slot, when);
                poll(slot, false, None, None);
            }
        }
        Do::Poll(slot) => poll(slot, false, None, None),
        Do::Reset(slot, when) => reset(slot, when),
        Do::Drop(slot) => drop_sleep(slot),
        Do::Count => {
            let (timer, clock) = model::with(|model| (model.timer.clone(), model.clock.clone()));
            let metrics = timer.metrics();
            let ended = metrics.fired() + metrics.cancelled() + metrics.pending();
            assert_eq!(metrics.registered(), ended, "the counts balance");
            assert_eq!(timer.now(), clock.now(), "the timer shows its clock's time");
        }
        Do::Shutdown => {
            let Some(timer) = model::with(Model::before_shutdown) else { return };
            let pending = timer.shutdown();
            assert_eq!(timer.shutdown(), 0, "a second shutdown");
            model::with(|model| model.after_shutdown(pending));
        }
        Do::Advance(nanos) => {
            let (clock, before) = model::with(|model| (model.clock.clone(), model.before_advance()));
            let target = model::with(|model| model.now()).saturating_add(nanos).min(LAST);
            clock.advance(Duration::from_nanos(nanos));
            model::with(|model| model.after_advance(target, before));
        }
    }
}

fn create(slot: Slot, when: When) {
    drop_sleep(slot);
    let Some((timer, deadline)) = model::with(|model| model.before_create(slot, when)) else { return };
    let sleep = match when {
        // A duration cannot say "never": it is limited to 500 years.
        When::In(nanos) if nanos < u64::MAX => timer.sleep(Duration::from_nanos(nanos)),
        _ => timer.sleep_until(model::with(|model| model.instant_of(deadline))),
    };
    model::with(|model| model.put(slot, sleep.fallible(), None, State::Idle));
}

fn poll(slot: Slot, same: bool, on_wake: Option<Do>, on_drop: Option<Do>) {
    let Some((mut sleep, kept)) = model::with(|model| model.take(slot)) else { return };
    let (again, left) = if same { (kept, None) } else { (None, kept) };
    let (waker, token) = again.unwrap_or_else(|| Probe::waker(slot, on_wake, on_drop));
    let expected = model::with(|model| model.before_poll(slot, token));
    let answer = polled(&mut sleep, &mut Context::from_waker(&waker));
    let kept = (same || token % 4 == 0).then(|| (waker.clone(), token));
    model::with(|model| model.after_poll(slot, token, sleep, expected, answer, kept));
    drop_wakers((waker, left));
}

fn polled(sleep: &mut TrySleep, cx: &mut Context<'_>) -> Answer {
    match caught(|| Pin::new(sleep).poll(cx)) {
        Ok(Poll::Ready(Ok(()))) => Answer::Ready,
        Ok(Poll::Pending) => Answer::Pending,
        Ok(Poll::Ready(Err(error))) if error.is_shutdown() => Answer::Shutdown,
        Ok(Poll::Ready(Err(error))) if error.is_at_capacity() => Answer::Full,
        Ok(Poll::Ready(Err(error))) => panic!("a poll returns {error}"),
        Err(Caught::Thrown) => Answer::Thrown,
        Err(Caught::Message(said)) => panic!("a poll panics: {said}"),
    }
}

fn reset(slot: Slot, when: When) {
    let Some((mut sleep, kept)) = model::with(|model| model.take(slot)) else { return };
    let (deadline, instant) = model::with(|model| {
        let deadline = model.tick_of(when);
        (deadline, model.instant_of(deadline))
    });
    let expected = model::with(|model| model.before_reset(slot, deadline));
    let done = caught(|| sleep.reset_at(instant));
    model::with(|model| model.after_reset(slot, sleep, expected, done, kept));
}

fn drop_sleep(slot: Slot) {
    let Some((sleep, kept)) = model::with(|model| model.take(slot)) else { return };
    model::with(|model| model.before_drop(slot));
    drop_wakers(sleep);
    drop_wakers(kept);
}

/// A waker may panic when it is dropped. A failed check in one is recorded.
fn drop_wakers<T>(dropped: T) {
    let _ = caught(|| drop(dropped));
}

fn advance_to_next() {
    let (clock, expected, before) =
        model::with(|model| (model.clock.clone(), model.earliest(), model.before_advance()));
    let reached = clock.advance_to_next();
    model::with(|model| {
        let reached = reached.map(|instant| model.tick_at(instant));
        assert!(reached == expected || (model.jumped && reached > expected), "to {reached:?} instead of {expected:?}");
        let now = model.now();
        model.after_advance(expected.unwrap_or(now), before);
    });
}

/// A timer without sleeps accepts as many as its `max_pending`, and no more.
fn fill() {
    let far = |now: u64| now.checked_add(1 << 34).filter(|&far| far < u64::MAX - (1 << 34));
    let (timer, far, max_pending) = model::with(|model| {
        (model.timer.clone(), far(model.now()).map(|far| model.instant_of(far)), model.setup.max_pending)
    });
    let (Some(max_pending), Some(far)) = (max_pending, far) else { return };
    let mut sleeps: Vec<_> = (0..=max_pending).map(|_| timer.sleep_until(far).fallible()).collect();
    let answers = sleeps.iter_mut().map(|sleep| polled(sleep, &mut Context::from_waker(Waker::noop())));
    let expected = (0..=max_pending).map(|at| if at < max_pending { Answer::Pending } else { Answer::Full });
    assert!(answers.eq(expected), "an empty timer accepts fewer or more sleeps than its `max_pending`");
}
