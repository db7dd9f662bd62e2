//! A forked process, such as a daemon: the threads of its parent do not exist in it.
#![cfg(unix)]

mod common;

use std::thread;

use common::{bare, current_thread, ms, multi_thread, must_end, step};
use fork::{Fork, fork, waitpid};
use hairspring::{Instant, boot, interval, sleep, timeout, wall};

/// What a child reports with its exit code.
const WELL: i32 = 17;
const HUNG: i32 = 18;

/// Ends this process with an exit code of its own if it hangs.
fn give_up_if_it_hangs() {
    thread::spawn(|| {
        thread::sleep(common::HUNG / 3);
        std::process::exit(HUNG);
    });
}

/// Runs `code` in a process of its own and fails if `code` does not complete.
fn in_a_child(code: impl FnOnce()) {
    match fork().unwrap() {
        Fork::Child => {
            give_up_if_it_hangs();
            // Nothing of the harness's may run here.
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(code));
            std::process::exit(if ended.is_ok() { WELL } else { 1 });
        }
        Fork::Parent(child) => {
            let status = waitpid(child).unwrap();
            // The code is in the second byte, and nothing else if the child has exited by itself.
            assert_eq!(status, WELL << 8, "18 is for a child that hangs");
            step();
        }
    }
}

fn everything_fires() {
    for runtime in [current_thread(), multi_thread(2)] {
        runtime.block_on(async {
            let start = Instant::now();
            sleep(ms(2)).await;
            assert!(timeout(ms(2), std::future::pending::<()>()).await.is_err());
            let mut ticks = interval(ms(2));
            ticks.tick().await;
            ticks.tick().await;
            tokio::spawn(sleep(ms(2))).await.unwrap();
            boot::sleep(ms(2)).await;
            wall::sleep_until(wall::now() + ms(2)).await;
            assert!(start.elapsed() >= ms(10));
        });
    }
    futures::executor::block_on(sleep(ms(2)));
}

/// A bug that this crate had: after a fork every sleep in the child hung: the child inherited the flag that the alarm
/// thread was started, but not the thread.
// One test, so that no other thread is in the midst of anything as the process is forked.
#[test]
fn what_a_process_does_with_timers_a_process_that_it_forks_off_can_do_too() {
    must_end(|| {
        // Before the first timer, and after.
        in_a_child(everything_fires);
        everything_fires();
        in_a_child(everything_fires);
        in_a_child(|| {
            everything_fires();
            in_a_child(everything_fires);
        });
        // As soon as the parent is woken, while the thread that woke it is in the midst of its turn.
        for _ in 0..30 {
            futures::executor::block_on(sleep(ms(1)));
            in_a_child(|| futures::executor::block_on(sleep(ms(1))));
            current_thread().block_on(sleep(ms(1)));
            in_a_child(|| current_thread().block_on(sleep(ms(1))));
        }

        // On a runtime that goes on in the child.
        let runtime = current_thread();
        runtime.block_on(sleep(ms(2)));
        in_a_child(|| {
            runtime.block_on(sleep(ms(2)));
            runtime.block_on(runtime.spawn(sleep(ms(2)))).unwrap();
        });

        // The same while a timer of the parent waits there, which does not concern the child's. Without tokio's time, of
        // which each process has its own.
        let [runtime, _] = bare();
        runtime.block_on(sleep(ms(2)));
        let waits = runtime.spawn(sleep(ms(10)));
        runtime.block_on(sleep(ms(2)));
        in_a_child(|| runtime.block_on(sleep(ms(50))));
        runtime.block_on(waits).unwrap();
        // In a task on a worker, which knows its timer without asking.
        let workers = multi_thread(1);
        workers.block_on(async {
            for _ in 0..100 {
                tokio::spawn(sleep(ms(1))).await.unwrap();
            }
            let waits = tokio::spawn(sleep(ms(10)));
            tokio::spawn(async { in_a_child(|| futures::executor::block_on(sleep(ms(50)))) }).await.unwrap();
            waits.await.unwrap();
        });
        drop(workers);

        // In a task that goes on in the child.
        let task = runtime.spawn(async {
            let waits = tokio::spawn(sleep(ms(10)));
            // The second, so that the thread remembers the timer for this task and not for the other.
            sleep(ms(1)).await;
            sleep(ms(1)).await;
            match fork().unwrap() {
                Fork::Child => {
                    give_up_if_it_hangs();
                    sleep(ms(50)).await;
                    std::process::exit(WELL);
                }
                Fork::Parent(child) => assert_eq!(waitpid(child).unwrap(), WELL << 8),
            }
            waits.await.unwrap();
        });
        runtime.block_on(task).unwrap();
        everything_fires();
    });
}
