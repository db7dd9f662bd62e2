//! The arguments of the attribute.

use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, ExprLit, Ident, Lit, Path, Result, Token};

const ALLOWED: &str = "allowed: `workers`, `limit`, `patience`, `grace`, `seed`, `crate`";

const DURATION: &str = "a number of seconds, such as 0.5, or a string with a unit, such as \"500ms\"; the units are ns, us, \
    ms, s, m, h, d";

#[derive(Default)]
pub(crate) struct Settings {
    /// The names of the arguments so far.
    names: Vec<String>,
    /// Calls of the bubble's methods.
    calls: TokenStream,
    hairspring: Option<Path>,
}

impl Settings {
    pub(crate) fn calls(&self) -> &TokenStream {
        &self.calls
    }

    /// The path of the crate hairspring.
    pub(crate) fn hairspring(&self) -> TokenStream {
        self.hairspring.as_ref().map_or_else(|| quote!(::hairspring), ToTokens::to_token_stream)
    }

    fn take(&mut self, input: ParseStream<'_>) -> Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error(format!("expected an argument, as in `workers = 2`; {ALLOWED}")));
        }
        let name = Ident::parse_any(input)?;
        let setting = name.to_string();
        let what = match &*setting {
            "workers" => "a whole number from 1 on",
            "seed" => "a whole number from 0 to 18446744073709551615",
            "limit" | "patience" | "grace" => DURATION,
            "crate" => "a path in a string, as in \"my::hairspring\"",
            _ => return Err(unknown(&name)),
        };
        if self.names.contains(&setting) {
            return Err(Error::new_spanned(name, format!("`{setting}` is set twice")));
        }
        self.names.push(setting.clone());
        if input.parse::<Option<Token![=]>>()?.is_none() || input.is_empty() {
            return Err(Error::new_spanned(name, format!("`{setting}` has no value: after a `=`, write {what}")));
        }
        let value: Expr = input.parse()?;
        self.set(&name, &value).ok_or_else(|| Error::new_spanned(value, format!("`{setting}` is {what}")))
    }

    /// Returns `None` if the value is wrong.
    fn set(&mut self, name: &Ident, value: &Expr) -> Option<()> {
        let literal = literal(value)?;
        let argument = match &*name.to_string() {
            "workers" => integer::<usize>(literal).filter(|workers| *workers > 0)?.to_token_stream(),
            "seed" => integer::<u64>(literal)?.to_token_stream(),
            "crate" => {
                let Lit::Str(path) = literal else { return None };
                self.hairspring = Some(path.parse().ok()?);
                return Some(());
            }
            _ => {
                let (seconds, nanos) = duration(literal)?;
                quote!(::core::time::Duration::new(#seconds, #nanos))
            }
        };
        self.calls.extend(quote!(.#name(#argument)));
        Some(())
    }
}

impl Parse for Settings {
    /// Goes on after an argument that is wrong, to tell all errors at once.
    fn parse(input: ParseStream<'_>) -> Result<Settings> {
        let (mut settings, mut errors) = (Settings::default(), None::<Error>);
        while !input.is_empty() {
            if let Err(error) = settings.take(input).and_then(|()| ends(input)) {
                match &mut errors {
                    Some(errors) => errors.combine(error),
                    None => errors = Some(error),
                }
                while !input.is_empty() && !input.peek(Token![,]) {
                    input.parse::<TokenTree>()?;
                }
            }
            input.parse::<Option<Token![,]>>()?;
        }
        errors.map_or(Ok(settings), Err)
    }
}

/// Whether an argument ends here.
fn ends(input: ParseStream<'_>) -> Result<()> {
    if input.is_empty() || input.peek(Token![,]) { Ok(()) } else { Err(input.error("expected `,`")) }
}

fn unknown(name: &Ident) -> Error {
    let instead = match &*name.to_string() {
        // Arguments of `#[tokio::test]`.
        "flavor" | "worker_threads" => "; a number of `workers` makes the runtime multi-threaded",
        "start_paused" => "; the clock is always paused",
        _ => "",
    };
    Error::new_spanned(name, format!("there is no argument `{name}`{instead}; {ALLOWED}"))
}

/// A macro may hand it over in an invisible group.
fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        Expr::Group(group) => literal(&group.expr),
        _ => None,
    }
}

fn integer<N: FromStr>(literal: &Lit) -> Option<N> {
    match literal {
        Lit::Int(number) if number.suffix().is_empty() => number.base10_digits().parse().ok(),
        _ => None,
    }
}

/// Seconds and nanoseconds.
fn duration(literal: &Lit) -> Option<(u64, u32)> {
    match literal {
        Lit::Int(number) if number.suffix().is_empty() => in_units(number.base10_digits(), "s"),
        Lit::Float(number) if number.suffix().is_empty() => in_units(number.base10_digits(), "s"),
        Lit::Str(text) => {
            let text = text.value();
            let (number, unit) = text.split_at(text.find(|c: char| c != '.' && !c.is_ascii_digit())?);
            in_units(number, unit.trim_start())
        }
        _ => None,
    }
}

/// The duration that a decimal number of units is, if that is exact.
fn in_units(number: &str, unit: &str) -> Option<(u64, u32)> {
    const SECOND: u128 = 1_000_000_000;
    let nanos = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => 86_400 * SECOND,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{whole}{part}").parse().ok()?;
    let parts = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let nanos = digits.checked_mul(nanos)?;
    let (nanos, rest) = (nanos / parts, nanos % parts);
    let seconds = u64::try_from(nanos / SECOND).ok().filter(|_| rest == 0)?;
    Some((seconds, u32::try_from(nanos % SECOND).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a value is in seconds and nanoseconds.
    fn parsed(value: &str) -> Option<(u64, u32)> {
        duration(&syn::parse_str(value).unwrap())
    }

    #[test]
    fn a_duration_is_a_number_of_seconds_or_a_string_with_a_unit() {
        for (value, seconds, nanos) in [
            ("0", 0, 0),
            ("5", 5, 0),
            ("3_600", 3_600, 0),
            ("0.5", 0, 500_000_000),
            ("2.000000001", 2, 1),
            ("18446744073709551615.999999999", u64::MAX, 999_999_999),
            (r#""7ns""#, 0, 7),
            (r#""7us""#, 0, 7_000),
            (r#""7µs""#, 0, 7_000),
            (r#""500ms""#, 0, 500_000_000),
            (r#""5s""#, 5, 0),
            (r#""10 m""#, 600, 0),
            (r#""1.5h""#, 5_400, 0),
            (r#""2d""#, 172_800, 0),
        ] {
            assert_eq!(parsed(value), Some((seconds, nanos)), "{value}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for value in [
            "5s",
            "0.5f64",
            "1e3",
            "0.0000000001",
            "18446744073709551616",
            "'5'",
            "true",
            r#""""#,
            r#""5""#,
            r#""s""#,
            r#"".s""#,
            r#""1.5ns""#,
            r#""1.2.3s""#,
            r#""-5s""#,
            r#""+5s""#,
            r#""5 hours""#,
            r#""1h30m""#,
            r#""340282366920938463463374607431768211456ns""#,
        ] {
            assert_eq!(parsed(value), None, "{value}");
        }
    }
}
