//! [`Coalesce`]: lets due timers wait for company if they would take too many turns.
//!
//! A turn costs tens of microseconds of two threads' time, however little it fires. So a timer has an allowance of turns:
//! one each [`DEFAULT`], and some at once after a rest. As long as turns come more rarely, each comes as its timers fall
//! due. If they would come more often, those due within that time share one.
//!
//! The allowance is counted as in the generic cell rate algorithm (ITU-T I.371): as the time up to which turns are paid.

use crate::wheel::{Tick, Ticks};

/// How long timers wait at most, if nobody says: 0.8 ms.
pub(crate) const DEFAULT: Ticks = Ticks(800_000);

/// How many turns may come at once after a rest.
const AT_ONCE: u64 = 8;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Coalesce {
    /// How long each turn takes of the allowance; none for timers that never wait.
    each: Ticks,
    /// The turns so far are paid for up to here.
    paid: Tick,
    /// No turn begins before this, whatever is registered.
    not_before: Tick,
}

impl Coalesce {
    pub(crate) fn new(each: Ticks) -> Self {
        Coalesce { each, paid: Tick::ZERO, not_before: Tick::ZERO }
    }

    /// When a turn for `deadline` may begin.
    pub(crate) fn earliest_turn(self, deadline: Tick) -> Tick {
        deadline.max(self.not_before)
    }

    /// This after a turn that went by the time `now`.
    pub(crate) fn after_turn(self, now: Tick) -> Self {
        if self.each == Ticks(0) {
            return self;
        }
        let paid = self.paid.max(now) + self.each;
        Coalesce { paid, not_before: Tick(paid.0.saturating_sub((AT_ONCE - 1) * self.each.0)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: Ticks = Ticks(1_000);

    /// When turns for these deadlines begin, each as early as it may.
    fn turns(coalesce: &mut Coalesce, deadlines: impl Iterator<Item = u64>) -> Vec<u64> {
        let turn = |deadline| {
            let begins = coalesce.earliest_turn(Tick(deadline));
            *coalesce = coalesce.after_turn(begins);
            begins.0
        };
        deadlines.map(turn).collect()
    }

    #[test]
    fn sparse_timers_never_wait() {
        let deadlines = (1_000_000..).step_by(1_000).take(1_000);
        assert_eq!(turns(&mut Coalesce::new(EACH), deadlines.clone()), deadlines.collect::<Vec<_>>());
    }

    #[test]
    fn dense_timers_wait_after_some_turns_and_never_longer_than_one_turn_takes() {
        let begins = turns(&mut Coalesce::new(EACH), (1_000_000..).step_by(100).take(100));
        let free: Vec<u64> = (1_000_000..).step_by(100).take(8).collect();
        assert_eq!(begins[..free.len()], free);
        assert!(begins[20..].windows(2).all(|pair| pair[1] - pair[0] == EACH.0), "{begins:?}");
        // What is due after the last turn is fired by the next.
        let mut coalesce = Coalesce::new(EACH);
        for due in (1_000_000..1_100_000).step_by(100) {
            let begins = coalesce.earliest_turn(Tick(due));
            assert!((begins - Tick(due)) <= EACH, "{begins:?} for {due}");
            if begins == Tick(due) {
                coalesce = coalesce.after_turn(begins);
            }
        }
    }

    #[test]
    fn a_rest_gives_all_of_the_allowance_back_and_no_more() {
        let mut coalesce = Coalesce::new(EACH);
        turns(&mut coalesce, (1_000_000..).take(100));
        let begins = turns(&mut coalesce, std::iter::repeat_n(9_000_000, 100));
        assert_eq!(begins.iter().filter(|&&begins| begins == 9_000_000).count() as u64, AT_ONCE);
    }

    #[test]
    fn without_an_allowance_nothing_waits() {
        let deadlines = 1_000_000..1_001_000;
        assert_eq!(turns(&mut Coalesce::new(Ticks(0)), deadlines.clone()), deadlines.collect::<Vec<_>>());
    }
}
