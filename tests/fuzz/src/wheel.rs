//! The wheel against a sorted map: the same entries, in the same order, at the same ticks.
//!
//! After every operation all that can be told quickly is compared; what takes longer than the operation is compared
//! after every operation in some rounds, and every so often in the others. The links and bits of the wheel are checked
//! by the model in its own tests, which sees them.
//!
//! Must not know: clocks, wakers, the wheel's inside.

use std::collections::BTreeMap;

use hairspring::wheel::{Key, Step, Tick, Ticks, Wheel};

use crate::random::Random;
use crate::target::Target;

/// Up to this many entries, a wheel at rest says exactly when the next one is due.
const FEW: usize = 16;
/// The most entries in a round that has crowds, which a wheel spreads ahead.
const CROWD: usize = 5_000;
/// Up to this many entries, the first is compared after every operation: the wheel may look at all of a slot for it.
const SMALL: usize = 256;

/// `u32` says which of the entries, or which of the keys that are stale, modulo how many there are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Insert(Tick),
    /// So many inserts, at deadlines that a seed gives.
    InsertCrowd(u32, u64),
    Remove(u32),
    /// Removes all but one in so many.
    RemoveCrowd(u32),
    Reset(u32, Tick),
    Get(u32),
    RemoveStale(u32),
    ResetStale(u32, Tick),
    GetStale(u32),
    Step(Tick),
    StepToDone(Tick),
    Pop(Tick),
    PopAll(Tick),
    Clear,
    Clone,
}

/// The place of an entry in the order: by the tick it can fire at, then first in, first out.
///
/// That tick is the deadline or, if the wheel was past it when the entry came, the tick of the wheel.
type Rank = (Tick, u64);

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Key,
    deadline: Tick,
    value: u64,
    rank: Rank,
}

pub(crate) struct Pair {
    wheel: Wheel<u64>,
    /// What must be in the wheel, in no order.
    entries: Vec<Entry>,
    /// The order, by place in `entries`.
    order: BTreeMap<Rank, usize>,
    /// Keys of some that have fired or were removed.
    gone: Vec<Key>,
    inserted: u64,
    /// How often something was inserted or reset.
    armed: u64,
    /// The latest time that the wheel was told.
    latest: Tick,
    /// Whether the wheel has no half-done work: its last step said so.
    at_rest: bool,
    operations: u64,
    start: Tick,
    limit: usize,
    /// How many bits a distance may have.
    reach: u64,
    /// How many operations come between two checks of the whole wheel.
    check_every: u64,
    /// Of every sixteen operations, how many insert.
    inserts: u64,
}

impl Target for Pair {
    const NAME: &'static str = "wheel";
    type Op = Op;

    fn new(random: &mut Random) -> Pair {
        let start = start(random);
        // Thousands of entries take thousands of operations, so that they are not too rare either.
        let limit = if random.one_in(100) { CROWD } else { random.pick(&[1, 4, 16, 48, 200]) };
        let check_every = match limit {
            CROWD => 1_000,
            200 => 100,
            _ if random.one_in(50) => 1,
            _ => 100,
        };
        Pair {
            wheel: Wheel::starting_at(start),
            entries: Vec::new(),
            order: BTreeMap::new(),
            gone: Vec::new(),
            inserted: 0,
            armed: 0,
            latest: start,
            at_rest: true,
            operations: 0,
            start,
            limit,
            reach: random.pick(&[7, 10, 14, 20, 38, 45, 60]),
            check_every,
            inserts: random.pick(&[3, 5, 8]),
        }
    }

    fn describe(&self) -> String {
        format!("starting at {:?}, at most {} entries, distances of {} bits", self.start, self.limit, self.reach)
    }

    fn length(&self, random: &mut Random) -> usize {
        if self.limit > 200 { 20_000 } else { random.pick(&[50, 200, 1_000]) }
    }

