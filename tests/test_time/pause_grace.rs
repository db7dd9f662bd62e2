//! With a grace, a bubble's clock waits in real time for events from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Instant as Real;

use crate::common::{HOUR, ms, must_end};
use hairspring::test_util::Bubble;
use hairspring::{Duration, Instant, sleep};
use tokio::sync::mpsc;

/// Runs `test` in bubbles with a grace, and fails if it hangs.
fn in_each_bubble<F: Future<Output = ()> + Send + 'static>(
    grace: Duration,
    test: impl Fn() -> F + Send + Copy + 'static,
) {
    for make in [Bubble::new, || Bubble::new().workers(1), || Bubble::new().workers(4)] {
        must_end(move || make().grace(grace).run(|| async { tokio::spawn(test()).await.unwrap() }));
        must_end(move || make().grace(grace).run(test));
    }
}

#[test]
fn each_move_of_the_clock_comes_after_the_grace() {
    const GRACE: Duration = Duration::from_millis(10);
    in_each_bubble(GRACE, || async {
        let (start, real) = (Instant::now(), Real::now());
        for n in 1..=5 {
            sleep(HOUR).await;
            assert_eq!(start.elapsed(), n * HOUR);
            assert!(real.elapsed() >= n * GRACE, "{:?}", real.elapsed());
        }
    });
}

const MESSAGES: u32 = 60;

/// One message each 20 ms.
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

#[test]
fn outside_messages_restart_the_grace() {
    in_each_bubble(Duration::from_secs(1), || async {
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
}

/// A bug that this crate had: the grace counted time in which the whole process stood still, as in a debugger, and the
/// clock jumped.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_stands_still_has_no_grace() {
    use rustix::process::{Pid, Signal, kill_process};
    const WITHIN: &str = "HAIRSPRING_STANDS_STILL";
    let name = "pause_grace::a_process_that_stands_still_has_no_grace";
    if std::env::var_os(WITHIN).is_some() {
        println!("begins");
        return Bubble::new().grace(Duration::from_secs(1)).workers(2).run(|| async {
            let mut messages = messages();
            for _ in 0..MESSAGES {
                hairspring::timeout(HOUR, messages.recv()).await.expect("no time passes").unwrap();
            }
        });
    }
    must_end(move || {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(WITHIN, "yes")
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        for _ in 0..3 {
            thread::sleep(ms(150));
            kill_process(pid, Signal::STOP).unwrap();
            thread::sleep(ms(1_500));
            kill_process(pid, Signal::CONT).unwrap();
        }
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn tokios_own_timers_take_real_time() {
    in_each_bubble(Duration::from_secs(1), || async {
        let (start, real) = (Instant::now(), Real::now());
        tokio::time::sleep(ms(5)).await;
        assert!(real.elapsed() >= ms(5));
        assert_eq!(start.elapsed(), Duration::ZERO);
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);
    });
}
