//! Work keeps a clock from moving: blocking work, and code that blocks between awaits. In a bubble it does so on every
//! system; on a paused current-thread runtime tokio sees to it.

#[cfg(target_os = "linux")]
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use crate::common::{HOUR, joined, ms, must_end, panic_message, rounds};
use crate::kinds::{
    BUBBLES, Kind, MICRO, TOKIOS, WORKERS, computes_for, no_time_passes_during, on_each, on_each_and_in_a_task,
};
use hairspring::test_util::Bubble;
use hairspring::{Instant, sleep};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{block_in_place, spawn_blocking, yield_now};

/// tokio 5115, 6242: auto-advance moved the clock during `spawn_blocking`.
#[test]
fn blocking_work_holds_time() {
    on_each_and_in_a_task(&[TOKIOS.as_slice(), &WORKERS, &BUBBLES].concat(), || async {
        let panics = || {
            thread::sleep(ms(2));
            panic!("on purpose");
        };
        assert!(no_time_passes_during(spawn_blocking(panics)).await.unwrap_err().is_panic());

        // The work waits for a task.
        let (sender, answer) = oneshot::channel();
        tokio::spawn(async move {
            for _ in 0..10 {
                yield_now().await;
            }
            sender.send(()).unwrap();
        });
        no_time_passes_during(spawn_blocking(|| answer.blocking_recv().unwrap())).await.unwrap();
        let blocks_on = || Handle::current().block_on(async { tokio::spawn(yield_now()).await.unwrap() });
        no_time_passes_during(spawn_blocking(blocks_on)).await.unwrap();

        // The work starts more work.
        let (sender, inner) = oneshot::channel();
        let outer = move || {
            thread::sleep(ms(2));
            sender.send(spawn_blocking(|| thread::sleep(ms(10)))).unwrap();
        };
        let both = async {
            spawn_blocking(outer).await.unwrap();
            inner.await.unwrap().await.unwrap();
        };
        no_time_passes_during(both).await;
    });
}

/// Starts more work than the pool has threads.
#[test]
fn queued_work_holds_time() {
    on_each(&[Kind::PausedLater, Kind::Bubble, Kind::Workers(2)], || async {
        let done = Arc::<AtomicUsize>::default();
        let tasks: Vec<_> = (0..1_200)
            .map(|_| {
                let counts = done.clone();
                spawn_blocking(move || {
                    thread::sleep(ms(10));
                    counts.fetch_add(1, SeqCst);
                })
            })
            .collect();
        sleep(MICRO).await;
        assert_eq!(done.load(SeqCst), 1_200);
        joined(tasks).await;
        no_time_passes_during(spawn_blocking(|| thread::sleep(ms(10)))).await.unwrap();
    });
}

/// The work takes longer than the bubble's patience.
#[test]
fn long_work_holds_time_and_bubbles() {
    for kind in BUBBLES {
        let message = must_end(move || {
            let ended = Arc::<AtomicBool>::default();
            let sets = ended.clone();
            let message = panic_message(|| {
                kind.run_in(Bubble::new().patience(ms(500)), || async {
                    no_time_passes_during(spawn_blocking(|| thread::sleep(ms(1_200)))).await.unwrap();
                    let (_kept, never) = oneshot::channel::<()>();
                    drop(spawn_blocking(move || {
                        thread::sleep(ms(1_200));
                        sets.store(true, SeqCst);
                    }));
                    let _ = never.await;
                });
            });
            assert!(ended.load(SeqCst), "the bubble gave up early");
            message
        });
        assert!(message.starts_with("deadlock: nothing is left to wake the bubble"), "{message}");
    }
}

#[test]
fn files_and_lookups_hold_a_bubbles_time() {
    on_each_and_in_a_task(&BUBBLES, || async {
        let read = no_time_passes_during(tokio::fs::read(file!())).await;
        assert!(read.is_ok_and(|read| read.len() > 1_000));
        let addresses = no_time_passes_during(tokio::net::lookup_host("localhost:80")).await;
        assert!(addresses.is_ok_and(|mut all| all.next().is_some()));
    });
}

/// Another thread takes over the worker. The task runs on until it next waits.
#[test]
fn a_task_that_blocks_in_place_holds_time() {
    on_each(&WORKERS, || async {
        for _ in 0..5 {
            let task = async {
                block_in_place(|| Handle::current().block_on(tokio::spawn(yield_now()))).unwrap();
                computes_for(ms(20));
                yield_now().await;
                block_in_place(|| thread::sleep(ms(2)));
            };
            no_time_passes_during(tokio::spawn(task)).await.unwrap();
        }
    });
}

/// Blocks for long and short times, waiting and computing.
const BLOCKS: [fn(); 4] =
    [|| thread::sleep(ms(20)), || computes_for(ms(20)), || thread::sleep(ms(1)), || computes_for(100 * MICRO)];

/// A task wakes the future, then waits for a timer that is due soon, while the future blocks its thread.
#[test]
fn time_stands_while_code_blocks_between_awaits() {
    on_each_and_in_a_task(&[WORKERS.as_slice(), &BUBBLES].concat(), || async {
        for blocks in BLOCKS {
            for round in rounds(8) {
                let start = Instant::now();
                let (sender, answer) = oneshot::channel();
                let nap = if round % 2 == 0 { ms(1) } else { HOUR };
                let naps = tokio::spawn(async move {
                    sleep(HOUR).await;
                    sender.send(()).unwrap();
                    sleep(nap).await;
                });
                answer.await.unwrap();
                blocks();
                assert!(!naps.is_finished() && start.elapsed() < HOUR + ms(1), "in round {round}");
                naps.await.unwrap();
                assert!(start.elapsed() >= HOUR + nap, "in round {round}");
            }
        }
    });
}

/// Runs some tests again on a system that shows programs nothing about their threads.
#[cfg(target_os = "linux")]
#[test]
fn a_bubble_works_without_proc() {
    const WITHIN: &str = "HAIRSPRING_WITHOUT_PROC";
    if std::env::var_os(WITHIN).is_some() {
        assert_eq!(std::fs::read_dir("/proc").unwrap().count(), 0);
        return;
    }
    let without_proc = |then: &str| {
        let script = format!("mount -t tmpfs none /proc && {then}");
        let mut run = Command::new("unshare");
        run.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(std::env::current_exe().unwrap());
        run.env(WITHIN, "yes");
        run
    };
    if !without_proc("true").output().is_ok_and(|output| output.status.success()) {
        println!("not tested: this system does not let a program hide /proc from another");
        return;
    }
    let output =
        without_proc("exec \"$0\" bubbles_time blocking_work_holds_time code_blocks_between works_without_proc")
            .output()
            .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("4 passed"), "{output:?}");
}
