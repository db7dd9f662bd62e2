//! Numbers and times as they are shown.

use std::time::Duration;

/// With commas between the thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut words = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            words.push(',');
        }
        words.push(digit);
    }
    words
}

/// Each unit in which a time is shown, in seconds.
const UNITS: [(f64, &str); 8] = [
    (365.25 * 86_400.0, "years"),
    (86_400.0, "days"),
    (3_600.0, "h"),
    (60.0, "min"),
    (1.0, "s"),
    (1e-3, "ms"),
    (1e-6, "µs"),
    (1e-9, "ns"),
];

/// With three digits at most, in the unit that fits.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    // A hundred seconds read better than 1.67 minutes, and so on.
    let enough = |&(unit, _): &(f64, &str)| seconds >= if unit > 1.0 { 2.0 * unit } else { 0.9995 * unit };
    let (unit, name) = UNITS.into_iter().find(enough).unwrap_or((1e-9, "ns"));
    let number = seconds / unit;
    let digits = match number {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    let mut words = format!("{number:.digits$}");
    if words.contains('.') {
        words.truncate(words.trim_end_matches('0').trim_end_matches('.').len());
    }
    format!("{words} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let shown = [0, 999, 1_000, 123_456, 1_234_567].map(count);
        assert_eq!(shown, ["0", "999", "1,000", "123,456", "1,234,567"]);
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        for (nanos, words) in [
            (0, "0 ns"),
            (64, "64 ns"),
            (4_096, "4.1 µs"),
            (16_777_216, "16.8 ms"),
            (999_999_999, "1 s"),
            (1_073_741_824, "1.07 s"),
            (68_719_476_736, "68.7 s"),
            (100_000_000_000, "100 s"),
            (4_398_046_511_104, "73.3 min"),
            (281_474_976_710_656, "3.26 days"),
            (1_152_921_504_606_846_976, "36.5 years"),
        ] {
            assert_eq!(time(Duration::from_nanos(nanos)), words);
        }
    }
}
