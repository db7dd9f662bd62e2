//! `settle` returns once everything that can happen without time passing has happened. The fuzzer tests it with random
//! work, and that `advance_and_settle` stops at each deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
#[cfg(target_os = "linux")]
use std::{collections::HashSet, path::PathBuf};

use crate::common::{HOUR, joined, ms, must_end, paused, poll, polled, step};
use crate::kinds::{BUBBLES, Kind, TOKIOS, on_each, on_each_and_in_a_task};
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use hairspring::test_util::{advance_and_settle, hold, settle};
use hairspring::{Instant, Timer, resume, sleep};
use tokio::task::{JoinHandle, spawn_blocking};

const PAUSED: [Kind; 5] = [Kind::StartPaused, Kind::NoSockets, Kind::PausedLater, Kind::Bubble, Kind::Workers(2)];

/// tokio 2443, 3709, 7419: a fixed number of yields, such as 61, may be too few.
#[test]
fn a_thousand_steps_are_waited_for() {
    on_each_and_in_a_task(&PAUSED, || async {
        let done = Arc::<AtomicBool>::default();
        let sets = done.clone();
        tokio::spawn(async move {
            for _ in 0..1_000 {
                step();
                let (sender, receiver) = tokio::sync::oneshot::channel();
                tokio::spawn(async move { sender.send(()) });
                receiver.await.unwrap();
                tokio::task::yield_now().await;
            }
            sets.store(true, SeqCst);
        });
        settle().await;
        assert!(done.load(SeqCst));
    });
}

#[test]
fn a_bubbles_blocking_work_is_waited_for() {
    on_each_and_in_a_task(&BUBBLES, || async {
        let done = Arc::<AtomicBool>::default();
        for length in [0, 1, 30] {
            let sets = done.clone();
            drop(spawn_blocking(move || {
                thread::sleep(ms(length));
                sets.store(true, SeqCst);
            }));
            settle().await;
            assert!(done.swap(false, SeqCst), "work of {length} ms");
        }
    });
}

#[test]
fn outside_a_bubble_blocking_work_is_not_waited_for() {
    on_each_and_in_a_task(&TOKIOS, || async {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let work = spawn_blocking(move || released.recv());
        settle().await;
        assert!(!work.is_finished());
        drop(release);
    });
}

/// A bug that this crate had: each started a thread.
#[cfg(target_os = "linux")]
#[test]
fn a_thousand_settles_take_one_thread() {
    on_each(&[Kind::StartPaused, Kind::Workers(2)], || async {
        let ours = || {
            let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
            let name = |thread: &PathBuf| std::fs::read_to_string(thread.join("comm")).unwrap_or_default();
            threads.filter(|thread| name(thread).starts_with("hairspring-cloc")).collect::<HashSet<_>>()
        };
        settle().await;
        let first = ours();
        for _ in 0..1_000 {
            settle().await;
        }
        // In one process, other tests have some, too.
        assert!(ours().difference(&first).count() < 100);
    });
}

#[test]
fn several_tasks_may_settle_or_stop_waiting() {
    on_each_and_in_a_task(&PAUSED, || async {
        for _ in 0..20 {
            drop(polled(Box::pin(settle())));
        }
        let tasks: Vec<_> = (0..5).map(|_| tokio::spawn(settle())).collect();
        settle().await;
        joined(tasks).await;
    });
    on_each(&PAUSED, || async {
        assert!(futures::poll!(Box::pin(settle())).is_pending());
        sleep(HOUR).await; // The clock moves again.
    });
}

/// A bug that this crate had: the thread in the runtime went on to wait for tokio's timers by the time before the move.
#[test]
fn tokios_timers_fire_although_another_thread_drives_the_runtime() {
    for held in [false, true] {
        must_end(move || {
            paused().block_on(async {
                let _hold = held.then(hold);
                let sleep = tokio::spawn(tokio::time::sleep(HOUR));
                settle().await;
                let handle = tokio::runtime::Handle::current();
                let advances = move || {
                    handle.block_on(advance_and_settle(2 * HOUR));
                    sleep.is_finished()
                };
                assert!(spawn_blocking(advances).await.unwrap(), "held: {held}");
            });
        });
    }
}

/// A bug that this crate had: chance decided which went on first, so the clock moved past some that wanted to settle.
#[test]
fn if_several_wait_the_last_to_begin_goes_on_first() {
    on_each(&PAUSED, || async {
        let ticks = tokio::spawn(async {
            loop {
                sleep(ms(3)).await;
            }
        });
        for _ in 0..3 {
            let start = Instant::now();
            let settles = tokio::spawn(async move {
                sleep(ms(10)).await;
                settle().await;
                start.elapsed()
            });
            let advances = tokio::spawn(async move {
                sleep(ms(20)).await;
                advance_and_settle(ms(25)).await;
                start.elapsed()
            });
            advance_and_settle(ms(100)).await;
            assert_eq!((settles.await.unwrap(), advances.await.unwrap(), start.elapsed()), (ms(10), ms(45), ms(100)));
            tokio::join!(advance_and_settle(ms(10)), advance_and_settle(ms(20)));
            assert_eq!(start.elapsed(), ms(130));
        }
        ticks.abort();
    });
}

/// A bug that this crate had: on tokio's clock it stopped only for the timer that the runtime has by itself.
#[test]
fn an_advance_stops_at_the_deadlines_of_each_timer() {
    on_each(&PAUSED, || async {
        let start = Instant::now();
        let timers = [Timer::current(), Timer::builder().build().unwrap(), Timer::builder().build().unwrap()];
        let naps = |(timer, length): (Timer, u32)| {
            tokio::spawn(async move {
                for n in 1..=3 {
                    timer.sleep(length * ms(1)).await;
                    assert_eq!(start.elapsed(), n * length * ms(1));
                }
            })
        };
        let tasks: Vec<_> = timers.into_iter().zip([5, 3, 4]).map(naps).collect();
        advance_and_settle(ms(14)).await;
        assert_eq!(tasks.iter().map(JoinHandle::is_finished).collect::<Vec<_>>(), [false, true, true]);
        advance_and_settle(ms(1)).await;
        joined(tasks).await;
    });
}

/// A bug that this crate had: it panicked.
#[test]
fn the_end_of_the_runtime_ends_it() {
    let ways: [fn() -> LocalBoxFuture<'static, ()>; 2] =
        [|| settle().boxed_local(), || advance_and_settle(ms(1)).boxed_local()];
    for way in ways {
        must_end(move || {
            let runtime = paused();
            let (mut settles, handle) = (way(), runtime.handle().clone());
            let entered = handle.enter();
            assert!(poll(&mut settles).is_pending(), "nothing drives the runtime");
            drop(entered);
            runtime.shutdown_background();
            handle.block_on(settles);
        });
    }
}

/// A bug that this crate had: it panicked if another timer was due.
#[test]
fn a_task_that_resumes_the_clock_ends_the_advance() {
    for others in [0, 3] {
        on_each(&TOKIOS, move || async move {
            tokio::spawn(async {
                sleep(HOUR).await;
                resume();
            });
            let others: Vec<_> = (2..2 + others).map(|n| tokio::spawn(sleep(n * HOUR))).collect();
            let before = Instant::now();
            advance_and_settle(20 * HOUR).await;
            assert!((HOUR..2 * HOUR).contains(&before.elapsed()));
            assert!(others.iter().all(|other| !other.is_finished()));
        });
    }
}
