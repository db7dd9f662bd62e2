//! [`Timerfd`]: a file on which the alarm thread sleeps. [`TimerfdAlarm`]: one on which the runtime's I/O driver waits.
//
//! The kernel reports files in the order in which they became ready. So once the I/O driver reports an alarm, it has
//! reported all that came before the tick for which the alarm was set. That holds as long as a file that has gone off
//! keeps its place in that order, and its tick, until it is reported: until then it may only be set to an earlier tick.
//
// Invariants
// 1. A forked process leaves its parent's file, and its place in the I/O driver, alone.
// 2. `armed` is never later than the time for which the system has set the file. Only a report lets it become later.
// 3. A file that has gone off is not set again before it was reported.
//
// They hold because an alarm is set, and its report is taken, only under the lock of its engine.

use std::fs::{read_dir, read_link};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::coop::unconstrained;

use crate::clock::{self, source};
use crate::util::panics;
use crate::util::sync::{Counter, generation};
use crate::wheel::Tick;

/// The wait for an instant in the past. A `timerfd` takes zero as "no alarm".
const AT_ONCE: Duration = Duration::from_nanos(1);

/// The longest wait, far below any overflow of the kernel's clock. The thread then checks again.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// In `TimerfdAlarm::armed`.
const NOT_SET: u64 = u64::MAX;

#[derive(Debug)]
pub(in crate::core) struct Timerfd(OwnedFd);

impl Timerfd {
    pub(in crate::core) fn new() -> io::Result<Timerfd> {
        Timerfd::on(TimerfdClockId::Monotonic)
    }

    /// One that can report jumps of a clock.
    pub(in crate::core) fn on_the_wall_clock() -> io::Result<Timerfd> {
        Timerfd::on(TimerfdClockId::Realtime)
    }

    fn on(clock: TimerfdClockId) -> io::Result<Timerfd> {
        Ok(Timerfd(timerfd_create(clock, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?))
    }

    /// Sets when it expires, replacing the last time; `None` for never.
    /// Panics if the program has closed the file.
    pub(in crate::core) fn set(&self, at: Option<Instant>, now: Instant) {
        let wait = at.map_or(Duration::ZERO, |at| at.duration_since(now).clamp(AT_ONCE, LONGEST));
        let wait = Timespec::try_from(wait).expect("ten years at most");
        self.set_time(TimerfdTimerFlags::empty(), wait).expect("only this crate closes its `timerfd`s");
    }

    /// Makes a file on the wall clock expire at the next jump of a clock: Linux cancels it when the wall clock is set,
    /// and when the machine wakes up. Returns whether that works.
    pub(in crate::core) fn watch_for_jumps(&self) -> bool {
        let the_end_of_time = Timespec { tv_sec: i64::MAX, tv_nsec: 0 };
        let set = self.set_time(TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, the_end_of_time);
        // If a clock has just jumped, it is set nevertheless.
        matches!(set, Ok(()) | Err(Errno::CANCELED))
    }

    fn set_time(&self, flags: TimerfdTimerFlags, it_value: Timespec) -> Result<(), Errno> {
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.0, flags, &once).map(drop)
    }

    /// Waits until it expires. May return early. Returns `false` if the system does not let this process wait for files:
    /// it may open none any more.
    pub(in crate::core) fn wait(&self) -> bool {
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None) != Err(Errno::INVAL)
    }
}

impl AsRawFd for Timerfd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

pub(crate) struct TimerfdAlarm {
    /// `None` only while it is dropped.
    fd: Option<AsyncFd<Timerfd>>,
    process: u32,
    /// The tick for which it is set; never once that was reported. Changes only under the lock of its engine.
    armed: Counter,
    /// How late a turn may be before another worker is made to look. `None` if there is no other.
    pub(crate) patience: Option<Duration>,
}

impl TimerfdAlarm {
    /// One that calls `waker` when it goes off. Fails if the system has none to give, and outside a runtime with
    /// `enable_io`.
    pub(crate) fn new(waker: &Waker, io_is_found: bool, patience: Option<Duration>) -> io::Result<Self> {
        if !io_is_found && there_is_no_epoll() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let fd = panics::if_enabled(|| {
            let fd = Timerfd::new()?;
            #[allow(deprecated)] // In favour of an unsafe function for I/O safe types, of which `Timerfd` is one.
            AsyncFd::with_interest(fd, Interest::READABLE)
        })??;
        let alarm = TimerfdAlarm { fd: Some(fd), process: generation(), armed: Counter::new(NOT_SET), patience };
        alarm.reported(waker)?;
        Ok(alarm)
    }

    fn fd(&self) -> &AsyncFd<Timerfd> {
        self.fd.as_ref().expect("it is not being dropped")
    }

