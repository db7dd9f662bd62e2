//! Time goes on: what is due is handed out, and what stands too far out moves down.
//!
//! Must not know: more than the rest of the wheel does.

use super::place::{Current, Place};
use super::store::NIL;
use super::{Key, Sorter, Tick, Wheel};

/// How many entries of one slot [`Wheel::next_expiration`] looks at before it answers with the slot's start.
const EXACT: usize = 16;

/// What one [`Wheel::step`] did.
///
/// ```
/// use hairspring::wheel::{Step, Tick, Wheel};
///
/// let mut wheel = Wheel::new();
/// wheel.insert(Tick(71), 'b');
/// wheel.insert(Tick(70), 'a');
/// assert_eq!(wheel.step(Tick(70)), Step::Cascaded); // out of order: both move down to level 0
/// assert!(matches!(wheel.step(Tick(70)), Step::Fired { value: 'a', .. }));
/// assert_eq!(wheel.step(Tick(70)), Step::Done);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<T> {
    /// An entry fell due and is handed out.
    Fired {
        /// The entry's key, now stale.
        key: Key,
        /// The tick it was inserted for, at or before the time given to `step`.
        deadline: Tick,
        /// What was inserted.
        value: T,
    },
    /// One or two entries moved to a lower level. There may be more to do.
    Cascaded,
    /// Nothing more is due at the time given: `elapsed` has reached it.
    Done,
}

impl<T> Wheel<T> {
    /// When [`step`](Wheel::step) next has work: never later than the earliest deadline, and often exactly it.
    ///
    /// It is exact where the slot with the earliest entries has few of them, or has them in order, and the start of that
    /// slot otherwise. Where something is due already it may be [`elapsed`](Wheel::elapsed). `None` where the wheel is
    /// empty.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// assert_eq!(wheel.next_expiration(), None);
    /// wheel.insert(Tick(1_000), 'x');
    /// assert_eq!(wheel.next_expiration(), Some(Tick(1_000)), "till then there is nothing to do");
    /// ```
    #[must_use]
    pub fn next_expiration(&self) -> Option<Tick> {
        if self.has_due() {
            return Some(self.elapsed);
        }
        let earliest = self.earliest()?;
        let next = self.first_in(earliest).unwrap_or_else(|| self.start_of(earliest));
        let current = self.current().iter().map(|current| self.first_in(current.place).unwrap_or(self.elapsed));
        Some(current.fold(next, Tick::min).max(self.elapsed))
    }

    /// The earliest deadline in a slot, where it can be told at little cost.
    pub(super) fn first_in(&self, place: Place) -> Option<Tick> {
        if self.is_sorted(place) {
            return Some(self.first_deadline(place));
        }
        let mut entries = self.lists[place.0].iter(&self.store);
        let first = entries.by_ref().take(EXACT).map(|index| self.store.cell(index).deadline).min();
        first.filter(|_| entries.next().is_none())
    }

    /// Does one bounded piece of the work that is due at `now`: hands out one entry, or moves up to two down a level.
    ///
    /// Call it until it says [`Step::Done`], and stop in between as often as you like. Entries come in the order of
    /// their deadlines, and first in first out within a tick. A `now` before [`elapsed`](Wheel::elapsed) fires only what
    /// was overdue already.
    ///
    /// ```
    /// use hairspring::wheel::{Step, Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick(90), 'b');
    /// wheel.insert(Tick(80), 'a');
    /// let mut fired = Vec::new();
    /// loop {
    ///     match wheel.step(Tick(100)) {
    ///         Step::Fired { deadline, value, .. } => fired.push((deadline, value)),
    ///         Step::Done => break,
    ///         _ => {} // it has cascaded: here a lock could be let go
    ///     }
    /// }
    /// assert_eq!(fired, [(Tick(80), 'a'), (Tick(90), 'b')]);
    /// ```
    pub fn step(&mut self, now: Tick) -> Step<T> {
        self.advance(now, None)
    }

    /// Hands out the next entry due at `now`, doing as much cascading as that takes; `None` where no more is due.
    ///
    /// [`step`](Wheel::step) does a bounded piece of that work at a time.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick(900), "later");
    /// wheel.insert(Tick(100), "sooner");
    /// assert_eq!(wheel.pop(Tick(900)), Some("sooner"));
    /// assert_eq!(wheel.pop(Tick(900)), Some("later"));
    /// assert_eq!(wheel.pop(Tick(900)), None);
    /// ```
    pub fn pop(&mut self, now: Tick) -> Option<T> {
        loop {
            match self.step(now) {
                Step::Fired { value, .. } => return Some(value),
                Step::Cascaded => {}
                Step::Done => return None,
            }
        }
    }

