//! The traits that the public types and futures implement. No signature shows them, and they must not change by
//! accident.

use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};

use hairspring::deadline::{GrpcTimeoutError, Limited};
use hairspring::deadline_map::{self, TryInsertError};
use hairspring::delay_queue::{self, Expired};
use hairspring::error::{Elapsed, Error};
use hairspring::io::{Limit, LimitExceeded, TimeoutStream};
use hairspring::stream::{self, ChunksTimeout, Debounce, IntervalStream, Throttle, TimeoutRepeating};
use hairspring::timer::{Alarm, BuildError, Builder, Driver, Lateness, Metrics};
use hairspring::wheel::{self, Step, Tick, Ticks, Wheel};
use hairspring::{
    Deadline, DeadlineExceeded, DeadlineMap, DelayQueue, Expirations, Instant, Interval, MissedTickBehavior, Sleep,
    Timeout, Timer, Try, TrySleep, boot, wall,
};

type Payload = String;

fn shared<T: Send + Sync + Unpin + Debug>() {}

/// Shared, and usable after a panic: servers catch the panic of a request that holds timers.
fn lasting<T: Send + Sync + Unpin + Debug + UnwindSafe + RefUnwindSafe>() {}

fn handle<T: Clone>() {}

#[test]
fn everything_can_be_sent_shared_moved_shown_and_seen_after_a_panic() {
    lasting::<Alarm>();
    lasting::<BuildError>();
    lasting::<Builder>();
    lasting::<Deadline>();
    lasting::<DeadlineExceeded>();
    lasting::<DeadlineMap<Payload, Payload>>();
    lasting::<DelayQueue<Payload>>();
    lasting::<TryInsertError<Payload, Payload>>();
    lasting::<deadline_map::Builder<Payload, Payload>>();
    lasting::<deadline_map::Metrics>();
    lasting::<Elapsed>();
    lasting::<Error>();
    lasting::<Expirations<Payload, Payload>>();
    lasting::<Expired<Payload>>();
    lasting::<GrpcTimeoutError>();
    lasting::<Instant>();
    lasting::<Interval>();
    lasting::<Lateness>();
    lasting::<Limit>();
    lasting::<LimitExceeded>();
    lasting::<Limited<Payload>>();
    lasting::<Metrics>();
    lasting::<MissedTickBehavior>();
    lasting::<Sleep>();
    lasting::<Step<Payload>>();
    lasting::<Tick>();
    lasting::<Ticks>();
    lasting::<Timeout<Payload>>();
    lasting::<TimeoutStream<Payload>>();
    lasting::<Timer>();
    lasting::<Interval<TrySleep>>();
    lasting::<Try<boot::Sleep>>();
    lasting::<Try<wall::Sleep>>();
    lasting::<TrySleep>();
    lasting::<Timeout<Payload, TrySleep>>();
    lasting::<Wheel<Payload>>();
    lasting::<boot::Interval>();
    lasting::<boot::Timeout<Payload>>();
    lasting::<delay_queue::Key>();
    lasting::<wall::Interval>();
    lasting::<wall::Timeout<Payload>>();
    lasting::<wheel::Key>();
    shared::<Driver>(); // holds what is tokio's
}

#[test]
fn streams_can_too() {
    type Inner = futures::stream::Iter<std::vec::IntoIter<Payload>>;
    lasting::<ChunksTimeout<Inner>>();
    lasting::<Debounce<Inner>>();
    lasting::<IntervalStream>();
    lasting::<Throttle<Inner>>();
    lasting::<TimeoutRepeating<Inner>>();
    lasting::<stream::Timeout<Inner>>();
}

#[test]
fn what_is_small_can_be_copied_compared_and_hashed() {
    fn value<T: Copy + Eq + std::hash::Hash>() {}
    value::<Alarm>();
    value::<Deadline>();
    value::<Instant>();
    value::<Limit>();
    value::<MissedTickBehavior>();
    value::<Tick>();
    value::<Ticks>();
    value::<delay_queue::Key>();
    value::<wheel::Key>();
    handle::<Builder>();
    handle::<DeadlineMap<Payload, Payload>>();
    handle::<deadline_map::Builder<Payload, Payload>>();
    handle::<deadline_map::Metrics>();
    handle::<Timer>();
    handle::<Metrics>();
    handle::<Lateness>();
    assert!(size_of::<Sleep>() <= 48 && size_of::<Error>() <= 24);
}

#[cfg(feature = "test-util")]
#[test]
fn clocks_can_too() {
    use hairspring::test_util::{Hold, ManualClock};
    lasting::<ManualClock>();
    lasting::<Hold>();
    handle::<ManualClock>();
}

#[cfg(feature = "hyper")]
#[test]
fn timers_for_hyper_can_too() {
    lasting::<hairspring::hyper::HyperTimer>();
}

#[cfg(feature = "tower")]
#[test]
fn what_is_for_tower_can_too() {
    use hairspring::tower::{ResponseFuture, Timeout, TimeoutLayer};
    lasting::<TimeoutLayer>();
    lasting::<Timeout<Payload>>();
    lasting::<ResponseFuture<Payload>>();
    lasting::<TimeoutLayer<Payload, Payload>>();
    lasting::<Timeout<Payload, Payload, Payload>>();
    lasting::<ResponseFuture<Payload, Payload>>();
}

#[cfg(feature = "metrics")]
#[test]
fn reporters_can_too() {
    lasting::<hairspring::timer::Reporter>();
}
