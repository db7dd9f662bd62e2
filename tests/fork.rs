//! A forked process, such as a daemon: the threads of its parent do not exist in it.
#![cfg(unix)]

mod common;

use std::thread;

use common::{HOUR, current_thread, inside, ms, multi_thread, must_end, poll, step};
use fork::{Fork, fork, waitpid};
use hairspring::{Instant, boot, interval, sleep, timeout, wall};

/// What a child reports with its exit code.
const WELL: i32 = 17;
const HUNG: i32 = 18;

/// Runs `code` in a process of its own and fails if `code` does not complete.
fn in_a_child(code: impl FnOnce()) {
    match fork().unwrap() {
        Fork::Child => {
            thread::spawn(|| {
                thread::sleep(common::HUNG / 2);
                std::process::exit(HUNG);
            });
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

        // With timers that waited when it was forked off.
        let mut far = sleep(HOUR);
        let waits = runtime.spawn(sleep(ms(300)));
        inside(&runtime, || assert!(poll(&mut far).is_pending()));
        runtime.block_on(sleep(ms(2)));
        in_a_child(|| {
            runtime.block_on(sleep(ms(2)));
            runtime.block_on(waits).unwrap();
            far.reset_to(Instant::now() + ms(2));
            runtime.block_on(&mut far);
        });
        everything_fires();
    });
}
