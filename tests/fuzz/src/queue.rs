//! `DelayQueue` on a manual clock, against a sorted map: what comes out, when, in which order, and that whoever polled
//! last is woken whenever what it was told has changed, and nobody else.
//!
//! Must not know: the queue's inside.

use std::collections::BTreeMap;
use std::task::{Context, Poll};

use hairspring::delay_queue::{Expired, Key};
use hairspring::test_util::ManualClock;
use hairspring::{DelayQueue, Duration, Instant, Timer};

use crate::clock::{Poller, clock_at, far_start};
use crate::random::Random;
use crate::run;
use crate::target::Target;

/// Longer than any queue waits for: the bound of what a duration is taken for.
const LONGEST: Duration = Duration::from_secs(500 * 365 * 86_400);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Insert(Duration),
    /// At an instant so many nanoseconds after that of the start, or before it.
    InsertAt(i64),
    Remove(u32),
    Reset(u32, Duration),
    ResetAt(u32, i64),
    Stale(u32),
    ResetStale(u32),
    Clear,
    Drain,
    Compact,
    Shrink,
    Reserve(u32),
    Peek,
    /// By one of two pollers.
    Poll(usize),
    PollAll(usize),
    Advance(u64),
    AdvanceToNext,
}

/// The order of entries: by deadline, then by when they were last inserted or reset. What was past by then comes at the
/// next chance, among others in any order.
type Rank = (bool, Instant, u64);

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u64,
    key: Key,
    rank: Rank,
}

impl Entry {
    fn was_past(&self) -> bool {
        !self.rank.0
    }

    fn deadline(&self) -> Instant {
        self.rank.1
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Waits,
    Some,
    None,
}

pub(crate) struct Pair {
    clock: ManualClock,
    start: Instant,
    queue: DelayQueue<u64>,
    entries: Vec<Entry>,
    order: BTreeMap<Rank, usize>,
    gone: Vec<Key>,
    armed: u64,
    pollers: [Poller; 2],
    /// What the last poll answered, whose it was, and how often that one had been woken by then.
    last: Option<(Answer, usize, usize)>,
    /// How often the one that did not poll last has been woken.
    other: usize,
    limit: usize,
    reach: u64,
    described: String,
}

impl Target for Pair {
    const NAME: &'static str = "queue";
    type Op = Op;

    fn new(random: &mut Random) -> Pair {
        let start = far_start(random);
        let (clock, _) = clock_at(start);
        let timer = Timer::builder().clock(&clock).build().expect("good settings");
        let limit = random.pick(&[1, 3, 20, 20, 200]);
        let reach = random.pick(&[3, 7, 14, 22, 40, 55]);
        Pair {
            start: clock.now(),
            clock,
            queue: DelayQueue::with_timer(&timer),
            entries: Vec::new(),
            order: BTreeMap::new(),
            gone: Vec::new(),
            armed: 0,
            pollers: [Poller::new(), Poller::new()],
            last: None,
            other: 0,
            limit,
            reach,
            described: format!("at most {limit} entries, starting at tick {start}, distances of {reach} bits"),
        }
    }

    fn describe(&self) -> String {
        self.described.clone()
    }

    fn length(&self, random: &mut Random) -> usize {
        random.pick(&[50, 400, 2_000])
    }

    fn generate(&mut self, random: &mut Random) -> Op {
        let any = random.which();
        let has_room = self.entries.len() < self.limit;
        match random.below(64) {
            0..=9 if has_room => Op::Insert(self.duration(random)),
            10..=19 if has_room => Op::InsertAt(self.instant(random)),
            0..=23 if !self.entries.is_empty() => Op::Remove(any),
            24..=27 if !self.entries.is_empty() => Op::Reset(any, self.duration(random)),
            28..=33 if !self.entries.is_empty() => Op::ResetAt(any, self.instant(random)),
            34 | 35 if !self.gone.is_empty() => {
                if random.one_in(20) {
                    Op::ResetStale(any)
                } else {
                    Op::Stale(any)
                }
            }
            36 => match random.below(16) {
                0 => Op::Clear,
                1 => Op::Drain,
                2..=4 => Op::Compact,
                5..=7 => Op::Shrink,
                _ => Op::Reserve(any % 500),
            },
            37 => Op::Peek,
            38..=49 => Op::Poll(random.index(2)),
            50 | 51 => Op::PollAll(random.index(2)),
            52..=54 => Op::AdvanceToNext,
            55 => Op::Advance(1),
            _ => Op::Advance(random.up_to_bits(self.reach)),
        }
    }

