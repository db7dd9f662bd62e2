//! With a grace, a paused clock waits in real time for events from outside the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Instant as Real;

use crate::common::{HOUR, current_thread, ms, multi_thread, must_end_on, panic_message};
use hairspring::test_util::pause_with_grace;
use hairspring::{Duration, Instant, pause, resume, sleep, timeout};
use tokio::sync::mpsc;

/// Runs `test` on runtimes of each kind, and fails if it hangs.
fn on_each_runtime<F: Future<Output = ()> + Send + 'static>(test: impl Fn() -> F + Send + Clone + 'static) {
    for make in [current_thread, || multi_thread(1), || multi_thread(4)] {
        let test = test.clone();
        must_end_on(make(), async move || tokio::spawn(test()).await.unwrap());
    }
}

#[test]
fn each_move_of_the_clock_comes_after_the_grace() {
    for grace in [Duration::ZERO, ms(10)] {
        on_each_runtime(move || async move {
            pause_with_grace(grace);
            let (start, real) = (Instant::now(), Real::now());
            for n in 1..=5 {
                sleep(HOUR).await;
                // tokio's clock rounds each sleep up.
                assert!((n * HOUR..=n * (HOUR + ms(1))).contains(&start.elapsed()), "{:?}", start.elapsed());
                assert!(real.elapsed() >= n * grace, "{:?}", real.elapsed());
            }
        });
    }
}

#[test]
fn outside_messages_restart_the_grace() {
    const MESSAGES: u32 = 60;
    const GRACE: Duration = Duration::from_secs(1);
    fn messages() -> mpsc::UnboundedReceiver<()> {
        let (sender, messages) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for _ in 0..MESSAGES {
                thread::sleep(ms(20));
                sender.send(()).unwrap();
            }
        });
        messages
    }
    on_each_runtime(|| async {
        pause_with_grace(GRACE);
        let (mut messages, count) = (messages(), Arc::<AtomicU32>::default());
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
    // Here only the future of `block_on` runs.
    for make in [current_thread, || multi_thread(2)] {
        must_end_on(make(), async move || {
            pause_with_grace(GRACE);
            let mut messages = messages();
            for _ in 0..MESSAGES {
                timeout(HOUR, messages.recv()).await.expect("no time passes").unwrap();
            }
        });
    }
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
        assert_eq!(panic_message(|| pause_with_grace(HOUR)), panic_message(pause), "the clock is already paused");
        sleep(HOUR).await;
    });
}

#[test]
fn tokios_own_timers_take_real_time() {
    on_each_runtime(|| async {
        pause_with_grace(Duration::from_secs(1));
        let (start, real) = (Instant::now(), Real::now());
        tokio::time::sleep(ms(5)).await;
        assert!(real.elapsed() >= ms(5));
        assert_eq!(start.elapsed(), Duration::ZERO);
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);
    });
}

/// The clock of a current-thread runtime was tokio's, and is ahead of the system's.
#[test]
fn time_goes_on_from_where_tokios_clock_stands() {
    must_end_on(current_thread(), async || {
        pause();
        let start = Instant::now();
        sleep(HOUR).await;
        resume();
        pause_with_grace(ms(1));
        assert!((HOUR..2 * HOUR).contains(&start.elapsed()), "{:?}", start.elapsed());
        sleep(HOUR).await;
        assert!(start.elapsed() >= 2 * HOUR);
    });
}

/// A bug that this crate had: each pause left a task that stayed until the runtime ended.
#[test]
fn pausing_again_and_again_leaves_no_tasks() {
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
