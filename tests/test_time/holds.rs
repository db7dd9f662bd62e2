//! A hold or a new rate is in force when the call returns, whatever another thread is doing to the clock. Here for clocks
//! that run; in the fuzzer's programs, threads hold all others.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::common::{HOUR, Random, ms, must_end, on_wake, poll_with, polled_with, rounds, step};
use crate::kinds::{Kind, MICRO, computes_for};
use hairspring::test_util::{self, ManualClock, settle};
use hairspring::{Duration, Sleep, Timer};

const TRIES: u32 = 100;

/// Waits a moment, after which the thread that moves the clock may be anywhere in its code.
fn moment(random: &mut Random) {
    let length = Duration::from_nanos(random.up_to_bits(21));
    if random.below(2) == 0 { thread::sleep(length) } else { computes_for(length) }
}

/// A fast clock, with timers that make each of its steps take longer.
struct Runs {
    clock: ManualClock,
    timer: Timer,
    sleeps: Vec<Sleep>,
    random: Random,
}

impl Runs {
    fn new() -> Runs {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(&clock).build().unwrap();
        Runs { clock, timer, sleeps: Vec::new(), random: Random::new(1) }
    }

    /// Lets the clock run for a moment.
    fn run_at(&mut self, rate: f64) {
        self.sleeps.clear();
        for _ in 0..100 {
            let mut sleep = self.timer.sleep(self.random.duration(ms(3)).mul_f64(rate));
            let _ = poll_with(&mut sleep, std::task::Waker::noop());
            self.sleeps.push(sleep);
        }
        self.clock.rate(rate);
        moment(&mut self.random);
    }

    /// How far the clock moves in a moment.
    fn moves(&mut self) -> Duration {
        let before = self.clock.now();
        moment(&mut self.random);
        self.clock.now() - before
    }

    fn waits_until_it_moves(&self) {
        let before = self.clock.now();
        while self.clock.now() == before {
            thread::yield_now();
        }
    }
}

/// A name, and a function that tries something at a rate and returns whether it worked.
type Check = fn(&mut Runs, f64) -> bool;

/// A bug that this crate had: a hold or a new rate did not stop a step in progress, and a clock moved by up to 555 s
/// after `hold` returned.
const CHECKS: [(&str, Check); 4] = [
    ("a hold stops the clock", |runs, rate| {
        runs.run_at(rate);
        let hold = runs.clock.hold();
        let is_still = runs.moves().is_zero();
        drop(hold);
        runs.waits_until_it_moves();
        is_still
    }),
    ("a rate of zero stops the clock", |runs, rate| {
        runs.run_at(rate);
        runs.clock.rate(0.0);
        runs.moves().is_zero()
    }),
    ("a lower rate slows the clock down, once it is not held", |runs, rate| {
        runs.run_at(rate);
        let hold = (runs.random.below(2) == 0).then(|| runs.clock.hold());
        let real = std::time::Instant::now();
        runs.clock.rate(1.0);
        let is_still = hold.is_none() || runs.moves().is_zero();
        drop(hold);
        let moved = runs.moves();
        is_still && moved <= real.elapsed()
    }),
    ("the time during a hold does not count", |runs, rate| {
        runs.clock.rate(0.0);
        let (start, real) = (runs.clock.now(), std::time::Instant::now());
        runs.run_at(rate);
        let hold = runs.clock.hold();
        let begun = std::time::Instant::now();
        moment(&mut runs.random);
        let length = begun.elapsed();
        drop(hold);
        moment(&mut runs.random);
        // The product is rounded, because an `f64` has 53 bits of precision.
        runs.clock.now() - start <= (real.elapsed() + MICRO).saturating_sub(length).mul_f64(rate)
    }),
];

#[test]
fn a_clock_that_runs_obeys_immediately() {
    for (name, check) in CHECKS {
        for rate in [1_000.0, 1e6] {
            let failed = must_end(move || {
                let mut runs = Runs::new();
                (0..TRIES).inspect(|_| step()).filter(|_| !check(&mut runs, rate)).count()
            });
            assert_eq!(failed, 0, "{name}: of {TRIES} tries at rate {rate}");
        }
    }
}

/// The thread that moves the clock calls the waker in the middle of a step.
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
                while after.lock().unwrap().is_none() {
                    thread::yield_now();
                }
                thread::sleep(ms(3));
                assert_eq!(after.lock().unwrap().take(), Some(clock.now()));
                assert_eq!(clock.now(), sleep.deadline());
            }
        });
    }
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
