//! The contenders, all behind [`Scheme`].
//!
//! Schemes 1 to 7 are those of G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), in the
//! paper's order. All except the tree store their timers in [`lists`], so only the scheme itself differs.

mod hierarchical;
mod lists;
mod ours;
mod simple_wheel;
mod sorted;
mod tree;
mod unsorted;

pub(crate) use hairspring::wheel::Wheel;
pub(crate) use hierarchical::Hierarchical;
pub(crate) use simple_wheel::SimpleWheel;
pub(crate) use tree::Tree;

pub(crate) type Unordered = unsorted::Unsorted<1>;
pub(crate) type Ordered = sorted::Sorted<1>;
pub(crate) type HashedSorted = sorted::Sorted<SLOTS>;
pub(crate) type HashedUnsorted = unsorted::Unsorted<SLOTS>;

/// The number of slots in each hashed wheel, and in all levels of the hierarchical wheel together. All three use the
/// same amount of memory.
const SLOTS: u32 = 256;

/// A timer module as the paper describes it. Time is counted in ticks, and only [`per_tick`](Scheme::per_tick) moves it.
pub(crate) trait Scheme: Default {
    const NAME: &'static str;
    /// The longest interval it accepts.
    const LONGEST: u32 = u32::MAX;
    /// The largest population that can be measured in reasonable time.
    const LARGEST: u32 = u32::MAX;
    /// Names a pending timer.
    type Handle: Copy;

    /// `START_TIMER`: the timer fires after `interval` ticks, at least one.
    fn start(&mut self, interval: u32, id: u32) -> Self::Handle;

    /// `STOP_TIMER`: the timer must be pending. Only our own wheel would detect a stale handle.
    fn stop(&mut self, handle: Self::Handle);

    /// `PER_TICK_BOOKKEEPING`: moves time by one tick and passes the id of every timer that expires to `fired`.
    fn per_tick(&mut self, fired: &mut impl FnMut(u32));
}
