//! What the alarm thread is to ring, and when.
//!
//! Invariants
//! 1. A bell has one booking at most.
//! 2. Each step takes time in the logarithm of the bookings: a process may have a timer for each of thousands of runtimes.
//!
//! Must not know: threads, what a bell does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::thread::Bell;

/// Names whose booking it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BellId(pub(crate) u64);

pub(super) struct Bookings {
    bells: BTreeMap<BellId, Booking>,
    times: BTreeSet<(Instant, BellId)>,
}

struct Booking {
    at: Instant,
    bell: &'static dyn Bell,
}

impl Bookings {
    pub(super) fn new() -> Self {
        Bookings { bells: BTreeMap::new(), times: BTreeSet::new() }
    }

    /// Books `bell` for `at`, in place of what it had booked before.
    pub(super) fn book(&mut self, id: BellId, at: Instant, bell: &'static dyn Bell) {
        if let Some(before) = self.bells.insert(id, Booking { at, bell }) {
            self.times.remove(&(before.at, id));
        }
        self.times.insert((at, id));
    }

    pub(super) fn cancel(&mut self, id: BellId) {
        if let Some(booking) = self.bells.remove(&id) {
            self.times.remove(&(booking.at, id));
        }
    }

    /// When the earliest is due.
    pub(super) fn first(&self) -> Option<Instant> {
        self.times.first().map(|&(at, _)| at)
    }

    /// Takes out the earliest booking, if it is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<&'static dyn Bell> {
        let &(at, id) = self.times.first()?;
        if at > now {
            return None;
        }
        self.times.pop_first();
        self.bells.remove(&id).map(|booking| booking.bell)
    }

    /// When a bell is to ring.
    #[cfg(test)]
    pub(super) fn of(&self, id: BellId) -> Option<Instant> {
        self.bells.get(&id).map(|booking| booking.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::stand_ins::StandIns;
    use std::time::Duration;

    struct Silent;

    impl Bell for Silent {
        fn ring(&'static self, _: &'static StandIns) {}
    }

    /// A scan of all for each would take hours.
    #[test]
    fn half_a_million_bookings_are_made_moved_and_taken_out_in_order() {
        const BELLS: u64 = 500_000;
        let start = Instant::now();
        let mut bookings = Bookings::new();
        for id in 0..BELLS {
            bookings.book(BellId(id), start + Duration::from_secs(3_600), &Silent);
        }
        for id in 0..BELLS {
            bookings.book(BellId(id), start + Duration::from_nanos(id * 7_919 % BELLS), &Silent);
        }
        for id in (0..BELLS).step_by(2) {
            bookings.cancel(BellId(id));
        }
        let mut taken = 0;
        while let Some(first) = bookings.first() {
            assert!(bookings.take_due(first.checked_sub(Duration::from_nanos(1)).unwrap()).is_none(), "early");
            assert!(bookings.take_due(first).is_some());
            taken += 1;
        }
        assert_eq!(taken, BELLS / 2);
    }
}
