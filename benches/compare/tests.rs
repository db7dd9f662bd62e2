//! Tests of what `cargo bench` takes and prints.

mod figures;
mod options;

use options::{HELP, Options};

fn parse(line: &str) -> Result<Option<Options>, String> {
    Options::parse(line.split_whitespace().map(str::to_owned))
}

fn options(line: &str) -> Options {
    parse(line).unwrap().expect("not help")
}

#[test]
fn rows_are_chosen_by_words_and_made_short() {
    let all = options("--bench");
    assert!(all.words.is_empty() && !all.is_test);
    assert_eq!(
        options("DelayQueue touch --bench"),
        Options { words: ["delayqueue", "touch"].map(str::to_owned).into(), ..all.clone() }
    );
    let quick = options("touch --entries 7 --quick --bench");
    assert_eq!((quick.words.len(), quick.entries), (1, 7));
    assert!(quick.rounds < all.rounds && quick.turn < all.turn && quick.window < all.window);
    assert_eq!(options("--bench --quick --entries=7 touch"), quick);
}

#[test]
fn what_cargo_test_passes_is_for_other_tests() {
    let test = options("--test-threads 1 --skip word --help");
    assert!(test.is_test && test.rounds == 1 && test.words.is_empty());
}

#[test]
fn help_is_printed_and_names_all_options() {
    assert_eq!([parse("--bench --help"), parse("-h --bench")], [Ok(None), Ok(None)]);
    assert!(["WORD", "--quick", "--entries N", "--help"].iter().all(|option| HELP.contains(option)));
}

#[test]
fn a_wrong_argument_is_named() {
    let number = |value| format!("`--entries` takes a number from 1 to 1000000, not `{value}`");
    for (line, message) in [
        ("--bench --fast", "there is no option `--fast`".to_owned()),
        ("--bench --quick=yes", "there is no option `--quick=yes`".to_owned()),
        ("--bench --entries", number("")),
        ("--bench --entries many", number("many")),
        ("--bench --entries=0", number("0")),
        ("--bench --entries=1000001", number("1000001")),
    ] {
        assert_eq!(parse(line), Err(message));
    }
}

#[test]
fn a_row_has_medians_and_the_range_of_the_ratios_within_a_round() {
    let row = figures::row("a row", &[50.0, 100.0, 6_000.0], &[100.0, 80.0, 4_000.0]);
    assert_eq!(row.split_whitespace().collect::<Vec<_>>().join(" "), "a row 100 ns 100 ns 1.25 0.50..1.50");
    let place = |text: &str, word: &str| text.find(word).unwrap() + word.len();
    assert_eq!(place(&row, "100 ns"), place(&figures::heading(), "hairspring"));
    let in_order = (0..=1_000).map(f64::from).collect::<Vec<_>>();
    assert_eq!(
        [0, 50, 99, 100].map(|percent| figures::percentile(&in_order, percent).to_string()),
        ["0", "500", "990", "1000"]
    );
    assert!(figures::percentile(&[], 50).is_nan());
    assert!(figures::row("", &[12.34], &[12_345_678.0]).contains(" 12.3 ns   12.35 ms    0.00 "));
}