    fn apply(&mut self, op: &Op) {
        let now = self.clock.now();
        match *op {
            Op::Insert(after) => {
                let key = self.queue.insert(self.armed, after);
                self.inserted(key, now + after.min(LONGEST), now);
            }
            Op::InsertAt(nanos) => {
                let deadline = self.instant_of(nanos);
                let key = self.queue.insert_at(self.armed, deadline);
                self.inserted(key, deadline, now);
            }
            Op::Remove(any) => {
                if let Some(at) = self.at(any) {
                    let entry = self.entries[at];
                    let removed = self.queue.remove(&entry.key);
                    assert_eq!((*removed.get_ref(), removed.key()), (entry.id, entry.key));
                    self.order.remove(&entry.rank);
                    self.forget(at);
                }
            }
            Op::Reset(any, after) => {
                if let Some(at) = self.at(any) {
                    self.queue.reset(&self.entries[at].key, after);
                    self.reset(at, now + after.min(LONGEST), now);
                }
            }
            Op::ResetAt(any, nanos) => {
                if let Some(at) = self.at(any) {
                    let deadline = self.instant_of(nanos);
                    self.queue.reset_at(&self.entries[at].key, deadline);
                    self.reset(at, deadline, now);
                }
            }
            Op::Stale(_) | Op::ResetStale(_) if self.gone.is_empty() => {}
            Op::Stale(any) => {
                let key = self.gone[any as usize % self.gone.len()];
                assert!(self.queue.try_remove(&key).is_none(), "a stale key was accepted");
                assert!(!self.queue.try_reset(&key, Duration::ZERO), "a stale key was accepted");
            }
            Op::ResetStale(any) => {
                let key = self.gone[any as usize % self.gone.len()];
                let said = run::caught(|| self.queue.reset(&key, Duration::ZERO));
                assert!(said.is_err_and(|said| said.contains("invalid key")), "a stale key was accepted");
            }
            Op::Clear => {
                self.queue.clear();
                self.gone.extend(self.entries.drain(..).map(|entry| entry.key));
                self.order.clear();
            }
            Op::Drain => self.drain(now),
            Op::Compact => self.queue.compact(),
            Op::Shrink => self.queue.shrink_to_fit(),
            Op::Reserve(room) => {
                self.queue.reserve(room as usize);
                assert!(self.queue.capacity() >= self.entries.len() + room as usize, "room was reserved");
            }
            Op::Peek => {
                let peeked = self.queue.peek();
                let is_first = |first: &Entry| first.was_past() || peeked == Some(first.key);
                assert!(self.first().is_none_or(|first| is_first(&first)), "the first is the one to come next");
            }
            Op::Poll(poller) => {
                self.poll(poller, now);
            }
            Op::PollAll(poller) => while self.poll(poller, now) == Answer::Some {},
            Op::Advance(nanos) => self.clock.advance(Duration::from_nanos(nanos)),
            Op::AdvanceToNext => self.advance_to_next(now),
        }
        self.compare();
        if self.gone.len() > 64 {
            self.gone.drain(..32);
        }
    }

    fn finish(&mut self) {
        let now = self.clock.now();
        for entry in &self.entries {
            Self::check_deadline(entry, self.queue.deadline(&entry.key), now);
        }
        self.drain(now);
        assert_eq!(self.poll(0, now), Answer::None);
        assert_eq!(self.clock.pending(), 0, "nothing of an empty queue that was polled stays with its timer");
    }
}

impl Pair {
    fn instant_of(&self, nanos: i64) -> Instant {
        let distance = Duration::from_nanos(nanos.unsigned_abs());
        if nanos < 0 { self.start - distance } else { self.start + distance }
    }

    fn at(&self, any: u32) -> Option<usize> {
        (!self.entries.is_empty()).then(|| any as usize % self.entries.len())
    }

    fn rank(&mut self, deadline: Instant, now: Instant) -> Rank {
        self.armed += 1;
        (deadline >= now, deadline, self.armed)
    }

    /// What is past comes first here, as it ranks with `false`.
    fn first(&self) -> Option<Entry> {
        self.order.first_key_value().map(|(_, &at)| self.entries[at])
    }

    fn answer(&self, now: Instant) -> Answer {
        match self.first() {
            None => Answer::None,
            Some(first) if first.deadline() <= now => Answer::Some,
            Some(_) => Answer::Waits,
        }
    }

    fn inserted(&mut self, key: Key, deadline: Instant, now: Instant) {
        let id = self.armed;
        let rank = self.rank(deadline, now);
        let entry = Entry { id, key, rank };
        Self::check_deadline(&entry, self.queue.deadline(&key), now);
        self.order.insert(rank, self.entries.len());
        self.entries.push(entry);
    }

    fn reset(&mut self, at: usize, deadline: Instant, now: Instant) {
        self.order.remove(&self.entries[at].rank);
        let rank = self.rank(deadline, now);
        self.order.insert(rank, at);
        self.entries[at].rank = rank;
        Self::check_deadline(&self.entries[at], self.queue.deadline(&self.entries[at].key), now);
    }

