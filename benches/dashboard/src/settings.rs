//! What the viewer sets: how many sleeps there are, how long, and what happens to them.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// There are no sleeps, or ten to the power of the step.
const POPULATIONS: u32 = 7;
/// The longest sleep is ten to the power of the step, in hundredths of a second.
const LONGEST: u32 = 8;
/// The shortest is that part of the longest.
const SHORTEST: u32 = 100;
/// The share that is cancelled on each step, in per cent.
const CANCELLED: [u8; 4] = [0, 50, 90, 99];

/// How many sleeps fall due in one tick when the viewer asks for a burst.
pub(crate) const BURST: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    population: u32,
    longest: u32,
    cancelled: u32,
    pub(crate) is_paused: bool,
    /// How many bursts were asked for so far.
    pub(crate) bursts: u32,
    /// How many times it was asked for all to be reset.
    pub(crate) storms: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { population: 4, longest: 4, cancelled: 1, is_paused: false, bursts: 0, storms: 0 }
    }
}

impl Settings {
    /// Does what a key asks for. Returns whether that is to quit.
    pub(crate) fn press(&mut self, key: KeyEvent) -> bool {
        let more = |step: u32, steps: u32| (step + 1).min(steps - 1);
        match key.code {
            _ if key.kind == KeyEventKind::Release => {}
            // The terminal does not turn it into a signal while keys are read one by one.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Up => self.population = more(self.population, POPULATIONS),
            KeyCode::Down => self.population = self.population.saturating_sub(1),
            KeyCode::Right => self.longest = more(self.longest, LONGEST),
            KeyCode::Left => self.longest = self.longest.saturating_sub(1),
            KeyCode::Char('c') => self.cancelled = more(self.cancelled, CANCELLED.len() as u32),
            KeyCode::Char('C') => self.cancelled = self.cancelled.saturating_sub(1),
            KeyCode::Char('b') => self.bursts += 1,
            KeyCode::Char('r') => self.storms += 1,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            _ => {}
        }
        false
    }

    pub(crate) fn population(&self) -> usize {
        if self.population == 0 { 0 } else { 10_usize.pow(self.population) }
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_millis(10 * 10_u64.pow(self.longest))
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
        CANCELLED[self.cancelled as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(settings: &mut Settings, codes: &[KeyCode], times: usize) {
        for code in codes.repeat(times) {
            assert!(!settings.press(KeyEvent::new(code, KeyModifiers::NONE)));
        }
    }

    #[test]
    fn steps_end_at_both_ends() {
        let mut settings = Settings::default();
        press(&mut settings, &[KeyCode::Up, KeyCode::Right, KeyCode::Char('c')], 20);
        assert_eq!((settings.population(), settings.cancelled()), (1_000_000, 99));
        assert_eq!(settings.longest(), Duration::from_secs(100_000));
        press(&mut settings, &[KeyCode::Down, KeyCode::Left, KeyCode::Char('C')], 20);
        assert_eq!((settings.population(), settings.cancelled()), (0, 0));
        assert_eq!(settings.shortest(), Duration::from_micros(100));
    }

    #[test]
    fn control_c_quits_and_c_cancels_more() {
        let mut settings = Settings::default();
        press(&mut settings, &[KeyCode::Char('c')], 1);
        assert_eq!(settings.cancelled(), 90);
        assert!(settings.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }

    #[test]
    fn lengths_go_from_the_shortest_to_the_longest() {
        let settings = Settings::default();
        assert_eq!(settings.length_at(0.0), settings.longest());
        assert_eq!(settings.length_at(1.0), settings.shortest());
    }
}
