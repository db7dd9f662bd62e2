//! `Builder::resolution`: when sleeps end, and which tasks run first.

use crate::common::{current_thread, ms, multi_thread, must_end, must_end_on};
use hairspring::{Duration, Instant, Timer, interval, sleep};

const MICRO: Duration = Duration::from_micros(1);

/// Blocks the thread until a deadline has passed.
fn spin_past(deadline: Instant) {
    while Instant::now() <= deadline {
        std::hint::spin_loop();
    }
}

/// actix 0.13.5 relies on this in its test `test_weak_address`, where a callback is due in a microsecond.
///
/// The runtimes have one worker, because two could run the task and the driver in parallel. The test begins just after
/// a multiple of the resolution, because a sleep whose multiple has passed is ready at its first poll.
#[test]
fn a_ready_task_runs_before_a_microsecond_sleep_ends() {
    for runtime in [current_thread(), multi_thread(1)] {
        must_end(move || {
            let task = runtime.spawn(async {
                Timer::builder().resolution(Duration::from_secs(1)).install().unwrap();
                sleep(Duration::ZERO).await;
                let other = tokio::spawn(async {});
                let nap = sleep(MICRO);
                spin_past(nap.deadline());
                nap.await;
                assert!(other.is_finished());
            });
            runtime.block_on(task).unwrap();
        });
    }
}

/// All ticks before a multiple are ready after one turn.
#[test]
fn a_late_interval_catches_up_without_its_driver() {
    must_end_on(current_thread(), async || {
        let timer = Timer::builder().resolution(ms(100)).install().unwrap();
        let mut ticks = interval(ms(1));
        let first = ticks.tick().await;
        for n in 1..50 {
            assert_eq!(ticks.tick().await, first + n * ms(1));
        }
        let turns = timer.metrics().turns();
        assert!(turns < 25, "{turns} turns for 50 ticks");
    });
}

#[cfg(feature = "test-util")]
mod by_hand {
    use std::future::Future;
    use std::pin::Pin;

    use hairspring::test_util::Bubble;
    use hairspring::{boot, wall};

    use super::*;

    const NANO: Duration = Duration::from_nanos(1);
    const RESOLUTIONS: [Duration; 4] =
        [Duration::from_millis(1), MICRO, Duration::from_micros(700), Duration::from_secs(1)];

    /// `later`, rounded up to a multiple of `length` after `origin`.
    fn round_up(origin: Instant, later: Instant, length: Duration) -> Instant {
        let lengths = (later - origin).as_nanos().div_ceil(length.as_nanos());
        origin + length * u32::try_from(lengths).unwrap()
    }

    /// `boot` and `wall` sleeps are due by their own clocks.
    #[test]
    fn sleeps_on_paused_clocks_end_at_multiples() {
        // tokio's clock would round besides.
        Bubble::new().workers(2).run(|| async {
            for resolution in RESOLUTIONS {
                Timer::builder().resolution(resolution).install().unwrap();
                sleep(NANO).await;
                let origin = Instant::now();
                for length in [NANO, MICRO, resolution.saturating_sub(NANO), resolution, resolution + NANO] {
                    hairspring::advance(NANO).await;
                    let case = format!("{length:?} of {resolution:?}");
                    let nap = sleep(length);
                    let end = round_up(origin, nap.deadline(), resolution);
                    nap.await;
                    assert_eq!(Instant::now(), end, "{case}");

                    let (boot, wall) = (boot::Instant::now(), wall::now());
                    let mut naps = (boot::sleep(length), wall::sleep_until(wall + length));
                    let mut polls = 0;
                    std::future::poll_fn(|cx| {
                        polls += 1;
                        Pin::new(&mut naps.0).poll(cx)
                    })
                    .await;
                    let end = boot::Instant::now();
                    assert!(boot + length <= end && end < boot + length + resolution, "{case}");
                    assert!(polls <= 3, "{polls} polls");
                    naps.1.await;
                    assert!(wall::now() >= wall + length);
                }
            }
        });
    }
}
