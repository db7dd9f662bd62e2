//! The units of the wheel: [`Tick`], a point in time, and [`Ticks`], a length.

use std::fmt;
use std::ops::{Add, Sub};

/// A point in time, in ticks since an origin.
///
/// The user of a [`Wheel`](super::Wheel) chooses the origin and the length of a tick. Sums saturate at [`Tick::MAX`],
/// and differences at zero. A `Tick` converts from and into a `u64`, the number of ticks since the origin.
///
/// # Examples
///
/// ```
/// use hairspring::wheel::{Tick, Ticks};
/// assert_eq!(Tick::from(5) + Ticks::from(3), Tick::from(8));
/// assert_eq!(Tick::from(8) - Tick::from(5), Ticks::from(3));
/// assert_eq!(Tick::MAX + Ticks::from(1), Tick::MAX);
/// assert_eq!((u64::from(Tick::from(5)), Tick::from(5).to_string()), (5, "5".to_owned()));
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub(crate) u64);

/// A number of ticks: the distance between two [`Tick`]s. It converts from and into a `u64`.
///
/// # Examples
///
/// ```
/// use hairspring::wheel::{Tick, Ticks};
/// assert_eq!(Tick::from(3) - Tick::from(10), Ticks::from(0), "a distance saturates to zero");
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub(crate) u64);

impl Tick {
    /// The origin.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Ticks};
    /// assert_eq!(Tick::ZERO + Ticks::from(3), Tick::from(3));
    /// ```
    pub const ZERO: Tick = Tick(0);
    /// The last tick, at which sums saturate.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Ticks};
    /// assert_eq!(Tick::MAX + Ticks::from(1), Tick::MAX);
    /// ```
    pub const MAX: Tick = Tick(u64::MAX);

    /// The first multiple of `length` at or after this tick, or the last tick if there is none. `length` must not be
    /// zero.
    #[cold] // Rare, and a division.
    pub(crate) fn next_multiple_of(self, length: Ticks) -> Tick {
        self.0.checked_next_multiple_of(length.0).map_or(Tick::MAX, Tick)
    }
}

impl Ticks {
    pub(crate) const ONE: Ticks = Ticks(1);
}

impl Add<Ticks> for Tick {
    type Output = Tick;

    fn add(self, ticks: Ticks) -> Tick {
        Tick(self.0.saturating_add(ticks.0))
    }
}

impl Sub for Tick {
    type Output = Ticks;

    fn sub(self, earlier: Tick) -> Ticks {
        Ticks(self.0.saturating_sub(earlier.0))
    }
}

macro_rules! number {
    ($type:ident) => {
        impl From<u64> for $type {
            fn from(number: u64) -> Self {
                $type(number)
            }
        }

        impl From<$type> for u64 {
            fn from(ticks: $type) -> u64 {
                ticks.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(Tick);
number!(Ticks);
