//! `DeadlineMap` on a manual clock against a plain map: which entries are found, which expire, in which order, and
//! whether the consumer is woken in time. There may be one handle, several or none, and no consumer.
//!
//! The map hashes with a random seed, so entries that are due at the same tick come in a different order in each run.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::Stream;
use hairspring::test_util::ManualClock;
use hairspring::{DeadlineMap, Duration, Expirations, Instant};

use super::clock::{Far, in_time};
use super::run::{Round, Target};
use crate::common::{Random, Wakes, panicked_with};

/// The most expired entries that an insert drops if there is no consumer.
const DROPPED: usize = 2;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Insert(usize, Duration),
    InsertAt(usize, Duration),
    InsertIfAbsent(usize, Duration),
    GetOrInsert(usize, Duration),
    Touch(usize, Duration),
    TouchAt(usize, Duration),
    Renew(usize),
    Remove(usize),
    /// Removes an entry if its value is even.
    RemoveIf(usize),
    /// Reads one entry in every way.
    Read(usize),
    /// Reads all entries, then removes those whose key is a multiple of a number.
    Retain(usize),
    Clear,
    /// Replaces the handle in use by a clone, and keeps or drops it.
    Handle(bool),
    DropHandles,
    DropConsumer,
    Poll,
    PollAll,
    Advance(u64),
    AdvanceToNext,
}

/// What an insert that panics on a full map returns otherwise.
fn unless_full<R>(insert: impl FnOnce() -> R) -> Option<R> {
    panicked_with(insert).inspect_err(|message| assert!(message.contains("full"), "{message}")).ok()
}

#[derive(Debug, Clone, Copy)]
struct Life {
    value: u64,
    deadline: Instant,
    /// How long it lives after it is renewed.
    own: Duration,
    /// The latest deadline that a touch can set.
    end: Option<Instant>,
}

pub(crate) struct Pair {
    far: Far,
    clock: ManualClock,
    handles: Vec<DeadlineMap<usize, u64>>,
    expirations: Option<Expirations<usize, u64>>,
    model: BTreeMap<usize, Life>,
    /// Expired entries whose keys were inserted again. Without a consumer, all expired entries, because nobody can tell
    /// which of them were dropped.
    displaced: VecDeque<(usize, u64)>,
    /// How many entries were inserted, have expired, and were refused.
    counts: [u64; 3],
    values: u64,
    poller: (Arc<Wakes>, Waker),
    /// How often the consumer had been woken when its last poll was pending.
    waits: Option<usize>,
    keys: usize,
    reach: u64,
    max_lifetime: Option<Duration>,
    max_entries: Option<usize>,
    /// Whether the handles or the consumer may be dropped in this round.
    loses: bool,
    /// Whether time rarely passes, which lets many entries accumulate.
    grows: bool,
}

impl Target for Pair {
    type Op = Op;

    fn new(random: &mut Random) -> Round<Pair> {
        let far = Far::new(random);
        let (tick, resolution) = (far.start, far.resolution);
        let shards = random.pick(&[1, 1, 2, 8, 64]);
        let keys = random.pick(&[1, 3, 20, 40, 300]);
        let reach = random.pick(&[3, 8, 14, 32, 45, 55]);
        let max_lifetime = random.one_in(2).then(|| Duration::from_nanos(random.up_to_bits(reach + 1).max(1)));
        let loses = random.one_in(4);
        let max_entries = (!loses && random.one_in(3)).then(|| 1 + random.index(keys));
        let mut builder = DeadlineMap::builder().shards(shards).timer(&far.timer);
        if let Some(lifetime) = max_lifetime {
            builder = builder.max_lifetime(lifetime);
        }
        if let Some(max_entries) = max_entries {
            builder = builder.max_entries(max_entries);
        }
        let (map, expirations) = builder.build().expect("good settings");
        let target = Pair {
            clock: far.clock.clone(),
            far,
            handles: vec![map],
            expirations: Some(expirations),
            model: BTreeMap::new(),
            displaced: VecDeque::new(),
            counts: [0; 3],
            values: 0,
            poller: Wakes::new(),
            waits: None,
            keys,
            reach,
            max_lifetime,
            max_entries,
            loses,
            grows: random.one_in(2),
        };
        let set_up = format!(
            "{keys} keys, {shards} shards, max_entries {max_entries:?}, lives of {max_lifetime:?}, tick {tick}, a \
             resolution of {resolution}, distances of {reach} bits"
        );
        Round { target, length: random.pick(&[100, 1_000, 4_000]), set_up }
    }

