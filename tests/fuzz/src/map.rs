//! `DeadlineMap` on a manual clock, against a plain map: what is found, what expires, in which order, and that the
//! consumer is woken in time; with one handle and more, none, and no consumer any more.
//!
//! The map hashes with a seed of its own, so entries that are due at one tick come in an order of their own in each run.
//!
//! Must not know: the map's inside.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use hairspring::test_util::ManualClock;
use hairspring::{DeadlineMap, Duration, Expirations, Instant, Timer};

use crate::clock::{Poller, clock_at, far_start};
use crate::random::Random;
use crate::target::Target;

/// How long "for ever" is in a map.
const LONGEST: Duration = Duration::from_secs(500 * 365 * 86_400);

/// How many expired entries an insert may throw away if nobody takes them.
const THROWN_AWAY: usize = 2;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Insert(usize, Duration),
    Touch(usize, Duration),
    Remove(usize),
    Remaining(usize),
    Clear,
    /// Another handle takes the place of the one in use; the old one stays, or goes.
    Handle(bool),
    /// The last handle, after which there are none.
    DropHandles,
    DropConsumer,
    Poll,
    PollAll,
    Advance(u64),
    AdvanceToNext,
}

pub(crate) struct Pair {
    clock: ManualClock,
    handles: Vec<DeadlineMap<usize, u64>>,
    expirations: Option<Expirations<usize, u64>>,
    /// By key: the value and the deadline.
    entries: Vec<Option<(u64, Instant)>>,
    /// By key: when the life of the entry ends at the latest.
    ends: Vec<Instant>,
    max_lifetime: Option<Duration>,
    count: usize,
    order: BTreeSet<(Instant, usize)>,
    /// What had expired when its key was inserted anew. Without a consumer, all that has expired: some of it is thrown
    /// away, and nobody can tell which.
    displaced: VecDeque<(usize, u64)>,
    inserted: u64,
    poller: Poller,
    /// How often the consumer had been woken when it was told to wait.
    waits: Option<usize>,
    reach: u64,
    /// Whether all handles, or the consumer, may go in this round.
    loses: bool,
    described: String,
}

impl Target for Pair {
    const NAME: &'static str = "map";
    type Op = Op;

    fn new(random: &mut Random) -> Pair {
        let start = far_start(random);
        let (clock, _) = clock_at(start);
        let timer = Timer::builder().clock(&clock).build().expect("good settings");
        let shards = random.pick(&[1, 1, 8, 64]);
        let keys = random.pick(&[1, 3, 20, 20, 300]);
        let reach = random.pick(&[3, 8, 14, 32, 45, 55]);
        let max_lifetime = random.one_in(2).then(|| Duration::from_nanos(random.up_to_bits(reach + 1).max(1)));
        let mut builder = DeadlineMap::builder().shards(shards).timer(&timer);
        if let Some(lifetime) = max_lifetime {
            builder = builder.max_lifetime(lifetime);
        }
        let (map, expirations) = builder.build().expect("good settings");
        Pair {
            ends: vec![clock.now(); keys],
            max_lifetime,
            clock,
            handles: vec![map],
            expirations: Some(expirations),
            entries: vec![None; keys],
            count: 0,
            order: BTreeSet::new(),
            displaced: VecDeque::new(),
            inserted: 0,
            poller: Poller::new(),
            waits: None,
            reach,
            loses: random.one_in(4),
            described: format!(
                "{keys} keys in {shards} shards, starting at tick {start}, distances of {reach} bits, lives of {max_lifetime:?}"
            ),
        }
    }

    fn describe(&self) -> String {
        self.described.clone()
    }

    fn length(&self, random: &mut Random) -> usize {
        random.pick(&[100, 1_000, 4_000])
    }

