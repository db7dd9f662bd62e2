//! What the viewer sets: how many sleeps there are, how long, and what happens to them.

use std::time::Duration;

/// How many sleeps there are on each step.
const POPULATIONS: [usize; 7] = [0, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
/// How long the longest sleep is on each step, in milliseconds.
const LONGEST_MS: [u64; 8] = [10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
/// The shortest is that part of the longest.
const SHORTEST: u32 = 100;
/// The share that is cancelled on each step, in per cent.
const CANCELLED: [u8; 4] = [0, 50, 90, 99];

/// How many sleeps fall due in one tick when the viewer asks for a burst.
pub(crate) const BURST: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    population: usize,
    longest: usize,
    cancelled: usize,
    pub(crate) is_paused: bool,
    /// How many bursts were asked for so far.
    pub(crate) bursts: u32,
    /// How many times it was asked for all to be reset.
    pub(crate) storms: u32,
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    More,
    Fewer,
    Longer,
    Shorter,
    CancelMore,
    CancelLess,
    Burst,
    ResetAll,
    Pause,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { population: 4, longest: 4, cancelled: 1, is_paused: false, bursts: 0, storms: 0 }
    }
}

impl Settings {
    pub(crate) fn change(&mut self, change: Change) {
        match change {
            Change::More => self.population = (self.population + 1).min(POPULATIONS.len() - 1),
            Change::Fewer => self.population = self.population.saturating_sub(1),
            Change::Longer => self.longest = (self.longest + 1).min(LONGEST_MS.len() - 1),
            Change::Shorter => self.longest = self.longest.saturating_sub(1),
            Change::CancelMore => self.cancelled = (self.cancelled + 1).min(CANCELLED.len() - 1),
            Change::CancelLess => self.cancelled = self.cancelled.saturating_sub(1),
            Change::Burst => self.bursts += 1,
            Change::ResetAll => self.storms += 1,
            Change::Pause => self.is_paused = !self.is_paused,
        }
    }

    pub(crate) fn population(&self) -> usize {
        POPULATIONS[self.population]
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_millis(LONGEST_MS[self.longest])
    }

    pub(crate) fn shortest(&self) -> Duration {
        self.longest() / SHORTEST
    }

    /// A length between the shortest and the longest, as often in each decade; `share` is from 0 to 1.
    pub(crate) fn length_at(&self, share: f64) -> Duration {
        self.longest().div_f64(f64::from(SHORTEST).powf(share))
    }

    /// The share of the sleeps that is cancelled, in per cent.
    pub(crate) fn cancelled(&self) -> u8 {
        CANCELLED[self.cancelled]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_at_both_ends() {
        let mut settings = Settings::default();
        for _ in 0..20 {
            for change in [Change::More, Change::Longer, Change::CancelMore] {
                settings.change(change);
            }
        }
        assert_eq!((settings.population(), settings.cancelled()), (1_000_000, 99));
        assert_eq!(settings.longest(), Duration::from_secs(100_000));
        for _ in 0..20 {
            for change in [Change::Fewer, Change::Shorter, Change::CancelLess] {
                settings.change(change);
            }
        }
        assert_eq!((settings.population(), settings.cancelled()), (0, 0));
        assert_eq!(settings.shortest(), Duration::from_micros(100));
    }

    #[test]
    fn lengths_go_from_the_shortest_to_the_longest() {
        let settings = Settings::default();
        assert_eq!(settings.length_at(0.0), settings.longest());
        assert_eq!(settings.length_at(1.0), settings.shortest());
        assert_eq!(settings.length_at(0.5), settings.longest() / 10);
    }
}
