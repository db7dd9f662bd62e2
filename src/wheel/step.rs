//! Advances time: hands out due entries, and moves entries to lower levels.

use super::slots::{At, Place};
use super::{Key, Tick, Wheel};

/// [`Wheel::next_expiration`] searches a slot for its earliest entry only if the slot has at most this many.
const EXACT: usize = 16;

/// The maximum number of entries sorted in one step. Larger slots cascade.
pub(super) const MOST_SORTED: usize = 1_024;

/// The result of one [`Wheel::step`]. Call `step` again until it is [`Done`](Step::Done).
///
/// # Examples
///
/// ```
/// use hairspring::wheel::{Step, Tick, Wheel};
///
/// let mut wheel = Wheel::new();
/// let key = wheel.insert(Tick::from(70), 'a');
/// assert_eq!(wheel.step(Tick::from(69)), Step::Done);
/// assert_eq!(wheel.step(Tick::from(70)), Step::Fired { key, deadline: Tick::from(70), value: 'a' });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step<T> {
    /// An entry was due and is handed out.
    Fired {
        /// The entry's key, now stale.
        key: Key,
        /// The entry's deadline as it was given: at or before the time passed to `step`.
        deadline: Tick,
        /// The entry's value.
        value: T,
    },
    /// Entries were moved within the wheel. There may be more to do.
    Cascaded,
    /// Nothing more is due: [`elapsed`](Wheel::elapsed) has reached the given time.
    Done,
}

impl<T> Wheel<T> {
    /// Returns the tick at which [`step`](Wheel::step) next has work, or `None` if the wheel is empty.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// assert_eq!(wheel.next_expiration(), None);
    /// wheel.insert(Tick::from(1_000), 'x');
    /// assert_eq!(wheel.next_expiration(), Some(Tick::from(1_000)), "until then there is nothing to do");
    /// ```
    ///
    /// If an entry is already due, that is [`elapsed`](Wheel::elapsed). Otherwise it is never later than the earliest
    /// deadline, and exactly that if few entries are due near it, or if they were inserted in deadline order. If it is
    /// earlier, `step` moves entries, and the next call returns a later tick.
    #[doc(alias = "next_deadline")]
    #[must_use]
    pub fn next_expiration(&self) -> Option<Tick> {
        if self.has_due() {
            return Some(self.elapsed);
        }
        let first_of = |place| self.first_of(place, EXACT).map(|(due, _)| due);
        let mut next = self.next_slot().map(|place| first_of(place).unwrap_or_else(|| self.start_of(place)));
        for place in self.current() {
            let first = first_of(place).unwrap_or(self.elapsed);
            next = Some(next.map_or(first, |next| next.min(first)));
        }
        next.map(|next| next.max(self.elapsed))
    }

    /// Does a bounded piece of the work that is due at `now`: hands out one entry, or moves or sorts up to 1,024.
    ///
    /// ```
    /// use hairspring::wheel::{Step, Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick::from(90), 'b');
    /// wheel.insert(Tick::from(80), 'a');
    /// let mut fired = Vec::new();
    /// loop {
    ///     match wheel.step(Tick::from(100)) {
    ///         Step::Fired { deadline, value, .. } => fired.push((deadline, value)),
    ///         Step::Done => break,
    ///         _ => {} // entries have moved
    ///     }
    /// }
    /// assert_eq!(fired, [(Tick::from(80), 'a'), (Tick::from(90), 'b')]);
    /// ```
    ///
    /// Call it until it returns [`Step::Done`]. You may release a lock between calls. Entries come out in deadline
    /// order, and first in, first out within a tick. If `now` is before [`elapsed`](Wheel::elapsed), only entries that
    /// were already due are handed out.
    pub fn step(&mut self, now: Tick) -> Step<T> {
        self.step_with(now, Wheel::fire)
    }

