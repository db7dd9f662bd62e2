//! [`Coalesce`]: lets due timers wait for company where timers are dense.
//!
//! A turn costs tens of microseconds of two threads' time, however little it fires, and what tasks do next is cheaper if
//! they wake together: a server reads and answers several requests at each wake-up. So where many timers fire, a turn
//! begins half of the longest wait after the first deadline that it fires, and all of it after the last turn. The half
//! keeps together what belongs together: of sleeps that began in one batch of requests, the first would else fire alone.
//!
//! Timers are dense if more of them fire than one in each such time, beside some at once after a rest. They are counted
//! as in the generic cell rate algorithm (ITU-T I.371): as the time up to which the timers that fired are paid.

use crate::wheel::{Tick, Ticks};

/// How long timers wait at most, if nobody says: 1 ms.
pub(crate) const DEFAULT: Ticks = Ticks(1_000_000);

/// How many timers may fire at once after a rest before they count as dense.
const AT_ONCE: u64 = 8;

/// How many timers count at most. So after a crowd the next ones are dense for 56 waits: this, less `AT_ONCE`.
const REMEMBERED: u64 = 64;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Coalesce {
    /// The longest wait, and how long each timer takes of the allowance; none for timers that never wait.
    longest: Ticks,
    /// The timers so far are paid for up to here.
    paid: Tick,
    /// When a turn last fired.
    fired: Tick,
}

impl Coalesce {
    pub(crate) fn new(longest: Ticks) -> Self {
        Coalesce { longest, paid: Tick::ZERO, fired: Tick::ZERO }
    }

    /// When a turn for `deadline` may begin.
    pub(crate) fn earliest_turn(self, deadline: Tick) -> Tick {
        if self.paid - deadline <= self.allowance(AT_ONCE) {
            return deadline;
        }
        (deadline + Ticks(self.longest.0 / 2)).max(self.fired + self.longest)
    }

    /// This after a turn that fired so many timers at the time `now`.
    pub(crate) fn after_turn(self, now: Tick, timers: usize) -> Self {
        let paid = self.paid.max(now) + self.allowance(timers as u64);
        let fired = if timers == 0 { self.fired.min(now) } else { now };
        Coalesce { paid: paid.min(now + self.allowance(REMEMBERED)), fired, ..self }
    }

    fn allowance(self, timers: u64) -> Ticks {
        Ticks(self.longest.0.saturating_mul(timers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Ticks = Ticks(1_000);
    const START: u64 = 1_000_000;

    /// When turns for these deadlines begin, each as early as it may, and how many each fires.
    fn turns(coalesce: &mut Coalesce, deadlines: impl IntoIterator<Item = u64>) -> Vec<(u64, usize)> {
        let mut turns: Vec<(u64, usize)> = Vec::new();
        let mut deadlines = deadlines.into_iter().peekable();
        while let Some(first) = deadlines.next() {
            let begins = coalesce.earliest_turn(Tick(first));
            let mut fired = 1;
            while deadlines.next_if(|&deadline| deadline <= begins.0).is_some() {
                fired += 1;
            }
            *coalesce = coalesce.after_turn(begins, fired);
            turns.push((begins.0, fired));
        }
        turns
    }

    #[test]
    fn sparse_timers_never_wait() {
        let deadlines: Vec<u64> = (START..).step_by(1_000).take(1_000).collect();
        let turns = turns(&mut Coalesce::new(LONGEST), deadlines.clone());
        assert_eq!(turns, deadlines.into_iter().map(|deadline| (deadline, 1)).collect::<Vec<_>>());
    }

    /// A bug that this crate had: dense timers took a turn each: 40 % of a core for 8,900 a second.
    #[test]
    fn dense_timers_wait_after_some_and_never_longer_than_they_may() {
        let deadlines = (START..).step_by(100).take(1_000);
        let turns = turns(&mut Coalesce::new(LONGEST), deadlines.clone());
        let dense = turns.iter().position(|&(_, fired)| fired > 1).unwrap();
        assert_eq!(dense, 9, "{turns:?}");
        assert!(turns[dense..].windows(2).all(|pair| pair[1].0 - pair[0].0 == LONGEST.0), "{turns:?}");
        for deadline in deadlines {
            let (begins, _) = turns.iter().find(|&&(begins, _)| begins >= deadline).unwrap();
            assert!(begins - deadline <= LONGEST.0, "due at {deadline}, fired at {begins}");
        }
    }

    /// As in a server whose handlers sleep, and whose clients ask again at once.
    #[test]
    fn timers_that_were_armed_together_fire_together() {
        let batches = (0..10).flat_map(|batch| (0..20).map(move |n| START + batch * 10_500 + n * 20));
        let turns = turns(&mut Coalesce::new(LONGEST), batches);
        let fired: Vec<_> = turns.iter().rev().take(9).map(|&(_, fired)| fired).collect();
        assert_eq!(fired, [20; 9], "{turns:?}");
    }

    #[test]
    fn a_rest_gives_all_of_the_allowance_back_and_no_more() {
        let mut coalesce = Coalesce::new(LONGEST);
        turns(&mut coalesce, START..START + 10_000);
        assert!(coalesce.earliest_turn(Tick(START + 50_000)) > Tick(START + 50_000), "it was dense just now");
        let rested = START + 100_000;
        let turns = turns(&mut coalesce, rested..rested + 100);
        assert_eq!(turns.iter().filter(|&&(begins, _)| begins < rested + 100).count() as u64, AT_ONCE + 1);
    }

    #[test]
    fn without_a_wait_nothing_waits() {
        let turns = turns(&mut Coalesce::new(Ticks(0)), START..START + 1_000);
        assert!(turns.iter().map(|&(begins, _)| begins).eq(START..START + 1_000));
    }
}
