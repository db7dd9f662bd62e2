//! `DelayQueue` on a manual clock against a sorted map: which entries come out, when and in which order. Each change to
//! the answer of a poll must wake the last poller, and no other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hairspring::delay_queue::{Expired, Key};
use hairspring::test_util::ManualClock;
use hairspring::{DelayQueue, Duration, Instant};

use super::clock::{Far, in_time};
use super::run::{Round, Target, pick};
use crate::common::{Random, Wakes};

#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    In(Duration),
    /// An instant this many nanoseconds after the start, or before it.
    At(i64),
}

/// A `u32` picks an entry or a stale key, and a `usize` one of two pollers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Insert(When),
    Remove(u32),
    Reset(u32, When),
    Clear,
    Drain,
    Compact,
    Shrink,
    Reserve(usize),
    Poll(usize),
    PollAll(usize),
    Advance(u64),
    AdvanceToNext,
}

/// An entry's position in the order: by deadline, then by when it was last inserted or reset. The `bool` is `false` for
/// an entry whose deadline had passed by then: it comes out at the next opportunity, in no particular order.
type Rank = (bool, Instant, u64);

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u64,
    key: Key,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Waits,
    Some,
    None,
}

pub(crate) struct Pair {
    far: Far,
    clock: ManualClock,
    start: Instant,
    queue: DelayQueue<u64>,
    model: BTreeMap<Rank, Entry>,
    stale: Vec<Key>,
    /// The number of inserts and resets.
    armed: u64,
    pollers: [(Arc<Wakes>, Waker); 2],
    /// The answer of the last poll, which poller made it, and how often each had been woken by then.
    last: Option<(Answer, usize, [usize; 2])>,
    limit: usize,
    reach: u64,
}

impl Target for Pair {
    type Op = Op;

    fn new(random: &mut Random) -> Round<Pair> {
        let far = Far::new(random);
        let (tick, resolution) = (far.start, far.resolution);
        let limit = random.pick(&[1, 3, 20, 20, 200]);
        let reach = random.pick(&[3, 7, 14, 22, 40, 55]);
        let target = Pair {
            start: far.clock.now(),
            clock: far.clock.clone(),
            queue: DelayQueue::with_timer(&far.timer),
            far,
            model: BTreeMap::new(),
            stale: Vec::new(),
            armed: 0,
            pollers: [Wakes::new(), Wakes::new()],
            last: None,
            limit,
            reach,
        };
        let set_up =
            format!("at most {limit} entries, tick {tick}, a resolution of {resolution}, distances of {reach} bits");
        Round { target, length: random.pick(&[50, 400, 2_000]), set_up }
    }

