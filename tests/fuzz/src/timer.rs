//! A whole timer on a manual clock: sleeps that are made, polled, reset and dropped, also from inside of wakers as they
//! are woken or dropped, and by wakers that panic; shut down in between, with another timer in its place. The sleeps are
//! of both kinds, and half of the timers take no more than some of them.
//!
//! Each firing is checked as it happens: once, at the tick that the deadline falls to, by the waker given last. A sleep
//! is refused exactly if the model is full. After each operation the timer's counts are those of the model.
//!
//! The wakers find the model by their thread, and none of it is borrowed while the timer is called: it may call them.
//!
//! Must not know: the timer's inside.

mod armed;
mod counts;
mod model;
mod setup;
mod wakers;

use std::task::{Context, Waker};

use hairspring::Duration;

use self::armed::{Answer, Armed};
use self::model::{Model, State};
use self::setup::Setup;
use self::wakers::Probe;
use crate::clock::LAST;
use crate::random::Random;
use crate::target::Target;

/// What a waker does beside being woken, when it is woken or when it is dropped; and the same, done from outside.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Do {
    Panic,
    /// A new sleep in place of the one in the slot.
    Make {
        slot: Slot,
        when: When,
        fallible: bool,
    },
    Poll(Slot),
    /// New sleeps in so many slots from that one on, each polled: more than a timer takes, now and then.
    Crowd {
        slot: Slot,
        count: usize,
        when: When,
        fallible: bool,
    },
    Reset(Slot, When),
    Drop(Slot),
    Ask,
    Shutdown,
    /// Moves the clock. From inside of a waker, what is due with it and has not been woken yet is late.
    Advance(u64),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Do(Do),
    /// Polls with a new waker, which may do something of its own; or with the one of the last poll.
    Poll {
        slot: Slot,
        same: bool,
        on_wake: Option<Do>,
        on_drop: Option<Do>,
    },
    AdvanceToNext,
}

pub(crate) type Slot = usize;

#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    /// At a tick.
    At(u64),
    /// So many ticks from when it is done.
    In(u64),
}

/// The timer and the clock; the model is where wakers find it.
pub(crate) struct World {
    slots: usize,
    /// How many bits a distance may have.
    reach: u64,
    /// Of 1000 wakers, how many do something.
    doing: u64,
    /// The deadline that most sleeps have, if so many are due at a time that they are not fired in one go.
    meeting: Option<u64>,
    described: String,
}

impl Target for World {
    const NAME: &'static str = "timer";
    type Op = Op;

    fn new(random: &mut Random) -> World {
        let slots = random.pick(&[2, 8, 8, 40, 200]);
        let meeting = (slots == 200 && random.one_in(2)).then_some(0);
        let setup = Setup::random(random, slots);
        let reach = random.pick(&[3, 8, 14, 31, 40, 50, 58]);
        let start = start(random);
        model::start(Model::new(start, slots, setup));
        let described = format!("{slots} sleeps, {setup}, starting at tick {start}, distances of {reach} bits");
        World { slots, reach, doing: random.pick(&[0, 100, 500]), meeting, described }
    }

    fn describe(&self) -> String {
        self.described.clone()
    }

    fn length(&self, random: &mut Random) -> usize {
        random.pick(&[100, 1_000]) * if self.slots == 200 { 4 } else { 1 }
    }