    /// Lets it go off at a tick, or earlier. If that has passed, it is set for now, and the turn fires all that is due by
    /// now. Returns `false` in a forked process.
    pub(crate) fn set(&self, tick: Tick) -> bool {
        if self.process != generation() {
            return false;
        }
        let now = source::system_now();
        let tick = tick.max(now);
        // A file that has gone off was set for a tick that has passed.
        if Tick(self.armed.fetch_min(tick.0, Relaxed)) > tick {
            let [at, now] = [tick, now].map(|tick| clock::instant_of(tick).into_std());
            self.fd().get_ref().set(Some(at), now);
        }
        true
    }

    /// Takes the I/O driver's report, if there is one: the tick for which the alarm was set. The next calls `waker`.
    pub(crate) fn reported(&self, waker: &Waker) -> io::Result<Option<Tick>> {
        let mut is_reported = false;
        let report = poll_fn(|cx| self.fd().poll_read_ready(cx).map_ok(|mut ready| ready.clear_ready()));
        // It must not use up the budget of a task.
        let mut report = pin!(unconstrained(report));
        while let Poll::Ready(cleared) = report.as_mut().poll(&mut Context::from_waker(waker)) {
            cleared?;
            is_reported = true;
        }
        let armed = if is_reported { self.armed.swap(NOT_SET, Relaxed) } else { NOT_SET };
        Ok(Some(Tick(armed)).filter(|tick| tick.0 != NOT_SET))
    }
}

/// Whether no runtime of this process can have an I/O driver, because there is no epoll instance: tokio would panic,
/// and print a message. `false` if the system does not say. Asks it until there was one.
fn there_is_no_epoll() -> bool {
    static IS_SEEN: AtomicBool = AtomicBool::new(false);
    // The files of this thread: `/proc/self` shows the main thread's, which may have ended.
    let Some(mut files) = (!IS_SEEN.load(Relaxed)).then(|| read_dir("/proc/thread-self/fd").ok()).flatten() else {
        return false;
    };
    let none = files.all(|file| match file.and_then(|file| read_link(file.path())) {
        Ok(what) => !what.to_string_lossy().contains("eventpoll"),
        // The file has just been closed, so no runtime in use has it.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    });
    IS_SEEN.fetch_or(!none, Relaxed);
    none
}

impl Drop for TimerfdAlarm {
    fn drop(&mut self) {
        // A forked process shares the I/O driver with its parent.
        if self.process != generation() {
            std::mem::forget(self.fd.take());
        }
    }
}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use rustix::time::timerfd_gettime;

    use super::*;
    use crate::wheel::Ticks;

    /// `tests/alone/silence.rs` checks a process without an I/O driver.
    #[test]
    fn a_runtime_with_an_io_driver_is_never_taken_to_have_none() {
        let _runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        assert!(!there_is_no_epoll());
        assert!(std::thread::spawn(|| !there_is_no_epoll()).join().unwrap());
    }

    /// Lets the I/O driver of the current runtime report what has gone off.
    async fn pass() {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
    }

    /// Moved, it would take a later place among the files that became ready, and a turn would come before data that had
    /// come before.
    #[test]
    fn an_alarm_that_has_gone_off_keeps_its_tick_until_it_is_reported() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let alarm = TimerfdAlarm::new(Waker::noop(), true, None).unwrap();
            let reported = || alarm.reported(Waker::noop()).unwrap();
            let hour = Ticks(3_600_000_000_000);
            pass().await;
            assert_eq!(reported(), None, "it was not set");
            // One that has passed is set for now.
            for past in [Tick::ZERO, Tick(clock::now().0 - 1)] {
                let [before, set] = [clock::now(), past].map(|tick| {
                    alarm.set(tick);
                    clock::now()
                });
                alarm.wait_until_it_has_gone_off();
                alarm.set(set + hour);
                alarm.set(past);
                assert!(alarm.remaining().is_zero(), "it has gone off");
                pass().await;
                assert!(reported().is_some_and(|tick| tick <= before));
                assert_eq!(reported(), None);
            }
            let now = clock::now();
            alarm.set(now + hour);
            assert!(alarm.remaining() > Duration::from_secs(1), "after the report it may be later");
            alarm.set(now);
            alarm.set(now + hour);
            alarm.wait_until_it_has_gone_off();
            pass().await;
            assert!(reported().is_some_and(|tick| (now..=clock::now()).contains(&tick)));
        });
    }

    impl TimerfdAlarm {
        /// Not if that takes long.
        fn wait_until_it_has_gone_off(&self) {
            while !self.remaining().is_zero() {
                assert!(self.remaining() < Duration::from_secs(60), "it was set to a later time");
            }
        }

        /// How long it is until it goes off.
        pub(crate) fn remaining(&self) -> Duration {
            timerfd_gettime(&self.fd().get_ref().0).unwrap().it_value.try_into().unwrap()
        }
    }
}
