//! `DeadlineMap` beside what one would build without it, in the same run.
//!
//! The peer is a mutex around tokio-util's `DelayQueue` and a `HashMap` from keys to those of the queue.
//!
//! - `touch`: puts the deadline of one of many keys off, in no order;
//! - `insert_remove`: puts an entry in that is not there, and takes it out again, beside those that are there;
//! - `heartbeats`: touches every key once a second of a paused clock, with a limit of ten seconds and a consumer that
//!   polls each second: what a touch costs with all that the consumer has to do for it later;
//! - `drain`: hands out what has expired; the cost of one entry, without its insertion.
//!
//! # Where
//! On one thread or on two at once, which have entered a runtime with a worker; with two, the time is an operation's as
//! each thread sees it. In the first two a consumer waits on the runtime. Deadlines are ten minutes away, so that it has
//! nothing to do, and an earlier timer of the runtime's is pending, without which tokio's costs more.
//!
//! A machine that does something else has the two threads take turns, and shows the ratio of one.
//!
//! `cargo bench --bench map` in `benches`; with `-- --test` each operation runs once, to see that it does.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use criterion::Criterion;
use futures::Stream;
use hairspring::{DeadlineMap, Expirations};
use micro::{compare, criterion, is_test, print};
use tokio::runtime::{Builder, Runtime};
use tokio::task;
use tokio_util::time::{DelayQueue, delay_queue};

const AWAY: Duration = Duration::from_mins(10);
const EARLIER: Duration = Duration::from_mins(5);

/// How many entries are made at a time if their expiry is measured.
const BATCH: u64 = 20_000;
/// Over how many milliseconds their deadlines are spread.
const SPREAD: u64 = 20;

/// What both contenders can do. A value of it is a handle.
trait Map: Clone + Send + Sync + 'static {
    const NAME: &str;
    type Consumer: Send + 'static;

    fn new() -> (Self, Self::Consumer);
    fn insert(&self, key: u64, value: u64, duration: Duration) -> Option<u64>;
    fn touch(&self, key: u64, duration: Duration) -> bool;
    fn remove(&self, key: u64) -> Option<u64>;
    fn poll(consumer: &mut Self::Consumer, cx: &mut Context<'_>) -> Poll<Option<(u64, u64)>>;
}

impl Map for DeadlineMap<u64, u64> {
    const NAME: &str = "DeadlineMap";
    type Consumer = Expirations<u64, u64>;

    fn new() -> (Self, Self::Consumer) {
        DeadlineMap::new()
    }

    fn insert(&self, key: u64, value: u64, duration: Duration) -> Option<u64> {
        self.insert(key, value, duration)
    }

    fn touch(&self, key: u64, duration: Duration) -> bool {
        self.touch(&key, duration)
    }

    fn remove(&self, key: u64) -> Option<u64> {
        self.remove(&key)
    }

    fn poll(consumer: &mut Self::Consumer, cx: &mut Context<'_>) -> Poll<Option<(u64, u64)>> {
        Pin::new(consumer).poll_next(cx)
    }
}

#[derive(Default)]
struct Queue {
    keys: HashMap<u64, delay_queue::Key>,
    queue: DelayQueue<(u64, u64)>,
}

type Locked = Arc<Mutex<Queue>>;

impl Map for Locked {
    const NAME: &str = "Mutex<DelayQueue>";
    type Consumer = Locked;

    fn new() -> (Self, Self::Consumer) {
        let queue = Locked::default();
        (Arc::clone(&queue), queue)
    }

    fn insert(&self, key: u64, value: u64, duration: Duration) -> Option<u64> {
        let Queue { keys, queue } = &mut *self.lock().unwrap();
        let replaced = keys.insert(key, queue.insert((key, value), duration));
        replaced.map(|replaced| queue.remove(&replaced).into_inner().1)
    }

    fn touch(&self, key: u64, duration: Duration) -> bool {
        let Queue { keys, queue } = &mut *self.lock().unwrap();
        let found = keys.get(&key);
        found.inspect(|found| queue.reset(found, duration)).is_some()
    }

    fn remove(&self, key: u64) -> Option<u64> {
        let Queue { keys, queue } = &mut *self.lock().unwrap();
        let found = keys.remove(&key)?;
        Some(queue.remove(&found).into_inner().1)
    }

    fn poll(consumer: &mut Self::Consumer, cx: &mut Context<'_>) -> Poll<Option<(u64, u64)>> {
        let Queue { keys, queue } = &mut *consumer.lock().unwrap();
        // It is not the end when it is empty.
        let Poll::Ready(Some(expired)) = queue.poll_expired(cx) else { return Poll::Pending };
        let (key, value) = expired.into_inner();
        keys.remove(&key);
        Poll::Ready(Some((key, value)))
    }
}

fn main() {
    let mut criterion = criterion(30);
    for &standing in if is_test() { &[0, 10_000][..] } else { &[0, 10_000, 1_000_000] } {
        let (ours, theirs) = (Stood::<DeadlineMap<u64, u64>>::new(standing), Stood::<Locked>::new(standing));
        for threads in [1, 2] {
            if standing > 0 {
                let row = format!("touch/{standing}/{threads}_threads");
                bench(&mut criterion, &row, |n| ours.touch(threads, n), |n| theirs.touch(threads, n));
            }
            let row = format!("insert_remove/{standing}/{threads}_threads");
            bench(&mut criterion, &row, |n| ours.insert_remove(threads, n), |n| theirs.insert_remove(threads, n));
        }
    }
    let keys = 10_000;
    bench(&mut criterion, "heartbeats/10000", heartbeats::<DeadlineMap<_, _>>(keys), heartbeats::<Locked>(keys));
    bench(&mut criterion, "drain", drain::<DeadlineMap<_, _>>, drain::<Locked>);
    criterion.final_summary();
    print(Locked::NAME);
}

