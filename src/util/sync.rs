//! The locks, atomics and statics that threads share: the standard library's, or in tests with `--cfg hairspring_loom`
//! those of [loom](https://docs.rs/loom), which runs a model in every possible order.
//
// Invariants
// 1. Without that flag these are the standard library's, with nothing added. If the processor has no 64-bit atomics,
//    `portable-atomic` replaces them.
// 2. In tests with it, nothing outlives a run of a model: what is otherwise kept for ever is kept until the run ends.
// 3. Outside of tests the flag changes nothing: loom is there only for tests, so that no user's lock file names it.

/// An `AtomicU64` that loom does not see. It may be in a static.
#[cfg(not(target_has_atomic = "64"))]
pub(crate) use portable_atomic::AtomicU64 as Counter;
#[cfg(target_has_atomic = "64")]
pub(crate) use std::sync::atomic::AtomicU64 as Counter;

#[cfg(all(test, hairspring_loom))]
pub(crate) use modelled::*;
#[cfg(not(all(test, hairspring_loom)))]
pub(crate) use plain::*;

/// Whether loom runs this.
pub(crate) const MODELLED: bool = cfg!(all(test, hairspring_loom));

#[cfg(not(all(test, hairspring_loom)))]
mod plain {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    use std::time::Instant;

    pub(crate) mod atomic {
        pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

        pub(crate) use crate::util::sync::Counter as AtomicU64;
    }

    /// Lets other threads run.
    pub(crate) fn yield_now() {
        std::thread::yield_now();
    }

    /// The system's clock.
    #[inline]
    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    /// Defines a function that returns a static. A forked process has its own, made by the first call, from the
    /// parent's if there is one.
    macro_rules! per_process {
        ($(#[$about:meta])* $vis:vis fn $name:ident() -> &'static $of:ty = $make:expr;) => {
            $(#[$about])*
            $vis fn $name() -> &'static $of {
                static VALUE: $crate::util::per_process::PerProcess<$of> = $crate::util::per_process::PerProcess::new();
                VALUE.get($make)
            }
        };
    }

    /// A value that is never freed.
    macro_rules! keep {
        ($of:ty, $value:expr) => {{
            let kept: &'static $of = Box::leak(Box::new($value));
            kept
        }};
    }

    pub(crate) use {keep, per_process};
}

#[cfg(all(test, hairspring_loom))]
mod modelled {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;
    use std::cell::Cell;
    use std::sync::{LazyLock, OnceLock};
    use std::time::{Duration, Instant};

    pub(crate) mod atomic {
        use std::ops::Deref;
        pub(crate) use std::sync::atomic::Ordering;

        /// Loom lets a load see an atomic's initial value after another was stored, even if all accesses are
        /// sequentially consistent. So the initial value is stored once more.
        macro_rules! atomic {
            ($name:ident of $value:ty) => {
                #[derive(Debug)]
                pub(crate) struct $name(loom::sync::atomic::$name);

                impl $name {
                    pub(crate) fn new(value: $value) -> Self {
                        let atomic = loom::sync::atomic::$name::new(value);
                        atomic.store(value, Ordering::SeqCst);
                        $name(atomic)
                    }
                }

                impl Deref for $name {
                    type Target = loom::sync::atomic::$name;

                    fn deref(&self) -> &Self::Target {
                        &self.0
                    }
                }
            };
        }

        atomic!(AtomicBool of bool);
        atomic!(AtomicU32 of u32);
        atomic!(AtomicU64 of u64);
        atomic!(AtomicUsize of usize);
    }

    thread_local! {
        // Loom runs all threads of a model on one of the system's.
        static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// A clock that only [`pass`] moves, so that every run goes the same way.
    pub(crate) fn now() -> Instant {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        *START + PASSED.get()
    }

    /// Lets time pass.
    pub(crate) fn pass(time: Duration) {
        PASSED.set(PASSED.get() + time);
    }

    /// Defines a function that returns a static, which each run of a model makes anew.
    macro_rules! per_process {
        ($(#[$about:meta])* $vis:vis fn $name:ident() -> &'static $of:ty = $make:expr;) => {
            $(#[$about])*
            $vis fn $name() -> &'static $of {
                loom::lazy_static! {
                    static ref VALUE: $of = {
                        let make: fn(Option<&'static $of>) -> $of = $make;
                        make(None)
                    };
                }
                &VALUE
            }
        };
    }

    /// A value that is freed when the run of the model ends.
    macro_rules! keep {
        ($of:ty, $value:expr) => {{
            loom::lazy_static! {
                static ref KEPT: $crate::util::sync::Kept<$of> = $crate::util::sync::Kept::default();
            }
            KEPT.keep($value)
        }};
    }

    pub(crate) use {keep, per_process};

    /// Room for a few values that stay where they are.
    pub(crate) struct Kept<T>([OnceLock<Box<T>>; 8]);

    impl<T> Default for Kept<T> {
        fn default() -> Self {
            Kept(Default::default())
        }
    }

    impl<T> Kept<T> {
        pub(crate) fn keep(&'static self, value: T) -> &'static T {
            let room = self.0.iter().find(|room| room.get().is_none()).expect("a model keeps few values");
            room.get_or_init(|| Box::new(value))
        }
    }
}
