//! A hold or a new rate is in force when the call returns. In the fuzzer's programs, other threads hold clocks.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::common::{HOUR, ms, must_end, on_wake, polled_with, rounds, step, wait_until};
use crate::kinds::{Kind, no_time_passes_during, on_each};
use hairspring::test_util::{self, ManualClock, settle};
use hairspring::{Timer, sleep};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

const TRIES: u32 = 100;

/// The thread that moves the clock calls the waker in the middle of a step. A bug that this crate had: that step went on,
/// and moved a clock by up to 555 s.
#[test]
fn a_clock_that_runs_obeys_a_waker() {
    must_end(|| {
        for _ in 0..TRIES {
            step();
            let clock = ManualClock::new();
            let timer = Timer::builder().clock(&clock).build().unwrap();
            let (after, stops) = (Arc::new(Mutex::new(None)), clock.clone());
            let seen = after.clone();
            let waker = on_wake(move || {
                stops.set_rate(0.0);
                *seen.lock().unwrap() = Some(stops.now());
            });
            let sleep = polled_with(timer.sleep(ms(1)), &waker);
            clock.set_rate(1_000.0);
            wait_until(|| after.lock().unwrap().is_some());
            thread::sleep(ms(3));
            assert_eq!(after.lock().unwrap().take(), Some(clock.now()));
            assert_eq!(clock.now(), sleep.deadline());
        }
    });
}

#[test]
fn brief_holds_do_not_keep_a_clock_from_moving() {
    on_each(&[Kind::StartPaused, Kind::Bubble, Kind::Workers(2)], || async {
        let (handle, (ends, ended)) = (Handle::current(), mpsc::channel::<()>());
        let holds = thread::spawn(move || {
            let _inside = handle.enter();
            while ended.recv_timeout(ms(5)) == Err(mpsc::RecvTimeoutError::Timeout) {
                drop(test_util::hold());
            }
        });
        for _ in rounds(50) {
            settle().await;
            sleep(HOUR).await;
        }
        drop(ends);
        holds.join().unwrap();
    });
}

#[test]
fn a_hold_keeps_the_clock_while_others_work() {
    on_each(&[Kind::StartPaused, Kind::Bubble, Kind::Workers(2)], || async {
        let ((sender, answer), hold) = (oneshot::channel(), test_util::hold());
        thread::spawn(move || {
            thread::sleep(ms(50));
            sender.send(()).unwrap();
            drop(hold);
        });
        no_time_passes_during(answer).await.unwrap();
    });
}

/// A bug that this crate had: a hold is a blocking task, and the runtime waited for it to end.
#[test]
fn a_kept_hold_does_not_block_its_runtimes_end() {
    must_end(|| {
        let runtime = Kind::StartPaused.make();
        let holds = runtime.block_on(async { [test_util::hold(), test_util::hold()] });
        drop(runtime); // Waits for blocking tasks.
        drop(holds);
    });
}
