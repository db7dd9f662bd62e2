//! [`Bookings`]: whom the alarm thread will call, and when.
//
// Invariants
// 1. A booker has at most one booking.
// 2. Each operation takes logarithmic time: a process may have thousands of runtimes with a timer each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::core::pool::Epoch;
use crate::core::stand_ins::StandIns;

/// Books alarms.
pub(crate) trait Booker: Send + Sync {
    /// Called by the alarm thread when the booking is due. All timers wait for that thread, so leave what may take long
    /// to the stand-ins.
    fn alarm(&'static self, stand_ins: &'static StandIns);

    /// A shard of the timer that has this epoch has no users any more.
    fn unused(&'static self, _: Epoch) {}
}

/// Identifies a booker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BookerId(pub(crate) u64);

pub(super) struct Bookings {
    bookers: BTreeMap<BookerId, Booking>,
    times: BTreeSet<(Instant, BookerId)>,
    /// Who is called when a clock jumps.
    on_jump: Option<(BookerId, &'static dyn Booker)>,
}

struct Booking {
    at: Instant,
    booker: &'static dyn Booker,
}

impl Bookings {
    pub(super) fn new() -> Self {
        Bookings { bookers: BTreeMap::new(), times: BTreeSet::new(), on_jump: None }
    }

    /// Books `booker` for `at`, in place of what it had booked before.
    pub(super) fn book(&mut self, id: BookerId, at: Instant, booker: &'static dyn Booker) {
        if let Some(before) = self.bookers.insert(id, Booking { at, booker }) {
            self.times.remove(&(before.at, id));
        }
        self.times.insert((at, id));
    }

    /// Books `booker` for the next jump of a clock. There is one such booking at a time.
    pub(super) fn book_jump(&mut self, id: BookerId, booker: &'static dyn Booker) {
        self.on_jump = Some((id, booker));
    }

    /// A clock has jumped: what is booked for that is due now.
    pub(super) fn jumped(&mut self, now: Instant) {
        if let Some((id, booker)) = self.on_jump.take() {
            self.book(id, now, booker);
        }
    }

    pub(super) fn cancel(&mut self, id: BookerId) {
        if let Some(booking) = self.bookers.remove(&id) {
            self.times.remove(&(booking.at, id));
        }
    }

    /// The earliest booking.
    pub(super) fn first(&self) -> Option<Instant> {
        self.times.first().map(|&(at, _)| at)
    }

    /// Takes out the earliest booking, if it is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<&'static dyn Booker> {
        let &(at, id) = self.times.first()?;
        if at > now {
            return None;
        }
        self.times.pop_first();
        self.bookers.remove(&id).map(|booking| booking.booker)
    }

    /// When a booker will be called.
    #[cfg(test)]
    pub(super) fn of(&self, id: BookerId) -> Option<Instant> {
        self.bookers.get(&id).map(|booking| booking.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    struct Silent;

    impl Booker for Silent {
        fn alarm(&'static self, _: &'static StandIns) {}
    }

    #[test]
    fn what_is_booked_for_a_jump_is_due_once_at_the_next() {
        let now = Instant::now();
        let mut bookings = Bookings::new();
        bookings.book_jump(BookerId(1), &Silent);
        assert!(bookings.first().is_none() && bookings.take_due(now).is_none());
        bookings.jumped(now);
        assert!(bookings.take_due(now).is_some());
        bookings.jumped(now);
        assert!(bookings.take_due(now).is_none());
    }

    /// If each took a scan of all, this would take hours.
    #[test]
    fn half_a_million_bookings_are_made_moved_and_taken_out_in_order() {
        const BOOKERS: u64 = 500_000;
        let start = Instant::now();
        let mut bookings = Bookings::new();
        for id in 0..BOOKERS {
            bookings.book(BookerId(id), start + Duration::from_secs(3_600), &Silent);
        }
        for id in 0..BOOKERS {
            bookings.book(BookerId(id), start + Duration::from_nanos(id * 7_919 % BOOKERS), &Silent);
        }
        for id in (0..BOOKERS).step_by(2) {
            bookings.cancel(BookerId(id));
        }
        let mut taken = 0;
        while let Some(first) = bookings.first() {
            assert!(bookings.take_due(first.checked_sub(Duration::from_nanos(1)).unwrap()).is_none(), "early");
            assert!(bookings.take_due(first).is_some());
            taken += 1;
        }
        assert_eq!(taken, BOOKERS / 2);
    }
}
