//! Locks, atomics and statics: the standard library's, or in tests with `--cfg hairspring_loom`, those of
//! [loom](https://docs.rs/loom), which runs a model in every possible order.
//!
//! [`FairMutex`] can be locked repeatedly without starving waiting threads. [`PerProcess`] is a static that has its own
//! value in each forked process.
//
// Invariants
// 1. Without that flag these are the standard library's, unchanged. `portable-atomic` replaces 64-bit atomics where the
//    CPU has none.
// 2. In tests with the flag, no value outlives a run of a model.
// 3. Outside tests the flag has no effect: loom is a development dependency.
// 4. `FairMutex::waiting` is not zero while any thread is in the slow path of `lock`. Only that path writes to it.

use std::sync::{LockResult, Mutex as StdMutex, MutexGuard as StdGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use forkguard::Guard;

use self::atomic::{AtomicU32, Ordering};

/// An `AtomicU64` that loom does not track, and that can be in a static.
#[cfg(not(target_has_atomic = "64"))]
pub(crate) use portable_atomic::AtomicU64 as Counter;
#[cfg(target_has_atomic = "64")]
pub(crate) use std::sync::atomic::AtomicU64 as Counter;

#[cfg(all(test, hairspring_loom))]
pub(crate) use modelled::*;
#[cfg(not(all(test, hairspring_loom)))]
pub(crate) use plain::*;

pub(crate) const MODELLED: bool = cfg!(all(test, hairspring_loom));

#[cfg(not(all(test, hairspring_loom)))]
mod plain {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::yield_now;
    use std::time::Instant;

    pub(crate) mod atomic {
        pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

        pub(crate) use crate::util::sync::Counter as AtomicU64;
    }

    #[inline]
    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    /// Defines a function that returns a static with its own value in each forked process. The first call there creates
    /// it, from the parent's value if that exists.
    macro_rules! per_process {
        ($(#[$about:meta])* $vis:vis fn $name:ident() -> &'static $of:ty = $make:expr;) => {
            $(#[$about])*
            $vis fn $name() -> &'static $of {
                static VALUE: $crate::util::sync::PerProcess<$of> = $crate::util::sync::PerProcess::new();
                VALUE.get($make)
            }
        };
    }

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

        /// Loom lets a load see an atomic's initial value after another was stored, even with sequential consistency.
        /// Storing the initial value again prevents that.
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
        // Loom runs all threads of a model on one system thread.
        static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// A clock that only [`pass`] moves, which makes runs repeatable.
    pub(crate) fn now() -> Instant {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        *START + PASSED.get()
    }

    pub(crate) fn pass(time: Duration) {
        PASSED.set(PASSED.get() + time);
    }

    /// Defines a function that returns a static. Each run of a model creates it again.
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

    /// Keeps a value until the run of the model ends.
    macro_rules! keep {
        ($of:ty, $value:expr) => {{
            loom::lazy_static! {
                static ref KEPT: $crate::util::sync::Kept<$of> = $crate::util::sync::Kept::default();
            }
            KEPT.keep($value)
        }};
    }

    pub(crate) use {keep, per_process};

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

/// The guard of a lock, even if a thread panicked while it held the lock: whatever may panic under a lock of this crate
/// runs while the data is consistent.
#[inline]
pub(crate) fn unpoisoned<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex that loom never replaces.
#[inline]
pub(crate) fn lock<T>(mutex: &StdMutex<T>) -> StdGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// The maximum number of yields in [`FairMutex::give_way`]. Waking a thread takes tens of microseconds.
const YIELDS: u32 = 256;

/// After this time it yields no more. On a busy machine each yield may take milliseconds.
const YIELD_TIME: Duration = Duration::from_millis(1);

/// After that, how many times it does not yield: about as many as a turn locks a shard.
const SKIPS: u32 = 16;

/// A mutex that a thread can lock repeatedly without starving others.
///
/// The standard mutex goes to the first thread that asks. A thread that unlocks it and immediately locks it again
/// nearly always wins against one that has to wake up first.
#[derive(Debug)]
pub(crate) struct FairMutex<T> {
    mutex: Mutex<T>,
    waiting: AtomicU32,
    /// How many threads have locked it after a wait.
    served: AtomicU32,
    /// How often it gives way to nobody, after it did in vain: who waits may have a low priority.
    skips: AtomicU32,
}

impl<T> FairMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        let [waiting, served, skips] = [0; 3].map(AtomicU32::new);
        FairMutex { mutex: Mutex::new(value), waiting, served, skips }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = unpoisoned(self.mutex.lock());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::Relaxed);
        guard
    }

    /// Lets a waiting thread lock it. Call this before each of several lock operations in a row.
    #[inline]
    pub(crate) fn give_way(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.let_others_run(yield_now);
        }
    }

    #[cold]
    fn let_others_run(&self, yields: impl Fn()) {
        let skips = self.skips.load(Ordering::Relaxed);
        if skips > 0 {
            return self.skips.store(skips - 1, Ordering::Relaxed);
        }
        let (start, served) = (now(), self.served.load(Ordering::Relaxed));
        for _ in 0..YIELDS {
            yields();
            if self.waiting.load(Ordering::Relaxed) == 0 || self.served.load(Ordering::Relaxed) != served {
                return;
            }
            if now() - start >= YIELD_TIME {
                break;
            }
        }
        self.skips.store(SKIPS, Ordering::Relaxed);
    }
}

