//! What cannot return an error refuses a timer with `max_pending` at the line that chooses it.

use futures::stream::pending;
use hairspring::{DeadlineMap, DelayQueue, StreamExt, Timer};

use crate::common::{HOUR, panicked, undriven};

/// A bug that this crate had: a poll panicked later, once the timer was full.
#[test]
fn a_timer_with_max_pending_is_refused_where_it_is_chosen() {
    let (timer, _runtime) = undriven(Timer::builder().max_pending(5));
    let refused = |item, line| {
        let why = "does not accept a timer with `max_pending` (here 5): build one without it";
        (format!("`{item}` {why}"), file!().to_owned(), line)
    };
    let stream = pending::<u8>;
    assert_eq!(panicked(|| DelayQueue::<u8>::with_timer(&timer)), refused("DelayQueue", line!()));
    assert_eq!(panicked(|| stream().timeout(HOUR).with_timer(&timer)), refused("Timeout", line!()));
    assert_eq!(panicked(|| stream().throttle(HOUR).with_timer(&timer)), refused("Throttle", line!()));
    assert_eq!(panicked(|| stream().chunks_timeout(1, HOUR).with_timer(&timer)), refused("ChunksTimeout", line!()));
    assert_eq!(panicked(|| stream().debounce(HOUR).with_timer(&timer)), refused("Debounce", line!()));
    #[cfg(feature = "hyper")]
    {
        use hairspring::hyper::HyperTimer;
        assert_eq!(panicked(|| HyperTimer::with_timer(&timer)), refused("HyperTimer", line!()));
        assert_eq!(panicked(|| HyperTimer::from(timer.clone())), refused("HyperTimer", line!()));
    }
    let map = "timer is one with a `max_pending` of 5: must be one without, because the stream cannot return an error";
    let (message, file, line) = panicked(|| DeadlineMap::<u8, u8>::with_timer(&timer));
    assert_eq!((&*message, &*file, line), (map, file!(), line!() - 1));
}
