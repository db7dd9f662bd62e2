//! Several runtimes in one program: one after the other, inside each other, side by side with different clocks, not
//! driven, shut down; and the ways to enter one from a thread.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{
    HOUR, Wakes, bare, both_flavours, current_thread, inside, ms, multi_thread, must_end, paused, poll_with, step,
};
use hairspring::{Instant, Timer, interval, sleep, timeout};
use tokio::runtime::{Handle, Runtime};
use tokio::task::{LocalSet, block_in_place, spawn_blocking};

fn every_kind() -> Vec<Runtime> {
    both_flavours().into_iter().chain(bare()).collect()
}

/// Sleeps, times out and ticks for 1 ms each, and checks that nothing was early.
async fn use_time() {
    step();
    let start = std::time::Instant::now();
    sleep(ms(1)).await;
    assert!(start.elapsed() >= ms(1));
    assert!(timeout(ms(1), std::future::pending::<()>()).await.is_err());
    assert!(start.elapsed() >= ms(2));
    let mut ticks = interval(ms(1));
    ticks.tick().await;
    ticks.tick().await;
    assert!(start.elapsed() >= ms(3));
}

#[test]
fn one_thread_blocks_on_several_runtimes_in_turn() {
    must_end(|| {
        let runtimes = every_kind();
        for _ in 0..5 {
            for runtime in &runtimes {
                runtime.block_on(use_time());
                runtime.block_on(runtime.spawn(use_time())).unwrap();
            }
        }
        let mut nap = sleep(ms(8));
        for runtime in &runtimes {
            runtime.block_on(async {
                assert!(futures::poll!(&mut nap).is_pending() || Instant::now() >= nap.deadline());
                use_time().await;
            });
        }
        runtimes[2].block_on(&mut nap);
        assert!(nap.is_elapsed());
    });
}

#[test]
fn entered_handles_may_be_nested() {
    must_end(|| {
        let [outer, inner] = [multi_thread(1), multi_thread(2)];
        let _outer = outer.enter();
        let first = sleep(ms(2));
        {
            let _inner = inner.enter();
            futures::executor::block_on(use_time());
            futures::executor::block_on(sleep(ms(1)));
        }
        futures::executor::block_on(first);
        futures::executor::block_on(use_time());
        drop(inner);
        futures::executor::block_on(use_time());
    });
}

#[test]
fn a_runtime_may_be_entered_from_a_task_of_another() {
    must_end(|| {
        let [home, other] = [multi_thread(2), multi_thread(1)];
        let handle = other.handle().clone();
        home.block_on(async {
            let entered = handle.clone();
            let task = tokio::spawn(async move {
                let mut made_inside = {
                    let _guard = entered.enter();
                    sleep(ms(2))
                };
                (&mut made_inside).await;
                made_inside.reset_at(Instant::now() + ms(1));
                made_inside.await;
                block_in_place(|| entered.block_on(use_time()));
                use_time().await;
            });
            task.await.unwrap();
        });
        drop(other);
        home.block_on(use_time());
    });
}

#[test]
fn spawn_blocking_block_in_place_and_handles_lead_into_a_runtime() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let threads = (0..4).map(|_| spawn_blocking(|| Handle::current().block_on(use_time())));
                for thread in threads.collect::<Vec<_>>() {
                    thread.await.unwrap();
                }
                let entered = spawn_blocking(|| futures::executor::block_on(use_time()));
                entered.await.unwrap();
            });
            let handle = runtime.handle().clone();
            let thread = thread::spawn(move || {
                let _guard = handle.enter();
                sleep(ms(2))
            });
            runtime.block_on(thread.join().unwrap());
        });
    }
    must_end(|| {
        let runtime = multi_thread(2);
        let tasks = (0..4).map(|_| runtime.spawn(async { block_in_place(|| Handle::current().block_on(use_time())) }));
        for task in tasks.collect::<Vec<_>>() {
            runtime.block_on(task).unwrap();
        }
        // The threads that were workers a moment ago may be others now.
        runtime.block_on(runtime.spawn(use_time())).unwrap();
        let threads = (0..8).map(|_| runtime.spawn_blocking(|| Handle::current().block_on(use_time())));
        for thread in threads.collect::<Vec<_>>() {
            runtime.block_on(thread).unwrap();
        }
    });
}

#[test]
fn local_sets_have_time_too() {
    for runtime in every_kind() {
        must_end(move || {
            let local = LocalSet::new();
            local.block_on(&runtime, async {
                let shared = std::rc::Rc::new(std::cell::Cell::new(0));
                let tasks = (0..10).map(|_| {
                    let shared = shared.clone();
                    tokio::task::spawn_local(async move {
                        use_time().await;
                        shared.set(shared.get() + 1);
                    })
                });
                for task in tasks.collect::<Vec<_>>() {
                    task.await.unwrap();
                }
                assert_eq!(shared.get(), 10);
            });
            runtime.block_on(local.run_until(use_time()));
            let left_behind = LocalSet::new();
            left_behind.spawn_local(sleep(HOUR));
            runtime.block_on(left_behind.run_until(use_time()));
            drop(runtime);
            drop(left_behind);
        });
    }
}