    fn check_deadline(entry: &Entry, told: Instant, now: Instant) {
        let asked = entry.deadline();
        let is_later = entry.was_past() && asked < told && told <= now;
        assert!(told == asked || is_later, "{told:?}, but {asked:?} was asked for");
    }

    /// An entry is gone from the queue and from `order`.
    fn forget(&mut self, at: usize) {
        let gone = self.entries.swap_remove(at);
        if let Some(moved) = self.entries.get(at) {
            *self.order.get_mut(&moved.rank).expect("it is in the order") = at;
        }
        self.gone.push(gone.key);
    }

    /// An entry that came out has to be the first of those whose order is known.
    fn take(&mut self, out: &Expired<u64>, now: Instant) {
        let first = self.order.first_key_value().map(|(_, &at)| at).filter(|&at| self.entries[at].key == out.key());
        let at = first.or_else(|| self.entries.iter().position(|entry| entry.key == out.key()));
        let at = at.expect("it is in there, and once only");
        let entry = self.entries[at];
        assert_eq!(*out.get_ref(), entry.id);
        Self::check_deadline(&entry, out.deadline(), now);
        let known = self.order.range((true, self.clock.now() - LONGEST, 0)..).next();
        assert!(entry.was_past() || known.is_some_and(|(_, &known)| known == at), "out of order: {entry:?}");
        self.order.remove(&entry.rank);
        self.forget(at);
    }

    fn drain(&mut self, now: Instant) {
        let drained: Vec<_> = self.queue.drain().collect();
        assert_eq!(drained.len(), self.entries.len());
        for entry in &drained {
            self.take(entry, now);
        }
    }

    fn poll(&mut self, poller: usize, now: Instant) -> Answer {
        let expected = self.answer(now);
        let before = self.pollers[poller].woken();
        let answer = match self.queue.poll_expired(&mut Context::from_waker(&self.pollers[poller].waker)) {
            Poll::Pending => Answer::Waits,
            Poll::Ready(None) => Answer::None,
            Poll::Ready(Some(expired)) => {
                assert!(expired.deadline() <= now, "early");
                self.take(&expired, now);
                Answer::Some
            }
        };
        assert_eq!(answer, expected, "what a poll answers");
        self.last = Some((answer, poller, before));
        self.other = self.pollers[1 - poller].woken();
        answer
    }

    fn advance_to_next(&mut self, now: Instant) {
        let was_told = self
            .last
            .is_some_and(|(told, poller, wakes)| told == Answer::Waits && self.pollers[poller].woken() == wakes);
        let deadline = self.first().map(|first| first.deadline());
        // The clock goes no further than its last tick, and the rounds end long before.
        if deadline.is_some_and(|deadline| deadline > now + Duration::from_nanos(1 << self.reach)) {
            return;
        }
        let reached = self.clock.advance_to_next();
        if was_told {
            assert!(reached.is_some() && reached <= deadline.max(Some(now)), "whoever waits is woken in time");
        }
    }

    /// What can be seen of the queue at any moment.
    fn compare(&self) {
        let (count, now) = (self.entries.len(), self.clock.now());
        assert_eq!((self.queue.len(), self.queue.is_empty()), (count, count == 0));
        assert!(self.queue.capacity() >= count);
        if let Some((told, poller, wakes)) = self.last {
            let is_news = told != Answer::Some && told != self.answer(now);
            let woken = self.pollers[poller].woken();
            assert!(!is_news || woken > wakes, "told {told:?}, is {:?}, and nobody was woken", self.answer(now));
            // Who was handed an entry polls again, and who waited before may be woken meanwhile.
            let other = self.pollers[1 - poller].woken();
            assert!(told == Answer::Some || other == self.other, "only the last waker given is woken");
        }
    }

    fn duration(&self, random: &mut Random) -> Duration {
        match random.below(20) {
            0..=2 => Duration::ZERO,
            3 => Duration::from_nanos(1 << 58),
            _ => Duration::from_nanos(random.up_to_bits(self.reach)),
        }
    }

    fn instant(&self, random: &mut Random) -> i64 {
        let now = self.clock.now() - self.start;
        let now = i64::try_from(now.as_nanos()).expect("less than 292 years have passed");
        let distance = i64::try_from(random.up_to_bits(self.reach)).expect("fewer than 63 bits");
        match random.below(16) {
            0 => now,
            1 => now - distance,
            2 => now - (1 << 58),
            3..=6 if !self.entries.is_empty() => {
                let other = self.entries[random.index(self.entries.len())].deadline();
                i64::try_from((other - self.start).as_nanos()).unwrap_or(now)
            }
            7 | 8 => ((now >> 6) + random.pick(&[1, 2, 64])) << 6,
            _ => now + distance,
        }
    }
}
