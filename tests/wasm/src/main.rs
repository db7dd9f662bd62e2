//! What works on a system without threads: timers within a tokio runtime that has `enable_time`.

use std::task::{Context, Poll, Waker};

use futures::StreamExt;
use hairspring::{DeadlineMap, DelayQueue, Duration, Instant, Timer, interval, sleep, timeout};

const MS: Duration = Duration::from_millis(1);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let start = Instant::now();
    sleep(10 * MS).await;
    assert!(start.elapsed() >= 10 * MS, "early");
    assert!(timeout(MS, std::future::pending::<()>()).await.is_err());
    let mut ticks = interval(MS);
    for _ in 0..5 {
        ticks.tick().await;
    }

    // Earlier timers come while a later one waits, from several tasks.
    let far = tokio::spawn(sleep(3_600_000 * MS));
    let sleeps: Vec<_> = (1..50).rev().map(|n| tokio::spawn(sleep(n * MS))).collect();
    for sleep in sleeps {
        sleep.await.unwrap();
    }
    far.abort();

    let mut queue = DelayQueue::new();
    let now = Instant::now();
    queue.insert_at("second", now + 4 * MS);
    queue.insert_at("first", now + 2 * MS);
    assert_eq!(queue.next().await.unwrap().into_inner(), "first");
    assert_eq!(queue.next().await.unwrap().into_inner(), "second");
    let (map, mut expired) = DeadlineMap::new();
    map.insert("key", 7, 2 * MS);
    assert_eq!(expired.next().await, Some(("key", 7)));

    let timer = Timer::builder().build().unwrap();
    timer.sleep(3 * MS).await;
    let mut waits = timer.sleep(3_600_000 * MS);
    assert_eq!(Future::poll(std::pin::Pin::new(&mut waits), &mut Context::from_waker(Waker::noop())), Poll::Pending);
    assert_eq!(timer.shutdown(), 1);
    println!("all timers fired");
}
