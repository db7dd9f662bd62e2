//! A timer with a capacity: what it refuses, what it does not affect, and that its count is right.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;

use crate::common::{
    HOUR, Random, Wakes, both_flavours, current_thread, ms, multi_thread, must_end, panic_message, poll, poll_with,
};
use hairspring::{DelayQueue, Duration, Timer, TrySleep};

/// A timer whose driver nobody polls.
fn holding(capacity: usize) -> (Timer, hairspring::timer::Driver) {
    Timer::builder().shards(3).capacity(capacity).build_with_driver().unwrap()
}

/// Returns `count` sleeps that wait.
fn waiting(timer: &Timer, count: usize) -> Vec<TrySleep> {
    let mut sleeps: Vec<_> = (0..count).map(|_| timer.try_sleep(HOUR)).collect();
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
    sleeps
}

/// How many were pending when the timer refused a sleep, by the error's text.
fn refused(timer: &Timer) -> Option<usize> {
    let std::task::Poll::Ready(result) = poll(&mut timer.try_sleep(HOUR)) else { return None };
    let text = result.unwrap_err().to_string();
    let pending = text.strip_prefix("the timer is at capacity: ").and_then(|rest| rest.strip_suffix(" pending"));
    Some(pending.expect("it says how many are pending").parse().unwrap())
}

#[test]
fn a_full_timer_says_so_and_how_many_are_pending() {
    for capacity in [1, 2, 1000] {
        let (timer, _driver) = holding(capacity);
        let _waiting = waiting(&timer, capacity);
        for _ in 0..3 {
            let std::task::Poll::Ready(Err(error)) = poll(&mut timer.try_sleep(HOUR)) else {
                panic!("a full timer took a sleep");
            };
            assert!(error.is_at_capacity() && !error.is_shutdown());
            assert_eq!(error.to_string(), format!("the timer is at capacity: {capacity} pending"));
        }
        assert_eq!(timer.metrics().pending(), capacity as u64);
        let metrics = timer.metrics();
        assert_eq!(metrics.registered(), capacity as u64, "what was refused was not registered");
        assert_eq!((metrics.refused(), metrics.capacity()), (3, Some(capacity)));
    }
}

/// On each shard, and none of it in the metrics of the next timer, which has the memory of this one.
#[test]
fn a_timer_counts_what_it_refuses_on_all_its_threads() {
    for _ in 0..3 {
        let (timer, driver) = holding(2);
        assert_eq!(timer.metrics().refused(), 0);
        let sleeps = waiting(&timer, 2);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..5).for_each(|_| assert_eq!(refused(&timer), Some(2))));
            }
        });
        panic_message(|| poll(&mut timer.sleep(HOUR)));
        assert_eq!(timer.metrics().refused(), 41);
        timer.shutdown();
        assert_eq!((timer.metrics().refused(), timer.metrics().capacity()), (41, Some(2)), "as long as it is held");
        drop((sleeps, driver, timer));
        let (unlimited, _driver) = Timer::builder().shards(3).build_with_driver().unwrap();
        let _waiting = waiting(&unlimited, 5);
        assert_eq!((unlimited.metrics().refused(), unlimited.metrics().capacity()), (0, None));
    }
}

#[test]
fn those_that_wait_are_not_disturbed_by_those_that_are_refused() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let timer = Timer::builder().capacity(10).build().unwrap();
                let mut sleeps = waiting(&timer, 10);
                for _ in 0..100 {
                    assert_eq!(refused(&timer), Some(10));
                }
                let deadline = timer.now() + ms(5);
                for sleep in &mut sleeps {
                    sleep.reset_at(deadline);
                }
                for sleep in sleeps {
                    assert_eq!(sleep.await, Ok(()));
                }
                assert!(timer.now() >= deadline);
                assert_eq!(timer.metrics().registered(), 10);
            });
        });
    }
}

/// Each way in which a sleep can end makes room in a full timer.
#[test]
fn there_is_room_again_as_soon_as_one_ends() {
    must_end(|| {
        let (timer, _driver) = holding(3);
        let mut sleeps = waiting(&timer, 3);
        assert_eq!(refused(&timer), Some(3));
        // Dropped.
        drop(sleeps.pop());
        assert_eq!(refused(&timer), None);
        // Reset into the past, where a poll finds it over.
        sleeps.extend(waiting(&timer, 1));
        sleeps[0].reset_at(timer.now());
        assert_eq!(poll(&mut sleeps[0]), std::task::Poll::Ready(Ok(())));
        assert_eq!(refused(&timer), None);
        // Fired, and not polled yet: the alarm thread stands in for the driver.
        sleeps.extend(waiting(&timer, 1));
        assert_eq!(refused(&timer), Some(3));
        let (woken, waker) = Wakes::new();
        assert!(poll_with(&mut sleeps[1], &waker).is_pending());
        sleeps[1].reset_at(timer.now() + ms(5));
        if !cfg!(feature = "test-util") {
            woken.wait();
            assert_eq!(refused(&timer), None);
        }
    });
}

