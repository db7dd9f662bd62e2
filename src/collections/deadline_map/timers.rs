//! The timers of a shard's entries: a few in a row that is searched, many in a wheel.
//!
//! A wheel takes 12 kilobytes for its first entry, and there may be a map for each connection. To search a short
//! row takes no longer than a wheel does.
//
// Invariants
// 1. Every key passed in names an entry that is here; the shard ensures that.
// 2. A place of the row whose deadline is `Tick::MAX` is vacant: no entry has that deadline.

use crate::wheel::{Key, Step, Tick, Wheel};

/// The maximum number of entries in a row, which take 256 bytes.
const FEW: usize = 16;

/// The hashes of entries, by their deadlines.
pub(super) struct Timers {
    /// `Some` once there were too many entries for the row, which is then empty.
    wheel: Option<Box<Wheel<u64>>>,
    row: Row,
}

struct Row {
    elapsed: Tick,
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    deadline: Tick,
    hash: u64,
}

impl Timers {
    /// No timers yet. What is due at or before `elapsed` is due at once.
    pub(super) fn starting_at(elapsed: Tick) -> Timers {
        Timers { wheel: None, row: Row { elapsed, places: Vec::new() } }
    }

    /// The timers in a wheel.
    pub(super) fn in_a(wheel: Wheel<u64>) -> Timers {
        Timers { wheel: Some(Box::new(wheel)), ..Timers::starting_at(Tick::ZERO) }
    }

    /// The wheel, if there is one.
    #[inline]
    pub(super) fn wheel(&mut self) -> Option<&mut Wheel<u64>> {
        self.wheel.as_deref_mut()
    }

    /// The last tick that was processed.
    #[inline]
    pub(super) fn elapsed(&self) -> Tick {
        match &self.wheel {
            Some(wheel) => wheel.elapsed(),
            None => self.row.elapsed,
        }
    }

    /// Inserts an entry. Returns `None` if the row is full and there is no wheel.
    pub(super) fn insert(&mut self, deadline: Tick, hash: u64) -> Option<Key> {
        match &mut self.wheel {
            Some(wheel) => Some(wheel.insert(deadline, hash)),
            None => self.row.insert(Place { deadline, hash }),
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, key: Key) {
        match &mut self.wheel {
            Some(wheel) => drop(wheel.remove(key)),
            None => self.row.place_mut(key).deadline = Tick::MAX,
        }
    }

    /// Gives an entry another deadline.
    #[cold]
    pub(super) fn reset(&mut self, key: Key, deadline: Tick) {
        match &mut self.wheel {
            Some(wheel) => drop(wheel.reset(key, deadline)),
            None => self.row.place_mut(key).deadline = deadline,
        }
    }

    /// Moves an entry to `deadline` if it is later now. Returns whether it was.
    pub(super) fn bring_forward(&mut self, key: Key, deadline: Tick) -> bool {
        let Some(wheel) = &mut self.wheel else {
            let place = self.row.place_mut(key);
            let earlier = deadline < place.deadline;
            place.deadline = place.deadline.min(deadline);
            return earlier;
        };
        let earlier = wheel.deadline(key).is_some_and(|current| deadline < current);
        if earlier {
            wheel.reset(key, deadline);
        }
        earlier
    }

    pub(super) fn hash_of(&self, key: Key) -> u64 {
        match &self.wheel {
            Some(wheel) => *wheel.get(key).expect("what is in the table is in the wheel"),
            None => self.row.places[key.number()].hash,
        }
    }

    /// When [`step`](Timers::step) next has work, or earlier.
    #[inline]
    pub(super) fn next_expiration(&self) -> Option<Tick> {
        match &self.wheel {
            Some(wheel) => wheel.next_expiration(),
            None => self.row.first().map(|(_, place)| place.deadline),
        }
    }

    /// The same as [`Wheel::step`].
    #[inline]
    pub(super) fn step(&mut self, now: Tick) -> Step<u64> {
        match &mut self.wheel {
            Some(wheel) => wheel.step(now),
            None => self.row.step(now),
        }
    }

    /// The same as [`Wheel::skip_to`].
    #[inline]
    pub(super) fn skip_to(&mut self, tick: Tick) {
        if let Some(wheel) = &mut self.wheel {
            wheel.skip_to(tick);
        }
    }
}

impl Row {
    fn place_mut(&mut self, key: Key) -> &mut Place {
        &mut self.places[key.number()]
    }