    fn generate(&mut self, random: &mut Random) -> Op {
        let key = random.index(self.keys);
        let passes = !self.grows || random.one_in(10);
        match random.below(if passes { 64 } else { 40 }) {
            0..=5 => Op::Insert(key, self.duration(random)),
            6 | 7 => Op::InsertIfAbsent(key, self.duration(random)),
            8 | 9 => Op::GetOrInsert(key, self.duration(random)),
            10..=13 => Op::InsertAt(key, self.duration(random)),
            14..=21 => Op::Touch(key, self.duration(random)),
            22..=25 => Op::TouchAt(key, self.duration(random)),
            26..=29 => Op::Renew(key),
            30..=33 => Op::Remove(key),
            34 | 35 => Op::RemoveIf(key),
            36..=38 => Op::Read(key),
            39 if self.loses && random.one_in(20) => Op::DropHandles,
            39 if self.loses && random.one_in(20) => Op::DropConsumer,
            39 => match random.below(32) {
                0 => Op::Clear,
                1 => Op::Retain(1 + random.index(7)),
                2 => Op::Retain(1_000),
                _ => Op::Handle(random.one_in(2)),
            },
            40..=49 => Op::Poll,
            50 | 51 => Op::PollAll,
            52..=55 => Op::AdvanceToNext,
            56 => Op::Advance(1),
            _ => Op::Advance(random.up_to_bits(self.reach)),
        }
    }

    fn apply(&mut self, op: &Op) {
        let now = self.clock.now();
        match *op {
            Op::Insert(key, after) => {
                self.insert(key, after, true, |map, value| map.try_insert(key, value, after).ok());
            }
            Op::InsertAt(key, after) => {
                self.insert(key, after, true, |map, value| unless_full(|| map.insert_at(key, value, now + after)));
            }
            Op::InsertIfAbsent(key, after) => {
                self.insert(key, after, false, |map, value| match map.try_insert_if_absent(key, value, after) {
                    Err(full) if full.is_full() => None,
                    inserted => Some(inserted.err().map(|present| present.into_inner().1)),
                });
            }
            Op::GetOrInsert(key, after) => {
                let alive = self.alive(key).map(|life| life.value);
                self.insert(key, after, false, |map, value| {
                    let seen = unless_full(|| map.get_or_insert_with(&key, after, || value))?;
                    assert_eq!(seen, alive.unwrap_or(value), "the value that is returned");
                    Some((seen != value).then_some(value))
                });
            }
            Op::Touch(key, after) => self.touch(key, after, |map| map.touch(&key, after)),
            Op::TouchAt(key, after) => self.touch(key, after, |map| map.touch_at(&key, now + after)),
            Op::Renew(key) => {
                let own = self.model.get(&key).map_or(Duration::ZERO, |life| life.own);
                self.touch(key, own, |map| map.renew_with(&key, |value| *value).is_some());
            }
            Op::Remove(key) => self.remove(key, |_| true, |map| map.remove(&key)),
            Op::RemoveIf(key) => {
                let is_even = |value: &u64| value & 1 == 0;
                self.remove(key, is_even, |map| map.remove_if(&key, is_even));
            }
            Op::Read(key) => self.read(key),
            Op::Retain(multiple) => self.retain(multiple),
            Op::Clear => {
                let Some(map) = self.handles.first() else { return };
                map.clear();
                self.model.clear();
                self.displaced.clear();
            }
            Op::Handle(keep) => {
                let Some(map) = self.handles.first().cloned() else { return };
                let before = std::mem::replace(&mut self.handles[0], map);
                if keep && self.handles.len() < 4 {
                    self.handles.push(before);
                }
            }
            Op::DropHandles => self.handles.clear(),
            Op::DropConsumer => (self.expirations, self.waits) = (None, None),
            Op::Poll => _ = self.poll(),
            Op::PollAll => while self.poll() {},
            Op::Advance(nanos) => self.clock.advance(Duration::from_nanos(nanos)),
            Op::AdvanceToNext => self.advance_to_next(),
        }
        self.compare();
    }

