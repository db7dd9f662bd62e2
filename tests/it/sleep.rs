//! What a sleep guarantees to the task that awaits it: never early, to the nanosecond, for any duration, and in order.

use std::fmt::Debug;
use std::future::poll_fn;
use std::mem::size_of;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::Poll;

use crate::common::{HOUR, HUNG, Random, Wakes, YEAR, longest, ms, multi_thread, must_end, poll, poll_with, settle};
use hairspring::{Duration, Instant, Sleep, sleep, sleep_until};
use tokio::task::coop;

#[test]
fn it_is_small_and_may_be_sent_shared_moved_and_printed() {
    fn has_all<T: Send + Sync + Unpin + Debug + 'static>() {}
    has_all::<Sleep>();
    // With that feature it has a place for spans.
    let most = if cfg!(feature = "tracing") { 48 } else { 40 };
    assert!(size_of::<Sleep>() <= most, "{} bytes", size_of::<Sleep>());
}

const EACH: u64 = 100;

/// Sleeps for random durations one after the other. Each may begin anywhere in a tick.
async fn several(mut random: Random, done: Arc<AtomicU32>) {
    for round in 0..EACH {
        let asked = random.duration(ms(3));
        // The system's clock, read on this side of the creation: nothing of ours is trusted here.
        let start = std::time::Instant::now();
        if round % 2 == 0 {
            sleep(asked).await;
        } else {
            sleep_until(Instant::from_std(start) + asked).await;
        }
        let took = start.elapsed();
        assert!(took >= asked, "asked for {asked:?}, took {took:?}");
        done.fetch_add(1, SeqCst);
    }
}

/// libuv 4773, node 26578 and pingora-timeout: up to a millisecond early, because of rounding.
#[test]
fn none_of_100_000_sleeps_is_early_by_a_nanosecond() {
    const TASKS: u64 = 1_000;
    let done = Arc::new(AtomicU32::new(0));
    let count = done.clone();
    must_end(move || {
        multi_thread(2).block_on(async {
            let tasks = (0..TASKS).map(|seed| tokio::spawn(several(Random::new(seed), count.clone())));
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        });
    });
    assert_eq!(u64::from(done.load(SeqCst)), TASKS * EACH);
}

/// Linux 30c66fc30ee7: arming in the past moved the wheel's clock back, and later timers fired early.
#[tokio::test]
async fn registering_in_the_past_makes_no_other_early() {
    for past in [ms(1), HOUR, YEAR, Duration::MAX] {
        let start = std::time::Instant::now();
        let mut soon = sleep(ms(5));
        let _ = poll(&mut soon);
        sleep_until(Instant::now() - past).await;
        soon.await;
        assert!(start.elapsed() >= ms(5));
    }
}

/// async-io ff76625: a timer that was due exactly now stayed pending.
#[tokio::test(start_paused = true)]
async fn zero_past_and_exactly_now_are_ready_at_the_first_poll() {
    tokio::time::advance(HOUR).await;
    let now = Instant::now();
    for deadline in [now, now - Duration::from_nanos(1), now - HOUR, now - 1_000 * YEAR, now - Duration::MAX] {
        assert!(poll(&mut sleep_until(deadline)).is_ready(), "{:?} ago", now - deadline);
    }
    assert!(poll(&mut sleep(Duration::ZERO)).is_ready());
    assert!(poll(&mut sleep_until(now + Duration::from_nanos(1))).is_pending());
}

#[tokio::test(start_paused = true)]
async fn the_time_counts_from_creation_not_from_the_first_poll() {
    let start = Instant::now();
    let (long, short) = (sleep(ms(10_000)), sleep(ms(3_000)));
    tokio::time::advance(ms(4_000)).await;
    short.await;
    assert_eq!(start.elapsed(), ms(4_000), "it was over before it was polled");
    long.await;
    assert_eq!(start.elapsed(), ms(10_000));
}

