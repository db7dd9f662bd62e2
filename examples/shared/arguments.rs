//! Reading the arguments of an example. Each that takes some includes this file by its path.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::process;
use std::str::FromStr;

/// What `parse` makes of the arguments. Ends the program with 0 if they ask for `help`, and with 2 if `parse` says that
/// something is wrong with them.
pub(crate) fn read<O>(help: &str, parse: impl FnOnce(std::vec::IntoIter<String>) -> Result<O, String>) -> O {
    // Not `args`, which panics if an argument is not valid Unicode.
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let arguments: Vec<String> = arguments.collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{help}");
        process::exit(0);
    }
    parse(arguments.into_iter()).unwrap_or_else(|problem| {
        eprintln!("error: {problem}\nSee `--help` for the options.");
        process::exit(2);
    })
}

/// The value of the option `name`, or what is wrong with it and what is allowed.
pub(crate) fn number<N>(name: &str, value: Option<String>, allowed: &RangeInclusive<N>) -> Result<N, String>
where
    N: FromStr + PartialOrd + Display,
{
    let range = format!("a whole number from {} to {}", allowed.start(), allowed.end());
    let value = value.ok_or_else(|| format!("{name} has no value; allowed: {range}"))?;
    let number = value.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("{name} cannot be `{value}`; allowed: {range}"))
}
