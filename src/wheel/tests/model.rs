//! The wheel under operations of all kinds: random operations compared with a sorted map, which must return the same
//! entries in the same order; and cancelling and resetting at every point in an entry's life.
//!
//! `HAIRSPRING_ROUNDS=100000` runs more random rounds than the default, and `HAIRSPRING_SEED=7` only the round with
//! that seed. A round that fails prints its seed.

use std::collections::BTreeMap;
use std::thread;

use super::super::{Key, Step, Tick, Ticks, Wheel};

const ROUNDS: u64 = 500;
const OPERATIONS: u64 = 150;

/// Up to this many entries, a scan of the whole wheel follows every operation.
const SMALL: usize = 48;
/// Up to this many entries, a wheel without unfinished work says exactly when the next entry is due.
const FEW: usize = 16;

#[test]
fn a_wheel_gives_what_a_sorted_map_gives() {
    let number = |name| std::env::var(name).ok().map(|value| value.parse().expect("a whole number"));
    let seeds = match number("HAIRSPRING_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HAIRSPRING_ROUNDS").unwrap_or(ROUNDS),
    };
    for seed in seeds {
        let _named = NameOnPanic(seed);
        Round::new(seed).run();
    }
}

/// Prints the seed if its round fails.
struct NameOnPanic(u64);

impl Drop for NameOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("HAIRSPRING_SEED={} runs the failing round again", self.0);
        }
    }
}

/// Numbers in no order, the same for one seed: `SplitMix64`.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number of at most `bits` bits; small numbers are as frequent as large ones.
    fn up_to_bits(&mut self, bits: u64) -> u64 {
        let bits = 1 + self.below(bits);
        self.next() >> (64 - bits)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let index = self.below(from.len() as u64);
        from[usize::try_from(index).unwrap()]
    }
}

/// The position of an entry in the order: first the tick at which it can fire, then first in, first out.
///
/// That tick is the deadline. If the wheel had already passed the deadline when the entry came, it is the wheel's tick
/// at that time.
type Rank = (Tick, u64);

#[derive(Debug, Clone, Copy)]
struct Expected {
    key: Key,
    deadline: Tick,
    value: u64,
}

struct Round {
    numbers: Numbers,
    wheel: Wheel<u64>,
    /// What must be in the wheel.
    model: BTreeMap<Rank, Expected>,
    /// Keys of entries that have fired or were removed.
    gone: Vec<Key>,
    /// How many inserts and resets there were.
    armed: u64,
    /// The latest time that was passed to the wheel.
    latest: Tick,
    /// Whether the wheel has no unfinished work, according to its last step.
    at_rest: bool,
    /// The maximum number of entries.
    limit: usize,
    /// The maximum number of bits of a distance.
    reach: u64,
}

impl Round {
    fn new(seed: u64) -> Round {
        let mut numbers = Numbers(seed);
        let near = numbers.pick(&[0, 1 << 12, 1 << 30, 1 << 36, 1 << 42, 1 << 60, u64::MAX]);
        let start = Tick(near.saturating_sub(numbers.below(200)));
        Round {
            wheel: Wheel::starting_at(start),
            model: BTreeMap::new(),
            gone: Vec::new(),
            armed: 0,
            latest: start,
            at_rest: true,
            limit: numbers.pick(&[1, 4, 16, SMALL, 300]),
            reach: numbers.pick(&[7, 10, 14, 20, 38, 60]),
            numbers,
        }
    }

    fn run(&mut self) {
        for _ in 0..OPERATIONS {
            self.operate();
            self.compare();
        }
        self.step_to_done(Tick::MAX);
        self.compare();
        assert!(self.wheel.is_empty() && self.model.is_empty(), "at the end of time nothing is left");
        assert_eq!(self.wheel.next_expiration(), None);
    }

    fn operate(&mut self) {
        match self.numbers.below(13) {
            0 => {
                // Many, to fill up slots.
                for _ in 0..=self.numbers.up_to_bits(6) {
                    self.insert();
                }
            }
            1..=3 => self.insert(),
            4 => self.remove(),
            5 | 6 => self.reset(),
            7 | 8 => {
                let now = self.time();
                for _ in 0..=self.numbers.below(6) {
                    self.step(now);
                }
            }
            9 => {
                let now = self.time();
                self.step_to_done(now);
            }
            10 => self.pop_to_the_end(),
            11 => self.as_a_whole(),
            _ => self.try_stale_keys(),
        }
    }

    fn insert(&mut self) {
        if self.model.len() == self.limit {
            return;
        }
        let (deadline, value) = (self.tick(), self.numbers.next());
        let key = self.wheel.insert(deadline, value);
        self.expect(Expected { key, deadline, value });
    }

    fn remove(&mut self) {
        let Some((rank, entry)) = self.any() else { return };
        assert_eq!(self.wheel.remove(entry.key), Some(entry.value));
        self.model.remove(&rank);
        self.gone.push(entry.key);
    }

