//! [`Alarm`]: the mechanism that wakes a driver on time, as the user chooses it. [`TurnAlarm`]: the one that is in use.

pub(crate) mod driver_sleep;
pub(crate) mod io_probe;
pub(super) mod priority;
pub(crate) mod thread;
#[cfg_attr(not(target_os = "linux"), path = "no_timerfd.rs")]
pub(super) mod timerfd;

use std::sync::Arc;

use self::driver_sleep::DriverSleep;
pub(crate) use self::timerfd::TimerfdAlarm;

/// Whether there can be an alarm thread. WebAssembly systems count as having no threads.
pub(crate) fn has_threads() -> bool {
    !cfg!(target_family = "wasm")
}

/// The mechanism that wakes a timer's driver at its earliest deadline. Set it with
/// [`Builder::alarm`](crate::timer::Builder::alarm).
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
///
/// Whatever the alarm, timers fire only while their runtime looks at its sockets: if all its workers are blocked, or
/// nothing drives it, they wait, as with tokio.
///
/// Every choice uses a tokio sleep while a test has paused the runtime's clock, because tokio advances that clock only
/// to its own timers. The runtime then needs `enable_time`; without it, a sleep panics.
///
/// WebAssembly has no threads: there, [`Auto`](Alarm::Auto) and [`Thread`](Alarm::Thread) mean [`Tokio`](Alarm::Tokio).
/// The runtime needs `enable_time`, and a timer outside any runtime panics.
///
/// Choose [`Timerfd`](Alarm::Timerfd) or [`Tokio`](Alarm::Tokio) only if the runtime has what it needs. If it does not,
/// the builder returns an error, and tokio panics. The panic is caught, but its message is printed, and it ends a
/// program built with `panic = "abort"`. There is no such panic for `Timerfd` if the process has no epoll instance.
/// Each runtime with `enable_io` has one; so do async-io and mio.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Alarm {
    /// [`Thread`](Alarm::Thread) at first, then [`Timerfd`](Alarm::Timerfd) once an idle worker of the runtime is seen
    /// waiting in an I/O driver. It may be the driver of another runtime, which the worker runs in `block_in_place`. If the
    /// worker's own runtime has none, tokio's panic is caught and printed, and `Thread` stays.
    ///
    /// After the switch, timers fire late if the worker that has looked at the sockets blocks: the first 6 to 26 ms,
    /// and those of the next second 1 ms. There is no switch on systems other than Linux, nor in programs that abort on
    /// panics. It mostly comes within milliseconds after the first sleep, but not while the runtime is never idle.
    #[default]
    Auto,
    /// One thread per process that sleeps until the earliest deadline of all timers, and then wakes the timer's task.
    /// It is as precise as the system's wake-up of a thread, and needs nothing from the runtime.
    ///
    /// If the runtime has an I/O driver, that is found as with `Auto`, and fires the timers. The thread still wakes a
    /// worker at each deadline: if another blocks, timers fire a millisecond late at most.
    ///
    /// The thread starts with the first timer of the process. On Linux it copies the main thread's niceness, and may
    /// run on every CPU on which a thread of the process may. It inherits the scheduling policy, and whatever it may
    /// not change, from the thread that created the timer. If your program has background threads and may not raise a
    /// thread's priority, create the first timer on the main thread.
    Thread,
    /// A `timerfd` on which the runtime's I/O driver waits: as precise as `Thread`, and saves a thread switch per
    /// wake-up. Linux only; the runtime needs `enable_io`. It uses one open file.
    Timerfd,
    /// A tokio sleep, which fires one to two milliseconds late. The runtime needs `enable_time`.
    Tokio,
}

/// What starts a timer's next turn. Its driver chooses it when it first runs, and when its clock changes.
#[derive(Default)]
pub(crate) enum TurnAlarm {
    /// The alarm thread, which wakes the driver's task.
    #[default]
    Thread,
    /// A file in the driver's runtime. The turn is what that runtime's I/O driver calls when it reports the file.
    Timerfd(Arc<TimerfdAlarm>),
    /// A tokio sleep, which wakes the driver's task.
    Tokio(DriverSleep),
    /// A tokio sleep on a clock that a test has paused, which only the driver sets.
    Paused,
}

impl TurnAlarm {
    /// Whether tokio rounds its time.
    pub(crate) fn is_tokios(&self) -> bool {
        matches!(self, TurnAlarm::Tokio(_) | TurnAlarm::Paused)
    }
}
