//! The levels of the wheel, a line each: 64 slots, the occupied ones lit, and the hand.

use std::time::Duration;

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use crate::readings::Readings;
use crate::settings::Settings;

pub(crate) const OCCUPIED: Style = Style::new().fg(Color::Cyan);
pub(crate) const LATELY: Style = Style::new().fg(Color::Blue);
pub(crate) const HAND: Style = Style::new().fg(Color::Yellow);
const EMPTY: Style = Style::new().fg(Color::DarkGray);

/// What a slot is drawn as.
pub(crate) const LIT: &str = "▊";
const UNLIT: &str = "·";

/// Bits of a tick that make a digit, and so a level.
const DIGIT: u32 = 6;
const SLOTS: u32 = 1 << DIGIT;
/// The levels below have slots of less than four microseconds: what gets there is fired before it can be seen.
const LOWEST: u32 = 2;

/// The levels that matter, the coarsest first.
pub(crate) fn lines(readings: &Readings, settings: &Settings) -> Vec<Line<'static>> {
    let lately = readings.recently_occupied();
    let highest_used = (0_u32..).zip(&lately).filter(|(_, slots)| **slots > 0).map(|(level, _)| level).max();
    let highest = highest_used.unwrap_or(0).max(level_of(settings.longest()));
    (LOWEST..=highest).rev().map(|level| line(level, readings, &lately)).collect()
}

fn line(level: u32, readings: &Readings, lately: &[u64]) -> Line<'static> {
    let metrics = readings.latest();
    let occupied = slots_of(metrics.occupancy(), level);
    let lately = slots_of(lately, level);
    let hand = metrics.elapsed().0 >> (DIGIT * level) & u64::from(SLOTS - 1);

    let mut spans = vec![Span::raw(format!("{level:>4}{:>11} ", in_words(span_of(level))))];
    spans.extend((0..SLOTS).map(|slot| {
        let is_in = |slots: u64| slots >> slot & 1 == 1;
        if u64::from(slot) == hand {
            Span::styled(LIT, HAND)
        } else if is_in(occupied) {
            Span::styled(LIT, OCCUPIED)
        } else if is_in(lately) {
            Span::styled(LIT, LATELY)
        } else {
            Span::styled(UNLIT, EMPTY)
        }
    }));
    Line::from(spans)
}

fn slots_of(levels: &[u64], level: u32) -> u64 {
    levels.get(level as usize).copied().unwrap_or(0)
}

/// With three digits at most, in the unit that fits.
pub(crate) fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let units = [(31_557_600.0, "years"), (86_400.0, "days"), (3_600.0, "h"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds >= 0.9995 * unit).unwrap_or((1e-9, "ns"));
    let number = seconds / unit;
    let decimals = usize::from(number < 99.95);
    format!("{} {name}", format!("{number:.decimals$}").trim_end_matches(".0"))
}

/// How long a slot of the level lasts.
fn span_of(level: u32) -> Duration {
    Duration::from_nanos(1 << (DIGIT * level))
}

/// The level on which a deadline so far away is, unless it is just beyond a slot of a higher one.
fn level_of(away: Duration) -> u32 {
    u64::try_from(away.as_nanos()).unwrap_or(u64::MAX).max(1).ilog2() / DIGIT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_found_by_what_its_slots_span() {
        for level in 0..10 {
            assert_eq!(level_of(span_of(level)), level);
            assert_eq!(level_of(Duration::from_nanos((1 << (DIGIT * (level + 1))) - 1)), level);
        }
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let times = [0, 64, 4_096, 16_777_216, 999_999_999, 100_000_000_000, 281_474_976_710_656];
        let words = ["0 ns", "64 ns", "4.1 µs", "16.8 ms", "1 s", "100 s", "3.3 days"];
        assert_eq!(times.map(|nanos| in_words(Duration::from_nanos(nanos))), words);
    }
}
