//! Compares `DelayQueue` with a plain list under random operations: what comes out, when and in which order, and that
//! the last poller is woken whenever its answer has changed.
//!
//! `HAIRSPRING_ROUNDS=100000` runs more rounds than the default, `HAIRSPRING_SEED=7` only the round with that seed.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::common::{HOUR, Random, Wakes, for_seeds, paused, settle};
use hairspring::delay_queue::{Expired, Key};
use hairspring::{DelayQueue, Duration, Instant};

const ROUNDS: u64 = 300;
const OPERATIONS: u64 = 200;

/// tokio 8274, 6751, 8320, 2217, 1700, 849, 868
#[test]
fn on_a_paused_clock_it_agrees_with_a_list_and_tells_the_last_poller_of_every_change() {
    for_seeds(ROUNDS, |seed| {
        paused().block_on(tokio::task::unconstrained(async {
            let mut round = Round::new(seed, DelayQueue::new(), Duration::from_millis(1));
            for _ in 0..OPERATIONS {
                let ahead = round.operate(Instant::now());
                tokio::time::advance(ahead).await;
                settle().await;
                round.compare(Instant::now());
            }
            round.finish();
        }));
    });
}

/// tokio 8274, 6751, 8320, 2217, 1700, 849, 868
#[cfg(feature = "test-util")]
#[test]
fn on_a_manual_clock_it_does_so_to_the_nanosecond_without_a_runtime() {
    for_seeds(ROUNDS, |seed| {
        let clock = hairspring::test_util::ManualClock::new();
        let timer = hairspring::Timer::builder().clock(&clock).build().unwrap();
        let mut round = Round::new(seed, DelayQueue::with_timer(&timer), Duration::from_nanos(1));
        for _ in 0..OPERATIONS {
            let ahead = round.operate(clock.now());
            clock.advance(ahead);
            round.compare(clock.now());
        }
        round.finish();
        assert_eq!(clock.pending(), 0, "nothing of an empty queue that was polled stays with its timer");
    });
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u64,
    key: Key,
    deadline: Instant,
    /// When it was last inserted or reset, as a number that increases.
    armed: u64,
    /// Whether its deadline had passed by then. Such an entry comes out at the next opportunity, in no particular
    /// order.
    was_past: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Waits,
    Some,
    None,
}

struct Round {
    random: Random,
    queue: DelayQueue<u64>,
    model: Vec<Entry>,
    gone: Vec<Key>,
    unit: Duration,
    /// The longest usual distance, in units.
    reach: u64,
    limit: u64,
    armed: u64,
    pollers: [(Arc<Wakes>, Waker); 2],
    /// What the last poll returned, which poller made it, and how often that poller had been woken by then.
    last: Option<(Answer, usize, usize)>,
}

impl Round {
    fn new(seed: u64, queue: DelayQueue<u64>, unit: Duration) -> Round {
        let mut random = Random::new(seed);
        let reach = [5, 100, 5_000, 1 << 22][usize::try_from(random.below(4)).unwrap()];
        let limit = [1, 3, 20, 200][usize::try_from(random.below(4)).unwrap()];
        let pollers = [Wakes::new(), Wakes::new()];
        Round { random, queue, model: Vec::new(), gone: Vec::new(), unit, reach, limit, armed: 0, pollers, last: None }
    }

    /// Performs a random operation and returns how far time should move.
    fn operate(&mut self, now: Instant) -> Duration {
        match self.random.below(24) {
            0..=5 => self.insert(now),
            6 => (0..self.random.below(40)).for_each(|_| self.insert(now)),
            7 | 8 => self.remove(),
            9..=11 => self.reset(now),
            12 => self.try_stale_keys(),
            13 if self.random.below(4) == 0 => self.clear(),
            13 if self.random.below(4) == 0 => self.drain(now),
            14 => self.resize(),
            15..=18 => self.poll(now),
            19 => while self.poll_once(now) == Answer::Some {},
            20..=22 => return self.unit * u32::try_from(self.random.below(1 + self.reach / 3)).unwrap(),
            _ => return self.first().map_or(self.unit, |first| first.deadline - now).min(HOUR),
        }
        Duration::ZERO
    }

    fn first(&self) -> Option<Entry> {
        self.model.iter().min_by_key(|entry| (entry.deadline, entry.armed)).copied()
    }

    fn answer(&self, now: Instant) -> Answer {
        match self.first() {
            None => Answer::None,
            Some(first) if first.deadline <= now => Answer::Some,
            Some(_) => Answer::Waits,
        }
    }

    /// Checks what is visible of the queue at any moment.
    fn compare(&mut self, now: Instant) {
        assert_eq!((self.queue.len(), self.queue.is_empty()), (self.model.len(), self.model.is_empty()));
        assert!(self.queue.capacity() >= self.queue.len());
        assert_eq!(self.queue.peek().is_some(), !self.model.is_empty());
        for entry in &self.model {
            let deadline = self.queue.deadline(&entry.key);
            assert!(deadline == entry.deadline || (entry.was_past && deadline > entry.deadline && deadline <= now));
        }
        if let Some((told, poller, wakes)) = self.last {
            let is_news = told != Answer::Some && told != self.answer(now);
            assert!(!is_news || self.pollers[poller].0.count() > wakes, "told {told:?}, is {:?}", self.answer(now));
        }
    }