/// Benchmarks both contenders.
fn bench(
    criterion: &mut Criterion,
    row: &str,
    mut ours: impl FnMut(u64) -> Duration,
    mut theirs: impl FnMut(u64) -> Duration,
) {
    compare(criterion, row, &mut [(<DeadlineMap<_, _> as Map>::NAME, &mut ours), (Locked::NAME, &mut theirs)]);
}

/// A map with entries, and a consumer that waits.
struct Stood<M> {
    runtime: Runtime,
    map: M,
    standing: u64,
    /// How many operations a thread has done, so that the next take other keys.
    done: AtomicU64,
}

impl<M: Map> Stood<M> {
    fn new(standing: u64) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        runtime.spawn(async { tokio::time::sleep(EARLIER).await });
        runtime.spawn(async { hairspring::sleep(EARLIER).await });
        let entered = runtime.enter();
        let (map, mut consumer) = M::new();
        for key in 0..standing {
            map.insert(key, key, AWAY);
        }
        runtime.spawn(poll_fn(move |cx| M::poll(&mut consumer, cx)));
        drop(entered);
        Stood { runtime, map, standing, done: AtomicU64::new(0) }
    }

    fn touch(&self, threads: u64, iters: u64) -> Duration {
        self.on_threads(threads, iters, |map, key, _| assert!(map.touch(key % self.standing, AWAY)))
    }

    fn insert_remove(&self, threads: u64, iters: u64) -> Duration {
        self.on_threads(threads, iters, |map, key, thread| {
            // Keys that are not there, and that no other thread has.
            let key = self.standing + 2 * (key >> 32) + thread;
            map.insert(key, key, AWAY);
            assert_eq!(map.remove(black_box(key)), Some(key));
        })
    }

    /// Has each thread do the operation, with keys in no order, and returns what that took as a mean of the threads.
    fn on_threads(&self, threads: u64, iters: u64, operation: impl Fn(&M, u64, u64) + Sync) -> Duration {
        let first = self.done.fetch_add(iters, Relaxed);
        let start_line = Barrier::new(usize::try_from(threads).unwrap());
        let run = |thread: u64| {
            let _entered = self.runtime.enter();
            let map = self.map.clone();
            start_line.wait();
            let start = Instant::now();
            for i in first..first + iters {
                operation(&map, mixed(2 * i + thread), thread);
            }
            start.elapsed()
        };
        let taken: Duration = thread::scope(|scope| {
            let run = &run;
            let spawned: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            spawned.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        taken / u32::try_from(threads).unwrap()
    }
}

/// A number that looks random.
fn mixed(i: u64) -> u64 {
    let mixed = (i ^ (i >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn heartbeats<M: Map>(keys: u64) -> impl FnMut(u64) -> Duration {
    const SECOND: Duration = Duration::from_secs(1);
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let (map, mut consumer) = runtime.block_on(async { M::new() });
    runtime.block_on(async {
        for key in 0..keys {
            map.insert(key, key, 10 * SECOND);
        }
    });
    // Of this second's heartbeats.
    let mut next = 0;
    move |iters| {
        runtime.block_on(task::unconstrained(async {
            let (mut taken, mut left) = (Duration::ZERO, iters);
            while left > 0 {
                let end = keys.min(next + left);
                let start = Instant::now();
                for key in next..end {
                    assert!(map.touch(key, 10 * SECOND));
                }
                taken += start.elapsed();
                left -= end - next;
                next = end % keys;
                if next == 0 {
                    tokio::time::advance(SECOND).await;
                    let start = Instant::now();
                    assert!(next_due::<M>(&mut consumer).is_none(), "all are alive");
                    taken += start.elapsed();
                }
            }
            taken
        }))
    }
}

/// Always in full batches, and taken as a share of them: an expiry costs more if there are few.
fn drain<M: Map>(iters: u64) -> Duration {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let batches = iters.div_ceil(BATCH);
    let taken: Duration = (0..batches).map(|_| runtime.block_on(task::unconstrained(drain_batch::<M>()))).sum();
    // Exact up to 2^53 iterations.
    #[allow(clippy::cast_precision_loss)]
    taken.mul_f64(iters as f64 / (batches * BATCH) as f64)
}

async fn drain_batch<M: Map>() -> Duration {
    let (map, mut consumer) = M::new();
    for key in 0..BATCH {
        map.insert(key, key, Duration::from_millis(1 + mixed(key) % SPREAD));
    }
    tokio::time::sleep(Duration::from_millis(2 * SPREAD)).await;
    let start = Instant::now();
    let mut drained = 0;
    while drained < BATCH {
        // A poll that is pending has made way for other tasks.
        drained += u64::from(next_due::<M>(&mut consumer).is_some());
    }
    start.elapsed()
}

/// What one poll hands out.
fn next_due<M: Map>(consumer: &mut M::Consumer) -> Option<(u64, u64)> {
    match M::poll(consumer, &mut Context::from_waker(Waker::noop())) {
        Poll::Ready(entry) => entry,
        Poll::Pending => None,
    }
}
