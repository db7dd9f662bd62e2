//! The units of the wheel: [`Tick`], a point in time, and [`Ticks`], a length.

use std::ops::{Add, Sub};

/// A point in time, in ticks since an origin.
///
/// The user of a [`Wheel`](super::Wheel) chooses the origin and the length of a tick. Sums saturate at [`Tick::MAX`],
/// and differences at zero.
///
/// # Examples
///
/// ```
/// use hairspring::wheel::{Tick, Ticks};
/// assert_eq!(Tick(5) + Ticks(3), Tick(8));
/// assert_eq!(Tick(8) - Tick(5), Ticks(3));
/// assert_eq!(Tick::MAX + Ticks(1), Tick::MAX);
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(
    /// The number of ticks since the origin.
    pub u64,
);

/// A number of ticks: the distance between two [`Tick`]s.
///
/// # Examples
///
/// ```
/// use hairspring::wheel::{Tick, Ticks};
/// assert_eq!(Tick(3) - Tick(10), Ticks(0), "a distance saturates to zero");
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(
    /// The number of ticks.
    pub u64,
);

impl Tick {
    /// The origin.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Ticks};
    /// assert_eq!(Tick::ZERO + Ticks(3), Tick(3));
    /// ```
    pub const ZERO: Tick = Tick(0);
    /// The last tick, at which sums saturate.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Ticks};
    /// assert_eq!(Tick::MAX + Ticks(1), Tick::MAX);
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
