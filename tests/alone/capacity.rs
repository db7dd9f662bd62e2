//! What cannot return an error refuses a timer with a capacity at the line that chooses it.

use std::collections::BTreeSet;

use futures::stream::pending;
use hairspring::{DeadlineMap, DelayQueue, StreamExt, Timer};

use crate::alone;
use crate::common::{HOUR, panic_message};

/// A bug that this crate had: a poll panicked later, once the timer was full.
#[test]
fn a_timer_with_a_capacity_is_refused_where_it_is_chosen() {
    const ITEMS: usize = if cfg!(feature = "hyper") { 9 } else { 7 };
    let errors = alone(|| {
        let (timer, _driver) = Timer::builder().capacity(5).build_with_driver().unwrap();
        let refusals = [
            ("DelayQueue", panic_message(|| DelayQueue::<u8>::with_timer(&timer))),
            ("Timeout", panic_message(|| pending::<u8>().timeout(HOUR).with_timer(&timer))),
            ("Throttle", panic_message(|| pending::<u8>().throttle(HOUR).with_timer(&timer))),
            ("ChunksTimeout", panic_message(|| pending::<u8>().chunks_timeout(1, HOUR).with_timer(&timer))),
            ("Debounce", panic_message(|| pending::<u8>().debounce(HOUR).with_timer(&timer))),
            ("ThrottleLatest", panic_message(|| pending::<u8>().throttle_latest(HOUR).with_timer(&timer))),
            #[cfg(feature = "hyper")]
            ("HyperTimer", panic_message(|| hairspring::hyper::HyperTimer::with_timer(&timer))),
            #[cfg(feature = "hyper")]
            ("HyperTimer", panic_message(|| hairspring::hyper::HyperTimer::from(timer.clone()))),
        ];
        assert_eq!(refusals.len() + 1, ITEMS);
        let refusal = panic_message(|| DeadlineMap::<u8, u8>::with_timer(&timer));
        assert_eq!(
            refusal,
            "timer is one with a capacity of 5: must have none, because the stream cannot return an error"
        );
        for (item, message) in refusals {
            let expected =
                format!("a `{item}` cannot return an error, and this timer has a capacity of 5: use one without");
            assert_eq!(message, expected);
        }
    });
    let lines: BTreeSet<_> =
        errors.lines().filter_map(|line| line.split_once("panicked at ")).map(|(_, at)| at).collect();
    assert!(errors.is_empty() || lines.len() == ITEMS && lines.iter().all(|at| at.starts_with(file!())), "{errors}");
}
