//! A paused runtime inside a task of another.
//!
//! This test has a program of its own: once any clock of the process was found paused, no thread relies on the timer
//! that it remembers.
#![cfg(feature = "test-util")]

mod common;

use common::{HOUR, current_thread, ms, multi_thread, must_end};
use hairspring::{Instant, pause, sleep};
use tokio::task::{block_in_place, yield_now};

/// Its sleeps waited on the timer of the runtime outside, for an hour of real time.
#[test]
fn a_runtime_that_is_paused_inside_a_task_of_another_has_its_own_time() {
    let (outer, inner) = (multi_thread(1), current_thread());
    must_end(move || {
        let worker = outer.spawn(async move {
            for _ in 0..20 {
                sleep(ms(1)).await; // the worker learns which timer is its own
                yield_now().await;
            }
            block_in_place(move || {
                inner.block_on(async {
                    pause();
                    let start = Instant::now();
                    sleep(HOUR).await;
                    assert_eq!(start.elapsed(), HOUR);
                });
            });
        });
        outer.block_on(worker).unwrap();
    });
}
