//! Timers that end and begin, runtimes that are dropped or blocked while sleeps wait on them, and many of everything.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Instant as StdInstant;

use crate::common::{HOUR, Wakes, current_thread, inside, ms, multi_thread, must_end, panic_message, poll, poll_with};
use hairspring::{Instant, Timer, interval, sleep, timeout};
use tokio::runtime::{Handle, Runtime};

/// Makes timers on new runtimes. Two timers that shared memory would count, and end, each other's sleeps.
fn assert_apart() {
    let runtimes: Vec<_> = (0..6).map(|_| current_thread()).collect();
    let install = || Timer::builder().install().unwrap();
    let timers: Vec<_> = runtimes.iter().map(|runtime| inside(runtime, install)).collect();
    let mut naps: Vec<_> = timers.iter().map(|timer| timer.sleep(HOUR)).collect();
    assert!(naps.iter_mut().all(|nap| poll(nap).is_pending()));
    assert!(timers.iter().all(|timer| timer.metrics().pending() == 1));
    assert!(timers.iter().all(|timer| timer.shutdown() == 1));
}

/// A bug that this crate had: two runtimes shared one timer after a program made a reporter for a timer that had ended:
/// memory with no holders was held again and went back to the pool twice.
#[cfg(feature = "metrics")]
#[test]
fn reporters_on_a_timer_that_has_gone_do_not_give_two_timers_one_place() {
    must_end(|| {
        for _ in 0..20 {
            let gone = inside(&current_thread(), Timer::current);
            for _ in 0..3 {
                gone.reporter("x").publish();
            }
            assert_apart();
        }
    });
}

#[test]
fn handles_on_timers_that_have_gone_do_not_touch_those_that_came_after() {
    must_end(|| {
        let mut gone = Vec::new();
        for _ in 0..20 {
            gone.push(inside(&current_thread(), Timer::current));
            let built = Timer::builder().shards(1).build_with_driver().unwrap();
            built.0.shutdown();
            gone.push(built.0);
            for timer in &gone {
                assert_eq!((timer.shutdown(), timer.metrics().pending()), (0, 0));
                let mut nap = timer.sleep(HOUR);
                assert!(panic_message(|| poll(&mut nap)).contains("shut down"));
            }
            assert_apart();
        }
    });
}

/// Drops a runtime in which a thread blocks, and returns what the thread returned at its end.
fn drop_under<T: Send + 'static>(
    runtime: Runtime,
    block: impl FnOnce(&Handle, mpsc::Sender<()>) -> T + Send + 'static,
) -> T {
    let (started, starts) = mpsc::channel();
    let (through, answer) = mpsc::channel();
    let handle = runtime.handle().clone();
    runtime.spawn_blocking(move || {
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block(&handle, started)));
        let _ = through.send(answer);
    });
    starts.recv().unwrap();
    drop(runtime);
    answer.recv().unwrap().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// tokio's sleeps panic there at once. Either way the thread ends, because dropping the runtime waits for it.
#[test]
fn a_thread_that_sleeps_in_a_runtime_does_not_hold_up_its_end() {
    type Wait = fn(&Handle);
    let waits: [(&str, Wait); 5] = [
        ("sleep", |handle| handle.block_on(sleep(HOUR))),
        ("timeout", |handle| drop(handle.block_on(timeout(HOUR, std::future::pending::<()>())))),
        ("long interval", |handle| {
            handle.block_on(async {
                let mut ticks = interval(HOUR);
                ticks.tick().await;
                ticks.tick().await;
            });
        }),
        ("a sleep that is put off again and again", |handle| {
            let mut nap = sleep(HOUR);
            handle.block_on(std::future::poll_fn(|cx| {
                nap.reset_at(Instant::now() + HOUR);
                thread::sleep(ms(5));
                cx.waker().wake_by_ref();
                std::pin::Pin::new(&mut nap).poll(cx)
            }));
        }),
        ("short interval", |handle| {
            handle.block_on(async {
                let mut ticks = interval(ms(1));
                loop {
                    ticks.tick().await;
                }
            });
        }),
    ];
    // All at the same time, as each goes on for a second.
    thread::scope(|scope| {
        for (what, wait) in waits {
            for runtime in [current_thread(), multi_thread(2)] {
                scope.spawn(move || {
                    let said = must_end(move || {
                        panic_message(|| {
                            drop_under(runtime, move |handle, started| {
                                started.send(()).unwrap();
                                wait(handle);
                            });
                        })
                    });
                    assert!(said.contains("shut down"), "{what}: {said}");
                });
            }
        }
    });
}

