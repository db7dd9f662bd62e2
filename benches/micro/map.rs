//! [`DeadlineMap`] beside its usual replacement: a mutex around tokio-util's `DelayQueue` and a `HashMap` to its keys.
//!
//! - `touch`: postpones the deadline of one of 10,000 or 1,000,000 keys, picked in no order;
//! - `insert_remove`: inserts a new key and removes it, with 0, 10,000 or 1,000,000 others in the map.
//!
//! Each runs on one thread, or on two at the same time; with two, the figure is the time per operation of one thread. A
//! consumer waits on the runtime. Deadlines are ten minutes away, so it has nothing to do.
//!
//! Run `cargo bench -p micro --bench map` in `benches`. On a busy machine the two threads take turns.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use futures::Stream;
use hairspring::{DeadlineMap, Expirations};
use micro::{compare, is_test};
use tokio::runtime::Runtime;
use tokio_util::time::{DelayQueue, delay_queue};

const AWAY: Duration = Duration::from_mins(10);

/// The operations of both contenders. A value is a handle.
trait Map: Clone + Send + Sync + 'static {
    type Consumer: Send + 'static;

    fn create() -> (Self, Self::Consumer);
    fn put(&self, key: u64);
    fn postpone(&self, key: u64) -> bool;
    fn take(&self, key: u64) -> bool;
    fn poll(consumer: &mut Self::Consumer, cx: &mut Context<'_>) -> Poll<Option<(u64, u64)>>;
}

impl Map for DeadlineMap<u64, u64> {
    type Consumer = Expirations<u64, u64>;

    fn create() -> (Self, Self::Consumer) {
        DeadlineMap::new()
    }

    fn put(&self, key: u64) {
        self.insert(key, key, AWAY);
    }

    fn postpone(&self, key: u64) -> bool {
        self.touch(&key, AWAY)
    }

    fn take(&self, key: u64) -> bool {
        self.remove(&key).is_some()
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
    type Consumer = Locked;

    fn create() -> (Self, Self::Consumer) {
        let queue = Locked::default();
        (Arc::clone(&queue), queue)
    }

    fn put(&self, key: u64) {
        let Queue { keys, queue } = &mut *self.lock().unwrap();
        if let Some(replaced) = keys.insert(key, queue.insert((key, key), AWAY)) {
            queue.remove(&replaced);
        }
    }

    fn postpone(&self, key: u64) -> bool {
        let Queue { keys, queue } = &mut *self.lock().unwrap();
        keys.get(&key).inspect(|found| queue.reset(found, AWAY)).is_some()
    }

    fn take(&self, key: u64) -> bool {
        let Queue { keys, queue } = &mut *self.lock().unwrap();
        let found = keys.remove(&key).map(|found| queue.remove(&found));
        found.is_some()
    }

    fn poll(consumer: &mut Self::Consumer, cx: &mut Context<'_>) -> Poll<Option<(u64, u64)>> {
        let Queue { keys, queue } = &mut *consumer.lock().unwrap();
        // An empty queue is not the end.
        let Poll::Ready(Some(expired)) = queue.poll_expired(cx) else { return Poll::Pending };
        let (key, value) = expired.into_inner();
        keys.remove(&key);
        Poll::Ready(Some((key, value)))
    }
}

fn main() {
    for &size in if is_test() { &[0, 10_000][..] } else { &[0, 10_000, 1_000_000] } {
        let (ours, theirs) = (Filled::<DeadlineMap<u64, u64>>::new(size), Filled::<Locked>::new(size));
        for threads in [1, 2] {
            if size > 0 {
                let row = format!("touch/{size}/{threads}_threads");
                bench(&row, |n| ours.touch(threads, n), |n| theirs.touch(threads, n));
            }
            let row = format!("insert_remove/{size}/{threads}_threads");
            bench(&row, |n| ours.insert_remove(threads, n), |n| theirs.insert_remove(threads, n));
        }
    }
}

fn bench(row: &str, mut ours: impl FnMut(u64) -> Duration, mut theirs: impl FnMut(u64) -> Duration) {
    compare(row, 1, &mut [("DeadlineMap", &mut ours), ("Mutex<DelayQueue>", &mut theirs)]);
}

/// A map with entries, and a consumer that waits.
struct Filled<M> {
    runtime: Runtime,
    map: M,
    size: u64,
    /// How many operations a thread has done: the next ones use other keys.
    done: AtomicU64,
}

impl<M: Map> Filled<M> {
    fn new(size: u64) -> Self {
        let runtime = micro::runtime(1);
        let entered = runtime.enter();
        let (map, mut consumer) = M::create();
        (0..size).for_each(|key| map.put(key));
        runtime.spawn(poll_fn(move |cx| M::poll(&mut consumer, cx)));
        drop(entered);
        Filled { runtime, map, size, done: AtomicU64::new(0) }
    }

    fn touch(&self, threads: u64, iters: u64) -> Duration {
        self.on_threads(threads, iters, |map, key, _| assert!(map.postpone(key % self.size)))
    }

    fn insert_remove(&self, threads: u64, iters: u64) -> Duration {
        self.on_threads(threads, iters, |map, key, thread| {
            // A new key that no other thread has.
            let key = self.size + 2 * (key >> 32) + thread;
            map.put(key);
            assert!(map.take(black_box(key)));
        })
    }

    /// Lets each thread do the operation with keys in no order, and returns how long that took as a mean of the threads.
    fn on_threads(&self, threads: u64, iters: u64, operation: impl Fn(&M, u64, u64) + Sync) -> Duration {
        let first = self.done.fetch_add(iters, Relaxed);
        let start_line = Barrier::new(threads as usize);
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
        taken / threads as u32
    }
}

/// A number that looks random.
fn mixed(i: u64) -> u64 {
    let mixed = (i ^ (i >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