    fn finish(&mut self) {
        (0..self.keys).for_each(|key| self.read(key));
        self.handles.clear();
        self.compare();
        while self.expirations.is_some() && self.len() > 0 {
            while self.poll() {}
            if let Some(first) = self.first() {
                let reached = self.clock.advance_to_next();
                let in_time = reached.is_some_and(|reached| reached <= self.far.wakes_at(first));
                assert!(in_time, "the consumer waits for the earliest entry");
            }
        }
        assert!(!self.poll(), "the stream has ended");
        self.expirations = None;
        assert_eq!(self.clock.pending(), 0, "a dropped consumer keeps no timer");
    }
}

impl Pair {
    fn insert(
        &mut self,
        key: usize,
        after: Duration,
        replaces: bool,
        insert: impl Fn(&DeadlineMap<usize, u64>, u64) -> Option<Option<u64>>,
    ) {
        let Some(map) = self.handles.first() else { return };
        let (now, alive) = (self.clock.now(), self.alive(key));
        let is_full = alive.is_none() && Some(self.len()) == self.max_entries;
        self.values += 1;
        let (inserted, len) = (insert(map, self.values), map.len());
        let unused = alive.map(|life| if replaces { life.value } else { self.values });
        assert_eq!(inserted, (!is_full).then_some(unused), "inserted");
        if is_full {
            self.counts[2] += 1;
            return;
        }
        let end = self.max_lifetime.map(|lifetime| now + lifetime);
        let deadline = (now + after).min(end.unwrap_or(now + after));
        let new = Life { value: self.values, deadline, own: after, end };
        let before = self.model.insert(key, alive.filter(|_| !replaces).unwrap_or(new));
        if alive.is_none() {
            self.counts[0] += 1;
            self.displaced.extend(before.map(|life| (key, life.value)));
        }
        if self.expirations.is_none() {
            let expired: Vec<_> =
                self.model.iter().filter(|(_, life)| life.deadline <= now).map(|(&key, _)| key).collect();
            self.displaced.extend(expired.into_iter().filter_map(|key| Some((key, self.model.remove(&key)?.value))));
            let dropped = self.len() - len;
            assert!(dropped <= DROPPED.min(self.displaced.len()), "an insert drops {dropped} entries");
            self.displaced.truncate(self.displaced.len() - dropped);
            self.counts[1] += dropped as u64;
        }
    }

    fn remove(
        &mut self,
        key: usize,
        goes: impl Fn(&u64) -> bool,
        remove: impl Fn(&DeadlineMap<usize, u64>) -> Option<u64>,
    ) {
        let Some(map) = self.handles.first() else { return };
        let removed = self.alive(key).map(|life| life.value).filter(goes);
        assert_eq!(remove(map), removed, "removed");
        if removed.is_some() {
            self.model.remove(&key);
        }
    }

    fn touch(&mut self, key: usize, after: Duration, touch: impl Fn(&DeadlineMap<usize, u64>) -> bool) {
        let Some(map) = self.handles.first() else { return };
        let alive = self.alive(key);
        assert_eq!(touch(map), alive.is_some(), "touched");
        if let Some(life) = alive {
            let deadline = self.clock.now() + after;
            self.model.insert(key, Life { deadline: deadline.min(life.end.unwrap_or(deadline)), ..life });
        }
    }

    fn read(&self, key: usize) {
        let Some(map) = self.handles.first() else { return };
        let alive = self.alive(key);
        let value = alive.map(|life| life.value);
        let remaining = alive.map(|life| life.deadline - self.clock.now());
        assert_eq!(map.remaining(&key), remaining, "the time that remains");
        let values = [map.get(&key), map.get_with(&key, |value| *value), map.update(&key, |value| *value)];
        assert_eq!((values, map.contains_key(&key)), ([value; 3], value.is_some()), "the value");
    }

    fn retain(&mut self, multiple: usize) {
        let Some(map) = self.handles.first() else { return };
        let now = self.clock.now();
        let mut all = BTreeMap::new();
        map.for_each(|&key, &value, remaining| assert!(all.insert(key, (value, remaining)).is_none(), "seen twice"));
        let alive = self.model.iter().filter(|(_, life)| life.deadline > now);
        assert!(all.into_iter().eq(alive.map(|(&key, life)| (key, (life.value, life.deadline - now)))), "all entries");
        map.retain(|key, _| key % multiple > 0);
        self.model.retain(|key, life| key % multiple > 0 || life.deadline <= now);
    }

