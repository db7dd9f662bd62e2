//! [`DelayQueue`](hairspring::DelayQueue) beside tokio-util's, in the same run.
//!
//! - `insert_remove`: puts an entry in, 30 to 40 s ahead, and takes it out again, with 0, 10,000 or 1,000,000 others in
//!   the queue, of which some are due before it;
//! - `insert_remove_first`: the same if all others are due later, so that the entry is the first while it is in;
//! - `reset`: gives one of 1, 10,000 or 1,000,000 entries, taken in no order, another deadline 30 to 40 s ahead;
//! - `expire`: hands out 10,000 or 1,000,000 entries that are all due, with deadlines over 50 ms that came in their
//!   order (`in_order`, as entries of one length do) or in none (`scattered`); the cost of one entry, without its
//!   insertion. Here the task has no budget, or both would have to let others run every 128 entries;
//! - `fill`: puts those entries in, at instants, so that no clock is read.
//!
//! All of it in a task of a runtime with two workers, within one poll of the task. A queue that has entries was polled
//! before, so that it has a timer on the runtime.
//!
//! # With a standing timer and with none
//! Tokio-util's queue makes a timer whenever another entry becomes the first. What tokio takes for that depends on
//! whether an earlier timer is pending on the runtime (`standing`, as there nearly always is in a program that uses
//! timers) or not (`none`), so what may touch a timer is measured in both states.
//!
//! # Running it
//! `cargo bench --bench queue` in `benches`, on a machine that does nothing else. `-- reset` runs the rows with that in
//! their name; with `-- --test` each operation runs once, to see that it does.

use std::future::poll_fn;
use std::hint::black_box;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use criterion::Criterion;
use micro::{compare, criterion, is_test, print, record, stand};
use tokio::runtime::{Builder, Runtime};
use tokio::task;

/// What both contenders can do.
trait Queue: Send + Sized + 'static {
    const NAME: &str;
    type Key: Copy + Send;

    fn new() -> Self;
    fn insert(&mut self, value: u64, timeout: Duration) -> Self::Key;
    fn insert_at(&mut self, value: u64, when: Instant) -> Self::Key;
    fn remove(&mut self, key: Self::Key) -> u64;
    fn reset(&mut self, key: Self::Key, timeout: Duration);
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<u64>>;
}

macro_rules! queue {
    ($queue:ty, $key:ty, $name:literal) => {
        impl Queue for $queue {
            const NAME: &str = $name;
            type Key = $key;

            fn new() -> Self {
                <$queue>::new()
            }

            fn insert(&mut self, value: u64, timeout: Duration) -> Self::Key {
                self.insert(value, timeout)
            }

            fn insert_at(&mut self, value: u64, when: Instant) -> Self::Key {
                self.insert_at(value, when.into())
            }

            fn remove(&mut self, key: Self::Key) -> u64 {
                self.remove(&key).into_inner()
            }

            fn reset(&mut self, key: Self::Key, timeout: Duration) {
                self.reset(&key, timeout);
            }

            fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<u64>> {
                self.poll_expired(cx).map(|expired| expired.map(|expired| expired.into_inner()))
            }
        }
    };
}

type Ours = hairspring::DelayQueue<u64>;
type Theirs = tokio_util::time::DelayQueue<u64>;

queue!(Ours, hairspring::delay_queue::Key, "hairspring");
queue!(Theirs, tokio_util::time::delay_queue::Key, "tokio-util");

const SIZES: [u64; 3] = [0, 10_000, 1_000_000];

/// How far ahead the entries begin that are in the queue: before the one that is put in, or after it.
const AMONG: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_mins(1);

fn main() {
    let (sizes, samples) = if is_test() { (&SIZES[..2], 1) } else { (&SIZES[..], 7) };
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let mut criterion = criterion(30);
    for standing in [true, false] {
        let state = if standing { "standing" } else { "none" };
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        if standing {
            let _standing = runtime.block_on(stand());
        }
        for &size in sizes {
            let row = format!("insert_remove/{size}/{state}");
            bench(&mut criterion, &row, size, AMONG, &runtime, insert_remove::<Ours>, insert_remove::<Theirs>);
            if size > 0 {
                let row = format!("insert_remove_first/{size}/{state}");
                bench(&mut criterion, &row, size, LATER, &runtime, insert_remove::<Ours>, insert_remove::<Theirs>);
            }
            let row = format!("reset/{}/{state}", size.max(1));
            bench(&mut criterion, &row, size.max(1), AMONG, &runtime, reset::<Ours>, reset::<Theirs>);
        }
        // By hand: criterion would take many more samples, each of which takes a second to set up.
        for &size in &sizes[1..] {
            for (order, step) in [("in_order", 1), ("scattered", 1_000_003)] {
                let rows = ["fill", "expire"].map(|part| format!("{part}/{size}_{order}/{state}"));
                for _ in 0..if rows.iter().any(|row| row.contains(&wanted)) { samples } else { 0 } {
                    let ours = expire::<Ours>(&runtime, size, step);
                    let theirs = expire::<Theirs>(&runtime, size, step);
                    for (part, row) in rows.iter().enumerate() {
                        record(row, Ours::NAME, size, ours[part]);
                        record(row, Theirs::NAME, size, theirs[part]);
                    }
                }
            }
        }
    }
    criterion.final_summary();
    print(Theirs::NAME);
}