    #[inline]
    pub(super) fn advance(&mut self, now: Tick, mut sorter: Option<&mut Sorter>) -> Step<T> {
        loop {
            let first = self.first_of_current();
            if let Some((_, place)) = first.filter(|&(deadline, _)| deadline <= self.elapsed) {
                return self.fire_first(place);
            }
            if self.has_due() {
                return self.fire_first(Place::DUE);
            }
            let innermost = self.current().last().map(|current| current.place);
            if let Some(place) = innermost.filter(|&place| !self.is_sorted(place)) {
                self.cascade_some(place);
                return Step::Cascaded;
            }
            // What stands below the slots that are current may come before their first.
            let below =
                self.earliest().filter(|&place| innermost.is_none_or(|innermost| place.row() < innermost.row()));
            let below = below.map(|place| (self.start_of(place), place)).filter(|&(start, _)| start <= now);
            match (first, below) {
                (_, Some((start, place))) if first.is_none_or(|(deadline, _)| start <= deadline) => {
                    self.elapsed = start;
                    self.make_current(place);
                    if let Some(sorter) = sorter.as_mut().filter(|_| !self.is_sorted(place)) {
                        self.sort(place, now, sorter);
                    }
                }
                (Some((deadline, place)), _) if deadline <= now => {
                    self.elapsed = deadline;
                    return self.fire_first(place);
                }
                _ => break,
            }
        }
        self.elapsed = self.elapsed.max(now);
        Step::Done
    }

    /// Has time go to `tick`, before which nothing may be due, where no slot is current. What stands too far out, as
    /// nothing was due for long, then moves from there at once, and not through all the levels that it shares with the
    /// others of its slot.
    pub(crate) fn skip_to(&mut self, tick: Tick) {
        if tick <= self.elapsed || self.depth > 0 || self.has_due() {
            return;
        }
        if let Some(place) = self.earliest().filter(|&place| self.start_of(place) <= tick) {
            self.make_current(place);
        }
        self.elapsed = tick;
    }

    fn make_current(&mut self, place: Place) {
        self.current[self.depth] = Current { place, last: self.last_of(place) };
        self.depth += 1;
    }

    /// The earliest entry of the current slots that are in order. Of two with one deadline the outer was armed before.
    #[inline]
    pub(super) fn first_of_current(&self) -> Option<(Tick, Place)> {
        let sorted = self.current().iter().map(|current| current.place).filter(|&place| self.is_sorted(place));
        sorted.map(|place| (self.first_deadline(place), place)).min_by_key(|&(deadline, _)| deadline)
    }

    pub(super) fn fire_first(&mut self, place: Place) -> Step<T> {
        let index = self.lists[place.0].head;
        let key = self.store.key_of(index);
        let cell = self.store.take(key).expect("a linked cell is occupied");
        self.close_gap(place, cell.prev, cell.next);
        Step::Fired { key, deadline: cell.deadline, value: cell.value }
    }

    /// Moves two entries, so that a cascade ends even where each step is followed by an insert into its slot.
    pub(super) fn cascade_some(&mut self, place: Place) {
        for _ in 0..2 {
            if !self.lists[place.0].is_empty() {
                self.cascade_one(place);
            }
        }
    }

    pub(super) fn cascade_one(&mut self, place: Place) {
        let index = self.lists[place.0].head;
        let cell = self.store.cell(index);
        let (deadline, next) = (cell.deadline, cell.next);
        self.close_gap(place, NIL, next);
        self.link(self.place_of(deadline), index, deadline);
        self.cascaded += 1;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What a wheel hands out until `step` says that it is done.
    pub(in crate::wheel) fn all(
        wheel: &mut Wheel<u64>,
        mut step: impl FnMut(&mut Wheel<u64>) -> Step<u64>,
    ) -> Vec<(Tick, u64)> {
        let mut fired = Vec::new();
        loop {
            match step(wheel) {
                Step::Fired { deadline, value, .. } => {
                    fired.push((deadline, value));
                    if fired.len() % 8_192 == 1 {
                        wheel.check();
                    }
                }
                Step::Cascaded => {}
                Step::Done => return fired,
            }
        }
    }

    /// Numbers in no order, of all sizes up to so many bits.
    fn numbers(seed: u64, bits: u32) -> impl Iterator<Item = u64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 1) >> (63 - bits + u32::try_from(state >> 60).expect("four bits") % bits)
        })
    }

    fn fire(wheel: &mut Wheel<u64>, now: Tick) -> Vec<(Tick, u64)> {
        all(wheel, |wheel| {
            wheel.check();
            wheel.step(now)
        })
    }

    #[test]
    fn a_wheel_that_skips_gives_what_one_gives_that_does_not() {
        for (seed, bits) in (0..).zip(1..=62) {
            let mut numbers = numbers(seed, bits);
            let mut number = || numbers.next().expect("without end");
            let (mut skips, mut walks) = (Wheel::new(), Wheel::new());
            for count in 0..60 {
                let now = Tick(skips.next_expiration().unwrap_or(skips.elapsed()).0.saturating_add(number()));
                if let Some(next) = skips.next_expiration() {
                    skips.skip_to(next);
                    skips.check();
                }
                // In the midst of a turn, and nothing that one of them has gone by.
                for deadline in [now.0, now.0.saturating_add(number()), now.0.saturating_sub(number())].map(Tick) {
                    let deadline = deadline.max(skips.elapsed());
                    skips.insert(deadline, count);
                    walks.insert(deadline, count);
                }
                if count % 4 == 0 {
                    assert_eq!(fire(&mut skips, now), fire(&mut walks, now), "seed {seed}, round {count}");
                }
            }
            assert_eq!(fire(&mut skips, Tick::MAX), fire(&mut walks, Tick::MAX), "seed {seed}");
        }
    }
}
