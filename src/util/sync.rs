//! The locks, atomics and statics that threads share: the standard library's, or in tests with `--cfg hairspring_loom`
//! those of [loom](https://docs.rs/loom), which runs a model in every possible order.
//!
//! Besides these, [`FairMutex`]: a mutex that a thread which takes it again and again leaves to others in between. And
//! [`PerProcess`]: a static that has a value of its own in each forked process.
//
// Invariants
// 1. Without that flag these are the standard library's, with nothing added. If the processor has no 64-bit atomics,
//    `portable-atomic` replaces them.
// 2. In tests with it, nothing outlives a run of a model: what is otherwise kept for ever is kept until the run ends.
// 3. Outside of tests the flag changes nothing: loom is there only for tests, so that no user's lock file names it.
// 4. `FairMutex::waiting` is not zero as long as somebody is in the slow path of `lock`. Nothing is written to it without
//    a wait.

use std::sync::{OnceLock, PoisonError, TryLockError};

use forkguard::Guard;

use self::atomic::{AtomicU32, Ordering};

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
    pub(crate) use std::thread::yield_now;
    use std::time::Instant;

    pub(crate) mod atomic {
        pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

        pub(crate) use crate::util::sync::Counter as AtomicU64;
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
                static VALUE: $crate::util::sync::PerProcess<$of> = $crate::util::sync::PerProcess::new();
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

/// How many times [`FairMutex::give_way`] lets other threads run. Waking one takes some tens of microseconds.
const YIELDS: u32 = 256;

/// A mutex that a thread which takes it again and again leaves to others in between.
///
/// The standard mutex goes to whoever asks first. A thread that unlocks it and locks it again at once nearly always
/// wins against one that has to wake up first, so that may wait for a long time.
#[derive(Debug)]
pub(crate) struct FairMutex<T> {
    mutex: Mutex<T>,
    waiting: AtomicU32,
    /// How many have got it after a wait.
    served: AtomicU32,
}

impl<T> FairMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        FairMutex { mutex: Mutex::new(value), waiting: AtomicU32::new(0), served: AtomicU32::new(0) }
    }

    /// Locks it. A panic of another thread that had it is ignored.
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
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::Relaxed);
        guard
    }

    /// To be called before the mutex is locked again and again: lets one of those have it that wait for it.
    #[inline]
    pub(crate) fn give_way(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.let_others_run();
        }
    }

    #[cold]
    fn let_others_run(&self) {
        let served = self.served.load(Ordering::Relaxed);
        for _ in 0..YIELDS {
            yield_now();
            if self.waiting.load(Ordering::Relaxed) == 0 || self.served.load(Ordering::Relaxed) != served {
                return;
            }
        }
    }
}

/// A static that has a value of its own in each forked process.
///
/// A forked process has the memory of its parent, but only one of its threads. The other threads do not run in it, and
/// a lock that one of them held stays locked. So it needs values of its own.
///
/// The C library tells of a fork, through a handler that it calls in the child (`pthread_atfork`). So to ask takes no
/// system call, and a process that has the number of a dead ancestor is not taken for that. A process made without the
/// C library's `fork`, by a bare system call or `_Fork`, is not recognised.
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
#[inline]
pub(crate) fn generation() -> u32 {
    static GENERATION: PerProcess<u32> = PerProcess::new();
    *GENERATION.get(|ancestors| ancestors.map_or(0, |number| number + 1))
}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// A bug that this crate had: whoever registered or cancelled while a crowd fired waited for milliseconds: the turn
    /// took the shard's lock again at once.
    #[test]
    fn whoever_waits_gets_it_from_one_that_takes_it_again_and_again() {
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
        let holds = (0..100_000).take_while(|_| {
            mutex.give_way();
            *mutex.lock() == 0
        });
        assert!(holds.count() < 1_000);
        waits.join().unwrap();
    }
}
