//! [`Coalesce`]: delays turns if timers are dense, to let several timers share a wake-up.
//!
//! A turn costs two threads tens of microseconds, however few timers it fires, and tasks that wake together are cheaper
//! to run. If timers are dense, a turn therefore begins at least half of the longest wait after the first deadline that
//! it fires, and at least the longest wait after the previous turn. Without the first rule, the first sleep of a batch
//! of requests would fire alone.
//!
//! Timers are dense if more than one fires per longest wait, after an allowance of eight when the timer has rested. The
//! generic cell rate algorithm (ITU-T I.371) measures this as the tick up to which the fired timers are paid for.
//!
//! One task that sleeps in a loop fires many timers, but each of them alone: it registers the next only when the last
//! has fired. After two turns that fired alone and saw no timer that is due soon, turns no longer wait.

use crate::wheel::{Tick, Ticks};

pub(crate) const DEFAULT: Ticks = Ticks(1_000_000);

/// How many timers may fire together after a rest before they count as dense.
const AT_ONCE: u64 = 8;

/// The maximum number of timers counted. After a burst, timers count as dense for 56 waits: this minus `AT_ONCE`.
const REMEMBERED: u64 = 64;

/// How many turns without company end the wait for it.
const ALONE: u32 = 2;

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Coalesce {
    /// The longest wait, and what each timer takes from the allowance. Zero turns coalescing off.
    pub(crate) longest: Ticks,
    /// The tick up to which the fired timers are paid for.
    paid: Tick,
    /// The time of the last turn that fired a timer.
    fired: Tick,
    /// How many of the last turns fired one timer, and left none that was due within the longest wait.
    alone: u32,
}

impl Coalesce {
    pub(crate) fn new(longest: Ticks) -> Self {
        Coalesce { longest, ..Coalesce::default() }
    }

    /// The earliest start of a turn that fires `deadline`.
    pub(crate) fn earliest_turn(self, deadline: Tick) -> Tick {
        if self.alone >= ALONE || self.paid - deadline <= self.allowance(AT_ONCE) {
            return deadline;
        }
        (deadline + Ticks(self.longest.0 / 2)).max(self.fired + self.longest)
    }

    /// A turn at `now` has fired some timers; the next is due at `next`.
    pub(crate) fn after_turn(self, now: Tick, timers: usize, next: Tick) -> Self {
        let paid = (self.paid.max(now) + self.allowance(timers as u64)).min(now + self.allowance(REMEMBERED));
        let (fired, alone) = match timers {
            0 => (self.fired.min(now), self.alone),
            1 if next > now + self.longest => (now, (self.alone + 1).min(ALONE)),
            _ => (now, 0),
        };
        Coalesce { paid, fired, alone, ..self }
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

    /// When the turns for these deadlines begin, as early as allowed, and how many timers each fires.
    fn turns(coalesce: &mut Coalesce, deadlines: impl IntoIterator<Item = u64>) -> Vec<(u64, usize)> {
        let mut turns: Vec<(u64, usize)> = Vec::new();
        let mut deadlines = deadlines.into_iter().peekable();
        while let Some(first) = deadlines.next() {
            let begins = coalesce.earliest_turn(Tick(first));
            let mut fired = 1;
            while deadlines.next_if(|&deadline| deadline <= begins.0).is_some() {
                fired += 1;
            }
            *coalesce = coalesce.after_turn(begins, fired, deadlines.peek().map_or(Tick::MAX, |&next| Tick(next)));
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

    /// A bug that this crate had: with a turn for each timer, 8,900 timers a second took 40 % of a core.
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

    /// A bug that this crate had: a task that slept 0.1 ms in a loop woke once per millisecond.
    #[test]
    fn a_task_that_sleeps_alone_in_a_loop_does_not_wait_until_it_has_company() {
        let (mut coalesce, mut now) = (Coalesce::new(LONGEST), START);
        for _ in 0..1_000 {
            let deadline = now + 100;
            now = coalesce.earliest_turn(Tick(deadline)).0;
            assert_eq!(now, deadline);
            coalesce = coalesce.after_turn(Tick(now), 1, Tick(now + 10 * LONGEST.0));
            // A turn that fires nothing, for a timer that was cancelled, is no company.
            coalesce = coalesce.after_turn(Tick(now + 50), 0, Tick(now + 10 * LONGEST.0));
        }
        let turns = turns(&mut coalesce, (now + 100..now + 10_000).step_by(100));
        assert!(turns[1..].iter().all(|&(_, fired)| fired > 1), "{turns:?}");
    }

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
