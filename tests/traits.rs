//! What the public types and futures are. Nothing in a signature shows it, and it must not change by accident.

use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};

use hairspring::delay_queue::{self, Drain, Expired};
use hairspring::error::{Elapsed, Error};
use hairspring::timer::{Alarm, BuildError, Builder, Driver, Lateness, Metrics};
use hairspring::wheel::{self, Step, Tick, Ticks, Wheel};
use hairspring::{
    DeadlineMap, DelayQueue, Expirations, Instant, Interval, MissedTickBehavior, Sleep, Timeout, Timer, TrySleep,
};

type Payload = String;

fn shared<T: Send + Sync + Unpin + Debug>() {}

fn unwinds<T: UnwindSafe + RefUnwindSafe>() {}

fn handle<T: Clone>() {}

#[test]
fn everything_can_be_sent_shared_moved_and_shown() {
    shared::<Alarm>();
    shared::<BuildError>();
    shared::<Builder>();
    shared::<DeadlineMap<Payload, Payload>>();
    shared::<DelayQueue<Payload>>();
    shared::<Drain<Payload>>();
    shared::<Driver>();
    shared::<Elapsed>();
    shared::<Error>();
    shared::<Expirations<Payload, Payload>>();
    shared::<Expired<Payload>>();
    shared::<Instant>();
    shared::<Interval>();
    shared::<Lateness>();
    shared::<Metrics>();
    shared::<MissedTickBehavior>();
    shared::<Sleep>();
    shared::<Step<Payload>>();
    shared::<Tick>();
    shared::<Ticks>();
    shared::<Timeout<Payload>>();
    shared::<Timer>();
    shared::<TrySleep>();
    shared::<Wheel<Payload>>();
    shared::<delay_queue::Key>();
    shared::<wheel::Key>();
}

/// A request that panics is caught with its timers in hand, as servers do, and they are as good as before.
#[test]
fn everything_may_be_seen_after_a_panic() {
    unwinds::<Alarm>();
    unwinds::<BuildError>();
    unwinds::<DeadlineMap<Payload, Payload>>();
    unwinds::<DelayQueue<Payload>>();
    unwinds::<Drain<Payload>>();
    unwinds::<Elapsed>();
    unwinds::<Error>();
    unwinds::<Expirations<Payload, Payload>>();
    unwinds::<Expired<Payload>>();
    unwinds::<Instant>();
    unwinds::<Interval>();
    unwinds::<Lateness>();
    unwinds::<Metrics>();
    unwinds::<Sleep>();
    unwinds::<Step<Payload>>();
    unwinds::<Timeout<Payload>>();
    unwinds::<Timer>();
    unwinds::<TrySleep>();
    unwinds::<Wheel<Payload>>();
    unwinds::<delay_queue::Key>();
    unwinds::<wheel::Key>();
}

#[test]
fn what_is_small_can_be_copied_compared_and_hashed() {
    fn value<T: Copy + Eq + std::hash::Hash>() {}
    value::<Alarm>();
    value::<Instant>();
    value::<MissedTickBehavior>();
    value::<Tick>();
    value::<Ticks>();
    value::<delay_queue::Key>();
    value::<wheel::Key>();
    handle::<Builder>();
    handle::<DeadlineMap<Payload, Payload>>();
    handle::<Timer>();
    handle::<Metrics>();
    handle::<Lateness>();
    assert!(size_of::<Sleep>() <= 48 && size_of::<Error>() <= 16);
}

#[cfg(feature = "test-util")]
#[test]
fn clocks_can_too() {
    use hairspring::test_util::{Hold, ManualClock};
    shared::<ManualClock>();
    shared::<Hold>();
    unwinds::<ManualClock>();
    unwinds::<Hold>();
    handle::<ManualClock>();
}

#[cfg(feature = "hyper")]
#[test]
fn timers_for_hyper_can_too() {
    shared::<hairspring::hyper::HyperTimer>();
    unwinds::<hairspring::hyper::HyperTimer>();
}

#[cfg(feature = "tower")]
#[test]
fn what_is_for_tower_can_too() {
    use hairspring::tower::{ResponseFuture, Timeout, TimeoutLayer};
    shared::<TimeoutLayer>();
    shared::<Timeout<Payload>>();
    shared::<ResponseFuture<Payload>>();
    unwinds::<TimeoutLayer>();
    unwinds::<Timeout<Payload>>();
    unwinds::<ResponseFuture<Payload>>();
}

#[cfg(feature = "metrics")]
#[test]
fn reporters_can_too() {
    shared::<hairspring::timer::Reporter>();
    unwinds::<hairspring::timer::Reporter>();
}
