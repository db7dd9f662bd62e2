//! The text of gRPC's header `grpc-timeout`: how much time remains, as clocks of two machines do not agree on instants.

use std::time::Duration;
use std::{error, fmt};

use crate::deadline::Deadline;

/// The units, from the finest, with their lengths.
const UNITS: [(char, Duration); 6] = [
    ('n', Duration::from_nanos(1)),
    ('u', Duration::from_micros(1)),
    ('m', Duration::from_millis(1)),
    ('S', Duration::from_secs(1)),
    ('M', Duration::from_secs(60)),
    ('H', Duration::from_secs(3_600)),
];

/// The most digits that the format has, and the largest number of so many.
const DIGITS: usize = 8;
const MOST: u128 = 99_999_999;

impl Deadline {
    /// Returns the time that remains as the text of gRPC's header `grpc-timeout`: at most 8 digits and a unit.
    ///
    /// It is rounded down, in the finest unit that is long enough, so the peer does not wait longer than this side. The
    /// format has no zero: the text of a deadline that has passed is `1n`, a nanosecond. The format has no "never"
    /// either: the text for [`NEVER`](Deadline::NEVER) is the longest, `99999999H`. Omit the header instead.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let text = Deadline::after(Duration::from_secs(5)).to_grpc_timeout();
    /// assert!(text.ends_with('u') && text.starts_with("49"), "{text}");
    /// assert_eq!(Deadline::after(Duration::ZERO).to_grpc_timeout(), "1n");
    /// assert_eq!(Deadline::NEVER.to_grpc_timeout(), "99999999H");
    /// ```
    #[must_use]
    pub fn to_grpc_timeout(self) -> String {
        let remaining = self.remaining().as_nanos().max(1);
        let counts = UNITS.map(|(unit, length)| (remaining / length.as_nanos(), unit));
        let (count, unit) = counts.into_iter().find(|(count, _)| *count <= MOST).unwrap_or((MOST, 'H'));
        format!("{count}{unit}")
    }

    /// Returns the deadline that a header `grpc-timeout` sets, counted from now.
    ///
    /// The text is 1 to 8 digits and one of the units `H`, `M`, `S`, `m`, `u` and `n`: hours, minutes, seconds,
    /// milliseconds, microseconds and nanoseconds. Zero, which the format does not have, is accepted, and has passed.
    /// More than 500 years are treated as 500 years.
    ///
    /// # Errors
    /// If the text is anything else.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let deadline = Deadline::from_grpc_timeout("5S").unwrap().named("grpc-timeout");
    /// assert!(deadline.remaining() <= Duration::from_secs(5));
    /// let error = Deadline::from_grpc_timeout("5s").unwrap_err();
    /// assert!(error.to_string().starts_with("\"5s\" is no grpc-timeout"));
    /// ```
    #[track_caller]
    pub fn from_grpc_timeout(text: &str) -> Result<Deadline, GrpcTimeoutError> {
        let length = length_of(text).ok_or_else(|| GrpcTimeoutError { text: text.to_owned() })?;
        Ok(Deadline::after(length))
    }
}

fn length_of(text: &str) -> Option<Duration> {
    let (digits, unit) = UNITS.iter().find_map(|(unit, length)| Some((text.strip_suffix(*unit)?, length)))?;
    // `parse` takes a sign as well.
    let is_number = digits.len() <= DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse::<u32>().ok())?.map(|count| *unit * count)
}

/// The error of [`Deadline::from_grpc_timeout`]: the text is not that of a timeout.
///
/// ```
/// use hairspring::Deadline;
/// let error = Deadline::from_grpc_timeout("soon").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#""soon" is no grpc-timeout; allowed: 1 to 8 digits, then one of H, M, S, m, u, n"#
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcTimeoutError {
    text: String,
}

impl fmt::Display for GrpcTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no grpc-timeout; allowed: 1 to {DIGITS} digits, then one of H, M, S, m, u, n", self.text)
    }
}

impl error::Error for GrpcTimeoutError {}
