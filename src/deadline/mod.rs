//! [`Deadline`], a time budget to pass from call to call.

pub(crate) mod delay;
pub(crate) mod ext;

use std::cmp::Ordering;
use std::future::{Future, IntoFuture};
use std::hash::{Hash, Hasher};
use std::ops::{Add, Sub};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{error, fmt, io};

use crate::clock::{self, Instant};
use crate::future::delay::Delay;
use crate::future::{Sleep, Timeout, sleep_until};
use crate::util::error::Elapsed;
use crate::wheel::Tick;
use delay::DeadlineSleep;

/// The instant by which something has to be done, or never: a time budget that several calls share.
///
/// ```
/// use hairspring::{Deadline, DeadlineExceeded, Duration};
///
/// async fn look_up(deadline: Deadline) -> Result<u8, DeadlineExceeded> {
///     deadline.min(Deadline::after(Duration::from_secs(1)).named("cache")).limit(async { 7 }).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let request = Deadline::after(Duration::from_secs(5)).named("request");
/// assert_eq!(look_up(request).await, Ok(7));
/// # }
/// ```
///
/// ```
/// use hairspring::{Deadline, Duration, timeout_at};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let request = Deadline::after(Duration::from_millis(5)).named("request");
/// let error = request.limit(std::future::pending::<()>()).await.unwrap_err();
/// assert_eq!(error.name(), Some("request"));
/// assert!(request.has_passed() && request < Deadline::NEVER);
///
/// let longer = request + Duration::from_millis(20);
/// assert_eq!(longer.to_string(), "`request`, in 20ms");
/// assert!(timeout_at(longer.into(), std::future::pending::<()>()).await.is_err());
/// # }
/// ```
///
/// Pass it explicitly, including to spawned tasks, which a task-local would not reach. A call can give its own steps
/// less time with [`min`](Deadline::min), and check [`remaining`](Deadline::remaining) before it sleeps. To pass a
/// deadline to another machine, use [`to_grpc_timeout`](Deadline::to_grpc_timeout).
///
/// A deadline knows its [name](Deadline::named) and the line that set it, so the error of [`limit`](Deadline::limit)
/// says which of several deadlines has passed. Equality, order and hash use the instant only;
/// [`NEVER`](Deadline::NEVER) is the greatest.
///
/// `deadline + duration` and `deadline - duration` are later and earlier deadlines with the same name and line. They
/// saturate, and `NEVER` stays `NEVER`.
///
/// A deadline converts from and into an [`Instant`], and from those of the standard library and of tokio. A
/// [`Duration`] becomes the deadline [`after`](Deadline::after) it. `NEVER` is the default, and becomes the last instant, which no clock reaches: a sleep that waits for it sets no alarm and moves no paused clock,
/// but counts as [pending](crate::timer::Metrics::pending).
///
/// `Display` shows the name and the remaining time, rounded down to milliseconds, such as `` `request`, in 4.999s ``,
/// `now`, `250ms ago` or `never`. It is safe to send to a client; only `Debug` shows the line.
#[derive(Clone, Copy)]
#[doc(alias = "context deadline")]
pub struct Deadline {
    /// `None` for never.
    at: Option<Instant>,
    name: Option<&'static str>,
    pub(crate) made_at: &'static Location<'static>,
}

impl Deadline {
    /// The deadline that never passes.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// assert!(!Deadline::NEVER.has_passed());
    /// assert_eq!(Deadline::NEVER.remaining(), Duration::MAX);
    /// ```
    pub const NEVER: Deadline = Deadline { at: None, name: None, made_at: Location::caller() };

    /// Returns the deadline `duration` from now, by the runtime's clock. With a zero duration, it has already
    /// passed; with one of more than 500 years, it never does.
    ///
    /// For a [`Timer`](crate::Timer) on another clock, write `Deadline::at(timer.now() + duration)`.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let deadline = Deadline::after(Duration::from_secs(5));
    /// assert!(!deadline.has_passed());
    /// assert!(Deadline::after(Duration::ZERO).has_passed());
    /// ```
    #[must_use]
    #[track_caller]
    pub fn after(duration: Duration) -> Deadline {
        Deadline::at(Instant::now() + clock::or_for_ever(duration))
    }

