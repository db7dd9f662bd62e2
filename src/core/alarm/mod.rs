//! [`Alarm`]: what wakes a driver at an instant. The alarm thread, and the alarms that a driver sets itself.

pub(crate) mod find_io;
pub(crate) mod own;
pub(crate) mod thread;
#[cfg(target_os = "linux")]
mod timerfd;

use std::io;
use std::task::Waker;
use std::time::Instant;

/// Whether there can be an alarm thread. Whether a WebAssembly system has threads is not known, so they count as missing.
pub(crate) fn has_threads() -> bool {
    !cfg!(target_family = "wasm")
}

/// What wakes a timer's driver when the earliest deadline is reached. Set by
/// [`Builder::alarm`](crate::timer::Builder::alarm).
///
/// On a clock that a test has paused, every choice uses a tokio sleep, because only tokio's own timers advance that
/// clock. The runtime then needs `enable_time`.
///
/// On WebAssembly there are no threads, so [`Auto`](Alarm::Auto) and [`Thread`](Alarm::Thread) are
/// [`Tokio`](Alarm::Tokio) there: the runtime needs `enable_time`, and a timer outside any runtime panics.
///
/// Choose [`Timerfd`](Alarm::Timerfd) or [`Tokio`](Alarm::Tokio) only if the runtime has what it needs. Otherwise the
/// builder returns an error, or the driver uses `Thread` instead. In that case tokio panics. The panic is caught, but
/// prints its message, and it ends a program built with `panic = "abort"`. There is no such panic outside a runtime,
/// and none for `Timerfd` if the process has no epoll instance: each runtime with `enable_io` has one, and so have
/// async-io, mio and others.
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
    /// [`Thread`](Alarm::Thread) at first, and [`Timerfd`](Alarm::Timerfd) as soon as an idle worker of the runtime was
    /// seen to wait in an I/O driver. So nothing is asked of a runtime that it may not have. From then on, if all
    /// workers are blocked, due timers fire 6 to 26 ms after their deadlines; with `Thread` it is 1 ms. It is `Thread`
    /// for good on systems other than Linux, in programs that abort on panics, for a driver that you spawn yourself,
    /// and on a current-thread runtime with the feature `test-util`.
    #[default]
    Auto,
    /// A thread, one for the process, that sleeps until the earliest deadline of all timers. It is as precise as the
    /// system's wake-up of a thread, needs nothing from the runtime, and is on time even if all workers are blocked.
    ///
    /// It starts with the first timer of the process. On Linux it then copies the main thread's niceness and CPU
    /// affinity; what the system refuses stays as in the thread that made that timer, and so does its scheduling policy.
    /// So if a program has background threads and may not raise a thread's priority, make the first timer on the main
    /// thread.
    Thread,
    /// A `timerfd` that the runtime's own I/O driver waits on: as precise, and saves a thread switch in each turn.
    /// Linux only; the runtime needs `enable_io`. It takes one open file. If it fails after the timer was built, the
    /// timer continues with `Thread` and reports nothing. With the feature `test-util` a timer on a current-thread runtime
    /// uses `Thread`, so that a test can pause the clock while timers wait.
    Timerfd,
    /// A tokio sleep: one to two milliseconds late. The runtime needs `enable_time`.
    Tokio,
}

/// An alarm of a driver's own, which any thread can set.
pub(crate) trait SharedAlarm: Send + Sync {
    /// Sets it, in place of the last time.
    fn set(&self, at: Instant) -> io::Result<()>;

    /// Clears that it has gone off. It calls `waker` when it next does.
    fn forget(&self, waker: &Waker) -> io::Result<()>;
}
