//! [`Sleeper`]: how the alarm thread sleeps, and how others change when it wakes.
//!
//! On Linux it polls a `timerfd` of its own. A booking sets that, which takes one system call and does not wake the
//! thread: most bookings only put off the check whether a driver has turned. Elsewhere, and if the system refuses the
//! `timerfd`, it waits on a condition variable, and is notified if it would sleep too long. So does another thread in its
//! place once the program has closed the file.
//!
//! Windows ends such a wait on a tick that comes every 15.6 ms, but times a `thread::sleep` by itself. So the wait there
//! ends before that tick can come too late, and the thread sleeps the rest in slices, after each of which it looks.
//!
//! Once something waits for a clock that jumps, it also waits on a second `timerfd`, which never expires: Linux cancels
//! it when the wall clock is set, and when the machine wakes up.
//
// Invariants
// 1. The `timerfd` is set only under the lock, to the instant at which the thread has to wake.
// 2. A thread that cannot be woken sleeps for `SLICE` at most.
// 3. After `watch_for_jumps`, no jump is missed: one that comes while nobody sleeps ends the next sleep.
// 4. Once the `timerfd` is lost it is not used again. Whoever finds that returns `Changed::Lost` or `Ended::Jumped`.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::util::sync::{Condvar, MODELLED, MutexGuard};

/// How late a wait on a condition variable may end: Windows rounds it up to whole milliseconds, and then to its tick.
const LATE: Duration = Duration::from_millis(if cfg!(windows) { 17 } else { 0 });

/// How long a booking may be overlooked.
const SLICE: Duration = Duration::from_millis(1);

/// The longest wait. Windows takes one of 50 days to be for ever.
const LONGEST: Duration = Duration::from_secs(86_400);

pub(super) struct Sleeper {
    changed: Condvar,
    /// How late a wait for `changed` may end.
    late: Duration,
    #[cfg(target_os = "linux")]
    clock: Option<clock::Clock>,
}

/// How a sleep has ended.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))] // Others have no `timerfd`.
pub(super) enum Ended {
    /// For whatever reason.
    Plainly,
    /// A clock has jumped, or may have, unnoticed.
    Jumped,
    /// The `timerfd` was found to be lost meanwhile.
    Lost,
}

/// What came of changing when the thread wakes.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))] // Others have no `timerfd`.
pub(super) enum Changed {
    Done,
    /// It has to be notified.
    ToNotify,
    /// It cannot be woken: it waits for a file that the program has closed.
    Lost,
}

impl Sleeper {
    pub(super) fn new() -> Self {
        Sleeper {
            changed: Condvar::new(),
            late: LATE,
            // Loom has to see the wait of a model.
            #[cfg(target_os = "linux")]
            clock: if MODELLED { None } else { clock::Clock::new() },
        }
    }

    /// Unlocks, and sleeps until an instant, or for ever if that is `None`. May return early.
    pub(super) fn sleep<'a, T>(
        &self,
        lock: impl FnOnce() -> MutexGuard<'a, T>,
        guard: MutexGuard<'a, T>,
        until: Option<Instant>,
        now: Instant,
    ) -> (MutexGuard<'a, T>, Ended) {
        #[cfg(target_os = "linux")]
        if let Some(clock) = self.clock() {
            if !clock.set(until, now) {
                return (guard, Ended::Jumped);
            }
            drop(guard);
            let jumped = clock.wait(until.map(|until| until.duration_since(now)));
            let guard = lock();
            let ended = match jumped {
                _ if clock.is_lost() => Ended::Lost,
                true => {
                    clock.watch_again();
                    Ended::Jumped
                }
                false => Ended::Plainly,
            };
            return (guard, ended);
        }
        let guard = match until.map(|until| Step::first(until.duration_since(now), self.late)) {
            None => self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(Step::Wait(time)) => self.changed.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0,
            Some(Step::Sleep(time)) => {
                drop(guard);
                std::thread::sleep(time);
                lock()
            }
        };
        (guard, Ended::Plainly)
    }

    /// From the next sleep on, a jump of a clock ends the sleep. Returns `false` if the system does not tell of jumps.
    pub(super) fn watch_for_jumps(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.clock().is_some_and(clock::Clock::watch_for_jumps);
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    /// Does what a jump does: ends the sleep, or the next one.
    #[cfg(all(test, target_os = "linux", not(hairspring_loom)))]
    pub(super) fn jump(&self) {
        self.clock.as_ref().expect("the system has one").jump();
    }

    /// Makes the sleeping thread wake at another instant. The lock is held.
    pub(super) fn set(&self, until: Option<Instant>) -> Changed {
        #[cfg(target_os = "linux")]
        if let Some(clock) = self.clock() {
            return if clock.set(until, Instant::now()) { Changed::Done } else { Changed::Lost };
        }
        let _ = until;
        Changed::ToNotify
    }

    #[cfg(target_os = "linux")]
    fn clock(&self) -> Option<&clock::Clock> {
        self.clock.as_ref().filter(|clock| !clock.is_lost())
    }

    /// Wakes a thread that sleeps on the condition variable.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }
}

/// What a thread does next that has to wake at an instant and has no `timerfd`.
#[derive(Debug)]
enum Step {
    /// It waits on the condition variable.
    Wait(Duration),
    /// It sleeps, and cannot be woken.
    Sleep(Duration),
}

impl Step {
    /// The first step if a time is left, and a wait may end late.
    fn first(left: Duration, late: Duration) -> Step {
        match left.checked_sub(late) {
            None | Some(Duration::ZERO) => Step::Sleep(left.min(SLICE)),
            Some(time) => Step::Wait(time.min(LONGEST)),
        }
    }
}