    /// An entry that has not expired.
    fn alive(&self, key: usize) -> Option<Life> {
        self.model.get(&key).copied().filter(|life| life.deadline > self.clock.now())
    }

    fn len(&self) -> usize {
        self.model.len() + self.displaced.len()
    }

    fn first(&self) -> Option<Instant> {
        self.model.values().map(|life| life.deadline).min()
    }

    fn is_due(&self) -> bool {
        !self.displaced.is_empty() || self.first().is_some_and(|first| first <= self.clock.now())
    }

    fn has_ended(&self) -> bool {
        self.handles.is_empty() && self.len() == 0
    }

    /// Whether it returned an entry.
    fn poll(&mut self) -> bool {
        let Some(expirations) = &mut self.expirations else { return false };
        let before = self.poller.0.count();
        let polled = Pin::new(expirations).poll_next(&mut Context::from_waker(&self.poller.1));
        self.waits = polled.is_pending().then_some(before);
        match polled {
            Poll::Pending => assert!(!self.is_due() && !self.has_ended(), "pending although an entry is due"),
            Poll::Ready(None) => assert!(self.has_ended(), "ended although more may come"),
            Poll::Ready(Some(entry)) if !self.displaced.is_empty() => {
                // Entries with the same key come in order.
                let of_key = self.displaced.iter().position(|&(key, _)| key == entry.0);
                let expected = of_key.and_then(|at| self.displaced.remove(at));
                assert_eq!(Some(entry), expected, "displaced entries come first");
            }
            Poll::Ready(Some((key, value))) => {
                let first = self.first();
                let life = self.model.remove(&key).expect("an entry came out twice");
                assert_eq!((value, Some(life.deadline)), (life.value, first), "the earliest comes first");
                assert!(life.deadline <= self.clock.now(), "early");
            }
        }
        self.counts[1] += u64::from(matches!(polled, Poll::Ready(Some(_))));
        matches!(polled, Poll::Ready(Some(_)))
    }

    fn advance_to_next(&mut self) {
        let asleep = self.waits.is_some_and(|wakes| self.poller.0.count() == wakes);
        let now = self.clock.now();
        // Nobody can tell when those were due.
        if self.far.resolution > 1 && !self.displaced.is_empty() {
            return;
        }
        let wakes_at = |first| self.far.wakes_at(first).max(now);
        let first = if self.displaced.is_empty() { self.first().map(wakes_at) } else { Some(now) };
        if first.is_some_and(|first| first > now + Duration::from_nanos(1 << self.reach)) {
            return;
        }
        let reached = self.clock.advance_to_next();
        let in_time = in_time(&self.far, now, reached, first, self.model.len(), asleep);
        assert!(in_time, "at {reached:?} instead of {first:?}");
    }

    fn compare(&self) {
        if let Some(map) = self.handles.first() {
            let (len, metrics) = (self.len(), map.metrics());
            assert_eq!((map.len(), map.is_empty(), metrics.pending()), (len, len == 0, len as u64), "the length");
            assert_eq!([metrics.inserted(), metrics.expired(), metrics.refused()], self.counts, "the counts");
        }
        let is_over = |first| self.far.wakes_at(first) <= self.clock.now();
        let is_due = if self.far.resolution > 1 { self.first().is_some_and(is_over) } else { self.is_due() };
        let would_answer = is_due || self.has_ended();
        if let Some(wakes) = self.waits.filter(|_| would_answer) {
            assert!(self.poller.0.count() > wakes, "the answer changed, and the consumer was not woken");
        }
    }

    fn duration(&self, random: &mut Random) -> Duration {
        match random.below(24) {
            0 => Duration::ZERO,
            1 if self.reach > 50 => Duration::from_nanos(1 << 58),
            2..=4 => {
                // Several entries are due at one tick.
                let other = self.model.range(random.index(self.keys)..).next();
                other.map_or(Duration::ZERO, |(_, life)| life.deadline - self.clock.now())
            }
            _ => Duration::from_nanos(random.up_to_bits(self.reach)),
        }
    }
}
