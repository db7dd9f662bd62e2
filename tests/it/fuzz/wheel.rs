//! The wheel against a sorted map: the same entries in the same order at the same ticks.

use std::collections::BTreeMap;

use hairspring::wheel::{Key, Step, Tick, Ticks, Wheel};

use super::run::{Round, Target, pick};
use crate::common::Random;

/// Up to this many entries, a wheel without unfinished work knows exactly when the next one is due.
const FEW: usize = 16;
/// Rounds with this many entries insert and remove them in bursts, which the wheel spreads early.
const MANY: usize = 5_000;

/// A `u32` picks an entry, or a stale key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Insert(Tick),
    /// This many inserts, with deadlines from a seed.
    InsertMany(u32, u64),
    Remove(u32),
    /// Removes all entries but one in this many.
    RemoveMany(u32),
    Reset(u32, Tick),
    Get(u32),
    Step(Tick),
    StepToDone(Tick),
    Pop(Tick),
    PopAll(Tick),
    Clear,
    Clone,
}

/// An entry's position in the order: the tick at which it can fire, then first in, first out.
///
/// The tick is the deadline, or the wheel's own tick at the time if the deadline had passed when the entry was armed.
type Rank = (Tick, u64);

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Key,
    deadline: Tick,
    value: u64,
}

pub(crate) struct Pair {
    wheel: Wheel<u64>,
    model: BTreeMap<Rank, Entry>,
    /// Keys of entries that have fired or were removed.
    stale: Vec<Key>,
    /// The number of inserts and resets.
    armed: u64,
    /// The latest time that was passed to the wheel.
    latest: Tick,
    /// Whether the wheel has no unfinished work, as its last step said.
    at_rest: bool,
    limit: usize,
    /// How many bits a distance may have.
    reach: u64,
    /// Of every sixteen operations, how many insert.
    inserts: u64,
}

impl Target for Pair {
    type Op = Op;

    fn new(random: &mut Random) -> Round<Pair> {
        let start = start(random);
        // Rare, because these rounds are long.
        let limit = if random.one_in(100) { MANY } else { random.pick(&[1, 4, 16, 48, 200]) };
        let reach = random.pick(&[7, 10, 14, 20, 38, 45, 60]);
        let target = Pair {
            wheel: Wheel::starting_at(start),
            model: BTreeMap::new(),
            stale: Vec::new(),
            armed: 0,
            latest: start,
            at_rest: true,
            limit,
            reach,
            inserts: random.pick(&[3, 5, 8]),
        };
        let length = if limit == MANY { 20_000 } else { random.pick(&[50, 200, 1_000]) };
        Round { target, length, set_up: format!("{start:?}, at most {limit} entries, distances of {reach} bits") }
    }

    fn generate(&mut self, random: &mut Random) -> Op {
        if self.limit == MANY && random.one_in(400) {
            return if self.model.len() < MANY / 2 && random.one_in(2) {
                Op::InsertMany(random.pick(&[500, 1_500, 2_500]), random.next())
            } else {
                Op::RemoveMany(random.pick(&[2, 20, u32::MAX]))
            };
        }
        if self.model.len() < self.limit && random.below(16) < self.inserts {
            return Op::Insert(self.deadline(random));
        }
        let any = random.any();
        match random.below(32) {
            _ if self.model.is_empty() => self.generate_step(random),
            0..=3 => Op::Remove(any),
            4..=9 => Op::Reset(any, self.deadline(random)),
            10..=12 => Op::Get(any),
            13 if random.one_in(48) => Op::Clear,
            13 if random.one_in(12) => Op::Clone,
            _ => self.generate_step(random),
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Insert(deadline) => self.insert(deadline),
            Op::InsertMany(count, seed) => self.insert_many(count, &mut Random::new(seed)),
            Op::Remove(any) => {
                let Some((key, rank)) = self.pick(any) else { return };
                let entry = rank.and_then(|rank| self.model.remove(&rank));
                assert_eq!(self.wheel.remove(key), entry.map(|entry| entry.value), "removed");
                self.stale.push(key);
            }
            Op::RemoveMany(left) => {
                let ranks: Vec<Rank> = self.model.keys().copied().collect();
                for (_, rank) in ranks.into_iter().enumerate().filter(|(at, _)| at % left as usize > 0) {
                    let entry = self.model.remove(&rank).expect("it was there");
                    assert_eq!(
                        self.wheel.remove(entry.key),
                        Some(entry.value),
                        "an entry that was removed with many others"
                    );
                    self.stale.push(entry.key);
                }
            }
            Op::Reset(any, deadline) => {
                let Some((key, rank)) = self.pick(any) else { return };
                assert_eq!(self.wheel.reset(key, deadline), rank.is_some(), "reset");
                if let Some(entry) = rank.and_then(|rank| self.model.remove(&rank)) {
                    self.put(Entry { deadline, ..entry });
                }
            }
            Op::Get(any) => {
                let Some((key, rank)) = self.pick(any) else { return };
                let entry = rank.map(|rank| self.model[&rank]);
                assert_eq!(self.wheel.get(key).copied(), entry.map(|entry| entry.value), "read");
                assert_eq!(self.wheel.deadline(key), entry.map(|entry| entry.deadline), "the deadline");
            }
            Op::Step(now) => _ = self.step(now),
            Op::StepToDone(now) => while self.step(now) {},
            Op::Pop(now) => _ = self.pop(now),
            Op::PopAll(now) => while self.pop(now) {},
            Op::Clear => {
                self.wheel.clear();
                self.stale.extend(std::mem::take(&mut self.model).values().map(|entry| entry.key));
                self.at_rest = true;
            }
            Op::Clone => self.wheel = self.wheel.clone(),
        }
        self.compare();
        self.stale.drain(..self.stale.len().saturating_sub(64));
    }

