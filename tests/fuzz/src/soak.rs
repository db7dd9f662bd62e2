//! Years on a virtual clock, in ticks of a nanosecond, with timers on every level of the wheel.
//!
//! For each level from the sixth up, one timer is due at the last tick of the level's current slot, and one at the
//! first tick of the next slot. Both are armed again when they fire. So there is always a far timer in the current slot
//! of each of these levels, and some fire whenever time crosses a power of 64. Slots of the lower levels last less than
//! a minute. Their timers are armed only during bursts.
//!
//! A burst is a number of short timers that are armed again as they fire. Between bursts, time moves to just before the
//! next multiple of 2^36 ticks (a little more than a minute) or 2^42 (more than an hour). A burst is in progress
//! whenever time crosses such a multiple. The more factors of 64 the multiple has, the longer the burst.
//!
//! Time moves to the next firing that the wheel or the clock reports. If it fails to report a timer, that timer is
//! late.
//!
//! This file knows nothing of the internals of the wheel or the timer.

mod on_timer;
mod on_wheel;

use std::time::Instant;

use crate::clock::LAST;
use crate::random::Random;

const TICKS_A_YEAR: u64 = 365 * 86_400 * 1_000_000_000;

/// How many levels the far timers are on.
const LEVELS: u32 = 10;

/// Bits in a base-64 digit of a tick.
const DIGIT: u32 = 6;

/// Timers on levels below this are armed only during bursts.
const FAR: u32 = 6;

/// The number of short timers in a long burst.
const BURST: usize = 48;

/// The number of short timers in the shortest bursts.
const FEW: usize = 8;

/// Two more timers: one is due exactly when a power of 64 is crossed, and one a tick later, so it stays pending.
const BESIDE: usize = 2;

/// A clock on which numbered timers can be armed.
trait Rig {
    /// Arms a timer that is not armed.
    fn arm(&mut self, timer: usize, deadline: u64);

    fn now(&self) -> u64;

    /// Moves time to the next firing, but not beyond `limit`. Adds each timer that fired to `fired`, with its tick.
    fn advance(&mut self, limit: u64, fired: &mut Vec<(usize, u64)>);
}

/// Runs all soaks, of this many years each. Returns `false` if one fails.
pub(crate) fn run(years: u64) -> bool {
    let span = years.saturating_mul(TICKS_A_YEAR).min(LAST);
    let before = |power: u32| (1_u64 << power) - (1 << 20).min(1 << (power - 1));
    let mut passed = soak("wheel", "tick 0", 0, span, 36, on_wheel::OnWheel::new);
    for (name, start) in [("2^36", before(36)), ("2^42", before(42)), ("2^60", before(60))] {
        passed &= soak("wheel", name, start, start.saturating_add(span), 42, on_wheel::OnWheel::new);
    }
    passed &= soak("wheel", "before the end", u64::MAX - span, u64::MAX, 42, on_wheel::OnWheel::new);
    // A clock cannot show a time less than 50 years after tick 0.
    for (name, start) in [("2^61", before(61)), ("3 * 2^60", (3 << 60) - (1 << 20)), ("2^63", before(63))] {
        passed &= soak("timer", name, start, start.saturating_add(span), 42, on_timer::OnTimer::new);
    }
    let start = (LAST - span).max(2 << 60);
    passed & soak("timer", "before the end", start, LAST, 42, on_timer::OnTimer::new)
}

/// One soak from `start` to `end`, with a burst at each multiple of 2^`stride`.
fn soak<R: Rig>(rig: &str, name: &str, start: u64, end: u64, stride: u32, new: impl FnOnce(u64) -> R) -> bool {
    let began = Instant::now();
    let mut soak = None;
    let failed = crate::run::caught(|| {
        let mut running = Soak::new(new(start), start, end);
        running.run(stride);
        soak = Some(running.counts);
    });
    match (failed, soak) {
        (Ok(()), Some(counts)) => {
            println!(
                "soak of the {rig} from {name}: {:.2} years, {} firings, the latest by {} ticks; {} multiples of 2^36 \
                 crossed under load, {} of 2^42, {} of 2^48, {} of 2^54, {} of 2^60; {:.1} s",
                f64_of(end - start) / f64_of(TICKS_A_YEAR),
                counts.fired,
                counts.latest,
                counts.crossed[6],
                counts.crossed[7],
                counts.crossed[8],
                counts.crossed[9],
                counts.crossed[10],
                began.elapsed().as_secs_f64(),
            );
            true
        }
        (Err(said), _) => {
            println!("soak of the {rig} from {name} FAILED: {said}");
            false
        }
        (Ok(()), None) => unreachable!("it ran to its end"),
    }
}