    fn generate(&mut self, random: &mut Random) -> Op {
        let key = random.index(self.entries.len());
        match random.below(64) {
            0..=13 => Op::Insert(key, self.duration(random)),
            14..=29 => Op::Touch(key, self.duration(random)),
            30..=35 => Op::Remove(key),
            36..=38 => Op::Remaining(key),
            39 if self.loses && random.one_in(20) => Op::DropHandles,
            39 if self.loses && random.one_in(20) => Op::DropConsumer,
            39 => match random.below(4) {
                0 if random.one_in(8) => Op::Clear,
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
            Op::Insert(key, after) => self.insert(key, after),
            Op::Touch(key, after) => {
                let Some(map) = self.handles.first() else { return };
                let alive = self.alive(key);
                assert_eq!(map.touch(&key, after), alive.is_some(), "what is there can be touched");
                if let Some((value, deadline)) = alive {
                    self.order.remove(&(deadline, key));
                    let deadline = now + after.min(LONGEST);
                    let end = self.max_lifetime.map_or(deadline, |_| self.ends[key]);
                    self.put(key, value, deadline.min(end));
                }
            }
            Op::Remove(key) => {
                let Some(map) = self.handles.first() else { return };
                let removed = map.remove(&key);
                assert_eq!(removed, self.alive(key).map(|(value, _)| value));
                if removed.is_some() {
                    self.forget(key);
                }
            }
            Op::Remaining(key) => self.compare_one(key),
            Op::Clear => {
                if let Some(map) = self.handles.first() {
                    map.clear();
                    self.entries.fill(None);
                    self.order.clear();
                    self.displaced.clear();
                    self.count = 0;
                }
            }
            Op::Handle(keep) => {
                if let Some(map) = self.handles.first().cloned() {
                    let before = std::mem::replace(&mut self.handles[0], map);
                    if keep && self.handles.len() < 4 {
                        self.handles.push(before);
                    }
                }
            }
            Op::DropHandles => self.handles.clear(),
            Op::DropConsumer => {
                self.expirations = None;
                self.waits = None;
            }
            Op::Poll => {
                self.poll();
            }
            Op::PollAll => while self.poll() {},
            Op::Advance(nanos) => self.clock.advance(Duration::from_nanos(nanos)),
            Op::AdvanceToNext => self.advance_to_next(now),
        }
        self.compare();
    }

    fn finish(&mut self) {
        for key in 0..self.entries.len() {
            self.compare_one(key);
        }
        self.handles.clear();
        self.compare();
        if self.expirations.is_none() {
            assert_eq!(self.clock.pending(), 0, "a consumer that has gone leaves nothing with its timer");
            return;
        }
        while self.len() > 0 {
            while self.poll() {}
            let first = self.first();
            if first.is_some() {
                let reached = self.clock.advance_to_next();
                assert!(reached.is_some() && reached <= first, "it waits for what is left");
            }
        }
        assert!(!self.poll());
        self.expirations = None;
        assert_eq!(self.clock.pending(), 0, "a consumer that has gone leaves nothing with its timer");
    }
}

impl Pair {
    fn insert(&mut self, key: usize, after: Duration) {
        let Some(map) = self.handles.first() else { return };
        let now = self.clock.now();
        self.inserted += 1;
        let replaced = map.insert(key, self.inserted, after);
        let len = map.len();
        let alive = self.alive(key).map(|(value, _)| value);
        assert_eq!(replaced, alive, "what was there before");
        if alive.is_none() {
            self.displace(key);
        }
        self.forget(key);
        let deadline = now + after.min(LONGEST);
        self.ends[key] = self.max_lifetime.map_or(deadline, |lifetime| now + lifetime);
        self.put(key, self.inserted, deadline.min(self.ends[key]));
        self.count += 1;
        if self.expirations.is_some() {
            return;
        }
        // Some of what has expired is thrown away: no more than two, and nothing else.
        let expired: Vec<_> = self.order.iter().take_while(|&&(deadline, _)| deadline <= now).copied().collect();
        for (_, key) in expired {
            self.displace(key);
            self.forget(key);
        }
        let thrown_away = self.len() - len;
        assert!(thrown_away <= THROWN_AWAY.min(self.displaced.len()), "an insert throws {thrown_away} entries away");
        self.displaced.truncate(self.displaced.len() - thrown_away);
    }

