//! The operations of a `DelayQueue`, each within one poll of a task.

use std::future::poll_fn;
use std::hint::black_box;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::task;

use crate::session::Session;
use crate::{mixed, runtime};

/// The deadlines of those that are taken out are over so much time.
const SPAN: Duration = Duration::from_millis(20);

trait Queue: Send + 'static {
    type Key: Send;

    fn create() -> Self;
    fn put_at(&mut self, value: u64, deadline: Instant) -> Self::Key;
    fn put(&mut self, value: u64, duration: Duration) -> Self::Key;
    fn take(&mut self, key: &Self::Key) -> u64;
    fn postpone(&mut self, key: &Self::Key, duration: Duration);
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<u64>>;
}

macro_rules! queue {
    ($($path:ident)::+) => {
        impl Queue for $($path)::+::DelayQueue<u64> {
            type Key = $($path)::+::delay_queue::Key;

            fn create() -> Self {
                Self::new()
            }

            fn put_at(&mut self, value: u64, deadline: Instant) -> Self::Key {
                self.insert_at(value, deadline.into())
            }

            fn put(&mut self, value: u64, duration: Duration) -> Self::Key {
                self.insert(value, duration)
            }

            fn take(&mut self, key: &Self::Key) -> u64 {
                self.remove(key).into_inner()
            }

            fn postpone(&mut self, key: &Self::Key, duration: Duration) {
                self.reset(key, duration);
            }

            fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<u64>> {
                self.poll_expired(cx).map(|expired| expired.map($($path)::+::delay_queue::Expired::into_inner))
            }
        }
    };
}

queue!(hairspring);
queue!(tokio_util::time);

type Ours = hairspring::DelayQueue<u64>;
type Theirs = tokio_util::time::DelayQueue<u64>;

pub(crate) fn run(session: &mut Session) {
    session.group("DelayQueue, beside tokio-util's");
    let (turn, entries) = (session.options.turn, session.options.entries);
    for entries in [0, entries] {
        session.compare(&[format!("insert and remove, {entries} others")], || {
            (turns(entries, turn, insert_remove::<Ours>), turns(entries, turn, insert_remove::<Theirs>))
        });
    }
    session.compare(&[format!("reset one of {entries}")], || {
        (turns(entries, turn, reset::<Ours>), turns(entries, turn, reset::<Theirs>))
    });
    for (is_mixed, order) in [(false, "in order"), (true, "in no order")] {
        session.compare(&[format!("drain {entries}, inserted {order}: each")], || {
            (drain::<Ours>(entries, is_mixed), drain::<Theirs>(entries, is_mixed))
        });
    }
}

struct Filled<Q: Queue> {
    queue: Q,
    keys: Vec<Q::Key>,
}

impl<Q: Queue> Filled<Q> {
    /// Entries 30 s away and later, 10 us apart.
    fn new(entries: u64) -> Self {
        let mut queue = Q::create();
        let start = Instant::now() + Duration::from_secs(30);
        let keys = (0..entries).map(|i| queue.put_at(i, start + Duration::from_micros(10 * i))).collect();
        Filled { queue, keys }
    }
}

fn insert_remove<Q: Queue>(Filled { queue, .. }: &mut Filled<Q>, i: u64) {
    let key = queue.put(i, varied(i));
    assert_eq!(queue.take(black_box(&key)), i);
}

fn reset<Q: Queue>(Filled { queue, keys }: &mut Filled<Q>, i: u64) {
    let any = mixed(i) as usize % keys.len();
    queue.postpone(black_box(&keys[any]), varied(i));
}

/// 30 to 40 s, in no order.
fn varied(i: u64) -> Duration {
    Duration::from_micros(30_000_000 + (i * 1_000_003) % 10_000_000)
}

/// Repeats an operation on a queue with entries that was polled, so its timer is registered.
fn turns<Q: Queue>(
    entries: u64,
    turn: Duration,
    operation: impl Fn(&mut Filled<Q>, u64) + Copy + Send + Sync + 'static,
) -> impl FnMut() -> Vec<f64> {
    let runtime = runtime();
    // tokio-util's queue needs a runtime.
    let mut kept = Some(runtime.block_on(async { Filled::<Q>::new(entries) }));
    move || {
        let mut filled = kept.take().expect("it was put back");
        let task = runtime.spawn(async move {
            let measured = poll_fn(|cx| {
                assert!(!matches!(filled.queue.poll(cx), Poll::Ready(Some(_))), "nothing is due");
                let (start, mut operations) = (Instant::now(), 0);
                loop {
                    (operations..operations + 1_000).for_each(|i| operation(&mut filled, i));
                    operations += 1_000;
                    let elapsed = start.elapsed();
                    if elapsed >= turn {
                        return Poll::Ready(elapsed.as_nanos() as f64 / operations as f64);
                    }
                }
            });
            (measured.await, filled)
        });
        let (figure, filled) = runtime.block_on(task).expect("nothing panics");
        kept = Some(filled);
        vec![figure]
    }
}

/// Inserts entries, and takes them out once all are due. Only the latter counts.
fn drain<Q: Queue>(entries: u64, is_mixed: bool) -> impl FnMut() -> Vec<f64> {
    let runtime = runtime();
    move || {
        let drain = async move {
            let mut queue = Q::create();
            // Hardly any is due before all are inserted.
            let start = Instant::now() + Duration::from_millis(10) + Duration::from_nanos(entries * 1_000);
            for i in 0..entries {
                let place = if is_mixed { mixed(i) % entries } else { i };
                queue.put_at(i, start + SPAN.mul_f64(place as f64 / entries as f64));
            }
            let all_due = start + SPAN + Duration::from_millis(5);
            // The queue's timer is registered.
            let first = poll_fn(|cx| Poll::Ready(queue.poll(cx))).await;
            let mut left = entries - u64::from(matches!(first, Poll::Ready(Some(_))));
            tokio::time::sleep_until(all_due.into()).await;
            let start = Instant::now();
            while let Some(value) = poll_fn(|cx| queue.poll(cx)).await {
                black_box(value);
                left -= 1;
            }
            assert_eq!(left, 0, "all are due");
            start.elapsed()
        };
        // With a budget, both queues would let others run every 128 entries.
        let taken = runtime.block_on(runtime.spawn(task::unconstrained(drain))).expect("nothing panics");
        vec![taken.as_nanos() as f64 / entries as f64]
    }
}