    fn insert(&mut self, entry: Place) -> Option<Key> {
        let vacant = self.places.iter().position(|place| place.deadline == Tick::MAX);
        let number = vacant.unwrap_or(self.places.len());
        match self.places.get_mut(number) {
            Some(place) => *place = entry,
            None if number < FEW => self.places.push(entry),
            None => return None,
        }
        Some(Key::numbered(number))
    }

    fn first(&self) -> Option<(usize, Place)> {
        let places = self.places.iter().copied().enumerate();
        places.min_by_key(|(_, place)| place.deadline).filter(|(_, place)| place.deadline < Tick::MAX)
    }

    fn step(&mut self, now: Tick) -> Step<u64> {
        let Some((number, Place { deadline, hash })) = self.first().filter(|(_, place)| place.deadline <= now) else {
            self.elapsed = self.elapsed.max(now);
            return Step::Done;
        };
        self.places[number].deadline = Tick::MAX;
        self.elapsed = self.elapsed.max(deadline);
        Step::Fired { key: Key::numbered(number), deadline, value: hash }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is due at a tick, as deadline and hash.
    fn due(timers: &mut Timers, now: Tick) -> Vec<(u64, u64)> {
        let mut fired = Vec::new();
        loop {
            match timers.step(now) {
                Step::Fired { deadline, value, .. } => fired.push((deadline.0, value)),
                Step::Cascaded => {}
                Step::Done => return fired,
            }
        }
    }

    #[test]
    fn a_row_gives_what_a_wheel_gives() {
        let mut row = Timers::starting_at(Tick(5));
        let mut wheel = Timers::in_a(Wheel::starting_at(Tick(5)));
        for first in (10..5_000).step_by(100) {
            for timers in [&mut row, &mut wheel] {
                let keys = [0, 7, 3, 90, 40, 230].map(|n| timers.insert(Tick(first + n), n).unwrap());
                timers.remove(keys[1]);
                assert!(timers.bring_forward(keys[3], Tick(first + 5)));
                assert!(!timers.bring_forward(keys[2], Tick(first + 50)), "that would put it off");
                assert_eq!([2, 3, 4, 5].map(|n| timers.hash_of(keys[n])), [3, 90, 40, 230]);
            }
            assert_eq!(row.next_expiration(), Some(Tick(first)));
            let now = Tick(first + 50);
            assert_eq!(due(&mut row, now), due(&mut wheel, now));
            assert_eq!((row.elapsed(), wheel.elapsed()), (now, now));
        }
    }

    #[test]
    fn a_full_row_refuses_an_entry_and_reuses_vacant_places() {
        let mut row = Timers::starting_at(Tick::ZERO);
        let keys: Vec<Key> = (0..FEW as u64).map(|n| row.insert(Tick(n), n).unwrap()).collect();
        assert!(row.insert(Tick(1), 1).is_none());
        row.remove(keys[3]);
        assert_eq!(row.insert(Tick(900), 900), Some(keys[3]));
        assert_eq!(row.hash_of(keys[3]), 900);
        assert!(row.insert(Tick(1), 1).is_none());
        assert_eq!(due(&mut row, Tick(100)).len(), FEW - 1);
        assert_eq!(row.next_expiration(), Some(Tick(900)));
        assert_eq!(due(&mut row, Tick(u64::MAX)), [(900, 900)]);
        assert_eq!(row.next_expiration(), None);
    }
}