    /// Returns the deadline at `instant`, which may be in the past. It is never [`NEVER`](Deadline::NEVER).
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, Instant};
    /// let now = Instant::now();
    /// assert_eq!(Deadline::at(now).instant(), Some(now));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn at(instant: Instant) -> Deadline {
        Deadline { at: Some(instant), name: None, made_at: Location::caller() }
    }

    /// Names the deadline for errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let deadline = Deadline::after(Duration::from_secs(5)).named("request");
    /// assert_eq!(deadline.name(), Some("request"));
    /// ```
    #[must_use]
    pub const fn named(self, name: &'static str) -> Deadline {
        Deadline { name: Some(name), ..self }
    }

    /// Returns the name, if it has one.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(hairspring::Deadline::NEVER.name(), None);
    /// ```
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        self.name
    }

    /// Returns the earlier deadline, with its name and line, or this one if they are equal.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let request = Deadline::after(Duration::from_secs(5)).named("request");
    /// let query = Deadline::after(Duration::from_secs(60)).named("query");
    /// assert_eq!(query.min(request).name(), Some("request"));
    /// assert_eq!(Deadline::NEVER.min(query), query);
    /// ```
    #[must_use]
    pub fn min(self, other: Deadline) -> Deadline {
        if other < self { other } else { self }
    }

    /// Returns the time until the deadline: zero if it has passed, [`Duration::MAX`] for [`NEVER`](Deadline::NEVER).
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let remaining = Deadline::after(Duration::from_secs(5)).remaining();
    /// assert!(remaining <= Duration::from_secs(5));
    /// assert_eq!(Deadline::after(Duration::ZERO).remaining(), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn remaining(self) -> Duration {
        self.at.map_or(Duration::MAX, |at| at - Instant::now())
    }

    /// Returns whether the deadline has passed.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, Instant};
    /// assert!(Deadline::at(Instant::now()).has_passed());
    /// ```
    #[must_use]
    pub fn has_passed(self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// Returns whether this is [`NEVER`](Deadline::NEVER), perhaps with a name.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// assert!(Deadline::NEVER.named("request").is_never());
    /// assert!(!Deadline::after(Duration::from_secs(5)).is_never());
    /// ```
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.at.is_none()
    }

    /// Waits until this deadline, like [`sleep_until`](crate::sleep_until()). The sleep for [`NEVER`](Deadline::NEVER)
    /// never ends.
    ///
    /// Cancel safety and panics are those of [`hairspring::sleep`](crate::sleep()).
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let drained = Deadline::after(Duration::from_millis(5));
    /// drained.sleep().await;
    /// assert!(drained.has_passed());
    /// # }
    /// ```
    #[track_caller]
    pub fn sleep(self) -> Sleep {
        sleep_until(self.into())
    }

    /// Returns the instant, or `None` for [`NEVER`](Deadline::NEVER).
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(hairspring::Deadline::NEVER.instant(), None);
    /// ```
    #[must_use]
    pub const fn instant(self) -> Option<Instant> {
        self.at
    }

    /// Awaits `future` until this deadline at the latest, like [`timeout_at`](crate::timeout_at), with an error that
    /// names the deadline. [`NEVER`](Deadline::NEVER) is no limit.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let deadline = Deadline::after(Duration::from_millis(5));
    /// assert_eq!(deadline.limit(async { "done" }).await, Ok("done"));
    /// assert!(deadline.limit(std::future::pending::<()>()).await.is_err());
    /// # }
    /// ```
    ///
    /// If the future is ready, it wins, even after the deadline. If one `limit` is inside another and both deadlines
    /// have passed, the inner error is returned.
    ///
    /// # Errors
    ///
    /// Resolves to [`DeadlineExceeded`] if the deadline passes first.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future drops `future` and cancels the timer. It is as cancel safe as `future`.
    ///
    /// # Panics
    ///
    /// Polling panics as [`sleep`](crate::sleep()) does. After [`fallible`](Timeout::fallible), it returns an error
    /// instead, which does not name the deadline: if it was passed, make the error of [`DeadlineExceeded::new`] and the
    /// timeout's [`deadline`](Timeout::deadline).
    #[track_caller]
    #[doc(alias = "timeout")]
    pub fn limit<F: IntoFuture>(self, future: F) -> Timeout<F::IntoFuture, Deadline, DeadlineExceeded> {
        Timeout::new(future.into_future(), DeadlineSleep::over(self, self.sleep()))
    }
}

impl Ord for Deadline {
    fn cmp(&self, other: &Deadline) -> Ordering {
        (self.at.is_none(), self.at).cmp(&(other.at.is_none(), other.at))
    }
}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Deadline) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Deadline {
    fn eq(&self, other: &Deadline) -> bool {
        self.at == other.at
    }
}

impl Eq for Deadline {}

impl Hash for Deadline {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}

