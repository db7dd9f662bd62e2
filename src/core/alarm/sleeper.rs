//! [`Sleeper`]: how the alarm thread sleeps, and how others change when it wakes.
//!
//! On Linux it polls a `timerfd` of its own. A booking sets that, which takes one system call and does not wake the
//! thread: most bookings only put off the check whether a driver has turned. Elsewhere, and if the system refuses the
//! `timerfd`, it waits on a condition variable, and is notified if it would sleep too long.
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
// 3. A thread that was replaced takes no wake from the one that serves: it may not run for long.
// 4. After `watch_for_jumps`, no jump is missed: one that comes while nobody sleeps ends the next sleep.

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

    /// Unlocks, and sleeps until an instant, or for ever if that is `None`. May return early. Also returns whether a
    /// clock has jumped.
    pub(super) fn sleep<'a, T>(
        &self,
        lock: impl FnOnce() -> MutexGuard<'a, T>,
        guard: MutexGuard<'a, T>,
        until: Option<Instant>,
        now: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        #[cfg(target_os = "linux")]
        if let Some(clock) = &self.clock {
            clock.set(until, now);
            drop(guard);
            let jumped = clock.wait();
            return (lock(), jumped);
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
        (guard, false)
    }

    /// From the next sleep on, a jump of a clock ends the sleep. Returns `false` if the system does not tell of jumps.
    pub(super) fn watch_for_jumps(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.clock.as_ref().is_some_and(clock::Clock::watch_for_jumps);
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    /// Does what a jump does: ends the sleep, or the next one.
    #[cfg(all(test, target_os = "linux", not(hairspring_loom)))]
    pub(super) fn jump(&self) {
        self.clock.as_ref().expect("the system has one").jump();
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
    use std::os::fd::OwnedFd;
    use std::sync::OnceLock;
    use std::time::Instant;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::{Errno, read};
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    use rustix::time::{timerfd_create, timerfd_settime};

    use crate::core::alarm::timerfd;

    pub(super) struct Clock {
        fd: OwnedFd,
        /// Cancelled at each jump of a clock. Made when first wanted; `None` if the system refused it.
        jumps: OnceLock<Option<OwnedFd>>,
    }

    impl Clock {
        /// `None` if the system refuses it.
        pub(super) fn new() -> Option<Clock> {
            let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).ok()?;
            Some(Clock { fd, jumps: OnceLock::new() })
        }

        pub(super) fn set(&self, until: Option<Instant>, now: Instant) {
            timerfd::set(&self.fd, until, now).expect("the clock and the time are valid");
        }

        pub(super) fn watch_for_jumps(&self) -> bool {
            self.jumps.get_or_init(never).is_some()
        }

        #[cfg(all(test, not(hairspring_loom)))]
        pub(super) fn jump(&self) {
            let jumps = self.jumps.get().and_then(Option::as_ref).expect("it watches");
            let now = Instant::now();
            timerfd::set(jumps, Some(now), now).expect("the clock and the time are valid");
        }

        /// Returns when the time has come, or a signal or a jump has, and whether that was a jump.
        pub(super) fn wait(&self) -> bool {
            let wake = PollFd::new(&self.fd, PollFlags::IN);
            let Some(jumps) = self.jumps.get().and_then(Option::as_ref) else {
                // Not read: of two threads only one would wake.
                let _ = poll(&mut [wake], None);
                return false;
            };
            let mut fds = [wake, PollFd::new(jumps, PollFlags::IN)];
            let jumped = poll(&mut fds, None).is_ok() && fds[1].revents().contains(PollFlags::IN);
            if jumped {
                // The error says that it was cancelled, and makes it wait for the next time.
                let _ = read(jumps, &mut [0; 8]);
            }
            jumped
        }
    }

    /// A `timerfd` that expires when the kernel's time ends, and is cancelled when a clock jumps.
    fn never() -> Option<OwnedFd> {
        let fd = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).ok()?;
        let never = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: i64::MAX, tv_nsec: 0 },
        };
        match timerfd_settime(&fd, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &never) {
            // If a clock jumps meanwhile, it is set all the same, and reports that.
            Ok(_) | Err(Errno::CANCELED) => Some(fd),
            Err(_) => None,
        }
    }
}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use std::sync::Mutex;
    #[cfg(target_os = "linux")]
    use std::sync::mpsc;

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

    #[cfg(target_os = "linux")]
    #[test]
    fn of_two_threads_that_sleep_none_takes_the_wake_from_the_other() {
        let shared: &'static _ = Box::leak(Box::new((Sleeper::new(), Mutex::new(0))));
        let (sleeper, asleep) = shared;
        let (sender, woken) = mpsc::channel();
        for _ in 0..2 {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut guard = asleep.lock().unwrap();
                *guard += 1;
                drop(sleeper.sleep(|| asleep.lock().unwrap(), guard, None, Instant::now()));
                sender.send(()).unwrap();
            });
        }
        let both_sleep = loop {
            let guard = asleep.lock().unwrap();
            if *guard == 2 {
                break guard;
            }
            drop(guard);
            std::thread::yield_now();
        };
        assert!(sleeper.set(Some(Instant::now())), "Linux has `timerfd`");
        drop(both_sleep);
        (0..2).for_each(|_| woken.recv_timeout(Duration::from_secs(30)).expect("each wakes"));
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
