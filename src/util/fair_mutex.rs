//! [`FairMutex`]: a mutex that a thread which takes it again and again leaves to others in between.
//!
//! The standard mutex goes to whoever asks first. A thread that unlocks it and locks it again at once nearly always
//! wins against one that has to wake up first, so that may wait for a long time.
//
// Invariants
// 1. `waiting` is not zero as long as somebody is in the slow path of `lock`. Nothing is written to it without a wait.

use std::sync::{PoisonError, TryLockError};

use crate::util::sync::atomic::{AtomicU32, Ordering};
use crate::util::sync::{self, Mutex, MutexGuard};

/// How many times [`FairMutex::give_way`] lets other threads run. Waking one takes some tens of microseconds.
const YIELDS: u32 = 256;

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
            sync::yield_now();
            if self.waiting.load(Ordering::Relaxed) == 0 || self.served.load(Ordering::Relaxed) != served {
                return;
            }
        }
    }
}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn whoever_waits_gets_it_from_one_that_takes_it_again_and_again() {
        let mutex = Arc::new(FairMutex::new(0));
        let held = mutex.lock();
        let waits = thread::spawn({
            let mutex = Arc::clone(&mutex);
            move || *mutex.lock() += 1
        });
        while mutex.waiting.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
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