#[test]
fn a_sleep_may_move_from_runtime_to_runtime_as_it_waits() {
    must_end(|| {
        let start = Instant::now();
        let mut nap = sleep(ms(20));
        for runtime in every_kind() {
            runtime.block_on(async {
                let _ = futures::poll!(&mut nap);
            });
        }
        let last = current_thread();
        last.block_on(&mut nap);
        assert!(start.elapsed() >= ms(20));
    });
}

/// Nobody drives the runtime that the sleep waits on, so a helper thread fires it.
#[test]
fn a_sleep_on_a_runtime_that_is_not_driven_fires() {
    for runtime in [current_thread(), bare().into_iter().next().unwrap()] {
        must_end(move || {
            for round in 0..3 {
                // Registered in its last turn, or before it ever had one.
                let (woken, waker) = Wakes::new();
                let start = std::time::Instant::now();
                let guard = runtime.enter();
                let mut nap = sleep(HOUR);
                assert!(poll_with(&mut nap, &waker).is_pending());
                drop(guard);
                nap.reset_at(Instant::now() + ms(10));
                woken.wait();
                assert!(start.elapsed() >= ms(10));
                assert_eq!(woken.count(), 1);
                let guard = runtime.enter();
                futures::executor::block_on(use_time());
                drop(guard);
                current_thread().block_on(&mut nap);
                if round == 1 {
                    runtime.block_on(use_time());
                }
            }
        });
    }
}

/// The same for a runtime that was driven before, was left with timers waiting, and is then driven again.
#[test]
fn a_runtime_that_is_driven_now_and_then_loses_and_doubles_nothing() {
    must_end(|| {
        let runtime = current_thread();
        let other = multi_thread(1);
        let mut random = crate::common::Random::new(5);
        for round in 0..30 {
            let (woken, waker) = Wakes::new();
            let naps: Vec<hairspring::Sleep> = runtime.block_on(async {
                let naps = (0..10).filter_map(|_| {
                    let mut nap = sleep(random.duration(ms(6)));
                    poll_with(&mut nap, &waker).is_pending().then_some(nap)
                });
                naps.collect()
            });
            let waiting = naps.len();
            match round % 3 {
                0 => runtime.block_on(use_time()),
                1 => other.block_on(use_time()),
                _ => thread::sleep(ms(2)),
            }
            for nap in naps {
                other.block_on(nap);
            }
            assert!(woken.count() <= waiting);
        }
    });
}

/// The other runtime also polls it, so it needs no waker of the runtime that is not driven.
#[test]
fn a_sleep_of_a_runtime_that_is_not_driven_completes_on_another() {
    for next in both_flavours() {
        must_end(move || {
            let still = current_thread();
            let start = Instant::now();
            let made = inside(&still, || sleep(ms(5)));
            next.block_on(made);
            assert!(start.elapsed() >= ms(5));
            let timer = still.block_on(async { Timer::current() });
            drop(still);
            for _ in 0..8 {
                let message = crate::common::panic_message(|| next.block_on(timer.sleep(HOUR)));
                assert!(message.contains("shut down"), "a timer's own sleep stays with it: {message}");
                // Perhaps this one takes over what that timer had.
                let another = current_thread();
                another.block_on(sleep(ms(1)));
                let message = crate::common::panic_message(|| another.block_on(timer.sleep(HOUR)));
                assert!(message.contains("shut down"), "and does not go to another: {message}");
            }
        });
    }
}

#[test]
fn a_paused_runtime_next_to_others_has_its_own_time() {
    must_end(|| {
        let (stop, stopped) = mpsc::channel::<()>();
        let real = thread::spawn(move || {
            let runtimes = every_kind();
            for runtime in runtimes.iter().cycle() {
                runtime.block_on(use_time());
                if stopped.try_recv() != Err(mpsc::TryRecvError::Empty) {
                    return;
                }
            }
        });
        for _ in 0..20 {
            paused().block_on(async {
                let start = Instant::now();
                sleep(50 * HOUR).await;
                assert_eq!(start.elapsed(), 50 * HOUR);
                let tasks = (0..20).map(|hours| tokio::spawn(sleep(hours * HOUR)));
                for task in tasks.collect::<Vec<_>>() {
                    task.await.unwrap();
                }
                assert_eq!(start.elapsed(), 69 * HOUR);
            });
        }
        drop(stop);
        real.join().unwrap();
    });
}

/// The runtimes take turns on one thread, so what the thread remembers about one must not be used for the other.
#[test]
fn paused_and_unpaused_runtimes_take_turns_in_one_thread() {
    must_end(|| {
        let [still, real] = [paused(), current_thread()];
        for _ in 0..5 {
            still.block_on(async {
                let start = Instant::now();
                tokio::spawn(sleep(HOUR)).await.unwrap();
                sleep(HOUR).await;
                assert_eq!(start.elapsed(), 2 * HOUR);
            });
            real.block_on(use_time());
            real.block_on(real.spawn(use_time())).unwrap();
        }
    });
}