    fn finish(&mut self) {
        while self.step(Tick::MAX) {}
        self.compare();
        assert!(self.wheel.is_empty() && self.model.is_empty(), "entries are left at the end of time");
    }
}

/// At or near a power of 64 or a multiple of one, near the last tick, or anywhere.
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
        0 | 1 => Tick::from(near.saturating_add(random.below(3))),
        2 => Tick::from(near.saturating_sub(1 + random.below(3))),
        _ => Tick::from(near.saturating_sub(random.up_to_bits(20))),
    }
}

/// So many ticks before a tick, or tick 0.
fn before(tick: Tick, ticks: u64) -> Tick {
    u64::from(tick).saturating_sub(ticks).into()
}

impl Pair {
    /// An entry, or a stale key, which has no rank.
    fn pick(&self, any: u32) -> Option<(Key, Option<Rank>)> {
        let entries = self.model.iter().map(|(&rank, entry)| (entry.key, Some(rank)));
        pick(any, 8, &self.stale, entries)
    }

    fn insert(&mut self, deadline: Tick) {
        let value = self.armed;
        let key = self.wheel.insert(deadline, value);
        self.put(Entry { key, deadline, value });
    }

    fn put(&mut self, entry: Entry) {
        self.armed += 1;
        self.model.insert((entry.deadline.max(self.wheel.elapsed()), self.armed), entry);
    }

    /// Deadlines in random order, most of them near the present or near a time far ahead.
    fn insert_many(&mut self, count: u32, random: &mut Random) {
        let far = Ticks::from(if random.one_in(2) { random.up_to_bits(60) } else { 0 });
        for _ in 0..count {
            let anywhere = self.wheel.elapsed() + far + Ticks::from(random.below(1 << self.reach));
            let deadline = if random.one_in(8) { self.deadline(random) } else { anywhere };
            self.insert(deadline);
        }
    }

    /// Performs one step on both sides. Returns `false` after the last.
    fn step(&mut self, now: Tick) -> bool {
        let before = self.wheel.elapsed();
        let reached = before.max(now);
        self.latest = self.latest.max(now);
        let step = self.wheel.step(now);
        match step {
            Step::Fired { key, deadline, value } => {
                let entry = self.fired(reached, value);
                assert_eq!((key, deadline), (entry.key, entry.deadline), "fired");
            }
            Step::Done => self.assert_done(reached),
            _ => assert!(!self.model.is_empty(), "an empty wheel has no work"),
        }
        let after = self.wheel.elapsed();
        assert!(before <= after && after <= reached, "from {before:?} to {after:?} at {now:?}");
        self.at_rest = step == Step::Done;
        !self.at_rest
    }

