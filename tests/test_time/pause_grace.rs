//! A clock that is paused with a grace waits in real time for what it does not see.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Instant as Real;

use crate::common::{HOUR, current_thread, ms, multi_thread, must_end, panic_message};
use hairspring::test_util::{self, pause_with_grace, settle};
use hairspring::{Duration, Instant, advance, pause, resume, sleep, timeout};
use tokio::sync::{mpsc, oneshot};

/// Runs `test` on runtimes of each kind, and fails if it hangs.
fn on_each_runtime<F: Future<Output = ()> + Send + 'static>(test: impl Fn() -> F + Send + Clone + 'static) {
    for make in [current_thread, || multi_thread(1), || multi_thread(4)] {
        let test = test.clone();
        must_end(move || make().block_on(async { tokio::spawn(test()).await.unwrap() }));
    }
}

#[test]
fn a_thread_and_a_process_are_waited_for() {
    on_each_runtime(|| async {
        pause_with_grace(HOUR);
        let start = Instant::now();
        for _ in 0..3 {
            let (sender, answer) = oneshot::channel();
            thread::spawn(move || {
                thread::sleep(ms(20));
                sender.send(5).unwrap();
            });
            assert_eq!(timeout(HOUR, answer).await.expect("no time passes").unwrap(), 5);
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_is_waited_for() {
    on_each_runtime(|| async {
        pause_with_grace(HOUR);
        let start = Instant::now();
        let child = tokio::process::Command::new("sleep").arg("0.02").status();
        assert!(timeout(HOUR, child).await.expect("no time passes").unwrap().success());
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

/// Such a step is one that tokio cannot take.
#[test]
fn a_fraction_of_a_millisecond_comes_after_the_grace() {
    on_each_runtime(|| async {
        pause_with_grace(HOUR);
        let start = Instant::now();
        let (sender, answer) = oneshot::channel();
        thread::spawn(move || {
            thread::sleep(ms(100));
            sender.send(5).unwrap();
        });
        assert_eq!(timeout(Duration::from_micros(500), answer).await.expect("no time passes").unwrap(), 5);
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

/// Only the future of `block_on` runs, between the looks.
#[test]
fn messages_to_the_thread_that_blocks_on_the_runtime_begin_the_grace_anew() {
    for make in [current_thread, || multi_thread(2)] {
        must_end(move || {
            make().block_on(async {
                pause_with_grace(Duration::from_secs(1));
                let (sender, mut messages) = mpsc::unbounded_channel();
                thread::spawn(move || {
                    for _ in 0..100 {
                        thread::sleep(ms(15));
                        sender.send(()).unwrap();
                    }
                });
                for _ in 0..100 {
                    timeout(HOUR, messages.recv()).await.expect("no time passes").unwrap();
                }
            });
        });
    }
}

#[test]
fn each_move_of_the_clock_comes_after_the_grace() {
    const GRACE: Duration = Duration::from_millis(10);
    on_each_runtime(|| async {
        pause_with_grace(GRACE);
        let (start, real) = (Instant::now(), Real::now());
        for n in 1..=5 {
            sleep(HOUR).await;
            assert_eq!(start.elapsed(), n * HOUR);
            assert!(real.elapsed() >= n * GRACE, "{:?}", real.elapsed());
        }
    });
}

#[test]
fn what_comes_from_outside_begins_the_grace_anew() {
    const MESSAGES: u32 = 30;
    on_each_runtime(|| async {
        pause_with_grace(Duration::from_secs(1));
        let (sender, mut messages) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for _ in 0..MESSAGES {
                thread::sleep(ms(40));
                sender.send(()).unwrap();
            }
        });
        let count = Arc::<AtomicU32>::default();
        let counts = count.clone();
        let receiver = tokio::spawn(async move {
            while messages.recv().await.is_some() {
                counts.fetch_add(1, SeqCst);
            }
        });
        sleep(HOUR).await;
        assert_eq!(count.load(SeqCst), MESSAGES);
        receiver.await.unwrap();
    });
}

#[test]
fn a_hold_keeps_the_clock_longer_and_advance_moves_it_at_once() {
    on_each_runtime(|| async {
        pause_with_grace(ms(2));
        let start = Instant::now();
        let hold = test_util::hold();
        let sleeps = tokio::spawn(sleep(HOUR));
        thread::sleep(ms(20));
        settle().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        advance(HOUR / 2).await;
        assert_eq!(start.elapsed(), HOUR / 2);
        drop(hold);
        sleeps.await.unwrap();
        assert_eq!(start.elapsed(), HOUR);
    });
}

#[test]
fn no_grace_is_left_after_a_resume() {
    on_each_runtime(|| async {
        pause_with_grace(HOUR);
        resume();
        let real = Real::now();
        sleep(ms(5)).await;
        assert!(real.elapsed() >= ms(5), "time is real again");
        pause();
        let start = Instant::now();
        sleep(HOUR).await;
        assert!(start.elapsed() >= HOUR && real.elapsed() < HOUR);
        resume();
        pause_with_grace(ms(1));
        sleep(HOUR).await;
        assert_eq!(panic_message(|| pause_with_grace(HOUR)), panic_message(pause), "it is paused");
        sleep(HOUR).await;
    });
}

/// As after `advance`.
#[test]
fn tokios_own_timers_fire_on_the_way() {
    must_end(|| {
        current_thread().block_on(async {
            pause_with_grace(ms(1));
            let start = Instant::now();
            let theirs = tokio::spawn(tokio::time::sleep(HOUR / 2));
            sleep(HOUR).await;
            theirs.await.unwrap();
            assert_eq!(start.elapsed(), HOUR);
        });
    });
}

#[test]
fn without_a_grace_it_is_a_pause() {
    on_each_runtime(|| async {
        pause_with_grace(Duration::ZERO);
        let start = Instant::now();
        sleep(HOUR).await;
        assert!(start.elapsed() >= HOUR);
    });
}

/// A bug that this crate had: dropping a runtime hung while anything held its paused clock: a hold is a blocking task,
/// which ended only with the hold.
#[test]
fn a_hold_that_is_kept_does_not_hold_up_the_end_of_its_runtime() {
    for grace in [Duration::ZERO, ms(1)] {
        must_end(move || {
            let runtime = current_thread();
            let holds = runtime.block_on(async {
                pause_with_grace(grace);
                [test_util::hold(), test_util::hold()]
            });
            drop(runtime); // Waits for blocking tasks.
            drop(holds);
        });
    }
}

/// A bug that this crate had: each pause left a task until the runtime ended, to tell a thread of that end.
#[test]
fn pausing_again_and_again_leaves_no_tasks_behind() {
    const PAUSES: usize = 50;
    on_each_runtime(|| async {
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let pause_and_resume = |grace| {
            pause_with_grace(grace);
            resume();
        };
        pause_and_resume(ms(1));
        let before = tasks();
        for _ in 0..PAUSES {
            pause_and_resume(Duration::ZERO);
            pause_and_resume(ms(1));
        }
        assert!(tasks() < before + PAUSES / 2, "{} tasks, and before {before}", tasks());
    });
}
