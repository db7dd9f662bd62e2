//! Sleeps are never early, are ready at their deadline, and spend only their share of a task's budget. `drop_in`
//! compares them with tokio's.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::alarms::alarms;
use crate::common::{
    HOUR, HUNG, Random, Wakes, YEAR, both_flavours, longest, ms, must_end, on_wake, paused, poll, poll_with, settle,
};
use hairspring::{Duration, Instant, Sleep, Timer, sleep, sleep_until};
use tokio::task::coop;

const NANO: Duration = Duration::from_nanos(1);

#[test]
fn a_sleep_is_small() {
    // The feature `tracing` adds a span.
    assert!(size_of::<Sleep>() <= if cfg!(feature = "tracing") { 48 } else { 40 });
}

/// Sleeps several times, for random durations, and compares each with the system's clock.
async fn several(mut random: Random) {
    for round in 0..20 {
        let asked = random.duration(ms(3));
        let start = std::time::Instant::now();
        if round % 2 == 0 {
            sleep(asked).await;
        } else {
            sleep_until(Instant::from_std(start) + asked).await;
        }
        let took = start.elapsed();
        assert!(took >= asked, "asked for {asked:?}, took {took:?}");
    }
}

/// libuv 4773, node 26578, pingora-timeout: up to a millisecond early because of rounding.
#[test]
fn no_sleep_is_early_by_a_nanosecond() {
    let resolutions = [0, 1, 700, 1_000, 10_000].map(Duration::from_micros);
    for (alarm, resolution) in alarms().into_iter().flat_map(|alarm| resolutions.map(|each| (alarm, each))) {
        let builder = Timer::builder().alarm(alarm).shards(3);
        let builder = if resolution.is_zero() { builder } else { builder.resolution(resolution) };
        for runtime in both_flavours() {
            let builder = builder.clone();
            must_end(move || {
                runtime.block_on(async {
                    let _timer = builder.install().unwrap();
                    let tasks = (0..32).map(|seed| tokio::spawn(several(Random::new(seed))));
                    for task in tasks.collect::<Vec<_>>() {
                        task.await.unwrap();
                    }
                });
            });
        }
    }
}

/// async-io ff76625: a timer that was due exactly now stayed pending.
#[tokio::test(start_paused = true)]
async fn zero_past_and_now_are_ready_immediately() {
    tokio::time::advance(HOUR).await;
    let now = Instant::now();
    for deadline in [now, now - NANO, now - HOUR, now - 1_000 * YEAR, now - Duration::MAX] {
        assert!(poll(&mut sleep_until(deadline)).is_ready(), "{:?} ago", now - deadline);
    }
    assert!(poll(&mut sleep(Duration::ZERO)).is_ready());
    assert!(poll(&mut sleep_until(now + NANO)).is_pending());
}

#[tokio::test(start_paused = true)]
async fn a_sleep_ends_at_its_deadline_and_stays_ready() {
    for after in [1, 999_999, 1_000_001, 123_456_789_012_345].map(Duration::from_nanos) {
        let now = Instant::now();
        for sleep in [sleep(after), sleep_until(now + after)] {
            assert_eq!(sleep.deadline(), now + after);
            assert!(format!("{sleep:?}").contains(&format!("{:?}", now + after)), "{sleep:?}");
        }
        let mut sleep = sleep(after);
        assert!(poll(&mut sleep).is_pending());
        tokio::time::advance(after.saturating_sub(NANO)).await;
        assert!(poll(&mut sleep).is_pending(), "a nanosecond before {after:?}");
        tokio::time::advance(NANO).await;
        assert!(poll(&mut sleep).is_ready() && poll(&mut sleep).is_ready(), "after {after:?}");
        assert_eq!(sleep.deadline(), now + after);
    }
}

/// tokio 5183, 2667, 4495, 6634: panics caused by sentinels and unchecked sums. netty 7760: the largest delay fired
/// immediately.
#[tokio::test(start_paused = true)]
async fn the_longest_durations_neither_panic_nor_fire() {
    let now = Instant::now();
    let (woken, waker) = Wakes::new();
    let mut sleeps = Vec::new();
    for long in longest().into_iter().chain([Duration::from_secs(u64::MAX), Duration::from_nanos(u64::MAX), 200 * YEAR])
    {
        let [mut unpolled, mut waiting] = [sleep(ms(1)), sleep(ms(1))];
        unpolled.reset_at(now + long);
        assert!(poll(&mut waiting).is_pending());
        Pin::new(&mut waiting).reset(now + long);
        sleeps.extend([sleep(long), sleep_until(now + long), unpolled, waiting]);
    }
    for sleep in &mut sleeps {
        assert!(sleep.deadline() > now + 100 * YEAR, "{:?} away", sleep.deadline() - now);
        assert!(poll_with(sleep, &waker).is_pending());
    }
    sleep(70 * YEAR).await;
    assert_eq!(now.elapsed(), 70 * YEAR);
    settle().await;
    assert_eq!(woken.count(), 0);
    for sleep in &mut sleeps {
        assert!(poll(sleep).is_pending());
        sleep.reset_at(Instant::now());
        assert!(poll(sleep).is_ready(), "after a reset from the end of time to now");
    }
}