    fn generate(&mut self, random: &mut Random) -> Op {
        if self.limit == CROWD && random.one_in(400) {
            return if self.entries.len() < CROWD / 2 && random.one_in(2) {
                Op::InsertCrowd(random.pick(&[500, 1_500, 2_500]), random.next())
            } else {
                Op::RemoveCrowd(random.pick(&[2, 20, u32::MAX]))
            };
        }
        if self.entries.len() < self.limit && random.below(16) < self.inserts {
            return Op::Insert(self.deadline(random));
        }
        let any = random.which();
        match random.below(32) {
            _ if self.entries.is_empty() => self.generate_step(random),
            0..=3 => Op::Remove(any),
            4..=9 => Op::Reset(any, self.deadline(random)),
            10 | 11 => Op::Get(any),
            12 if !self.gone.is_empty() => Op::RemoveStale(any),
            13 if !self.gone.is_empty() => match random.below(2) {
                0 => Op::ResetStale(any, self.deadline(random)),
                _ => Op::GetStale(any),
            },
            14 => match random.below(48) {
                0 => Op::Clear,
                1..=4 => Op::Clone,
                _ => Op::Get(any),
            },
            _ => self.generate_step(random),
        }
    }

    fn apply(&mut self, op: &Op) {
        self.operations += 1;
        match *op {
            Op::Insert(deadline) => self.insert(deadline),
            Op::InsertCrowd(count, seed) => self.insert_crowd(count, &mut Random::new(seed)),
            Op::RemoveCrowd(left) => {
                // From the back, as the last takes the place of one that is removed.
                for at in (0..self.entries.len()).rev().filter(|&at| at % left as usize > 0) {
                    self.apply_to(at, Op::Remove(0));
                }
            }
            Op::Step(now) => {
                self.step(now);
            }
            Op::StepToDone(now) => while self.step(now) {},
            Op::Pop(now) => {
                self.pop(now);
            }
            Op::PopAll(now) => while self.pop(now) {},
            Op::Clear => {
                self.wheel.clear();
                self.gone.extend(self.entries.drain(..).map(|entry| entry.key));
                self.order.clear();
                self.at_rest = true;
            }
            Op::Clone => self.wheel = self.wheel.clone(),
            Op::RemoveStale(any) => self.with_stale(any, |wheel, key| assert_eq!(wheel.remove(key), None)),
            Op::ResetStale(any, deadline) => {
                self.with_stale(any, |wheel, key| assert!(!wheel.reset(key, deadline), "a stale key was accepted"));
            }
            Op::GetStale(any) => self.with_stale(any, |wheel, key| {
                assert_eq!((wheel.get(key), wheel.deadline(key)), (None, None));
            }),
            Op::Remove(any) | Op::Reset(any, _) | Op::Get(any) => {
                if !self.entries.is_empty() {
                    self.apply_to(any as usize % self.entries.len(), *op);
                }
            }
        }
        self.compare();
        if self.gone.len() > 64 {
            self.gone.drain(..32);
        }
    }

    fn finish(&mut self) {
        while self.step(Tick::MAX) {}
        self.compare();
        assert!(self.wheel.is_empty() && self.entries.is_empty(), "at the end of time nothing is left");
    }
}

/// Just before, at or after a power of 64 or a multiple of one, the last tick, or anywhere.
fn start(random: &mut Random) -> Tick {
    let power = 1 << (6 * random.below(11));
    let near = match random.below(8) {
        0 => u64::MAX,
        1 => 1 << 30,
        2 => random.next(),
        3 => power * (1 + random.below(u64::MAX / power)),
        _ => power,
    };
    match random.below(4) {
        0 => Tick(near),
        1 => Tick(near.saturating_add(random.below(3))),
        2 => Tick(near.saturating_sub(1 + random.below(3))),
        _ => Tick(near.saturating_sub(random.up_to_bits(20))),
    }
}

impl Pair {
    fn apply_to(&mut self, at: usize, op: Op) {
        let entry = self.entries[at];
        match op {
            Op::Remove(_) => {
                assert_eq!(self.wheel.remove(entry.key), Some(entry.value));
                self.order.remove(&entry.rank);
                self.forget(at);
            }
            Op::Reset(_, deadline) => {
                assert!(self.wheel.reset(entry.key, deadline), "what is in the wheel can be reset");
                self.order.remove(&entry.rank);
                self.armed += 1;
                let rank = (deadline.max(self.wheel.elapsed()), self.armed);
                self.order.insert(rank, at);
                self.entries[at] = Entry { deadline, rank, ..entry };
            }
            Op::Get(_) => {
                assert_eq!(self.wheel.get(entry.key), Some(&entry.value));
                assert_eq!(self.wheel.deadline(entry.key), Some(entry.deadline));
            }
            _ => unreachable!("only operations on an entry come here"),
        }
    }

