//! [`PerProcess`]: a static that has a value of its own in each forked process.
//!
//! A forked process has the memory of its parent, but only one of its threads. The other threads do not run in it, and
//! a lock that one of them held stays locked. So it needs values of its own.
//!
//! The C library tells of a fork, through a handler that it calls in the child (`pthread_atfork`). So to ask takes no
//! system call, and a process that has the number of a dead ancestor is not taken for that. A process made without the C
//! library's `fork`, by a bare system call or `_Fork`, is not recognised.

use std::sync::OnceLock;

use forkguard::Guard;

pub(crate) struct PerProcess<T: 'static> {
    first: OnceLock<Of<T>>,
}

struct Of<T: 'static> {
    /// Says whether this is a descendant of the process that made the value.
    made_in: Guard,
    value: T,
    child: OnceLock<&'static Of<T>>,
}

impl<T> Of<T> {
    fn new(value: T) -> Self {
        Of { made_in: Guard::default(), value, child: OnceLock::new() }
    }
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        PerProcess { first: OnceLock::new() }
    }

    /// The value of this process. The first call makes it, from the value of the last ancestor that has one. If two threads
    /// make one at the same time, one of them is kept.
    pub(crate) fn get(&'static self, make: impl Fn(Option<&'static T>) -> T) -> &'static T {
        // Made before the cell is locked: if this process is forked meanwhile, the lock stays locked in the child.
        let mut of = self.first.get().unwrap_or_else(|| {
            let first = Of::new(make(None));
            self.first.get_or_init(|| first)
        });
        while of.made_in.clone().detected_fork() {
            of = of.child.get().copied().unwrap_or_else(|| {
                let child = Box::leak(Box::new(Of::new(make(Some(&of.value)))));
                of.child.get_or_init(|| child)
            });
        }
        &of.value
    }
}

/// A number that no ancestor of this process had.
pub(crate) fn generation() -> u32 {
    static GENERATION: PerProcess<u32> = PerProcess::new();
    *GENERATION.get(|ancestors| ancestors.map_or(0, |number| number + 1))
}