    fn generate(&mut self, random: &mut Random) -> Op {
        let any = random.any();
        match random.below(64) {
            0..=19 if self.model.len() < self.limit => Op::Insert(self.when(random)),
            0..=23 => Op::Remove(any),
            24..=35 => Op::Reset(any, self.when(random)),
            36 => match random.below(16) {
                0 => Op::Clear,
                1 => Op::Drain,
                2..=4 => Op::Compact,
                5..=7 => Op::Shrink,
                _ => Op::Reserve(random.index(500)),
            },
            37..=49 => Op::Poll(random.index(2)),
            50 | 51 => Op::PollAll(random.index(2)),
            52..=54 => Op::AdvanceToNext,
            55 => Op::Advance(1),
            _ => Op::Advance(random.up_to_bits(self.reach)),
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Insert(when) => {
                let id = self.armed;
                let key = match when {
                    When::In(after) => self.queue.insert(id, after),
                    When::At(_) => self.queue.insert_at(id, self.instant_of(when)),
                };
                self.put(Entry { id, key }, self.instant_of(when));
            }
            Op::Remove(any) => {
                let Some((key, rank)) = self.pick(any) else { return };
                let removed = self.queue.try_remove(&key).map(|removed| (*removed.get_ref(), removed.key()));
                let entry = rank.and_then(|rank| self.model.remove(&rank));
                assert_eq!(removed, entry.map(|entry| (entry.id, key)), "removed");
                self.stale.push(key);
            }
            Op::Reset(any, when) => {
                let Some((key, rank)) = self.pick(any) else { return };
                let reset = match when {
                    When::In(after) => self.queue.try_reset(&key, after),
                    When::At(_) => self.queue.try_reset_at(&key, self.instant_of(when)),
                };
                assert_eq!(reset, rank.is_some(), "reset");
                if let Some(entry) = rank.and_then(|rank| self.model.remove(&rank)) {
                    self.put(entry, self.instant_of(when));
                }
            }
            Op::Clear => {
                self.queue.clear();
                assert!(self.model.is_empty() || self.clock.pending() == 0, "a cleared queue keeps no timer");
                self.stale.extend(std::mem::take(&mut self.model).values().map(|entry| entry.key));
            }
            Op::Drain => self.drain(),
            Op::Compact => self.queue.compact(),
            Op::Shrink => self.queue.shrink_to_fit(),
            Op::Reserve(room) => {
                self.queue.reserve(room);
                assert!(self.queue.capacity() >= self.model.len() + room, "room was reserved");
            }
            Op::Poll(poller) => _ = self.poll(poller),
            Op::PollAll(poller) => while self.poll(poller) == Answer::Some {},
            Op::Advance(nanos) => self.clock.advance(Duration::from_nanos(nanos)),
            Op::AdvanceToNext => self.advance_to_next(),
        }
        self.compare();
        self.stale.drain(..self.stale.len().saturating_sub(64));
    }

    fn finish(&mut self) {
        for (rank, entry) in &self.model {
            self.check_deadline(*rank, self.queue.deadline(&entry.key));
        }
        self.drain();
        assert_eq!(self.poll(0), Answer::None);
        assert_eq!(self.clock.pending(), 0, "an empty queue that was polled keeps no timer");
    }
}

impl Pair {
    fn instant_of(&self, when: When) -> Instant {
        match when {
            When::In(after) => self.clock.now() + after,
            When::At(nanos) if nanos < 0 => self.start - Duration::from_nanos(nanos.unsigned_abs()),
            When::At(nanos) => self.start + Duration::from_nanos(nanos.unsigned_abs()),
        }
    }

    /// An entry, or a stale key, which has no rank.
    fn pick(&self, any: u32) -> Option<(Key, Option<Rank>)> {
        let entries = self.model.iter().map(|(&rank, entry)| (entry.key, Some(rank)));
        pick(any, 12, &self.stale, entries)
    }

    fn put(&mut self, entry: Entry, deadline: Instant) {
        self.armed += 1;
        let rank = (deadline >= self.clock.now(), deadline, self.armed);
        self.check_deadline(rank, self.queue.deadline(&entry.key));
        self.model.insert(rank, entry);
    }

    fn check_deadline(&self, (is_known, asked, _): Rank, told: Instant) {
        let is_later = !is_known && asked < told && told <= self.clock.now();
        assert!(told == asked || is_later, "the deadline is {told:?} instead of {asked:?}");
    }

    fn answer(&self) -> Answer {
        match self.model.keys().next() {
            None => Answer::None,
            Some((_, deadline, _)) if *deadline <= self.clock.now() => Answer::Some,
            Some(_) => Answer::Waits,
        }
    }

    /// An entry came out. If it has a known order, it must be the first.
    fn take(&mut self, out: &Expired<u64>) {
        let rank = self.model.iter().find(|(_, entry)| entry.key == out.key()).map(|(&rank, _)| rank);
        let rank = rank.expect("an entry came out twice");
        assert_eq!(*out.get_ref(), self.model[&rank].id, "its value");
        self.check_deadline(rank, out.deadline());
        let first = self.model.keys().find(|rank| rank.0);
        assert!(!rank.0 || first == Some(&rank), "out of order: {rank:?} before {first:?}");
        self.model.remove(&rank);
        self.stale.push(out.key());
    }

