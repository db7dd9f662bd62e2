//! The bare wheel, beside the standard library's `BTreeMap`.
//!
//! Tokio's wheel cannot be had without its runtime, so the peer here is what one would reach for otherwise: an ordered
//! map from deadlines to values, with a serial number in the key to tell equal deadlines apart. (A `BinaryHeap` has no
//! way to take out an entry in the middle.) `benches/time.rs` compares with tokio.
//!
//! Ticks are nanoseconds, as in the rest of this crate.
//!
//! - `insert_remove`: puts an entry in, 30 to 40 s ahead, and takes it out again, in a wheel that is otherwise empty or
//!   has a million entries standing;
//! - `expire`: time moves on by 1 ms at a time and fires 10 entries in each; the cost of one entry, its cascading
//!   included but not its insertion;
//! - `insert_expire`: the same with the insertion. A wheel sorts late, while time moves on, and a map at once, so this
//!   is the fair comparison of the two for entries that do fire;
//! - `one_tick`: fires many entries of the very same tick, the next one (`near`) or one 30 s ahead (`far`, which
//!   cascades); the cost of one entry, without its insertion.
//!
//! `cargo bench --bench wheel`; with `-- --test` each operation runs once, to see that it does.

mod table;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode};
use hairspring::wheel::{Tick, Wheel};

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

const STANDING: u64 = 1_000_000;

/// How many entries are made at a time where it is their firing that is measured.
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
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .sample_size(50)
        .nresamples(20_000)
        .configure_from_args();
    for standing in [0, STANDING] {
        let name = format!("insert_remove/{standing}_standing");
        compare(&mut criterion, &name, insert_remove::<Wheel<u64>>(standing), insert_remove::<Ordered>(standing));
    }
    for (name, with_insertion) in [("expire/10_per_ms", false), ("insert_expire/10_per_ms", true)] {
        compare(
            &mut criterion,
            name,
            |iters| expire::<Wheel<u64>>(with_insertion, iters),
            |iters| expire::<Ordered>(with_insertion, iters),
        );
    }
    for (name, deadline) in [("one_tick/near", 1), ("one_tick/far", 30 * SECOND)] {
        compare(
            &mut criterion,
            name,
            |iters| one_tick::<Wheel<u64>>(deadline, iters),
            |iters| one_tick::<Ordered>(deadline, iters),
        );
    }
    criterion.final_summary();
    table::print(Ordered::NAME);
}

/// Benchmarks both contenders, one after the other. Each is told how many operations to do and says how long they took.
fn compare(
    criterion: &mut Criterion,
    row: &str,
    wheel: impl FnMut(u64) -> Duration,
    ordered: impl FnMut(u64) -> Duration,
) {
    let mut group = criterion.benchmark_group(row);
    // All samples have the same number of iterations: the table at the end relies on it.
    group.sampling_mode(SamplingMode::Flat);
    bench::<Wheel<u64>>(&mut group, row, wheel);
    bench::<Ordered>(&mut group, row, ordered);
    group.finish();
}

fn bench<Q: Queue>(group: &mut BenchmarkGroup<'_, WallTime>, row: &str, mut run: impl FnMut(u64) -> Duration) {
    group.bench_function(Q::NAME, |bencher| {
        bencher.iter_custom(|iters| {
            let taken = run(iters);
            table::record(row, Q::NAME, iters, taken);
            taken
        });
    });
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

fn expire<Q: Queue>(with_insertion: bool, iters: u64) -> Duration {
    in_batches(iters, |count| {
        let span = count * (MILLISECOND / 10);
        let mut queue = Q::new();
        let mut start = Instant::now();
        for i in 0..count {
            queue.insert((i * 1_000_003) % span, i);
        }
        if !with_insertion {
            start = Instant::now();
        }
        let (mut now, mut fired) = (0, 0);
        while fired < count {
            now += MILLISECOND;
            while queue.pop(now).is_some() {
                fired += 1;
            }
        }
        start.elapsed()
    })
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