#[test]
fn a_task_that_blocks_in_place_on_a_sleep_does_not_hold_up_the_end_of_its_runtime() {
    must_end(|| {
        let runtime = multi_thread(2);
        let (started, starts) = mpsc::channel();
        let _task = runtime.spawn(async move {
            tokio::task::block_in_place(|| {
                started.send(()).unwrap();
                Handle::current().block_on(sleep(HOUR));
            });
        });
        starts.recv().unwrap();
        drop(runtime);
    });
}

/// A short sleep ends as it should. Nothing spins: a poll that kept waking itself would run millions of times.
#[test]
fn a_short_sleep_in_a_runtime_that_was_dropped_ends_at_its_deadline_with_few_polls() {
    for runtime in [current_thread(), multi_thread(2)] {
        let polls = must_end(move || {
            drop_under(runtime, |handle, started| {
                let start = StdInstant::now();
                let mut polls = 0;
                handle.block_on(async {
                    let mut nap = sleep(ms(300));
                    std::future::poll_fn(|cx| {
                        polls += 1;
                        let polled = std::pin::Pin::new(&mut nap).poll(cx);
                        let _ = started.send(());
                        polled
                    })
                    .await;
                });
                assert!(start.elapsed() >= ms(300));
                polls
            })
        });
        assert!(polls < 100, "{polls} polls of one sleep");
    }
}

/// Blocks the thread that wakes it.
struct Blocks(Mutex<mpsc::Receiver<()>>, AtomicUsize);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, SeqCst);
        let _ = self.0.lock().unwrap().recv();
    }
}

/// Nobody drives the runtime that it waits on, so a helper thread wakes it.
#[test]
fn a_waker_that_blocks_holds_up_no_timer_but_its_own() {
    must_end(|| {
        let stuck = current_thread();
        let (open, closed) = mpsc::channel();
        let blocks = Arc::new(Blocks(closed.into(), AtomicUsize::new(0)));
        let mut nap = inside(&stuck, || sleep(ms(1)));
        let _entered = stuck.enter();
        let waker = Waker::from(blocks.clone());
        if std::pin::Pin::new(&mut nap).poll(&mut Context::from_waker(&waker)).is_pending() {
            while blocks.1.load(SeqCst) == 0 {
                thread::yield_now();
            }
        }
        thread::spawn(|| {
            for runtime in [current_thread(), multi_thread(2)] {
                runtime.block_on(sleep(ms(5)));
            }
            futures::executor::block_on(sleep(ms(5)));
            // A helper thread of its own turns for another runtime that nobody drives.
            let stuck_too = current_thread();
            let _entered = stuck_too.enter();
            let (woken, waker) = Wakes::new();
            let mut nap = sleep(ms(5));
            if poll_with(&mut nap, &waker).is_pending() {
                while woken.count() == 0 {
                    thread::yield_now();
                }
            }
        })
        .join()
        .unwrap();
        drop(open);
    });
}

/// The user's code wakes a driver on the user's executor.
#[test]
fn a_driver_whose_executor_blocks_as_it_is_woken_holds_up_no_other_timer() {
    must_end(|| {
        let (timer, mut driver) = Timer::builder().build_with_driver().unwrap();
        let (open, closed) = mpsc::channel();
        let blocks = Arc::new(Blocks(closed.into(), AtomicUsize::new(0)));
        let waker = Waker::from(blocks.clone());
        // The driver first, so that it waits by the time the sleep is due.
        assert!(std::pin::Pin::new(&mut driver).poll(&mut Context::from_waker(&waker)).is_pending());
        let mut nap = timer.sleep(ms(50));
        assert!(poll(&mut nap).is_pending());
        while blocks.1.load(SeqCst) == 0 {
            thread::yield_now();
        }
        multi_thread(2).block_on(sleep(ms(5)));
        drop(open);
    });
}

/// Each timer had a booking with the alarm thread, and each look at one scanned all of them: this test took hours.
#[test]
fn ten_thousand_timers_cost_no_more_each_than_one() {
    const TIMERS: usize = 10_000;
    must_end(|| {
        let runtime = multi_thread(2);
        let waits = runtime.block_on(async {
            let timers: Vec<_> = (0..TIMERS).map(|_| Timer::builder().shards(1).build().unwrap()).collect();
            let naps = timers.iter().map(|timer| tokio::spawn(timer.sleep(ms(100))));
            let waits: Vec<_> = naps.collect();
            for wait in waits {
                wait.await.unwrap();
            }
            timers.iter().map(|timer| timer.metrics().registered()).sum::<u64>()
        });
        assert!(waits <= TIMERS as u64);
    });
}
