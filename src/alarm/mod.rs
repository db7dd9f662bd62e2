//! How the driver is woken at an instant.
//!
//! Must not know: wheel, shards.

pub(crate) mod own;
pub(crate) mod thread;
#[cfg(target_os = "linux")]
mod timerfd;
mod tokio_sleep;

/// What wakes a timer's driver when the earliest deadline is reached. Set by
/// [`Builder::alarm`](crate::timer::Builder::alarm).
///
/// Whichever is chosen, a clock that a test has paused is followed through a tokio sleep, as only that moves it on.
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
    /// the runtime needs `enable_io`. It takes an open file; where it cannot be had later than the timer is built, or
    /// fails, the timer goes on with `Thread` and says nothing.
    Timerfd,
    /// A tokio sleep: one to two milliseconds late. The runtime needs `enable_time`.
    Tokio,
}
