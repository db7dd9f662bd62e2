//! A `DeadlineMap` beside its usual replacement: a mutex around tokio-util's `DelayQueue` and a `HashMap`.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use futures_core::Stream;
use hairspring::{DeadlineMap, Expirations};
use tokio_util::time::{DelayQueue, delay_queue};

use crate::session::Session;
use crate::{mixed, runtime};

/// Nothing expires: the consumer waits.
const AWAY: Duration = Duration::from_secs(600);

/// A value is a handle, and a map's key is its value.
trait Map: Clone + Send + Sync + 'static {
    type Consumer: Send + 'static;

    fn create() -> (Self, Self::Consumer);
    fn put(&self, key: u64);
    fn read(&self, key: u64) -> Option<u64>;
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

    fn read(&self, key: u64) -> Option<u64> {
        self.get(&key)
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

/// As in tokio-util's documentation of its queue.
#[derive(Default)]
struct Cache {
    entries: HashMap<u64, (u64, delay_queue::Key)>,
    expirations: DelayQueue<u64>,
}

type Locked = Arc<Mutex<Cache>>;

impl Map for Locked {
    type Consumer = Locked;

    fn create() -> (Self, Self::Consumer) {
        let cache = Locked::default();
        (Arc::clone(&cache), cache)
    }

    fn put(&self, key: u64) {
        let Cache { entries, expirations } = &mut *self.lock().unwrap();
        if let Some((_, replaced)) = entries.insert(key, (key, expirations.insert(key, AWAY))) {
            expirations.remove(&replaced);
        }
    }

    fn read(&self, key: u64) -> Option<u64> {
        self.lock().unwrap().entries.get(&key).map(|(value, _)| *value)
    }

    fn postpone(&self, key: u64) -> bool {
        let Cache { entries, expirations } = &mut *self.lock().unwrap();
        entries.get(&key).inspect(|(_, found)| expirations.reset(found, AWAY)).is_some()
    }

    fn take(&self, key: u64) -> bool {
        let Cache { entries, expirations } = &mut *self.lock().unwrap();
        let found = entries.remove(&key).map(|(_, found)| expirations.remove(&found));
        found.is_some()
    }

    fn poll(consumer: &mut Self::Consumer, cx: &mut Context<'_>) -> Poll<Option<(u64, u64)>> {
        let Cache { entries, expirations } = &mut *consumer.lock().unwrap();
        // An empty queue is not the end.
        let Poll::Ready(Some(expired)) = expirations.poll_expired(cx) else { return Poll::Pending };
        let key = expired.into_inner();
        Poll::Ready(entries.remove(&key).map(|(value, _)| (key, value)))
    }
}

#[derive(Clone, Copy)]
enum Operation {
    InsertRemove,
    Touch,
    Get,
}

pub(crate) fn run(session: &mut Session) {
    session.group("DeadlineMap, beside Mutex<(HashMap, DelayQueue)>");
    let (turn, entries) = (session.options.turn, session.options.entries);
    for threads in [1, 2] {
        let plural = if threads == 1 { "" } else { "s at the same time" };
        for (operation, named) in
            [(Operation::InsertRemove, "insert and remove"), (Operation::Touch, "touch"), (Operation::Get, "get")]
        {
            session.compare(&[format!("{named}, {threads} thread{plural}")], || {
                let ours = turns::<DeadlineMap<u64, u64>>(operation, threads, entries, turn);
                (ours, turns::<Locked>(operation, threads, entries, turn))
            });
        }
    }
}

fn turns<M: Map>(operation: Operation, threads: u64, entries: u64, turn: Duration) -> impl FnMut() -> Vec<f64> {
    let runtime = runtime();
    let entered = runtime.enter();
    let (map, mut consumer) = M::create();
    (0..entries).for_each(|key| map.put(key));
    runtime.spawn(poll_fn(move |cx| M::poll(&mut consumer, cx)));
    drop(entered);
    let mut done = 0;
    move || {
        done += 1;
        let start_line = Barrier::new(threads as usize);
        let run = |thread: u64| {
            let _entered = runtime.enter();
            let first = (done << 40) + (thread << 32);
            start_line.wait();
            measure(turn, first, |i| match operation {
                Operation::InsertRemove => {
                    // A new key that no other thread has.
                    let key = entries + threads * (mixed(i) >> 8) + thread;
                    map.put(key);
                    assert!(map.take(black_box(key)));
                }
                Operation::Touch => assert!(map.postpone(mixed(i) % entries)),
                Operation::Get => assert!(black_box(map.read(mixed(i) % entries)).is_some()),
            })
        };
        let figures: f64 = thread::scope(|scope| {
            let run = &run;
            let spawned: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            spawned.into_iter().map(|thread| thread.join().expect("nothing panics")).sum()
        });
        vec![figures / threads as f64]
    }
}

/// Nanoseconds per operation.
fn measure(turn: Duration, first: u64, operation: impl Fn(u64)) -> f64 {
    let (start, mut operations) = (Instant::now(), 0);
    loop {
        (first + operations..first + operations + 1_000).for_each(&operation);
        operations += 1_000;
        let elapsed = start.elapsed();
        if elapsed >= turn {
            return elapsed.as_nanos() as f64 / operations as f64;
        }
    }
}
