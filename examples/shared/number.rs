//! Reading a number from the arguments of an example. Each that does so takes this file in by its path.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

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
