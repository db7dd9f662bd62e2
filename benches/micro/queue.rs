//! [`DelayQueue`](hairspring::DelayQueue) beside tokio-util's.
//!
//! - `insert_remove`: inserts an entry due in 30 to 40 s and removes it, with 0, 10,000 or 1,000,000 others in the
//!   queue, some of them due earlier;
//! - `reset`: gives one of 1, 10,000 or 1,000,000 entries, picked in no order, another deadline in 30 to 40 s;
//! - `expire`: takes out 10,000 or 1,000,000 entries that are all due, with deadlines over 50 ms, inserted in the order
//!   of their deadlines (`in_order`) or not (`scattered`); the figure is for one entry, without its insertion.
//!
//! Each runs in a task of a runtime with two workers. A queue with entries has been polled, so its timer is registered.
//! `expire` runs without a task budget, or both queues would let others run every 128 entries.
//!
//! Run `cargo bench -p micro --bench queue` in `benches`, on an idle machine.

use std::future::poll_fn;
use std::hint::black_box;
use std::task::Poll;
use std::time::{Duration, Instant};

use micro::{Run, compare, is_test};
use tokio::runtime::Runtime;
use tokio::task;

macro_rules! queue {
    ($module:ident, $($path:ident)::+) => {
        mod $module {
            use super::*;
            use $($path)::+::{DelayQueue, delay_queue::Key};

            /// A queue and its entries.
            pub struct Filled {
                queue: DelayQueue<u64>,
                keys: Vec<Key>,
            }

            impl Filled {
                /// Entries 30 s away and later, 10 us apart.
                fn new(size: u64) -> Self {
                    let mut queue = DelayQueue::new();
                    let start = Instant::now() + Duration::from_secs(30);
                    let deadline = |i| start + Duration::from_micros(10 * i);
                    let keys = (0..size).map(|i| queue.insert_at(i, deadline(i).into())).collect();
                    Filled { queue, keys }
                }
            }

            pub fn insert_remove(Filled { queue, .. }: &mut Filled, i: u64) {
                let key = queue.insert(i, varied(i));
                assert_eq!(queue.remove(black_box(&key)).into_inner(), i);
            }

            pub fn reset(Filled { queue, keys }: &mut Filled, i: u64) {
                let any = (i * 7_919) as usize % keys.len();
                queue.reset(black_box(&keys[any]), varied(i));
            }

            /// Repeats an operation on a queue of `size` entries within one poll of a task.
            pub fn repeat(runtime: &Runtime, size: u64, operation: fn(&mut Filled, u64)) -> impl FnMut(u64) -> Duration {
                let mut kept = None;
                move |iters| {
                    // Created when it is first measured, because its entries come nearer. Tokio-util's queue needs a
                    // runtime.
                    let mut filled = kept.take().unwrap_or_else(|| runtime.block_on(async { Filled::new(size) }));
                    let task = runtime.spawn(async move {
                        let taken = poll_fn(|cx| {
                            let polled = filled.queue.poll_expired(cx);
                            assert!(!matches!(polled, Poll::Ready(Some(_))), "nothing is due");
                            let start = Instant::now();
                            (0..iters).for_each(|i| operation(&mut filled, i));
                            Poll::Ready(start.elapsed())
                        });
                        (taken.await, filled)
                    });
                    let (taken, filled) = runtime.block_on(task).expect("no operation panics");
                    kept = Some(filled);
                    taken
                }
            }

            /// Inserts `size` entries and takes them out when they are due; returns how long that took. Entries inserted
            /// one after another are `step` apart in the order of their deadlines.
            pub fn expire(runtime: &Runtime, size: u64, step: u64) -> Duration {
                const SPAN: u64 = 50_000_000;
                let expire = async move {
                    let mut queue = DelayQueue::new();
                    // None is due before all are inserted.
                    let start = Instant::now() + Duration::from_millis(50) + Duration::from_nanos(size * 1_000);
                    for i in 0..size {
                        let deadline = start + Duration::from_nanos((i * step) % size * (SPAN / size));
                        queue.insert_at(i, deadline.into());
                    }
                    poll_fn(|cx| Poll::Ready(assert!(queue.poll_expired(cx).is_pending(), "nothing is due yet"))).await;
                    let all_due = start + Duration::from_nanos(SPAN) + Duration::from_millis(5);
                    tokio::time::sleep_until(all_due.into()).await;
                    let start = Instant::now();
                    for _ in 0..size {
                        poll_fn(|cx| queue.poll_expired(cx)).await.expect("there are more");
                    }
                    start.elapsed()
                };
                runtime.block_on(runtime.spawn(task::unconstrained(expire))).expect("nothing panics")
            }
        }
    };
}

queue!(ours, hairspring);
queue!(theirs, tokio_util::time);

fn main() {
    let sizes = if is_test() { &[0, 10_000][..] } else { &[0, 10_000, 1_000_000] };
    let runtime = micro::runtime(2);
    let bench = |row: &str, operations, ours: Run<'_>, theirs: Run<'_>| {
        compare(row, operations, &mut [("hairspring", ours), ("tokio-util", theirs)]);
    };
    for &size in sizes {
        let ours = &mut ours::repeat(&runtime, size, ours::insert_remove);
        let theirs = &mut theirs::repeat(&runtime, size, theirs::insert_remove);
        bench(&format!("insert_remove/{size}"), 1, ours, theirs);
    }
    for size in sizes.iter().map(|&size| size.max(1)) {
        let ours = &mut ours::repeat(&runtime, size, ours::reset);
        let theirs = &mut theirs::repeat(&runtime, size, theirs::reset);
        bench(&format!("reset/{size}"), 1, ours, theirs);
    }
    for &size in &sizes[1..] {
        for (order, step) in [("in_order", 1), ("scattered", 1_000_003)] {
            let ours = &mut |iters| (0..iters).map(|_| ours::expire(&runtime, size, step)).sum();
            let theirs = &mut |iters| (0..iters).map(|_| theirs::expire(&runtime, size, step)).sum();
            bench(&format!("expire/{size}_{order}"), size, ours, theirs);
        }
    }
}

/// 30 to 40 s, in no order.
fn varied(i: u64) -> Duration {
    Duration::from_micros(30_000_000 + (i * 1_000_003) % 10_000_000)
}
