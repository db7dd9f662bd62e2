//! Numbers, rounded as a reader wants them.

pub(crate) fn whole(number: f64) -> String {
    format!("{number:.0}")
}

/// Two digits, or all of those before the point.
pub(crate) fn two_digits(number: f64) -> String {
    let decimals = match number.abs() {
        ..0.995 => 2,
        ..9.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

/// Two digits, then zeros: 8,900.
pub(crate) fn about(number: f64) -> String {
    let digits = whole(number).len().min(18);
    let zeros = i32::try_from(digits.saturating_sub(2)).unwrap_or(0);
    let unit = 10_f64.powi(zeros);
    thousands(&whole((number / unit).round() * unit))
}

fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_what_matters() {
        assert_eq!([76.65, 1168.56, 11.4].map(whole), ["77", "1169", "11"]);
        let ratios = [0.066, 0.994, 0.996, 2.26, 9.04, 9.96, 11.18, 113.0].map(two_digits);
        assert_eq!(ratios, ["0.07", "0.99", "1.0", "2.3", "9.0", "10", "11", "113"]);
        let abouts = [7.0, 12.0, 176.0, 8_891.0, 8_958.0, 999_900.0, 1_234_567.0].map(about);
        assert_eq!(abouts, ["7", "12", "180", "8,900", "9,000", "1,000,000", "1,200,000"]);
    }
}
