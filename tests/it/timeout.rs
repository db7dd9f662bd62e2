//! Timeouts: whether the future or the timer comes first, what budget they spend, and what they return.

use std::error::Error;
use std::fmt::Debug;
use std::future::{Future, IntoFuture, Pending, Ready, pending, poll_fn, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::common::{HOUR, HUNG, Wakes, YEAR, both_flavours, longest, ms, must_end, paused, poll, poll_with, settle};
use hairspring::error::Elapsed;
use hairspring::{Duration, Instant, Timeout, sleep, sleep_until, timeout, timeout_at};
use tokio::task::coop;

#[tokio::test(start_paused = true)]
async fn whichever_comes_first_decides() {
    let start = Instant::now();
    assert_eq!(timeout(ms(100), async { 1 }).await, Ok(1));
    assert_eq!(start.elapsed(), ms(0));
    let inner = async {
        sleep(ms(30)).await;
        2
    };
    assert_eq!(timeout(ms(100), inner).await, Ok(2));
    assert_eq!(start.elapsed(), ms(30));
    assert_eq!(timeout(ms(70), sleep(ms(100))).await, Err(Elapsed::new()));
    assert_eq!(start.elapsed(), ms(100));
    assert!(timeout_at(start + ms(150), pending::<()>()).await.is_err());
    assert_eq!(start.elapsed(), ms(150));
}

#[tokio::test(start_paused = true)]
async fn the_future_comes_first_where_both_are_ready() {
    let now = Instant::now();
    assert_eq!(timeout(Duration::ZERO, ready(1)).await, Ok(1));
    assert_eq!(timeout_at(now - HOUR, ready(2)).await, Ok(2));
    assert_eq!(timeout_at(now - HOUR, async { 3 }).await, Ok(3));
    let deadline = now + ms(10);
    assert_eq!(timeout_at(deadline, sleep_until(deadline)).await, Ok(()), "both are due at the same instant");
    let mut late = timeout(ms(10), sleep(ms(20)));
    assert!(poll(&mut late).is_pending());
    tokio::time::advance(ms(30)).await;
    assert_eq!(poll(&mut late), Poll::Ready(Ok(())), "both are over when it is polled");
}

#[tokio::test(start_paused = true)]
async fn zero_or_past_gives_up_at_the_first_poll() {
    assert_eq!(poll(&mut timeout(Duration::ZERO, pending::<()>())), Poll::Ready(Err(Elapsed::new())));
    let past = Instant::now() - HOUR;
    assert_eq!(poll(&mut timeout_at(past, pending::<()>())), Poll::Ready(Err(Elapsed::new())));
}

#[tokio::test(start_paused = true)]
async fn the_time_counts_from_creation() {
    let start = Instant::now();
    let limited = timeout(ms(100), pending::<()>());
    tokio::time::advance(ms(60)).await;
    assert!(limited.await.is_err());
    assert_eq!(start.elapsed(), ms(100));
}

#[tokio::test]
async fn a_future_that_is_ready_at_once_never_touches_a_timer() {
    for limit in [Duration::ZERO, ms(1), HOUR, Duration::MAX] {
        assert_eq!(timeout(limit, ready(7)).await, Ok(7));
        assert_eq!(timeout_at(Instant::now() + limit, async { 8 }).await, Ok(8));
    }
    let registered = || hairspring::Timer::current().metrics().registered();
    assert_eq!(registered(), 0);
    assert!(poll(&mut timeout(HOUR, pending::<()>())).is_pending());
    assert_eq!(registered(), 1, "one that waits does");
}

#[tokio::test(start_paused = true)]
async fn the_future_inside_can_be_seen_changed_and_had_back() {
    let mut limited = timeout(ms(10), Box::pin(sleep(ms(500))));
    assert!(!limited.get_ref().is_elapsed());
    assert!(poll(&mut limited).is_pending());
    let now = Instant::now();
    limited.get_mut().as_mut().reset(now + ms(5));
    assert_eq!(limited.get_ref().deadline(), now + ms(5));
    let inner = limited.into_inner();
    tokio::time::advance(ms(5)).await;
    assert!(futures::poll!(inner).is_ready(), "without its limit");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_can_be_seen_and_moved() {
    let now = Instant::now();
    assert_eq!(timeout(ms(25), ready(())).deadline(), now + ms(25));
    let mut limited = timeout_at(now + ms(10), pending::<()>());
    assert_eq!(limited.deadline(), now + ms(10));

    let (woken, waker) = Wakes::new();
    assert!(poll_with(&mut limited, &waker).is_pending());
    limited.reset_at(now + ms(300));
    assert_eq!(limited.deadline(), now + ms(300));
    tokio::time::advance(ms(200)).await;
    settle().await;
    assert_eq!(woken.count(), 0, "the old deadline is forgotten");
    tokio::time::advance(ms(100)).await;
    settle().await;
    assert_eq!(woken.count(), 1, "woken at the new one, without another poll");
    assert!(poll(&mut limited).is_ready());

    let mut limited = timeout(HOUR, pending::<()>());
    assert!(poll_with(&mut limited, &waker).is_pending());
    limited.reset_at(Instant::now() - ms(1));
    settle().await;
    assert_eq!(woken.count(), 2, "into the past: at once");
    assert!(limited.await.is_err());
}

/// tokio 5183: a timeout of `Duration::MAX` panicked.
#[tokio::test(start_paused = true)]
async fn the_longest_limits_neither_panic_nor_end() {
    for long in longest() {
        let inner = async {
            sleep(YEAR).await;
            long
        };
        assert_eq!(timeout(long, inner).await, Ok(long));
        let now = Instant::now();
        let mut limited = timeout_at(now + long, pending::<()>());
        assert!(poll(&mut limited).is_pending() && limited.deadline() > now + 100 * YEAR);
        let mut reset = timeout(ms(1), pending::<()>());
        assert!(poll(&mut reset).is_pending());
        reset.reset_at(now + long);
        tokio::time::advance(YEAR).await;
        settle().await;
        assert!(poll(&mut limited).is_pending() && poll(&mut reset).is_pending());
    }
}

/// A future that spends its task's whole budget at each poll, and is never ready.
async fn glutton() {
    poll_fn(|cx| {
        while let Poll::Ready(unit) = coop::poll_proceed(cx) {
            unit.made_progress();
        }
        Poll::<()>::Pending
    })
    .await;
}

/// tokio 4291: the timeout never looked at its deadline if the inner future spent the budget.
#[test]
fn a_future_that_drains_the_budget_cannot_hide_the_deadline() {
    for runtime in both_flavours() {
        must_end(move || {
            let limited = runtime.spawn(async { timeout(ms(5), glutton()).await });
            assert!(runtime.block_on(limited).unwrap().is_err());
            let nested = runtime.spawn(async { timeout(ms(5), timeout(HOUR, glutton())).await });
            assert!(runtime.block_on(nested).unwrap().is_err());
            assert!(runtime.block_on(timeout(ms(5), glutton())).is_err());
            // Sleeps that are always ready spend it as well.
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

/// If others have spent the budget before, the timeout waits for its turn like any future.
#[tokio::test]
async fn a_budget_that_others_spent_answers_pending_once() {
    let task = tokio::spawn(async {
        let mut polls = 0;
        let mut limited = timeout(Duration::ZERO, pending::<()>());
        let ended = poll_fn(|cx| {
            polls += 1;
            while polls == 1 && coop::poll_proceed(cx).map(|unit| unit.made_progress()).is_ready() {}
            Pin::new(&mut limited).poll(cx)
        });
        assert!(ended.await.is_err());
        assert_eq!(polls, 2);
    });
    tokio::time::timeout(HUNG, task).await.unwrap().unwrap();
}

#[tokio::test]
async fn only_a_timeout_that_ends_spends_budget() {
    let task = tokio::spawn(async {
        tokio::task::yield_now().await;
        let mut limited = timeout(HOUR, pending::<()>());
        poll_fn(|cx| {
            for _ in 0..10_000 {
                assert!(Pin::new(&mut limited).poll(cx).is_pending());
            }
            assert!(coop::has_budget_remaining());
            for _ in 0..10_000 {
                assert!(Pin::new(&mut timeout(HOUR, ready(()))).poll(cx).is_ready());
            }
            assert!(coop::has_budget_remaining(), "what is ready inside is not ours to pay for");
            Poll::Ready(())
        })
        .await;
    });
    task.await.unwrap();
}

/// A value that is not a future but converts into one.
struct Request(u8);

impl IntoFuture for Request {
    type Output = u8;
    type IntoFuture = Ready<u8>;

    fn into_future(self) -> Ready<u8> {
        ready(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_becomes_a_future_can_be_limited() {
    let limited: Timeout<Ready<u8>> = timeout(HOUR, Request(5));
    assert_eq!(limited.await, Ok(5));
    assert_eq!(timeout_at(Instant::now() + HOUR, Request(6)).await, Ok(6));
    assert_eq!(timeout(HOUR, Box::pin(sleep(ms(1)))).await, Ok(()));
    let mut borrowed = sleep(ms(1));
    assert_eq!(timeout(HOUR, &mut borrowed).await, Ok(()));
    assert!(borrowed.is_elapsed());
}

/// A future that must not move after its first poll, to check that the pin is respected.
#[tokio::test(start_paused = true)]
async fn futures_that_need_a_pin_are_pinned() {
    let inner = async {
        let text = String::from("borrowed across a wait");
        let borrowed = &text;
        sleep(ms(5)).await;
        borrowed.len()
    };
    assert_eq!(timeout(ms(6), inner).await, Ok(22));
}

#[test]
fn its_traits_are_those_of_the_future_inside() {
    fn has_all<T: Send + Sync + Unpin + Debug>() {}
    has_all::<Timeout<Pending<()>>>();
    has_all::<Elapsed>();
    let shown = format!("{:?}", timeout(HOUR, ready("inner")));
    assert!(shown.contains("inner") && shown.contains("deadline"), "{shown}");
}

fn with_question_mark(result: Result<(), Elapsed>) -> io::Result<()> {
    Ok(result?)
}

#[test]
fn elapsed_is_an_error_like_tokios() {
    let elapsed = Elapsed::new();
    assert_eq!(elapsed.to_string(), "deadline has elapsed");
    assert_eq!(elapsed.clone(), elapsed);
    let tokios = paused().block_on(async { tokio::time::timeout(ms(1), pending::<()>()).await }).unwrap_err();
    assert_eq!(elapsed.to_string(), tokios.to_string());
    assert_eq!(format!("{elapsed:?}"), format!("{tokios:?}"));
    assert_eq!(format!("{elapsed:>30}"), format!("{tokios:>30}"));
    let boxed: Box<dyn Error + Send + Sync> = elapsed.clone().into();
    assert!(boxed.downcast_ref::<Elapsed>() == Some(&elapsed));

    let error = io::Error::from(elapsed);
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(error.to_string(), io::Error::from(tokios).to_string());
    assert!(with_question_mark(Err(Elapsed::new())).is_err());
}

/// The future is dropped with the timeout, whether the timeout has ended, was cancelled, or was never polled.
#[tokio::test(start_paused = true)]
async fn the_future_inside_is_dropped_with_it() {
    let held = Arc::new(());
    let limited = || {
        let held = held.clone();
        timeout(ms(5), async move {
            pending::<()>().await;
            drop(held);
        })
    };
    drop(limited());
    assert_eq!(Arc::strong_count(&held), 1, "never polled");
    let mut waiting = Box::pin(limited());
    assert!(futures::poll!(&mut waiting).is_pending());
    assert_eq!(Arc::strong_count(&held), 2);
    drop(waiting);
    assert_eq!(Arc::strong_count(&held), 1, "cancelled");
    assert!(limited().await.is_err());
    assert_eq!(Arc::strong_count(&held), 1, "ended");
}

#[tokio::test(start_paused = true)]
async fn the_shortest_of_nested_limits_holds() {
    let start = Instant::now();
    let nested = timeout(ms(30), timeout(ms(20), timeout(ms(10), pending::<()>())));
    assert_eq!(nested.await, Ok(Ok(Err(Elapsed::new()))));
    assert_eq!(start.elapsed(), ms(10));
    let nested = timeout(ms(10), timeout(ms(20), timeout(ms(30), pending::<()>())));
    assert_eq!(nested.await, Err(Elapsed::new()));
    assert_eq!(start.elapsed(), ms(20));
}

/// A server's usual day: thousands of timeouts are registered and cancelled, and only the few that are due end.
#[test]
fn of_many_registered_and_cancelled_only_those_due_end() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let tasks: Vec<_> = (0..200)
                    .map(|task| {
                        tokio::spawn(async move {
                            for round in 0..50 {
                                if task % 20 == 0 && round == 25 {
                                    assert!(timeout(ms(2), pending::<()>()).await.is_err());
                                }
                                assert!(timeout(HOUR, tokio::task::yield_now()).await.is_ok());
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
            });
        });
    }
}

/// The end of a timeout wakes the waker of the last poll.
#[tokio::test(start_paused = true)]
async fn a_timeout_that_moved_to_another_task_wakes_that_one() {
    let (first, first_waker) = Wakes::new();
    let (last, last_waker) = Wakes::new();
    let mut limited = timeout(ms(10), pending::<()>());
    for waker in [&first_waker, &last_waker] {
        assert!(Pin::new(&mut limited).poll(&mut Context::from_waker(waker)).is_pending());
    }
    tokio::time::advance(ms(10)).await;
    settle().await;
    assert_eq!([first.count(), last.count()], [0, 1]);
}
