//! How the driver is woken at an instant.
//!
//! Must not know: wheel, shards.

mod bookings;
pub(crate) mod own;
mod priority;
mod sleeper;
pub(crate) mod thread;
#[cfg(target_os = "linux")]
mod timerfd;
mod tokio_sleep;

use std::io;
use std::task::Waker;
use std::time::Instant;

use crate::util::enabled::NotEnabled;

/// What wakes a timer's driver when the earliest deadline is reached. Set by
/// [`Builder::alarm`](crate::timer::Builder::alarm).
///
/// Whichever is chosen, a clock that a test has paused is followed through a tokio sleep, as only that moves it on; so
/// the runtime then needs `enable_time`.
///
/// To choose [`Timerfd`](Alarm::Timerfd) or [`Tokio`](Alarm::Tokio) is to say that the runtime has what it needs. If it
/// has not, the builder returns an error, or the driver takes `Thread` instead. Tokio answers with a panic then: it is
/// caught but prints its message, and a program built with `panic = "abort"` ends. Outside of any runtime there is no
/// such panic, nor is there one for `Timerfd` while the process has no epoll instance. Each runtime with `enable_io` has
/// one, and so have async-io, mio and others.
///
/// ```
/// use hairspring::{Duration, Timer, timer::Alarm};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let timer = Timer::builder().alarm(Alarm::Tokio).build().unwrap();
/// timer.sleep(Duration::from_millis(1)).await;
/// # }
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Alarm {
    /// A thread, one for the process, that sleeps until the earliest deadline of all timers. Precise to what it
    /// takes the system to wake a thread, in need of nothing from the runtime, and on time where all its workers are blocked.
    #[default]
    Thread,
    /// A `timerfd` that the runtime's own I/O driver waits on: as precise, and a thread switch less a turn. Linux only;
    /// the runtime needs `enable_io`. It takes one open file. If it fails after the timer was built, the timer goes on
    /// with `Thread` and reports nothing.
    Timerfd,
    /// A tokio sleep: one to two milliseconds late. The runtime needs `enable_time`.
    Tokio,
}

/// An alarm of a driver's own that any thread can set.
pub(crate) trait SharedAlarm: Send + Sync {
    /// Sets it, in place of what was set before.
    fn set(&self, at: Instant) -> io::Result<()>;

    /// Forgets that it has gone off. It calls `waker` when it does so again.
    fn forget(&self, waker: &Waker) -> io::Result<()>;
}

/// Why an alarm cannot be had.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// This system or runtime has no such thing.
    Lacking,
    /// It has, and refuses it.
    InsertError(io::Error),
}

impl From<NotEnabled> for Unfit {
    fn from(_: NotEnabled) -> Unfit {
        Unfit::Lacking
    }
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Unfit {
        Unfit::InsertError(error)
    }
}
