//! The targets of the fuzzer in `tests/fuzz`: random operations on a wheel, a timer, a queue and a map, which are
//! compared with models after each operation.
//!
//! `HAIRSPRING_ROUNDS=10000` runs more rounds, and `HAIRSPRING_SEED=7` only the round with that seed.

#[path = "../fuzz/src/run.rs"]
mod run;
#[path = "../fuzz/src/wheel.rs"]
mod wheel;

use crate::common::{Random, for_seeds};

fn rounds<T: run::Target>(rounds: u64) {
    for_seeds(rounds, |seed| {
        if let Err(report) = run::round::<T>(seed) {
            panic!("{report}");
        }
    });
}

#[test]
fn a_wheel_agrees_with_a_sorted_map() {
    rounds::<wheel::Pair>(200);
}

#[cfg(feature = "test-util")]
#[path = "../fuzz/src"]
mod on_a_manual_clock {
    mod clock;
    mod map;
    mod queue;
    mod timer;

    use super::{Random, rounds, run};

    /// tokio 849, 868, go 47329, 47762: lost wake-ups after resets. tokio 2473, 3270: panics in rare states. go 38070,
    /// tokio 5429: wakers that call the timer. netty 14081, 14959, 6947: sleeps that do not end, and wrong counts.
    #[test]
    fn a_timer_agrees_with_its_model() {
        rounds::<timer::World>(60);
    }

    /// tokio 8274, 6751, 8320, 2217, 1700, 849, 868, go 47329, 47762: changes that do not wake the poller. tokio 2473,
    /// 3270: resetting or removing due entries. netty 14959, 6947: wrong counts. agrona 346, chronos 342: iteration in
    /// the wrong order.
    #[test]
    fn a_queue_agrees_with_a_sorted_map() {
        rounds::<queue::Pair>(100);
    }

    #[test]
    fn a_map_agrees_with_a_plain_map() {
        rounds::<map::Pair>(60);
    }
}
