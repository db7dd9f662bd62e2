//! [`TimerfdAlarm`]: a Linux `timerfd`, watched by the runtime's I/O driver.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::coop::unconstrained;

use super::{SharedAlarm, Unfit};
use crate::util::enabled;

/// The wait for an instant that has passed: a `timerfd` takes a zero wait as "no alarm".
const AT_ONCE: Duration = Duration::from_nanos(1);

/// The longest wait, far below any overflow of the kernel's clock. Whoever is woken looks again.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Sets a `timerfd`, in place of what was set before; `None` for never.
pub(super) fn set(fd: impl AsFd, at: Option<Instant>, now: Instant) -> io::Result<()> {
    let wait = at.map_or(Duration::ZERO, |at| at.duration_since(now).clamp(AT_ONCE, LONGEST));
    let it_value =
        Timespec { tv_sec: wait.as_secs().try_into().expect("ten years at most"), tv_nsec: wait.subsec_nanos().into() };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    timerfd_settime(fd, TimerfdTimerFlags::empty(), &once)?;
    Ok(())
}

#[derive(Debug)]
pub(super) struct TimerfdAlarm {
    fd: AsyncFd<OwnedFd>,
}

impl TimerfdAlarm {
    /// Fails if the system refuses, and outside a runtime with `enable_io`.
    pub(super) fn new() -> Result<Self, Unfit> {
        let fd = enabled::with_io(|| {
            let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            #[allow(deprecated)] // In favour of an unsafe function for I/O safe types, of which `OwnedFd` is one.
            AsyncFd::with_interest(fd, Interest::READABLE)
        })??;
        Ok(TimerfdAlarm { fd })
    }

    /// Returns whether the alarm has gone off. If not, the I/O driver calls `waker` when it does.
    fn poll(&self, waker: &Waker) -> Poll<io::Result<()>> {
        let ready = poll_fn(|cx| self.fd.poll_read_ready(cx).map_ok(|mut ready| ready.clear_ready()));
        // The alarm must not spend the budget of the driver's task.
        pin!(unconstrained(ready)).poll(&mut Context::from_waker(waker))
    }
}

impl SharedAlarm for TimerfdAlarm {
    fn set(&self, at: Instant) -> io::Result<()> {
        set(&self.fd, Some(at), Instant::now())
    }

    fn forget(&self, waker: &Waker) -> io::Result<()> {
        while let Poll::Ready(forgotten) = self.poll(waker) {
            forgotten?;
        }
        Ok(())
    }
}
