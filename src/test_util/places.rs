//! Where timers that wait were made, and as part of what.
//
// Invariants
// 1. A place is recorded while its timer waits, and only once a test holds a clock or has asked which timers wait.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::clock::source::any_is_held;
use crate::core::shard::Key;
use crate::seam::Kind;

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
