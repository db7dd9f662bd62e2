//! The units of the wheel: an absolute tick and a number of ticks, as types of their own.
//
// Invariants
// 1. A [`Tick`] is never used as a length and a [`Ticks`] never as a position; only the arithmetic below mixes them.
// 2. All arithmetic saturates.
//
// Knows nothing of clocks, nanoseconds or the wheel.

use std::ops::{Add, Sub};

/// An absolute position in time, counted in ticks from whatever origin the owner of a wheel has chosen.
///
/// How long a tick lasts is not the wheel's business. Sums saturate at [`Tick::MAX`].
///
/// ```
/// use hairspring::wheel::{Tick, Ticks};
/// assert_eq!(Tick(5) + Ticks(3), Tick(8));
/// assert_eq!(Tick(8) - Tick(5), Ticks(3));
/// assert_eq!(Tick::MAX + Ticks(1), Tick::MAX);
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(
    /// How many ticks after the origin.
    pub u64,
);

/// A number of ticks: the distance between two [`Tick`]s.
///
/// ```
/// use hairspring::wheel::{Tick, Ticks};
/// assert_eq!(Tick(3) - Tick(10), Ticks(0), "a distance saturates to zero");
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(
    /// How many.
    pub u64,
);

impl Tick {
    /// The first tick.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Ticks};
    /// assert_eq!(Tick::ZERO + Ticks(3), Tick(3));
    /// ```
    pub const ZERO: Tick = Tick(0);
    /// The last tick there is; deadlines further away are held here.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Ticks};
    /// assert_eq!(Tick::MAX + Ticks(1), Tick::MAX);
    /// ```
    pub const MAX: Tick = Tick(u64::MAX);

    /// The first multiple of a length at or after this, or the last tick if there is none. The length must not be zero.
    #[cold] // Rarely asked for, and a division.
    pub(crate) fn next_multiple_of(self, length: Ticks) -> Tick {
        self.0.checked_next_multiple_of(length.0).map_or(Tick::MAX, Tick)
    }
}

impl Ticks {
    /// The shortest length.
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
