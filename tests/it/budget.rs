//! What a poll takes from its task's budget, as with tokio's futures: a unit if it is ready, and nothing if it waits.

use std::future::{pending, poll_fn, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::common::{HOUR, ms, polled};
use futures::StreamExt;
use hairspring::{
    DeadlineMap, DelayQueue, Duration, Instant, Timer, boot, interval_at, sleep, sleep_until, timeout, timeout_at,
};
use tokio::task::coop;

/// How many consecutive polls are ready before the task's budget is spent.
async fn ready_until_spent(mut is_ready: impl FnMut(&mut Context<'_>) -> bool) -> usize {
    tokio::task::yield_now().await;
    poll_fn(|cx| Poll::Ready((0..10_000).take_while(|_| is_ready(cx)).count())).await
}

/// caffeine 3cf6d2937, agrona 8d05ce12: a mass expiry stalled everything else. If refusals spend budget, too, a task
/// that retries lets others run and free room.
#[tokio::test]
async fn each_ready_poll_spends_a_unit() {
    let task = tokio::spawn(async {
        let units = ready_until_spent(|cx| coop::poll_proceed(cx).map(|unit| unit.made_progress()).is_ready()).await;
        let (mut queue, (map, mut expirations)) = (DelayQueue::new(), DeadlineMap::new());
        for key in 0..1_000 {
            queue.insert(key, Duration::ZERO);
            map.insert(key, (), Duration::ZERO);
        }
        let mut late = interval_at(Instant::now() - HOUR, ms(1));
        let long_ago = Instant::now();
        // A turn has reached all of them then.
        sleep(ms(1)).await;
        let full = Timer::builder().max_pending(1).build().unwrap();
        let _first = polled(full.try_sleep(HOUR));
        macro_rules! each_spends_a_unit {
            ($(|$cx:ident| $poll:expr),* $(,)?) => {$(
                assert_eq!(ready_until_spent(|$cx| $poll.is_ready()).await, units, stringify!($poll));
            )*};
        }
        each_spends_a_unit![
            |cx| Pin::new(&mut sleep_until(long_ago)).poll(cx),
            |cx| Pin::new(&mut timeout_at(long_ago, pending::<()>())).poll(cx),
            |cx| late.poll_tick(cx),
            |cx| queue.poll_expired(cx),
            |cx| expirations.poll_next_unpin(cx),
            |cx| Pin::new(&mut full.try_sleep(HOUR)).poll(cx),
            |cx| Pin::new(&mut boot::sleep(HOUR).with_timer(&full).fallible()).poll(cx),
        ];
    });
    task.await.unwrap();
}

#[tokio::test]
async fn a_poll_that_waits_spends_nothing() {
    let task = tokio::spawn(async {
        tokio::task::yield_now().await;
        let (mut nap, mut limited) = (sleep(HOUR), timeout(HOUR, pending::<()>()));
        poll_fn(|cx| {
            for _ in 0..1_000 {
                assert!(Pin::new(&mut nap).poll(cx).is_pending() && Pin::new(&mut limited).poll(cx).is_pending());
                assert!(Pin::new(&mut timeout(HOUR, ready(()))).poll(cx).is_ready(), "a ready future is free");
            }
            assert!(coop::has_budget_remaining());
            Poll::Ready(())
        })
        .await;
    });
    task.await.unwrap();
}
