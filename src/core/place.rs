//! [`Place`]: what made a timer, and where in the user's code. For tests: without the feature `test-util` it is nothing.
//
// Invariants
// 1. A place is recorded while its timer waits, and only once a test holds a clock or has asked which timers wait.

pub(crate) use imp::Place;
#[cfg(feature = "test-util")]
pub(crate) use imp::Places;

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

    static UNKNOWN: &Location<'static> = Location::caller();

    // No more aligned than a key, so that a sleep stays small.
    #[derive(Debug, Clone, Copy)]
    #[repr(C, packed(4))]
    pub(crate) struct Place {
        location: &'static Location<'static>,
        kind: Kind,
    }

    impl Place {
        /// The caller's.
        #[inline]
        #[track_caller]
        pub(crate) fn here() -> Place {
            Place { location: Location::caller(), kind: Kind::Sleep }
        }

        #[inline]
        pub(crate) fn of(self, kind: Kind) -> Place {
            Place { kind, ..self }
        }

        /// Of a timer that began to wait before places were recorded.
        pub(crate) fn unknown() -> Place {
            Place { location: UNKNOWN, kind: Kind::Sleep }
        }

        pub(crate) fn location(self) -> &'static Location<'static> {
            self.location
        }

        pub(crate) fn kind(self) -> Kind {
            self.kind
        }

        pub(crate) fn is_known(self) -> bool {
            self.location() != UNKNOWN
        }

        /// A timer of this place waits from now on.
        #[inline]
        pub(crate) fn waits(self, shard: usize, key: Key) {
            if any_is_held() {
                self.record(shard, key);
            }
        }

        #[cold]
        fn record(self, shard: usize, key: Key) {
            lock().insert((shard, key), self);
        }

        /// The place of a timer, which waits no more.
        #[inline]
        pub(crate) fn of_former(shard: impl FnOnce() -> usize, key: Key) -> Place {
            if any_is_held() { Place::forget(shard(), key) } else { Place::unknown() }
        }

        #[cold]
        fn forget(shard: usize, key: Key) -> Place {
            lock().remove(&(shard, key)).unwrap_or(Place::unknown())
        }
    }

    /// The places of timers that wait. As long as this lives, one that fires keeps its place.
    pub(crate) struct Places(MutexGuard<'static, HashMap<(usize, Key), Place>>);

    impl Places {
        pub(crate) fn of_waiting() -> Places {
            Places(lock())
        }

        pub(crate) fn get(&self, shard: usize, key: Key) -> Place {
            self.0.get(&(shard, key)).copied().unwrap_or(Place::unknown())
        }
    }

    fn lock() -> MutexGuard<'static, HashMap<(usize, Key), Place>> {
        WAITING.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(not(feature = "test-util"))]
mod imp {
    use super::Kind;
    use crate::core::shard::Key;

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Place;

    #[allow(clippy::unused_self)] // The same interface as with the feature.
    impl Place {
        #[inline]
        pub(crate) fn here() -> Place {
            Place
        }

        #[inline]
        pub(crate) fn of(self, _: Kind) -> Place {
            self
        }

        #[inline]
        pub(crate) fn waits(self, _: usize, _: Key) {}

        #[inline]
        pub(crate) fn of_former(_: impl FnOnce() -> usize, _: Key) -> Place {
            Place
        }
    }
}
