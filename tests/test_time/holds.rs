//! A hold or a new rate is in force when the call returns, even if it comes from a waker that the clock's own thread calls.
//! In the fuzzer's programs, other threads hold clocks.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Instant;

use crate::common::{HOUR, ms, must_end, on_wake, polled_with, rounds, step, wait_until};
use crate::kinds::Kind;
use hairspring::test_util::{self, ManualClock, settle};
use hairspring::{Duration, Timer};

const TRIES: u32 = 100;

/// The thread that moves the clock calls the waker in the middle of a step. A bug that this crate had: that step went on,
/// and moved a clock by up to 555 s.
#[test]
fn a_clock_that_runs_obeys_a_waker() {
    for asks_for_rate in [false, true] {
        must_end(move || {
            for _ in 0..TRIES {
                step();
                let clock = ManualClock::new();
                let timer = Timer::builder().clock(&clock).build().unwrap();
                let (after, stops, held) = (Arc::new(Mutex::new(None)), clock.clone(), Mutex::new(None));
                let seen = after.clone();
                let waker = on_wake(move || {
                    if asks_for_rate {
                        stops.rate(0.0);
                    } else {
                        *held.lock().unwrap() = Some(stops.hold());
                    }
                    *seen.lock().unwrap() = Some(stops.now());
                });
                let sleep = polled_with(timer.sleep(ms(1)), &waker);
                clock.rate(1_000.0);
                wait_until(|| after.lock().unwrap().is_some());
                thread::sleep(ms(3));
                assert_eq!(after.lock().unwrap().take(), Some(clock.now()));
                assert_eq!(clock.now(), sleep.deadline());
            }
        });
    }
}

/// The thread that moves the clock is in the middle of a step meanwhile.
#[test]
fn the_time_during_a_hold_does_not_count() {
    must_end(|| {
        let (clock, real, held) = (ManualClock::new(), Instant::now(), Arc::<Mutex<Duration>>::default());
        let (timer, start) = (Timer::builder().clock(&clock).build().unwrap(), clock.now());
        let (holds, length) = (clock.clone(), held.clone());
        let waker = on_wake(move || {
            let (_hold, begun) = (holds.hold(), Instant::now());
            thread::sleep(ms(50));
            *length.lock().unwrap() = begun.elapsed();
        });
        let _sleep = polled_with(timer.sleep(ms(1)), &waker);
        clock.rate(1_000.0);
        wait_until(|| !held.lock().unwrap().is_zero());
        thread::sleep(ms(5));
        let moved = clock.now() - start;
        let outside = real.elapsed().saturating_sub(*held.lock().unwrap());
        assert!(moved <= outside * 1_000, "{moved:?} in {outside:?}");
    });
}

#[test]
fn brief_holds_do_not_keep_a_clock_from_moving() {
    for kind in [Kind::PausedLater, Kind::StartPaused] {
        must_end(move || {
            let runtime = kind.make();
            let (handle, (_ends, ended)) = (runtime.handle().clone(), mpsc::channel::<()>());
            thread::spawn(move || {
                let _inside = handle.enter();
                while ended.recv_timeout(ms(5)) == Err(mpsc::RecvTimeoutError::Timeout) {
                    drop(test_util::hold());
                }
            });
            runtime.block_on(async {
                let clock = ManualClock::new();
                clock.auto_advance();
                let timer = Timer::builder().clock(&clock).build().unwrap();
                for _ in rounds(50) {
                    settle().await;
                    timer.sleep(HOUR).await;
                }
            });
        });
    }
}

/// A bug that this crate had: a hold is a blocking task, and the runtime waited for it to end.
#[test]
fn a_kept_hold_does_not_block_its_runtimes_end() {
    for grace in [Duration::ZERO, ms(1)] {
        must_end(move || {
            let runtime = Kind::PausedLater.make();
            let holds = runtime.block_on(async {
                test_util::pause_with_grace(grace);
                [test_util::hold(), test_util::hold()]
            });
            drop(runtime); // Waits for blocking tasks.
            drop(holds);
        });
    }
}
