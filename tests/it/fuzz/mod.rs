//! Random operations on a wheel, a timer, a queue, a map, streams and a connection, and random programs on test clocks,
//! which are compared with models that are simpler: see CONTRIBUTING.md.

mod run;
mod wheel;

use crate::common::{for_seeds, must_end, step};

fn rounds<T: run::Target>(rounds: u64) {
    must_end(move || {
        for_seeds(rounds, |seed| {
            if let Err(report) = run::round::<T>(seed) {
                panic!("{report}");
            }
            step();
        });
    });
}

/// netty 1959, akka 1016, folly `67cb8eed5`, async-io `ff76625`: entries due at a boundary, or now. Linux `30c66fc30ee7`,
/// tokio 684, 4044, 3619: deadlines in the past, and a clock that steps back. camunda 767, agrona 73, neqo 319: irregular
/// steps. go 47329, 47762, tokio 3558, 3270: resets, and keys of entries that are gone.
#[test]
fn a_wheel_agrees_with_a_sorted_map() {
    rounds::<wheel::Pair>(200);
}

#[cfg(feature = "test-util")]
#[path = "."]
mod on_test_clocks {
    mod clock;
    mod connection;
    mod current;
    mod map;
    mod queue;
    mod stream;
    mod timer;
    mod virtual_time;

    use super::{rounds, run};
    use crate::common::{beside, spin};

    /// tokio 849, 868, go 47329, 47762: lost wake-ups after resets. tokio 2473, 3270: panics in rare states. go 38070,
    /// tokio 5429: wakers that call the timer. netty 14081, 14959, 6947: sleeps that do not end, and wrong counts.
    #[test]
    fn a_timer_agrees_with_its_model() {
        rounds::<timer::World>(120);
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

    /// Bugs that this crate had: items that came before a panic were held forever, a longest wait did not limit the item
    /// that was held back, a limit that no longer counted left a timer, and `chunks_timeout` over a stream that is always
    /// ready never yielded.
    #[test]
    fn streams_agree_with_their_model() {
        rounds::<stream::Pair>(1_000);
    }

    /// Bugs that this crate had: an operation that failed after the deadline still counted as waiting, and a read failed
    /// although bytes were there, if its task had spent its budget.
    #[test]
    fn a_connection_agrees_with_its_model() {
        rounds::<connection::Pair>(300);
    }

    #[test]
    fn current_programs_on_tokios_clock_do_what_they_do_with_tokios_timers() {
        rounds::<current::Program>(300);
    }

    #[test]
    fn bubble_programs_see_virtual_time_and_repeat() {
        rounds::<virtual_time::InBubble>(80);
    }

    #[test]
    fn manual_clocks_show_programs_virtual_time() {
        rounds::<virtual_time::OnManualClock>(80);
    }

    /// A bug that this crate had: its own alarms woke the runtime during a check whether it is idle. On a busy machine,
    /// clocks did not move and `settle` did not return.
    #[test]
    fn bubble_programs_on_a_busy_machine_see_virtual_time() {
        beside(4, spin, || {
            rounds::<virtual_time::InBubble>(40);
        });
    }
}
