//! Time goes on: what is due is handed out, and what is on too high a level moves down.
//!
//! Must not know: more than the rest of the wheel does.

use super::block::{At, BLOCK};
use super::place::{Current, Place};
use super::{Key, Tick, Wheel};

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
/// assert_eq!(wheel.step(Tick(70)), Step::Cascaded); // they were out of order
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
    /// Entries moved to a lower level, or to their place in the order of their slot. There may be more to do.
    Cascaded,
    /// Nothing more is due at the time given: `elapsed` has reached it.
    Done,
}

impl<T> Wheel<T> {
    /// When [`step`](Wheel::step) next has work: never later than the earliest deadline, and often exactly it.
    ///
    /// It is exact if the slot with the earliest entries has few of them, or has them in order. Otherwise it is the start
    /// of that slot. If something is due already it may be [`elapsed`](Wheel::elapsed). `None` if the wheel is empty.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// assert_eq!(wheel.next_expiration(), None);
    /// wheel.insert(Tick(1_000), 'x');
    /// assert_eq!(wheel.next_expiration(), Some(Tick(1_000)), "until then there is nothing to do");
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

    /// The earliest deadline in a slot that has entries, if it takes little to find.
    pub(super) fn first_in(&self, place: Place) -> Option<Tick> {
        if let Some(ahead) = self.first_ahead(place) {
            let ahead = self.first_in(ahead)?;
            return if self.lists[place].is_empty() {
                Some(ahead)
            } else {
                Some(ahead.min(self.first_in_list(place)?))
            };
        }
        self.first_in_list(place)
    }

    fn first_in_list(&self, place: Place) -> Option<Tick> {
        if self.is_sorted(place) {
            return Some(self.store.cell(self.head_of(place).1).deadline);
        }
        let mut entries = self.lists[place].iter(&self.store);
        let first = entries.by_ref().take(EXACT).map(|index| self.store.cell(index).deadline).min();
        first.filter(|_| entries.next().is_none())
    }

    /// Does one bounded piece of the work that is due at `now`: hands out one entry, moves up to 32 to a lower level, or
    /// puts a slot with up to 1,024 entries in order.
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
    ///         _ => {} // entries have moved: here a lock could be released
    ///     }
    /// }
    /// assert_eq!(fired, [(Tick(80), 'a'), (Tick(90), 'b')]);
    /// ```
    pub fn step(&mut self, now: Tick) -> Step<T> {
        loop {
            let first = self.first_of_current();
            if let Some((_, at, index)) = first.filter(|&(deadline, ..)| deadline <= self.elapsed) {
                return self.fire(at, index);
            }
            if self.has_due() {
                let (at, index) = self.head_of(Place::DUE);
                return self.fire(at, index);
            }
            let innermost = self.current().last().map(|current| current.place);
            if let Some(place) = innermost.filter(|&place| !self.is_sorted(place)) {
                self.cascade_some(place);
                return Step::Cascaded;
            }
            // What is below the slots that are current may come before their first.
            let below =
                self.earliest().filter(|&place| innermost.is_none_or(|innermost| place.row() < innermost.row()));
            let below = below.map(|place| (self.start_of(place), place)).filter(|&(start, _)| start <= now);
            match (first, below) {
                (_, Some((start, place))) if first.is_none_or(|(deadline, ..)| start <= deadline) => {
                    if self.spread_rest(place) || self.enter(place, start) {
                        return Step::Cascaded;
                    }
                }
                (Some((deadline, at, index)), _) if deadline <= now => {
                    self.elapsed = deadline;
                    return self.fire(at, index);
                }
                _ => break,
            }
        }
        if self.spread_ahead(now) {
            return Step::Cascaded;
        }
        self.elapsed = self.elapsed.max(now);
        Step::Done
    }

    /// Hands out the next entry due at `now`, and moves as many entries as that takes. `None` if no more is due.
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

    /// Moves time to `tick`, before which nothing may be due, unless a slot is current. If nothing was due for long,
    /// entries are on levels much higher than they need be. They then move from there at once, and not through all the
    /// levels that they share.
    pub(crate) fn skip_to(&mut self, tick: Tick) {
        if tick <= self.elapsed || self.depth > 0 || self.has_due() {
            return;
        }
        if let Some(place) = self.earliest().filter(|&place| self.start_of(place) <= tick) {
            if self.spread_of(place).is_some() {
                return;
            }
            self.make_current(place);
        }
        self.elapsed = tick;
    }

    /// Time comes to a slot. Returns whether entries have moved.
    fn enter(&mut self, mut place: Place, start: Tick) -> bool {
        self.elapsed = start;
        while let Some(n) = self.spread_of(place) {
            let Some(first) = self.unfold(n) else { return false };
            place = first;
        }
        self.make_current(place)
    }

    /// Makes a slot current, and sorts it if need be and if it has few entries. Returns whether entries have moved.
    fn make_current(&mut self, place: Place) -> bool {
        self.current[self.depth] = Current { place, last: self.last_of(place) };
        self.depth += 1;
        !self.is_sorted(place) && self.sort(place)
    }

    /// The earliest entry of the current slots that are in order. Of two with one deadline the outer was inserted first.
    #[inline]
    pub(super) fn first_of_current(&self) -> Option<(Tick, At, u32)> {
        let sorted = self.current().iter().map(|current| current.place).filter(|&place| self.is_sorted(place));
        let firsts = sorted.map(|place| {
            let (at, index) = self.head_of(place);
            (self.store.cell(index).deadline, at, index)
        });
        firsts.min_by_key(|&(deadline, ..)| deadline)
    }

    /// Hands out an entry. If the entry itself were asked where it is, each firing would wait until the entry before it
    /// has come from memory.
    #[inline]
    fn fire(&mut self, at: At, index: u32) -> Step<T> {
        let (key, cell) = self.store.take_at(index);
        self.unlink(at);
        Step::Fired { key, deadline: cell.deadline, value: cell.value }
    }

    /// Moves the entries of a slot's first block. A slot that gets one more entry after each step still ends, as a block
    /// has more.
    fn cascade_some(&mut self, place: Place) {
        let mut entries = [(0, Tick::ZERO); BLOCK];
        let list = &mut self.lists[place];
        let count = list.take_block(&mut self.store, &mut entries);
        if list.is_empty() {
            self.vacate(place);
        }
        for &(index, deadline) in &entries[..count] {
            self.link(self.place_of(deadline), index, deadline);
        }
        self.cascaded += count as u64;
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