    fn duration(&mut self) -> Duration {
        match self.random.below(20) {
            0..=2 => Duration::ZERO,
            3 => Duration::MAX,
            4 => self.unit * 1_000_000_000,
            _ => self.unit * u32::try_from(self.random.below(self.reach)).unwrap(),
        }
    }

    fn insert(&mut self, now: Instant) {
        if self.model.len() as u64 >= self.limit {
            return;
        }
        let id = self.armed;
        let after = self.duration();
        let deadline = match self.random.below(8) {
            0 => now - after,
            1 => now + Duration::MAX,
            _ => now + after,
        };
        let key = if deadline == now + after && self.random.below(2) == 0 {
            self.queue.insert(id, after)
        } else {
            self.queue.insert_at(id, deadline)
        };
        self.armed += 1;
        let deadline = self.told_deadline(key, deadline, now);
        self.model.push(Entry { id, key, deadline, armed: id, was_past: deadline < now });
    }

    /// How the queue treats a deadline: unchanged, unless it is centuries away.
    fn told_deadline(&self, key: Key, asked: Instant, now: Instant) -> Instant {
        let told = self.queue.deadline(&key);
        if asked > now + 400 * crate::common::YEAR {
            assert!(told > now + 400 * crate::common::YEAR);
            told
        } else if asked < now - 40 * crate::common::YEAR {
            told.min(now - 40 * crate::common::YEAR)
        } else {
            asked
        }
    }

    fn any(&mut self) -> Option<usize> {
        let count = self.model.len() as u64;
        (count > 0).then(|| usize::try_from(self.random.below(count)).unwrap())
    }

    fn remove(&mut self) {
        let Some(any) = self.any() else { return };
        let entry = self.model.swap_remove(any);
        let removed = self.queue.remove(&entry.key);
        assert_eq!((*removed.get_ref(), removed.key()), (entry.id, entry.key));
        self.gone.push(entry.key);
    }

    fn reset(&mut self, now: Instant) {
        let Some(any) = self.any() else { return };
        let key = self.model[any].key;
        let after = self.duration();
        let deadline = if self.random.below(6) == 0 { now - after } else { now + after };
        if deadline == now + after && self.random.below(2) == 0 {
            self.queue.reset(&key, after);
        } else {
            self.queue.reset_at(&key, deadline);
        }
        let deadline = self.told_deadline(key, deadline, now);
        self.model[any] = Entry { deadline, armed: self.armed, was_past: deadline < now, ..self.model[any] };
        self.armed += 1;
    }

    fn try_stale_keys(&mut self) {
        for key in self.gone.iter().rev().take(5) {
            assert!(self.queue.try_remove(key).is_none());
        }
        if let Some(key) = self.gone.last() {
            crate::common::panic_message(|| self.queue.reset(key, HOUR));
        }
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.gone.extend(self.model.drain(..).map(|entry| entry.key));
    }

    fn drain(&mut self, now: Instant) {
        let drained: Vec<_> = self.queue.drain().collect();
        assert_eq!(drained.len(), self.model.len());
        for entry in drained {
            self.take(&entry, now);
        }
    }

    /// An entry that comes out must be the first of those whose order is known.
    fn take(&mut self, out: &Expired<u64>, now: Instant) {
        let at = self.model.iter().position(|entry| entry.key == out.key()).expect("it is in there, and once only");
        let entry = self.model[at];
        assert_eq!(*out.get_ref(), entry.id);
        assert!(out.deadline() == entry.deadline || (entry.was_past && out.deadline() <= now));
        let rank = |entry: &Entry| (entry.deadline, entry.armed);
        let mut known = self.model.iter().filter(|entry| !entry.was_past);
        assert!(entry.was_past || known.all(|other| rank(other) >= rank(&entry)), "out of order: {entry:?}");
        self.model.swap_remove(at);
        self.gone.push(entry.key);
    }

    fn resize(&mut self) {
        match self.random.below(3) {
            0 => self.queue.compact(),
            1 => self.queue.shrink_to_fit(),
            _ => {
                let room = usize::try_from(self.random.below(500)).unwrap();
                self.queue.reserve(room);
                assert!(self.queue.capacity() >= self.model.len() + room);
            }
        }
    }

    fn poll(&mut self, now: Instant) {
        for _ in 0..=self.random.below(3) {
            self.poll_once(now);
        }
    }

    fn poll_once(&mut self, now: Instant) -> Answer {
        let expected = self.answer(now);
        let first = self.queue.peek();
        let poller = usize::try_from(self.random.below(2)).unwrap();
        let (woken, waker) = &self.pollers[poller];
        let before = woken.count();
        let answer = match self.queue.poll_expired(&mut Context::from_waker(waker)) {
            Poll::Pending => Answer::Waits,
            Poll::Ready(None) => Answer::None,
            Poll::Ready(Some(expired)) => {
                assert_eq!(Some(expired.key()), first, "the one that was to be seen at its head");
                assert!(expired.deadline() <= now, "early");
                self.take(&expired, now);
                Answer::Some
            }
        };
        assert_eq!(answer, expected);
        self.last = Some((answer, poller, before));
        answer
    }

    fn finish(&mut self) {
        let left = self.queue.drain().len();
        assert_eq!(left, self.model.len());
        self.model.clear();
        assert_eq!(self.poll_once(Instant::now()), Answer::None);
    }
}