    /// The value and the deadline of an entry that has not expired.
    fn alive(&self, key: usize) -> Option<(u64, Instant)> {
        self.entries[key].filter(|&(_, deadline)| deadline > self.clock.now())
    }

    fn displace(&mut self, key: usize) {
        self.displaced.extend(self.entries[key].map(|(value, _)| (key, value)));
    }

    fn len(&self) -> usize {
        self.count + self.displaced.len()
    }

    fn put(&mut self, key: usize, value: u64, deadline: Instant) {
        self.entries[key] = Some((value, deadline));
        self.order.insert((deadline, key));
    }

    fn forget(&mut self, key: usize) {
        if let Some((_, deadline)) = self.entries[key].take() {
            self.order.remove(&(deadline, key));
            self.count -= 1;
        }
    }

    fn first(&self) -> Option<Instant> {
        self.order.first().map(|&(deadline, _)| deadline)
    }

    fn is_due(&self) -> bool {
        !self.displaced.is_empty() || self.first().is_some_and(|first| first <= self.clock.now())
    }

    fn has_ended(&self) -> bool {
        self.handles.is_empty() && self.len() == 0
    }

    /// Whether it was handed something.
    fn poll(&mut self) -> bool {
        let Some(expirations) = &mut self.expirations else { return false };
        let (before, now) = (self.poller.woken(), self.clock.now());
        let polled = Pin::new(expirations).poll_next(&mut Context::from_waker(&self.poller.waker));
        self.waits = None;
        match polled {
            Poll::Ready(Some((key, value))) if !self.displaced.is_empty() => {
                // In their order if they are in one shard, as those of one key are.
                let of_key = self.displaced.iter().position(|&(other, _)| other == key);
                let expected = of_key.and_then(|at| self.displaced.remove(at));
                assert_eq!(Some((key, value)), expected, "what was displaced comes first");
                true
            }
            Poll::Ready(Some((key, value))) => {
                let (expected, deadline) = self.entries[key].expect("each entry comes once");
                assert_eq!(value, expected);
                assert!(deadline <= now, "early");
                assert_eq!(self.first(), Some(deadline), "the earliest comes first");
                self.forget(key);
                true
            }
            Poll::Ready(None) => {
                assert!(self.has_ended(), "it ends though there is more");
                false
            }
            Poll::Pending => {
                assert!(!self.is_due() && !self.has_ended(), "it waits though there is something");
                self.waits = Some(before);
                false
            }
        }
    }

    fn advance_to_next(&mut self, now: Instant) {
        let asleep = self.waits.is_some_and(|wakes| self.poller.woken() == wakes);
        let first = self.first();
        if first.is_some_and(|first| first > now + Duration::from_nanos(1 << self.reach)) {
            return;
        }
        let reached = self.clock.advance_to_next();
        if asleep && first.is_some() {
            assert!(reached.is_some() && reached <= first, "whoever waits is woken in time");
        }
    }

    fn compare_one(&self, key: usize) {
        if let Some(map) = self.handles.first() {
            let remaining = self.alive(key).map(|(_, deadline)| deadline - self.clock.now());
            assert_eq!(map.remaining(&key), remaining, "how long is left");
        }
    }

    fn compare(&self) {
        if let Some(map) = self.handles.first() {
            assert_eq!((map.len(), map.is_empty()), (self.len(), self.len() == 0));
        }
        let would_answer = self.is_due() || self.has_ended();
        if let Some(wakes) = self.waits.filter(|_| would_answer) {
            assert!(self.poller.woken() > wakes, "the answer has changed and nobody was told");
        }
    }

    fn duration(&self, random: &mut Random) -> Duration {
        match random.below(24) {
            0 => Duration::ZERO,
            1 if self.reach > 50 => Duration::from_nanos(1 << 58),
            2..=4 if self.count > 0 => {
                // That of another, so that several are due at one tick.
                let from = random.index(self.entries.len());
                let other = self.entries[from..].iter().flatten().next();
                other.map_or(Duration::ZERO, |&(_, deadline)| deadline - self.clock.now())
            }
            _ => Duration::from_nanos(random.up_to_bits(self.reach)),
        }
    }
}