    fn drain(&mut self) {
        let drained: Vec<_> = self.queue.drain().collect();
        assert_eq!(drained.len(), self.model.len(), "drained");
        for entry in &drained {
            self.take(entry);
        }
    }

    fn poll(&mut self, poller: usize) -> Answer {
        let (expected, first) = (self.answer(), self.queue.peek());
        let before = self.woken();
        let answer = match self.queue.poll_expired(&mut Context::from_waker(&self.pollers[poller].1)) {
            Poll::Pending => Answer::Waits,
            Poll::Ready(None) => Answer::None,
            Poll::Ready(Some(expired)) => {
                assert_eq!(Some(expired.key()), first, "the first entry");
                assert!(expired.deadline() <= self.clock.now(), "early");
                self.take(&expired);
                Answer::Some
            }
        };
        assert_eq!(answer, expected, "polled");
        self.last = Some((answer, poller, before));
        answer
    }

    fn woken(&self) -> [usize; 2] {
        [0, 1].map(|poller: usize| self.pollers[poller].0.count())
    }

    fn advance_to_next(&mut self) {
        let (now, first) = (self.clock.now(), self.model.keys().next().map(|rank| rank.1));
        // Rounds end long before the end of time.
        if first.is_some_and(|first| first > now + Duration::from_nanos(1 << self.reach)) {
            return;
        }
        let asleep = self.last.is_some_and(|(told, poller, before)| {
            told == Answer::Waits && self.pollers[poller].0.count() == before[poller]
        });
        let reached = self.clock.advance_to_next();
        let expected = first.map(|first| self.far.wakes_at(first).max(now));
        let in_time = in_time(&self.far, now, reached, expected, self.model.len(), asleep);
        assert!(in_time, "at {reached:?} instead of {expected:?}");
    }

    fn compare(&self) {
        let count = self.model.len();
        assert_eq!((self.queue.len(), self.queue.is_empty()), (count, count == 0), "the number of entries");
        let (peeked, first) = (self.queue.peek(), self.model.first_key_value());
        assert_eq!(peeked.is_some(), first.is_some(), "the first entry");
        assert!(
            first.is_none_or(|((is_ordered, ..), entry)| !is_ordered || peeked == Some(entry.key)),
            "the first entry"
        );
        assert!(self.queue.capacity() >= count, "the capacity is less than the number of entries");
        let Some((told, poller, before)) = self.last.filter(|(told, ..)| *told != Answer::Some) else { return };
        let (answer, woken) = (self.answer(), self.woken());
        let comes = |((_, deadline, _), _): (&Rank, _)| self.clock.now() < self.far.wakes_at(*deadline);
        let comes = answer == Answer::Some && first.is_some_and(comes);
        let in_time = told == answer || woken[poller] > before[poller] || comes;
        assert!(in_time, "told {told:?}, is {answer:?}, and nobody was woken");
        assert_eq!(woken[1 - poller], before[1 - poller], "only the last poller is woken");
    }

    fn when(&self, random: &mut Random) -> When {
        let distance = random.up_to_bits(self.reach);
        if random.one_in(2) {
            return When::In(Duration::from_nanos(match random.below(20) {
                0..=2 => 0,
                3 => 1 << 58,
                _ => distance,
            }));
        }
        let nanos = |instant: Instant| i64::try_from((instant - self.start).as_nanos()).unwrap_or(i64::MAX >> 4);
        let (now, distance) = (nanos(self.clock.now()), i64::try_from(distance).expect("fewer than 63 bits"));
        When::At(match random.below(16) {
            0 => now,
            1 => now - distance,
            2 => now - (1 << 58),
            3..=6 if !self.model.is_empty() => {
                self.model.keys().nth(random.index(self.model.len())).map_or(now, |rank| nanos(rank.1))
            }
            7 | 8 => ((now >> 6) + random.pick(&[1, 2, 64])) << 6,
            _ => now + distance,
        })
    }
}