/// A waiting sleep keeps its place when it is reset. One that has ended needs a new place.
#[test]
fn a_reset_keeps_the_place_of_one_that_waits() {
    let (timer, _driver) = holding(2);
    let mut sleeps = waiting(&timer, 2);
    for hours in [1, 5, 2] {
        sleeps[0].reset_at(timer.now() + hours * HOUR);
        assert!(poll(&mut sleeps[0]).is_pending());
        assert_eq!(timer.metrics().pending(), 2);
    }
    let mut late = timer.try_sleep(Duration::ZERO);
    assert_eq!(poll(&mut late), std::task::Poll::Ready(Ok(())), "what is over needs no place");
    late.reset_at(timer.now() + HOUR);
    assert!(matches!(poll(&mut late), std::task::Poll::Ready(Err(error)) if error.is_at_capacity()));
    // The same future may ask again.
    sleeps.pop();
    assert!(poll(&mut late).is_pending());
}

#[test]
fn the_infallible_ones_panic_on_a_full_timer() {
    must_end(|| {
        current_thread().block_on(async {
            let timer = Timer::builder().capacity(1).build().unwrap();
            let mut started = timer.interval_at(timer.now() + ms(1), ms(1));
            started.tick().await;
            let _first = waiting(&timer, 1);
            let full = "at capacity: 1 pending";
            assert!(panic_message(|| poll(&mut timer.sleep(HOUR))).contains(full));
            let mut limited = Box::pin(timer.timeout(HOUR, std::future::pending::<()>()));
            assert!(panic_message(|| poll(&mut limited)).contains(full));
            let mut ticks = timer.interval_at(timer.now() + HOUR, HOUR);
            assert!(panic_message(|| poll(&mut Box::pin(ticks.tick()))).contains(full));
            started.reset_after(HOUR);
            assert!(panic_message(|| poll(&mut Box::pin(started.tick()))).contains(full), "each tick asks for room");
            // None of them needs a place for what is there already.
            timer.sleep(Duration::ZERO).await;
            assert_eq!(timer.timeout(HOUR, std::future::ready(5)).await, Ok(5));
            timer.interval(HOUR).tick().await;
        });
    });
}

/// The panic is at a line of this crate, which tells its reader nothing.
#[test]
fn a_panic_names_the_line_that_made_the_future_the_limit_and_what_does_not_panic() {
    must_end(|| {
        current_thread().block_on(async {
            let timer = Timer::builder().capacity(1).name("requests").install().unwrap();
            let mut first = Box::pin(timer.timeout(HOUR, std::future::pending::<()>()));
            let of_first = format!("{}:{}:", file!(), line!() - 1);
            assert!(poll(&mut first).is_pending());
            let full = "the timer `requests` is at capacity: 1 pending";
            let said = |message: String, what: &str, line: u32| {
                assert!(message.starts_with(full), "{message}");
                assert!(message.contains(&format!("{}:{line}:", file!())), "{message}");
                assert!(message.contains(&format!("`Timer::{what}`")), "{message}");
            };
            said(panic_message(|| poll(&mut timer.sleep(HOUR))), "try_sleep", line!());
            said(panic_message(|| poll(&mut hairspring::sleep(HOUR))), "try_sleep", line!());
            let ready = std::future::pending::<()>;
            said(panic_message(|| poll(&mut Box::pin(timer.timeout(HOUR, ready())))), "try_timeout", line!());
            let mut ticks = timer.interval(HOUR);
            let made = line!() - 1;
            ticks.tick().await;
            said(panic_message(|| poll(&mut Box::pin(ticks.tick()))), "try_interval", made);
            // It waited when the timer was shut down.
            timer.shutdown();
            let message = panic_message(|| poll(&mut first));
            assert!(message.contains("shut down") && message.contains("`Timer::try_timeout`"), "{message}");
            assert!(message.contains(&of_first), "{message}");
        });
    });
}

/// A queue holds many entries with one sleep.
#[test]
fn a_queue_takes_one_place_whatever_it_holds() {
    must_end(|| {
        current_thread().block_on(async {
            let timer = Timer::builder().capacity(1).build().unwrap();
            let mut queue = DelayQueue::with_timer(&timer);
            for n in 0..1000 {
                queue.insert(n, HOUR);
            }
            let next = futures::future::poll_fn(|cx| queue.poll_expired(cx));
            assert!(futures::poll!(Box::pin(next)).is_pending());
            assert_eq!(timer.metrics().pending(), 1);
        });
    });
}