/// Has both do an operation on a queue with `size` entries.
fn bench(
    criterion: &mut Criterion,
    row: &str,
    size: u64,
    ahead: Duration,
    runtime: &Runtime,
    ours: fn(&mut Filled<Ours>, u64),
    theirs: fn(&mut Filled<Theirs>, u64),
) {
    let (mut ours, mut theirs) = (sampler(size, ahead, runtime, ours), sampler(size, ahead, runtime, theirs));
    compare(criterion, row, &mut [(Ours::NAME, &mut ours), (Theirs::NAME, &mut theirs)]);
}

fn sampler<Q: Queue>(
    size: u64,
    ahead: Duration,
    runtime: &Runtime,
    operation: fn(&mut Filled<Q>, u64),
) -> impl FnMut(u64) -> Duration {
    let mut kept = None;
    move |iters| {
        // Made when it is measured, as its entries come nearer. Tokio-util's queue can be filled inside a runtime only.
        let mut filled = kept.take().unwrap_or_else(|| runtime.block_on(async { Filled::<Q>::new(size, ahead) }));
        let task = runtime.spawn(async move {
            let taken = poll_fn(|cx| {
                match filled.queue.poll(cx) {
                    Poll::Pending => assert!(!filled.keys.is_empty()),
                    Poll::Ready(expired) => assert!(expired.is_none() && filled.keys.is_empty(), "nothing is due"),
                }
                let start = Instant::now();
                for i in 0..iters {
                    operation(&mut filled, i);
                }
                Poll::Ready(start.elapsed())
            })
            .await;
            (taken, filled)
        });
        let (taken, filled) = runtime.block_on(task).expect("no operation panics");
        kept = Some(filled);
        taken
    }
}

/// A queue, and what is in it.
struct Filled<Q: Queue> {
    queue: Q,
    keys: Vec<Q::Key>,
}

impl<Q: Queue> Filled<Q> {
    /// Entries from `ahead` on, 10 us apart.
    fn new(size: u64, ahead: Duration) -> Self {
        let mut queue = Q::new();
        let start = Instant::now() + ahead;
        let keys = (0..size).map(|i| queue.insert_at(i, start + Duration::from_micros(10 * i))).collect();
        Filled { queue, keys }
    }
}

/// 30 to 40 s, in no order.
fn varied(i: u64) -> Duration {
    Duration::from_micros(30_000_000 + (i * 1_000_003) % 10_000_000)
}

fn insert_remove<Q: Queue>(Filled { queue, .. }: &mut Filled<Q>, i: u64) {
    let key = queue.insert(i, varied(i));
    assert_eq!(queue.remove(black_box(key)), i);
}

fn reset<Q: Queue>(Filled { queue, keys }: &mut Filled<Q>, i: u64) {
    let any = usize::try_from(i * 7_919).expect("64 bits") % keys.len();
    queue.reset(black_box(keys[any]), varied(i));
}

/// Puts `size` entries in and hands them out when they are due, and returns how long both took. Those inserted one after
/// the other are `step` apart in the order of their deadlines.
fn expire<Q: Queue>(runtime: &Runtime, size: u64, step: u64) -> [Duration; 2] {
    let expire = runtime.spawn(task::unconstrained(expire_in_task::<Q>(size, step)));
    runtime.block_on(expire).expect("it is handed out")
}

async fn expire_in_task<Q: Queue>(size: u64, step: u64) -> [Duration; 2] {
    const SPAN: u64 = 50_000_000;
    let mut queue = Q::new();
    // None is to be due before all are in.
    let filling = Instant::now();
    let start = filling + Duration::from_millis(20) + Duration::from_nanos(size * 1_000);
    for i in 0..size {
        queue.insert_at(i, start + Duration::from_nanos((i * step) % size * (SPAN / size)));
    }
    let filled = filling.elapsed();
    poll_fn(|cx| {
        assert!(queue.poll(cx).is_pending(), "nothing is due yet");
        Poll::Ready(())
    })
    .await;
    tokio::time::sleep_until((start + Duration::from_nanos(SPAN) + Duration::from_millis(5)).into()).await;
    let start = Instant::now();
    let mut handed_out = 0;
    while poll_fn(|cx| queue.poll(cx)).await.is_some() {
        handed_out += 1;
    }
    let taken = start.elapsed();
    assert_eq!(handed_out, size);
    [filled, taken]
}
