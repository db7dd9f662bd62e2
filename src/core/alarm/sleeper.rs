//! [`Sleeper`]: how the alarm thread sleeps, and how others change when it wakes.
//!
//! On Linux it reads a `timerfd` of its own. A booking sets that, which takes one system call and does not wake the
//! thread: most bookings only put off the check whether a driver has turned. Elsewhere, and if the system refuses the
//! `timerfd`, it waits on a condition variable, and is notified if it would sleep too long.
//
// Invariants
// 1. The `timerfd` is set only under the lock, to the instant at which the thread has to wake.

use std::sync::PoisonError;
use std::time::Instant;

use crate::util::sync::{Condvar, MutexGuard};

pub(super) struct Sleeper {
    changed: Condvar,
    #[cfg(target_os = "linux")]
    clock: Option<clock::Clock>,
}

impl Sleeper {
    pub(super) fn new() -> Self {
        Sleeper {
            changed: Condvar::new(),
            // Loom has to see the wait of a model.
            #[cfg(target_os = "linux")]
            clock: if cfg!(hairspring_loom) { None } else { clock::Clock::new() },
        }
    }

    /// Unlocks, and sleeps until an instant, or for ever if that is `None`. May return early.
    pub(super) fn sleep<'a, T>(
        &self,
        lock: impl FnOnce() -> MutexGuard<'a, T>,
        guard: MutexGuard<'a, T>,
        until: Option<Instant>,
        now: Instant,
    ) -> MutexGuard<'a, T> {
        #[cfg(target_os = "linux")]
        if let Some(clock) = &self.clock {
            clock.set(until, now);
            drop(guard);
            clock.wait();
            return lock();
        }
        let _ = lock;
        match until {
            None => self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let waited = self.changed.wait_timeout(guard, until.duration_since(now));
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Makes the sleeping thread wake at another instant. The lock is held. Returns `false` if it has to be notified.
    pub(super) fn set(&self, until: Option<Instant>) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(clock) = &self.clock {
            clock.set(until, Instant::now());
            return true;
        }
        let _ = until;
        false
    }

    /// Wakes a thread that sleeps on the condition variable.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Wakes all threads, to see whether they are still needed. The lock is held.
    pub(super) fn wake_all(&self) {
        #[cfg(target_os = "linux")]
        if let Some(clock) = &self.clock {
            let now = Instant::now();
            clock.set(Some(now), now);
        }
        self.changed.notify_all();
    }
}

#[cfg(target_os = "linux")]
mod clock {
    use std::os::fd::OwnedFd;
    use std::time::Instant;

    use rustix::io::read;
    use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

    use crate::core::alarm::timerfd;

    pub(super) struct Clock(OwnedFd);

    impl Clock {
        /// `None` if the system refuses it.
        pub(super) fn new() -> Option<Clock> {
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).ok().map(Clock)
        }

        pub(super) fn set(&self, until: Option<Instant>, now: Instant) {
            timerfd::set(&self.0, until, now).expect("the clock and the time are valid");
        }

        /// Returns when the time has come, or a signal has.
        pub(super) fn wait(&self) {
            let mut expirations = [0; 8];
            let _ = read(&self.0, &mut expirations);
        }
    }
}