    /// [`step`](Wheel::step), with the function that hands an entry out.
    #[inline(always)] // Although it has two callers.
    #[allow(clippy::inline_always)]
    fn step_with(&mut self, now: Tick, fire: impl FnOnce(&mut Self, At, u32) -> Step<T>) -> Step<T> {
        loop {
            let first = self.first_of_current();
            if let Some((_, at, index)) = first.filter(|&(deadline, ..)| deadline <= self.elapsed) {
                return fire(self, at, index);
            }
            if self.has_due() {
                let (at, index) = self.lists.first(Place::DUE);
                return fire(self, at, index);
            }
            if let Some(place) = self.cascading {
                self.cascade_some(place);
                return Step::Cascaded;
            }
            // Entries of the next slot may precede the first of the current slots.
            let next = self.next_slot().map(|place| (self.start_of(place), place)).filter(|&(start, _)| start <= now);
            match (first, next) {
                (_, Some((start, place))) if first.is_none_or(|(deadline, ..)| start <= deadline) => {
                    if self.spread_rest(place) || self.enter(place, start) {
                        return Step::Cascaded;
                    }
                }
                (Some((deadline, at, index)), _) if deadline <= now => {
                    self.elapsed = deadline;
                    return fire(self, at, index);
                }
                (None, _) => {
                    self.entered = 0;
                    break;
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

    /// Hands out the next entry that is due at `now`, or returns `None` if no more is due.
    ///
    /// The work per call is not bounded; use [`step`](Wheel::step) if that matters.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick::from(900), "later");
    /// wheel.insert(Tick::from(100), "earlier");
    /// assert_eq!(wheel.pop(Tick::from(900)), Some("earlier"));
    /// assert_eq!(wheel.pop(Tick::from(900)), Some("later"));
    /// assert_eq!(wheel.pop(Tick::from(900)), None);
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

    /// Advances the time of an empty wheel.
    pub(crate) fn skip_to(&mut self, tick: Tick) {
        debug_assert!(self.is_empty());
        self.elapsed = self.elapsed.max(tick);
    }

    /// Sets the time back to a tick, unless that is later, and files all entries again, in the order in which they
    /// would have come out. Keys stay valid. Takes time in proportion to the number of entries.
    #[cold]
    pub(crate) fn set_back(&mut self, tick: Tick) {
        if tick >= self.elapsed {
            return;
        }
        let mut entries = Vec::with_capacity(self.len());
        let mut take = |wheel: &mut Self, at, index| {
            wheel.unlink(at);
            entries.push(index);
            Step::Cascaded
        };
        while matches!(self.step_with(Tick::MAX, &mut take), Step::Cascaded) {}
        (self.elapsed, self.spread_at) = (tick, Tick::ZERO);
        for index in entries {
            let at = self.push_new(index, self.cells[index].deadline);
            self.cells[index].at = at;
        }
    }

    /// Called when time reaches a slot. Returns whether entries were moved.
    fn enter(&mut self, mut place: Place, start: Tick) -> bool {
        self.elapsed = start;
        while let Some(n) = self.spread_of(place) {
            let Some(first) = self.unfold(n) else { return false };
            place = first;
        }
        self.put_in_order(place)
    }

    /// Sorts a slot that becomes current, or makes it cascade if it is too large. Returns whether entries were moved.
    fn put_in_order(&mut self, place: Place) -> bool {
        self.entered |= 1 << place.level();
        if self.is_sorted(place) {
            return false;
        }
        if self.lists.has_more_than(MOST_SORTED, place) {
            self.cascading = Some(place);
            return false;
        }
        let entries = (0..).zip(self.lists.iter(place));
        let ranks = entries.map(|(position, index): (u32, u32)| {
            u128::from(self.cells[index].deadline.0) << 64 | u128::from(position) << 32 | u128::from(index)
        });
        self.sorter.clear();
        self.sorter.extend(ranks);
        self.sorter.sort_unstable();
        self.cascaded += self.sorter.len() as u64;
        #[allow(clippy::cast_possible_truncation)]
        let in_order = self.sorter.iter().map(|&rank| rank as u32);
        self.lists.rearrange(&mut self.cells, place, in_order);
        self.sorted[place.row()] |= 1 << place.slot();
        true
    }

    /// The earliest entry of the sorted current slots. If two share a deadline, the outer slot has the older.
    #[inline]
    fn first_of_current(&self) -> Option<(Tick, At, u32)> {
        let mut first: Option<(Tick, At, u32)> = None;
        for place in self.current().filter(|&place| self.is_sorted(place)) {
            let (at, index) = self.lists.first(place);
            let deadline = self.cells[index].deadline;
            if first.is_none_or(|(earliest, ..)| deadline <= earliest) {
                first = Some((deadline, at, index));
            }
        }
        first
    }

    /// Hands out an entry. Takes `at` as an argument, because reading it from the entry would stall on memory.
    #[inline]
    fn fire(&mut self, at: At, index: u32) -> Step<T> {
        let cell = self.cells.take_if(index, |_| true).expect("a list refers to existing entries");
        self.len -= 1;
        self.unlink(at);
        Step::Fired { key: cell.key(index), deadline: cell.deadline, value: cell.value }
    }

    /// Moves a whole block: a slot that receives one entry per step still empties.
    fn cascade_some(&mut self, place: Place) {
        self.move_block(place, Wheel::place_of);
        if self.lists.is_empty(place) {
            self.vacate(place);
        }
    }

    /// The key of the entry that is handed out next, or `None` if the wheel is empty.
    ///
    /// Moves nothing, but searches all entries of the earliest slot if they are out of order.
    pub(crate) fn first(&self) -> Option<Key> {
        let current = self.first_of_current().map(|(deadline, _, index)| (deadline, index));
        let first = match current.filter(|&(deadline, _)| deadline <= self.elapsed) {
            None if self.has_due() => Some(self.lists.first(Place::DUE).1),
            None => {
                // Of equal deadlines, `min_by_key` returns the first. Entries of a cascading slot are newer than those
                // moved down from it, and entries of the next slot are newer than those of sorted current slots.
                let others = [self.next_slot(), self.cascading].into_iter().flatten();
                let firsts = current.into_iter().chain(others.filter_map(|place| self.first_of(place, usize::MAX)));
                firsts.min_by_key(|&(deadline, _)| deadline).map(|(_, index)| index)
            }
            Some((_, index)) => Some(index),
        };
        first.map(|index| self.cells[index].key(index))
    }

    /// The first entry that a slot hands out, and at which tick. `None` if finding it means searching more than `most`
    /// entries of a list.
    fn first_of(&self, place: Place, most: usize) -> Option<(Tick, u32)> {
        let due = |index| (self.cells[index].deadline.max(self.elapsed), index);
        if self.is_sorted(place) {
            return Some(due(self.lists.first(place).1));
        }
        let ahead = match self.first_ahead(place) {
            Some(ahead) => Some(self.first_of(ahead, most)?),
            None => None,
        };
        let mut entries = self.lists.iter(place).map(due);
        let first = ahead.into_iter().chain(entries.by_ref().take(most)).min_by_key(|&(due, _)| due);
        first.filter(|_| entries.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All entries that a wheel hands out until `step` returns `Done`.
    fn all(wheel: &mut Wheel<u64>, mut step: impl FnMut(&mut Wheel<u64>) -> Step<u64>) -> Vec<(Tick, u64)> {
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

    /// Unordered deadlines with many duplicates, near the wheel's time and far from it.
    fn scattered(count: u64, start: u64, span: u64) -> Wheel<u64> {
        let mut wheel = Wheel::starting_at(Tick(start));
        for n in 0..count {
            wheel.insert(Tick(start + span + n * 7_919 % span), n);
        }
        wheel
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn sorting_gives_the_order_of_deadlines_and_within_a_tick_that_of_insertion() {
        for count in
            [2, 100, MOST_SORTED as u64 - 1, MOST_SORTED as u64, MOST_SORTED as u64 + 1, 8 * MOST_SORTED as u64]
        {
            for (start, span) in [(0, 50), (1 << 40, 5_000), (5, 1 << 33), (1 << 60, 1 << 52)] {
                let mut wheel = scattered(count, start, span);
                let mut expected: Vec<_> = (0..count).map(|n| (Tick(start + span + n * 7_919 % span), n)).collect();
                expected.sort_by_key(|&(deadline, _)| deadline);
                assert_eq!(all(&mut wheel, |wheel| wheel.step(Tick::MAX)), expected, "{count} over {span}");
                assert!(count > MOST_SORTED as u64 || wheel.cascaded() <= count, "none moves level by level");
            }
        }
    }

    /// A rank has 54 bits for how far an entry is behind the first.
    #[test]
    fn entries_far_apart_in_one_slot_come_in_order() {
        const SLOT: u64 = 2 << 60;
        for apart in [1, 1 << 13, (1 << 54) - 1, 1 << 54, (1 << 54) + 1, 1 << 55, 1 << 57] {
            for first in [SLOT, SLOT + (1 << 53) - 1] {
                let mut wheel = Wheel::new();
                wheel.insert(Tick(first + apart), 1);
                wheel.insert(Tick(first), 0);
                let given = all(&mut wheel, |wheel| wheel.step(Tick::MAX));
                assert_eq!(given, [(Tick(first), 0), (Tick(first + apart), 1)], "{apart} apart");
            }
        }
    }

    #[test]
    fn what_is_emptied_comes_as_it_would_have_fired_and_no_time_passes() {
        let mut wheel = Wheel::new();
        assert_eq!(wheel.cells.capacity(), 0);
        for tick in [70, 5, 1 << 40, 71, 6] {
            wheel.insert(Tick(tick), tick);
        }
        assert_eq!(wheel.pop(Tick(5)), Some(5));
        let mut given = Vec::new();
        wheel.empty_into(|_, deadline, value| given.push((deadline.0, value)));
        assert_eq!(given, [6, 70, 71, 1 << 40].map(|tick| (tick, tick)));
        assert!(wheel.is_empty() && wheel.elapsed() == Tick(5));
        wheel.check();
    }
}
