//! Where a sleep may be created, polled and left behind: with a runtime, under another, after it, and without any.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use crate::common::{
    HOUR, OnDrop, Random, Wakes, bare, both_flavours, current_thread, inside, ms, multi_thread, must_end, poll,
    poll_with,
};
use hairspring::{Duration, Instant, Sleep, interval, sleep, sleep_until, timeout};

/// Waits on a thread outside any runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    futures::executor::block_on(future)
}

fn pending() -> std::future::Pending<()> {
    std::future::pending()
}

/// A sleep of `after` that is waiting on `runtime`.
fn waiting_on(runtime: &tokio::runtime::Runtime, after: Duration) -> Sleep {
    let mut sleep = sleep(HOUR);
    inside(runtime, || assert!(poll(&mut sleep).is_pending()));
    sleep.reset_at(Instant::now() + after);
    sleep
}

#[test]
fn made_outside_of_any_runtime_it_runs_in_one() {
    for runtime in both_flavours() {
        must_end(move || {
            let start = Instant::now();
            let (nap, until) = (sleep(ms(5)), sleep_until(start + ms(7)));
            let (limited, mut ticks) = (timeout(ms(9), pending()), interval(ms(5)));
            assert!(!nap.is_elapsed() && until.deadline() == start + ms(7));
            runtime.block_on(nap);
            assert!(start.elapsed() >= ms(5));
            runtime.block_on(runtime.spawn(until)).unwrap();
            assert!(start.elapsed() >= ms(7));
            assert!(runtime.block_on(runtime.spawn(limited)).unwrap().is_err());
            assert!(start.elapsed() >= ms(9));
            runtime.block_on(ticks.tick());
        });
    }
}

/// tokio's sleeps do this too: the guard decides the runtime, whatever polls the sleep.
#[test]
fn made_under_an_entered_runtime_it_runs_where_there_is_none() {
    must_end(|| {
        let runtime = multi_thread(1);
        let guard = runtime.enter();
        let start = Instant::now();
        let (nap, limited, mut ticks) = (sleep(ms(5)), timeout(ms(5), pending()), interval(ms(5)));
        block_on(sleep(ms(1)));
        drop(guard);
        block_on(nap);
        assert!(block_on(limited).is_err());
        block_on(ticks.tick());
        block_on(ticks.tick());
        assert!(start.elapsed() >= ms(5));
        let elsewhere = inside(&runtime, || sleep(ms(1)));
        thread::spawn(move || block_on(elsewhere)).join().unwrap();
    });
}

#[test]
fn runtimes_without_enable_time_and_enable_io_do() {
    for runtime in bare() {
        must_end(move || {
            let start = std::time::Instant::now();
            runtime.block_on(async {
                sleep(ms(3)).await;
                assert!(timeout(ms(3), pending()).await.is_err());
                let mut ticks = interval(ms(3));
                ticks.tick().await;
                ticks.tick().await;
                tokio::spawn(sleep(ms(3))).await.unwrap();
            });
            assert!(start.elapsed() >= ms(12));
        });
    }
}

#[test]
fn a_sleep_whose_runtime_was_dropped_fires_on_the_next_that_polls_it() {
    for flavour in 0..2 {
        for next in both_flavours() {
            must_end(move || {
                let start = std::time::Instant::now();
                let home = both_flavours().into_iter().nth(flavour).unwrap();
                let mut nap = waiting_on(&home, ms(50));
                let mut limited = timeout(HOUR, pending());
                inside(&home, || assert!(poll(&mut limited).is_pending()));
                limited.reset_at(Instant::now() + ms(50));
                drop(home);
                next.block_on(&mut nap);
                assert!(start.elapsed() >= ms(50), "not early because its driver went");
                assert!(next.block_on(next.spawn(limited)).unwrap().is_err());
                drop(next);
                assert!(nap.is_elapsed());
            });
        }
    }
}

