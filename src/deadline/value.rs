//! [`Deadline`]: an instant with a name and an origin.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::clock::Instant;

/// The instant by which something has to be done, or never. A value to be passed on explicitly: to each call that
/// shares the budget, and to each task that is spawned for it.
///
/// A deadline knows its [name](Deadline::named) and the line that set it. So the error of [`limit`](Deadline::limit)
/// says which deadline has passed, however many there are. Two deadlines are equal if they have the same instant,
/// name and line.
///
/// ```
/// use hairspring::{Deadline, Duration};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let request = Deadline::after(Duration::from_millis(5)).named("request");
/// let error = request.limit(std::future::pending::<()>()).await.unwrap_err();
/// assert_eq!(error.name(), Some("request"));
/// assert!(request.has_passed());
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deadline {
    /// `None` for never.
    at: Option<Instant>,
    name: Option<&'static str>,
    set_at: &'static Location<'static>,
}

impl Deadline {
    /// The deadline that never passes.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// assert!(!Deadline::NEVER.has_passed());
    /// assert_eq!(Deadline::NEVER.remaining(), Duration::MAX);
    /// ```
    pub const NEVER: Deadline = Deadline { at: None, name: None, set_at: Location::caller() };

    /// Returns the deadline `duration` from now. A duration of more than 500 years is treated as 500 years. With a zero
    /// duration, the deadline has already passed.
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
        Deadline::at(Instant::now().deadline_after(duration))
    }

    /// Returns the deadline at `instant`, which may have passed.
    ///
    /// ```
    /// use hairspring::{Deadline, Instant};
    /// let now = Instant::now();
    /// assert_eq!(Deadline::at(now).instant(), Some(now));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn at(instant: Instant) -> Deadline {
        Deadline { at: Some(instant), name: None, set_at: Location::caller() }
    }

    /// Gives the deadline a name, which errors show.
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

    /// Returns the name.
    ///
    /// ```
    /// assert_eq!(hairspring::Deadline::NEVER.name(), None);
    /// ```
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        self.name
    }

    /// Returns the line that called [`after`](Deadline::after), [`at`](Deadline::at) or
    /// [`from_grpc_timeout`](Deadline::from_grpc_timeout). For [`NEVER`](Deadline::NEVER), it is a line of this crate.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// assert_eq!(Deadline::after(Duration::ZERO).set_at().file(), file!());
    /// ```
    #[must_use]
    pub const fn set_at(self) -> &'static Location<'static> {
        self.set_at
    }

    /// Returns the earlier of the two, with its name. Returns this one if they are at the same instant.
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
        match (self.at, other.at) {
            (None, Some(_)) => other,
            (Some(mine), Some(others)) if others < mine => other,
            _ => self,
        }
    }

    /// Returns how long it is until the deadline: zero if it has passed, [`Duration::MAX`] for
    /// [`NEVER`](Deadline::NEVER).
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
    /// ```
    /// use hairspring::{Deadline, Instant};
    /// assert!(Deadline::at(Instant::now()).has_passed());
    /// ```
    #[must_use]
    pub fn has_passed(self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// Returns the instant, or `None` for [`NEVER`](Deadline::NEVER).
    ///
    /// ```
    /// assert_eq!(hairspring::Deadline::NEVER.instant(), None);
    /// ```
    #[must_use]
    pub const fn instant(self) -> Option<Instant> {
        self.at
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Deadline");
        match self.at {
            Some(_) => shown.field("remaining", &self.remaining()),
            None => shown.field("remaining", &"never"),
        };
        shown.field("name", &self.name).field("set_at", &format_args!("{}", self.set_at)).finish()
    }
}