    fn insert(&mut self, deadline: Tick) {
        let value = self.armed;
        let key = self.wheel.insert(deadline, value);
        self.inserted += 1;
        self.armed += 1;
        let rank = (deadline.max(self.wheel.elapsed()), self.armed);
        self.order.insert(rank, self.entries.len());
        self.entries.push(Entry { key, deadline, value, rank });
    }

    /// In no order, most of them within reach of the present or of a time far ahead.
    fn insert_crowd(&mut self, count: u32, random: &mut Random) {
        let far = Ticks(if random.one_in(2) { random.up_to_bits(60) } else { 0 });
        for _ in 0..count {
            let anywhere = self.wheel.elapsed() + far + Ticks(random.below(1 << self.reach));
            let deadline = if random.one_in(8) { self.deadline(random) } else { anywhere };
            self.insert(deadline);
        }
    }

    /// An entry is gone from the wheel and from `order`.
    fn forget(&mut self, at: usize) {
        let gone = self.entries.swap_remove(at);
        if let Some(moved) = self.entries.get(at) {
            *self.order.get_mut(&moved.rank).expect("it is in the order") = at;
        }
        self.gone.push(gone.key);
    }

    fn with_stale(&mut self, any: u32, check: impl FnOnce(&mut Wheel<u64>, Key)) {
        if !self.gone.is_empty() {
            check(&mut self.wheel, self.gone[any as usize % self.gone.len()]);
        }
    }

    /// One step on both; `false` if it was the last.
    fn step(&mut self, now: Tick) -> bool {
        let before = self.wheel.elapsed();
        let reached = before.max(now);
        self.latest = self.latest.max(now);
        let step = self.wheel.step(now);
        match step {
            Step::Fired { key, deadline, value } => {
                let entry = self.fired(reached, value);
                assert_eq!((key, deadline), (entry.key, entry.deadline));
            }
            Step::Done => self.assert_done(reached),
            _ => assert!(!self.entries.is_empty(), "an empty wheel has no work"),
        }
        let after = self.wheel.elapsed();
        assert!(before <= after && after <= reached, "from {before:?} to {after:?} at {now:?}");
        self.at_rest = step == Step::Done;
        !self.at_rest
    }

    /// One entry out of both; `false` if none is due.
    fn pop(&mut self, now: Tick) -> bool {
        let reached = self.wheel.elapsed().max(now);
        self.latest = self.latest.max(now);
        let popped = self.wheel.pop(now);
        match popped {
            Some(value) => {
                self.fired(reached, value);
            }
            None => self.assert_done(reached),
        }
        self.at_rest = popped.is_none();
        !self.at_rest
    }

    /// What the wheel has handed out must be the first of the model.
    fn fired(&mut self, reached: Tick, value: u64) -> Entry {
        let (rank, at) = self.order.pop_first().expect("nothing fires twice");
        let entry = self.entries[at];
        assert_eq!(value, entry.value, "out of order: {entry:?} was to come");
        assert!(rank.0 <= reached && entry.deadline <= self.latest, "early: {entry:?} at {reached:?}");
        self.forget(at);
        entry
    }

    fn assert_done(&self, reached: Tick) {
        let first = self.earliest();
        assert!(first.is_none_or(|first| first > reached), "what is due at {first:?} was forgotten at {reached:?}");
        assert_eq!(self.wheel.elapsed(), reached);
    }

    fn earliest(&self) -> Option<Tick> {
        self.order.first_key_value().map(|(rank, _)| rank.0)
    }

