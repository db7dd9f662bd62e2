//! A paused runtime inside a task of another, and beside others. Once any clock in a process has been paused, no thread
//! relies on the timer that it remembers.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;

use crate::alone;
use crate::common::{HOUR, beside, current_thread, ms, multi_thread, spin};
use hairspring::test_util::Bubble;
use hairspring::{Duration, Instant, pause, sleep, timeout};
use tokio::runtime::Builder;
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
                    // tokio's clock rounds.
                    assert!((HOUR..HOUR + ms(2)).contains(&start.elapsed()));
                });
            });
        });
        outer.block_on(worker).unwrap();
    });
}

/// A bug that this crate had: the timers of all runtimes shared locks, and the thread in `block_on` counted as idle while
/// it waited long for one.
#[test]
fn runtimes_with_many_timers_do_not_move_the_clock_of_another() {
    let arms = |over: &AtomicBool| {
        // Without sockets: so many runtimes would need too many files.
        Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
            while !over.load(SeqCst) {
                let mut many: Vec<_> = (0..100).map(|n| sleep(ms(n))).collect();
                poll_fn(|cx| Poll::Ready(many.iter_mut().for_each(|nap| _ = Pin::new(nap).poll(cx)))).await;
            }
        });
    };
    let sleeps = || {
        Bubble::new().workers(2).run(|| async {
            for _ in 0..100 {
                let (start, nap) = (Instant::now(), Duration::from_nanos(1));
                timeout(ms(1), sleep(nap)).await.unwrap();
                assert_eq!(start.elapsed(), nap);
            }
        });
    };
    alone(move || beside(40, arms, || beside(6, spin, sleeps)));
}
