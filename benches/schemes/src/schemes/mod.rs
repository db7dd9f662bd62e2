//! The contenders, all behind [`Scheme`].
//!
//! Schemes 1 to 7 are those of G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), in that
//! order. All but the tree keep their timers in [`lists`], so that what differs between them is the scheme alone.

mod hierarchical;
mod lists;
mod ours;
mod simple_wheel;
mod sorted;
mod tree;
mod unsorted;

pub(crate) use hairspring::wheel::Wheel;
pub(crate) use hierarchical::{Hierarchical, LEVELS};
pub(crate) use simple_wheel::SimpleWheel;
pub(crate) use tree::Tree;

pub(crate) type Unordered = unsorted::Unsorted<1>;
pub(crate) type Ordered = sorted::Sorted<1>;
pub(crate) type HashedSorted = sorted::Sorted<SLOTS>;
pub(crate) type HashedUnsorted = unsorted::Unsorted<SLOTS>;

/// The slots of each hashed wheel, and of all levels of the hierarchical one together: the same memory for the three.
pub(crate) const SLOTS: u32 = 256;

/// A timer module as the paper describes it. Time is counted in ticks and moves by [`per_tick`](Scheme::per_tick) only.
pub(crate) trait Scheme {
    const NAME: &'static str;
    /// The longest interval it can take.
    const LONGEST: u32 = u32::MAX;
    /// Names an outstanding timer.
    type Handle: Copy;

    fn new() -> Self;

    /// `START_TIMER`: after `interval` more ticks, which is at least one, `id` will be handed out.
    fn start(&mut self, interval: u32, id: u32) -> Self::Handle;

    /// `STOP_TIMER`: the timer must be outstanding. Only our own wheel would notice if it were not.
    fn stop(&mut self, handle: Self::Handle);

    /// `PER_TICK_BOOKKEEPING`: one tick passes; every timer that expires goes to `fired`.
    fn per_tick(&mut self, fired: &mut impl FnMut(u32));

    /// How often a timer was touched without firing: looked at or counted down (scheme 6), moved down a level (scheme 7
    /// and ours). The others do not count; only these three are in the check of the paper's rule.
    fn touched(&self) -> u64 {
        0
    }
}