impl Add<Duration> for Deadline {
    type Output = Deadline;

    fn add(self, duration: Duration) -> Deadline {
        Deadline { at: self.at.map(|at| at + clock::or_for_ever(duration)), ..self }
    }
}

clock::add_and_sub_assign!(Deadline);

impl Sub<Duration> for Deadline {
    type Output = Deadline;

    fn sub(self, duration: Duration) -> Deadline {
        Deadline { at: self.at.map(|at| at - duration), ..self }
    }
}

impl Default for Deadline {
    /// Returns [`Deadline::NEVER`].
    fn default() -> Deadline {
        Deadline::NEVER
    }
}

impl From<Duration> for Deadline {
    /// Does the same as [`Deadline::after`].
    #[track_caller]
    fn from(duration: Duration) -> Deadline {
        Deadline::after(duration)
    }
}

impl From<Instant> for Deadline {
    /// Does the same as [`Deadline::at`].
    #[track_caller]
    fn from(instant: Instant) -> Deadline {
        Deadline::at(instant)
    }
}

impl From<std::time::Instant> for Deadline {
    /// Does the same as [`Deadline::at`].
    #[track_caller]
    fn from(instant: std::time::Instant) -> Deadline {
        Deadline::at(instant.into())
    }
}

impl From<tokio::time::Instant> for Deadline {
    /// Does the same as [`Deadline::at`].
    #[track_caller]
    fn from(instant: tokio::time::Instant) -> Deadline {
        Deadline::at(instant.into())
    }
}

impl From<Deadline> for Instant {
    fn from(deadline: Deadline) -> Instant {
        deadline.at.unwrap_or_else(|| clock::instant_of(Tick::MAX))
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |length: Duration| Duration::new(length.as_secs(), length.subsec_millis() * 1_000_000);
        let when = self.at.map(|at| {
            let now = Instant::now();
            (millis(at - now), millis(now - at))
        });
        let when = match when {
            None => "never".to_owned(),
            Some((Duration::ZERO, Duration::ZERO)) => "now".to_owned(),
            Some((remains, Duration::ZERO)) => format!("in {remains:?}"),
            Some((_, passed)) => format!("{passed:?} ago"),
        };
        match self.name {
            Some(name) => f.pad(&format!("`{name}`, {when}")),
            None => f.pad(&when),
        }
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Deadline");
        match self.at {
            Some(_) => shown.field("remaining", &self.remaining()),
            None => shown.field("remaining", &"never"),
        };
        shown.field("name", &self.name).field("location", &format_args!("{}", self.made_at)).finish()
    }
}

impl<F: Future> Future for Timeout<F, Deadline, DeadlineExceeded> {
    type Output = Result<F::Output, DeadlineExceeded>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_or(cx, |delay, slept| {
            slept.unwrap_or_else(|error| delay.panic_with(error));
            DeadlineExceeded::new(delay.deadline())
        })
    }
}

/// The error of [`Deadline::limit`]: that deadline has passed.
///
/// ```
/// use hairspring::{Deadline, DeadlineExceeded, Duration};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let request = Deadline::after(Duration::from_millis(5)).named("request");
/// let error = request.limit(std::future::pending::<()>()).await.unwrap_err();
/// assert_eq!(error, DeadlineExceeded::new(request));
/// assert_eq!(error.to_string(), "the deadline `request` has passed");
/// assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::TimedOut);
/// # }
/// ```
///
/// It converts into [`Elapsed`], and into an [`io::Error`] of kind [`TimedOut`](io::ErrorKind::TimedOut) with this as
/// the inner error. `Display` names the deadline and is safe to send to a client; only `Debug` shows the line that set
/// it.
///
/// To recognise your own deadline, compare the error with [`new`](DeadlineExceeded::new) of it. To tell deadlines at the
/// same instant apart, compare their [names](DeadlineExceeded::name).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadlineExceeded {
    deadline: Deadline,
}

impl DeadlineExceeded {
    /// Creates the error, for tests and for code that checks deadlines itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, DeadlineExceeded, Duration};
    ///
    /// fn check(deadline: Deadline) -> Result<(), DeadlineExceeded> {
    ///     if deadline.has_passed() { Err(DeadlineExceeded::new(deadline)) } else { Ok(()) }
    /// }
    ///
    /// assert!(check(Deadline::after(Duration::ZERO)).is_err());
    /// ```
    #[must_use]
    pub fn new(deadline: Deadline) -> DeadlineExceeded {
        DeadlineExceeded { deadline }
    }