#[tokio::test(start_paused = true)]
async fn it_completes_at_its_deadline_and_no_sooner_and_stays_complete() {
    let mut sleep = sleep(ms(100));
    assert!(poll(&mut sleep).is_pending());
    tokio::time::advance(Duration::from_nanos(99_999_999)).await;
    assert!(poll(&mut sleep).is_pending(), "a nanosecond is left");
    tokio::time::advance(Duration::from_nanos(1)).await;
    assert!(poll(&mut sleep).is_ready());
    assert!(poll(&mut sleep).is_ready(), "as often as it is asked");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_the_one_asked_for_to_the_nanosecond() {
    for after in [0, 1, 999_999, 1_000_001, 123_456_789_012_345].map(Duration::from_nanos) {
        let now = Instant::now();
        assert_eq!(sleep(after).deadline(), now + after);
        let mut sleep = sleep_until(now + after);
        assert_eq!(sleep.deadline(), now + after);
        (&mut sleep).await;
        assert_eq!(sleep.deadline(), now + after, "still, when it is over");
    }
    let past = Instant::now() - ms(5);
    assert_eq!(sleep_until(past).deadline(), past);
}

#[tokio::test(start_paused = true)]
async fn debug_shows_the_deadline() {
    let mut sleep = sleep(ms(7));
    let deadline = format!("{:?}", sleep.deadline());
    assert!(format!("{sleep:?}").contains(&deadline), "{sleep:?}");
    let _ = poll(&mut sleep);
    assert!(format!("{sleep:?}").contains(&deadline), "{sleep:?}");
    (&mut sleep).await;
    assert!(format!("{sleep:?}").contains(&deadline), "{sleep:?}");
}

#[tokio::test(start_paused = true)]
async fn many_complete_in_the_order_of_their_deadlines() {
    let mut random = Random::new(7);
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tasks: Vec<_> = (0..500)
        .map(|_| {
            let (after, order) = (ms(random.below(100_000)), order.clone());
            tokio::spawn(async move {
                sleep(after).await;
                order.lock().unwrap().push(after);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let order = order.lock().unwrap();
    assert!(order.is_sorted() && order.len() == 500);
}

/// tokio 5183, 2667, 4495, 6634: sentinels and unchecked sums panicked. netty 7760: the largest delay fired at once.
#[tokio::test(start_paused = true)]
async fn the_longest_durations_neither_panic_nor_fire() {
    let now = Instant::now();
    let (woken, waker) = Wakes::new();
    let mut sleeps = Vec::new();
    for long in longest().into_iter().chain([Duration::from_secs(u64::MAX), Duration::from_nanos(u64::MAX), 200 * YEAR])
    {
        sleeps.push(sleep(long));
        sleeps.push(sleep_until(now + long));
        let mut reset = sleep(ms(1));
        reset.reset_at(now + long);
        sleeps.push(reset);
        let mut reset = sleep(ms(1));
        assert!(poll(&mut reset).is_pending());
        Pin::new(&mut reset).reset(now + long);
        sleeps.push(reset);
    }
    for sleep in &mut sleeps {
        assert!(sleep.deadline() > now + 100 * YEAR, "{:?} away", sleep.deadline() - now);
        assert!(poll_with(sleep, &waker).is_pending());
    }
    sleep(10 * YEAR).await;
    settle().await;
    assert_eq!(woken.count(), 0);
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
    for sleep in &mut sleeps {
        sleep.reset_at(Instant::now());
        assert!(poll(sleep).is_ready(), "from the far end of time to now");
    }
}

/// tokio's clock only moves by itself to one of tokio's own timers, however far away ours is.
#[tokio::test(start_paused = true)]
async fn sleeps_of_years_take_exactly_years() {
    let start = Instant::now();
    for years in [1, 3, 19, 21, 70] {
        let before = Instant::now();
        sleep(years * YEAR).await;
        assert_eq!(before.elapsed(), years * YEAR);
    }
    assert_eq!(start.elapsed(), 114 * YEAR);
}

/// How many polls in a row `poll` answers at once before the task has spent its budget.
async fn ready_until_spent(mut ready: impl FnMut(&mut std::task::Context<'_>) -> bool) -> usize {
    tokio::task::yield_now().await;
    poll_fn(|cx| Poll::Ready((0..10_000).take_while(|_| ready(cx)).count())).await
}

#[tokio::test]
async fn only_a_ready_poll_spends_the_tasks_budget() {
    let task = tokio::spawn(async {
        let tokios = ready_until_spent(|cx| match coop::poll_proceed(cx) {
            Poll::Ready(unit) => {
                unit.made_progress();
                true
            }
            Poll::Pending => false,
        });
        let tokios = tokios.await;
        let ours = ready_until_spent(|cx| Pin::new(&mut sleep(Duration::ZERO)).poll(cx).is_ready()).await;
        assert_eq!(ours, tokios, "a ready sleep spends one unit, as tokio's own futures do");

        tokio::task::yield_now().await;
        let mut pending = sleep(HOUR);
        poll_fn(|cx| {
            for _ in 0..10_000 {
                assert!(Pin::new(&mut pending).poll(cx).is_pending());
            }
            assert!(coop::has_budget_remaining(), "waiting is free");
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
        let task = poll_fn(|cx| {
            polls += 1;
            if polls == 1 {
                while Pin::new(&mut sleep(Duration::ZERO)).poll(cx).is_ready() {}
                let answer = Pin::new(&mut over).poll(cx);
                assert!(answer.is_pending() && !over.is_elapsed(), "the budget is spent");
                return answer;
            }
            Pin::new(&mut over).poll(cx)
        });
        task.await;
        assert_eq!(polls, 2, "woken for another poll, with a new budget");
    });
    tokio::time::timeout(HUNG, task).await.unwrap().unwrap();
}

#[tokio::test]
async fn works_in_select_again_and_again_without_pinning() {
    let start = std::time::Instant::now();
    let mut limit = sleep(ms(20));
    loop {
        tokio::select! {
            () = &mut limit => break,
            () = sleep(ms(1)) => {}
        }
    }
    assert!(start.elapsed() >= ms(20) && limit.is_elapsed());
}