    /// Takes one entry out of both sides. Returns `false` if none is due.
    fn pop(&mut self, now: Tick) -> bool {
        let reached = self.wheel.elapsed().max(now);
        self.latest = self.latest.max(now);
        let popped = self.wheel.pop(now);
        match popped {
            Some(value) => _ = self.fired(reached, value),
            None => self.assert_done(reached),
        }
        self.at_rest = popped.is_none();
        !self.at_rest
    }

    /// The wheel has handed out an entry, which must be the first of the model.
    fn fired(&mut self, reached: Tick, value: u64) -> Entry {
        let (rank, entry) = self.model.pop_first().expect("an entry fired twice");
        assert_eq!(value, entry.value, "out of order: expected {entry:?}");
        assert!(rank.0 <= reached && entry.deadline <= self.latest, "early: {entry:?} at {reached:?}");
        self.stale.push(entry.key);
        entry
    }

    fn assert_done(&self, reached: Tick) {
        let first = self.earliest();
        assert!(first.is_none_or(|first| first > reached), "forgotten at {reached:?}: due at {first:?}");
        assert_eq!(self.wheel.elapsed(), reached, "done");
    }

    fn earliest(&self) -> Option<Tick> {
        self.model.keys().next().map(|rank| rank.0)
    }

    fn compare(&self) {
        let (wheel, count) = (&self.wheel, self.model.len());
        assert_eq!((wheel.len(), wheel.is_empty()), (count, count == 0));
        let (next, earliest, elapsed) = (wheel.next_expiration(), self.earliest(), wheel.elapsed());
        let in_time = next.zip(earliest).is_some_and(|(next, first)| elapsed <= next && next <= first.max(elapsed));
        assert!(in_time || next == earliest, "next at {next:?}, but the first is due at {earliest:?}");
        assert!(
            !self.at_rest || count > FEW || next == earliest,
            "the next expiration of {count} entries is not exact"
        );
    }

    fn any(&self, random: &mut Random) -> Option<Entry> {
        self.model.values().nth(random.index(self.model.len().max(1))).copied()
    }

    /// A deadline: mostly ahead, sometimes that of another entry, sometimes past, sometimes the last possible.
    fn deadline(&self, random: &mut Random) -> Tick {
        let elapsed = self.wheel.elapsed();
        match random.below(20) {
            0..=3 => elapsed + Ticks::from(random.below(130)),
            4..=7 => self.at_a_boundary(random),
            8..=11 => elapsed + Ticks::from(random.up_to_bits(self.reach)),
            12..=14 => self.any(random).map_or(elapsed, |entry| entry.deadline),
            15 | 16 => {
                self.any(random).map_or(elapsed, |entry| Tick::from(u64::from(entry.deadline) ^ random.up_to_bits(7)))
            }
            17 => before(elapsed, random.up_to_bits(self.reach)),
            18 => Tick::from(u64::MAX - random.below(3)),
            _ => Tick::from(random.up_to_bits(64)),
        }
    }

    /// The first tick of a slot, or the tick before or after that.
    fn at_a_boundary(&self, random: &mut Random) -> Tick {
        let below = 6 * random.below(1 + self.reach / 6);
        let slot = u128::from(u64::from(self.wheel.elapsed()) >> below) + random.pick(&[1, 2, 63, 64, 65]);
        let start = u64::try_from(slot << below).unwrap_or(u64::MAX);
        Tick::from((start - 1).saturating_add(random.below(3)))
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

    /// A time to pass to the wheel: a little or much later, near the next expiration, or earlier.
    fn time(&self, random: &mut Random) -> Tick {
        let elapsed = self.wheel.elapsed();
        let next = self.wheel.next_expiration().unwrap_or(elapsed);
        let limit = elapsed + Ticks::from(1 << self.reach);
        match random.below(32) {
            0..=5 => elapsed + Ticks::from(random.below(70)),
            6..=9 => next.min(limit),
            10 | 11 => before(next, 1).min(limit),
            12 | 13 => (next + Ticks::from(1)).min(limit),
            14..=17 => self.at_a_boundary(random),
            18..=21 => self.any(random).map_or(elapsed, |entry| entry.deadline.min(limit)),
            22..=27 => elapsed + Ticks::from(random.up_to_bits(self.reach)),
            28 if self.limit < 10 => next,
            28 | 29 => before(elapsed, 1),
            30 => before(elapsed, random.up_to_bits(64)),
            _ => before(elapsed, 38_000_000_000),
        }
    }
}