#[cfg(target_os = "linux")]
mod clock {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;
    use rustix::time::{TimerfdClockId, TimerfdTimerFlags, Timespec};

    use super::LONGEST;
    use crate::core::alarm::timerfd::Timerfd;

    /// When a wait that should have ended does so all the same: the program may have given the file's number to another
    /// just before the wait began.
    const OVERDUE: Duration = Duration::from_secs(1);

    pub(super) struct Clock {
        wake: Timerfd,
        /// Cancelled at each jump of a clock. Made when first wanted; `None` if the system refused it.
        jumps: OnceLock<Option<Timerfd>>,
        /// Whether the program has closed a file of these. Changed under the lock.
        is_lost: AtomicBool,
    }

    impl Clock {
        /// `None` if the system refuses it.
        pub(super) fn new() -> Option<Clock> {
            let wake = Timerfd::new(TimerfdClockId::Monotonic).ok()?;
            Some(Clock { wake, jumps: OnceLock::new(), is_lost: AtomicBool::new(false) })
        }

        pub(super) fn is_lost(&self) -> bool {
            self.is_lost.load(SeqCst)
        }

        /// Returns `false` if it is lost.
        pub(super) fn set(&self, until: Option<Instant>, now: Instant) -> bool {
            let is_set = self.wake.set(until, now).is_ok();
            if !is_set {
                self.is_lost.store(true, SeqCst);
            }
            is_set
        }

        fn jumps(&self) -> Option<&Timerfd> {
            self.jumps.get().and_then(Option::as_ref)
        }

        pub(super) fn watch_for_jumps(&self) -> bool {
            self.jumps.get_or_init(|| Timerfd::new(TimerfdClockId::Realtime).ok().filter(watch)).is_some()
        }

        #[cfg(all(test, not(hairspring_loom)))]
        pub(super) fn jump(&self) {
            let now = Instant::now();
            self.jumps().expect("it watches").set(Some(now), now).expect("it is open");
        }

        /// Waits for the next jump, and forgets the last.
        pub(super) fn watch_again(&self) {
            if !self.jumps().is_some_and(watch) {
                self.is_lost.store(true, SeqCst);
            }
        }

        /// Returns when the time has come, or a signal or a jump has, and whether that was a jump. It should come after
        /// `left`.
        pub(super) fn wait(&self, left: Option<Duration>) -> bool {
            let limit = left.and_then(|left| Timespec::try_from((left + OVERDUE).min(LONGEST)).ok());
            let wake = PollFd::new(&self.wake, PollFlags::IN);
            let Some(jumps) = self.jumps() else {
                let _ = poll(&mut [wake], limit.as_ref());
                return false;
            };
            let mut fds = [wake, PollFd::new(jumps, PollFlags::IN)];
            // An error, if the file was closed, is found as it is set again.
            poll(&mut fds, limit.as_ref()).is_ok() && !fds[1].revents().is_empty()
        }
    }

    /// Makes it expire when the kernel's time ends, and be cancelled when a clock jumps. Returns `false` if it is lost.
    fn watch(jumps: &Timerfd) -> bool {
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        // If a clock has jumped, it is set all the same, and reports that.
        matches!(jumps.set_time(flags, Timespec { tv_sec: i64::MAX, tv_nsec: 0 }), Ok(()) | Err(Errno::CANCELED))
    }
}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// When a step of Windows ends that begins at `now`: a wait at the next tick, once its whole milliseconds are over.
    fn end_of(step: &Step, now: Duration) -> Duration {
        const TICK: u128 = 15_625_000;
        match step {
            Step::Sleep(time) => now + *time,
            Step::Wait(time) => {
                let whole = Duration::from_millis(time.as_nanos().div_ceil(1_000_000).try_into().unwrap());
                Duration::from_nanos(((now + whole).as_nanos().div_ceil(TICK) * TICK).try_into().unwrap())
            }
        }
    }

    #[test]
    fn a_coarse_wait_ends_on_time_to_the_nanosecond_and_never_takes_50_days() {
        let day = Duration::from_secs(86_400);
        let short = (0..200_000).step_by(97).map(Duration::from_micros);
        for length in short.chain([1, 49, 50, 51, 400].map(|days| days * day + Duration::from_nanos(7))) {
            for start in [0, 1, 7_812_500, 15_624_999].map(Duration::from_nanos) {
                let (until, mut now, mut steps) = (start + length, start, 0);
                while now < until {
                    let step = Step::first(until.saturating_sub(now), Duration::from_millis(17));
                    assert!(!matches!(step, Step::Wait(time) if time > day), "{step:?} for {length:?}");
                    now = end_of(&step, now);
                    steps += 1;
                }
                assert_eq!(now, until, "{length:?} from {start:?}");
                assert!(steps <= 20 + length.as_secs() / 86_400, "{steps} steps for {length:?}");
            }
        }
    }

    #[test]
    fn a_wait_that_ends_on_time_is_not_sliced() {
        let left = Duration::from_millis(5);
        assert!(matches!(Step::first(left, Duration::ZERO), Step::Wait(time) if time == left));
    }

    /// Nobody notifies it: a booking made while it sleeps is seen after the slice.
    #[test]
    fn a_thread_that_cannot_be_woken_looks_after_each_slice() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let sleeper = Sleeper {
            late: 2 * HOUR,
            #[cfg(target_os = "linux")]
            clock: None,
            ..Sleeper::new()
        };
        let booked = Mutex::new(false);
        std::thread::scope(|scope| {
            let mut guard = booked.lock().unwrap();
            scope.spawn(|| *booked.lock().unwrap() = true);
            while !*guard {
                let now = Instant::now();
                (guard, _) = sleeper.sleep(|| booked.lock().unwrap(), guard, Some(now + HOUR), now);
            }
        });
    }
}
