//! Blocking work holds the paused clock of a multi-thread runtime if it lets itself be seen, and no other work does.
//! `bubble_blocking.rs` tests runtimes that a bubble has built, where all of it is seen.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, current_thread, maybe_in_a_task, ms, multi_thread, must_end, step};
use hairspring::test_util::{self, ManualClock};
use hairspring::{Instant, Timer, pause, sleep, timeout};
use tokio::runtime::Handle;
use tokio::task::{block_in_place, spawn_blocking};

/// Shorter than the first deadline that the clock would jump to.
const SHORT: Duration = Duration::from_secs(1);

/// Runs `test` on paused runtimes with different numbers of workers, in the root future and in a task, and fails if it
/// hangs.
fn on_paused_runtimes<F: Future<Output = ()> + Send + 'static>(test: impl Fn() -> F + Send + Clone + 'static) {
    for (workers, in_task) in [(1, false), (1, true), (2, false), (2, true), (4, true)] {
        let test = test.clone();
        must_end(move || {
            multi_thread(workers).block_on(async {
                pause();
                maybe_in_a_task(in_task, test).await;
            });
        });
    }
}

/// Waits for `work`, during which no time may pass, and then for an hour, which must pass.
async fn no_time_passes_during<T>(work: impl Future<Output = T>) -> T {
    let before = Instant::now();
    let done = timeout(SHORT, work).await.expect("time went on without it");
    assert_eq!(before.elapsed(), Duration::ZERO, "time went on");
    sleep(HOUR).await;
    assert_eq!(before.elapsed(), HOUR);
    step();
    done
}

#[test]
fn a_blocking_task() {
    on_paused_runtimes(|| async {
        for pause in [0, 1, 5, 30] {
            let work = test_util::spawn_blocking(move || {
                thread::sleep(ms(pause));
                pause
            });
            assert_eq!(no_time_passes_during(work).await.unwrap(), pause);
        }
        let computes = test_util::spawn_blocking(|| {
            let start = std::time::Instant::now();
            while start.elapsed() < ms(30) {}
        });
        no_time_passes_during(computes).await.unwrap();
    });
}

/// The waiting task is woken before the blocking thread is idle again.
#[test]
fn thousands_of_short_blocking_tasks() {
    on_paused_runtimes(|| async {
        for round in crate::common::rounds(1_000) {
            let (before, spins) = (Instant::now(), round % 50);
            let work = test_util::spawn_blocking(move || (0..spins).for_each(|_| thread::yield_now()));
            timeout(SHORT, work).await.expect("time went on without it").unwrap();
            assert_eq!(before.elapsed(), Duration::ZERO, "in round {round}");
            sleep(ms(1)).await;
        }
    });
}

/// Nothing else can run, so time must pass, or this would wait forever.
#[test]
fn a_blocking_task_that_waits_for_the_runtime_lets_time_pass() {
    on_paused_runtimes(|| async {
        let start = Instant::now();
        for n in 1..=20 {
            let work = spawn_blocking(|| Handle::current().block_on(sleep(HOUR)));
            work.await.unwrap();
            assert_eq!(start.elapsed(), n * HOUR);
        }
        let (sender, answer) = tokio::sync::oneshot::channel();
        let work = spawn_blocking(|| answer.blocking_recv().unwrap());
        sleep(HOUR).await;
        sender.send(5).unwrap();
        assert_eq!((work.await.unwrap(), start.elapsed()), (5, 21 * HOUR));

        let (sender, answer) = mpsc::channel();
        let work = spawn_blocking(move || answer.recv().unwrap());
        sleep(HOUR).await;
        sender.send(6).unwrap();
        assert_eq!((work.await.unwrap(), start.elapsed()), (6, 22 * HOUR));
    });
}

/// Another thread becomes a worker in its place.
#[test]
fn a_worker_that_blocks_in_place_lets_time_pass() {
    for workers in [1, 2, 4] {
        must_end(move || {
            multi_thread(workers).block_on(async {
                pause();
                let start = Instant::now();
                let nests = async move {
                    for _ in 0..20 {
                        block_in_place(|| Handle::current().block_on(sleep(HOUR)));
                        sleep(HOUR).await;
                        no_time_passes_during(test_util::spawn_blocking(|| thread::sleep(ms(2)))).await.unwrap();
                    }
                };
                tokio::spawn(nests).await.unwrap();
                assert_eq!(start.elapsed(), 60 * HOUR);
            });
        });
    }
}

#[test]
fn a_clock_of_ones_own_does_not_move_either() {
    for runtime in [current_thread(), multi_thread(2)] {
        must_end(move || {
            runtime.block_on(async {
                let clock = ManualClock::new();
                clock.auto_advance();
                let timer = Timer::builder().clock(&clock).build().unwrap();
                let start = clock.now();
                for n in 1..=5 {
                    let work = test_util::spawn_blocking(|| thread::sleep(ms(20)));
                    timer.timeout(SHORT, work).await.expect("time went on without it").unwrap();
                    timer.sleep(HOUR).await;
                    assert_eq!(clock.now() - start, n * HOUR);
                }
            });
        });
    }
}