/// A static with its own value in each forked process.
///
/// A forked process has its parent's memory but only one of its threads, so a lock that another thread held stays
/// locked in it.
///
/// The C library reports the fork through `pthread_atfork`, which takes no system call. A process created by a bare
/// system call or `_Fork` is not recognised.
pub(crate) struct PerProcess<T: 'static> {
    first: OnceLock<Of<T>>,
}

struct Of<T: 'static> {
    /// Detects whether this process is a descendant of the one that created the value.
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

    /// The value of this process. The first call creates it, from the value of the nearest ancestor that has one.
    pub(crate) fn get(&'static self, make: impl Fn(Option<&'static T>) -> T) -> &'static T {
        // Create the value before locking the cell, which a fork in between would leave locked in the child.
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

/// A number that no ancestor of this process has.
#[inline]
pub(crate) fn generation() -> u32 {
    static GENERATION: PerProcess<u32> = PerProcess::new();
    *GENERATION.get(|ancestors| ancestors.map_or(0, |number| number + 1))
}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// A bug that this crate had: during a burst, registering and cancelling waited for milliseconds, because the turn
    /// took the shard's lock again immediately.
    #[test]
    fn whoever_waits_gets_it_from_one_that_takes_it_again_and_again() {
        let is_soon = || {
            let mutex = Arc::new(FairMutex::new(0));
            let held = mutex.lock();
            let waits = thread::spawn({
                let mutex = Arc::clone(&mutex);
                move || *mutex.lock() += 1
            });
            while mutex.waiting.load(Ordering::Relaxed) == 0 {
                yield_now();
            }
            drop(held);
            let holds = (0..1_000).take_while(|_| {
                mutex.give_way();
                *mutex.lock() == 0
            });
            let is_soon = holds.count() < 1_000;
            waits.join().unwrap();
            is_soon
        };
        // On a busy machine the thread may not run for long.
        assert!((0..100).any(|_| is_soon()));
    }

    /// A bug that this crate had: beside busy threads a turn gave way to a thread of low priority for 0.9 s.
    #[test]
    fn it_gives_way_to_a_thread_that_does_not_run_for_a_millisecond_and_then_seldom() {
        let mutex = FairMutex::new(());
        let yields = Cell::new(0);
        let give_way = || {
            mutex.let_others_run(|| {
                yields.set(yields.get() + 1);
                thread::sleep(YIELD_TIME);
            });
            yields.take()
        };
        mutex.waiting.store(1, Ordering::Relaxed);
        assert_eq!(give_way(), 1);
        (0..SKIPS).for_each(|_| assert_eq!(give_way(), 0));
        assert_eq!(give_way(), 1);
    }
}
