//! A paused runtime inside a task of another. Once any clock in a process has been paused, no thread relies on the timer
//! that it remembers.

use crate::alone;
use crate::common::{HOUR, current_thread, ms, multi_thread};
use hairspring::{Instant, pause, sleep};
use tokio::task::{block_in_place, yield_now};

/// A bug that this crate had: the inner runtime's sleeps waited on the outer runtime's timer, in real time.
#[test]
fn a_paused_runtime_inside_another_keeps_its_own_time() {
    alone(|| {
        let (outer, inner) = (multi_thread(1), current_thread());
        let worker = outer.spawn(async move {
            for _ in 0..20 {
                sleep(ms(1)).await; // the worker learns its timer
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
