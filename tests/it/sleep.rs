//! Sleeps are never early, and are ready at their deadline. `drop_in` compares them with tokio's.

use crate::alarms::alarms;
use crate::common::{Random, both_flavours, joined, ms, must_end_on};
use hairspring::{Duration, Instant, Sleep, Timer, sleep, sleep_until};

#[test]
fn a_sleep_is_small() {
    // The feature `tracing` adds a span.
    assert!(size_of::<Sleep>() <= if cfg!(feature = "tracing") { 48 } else { 40 });
}

/// Sleeps several times, for random durations, and compares each with the system's clock.
async fn several(mut random: Random) {
    for round in 0..20 {
        let asked = random.duration(ms(3));
        let start = std::time::Instant::now();
        if round % 2 == 0 {
            sleep(asked).await;
        } else {
            sleep_until(Instant::from_std(start) + asked).await;
        }
        let took = start.elapsed();
        assert!(took >= asked, "asked for {asked:?}, took {took:?}");
    }
}

/// libuv 4773, node 26578, pingora-timeout: up to a millisecond early because of rounding.
#[test]
fn no_sleep_is_early_by_a_nanosecond() {
    let resolutions = [0, 1, 700, 1_000, 10_000].map(Duration::from_micros);
    for (alarm, resolution) in alarms().into_iter().flat_map(|alarm| resolutions.map(|each| (alarm, each))) {
        let builder = Timer::builder().alarm(alarm).shards(3);
        let builder = if resolution.is_zero() { builder } else { builder.resolution(resolution) };
        for runtime in both_flavours() {
            let builder = builder.clone();
            must_end_on(runtime, async move || {
                let _timer = builder.install().unwrap();
                joined((0..32).map(|seed| tokio::spawn(several(Random::new(seed))))).await;
            });
        }
    }
}