/// A bug that this crate had: `is_elapsed` returned the result of the last poll.
#[tokio::test(start_paused = true)]
async fn a_sleep_has_elapsed_once_it_fired() {
    let unpolled = sleep(ms(10));
    let mut sleep = sleep(ms(10));
    let mut fallible = Timer::current().try_sleep(ms(10));
    for is_polled in [false, true, false] {
        assert!(poll(&mut sleep).is_pending() && poll(&mut fallible).is_pending());
        for (passes, elapsed) in [(ms(9), false), (ms(1), true)] {
            tokio::time::advance(passes).await;
            settle().await;
            // As in tokio, a sleep that was never polled is not registered, so it does not fire.
            let each = [sleep.is_elapsed(), fallible.is_elapsed(), unpolled.is_elapsed()];
            assert_eq!(each, [elapsed, elapsed, false]);
        }
        assert!(format!("{sleep:?}").contains("elapsed"), "{sleep:?}");
        if is_polled {
            (&mut sleep).await;
            assert!(sleep.is_elapsed());
        }
        let next = Instant::now() + ms(10);
        sleep.reset_at(next);
        fallible.reset_at(next);
        assert!(!sleep.is_elapsed() && !fallible.is_elapsed());
    }
}

/// The burst is larger than the batch that a turn takes out under one lock.
#[test]
fn a_sleep_has_elapsed_when_its_waker_runs() {
    const COUNT: usize = 300;
    must_end(|| {
        paused().block_on(async {
            let deadline = Instant::now() + ms(10);
            let burst: Arc<Mutex<Vec<Sleep>>> = Arc::default();
            let elapsed = Arc::new(AtomicUsize::new(0));
            for number in 0..=COUNT {
                let (others, elapsed) = (Arc::downgrade(&burst), Arc::clone(&elapsed));
                let waker = on_wake(move || {
                    let burst = others.upgrade().unwrap();
                    let burst = burst.lock().unwrap();
                    elapsed.fetch_add(usize::from(burst[number].is_elapsed()), SeqCst);
                    assert!(!burst[COUNT].is_elapsed(), "the last is due later");
                });
                let mut sleep = sleep_until(if number < COUNT { deadline } else { deadline + ms(1) });
                assert!(poll_with(&mut sleep, &waker).is_pending());
                burst.lock().unwrap().push(sleep);
            }
            tokio::time::advance(ms(10)).await;
            settle().await;
            assert_eq!(elapsed.load(SeqCst), COUNT);
        });
    });
}

/// A sleep learns that its timer has ended at its next poll. Until then, `is_elapsed` tells whether that poll will be
/// ready.
#[test]
fn an_orphaned_sleep_has_elapsed_after_its_deadline() {
    must_end(|| {
        paused().block_on(async {
            let timer = Timer::builder().build().unwrap();
            let (mut fired, mut lost) = (timer.sleep(ms(10)), timer.sleep(ms(20)));
            assert!(poll(&mut fired).is_pending() && poll(&mut lost).is_pending());
            tokio::time::advance(ms(10)).await;
            settle().await;
            assert_eq!(timer.shutdown(), 1);
            for others in 0..3 {
                assert!(fired.is_elapsed() && !lost.is_elapsed(), "with {others} timers since");
                // This may reuse the memory of the timer that ended.
                let other = Timer::builder().build().unwrap();
                assert!(poll(&mut other.sleep(HOUR)).is_pending());
            }
            tokio::time::advance(ms(10)).await;
            assert!(lost.is_elapsed() && poll(&mut lost).is_ready());
        });
    });
}

/// How many consecutive polls are ready before the task's budget is spent.
async fn ready_until_spent(mut is_ready: impl FnMut(&mut Context<'_>) -> bool) -> usize {
    tokio::task::yield_now().await;
    poll_fn(|cx| Poll::Ready((0..10_000).take_while(|_| is_ready(cx)).count())).await
}

#[tokio::test]
async fn only_a_ready_poll_spends_the_tasks_budget() {
    let task = tokio::spawn(async {
        let units = ready_until_spent(|cx| coop::poll_proceed(cx).map(|unit| unit.made_progress()).is_ready()).await;
        let ready = ready_until_spent(|cx| Pin::new(&mut sleep(Duration::ZERO)).poll(cx).is_ready()).await;
        assert_eq!(ready, units, "a ready sleep spends one unit, as tokio's futures do");

        tokio::task::yield_now().await;
        let mut pending = sleep(HOUR);
        poll_fn(|cx| {
            assert!((0..10_000).all(|_| Pin::new(&mut pending).poll(cx).is_pending()));
            assert!(coop::has_budget_remaining(), "a pending poll spends nothing");
            Poll::Ready(())
        })
        .await;
    });
    task.await.unwrap();
}

#[tokio::test]
async fn a_spent_budget_answers_pending_once_and_wakes() {
    let task = tokio::spawn(async {
        let mut polls = 0;
        let mut over = sleep(Duration::ZERO);
        poll_fn(|cx| {
            polls += 1;
            if polls == 1 {
                while Pin::new(&mut sleep(Duration::ZERO)).poll(cx).is_ready() {}
                assert!(Pin::new(&mut over).poll(cx).is_pending() && !over.is_elapsed(), "the budget is spent");
                return Poll::Pending;
            }
            Pin::new(&mut over).poll(cx)
        })
        .await;
        assert_eq!(polls, 2, "one more poll, with a new budget");
    });
    tokio::time::timeout(HUNG, task).await.unwrap().unwrap();
}
