//! The levels of the wheel, one line each: 64 slots and the hand.

use std::ops::RangeInclusive;
use std::time::Duration;

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use crate::readings::Readings;

pub(crate) const OCCUPIED: Style = Style::new().fg(Color::Cyan);
pub(crate) const LATELY: Style = Style::new().fg(Color::Blue);
pub(crate) const HAND: Style = Style::new().fg(Color::Yellow);
const EMPTY: Style = Style::new().fg(Color::DarkGray);

pub(crate) const LIT: &str = "▊";
const UNLIT: &str = "·";

/// Lower levels have slots of less than 4 µs and change too fast to see. The load uses no higher ones.
pub(crate) const LEVELS: RangeInclusive<usize> = 2..=7;
/// Each level is one base-64 digit of the tick.
const DIGIT: usize = 6;
const SLOTS: u64 = 1 << DIGIT;

/// From the coarsest level to the finest.
pub(crate) fn lines(readings: &Readings) -> impl Iterator<Item = Line<'static>> {
    LEVELS.rev().map(|level| line(level, readings))
}

fn line(level: usize, readings: &Readings) -> Line<'static> {
    let metrics = readings.latest();
    let (occupied, lately) = (metrics.occupancy()[level], readings.lately_occupied(level));
    let hand = metrics.elapsed().0 >> (DIGIT * level) & (SLOTS - 1);
    let slot_lasts = Duration::from_nanos(1 << (DIGIT * level));
    let mut spans = vec![Span::raw(format!("{level:>4}{:>11} ", in_words(slot_lasts)))];
    spans.extend((0..SLOTS).map(|slot| {
        let is_in = |slots: u64| slots >> slot & 1 == 1;
        match () {
            () if slot == hand => Span::styled(LIT, HAND),
            () if is_in(occupied) => Span::styled(LIT, OCCUPIED),
            () if is_in(lately) => Span::styled(LIT, LATELY),
            () => Span::styled(UNLIT, EMPTY),
        }
    }));
    Line::from(spans)
}

/// At most three digits, in the unit that fits.
pub(crate) fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let units = [(3_600.0, "h"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds >= 0.9995 * unit).unwrap_or((1e-9, "ns"));
    let number = seconds / unit;
    let decimals = usize::from(number < 99.95);
    format!("{} {name}", format!("{number:.decimals$}").trim_end_matches(".0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        let times = [0, 64, 4_096, 16_777_216, 999_999_999, 100_000_000_000, 4_398_046_511_104];
        let words = ["0 ns", "64 ns", "4.1 µs", "16.8 ms", "1 s", "100 s", "1.2 h"];
        assert_eq!(times.map(|nanos| in_words(Duration::from_nanos(nanos))), words);
    }
}