    fn generate(&mut self, random: &mut Random) -> Op {
        let slot = random.index(self.slots);
        let now = model::with(|model| model.now());
        if self.meeting.is_some_and(|meeting| meeting <= now) {
            self.meeting = Some(now.saturating_add(1 + random.up_to_bits(self.reach)));
        }
        // Time goes more slowly if many are to meet.
        let goes_on = self.meeting.is_none() || random.one_in(40);
        match random.below(if goes_on { 100 } else { 82 }) {
            0..=19 => Op::Do(make_op(slot, self.when(random), random)),
            20..=54 => {
                let mut reaction = || (random.below(1_000) < self.doing).then(|| self.reaction(random));
                let (on_wake, on_drop) = (reaction(), reaction());
                Op::Poll { slot, same: random.one_in(4), on_wake, on_drop }
            }
            55..=74 => Op::Do(Do::Reset(slot, self.when(random))),
            75..=79 => Op::Do(Do::Drop(slot)),
            80 if random.one_in(5) => Op::Do(Do::Shutdown),
            80 | 81 => Op::Do(Do::Ask),
            82..=86 => Op::AdvanceToNext,
            87 => Op::Do(Do::Advance(0)),
            88 => Op::Do(Do::Advance(1)),
            89..=93 => Op::Do(Do::Advance(model::with(|model| model.until_any(random)))),
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
        // A waker that is dropped may make another.
        while model::with(|model| model.has_sleeps()) {
            (0..self.slots).for_each(drop_sleep);
        }
        model::with(|model| {
            model.compare();
            assert_eq!(model.clock.pending(), 0);
        });
        fill();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        model::end();
    }
}

/// Ahead of the present, which no manual clock can go before, most often just before a power of 64 has a multiple.
fn start(random: &mut Random) -> u64 {
    // 64^10 ns is some 36 years; the present is 50 years after the first tick, and the last is after 584.
    let from = 2_u64 << 60;
    let start = match random.below(16) {
        0 => LAST,
        1..=4 => from + (random.below(14) << 60),
        5..=12 => from + ((1 + random.below(1 << 30)) << (6 * random.below(6))),
        _ => from + random.up_to_bits(61),
    };
    start - random.up_to_bits(40)
}

impl World {
    fn when(&self, random: &mut Random) -> When {
        if let Some(meeting) = self.meeting.filter(|_| !random.one_in(4)) {
            return When::At(meeting);
        }
        match random.below(16) {
            0 => When::In(0),
            1 => When::In(1),
            2 => When::In(u64::MAX),
            3 => When::At(model::with(|model| model.now().saturating_sub(random.up_to_bits(self.reach)))),
            4..=7 => model::with(|model| When::At(model.any_deadline(random))),
            8 | 9 => {
                let power = 6 * random.below(1 + self.reach / 6);
                let start = (u128::from(model::with(|model| model.now()) >> power) + random.pick(&[1, 2, 64])) << power;
                When::At((u64::try_from(start).unwrap_or(u64::MAX) - 1).saturating_add(random.below(3)))
            }
            _ => When::In(random.up_to_bits(self.reach)),
        }
    }

