//! [`Place`]: where a sleep waits, or what it keeps once it has completed, in 24 bytes.
//
// Invariants
// 1. Flags are never zero, which tells the variants of a place apart: so a sleep has 40 bytes.
// 2. What keeps a waker has completed, and stays so until it lets go.

use std::mem;
use std::num::NonZeroU32;
use std::task::Waker;

use crate::clock::source;
use crate::core::epoch::Epoch;
use crate::core::shard::{Key, Shard};

pub(super) enum Place {
    Timer {
        /// The shard of the timer that this waits on, last waited on, or was created on.
        shard: Option<&'static Shard>,
        /// The entry in that shard, while this waits.
        key: Key,
        flags: Flags,
    },
    /// It has completed, and keeps the waker of its last poll: after a reset it waits for that task, as tokio's does.
    Kept(Kept),
}

pub(super) enum Kept {
    /// Of a sleep that finds a timer when it is reset.
    Waker(Waker),
    /// Of one on a chosen timer, or while a test controls a clock.
    WithTimer(Box<(Waker, Option<&'static Shard>, Flags)>),
}

/// The kind of item that a sleep belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(unreachable_pub)] // Rust 1.85 does not see that the methods of `Delay` name it.
pub enum ItemKind {
    Sleep,
    Timeout,
    Interval,
    /// The timer of the first entry.
    DelayQueue,
    /// The timer of the first entry.
    DeadlineMap,
}

/// The rest of the state in one word, which keeps a sleep at 40 bytes. From the lowest bits up: the epoch of its timer,
/// the [`ItemKind`] of its owner, and the marks below.
#[derive(Clone, Copy)]
pub(super) struct Flags(NonZeroU32);

impl Flags {
    pub(super) const EPOCH: u32 = (1 << Epoch::BITS) - 1;
    pub(super) const KIND: u32 = 7 << Epoch::BITS;
    /// Whether this last waited in a runtime that was ending, for an entry that may come before its deadline.
    pub(super) const ENDING: u32 = 1 << 27;
    pub(super) const CHOSEN: u32 = 1 << 29;
    pub(super) const STAGE: u32 = Flags::WAITING | Flags::DONE;

    /// Stage: not registered.
    pub(super) const IDLE: u32 = 0;
    /// Stage: registered with the timer, with the waker of the last poll.
    pub(super) const WAITING: u32 = 1 << 30;
    /// Stage: completed by a poll, or reset to a time that a turn has reached.
    pub(super) const DONE: u32 = 1 << 31;

    /// Always set.
    const ANY: NonZeroU32 = NonZeroU32::new(1 << 28).unwrap();

    #[inline]
    pub(super) fn of(bits: u32) -> Flags {
        Flags(Flags::ANY | bits)
    }

    #[inline]
    pub(super) fn epoch(self) -> Epoch {
        Epoch(self.0.get() & Flags::EPOCH)
    }

    pub(super) fn kind(self) -> ItemKind {
        match (self.0.get() & Flags::KIND) >> Epoch::BITS {
            0 => ItemKind::Sleep,
            1 => ItemKind::Timeout,
            2 => ItemKind::Interval,
            3 => ItemKind::DelayQueue,
            _ => ItemKind::DeadlineMap,
        }
    }

    #[inline]
    pub(super) fn has(self, mark: u32) -> bool {
        self.0.get() & mark != 0
    }

    #[inline]
    pub(super) fn with(self, mask: u32, value: u32) -> Flags {
        Flags::of(self.0.get() & !mask | value)
    }
}

impl Place {
    #[inline]
    pub(super) fn flags(&self) -> Flags {
        match self {
            Place::Timer { flags, .. } => *flags,
            Place::Kept(kept) => kept.flags(),
        }
    }

    /// Changes the masked bits. What keeps a waker has completed, and stays so.
    #[inline]
    pub(super) fn set_flags(&mut self, mask: u32, value: u32) {
        if let Place::Timer { flags, .. } = self {
            *flags = flags.with(mask, value);
        }
    }

    /// Changes the place, and the masked bits.
    #[inline]
    pub(super) fn set(&mut self, at: Option<&'static Shard>, entry: Key, mask: u32, value: u32) {
        if let Place::Timer { shard, key, flags } = self {
            (*shard, *key, *flags) = (at, entry, flags.with(mask, value));
        }
    }

    #[inline]
    pub(super) fn shard(&self) -> Option<&'static Shard> {
        match self {
            Place::Timer { shard, .. } => *shard,
            Place::Kept(kept) => kept.shard(),
        }
    }

    /// Keeps the waker of the poll that has completed this, until the next reset.
    pub(super) fn keep(&mut self, waker: &Waker) {
        match self {
            Place::Timer { shard, flags, .. } => {
                let (shard, flags, waker) = (*shard, *flags, waker.clone());
                let has_timer = flags.has(Flags::CHOSEN) || source::any_is_held();
                *self = Place::Kept(if has_timer {
                    Kept::WithTimer(Box::new((waker, shard, flags)))
                } else {
                    Kept::Waker(waker)
                });
            }
            Place::Kept(Kept::Waker(kept)) => kept.clone_from(waker),
            Place::Kept(Kept::WithTimer(kept)) => kept.0.clone_from(waker),
        }
    }

    /// Takes out the waker that this keeps.
    pub(super) fn let_go(&mut self) -> Option<Waker> {
        if let Place::Timer { .. } = self {
            return None;
        }
        let completed = Place::Timer { shard: self.shard(), key: Key::numbered(0), flags: self.flags() };
        match mem::replace(self, completed) {
            Place::Timer { .. } => None,
            Place::Kept(Kept::Waker(waker)) => Some(waker),
            Place::Kept(Kept::WithTimer(kept)) => Some(kept.0),
        }
    }
}

impl Kept {
    #[cold]
    fn flags(&self) -> Flags {
        match self {
            Kept::Waker(_) => Flags::of(Flags::DONE),
            Kept::WithTimer(kept) => kept.2,
        }
    }

    #[cold]
    fn shard(&self) -> Option<&'static Shard> {
        match self {
            Kept::Waker(_) => None,
            Kept::WithTimer(kept) => kept.1,
        }
    }
}
