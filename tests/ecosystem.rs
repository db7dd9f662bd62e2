//! Crates that accept hairspring's functions directly, as docs/ecosystem.md says. The clock is paused.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};

use backon::{ConstantBuilder, Retryable};
use common::{ms, paused};
use hairspring::{Instant, Timer, sleep};

#[test]
fn backon_waits_with_sleep_and_with_a_timer_of_ones_own() {
    paused().block_on(async {
        let failures = AtomicU32::new(0);
        let third_time =
            || async { if failures.fetch_add(1, Ordering::Relaxed) % 3 < 2 { Err("not yet") } else { Ok(7) } };
        let pauses = || ConstantBuilder::new().with_delay(ms(250));

        let start = Instant::now();
        assert_eq!(third_time.retry(pauses()).sleep(sleep).await, Ok(7));
        assert_eq!(start.elapsed(), ms(500));

        let timer = Timer::builder().build().unwrap();
        let waits = timer.clone();
        assert_eq!(third_time.retry(pauses()).sleep(move |pause| waits.sleep(pause)).await, Ok(7));
        assert_eq!(start.elapsed(), ms(1_000));
        assert_eq!(timer.metrics().fired(), 2);
    });
}
