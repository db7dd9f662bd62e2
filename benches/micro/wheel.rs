//! The bare wheel, beside the standard library's `BTreeMap`.
//!
//! Tokio's wheel cannot be had without its runtime, so the peer here is what one would reach for otherwise: an ordered
//! map from deadlines to values, with a serial number in the key to tell equal deadlines apart. (A `BinaryHeap` has no
//! way to take out an entry in the middle.) `rivals` and `time` compare with tokio.
//!
//! Ticks are nanoseconds, as in the rest of this crate. What a tick costs in which few entries fire is in `schemes`.
//!
//! - `insert_remove`: puts an entry in, 30 to 40 s ahead, and takes it out again, in a wheel that is otherwise empty or
//!   has a million entries;
//! - `one_tick`: fires many entries of the very same tick, the next one (`near`) or one 30 s ahead (`far`, which
//!   cascades); the cost of one entry, without its insertion.
//!
//! `cargo bench --bench wheel` in `benches`; with `-- --test` each operation runs once, to see that it does.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use hairspring::wheel::{Tick, Wheel};
use micro::{compare, criterion, is_test, print};

const SECOND: u64 = 1_000_000_000;

const STANDING: u64 = 1_000_000;

/// How many entries are made at a time if their firing is measured.
const BATCH: u64 = 100_000;

/// What both contenders can do.
trait Queue {
    const NAME: &str;
    type Key;

    fn new() -> Self;
    fn insert(&mut self, deadline: u64, value: u64) -> Self::Key;
    fn remove(&mut self, key: Self::Key) -> Option<u64>;
    fn pop(&mut self, now: u64) -> Option<u64>;
}

impl Queue for Wheel<u64> {
    const NAME: &str = "wheel";
    type Key = hairspring::wheel::Key;

    fn new() -> Self {
        Wheel::new()
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Self::Key {
        self.insert(Tick(deadline), value)
    }

    fn remove(&mut self, key: Self::Key) -> Option<u64> {
        self.remove(key)
    }

    fn pop(&mut self, now: u64) -> Option<u64> {
        self.pop(Tick(now))
    }
}

#[derive(Default)]
struct Ordered {
    entries: BTreeMap<(u64, u64), u64>,
    inserted: u64,
}

impl Queue for Ordered {
    const NAME: &str = "BTreeMap";
    type Key = (u64, u64);

    fn new() -> Self {
        Ordered::default()
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Self::Key {
        let key = (deadline, self.inserted);
        self.inserted += 1;
        self.entries.insert(key, value);
        key
    }

    fn remove(&mut self, key: Self::Key) -> Option<u64> {
        self.entries.remove(&key)
    }

    fn pop(&mut self, now: u64) -> Option<u64> {
        let first = self.entries.first_entry()?;
        if first.key().0 <= now { Some(first.remove()) } else { None }
    }
}

fn main() {
    let mut criterion = criterion(50);
    for standing in [0, if is_test() { 1_000 } else { STANDING }] {
        let name = format!("insert_remove/{standing}_standing");
        bench(&mut criterion, &name, insert_remove::<Wheel<u64>>(standing), insert_remove::<Ordered>(standing));
    }
    for (name, deadline) in [("one_tick/near", 1), ("one_tick/far", 30 * SECOND)] {
        bench(
            &mut criterion,
            name,
            |iters| one_tick::<Wheel<u64>>(deadline, iters),
            |iters| one_tick::<Ordered>(deadline, iters),
        );
    }
    criterion.final_summary();
    print(Ordered::NAME);
}

/// Benchmarks both contenders.
fn bench(
    criterion: &mut Criterion,
    row: &str,
    mut wheel: impl FnMut(u64) -> Duration,
    mut ordered: impl FnMut(u64) -> Duration,
) {
    compare(criterion, row, &mut [(<Wheel<u64> as Queue>::NAME, &mut wheel), (Ordered::NAME, &mut ordered)]);
}

/// Deadlines between 30 and 40 s, in no order.
fn varied(i: u64) -> u64 {
    30 * SECOND + (i * 1_000_003) % (10 * SECOND)
}

fn insert_remove<Q: Queue>(standing: u64) -> impl FnMut(u64) -> Duration {
    let mut queue = Q::new();
    for i in 0..standing {
        queue.insert(30 * SECOND + i * 10_007, i);
    }
    move |iters| {
        let start = Instant::now();
        for i in 0..iters {
            let key = queue.insert(varied(i), i);
            assert!(queue.remove(black_box(key)) == Some(i));
        }
        start.elapsed()
    }
}

fn one_tick<Q: Queue>(deadline: u64, iters: u64) -> Duration {
    in_batches(iters, |count| {
        let mut queue = Q::new();
        for i in 0..count {
            queue.insert(deadline, i);
        }
        let start = Instant::now();
        let mut fired = 0;
        while queue.pop(deadline).is_some() {
            fired += 1;
        }
        let taken = start.elapsed();
        assert_eq!(fired, count, "all are due");
        taken
    })
}

/// Calls `run` for batches that are `iters` together, and adds up what they took.
fn in_batches(iters: u64, mut run: impl FnMut(u64) -> Duration) -> Duration {
    let (full, rest) = (iters / BATCH, iters % BATCH);
    (0..full).map(|_| BATCH).chain((rest > 0).then_some(rest)).map(&mut run).sum()
}