#[allow(clippy::cast_precision_loss)] // It is printed with three digits.
fn f64_of(ticks: u64) -> f64 {
    ticks as f64
}

#[derive(Default)]
struct Counts {
    fired: u64,
    latest: u64,
    /// For each power of 64, how many of its multiples were crossed during a burst.
    crossed: [u64; 12],
}

struct Soak<R> {
    rig: R,
    random: Random,
    end: u64,
    /// The deadline of each armed timer. First the short timers, then the two `BESIDE`, then two for each level.
    deadlines: Vec<Option<u64>>,
    fired: Vec<(usize, u64)>,
    counts: Counts,
}

impl<R: Rig> Soak<R> {
    fn new(rig: R, start: u64, end: u64) -> Self {
        let timers = BURST + BESIDE + 2 * LEVELS as usize;
        let mut soak = Soak {
            rig,
            random: Random::new(start),
            end,
            deadlines: vec![None; timers],
            fired: Vec::new(),
            counts: Counts::default(),
        };
        assert_eq!(soak.rig.now(), start);
        (BURST + BESIDE..timers).for_each(|timer| soak.arm_far(timer));
        soak
    }

    fn run(&mut self, stride: u32) {
        loop {
            let now = self.rig.now();
            let Some(next) = (now >> stride).checked_add(1).and_then(|slot| slot.checked_mul(1 << stride)) else {
                break;
            };
            if next >= self.end {
                break;
            }
            // Stop between a tick and half a second before it.
            let before = next - 1 - self.random.up_to_bits(29);
            self.quietly(before.max(now));
            let power = (next.trailing_zeros() / DIGIT).min(LEVELS);
            let after = next.saturating_add(self.random.up_to_bits(29)).min(self.end);
            self.burst(next, after, 16 << (3 * (power - FAR)));
        }
        self.quietly(self.end - (1 << 20).min(self.end - self.rig.now()));
        self.burst(self.end, self.end, 10_000);
        while self.rig.now() < self.end {
            self.step(self.end, false);
        }
        // Only timers with deadlines past the end may be left.
        let forgotten = self.deadlines.iter().flatten().find(|&&deadline| deadline <= self.end);
        assert_eq!(forgotten, None, "lost");
    }

    /// Lets time pass with far timers only.
    fn quietly(&mut self, until: u64) {
        while self.rig.now() < until {
            self.step(until, false);
        }
    }

    /// A burst around the tick `over`, with `firings` before it and as many after it. Then the short timers are not
    /// armed again.
    fn burst(&mut self, over: u64, until: u64, firings: u64) {
        let count = if firings > 16 { BURST } else { FEW };
        (0..count).for_each(|timer| self.arm_short(timer, over));
        (BURST + BESIDE..self.deadlines.len()).for_each(|timer| self.arm_near(timer, over));
        for (part, limit) in [over, until.max(over)].into_iter().enumerate() {
            let end = self.counts.fired + firings;
            while self.rig.now() < limit && self.counts.fired < end {
                self.step(limit, true);
            }
            if part == 0 {
                (0..BESIDE).for_each(|after| self.arm_beside(after, over));
                while self.rig.now() < over {
                    self.step(over, false);
                }
                self.count_crossing(over);
                (0..count).for_each(|timer| self.arm_short(timer, over));
            }
        }
        while self.deadlines[..BURST + BESIDE].iter().flatten().any(|&deadline| deadline <= self.end)
            && self.rig.now() < self.end
        {
            self.step(self.end, false);
        }
    }

