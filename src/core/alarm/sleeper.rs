//! [`Sleeper`]: how the alarm thread sleeps, and how it is made to sleep longer or shorter.
//!
//! On Linux it reads a `timerfd` of its own. Whoever books sets that, which takes one system call and wakes nobody: most
//! bookings only put off one that was made to see that a driver came. Elsewhere, and if the system refuses the `timerfd`,
//! it waits on a condition, and is woken if it would sleep too long.
//
// Invariants
// 1. The `timerfd` is set under the lock only, to when the thread is to wake.
//
// Must not know: bookings.

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
            // A model needs to see the wait.
            #[cfg(target_os = "linux")]
            clock: if cfg!(hairspring_loom) { None } else { clock::Clock::new() },
        }
    }

    /// Lets go of the lock and sleeps until an instant, or for ever; or until it is woken, or for nothing.
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

    /// Has the sleeping thread wake at another instant. The lock is held. `false` if it has to be woken for that.
    pub(super) fn set(&self, until: Option<Instant>) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(clock) = &self.clock {
            clock.set(until, Instant::now());
            return true;
        }
        let _ = until;
        false
    }

    /// Wakes a thread that sleeps on the condition.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Has all threads look whether they are still needed. The lock is held.
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
    use std::time::{Duration, Instant};

    use rustix::io::read;
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    use rustix::time::{timerfd_create, timerfd_settime};

    /// A `timerfd` takes a wait of zero for "never".
    const AT_ONCE: Duration = Duration::from_nanos(1);

    /// Sooner than any overflow of the kernel's clock. The thread looks again.
    const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

    pub(super) struct Clock(OwnedFd);

    impl Clock {
        /// `None` if the system refuses it.
        pub(super) fn new() -> Option<Clock> {
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).ok().map(Clock)
        }

        pub(super) fn set(&self, until: Option<Instant>, now: Instant) {
            let wait = until.map_or(Duration::ZERO, |until| until.duration_since(now).clamp(AT_ONCE, LONGEST));
            let it_value = Timespec {
                tv_sec: wait.as_secs().try_into().expect("ten years at most"),
                tv_nsec: wait.subsec_nanos().into(),
            };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once).expect("the clock and the time are valid");
        }

        /// Returns when the time has come, or a signal has.
        pub(super) fn wait(&self) {
            let mut expirations = [0; 8];
            let _ = read(&self.0, &mut expirations);
        }
    }
}
