//! Where timers that wait were made, and as part of what. For tests: without the feature `test-util` nothing is recorded.
//
// Invariants
// 1. A place is recorded while its timer waits, and only once a test holds a clock or has asked which timers wait.

#[cfg(feature = "test-util")]
pub(crate) use imp::{Place, Places};
pub(crate) use imp::{begins_to_wait, waits_no_more};

/// What waits for a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(not(feature = "test-util"), allow(dead_code, unreachable_pub))] // `test_util` makes it public.
pub enum Kind {
    /// A [`Sleep`](crate::Sleep).
    Sleep,
    /// A [`Timeout`](crate::Timeout).
    Timeout,
    /// An [`Interval`](crate::Interval).
    Interval,
    /// A [`DelayQueue`](crate::DelayQueue), for its first entry.
    DelayQueue,
    /// The expirations of a [`DeadlineMap`](crate::DeadlineMap), for its first entry.
    DeadlineMap,
}

#[cfg(feature = "test-util")]
mod imp {
    use std::collections::HashMap;
    use std::panic::Location;
    use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

    use super::Kind;
    use crate::clock::source::any_is_held;
    use crate::core::shard::Key;

    /// The places of timers that wait, by the address of their shard.
    static WAITING: LazyLock<Mutex<HashMap<(usize, Key), Place>>> = LazyLock::new(Mutex::default);

    /// For a timer that began to wait before places were recorded.
    static UNKNOWN: &Location<'static> = Location::caller();

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Place {
        location: &'static Location<'static>,
        kind: Kind,
    }

    impl Place {
        pub(crate) fn location(self) -> &'static Location<'static> {
            self.location
        }

        pub(crate) fn kind(self) -> Kind {
            self.kind
        }

        /// Whether it was recorded.
        pub(crate) fn is_known(self) -> bool {
            self.location != UNKNOWN
        }
    }

    /// A timer waits from now on.
    #[inline]
    pub(crate) fn begins_to_wait(shard: usize, key: Key, location: &'static Location<'static>, kind: Kind) {
        if any_is_held() {
            record(shard, key, Place { location, kind });
        }
    }

    #[cold]
    fn record(shard: usize, key: Key, place: Place) {
        lock().insert((shard, key), place);
    }

    /// A timer waits no more.
    #[inline]
    pub(crate) fn waits_no_more(shard: usize, key: Key) {
        if any_is_held() {
            forget(shard, key);
        }
    }

    #[cold]
    fn forget(shard: usize, key: Key) {
        lock().remove(&(shard, key));
    }

    /// The places of timers that wait. As long as this lives, one that fires keeps its place.
    pub(crate) struct Places(MutexGuard<'static, HashMap<(usize, Key), Place>>);

    impl Places {
        pub(crate) fn of_waiting() -> Places {
            Places(lock())
        }

        pub(crate) fn get(&self, shard: usize, key: Key) -> Place {
            self.0.get(&(shard, key)).copied().unwrap_or(Place { location: UNKNOWN, kind: Kind::Sleep })
        }
    }

    fn lock() -> MutexGuard<'static, HashMap<(usize, Key), Place>> {
        WAITING.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(not(feature = "test-util"))]
mod imp {
    use std::panic::Location;

    use super::Kind;
    use crate::core::shard::Key;

    #[inline]
    pub(crate) fn begins_to_wait(_: usize, _: Key, _: &'static Location<'static>, _: Kind) {}

    #[inline]
    pub(crate) fn waits_no_more(_: usize, _: Key) {}
}