    fn count_crossing(&mut self, at: u64) {
        let waits = self.deadlines[..BURST + BESIDE].iter().any(Option::is_some);
        assert!(waits || at == self.end, "no short timer is armed");
        for (power, crossed) in self.counts.crossed.iter_mut().enumerate() {
            let below = DIGIT as usize * power;
            *crossed += u64::from(below < 64 && at % (1 << below) == 0);
        }
    }

    fn arm(&mut self, timer: usize, deadline: u64) {
        assert!(self.deadlines[timer].replace(deadline).is_none());
        self.rig.arm(timer, deadline);
    }

    /// The deadline is between a tick and a second away, and occasionally at or next to the tick `over`.
    fn arm_short(&mut self, timer: usize, over: u64) {
        if self.deadlines[timer].is_some() {
            return;
        }
        let now = self.rig.now();
        let deadline = match self.random.below(16) {
            0 => (over - 1).saturating_add(self.random.below(3)).max(now.saturating_add(1)),
            _ => now.saturating_add(1 + self.random.up_to_bits(30)),
        };
        if deadline > now {
            self.arm(timer, deadline);
        }
    }

    /// Arms one of the two at the tick `over`, or the other a tick later.
    fn arm_beside(&mut self, after: usize, over: u64) {
        let (timer, deadline) = (BURST + after, over.saturating_add(after as u64));
        if deadline > self.rig.now() && self.deadlines[timer].is_none() {
            self.arm(timer, deadline);
        }
    }

    /// The number of bits of a tick within a slot of a far timer's level.
    fn below(timer: usize) -> u32 {
        DIGIT * (1 + u32::try_from((timer - BURST - BESIDE) / 2).expect("there are few"))
    }

    /// Arms a timer of a high level at the end of the level's current slot, or at the start of the next.
    fn arm_far(&mut self, timer: usize) {
        let (now, below) = (self.rig.now(), Self::below(timer));
        let last = now | ((1 << below) - 1);
        let deadline = if timer % 2 == 0 && last > now { last } else { last.saturating_add(1) };
        // At the end of time there is no next slot.
        if below >= DIGIT * FAR && deadline > now {
            self.arm(timer, deadline);
        }
    }

    /// Arms a timer of a low level less than a slot's length before the tick `over`, or at the end of the slot that
    /// begins there.
    fn arm_near(&mut self, timer: usize, over: u64) {
        let (now, below) = (self.rig.now(), Self::below(timer));
        let within = self.random.below(1 << below);
        let deadline = if timer % 2 == 0 {
            over.saturating_sub(1 + within)
        } else {
            over.saturating_add((1 << below) - within % 2)
        };
        if below < DIGIT * FAR && deadline > now && self.deadlines[timer].is_none() {
            self.arm(timer, deadline);
        }
    }

    /// Lets the next timers fire. Arms far timers again, and short ones too if `goes_on`.
    fn step(&mut self, limit: u64, goes_on: bool) {
        let before = self.rig.now();
        let mut fired = std::mem::take(&mut self.fired);
        self.rig.advance(limit, &mut fired);
        let now = self.rig.now();
        assert!(before <= now && now <= limit, "time moved from {before} to {now}, with the limit {limit}");
        assert!(!fired.is_empty() || now == limit, "time stopped at {now}");
        for (timer, at) in fired.drain(..) {
            let Some(deadline) = self.deadlines[timer].take() else { panic!("timer {timer} fired twice") };
            assert!(deadline <= at, "timer {timer} is early: fired at {at}, due at {deadline}");
            assert!(at - deadline <= 1, "timer {timer} is late: fired at {at}, due at {deadline}");
            self.counts.fired += 1;
            self.counts.latest = self.counts.latest.max(at - deadline);
            if timer >= BURST + BESIDE {
                self.arm_far(timer);
            } else if timer < BURST && goes_on {
                self.arm_short(timer, limit);
            }
        }
        self.fired = fired;
    }
}