    /// What can be seen of the wheel at any moment must agree with the model.
    fn compare(&self) {
        let (wheel, count) = (&self.wheel, self.entries.len());
        assert_eq!((wheel.len(), wheel.is_empty()), (count, count == 0));
        assert!(wheel.capacity() >= count);
        assert_eq!(wheel.inserted(), self.inserted);
        assert!(wheel.cascaded() <= 10 * self.armed, "an entry moves down once a level at most");
        let (next, earliest) = (wheel.next_expiration(), self.earliest());
        match (next, earliest) {
            (None, None) => {}
            (Some(next), Some(earliest)) => {
                let elapsed = wheel.elapsed();
                assert!(elapsed <= next && next <= earliest.max(elapsed), "{next:?}, but {earliest:?} is the first");
            }
            (next, earliest) => panic!("{next:?}, but {earliest:?} is the first"),
        }
        if self.at_rest && count <= FEW {
            assert_eq!(next, earliest, "with few entries the next expiration is exact");
        }
        let check = self.operations % self.check_every == 0;
        if count <= SMALL || check {
            let first = self.order.first_key_value().map(|(_, &at)| self.entries[at].key);
            assert_eq!(wheel.first(), first, "the first is the one to come next");
        }
        if check {
            assert!(wheel.occupancy().iter().map(|slots| slots.count_ones()).sum::<u32>() as usize <= count);
        }
    }

    fn any(&self, random: &mut Random) -> Option<Entry> {
        (!self.entries.is_empty()).then(|| self.entries[random.index(self.entries.len())])
    }

    /// A deadline: mostly ahead, sometimes that of another entry, sometimes past, sometimes the last there is.
    fn deadline(&self, random: &mut Random) -> Tick {
        let elapsed = self.wheel.elapsed();
        match random.below(20) {
            0..=3 => elapsed + Ticks(random.below(130)),
            4..=7 => self.at_a_boundary(random),
            8..=11 => elapsed + Ticks(random.up_to_bits(self.reach)),
            12..=14 => self.any(random).map_or(elapsed, |entry| entry.deadline),
            15 | 16 => self.any(random).map_or(elapsed, |entry| Tick(entry.deadline.0 ^ random.up_to_bits(7))),
            17 => Tick(elapsed.0.saturating_sub(random.up_to_bits(self.reach))),
            18 => Tick(u64::MAX - random.below(3)),
            _ => Tick(random.up_to_bits(64)),
        }
    }

    /// The first tick of a slot, the one before or the one after.
    fn at_a_boundary(&self, random: &mut Random) -> Tick {
        let below = 6 * random.below(1 + self.reach / 6);
        let slot = u128::from(self.wheel.elapsed().0 >> below) + random.pick(&[1, 2, 63, 64, 65]);
        let start = u64::try_from(slot << below).unwrap_or(u64::MAX);
        Tick((start - 1).saturating_add(random.below(3)))
    }

    fn generate_step(&self, random: &mut Random) -> Op {
        let now = self.time(random);
        match random.below(8) {
            0..=3 => Op::Step(now),
            4 | 5 => Op::StepToDone(now),
            6 => Op::Pop(now),
            _ => Op::PopAll(now),
        }
    }

    /// A time to give to the wheel: a little or much later, at what comes next, or back.
    fn time(&self, random: &mut Random) -> Tick {
        let elapsed = self.wheel.elapsed();
        let next = self.wheel.next_expiration().unwrap_or(elapsed);
        let limit = elapsed + Ticks(1 << self.reach);
        match random.below(32) {
            0..=5 => elapsed + Ticks(random.below(70)),
            6..=9 => next.min(limit),
            10 | 11 => Tick(next.0.saturating_sub(1)).min(limit),
            12 | 13 => (next + Ticks(1)).min(limit),
            14..=17 => self.at_a_boundary(random),
            18..=21 => self.any(random).map_or(elapsed, |entry| entry.deadline.min(limit)),
            22..=27 => elapsed + Ticks(random.up_to_bits(self.reach)),
            28 if self.limit < 10 => next,
            28 | 29 => Tick(elapsed.0.saturating_sub(1)),
            30 => Tick(elapsed.0.saturating_sub(random.up_to_bits(64))),
            _ => Tick(elapsed.0.saturating_sub(38_000_000_000)),
        }
    }
}
