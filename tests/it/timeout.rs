//! Timeouts: the budget they spend, how they fail, and their timer. `deadline` and the fuzzer test whether future or timer
//! wins.

use std::future::{pending, poll_fn, ready};
use std::sync::Arc;
use std::task::Poll;

use crate::common::{HOUR, HUNG, both_flavours, ms, must_end, poll, poll_with, polled, spend_the_budget, undriven};
use futures::FutureExt;
use hairspring::error::Elapsed;
use hairspring::{Duration, Instant, Timer, boot, sleep, sleep_until, timeout, timeout_at, wall};
use tokio::task::coop;

/// A future that spends its task's whole budget on each poll, and is never ready.
async fn glutton() {
    poll_fn(|cx| {
        while let Poll::Ready(unit) = coop::poll_proceed(cx) {
            unit.made_progress();
        }
        Poll::<()>::Pending
    })
    .await;
}

/// tokio 4291: the timeout never checked its deadline if the inner future spent the budget.
#[test]
fn draining_the_budget_does_not_hide_the_deadline() {
    for runtime in both_flavours() {
        must_end(move || {
            let limited = runtime.spawn(async { timeout(ms(5), glutton()).await });
            assert!(runtime.block_on(limited).unwrap().is_err());
            let nested = runtime.spawn(async { timeout(ms(5), timeout(HOUR, glutton())).await });
            assert!(runtime.block_on(nested).unwrap().is_err());
            assert!(runtime.block_on(timeout(ms(5), glutton())).is_err());
            // Sleeps that are always ready spend the budget too.
            let zeros = async {
                loop {
                    sleep(Duration::ZERO).await;
                }
            };
            let limited = runtime.spawn(async { timeout(ms(5), zeros).await });
            assert!(runtime.block_on(limited).unwrap() == Err::<(), _>(Elapsed::new()));
        });
    }
}

#[tokio::test]
async fn a_budget_that_others_spent_answers_pending_once() {
    let task = tokio::spawn(async {
        let long_ago = Instant::now();
        // A turn has reached it then.
        sleep(ms(1)).await;
        for mut over in [timeout_at(long_ago, pending::<()>()).map(drop).boxed(), sleep_until(long_ago).boxed()] {
            let mut polls = 0;
            poll_fn(|cx| {
                polls += 1;
                if polls == 1 {
                    spend_the_budget();
                }
                over.poll_unpin(cx)
            })
            .await;
            assert_eq!(polls, 2, "one more poll, with a new budget");
        }
    });
    tokio::time::timeout(HUNG, task).await.unwrap().unwrap();
}

#[test]
fn a_full_timer_refuses_a_fallible_timeout_that_waits() {
    let (timer, _runtime) = undriven(Timer::builder().max_pending(1));
    let first = polled(timer.try_sleep(HOUR));
    assert_eq!(timer.timeout(HOUR, ready(1)).fallible().now_or_never(), Some(Ok(1)), "a ready future needs no room");
    let mut limited = timer.timeout(HOUR, pending::<()>()).fallible();
    for _ in 0..3 {
        assert!(matches!(poll(&mut limited), Poll::Ready(Err(error)) if error.is_at_capacity()));
    }
    drop(first);
    assert!(poll(&mut limited).is_pending(), "the timeout kept its future, and there is room again");
    assert!(timer.try_sleep(HOUR).now_or_never().is_some(), "the timeout took the room");
    drop(limited.into_inner());
    assert!(timer.try_sleep(HOUR).now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn sleeps_on_every_clock_can_be_fallible() {
    let timer = Timer::builder().max_pending(1).build().unwrap();
    let mut first = timer.sleep(HOUR).fallible();
    assert!(poll(&mut first).is_pending() && !first.is_elapsed());
    let held = Arc::new(());
    let waker = crate::common::holding(held.clone());
    let mut on_boot = boot::sleep(ms(5)).with_timer(&timer).fallible();
    let mut on_wall = wall::sleep_until(wall::now() + HOUR).with_timer(&timer).fallible();
    for _ in 0..3 {
        assert!(matches!(poll_with(&mut on_boot, &waker), Poll::Ready(Err(error)) if error.is_at_capacity()));
        assert!(matches!(poll_with(&mut on_wall, &waker), Poll::Ready(Err(error)) if error.is_at_capacity()));
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&held), 1, "a refused sleep keeps nothing");
    first.reset_at(Instant::now() + ms(5));
    assert_eq!(first.await, Ok(()));
    let start = boot::Instant::now();
    assert_eq!(on_boot.await, Ok(()), "its deadline has passed");
    assert_eq!(start.elapsed(), Duration::ZERO);
    on_wall.reset_at(wall::now() + ms(5));
    assert_eq!((on_wall.await, start.elapsed()), (Ok(()), ms(5)));
    assert_eq!(timer.metrics().pending(), 0);
}