#[test]
fn a_sleep_whose_runtime_was_dropped_fires_where_there_is_none() {
    for home in both_flavours() {
        must_end(move || {
            let start = std::time::Instant::now();
            let mut nap = waiting_on(&home, ms(30));
            drop(home);
            block_on(&mut nap);
            assert!(start.elapsed() >= ms(30), "not early because its driver went");
            nap.reset_at(Instant::now() + HOUR);
            assert!(poll(&mut nap).is_pending());
            nap.reset_at(Instant::now());
            assert!(poll(&mut nap).is_ready());
        });
    }
}

/// The thread waits and nothing polls again by itself, so the end of the runtime has to wake it.
#[test]
fn a_thread_that_waits_when_the_runtime_is_dropped_waits_on() {
    for home in both_flavours() {
        must_end(move || {
            let mut nap = waiting_on(&home, 2 * HOUR);
            let (woken, waker) = Wakes::new();
            assert!(poll_with(&mut nap, &waker).is_pending());
            drop(home);
            assert_eq!(woken.count(), 1, "woken when the runtime was gone");
        });
    }
    must_end(|| {
        let home = multi_thread(1);
        let nap = waiting_on(&home, ms(200));
        let handle = home.handle().clone();
        let waits = thread::spawn(move || block_on(nap));
        let entered = thread::spawn(move || handle.block_on(sleep(ms(200))));
        thread::sleep(ms(20));
        drop(home);
        waits.join().unwrap();
        entered.join().unwrap();
    });
}

#[test]
fn polled_under_the_handle_of_a_runtime_that_was_shut_down_it_fires_all_the_same() {
    for home in both_flavours() {
        must_end(move || {
            let handle = home.handle().clone();
            home.shutdown_background();
            let _guard = handle.enter();
            let start = Instant::now();
            for _ in 0..3 {
                block_on(sleep(ms(2)));
            }
            assert!(start.elapsed() >= ms(6));
            assert!(block_on(timeout(ms(1), pending())).is_err());
        });
    }
}

/// A bug that this crate had: tokio 2789: a panic when a timer is registered during shutdown.
#[test]
fn registering_while_the_runtime_shuts_down_does_not_panic() {
    must_end(|| {
        let panics = Arc::new(AtomicUsize::new(0));
        for round in 0..40 {
            let runtime = if round % 4 == 0 { current_thread() } else { multi_thread(2) };
            for seed in 0..20 {
                let panics = panics.clone();
                runtime.spawn(async move {
                    let _counts = OnDrop(|| {
                        if thread::panicking() {
                            panics.fetch_add(1, SeqCst);
                        }
                        // In the drop of a task: what is armed here has no driver to wait for, or soon has none.
                        let mut armed = sleep(HOUR);
                        let _ = catch_unwind(AssertUnwindSafe(|| poll(&mut armed)));
                        armed.reset_at(Instant::now() + HOUR);
                    });
                    let mut random = Random::new(seed);
                    loop {
                        sleep(random.duration(ms(1) / 10)).await;
                        let _ = timeout(random.duration(ms(1)), tokio::task::yield_now()).await;
                    }
                });
            }
            runtime.block_on(sleep(Random::new(round).duration(ms(3))));
            drop(runtime);
        }
        assert_eq!(panics.load(SeqCst), 0);
    });
}

/// The same for a task that is dropped without ever being polled, and that holds waiting sleeps.
#[test]
fn tasks_that_hold_waiting_sleeps_are_dropped_with_their_runtime() {
    for runtime in both_flavours() {
        must_end(move || {
            let dropped = Arc::new(AtomicBool::new(false));
            let flag = dropped.clone();
            let held = waiting_on(&runtime, HOUR);
            let guard = OnDrop(move || flag.store(true, SeqCst));
            runtime.spawn(async move {
                let _guard = guard;
                let others: Vec<_> = (0..10).map(|_| timeout(HOUR, sleep(HOUR))).collect();
                futures::future::select(held, futures::future::join_all(others)).await;
            });
            drop(runtime);
            assert!(dropped.load(SeqCst));
        });
    }
}