    /// Returns the name of the deadline, if it has one.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, DeadlineExceeded, Duration};
    /// let error = DeadlineExceeded::new(Deadline::after(Duration::ZERO).named("query"));
    /// assert_eq!(error.name(), Some("query"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        self.deadline.name()
    }
}

impl fmt::Display for DeadlineExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "the deadline `{name}` has passed"),
            None => f.write_str("a deadline has passed"),
        }
    }
}

impl error::Error for DeadlineExceeded {}

impl From<DeadlineExceeded> for Elapsed {
    fn from(_: DeadlineExceeded) -> Elapsed {
        Elapsed::new()
    }
}

impl From<DeadlineExceeded> for io::Error {
    fn from(exceeded: DeadlineExceeded) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, exceeded)
    }
}

/// The units of gRPC's header `grpc-timeout`, shortest first.
const UNITS: [(char, Duration); 6] = [
    ('n', Duration::from_nanos(1)),
    ('u', Duration::from_micros(1)),
    ('m', Duration::from_millis(1)),
    ('S', Duration::from_secs(1)),
    ('M', Duration::from_secs(60)),
    ('H', Duration::from_secs(3_600)),
];

/// The largest number of digits in the header, and the largest number with that many digits.
const DIGITS: usize = 8;
const MAX_COUNT: u128 = 99_999_999;

impl Deadline {
    /// Returns the remaining time as the value of gRPC's header `grpc-timeout`: at most 8 digits and a unit.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let text = Deadline::after(Duration::from_secs(5)).to_grpc_timeout();
    /// assert!(text.ends_with('u') && text.starts_with("49"), "{text}");
    /// assert_eq!(Deadline::after(Duration::ZERO).to_grpc_timeout(), "1n");
    /// assert_eq!(Deadline::NEVER.to_grpc_timeout(), "99999999H");
    /// ```
    ///
    /// The value is rounded down, in the shortest unit that can express it, so the peer does not wait longer than this
    /// side. The format has no zero: a deadline that has passed gives a nanosecond, `1n`. It has no "never" either:
    /// [`NEVER`](Deadline::NEVER) gives the longest value, `99999999H`. For `NEVER`, omit the header.
    #[must_use]
    pub fn to_grpc_timeout(self) -> String {
        let remaining = self.remaining().as_nanos().max(1);
        let counts = UNITS.map(|(unit, length)| (remaining / length.as_nanos(), unit));
        let (count, unit) = counts.into_iter().find(|(count, _)| *count <= MAX_COUNT).unwrap_or((MAX_COUNT, 'H'));
        format!("{count}{unit}")
    }

    /// Returns the deadline that a header `grpc-timeout` sets, counted from now.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let deadline = Deadline::from_grpc_timeout("5S").unwrap().named("grpc-timeout");
    /// assert!(deadline.remaining() <= Duration::from_secs(5));
    /// let error = Deadline::from_grpc_timeout("5s").unwrap_err();
    /// assert!(error.to_string().starts_with("\"5s\" is not a grpc-timeout"));
    /// ```
    ///
    /// The text is 1 to 8 digits and a unit: `H`, `M`, `S`, `m`, `u` or `n` for hours, minutes, seconds, milliseconds,
    /// microseconds or nanoseconds. Zero, which gRPC does not allow, is accepted and has passed.
    ///
    /// # Errors
    ///
    /// Returns an error if the text has another form.
    #[track_caller]
    pub fn from_grpc_timeout(text: &str) -> Result<Deadline, GrpcTimeoutError> {
        let length = length_of(text).ok_or_else(|| GrpcTimeoutError { text: text.to_owned() })?;
        Ok(Deadline::after(length))
    }
}

fn length_of(text: &str) -> Option<Duration> {
    let (digits, unit) = UNITS.iter().find_map(|(unit, length)| Some((text.strip_suffix(*unit)?, length)))?;
    // `parse` also accepts a sign.
    let is_number = digits.len() <= DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse::<u32>().ok())?.map(|count| *unit * count)
}

/// The error of [`Deadline::from_grpc_timeout`]: the text is not a `grpc-timeout`.
///
/// # Examples
///
/// ```
/// use hairspring::Deadline;
/// let error = Deadline::from_grpc_timeout("soon").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#""soon" is not a grpc-timeout: expected 1 to 8 digits and one of H, M, S, m, u, n"#
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcTimeoutError {
    text: String,
}

impl fmt::Display for GrpcTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a grpc-timeout: expected 1 to {DIGITS} digits and one of H, M, S, m, u, n", self.text)
    }
}

impl error::Error for GrpcTimeoutError {}
