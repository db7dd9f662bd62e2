//! Numbers and sentences as a reader wants them.

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
    let unit = 10_f64.powf((number.log10().floor() - 1.0).max(0.0));
    tools::thousands(((number / unit).round() * unit) as u64)
}

/// A table of Markdown's.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cell = |cell: &String| if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") };
        format!("|{}", cells.iter().map(cell).collect::<String>())
    };
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let lines = [line(&head), format!("|{}", "---|".repeat(head.len()))];
    lines.into_iter().chain(rows.iter().map(|row| line(row))).collect::<Vec<_>>().join("\n")
}

/// A table below what it shows.
pub(crate) fn captioned(caption: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    format!("{}\n\n{}", fill(caption), table(head, rows))
}

/// In lines of the width that the documents have.
pub(crate) fn fill(sentences: &str) -> String {
    const WIDTH: usize = 120;
    let mut lines = vec![String::new()];
    for word in sentences.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= WIDTH {
            last.extend([" ", word]);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
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

    #[test]
    fn lines_are_as_wide_as_they_may_be() {
        let text = fill(&"µµµµ ".repeat(30));
        assert_eq!(text.lines().map(|line| line.chars().count()).collect::<Vec<_>>(), [119, 29]);
        let rows = [vec!["a".to_owned(), String::new(), "1".to_owned()]];
        assert_eq!(table(&["", "b", "c"], &rows), "| | b | c |\n|---|---|---|\n| a | | 1 |");
    }
}