/// The next timer reuses the memory of an ended timer, but has a capacity of its own.
#[test]
fn the_next_timer_has_a_count_of_its_own() {
    for _ in 0..5 {
        let (timer, driver) = holding(2);
        let _sleeps = waiting(&timer, 2);
        assert_eq!(refused(&timer), Some(2));
        drop(driver);
        let (timer, driver) = Timer::builder().shards(3).build_with_driver().unwrap();
        let _sleeps = waiting(&timer, 100);
        drop(driver);
    }
}

#[cfg(feature = "test-util")]
#[test]
fn a_sleep_is_refused_exactly_where_a_model_is_full() {
    use hairspring::test_util::ManualClock;

    for seed in 0..60 {
        let mut random = Random::new(seed);
        let capacity = 1 + usize::try_from(random.below(12)).unwrap();
        let shards = 1 + usize::try_from(random.below(3)).unwrap();
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(&clock).capacity(capacity).shards(shards).build().unwrap();
        let mut sleeps: Vec<TrySleep> = Vec::new();
        let (mut registered, mut fired) = (0, 0);
        for _ in 0..400 {
            match random.below(10) {
                0..=4 => {
                    let mut sleep = timer.try_sleep(Duration::from_nanos(1) + random.duration(ms(50)));
                    match poll(&mut sleep) {
                        std::task::Poll::Pending => {
                            assert!(sleeps.len() < capacity);
                            sleeps.push(sleep);
                            registered += 1;
                        }
                        std::task::Poll::Ready(result) => {
                            assert!(result.unwrap_err().is_at_capacity());
                            assert_eq!(sleeps.len(), capacity);
                        }
                    }
                }
                5..=6 if !sleeps.is_empty() => {
                    let at = usize::try_from(random.below(sleeps.len() as u64)).unwrap();
                    drop(sleeps.swap_remove(at));
                }
                7 if !sleeps.is_empty() => {
                    let at = usize::try_from(random.below(sleeps.len() as u64)).unwrap();
                    sleeps[at].reset_at(timer.now() + Duration::from_nanos(1) + random.duration(ms(50)));
                }
                _ => {
                    clock.advance(random.duration(ms(20)));
                    let now = clock.now();
                    let before = sleeps.len();
                    sleeps.retain(|sleep| sleep.deadline() > now);
                    fired += before - sleeps.len();
                }
            }
            let metrics = timer.metrics();
            assert_eq!(metrics.pending(), sleeps.len() as u64);
            assert_eq!(metrics.registered(), registered);
            assert_eq!(metrics.fired(), fired as u64);
            assert_eq!(metrics.cancelled(), registered - fired as u64 - sleeps.len() as u64);
        }
    }
}

/// netty 14959, 6947: "full" although it is not
#[test]
fn the_count_is_right_after_threads_have_fought_for_the_last_places() {
    must_end(|| {
        let runtime = multi_thread(2);
        // So few that one thread alone comes to the limit, should the others not run beside it.
        let capacity = 20;
        let timer = runtime.block_on(async { Timer::builder().shards(2).capacity(capacity).build().unwrap() });
        let over = Arc::new(AtomicBool::new(false));
        let refusals = Arc::new(AtomicU32::new(0));
        let fight = |seed| {
            let (timer, refusals) = (timer.clone(), refusals.clone());
            let mut random = Random::new(seed);
            thread::spawn(move || {
                let mut sleeps = Vec::new();
                for _ in 0..20_000 {
                    let mut sleep =
                        timer.try_sleep(if random.below(4) == 0 { Duration::from_micros(50) } else { HOUR });
                    match poll(&mut sleep) {
                        std::task::Poll::Pending => sleeps.push(sleep),
                        std::task::Poll::Ready(Ok(())) => {}
                        std::task::Poll::Ready(Err(error)) => {
                            assert!(error.is_at_capacity());
                            refusals.fetch_add(1, SeqCst);
                        }
                    }
                    if sleeps.len() > 40 || random.below(8) == 0 {
                        sleeps.clear();
                    }
                }
            })
        };
        let threads: Vec<_> = (1..=3).map(fight).collect();
        let (reads, until) = (timer.clone(), over.clone());
        let reader = thread::spawn(move || {
            while !until.load(SeqCst) {
                let metrics = reads.metrics();
                assert_eq!(metrics.registered(), metrics.fired() + metrics.cancelled() + metrics.pending());
            }
        });
        for thread in threads {
            thread.join().unwrap();
        }
        over.store(true, SeqCst);
        reader.join().unwrap();
        assert!(refusals.load(SeqCst) > 0, "the places were never fought for");
        assert_eq!(timer.metrics().pending(), 0);
        let _all = waiting(&timer, capacity);
        assert_eq!(refused(&timer), Some(capacity), "as many places as ever");
    });
}