    fn reset(&mut self) {
        let Some((rank, entry)) = self.any() else { return };
        let deadline = self.tick();
        assert!(self.wheel.reset(entry.key, deadline), "what is in the wheel can be reset");
        self.model.remove(&rank);
        self.expect(Expected { deadline, ..entry });
    }

    fn step_to_done(&mut self, now: Tick) {
        while self.step(now) {}
    }

    /// One step on both. Returns `false` after the last.
    fn step(&mut self, now: Tick) -> bool {
        let before = self.wheel.elapsed();
        let reached = before.max(now);
        self.latest = self.latest.max(now);
        let step = self.wheel.step(now);
        match step {
            Step::Fired { key, deadline, value } => self.fired(reached, Some(key), Some(deadline), value),
            Step::Cascaded => assert!(!self.model.is_empty(), "an empty wheel has no work"),
            Step::Done => {
                self.assert_nothing_due(reached);
                assert_eq!(self.wheel.elapsed(), reached);
            }
        }
        let after = self.wheel.elapsed();
        assert!(before <= after && after <= reached, "from {before:?} to {after:?} at {now:?}");
        self.at_rest = step == Step::Done;
        !self.at_rest
    }

    fn pop_to_the_end(&mut self) {
        let now = self.time();
        let reached = self.wheel.elapsed().max(now);
        self.latest = self.latest.max(now);
        while let Some(value) = self.wheel.pop(now) {
            self.fired(reached, None, None, value);
        }
        self.assert_nothing_due(reached);
        self.at_rest = true;
    }

    /// The entry that the wheel returns must be the first of the model.
    fn fired(&mut self, reached: Tick, key: Option<Key>, deadline: Option<Tick>, value: u64) {
        let ((due, _), entry) = self.model.pop_first().expect("nothing fires twice");
        assert_eq!(value, entry.value, "out of order: {entry:?} was to come");
        assert_eq!((key.unwrap_or(entry.key), deadline.unwrap_or(entry.deadline)), (entry.key, entry.deadline));
        assert!(due <= reached && entry.deadline <= self.latest, "early: {entry:?} at {reached:?}");
        self.gone.push(entry.key);
    }

    fn assert_nothing_due(&self, reached: Tick) {
        let first = self.model.keys().next();
        assert!(first.is_none_or(|&(due, _)| due > reached), "{first:?} was forgotten at {reached:?}");
    }

    fn as_a_whole(&mut self) {
        if self.numbers.below(8) == 0 {
            self.wheel.clear();
            self.gone.extend(std::mem::take(&mut self.model).into_values().map(|entry| entry.key));
            self.at_rest = true;
        } else {
            self.wheel = self.wheel.clone();
        }
    }

    fn try_stale_keys(&mut self) {
        for _ in 0..self.gone.len().min(3) {
            let key = self.numbers.pick(&self.gone);
            let deadline = self.tick();
            assert_eq!(self.wheel.remove(key), None);
            assert!(!self.wheel.reset(key, deadline));
            assert_eq!((self.wheel.get(key), self.wheel.deadline(key)), (None, None));
            assert_eq!(self.wheel.get_mut(key), None);
        }
    }

    /// What is visible of the wheel at any moment must agree with the model.
    fn compare(&mut self) {
        let (wheel, model) = (&mut self.wheel, &self.model);
        assert_eq!((wheel.len(), wheel.is_empty()), (model.len(), model.is_empty()));
        assert!(wheel.capacity() >= wheel.len());
        assert_eq!(wheel.first(), model.values().next().map(|entry| entry.key), "the first is the one to come next");
        assert!(wheel.cascaded() <= 10 * self.armed, "an entry moves down once a level at most");

        let (next, earliest) = (wheel.next_expiration(), model.keys().next().map(|&(due, _)| due));
        assert_eq!(next.is_some(), earliest.is_some());
        assert!(next <= earliest.max(next.and(Some(wheel.elapsed()))), "{next:?} is later than {earliest:?}");
        if self.at_rest && model.len() <= FEW {
            assert_eq!(next, earliest, "with few entries the next expiration is exact");
        }
        if model.len() <= SMALL {
            wheel.check();
            for entry in model.values() {
                assert_eq!(wheel.deadline(entry.key), Some(entry.deadline));
                assert_eq!(wheel.get(entry.key), Some(&entry.value));
                assert_eq!(wheel.get_mut(entry.key).copied(), Some(entry.value));
            }
        }
    }

    fn expect(&mut self, entry: Expected) {
        let due = entry.deadline.max(self.wheel.elapsed());
        self.armed += 1;
        let before = self.model.insert((due, self.armed), entry);
        assert!(before.is_none());
    }

    fn any(&mut self) -> Option<(Rank, Expected)> {
        let count = self.model.len() as u64;
        let index = self.numbers.below(count.max(1));
        self.model.iter().nth(usize::try_from(index).unwrap()).map(|(&rank, &entry)| (rank, entry))
    }