    fn reaction(&self, random: &mut Random) -> Do {
        let slot = random.index(self.slots);
        let after = When::In(random.up_to_bits(self.reach));
        match random.below(32) {
            0..=3 => Do::Panic,
            4..=6 => make_op(slot, after, random),
            7 | 8 => Do::Crowd { slot, count: random.index(16), when: after, fallible: is_fallible(random) },
            9..=15 => Do::Poll(slot),
            16..=22 => Do::Reset(slot, after),
            23..=29 => Do::Drop(slot),
            30 if random.one_in(8) => Do::Shutdown,
            30 if random.one_in(2) => Do::Advance(random.up_to_bits(self.reach)),
            _ => Do::Ask,
        }
    }
}

fn make_op(slot: Slot, when: When, random: &mut Random) -> Do {
    Do::Make { slot, when, fallible: is_fallible(random) }
}

/// Most are: a refusal that is a panic takes longer than an operation or two.
fn is_fallible(random: &mut Random) -> bool {
    !random.one_in(4)
}

fn act(what: Do) {
    match what {
        Do::Panic => wakers::throw(),
        Do::Make { slot, when, fallible } => make(slot, when, fallible),
        Do::Poll(slot) => poll(slot, false, None, None),
        Do::Crowd { slot, count, when, fallible } => crowd(slot, count, when, fallible),
        Do::Reset(slot, when) => reset(slot, when),
        Do::Drop(slot) => drop_sleep(slot),
        Do::Ask => ask(),
        Do::Shutdown => shut_down(),
        Do::Advance(nanos) => advance(nanos),
    }
}

fn make(slot: Slot, when: When, fallible: bool) {
    drop_sleep(slot);
    let Some((timer, deadline)) = model::with(|model| model.make(slot, when)) else { return };
    let instant = model::with(|model| model.instant_of(deadline));
    let sleep = match when {
        // "Never" is not said by a duration, which is cut to 500 years.
        When::In(nanos) if nanos < u64::MAX => Armed::after(&timer, Duration::from_nanos(nanos), fallible),
        _ => Armed::until(&timer, instant, fallible),
    };
    model::with(|model| model.put(slot, sleep, State::Idle));
}

fn poll(slot: Slot, same: bool, on_wake: Option<Do>, on_drop: Option<Do>) {
    let Some((mut sleep, kept)) = model::with(|model| model.take(slot)) else { return };
    let (again, left) = if same { (kept, None) } else { (None, kept) };
    let (waker, token) = again.unwrap_or_else(|| Probe::waker(slot, on_wake, on_drop));
    let to_poll = model::with(|model| model.before_poll(slot, token));
    let answer = sleep.poll(&mut Context::from_waker(&waker));
    let kept = (same || token % 4 == 0).then(|| (waker.clone(), token));
    model::with(|model| model.after_poll(slot, sleep, &to_poll, answer, kept));
    drop_wakers((waker, left));
}

fn crowd(slot: Slot, count: usize, when: When, fallible: bool) {
    let slots = model::with(|model| model.slots());
    for slot in (slot..slot + count.min(slots)).map(|slot| slot % slots) {
        make(slot, when, fallible);
        poll(slot, false, None, None);
    }
}

fn reset(slot: Slot, when: When) {
    let Some((mut sleep, kept)) = model::with(|model| model.take(slot)) else { return };
    let (deadline, instant) = model::with(|model| {
        let deadline = model.tick_of(when);
        (deadline, model.instant_of(deadline))
    });
    let to_reset = model::with(|model| model.before_reset(slot, deadline));
    let done = wakers::caught(|| sleep.reset_at(instant));
    model::with(|model| model.after_reset(slot, sleep, to_reset, done, kept));
}

fn drop_sleep(slot: Slot) {
    let Some((sleep, kept)) = model::with(|model| model.take(slot)) else { return };
    model::with(|model| model.before_drop(slot));
    drop_wakers(sleep);
    drop_wakers(kept);
}

/// Drops what wakers are dropped with: one that throws is no failure, and what one finds wrong is noted down.
fn drop_wakers<T>(dropped: T) {
    let _ = wakers::caught(|| drop(dropped));
}

fn ask() {
    let (timer, clock) = model::with(|model| (model.timer.clone(), model.clock.clone()));
    let metrics = timer.metrics();
    assert_eq!(metrics.registered(), metrics.fired() + metrics.cancelled() + metrics.pending());
    assert_eq!(timer.now(), clock.now(), "the timer's time is its clock's");
}

fn shut_down() {
    let Some(timer) = model::with(Model::before_shutdown) else { return };
    let pending = timer.shutdown();
    assert_eq!(timer.shutdown(), 0, "once is enough");
    model::with(|model| model.after_shutdown(pending));
}

fn advance(nanos: u64) {
    let (clock, target, before) =
        model::with(|model| (model.clock.clone(), model.now().saturating_add(nanos).min(LAST), model.before_advance()));
    clock.advance(Duration::from_nanos(nanos));
    model::with(|model| model.after_advance(target, before));
}

fn advance_to_next() {
    let (clock, expected, before) =
        model::with(|model| (model.clock.clone(), model.earliest(), model.before_advance()));
    let reached = clock.advance_to_next();
    model::with(|model| {
        let reached = reached.map(|instant| model.tick_at(instant));
        assert!(
            reached == expected || (model.jumped && reached > expected),
            "{reached:?}, and {expected:?} is the first"
        );
        let now = model.now();
        model.after_advance(expected.unwrap_or(now), before);
    });
}

/// A timer from which all have gone takes as many as it may, and not one more.
fn fill() {
    let (timer, never, capacity) =
        model::with(|model| (model.timer.clone(), model.instant_of(u64::MAX), model.setup.capacity));
    let Some(capacity) = capacity else { return };
    let mut sleeps: Vec<_> = (0..=capacity).map(|_| Armed::Fallible(timer.try_sleep_until(never))).collect();
    let answers: Vec<_> = sleeps.iter_mut().map(|sleep| sleep.poll(&mut Context::from_waker(Waker::noop()))).collect();
    let (last, taken) = answers.split_last().expect("one too many");
    assert!(taken.iter().all(|&answer| answer == Answer::Pending), "an empty timer is full: {answers:?}");
    assert_eq!(*last, Answer::Full(capacity), "a full timer takes one more");
}

/// What a slot's waker is kept as, for another poll with the same.
type Kept = Option<(Waker, u64)>;