/// Hubs pass from runtime to runtime, and nothing of the previous one may show.
#[test]
fn dozens_of_runtimes_are_made_and_dropped() {
    must_end(|| {
        let fired = Arc::new(AtomicUsize::new(0));
        for round in 0_u32..60 {
            step();
            let runtime = match round % 4 {
                0 => current_thread(),
                1 => multi_thread(1),
                2 => multi_thread(3),
                _ => paused(),
            };
            let fired = fired.clone();
            runtime.spawn(async move {
                sleep(HOUR / 2).await;
                fired.fetch_add(1, SeqCst);
            });
            runtime.block_on(async {
                let start = Instant::now();
                sleep(Duration::from_micros(300)).await;
                assert!(start.elapsed() >= Duration::from_micros(300));
                if round % 4 == 3 {
                    sleep(HOUR).await;
                }
            });
        }
        assert_eq!(fired.load(SeqCst), 15, "those with a paused clock, and no other");
    });
}

/// go 45716: timers that had been registered by threads that have ended never fired. Here one shard serves them all.
#[test]
fn timers_of_threads_that_have_ended_fire() {
    for runtime in [current_thread(), multi_thread(1), multi_thread(2)] {
        must_end(move || {
            let (woken, waker) = Wakes::new();
            let threads = (0..24).map(|_| {
                let (handle, waker) = (runtime.handle().clone(), waker.clone());
                thread::spawn(move || {
                    let _guard = handle.enter();
                    let naps = (0..20).map(|index| {
                        let mut nap = sleep(ms(10 + index));
                        (poll_with(&mut nap, &waker).is_pending(), nap)
                    });
                    naps.collect::<Vec<_>>()
                })
            });
            let threads: Vec<_> = threads.collect();
            let naps: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            let waiting = naps.iter().filter(|(waits, _)| *waits).count();
            runtime.block_on(async {
                while woken.count() < waiting {
                    sleep(ms(1)).await;
                }
                for (_, mut nap) in naps {
                    (&mut nap).await;
                }
            });
            assert_eq!(woken.count(), waiting);
        });
    }
}

/// Nothing moves that clock by itself, and nobody can wake the driver when it moves.
#[test]
fn a_paused_clock_without_enable_time_keeps_no_processor_busy_and_fires_when_it_is_moved() {
    let runtime = tokio::runtime::Builder::new_current_thread().start_paused(true).build().unwrap();
    must_end(move || {
        runtime.block_on(async {
            let nap = tokio::spawn(sleep(HOUR));
            let (sender, word) = tokio::sync::oneshot::channel();
            thread::spawn(move || {
                thread::sleep(ms(300));
                sender.send(()).unwrap();
            });
            word.await.unwrap();
            let turns = Timer::current().metrics().turns();
            assert!(turns < 1_000, "{turns} turns");
            assert!(!nap.is_finished());
            tokio::time::advance(HOUR).await;
            nap.await.unwrap();
        });
    });
}

#[test]
fn a_timers_handle_works_from_anywhere() {
    fn has_all<T: Clone + Send + Sync + Unpin + std::fmt::Debug>(_: &T) {}
    let error = Timer::try_current().unwrap_err();
    assert!(error.is_no_runtime() && !error.is_shutdown() && !error.is_at_capacity() && !error.is_invalid());
    has_all(&Timer::current());
    must_end(|| {
        let runtime = multi_thread(2);
        let timer = runtime.block_on(async { Timer::current() });
        has_all(&timer);
        assert_eq!(timer, runtime.block_on(runtime.spawn(async { Timer::current() })).unwrap(), "a runtime has one");
        let handle = timer.clone();
        let thread = thread::spawn(move || {
            let start = handle.now();
            futures::executor::block_on(handle.sleep(ms(2)));
            futures::executor::block_on(handle.sleep_until(start + ms(4)));
            let limited = handle.timeout_at(start + ms(5), std::future::pending::<()>());
            assert!(futures::executor::block_on(limited).is_err());
            assert!(futures::executor::block_on(handle.timeout(ms(1), std::future::pending::<()>())).is_err());
            let mut ticks = handle.interval_at(start, ms(3));
            assert_eq!(futures::executor::block_on(ticks.tick()), start);
            let mut ticks = handle.interval(ms(1));
            futures::executor::block_on(async { ticks.tick().await.max(ticks.tick().await) });
            assert!(start.elapsed() >= ms(7));
        });
        thread.join().unwrap();
        let (woken, waker) = Wakes::new();
        let mut last = timer.sleep(HOUR);
        assert!(poll_with(&mut last, &waker).is_pending());
        drop(runtime);
        assert_eq!(woken.count(), 1, "woken to see that its timer has gone");
        let other = current_thread();
        assert!(crate::common::panic_message(|| other.block_on(last)).contains("shut down"));
    });
}