    /// A deadline: mostly in the future, sometimes that of another entry, sometimes in the past, sometimes the last
    /// possible one.
    fn tick(&mut self) -> Tick {
        let elapsed = self.wheel.elapsed();
        match self.numbers.below(16) {
            0..=3 => elapsed + Ticks(self.numbers.below(130)),
            4..=6 => self.at_a_boundary(),
            7..=9 => elapsed + Ticks(self.numbers.up_to_bits(self.reach)),
            10..=12 => self.any().map_or(elapsed, |(_, entry)| entry.deadline),
            13 => Tick(elapsed.0.saturating_sub(self.numbers.up_to_bits(self.reach))),
            14 => Tick(u64::MAX - self.numbers.below(3)),
            _ => Tick(self.numbers.up_to_bits(64)),
        }
    }

    /// The first tick of a slot, or the tick before or after it.
    fn at_a_boundary(&mut self) -> Tick {
        let below = 6 * self.numbers.below(1 + self.reach / 6);
        let slot = u128::from(self.wheel.elapsed().0 >> below) + self.numbers.pick(&[1, 2, 63, 64, 65]);
        let start = u64::try_from(slot << below).unwrap_or(u64::MAX);
        Tick((start - 1).saturating_add(self.numbers.below(3)))
    }

    /// A time to pass to the wheel: a little or much later, the time of the next entry, or earlier than now.
    fn time(&mut self) -> Tick {
        let elapsed = self.wheel.elapsed();
        let next = self.wheel.next_expiration().unwrap_or(elapsed);
        match self.numbers.below(16) {
            0..=3 => elapsed + Ticks(self.numbers.below(70)),
            4 | 5 => next,
            6 => Tick(next.0.saturating_sub(1)),
            7 => next + Ticks(1),
            8 | 9 => self.at_a_boundary(),
            10 | 11 => self.any().map_or(elapsed, |(_, entry)| entry.deadline.min(elapsed + Ticks(1 << self.reach))),
            12 | 13 => elapsed + Ticks(self.numbers.up_to_bits(self.reach)),
            14 => Tick(elapsed.0.saturating_sub(1)),
            _ => Tick(elapsed.0.saturating_sub(self.numbers.up_to_bits(64))),
        }
    }
}

/// Everything that is due at `now`, in the order in which it comes out.
fn drain(wheel: &mut Wheel<usize>, now: Tick) -> Vec<usize> {
    std::iter::from_fn(|| wheel.pop(now)).collect()
}

/// Calls `look` with the wheel, its keys and the fired entries, for five entries in each pattern of deadlines and after
/// every number of steps. So each entry is seen far, near, cascading, due, and gone.
fn at_every_point(mut look: impl FnMut(Wheel<usize>, &[Key], Vec<usize>)) {
    let together = [0, 9, 70, 5_000, 1 << 40].map(|deadline| [deadline; 5]);
    let mixed = [[70, 71, 72, 64, 70], [9, 70, 5_000, 1 << 40, u64::MAX], [4_999, 4_096, 4_097, 4_096, 0]];
    for deadlines in together.into_iter().chain(mixed) {
        let mut wheel = Wheel::new();
        let keys: Vec<Key> = (0..5).map(|entry| wheel.insert(Tick(deadlines[entry]), entry)).collect();
        let mut fired = Vec::new();
        loop {
            look(wheel.clone(), &keys, fired.clone());
            match wheel.step(Tick(5_000)) {
                Step::Fired { value, .. } => fired.push(value),
                Step::Cascaded => {}
                Step::Done => break,
            }
        }
    }
}

/// go 37196, netty 14081, tokio 2473, 3229, 3270
#[test]
fn an_entry_is_either_cancelled_or_fired_at_whatever_point_it_is_cancelled() {
    at_every_point(|wheel, keys, fired| {
        for (mine, &key) in keys.iter().enumerate() {
            let (mut wheel, mut ended) = (wheel.clone(), fired.clone());
            let cancelled = wheel.remove(key);
            assert_eq!(cancelled, (!fired.contains(&mine)).then_some(mine));
            assert_eq!(wheel.remove(key), None);
            wheel.check();
            ended.extend(cancelled);
            ended.extend(drain(&mut wheel, Tick::MAX));
            ended.sort_unstable();
            assert_eq!(ended, [0, 1, 2, 3, 4], "each ends once");
        }
    });
}

/// tokio 849, 868, 2473
#[test]
fn an_entry_fires_at_its_new_deadline_at_whatever_point_it_is_reset() {
    at_every_point(|wheel, keys, fired| {
        for (mine, &key) in keys.iter().enumerate() {
            for deadline in [0, 9, 70, 71, 4_097, 5_001, 1 << 40, u64::MAX].map(Tick) {
                let mut wheel = wheel.clone();
                assert_eq!(wheel.reset(key, deadline), !fired.contains(&mine));
                wheel.check();
                if fired.contains(&mine) {
                    continue;
                }
                if deadline > wheel.elapsed() {
                    assert!(!drain(&mut wheel, Tick(deadline.0 - 1)).contains(&mine), "early");
                }
                assert!(drain(&mut wheel, deadline).contains(&mine), "late");
                assert!(!drain(&mut wheel, Tick::MAX).contains(&mine), "twice");
            }
        }
    });
}
