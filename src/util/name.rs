//! [`Name`]: what a user calls a timer.
//
// Invariants
// 1. A name is kept for good, and once, however many timers have it. So it is a number that can be copied, stored in an
//    atomic, and shown after its timer has ended.

use std::num::NonZeroU32;
use std::sync::PoisonError;

use crate::util::sync::{Mutex, per_process};

/// A name, or none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name(Option<NonZeroU32>);

per_process! {
    /// All names, by their numbers less one.
    fn names() -> &'static Mutex<Vec<&'static str>> = |parents| {
        // Another thread of the parent may have held the lock as it forked.
        let known = parents.and_then(|names| names.try_lock().ok()).map(|names| names.clone());
        Mutex::new(known.unwrap_or_default())
    };
}

impl Name {
    pub(crate) const NONE: Name = Name(None);

    pub(crate) fn of(name: &str) -> Name {
        let mut names = names().lock().unwrap_or_else(PoisonError::into_inner);
        let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(String::from(name).leak());
            names.len() - 1
        });
        Name(u32::try_from(place + 1).ok().and_then(NonZeroU32::new))
    }

    /// A name as [`number`](Name::number) returned it.
    pub(crate) fn numbered(number: u32) -> Name {
        Name(NonZeroU32::new(number))
    }

    /// Zero if there is none.
    pub(crate) fn number(self) -> u32 {
        self.0.map_or(0, NonZeroU32::get)
    }

    pub(crate) fn get(self) -> Option<&'static str> {
        let place = self.0?.get() as usize - 1;
        names().lock().unwrap_or_else(PoisonError::into_inner).get(place).copied()
    }
}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once() {
        let [one, other, again] = ["one", "other", "one"].map(Name::of);
        assert_eq!((one.get(), other.get()), (Some("one"), Some("other")));
        assert!(one == again && one != other);
        assert!(std::ptr::eq(one.get().unwrap(), again.get().unwrap()));
        assert_eq!(Name::numbered(one.number()), one);
        assert_eq!((Name::NONE.get(), Name::numbered(0).get(), Name::numbered(u32::MAX).get()), (None, None, None));
    }
}
