//! [`Pause`]: how a clock is paused. [`IfPaused`]: what moves a clock only if it is.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project::pin_project;
use tokio::runtime::Handle;

use crate::clock::source::one_is_held;
use crate::clock::{Instant, instant};
use crate::core::registry;
use crate::test_util::{by_tokio, held, paused};

/// Pauses the clock of a runtime, with settings. [`pause`](crate::pause()) is the same without any.
///
/// ```
/// use hairspring::test_util::Pause;
/// use hairspring::{Duration, Instant, timeout};
///
/// # #[tokio::main]
/// # async fn main() {
/// Pause::new().grace(Duration::from_secs(5)).begin();
/// let start = Instant::now();
/// // Another process, of which the clock knows nothing.
/// let answer = tokio::process::Command::new("whoami").output();
/// assert!(timeout(Duration::from_secs(60), answer).await.is_ok());
/// assert_eq!(start.elapsed(), Duration::ZERO);
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "it pauses nothing until it begins"]
pub struct Pause {
    grace: Duration,
}

impl Pause {
    /// The settings of [`pause`](crate::pause()): no grace.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// hairspring::test_util::Pause::new().begin();
    /// # }
    /// ```
    pub fn new() -> Pause {
        Pause::default()
    }

    /// Sets for how long nothing may run in the runtime, in real time, before the clock moves to the next deadline.
    ///
    /// In that time something may come that the clock cannot foresee: from another process, a server, a thread of your
    /// own. Each move of the clock takes that long, so a test should have few of them. If you can, hold the clock with
    /// [`hold`](crate::test_util::hold()) while you wait, which costs no time and needs no guess.
    ///
    /// On a current-thread runtime only this crate's timers move a clock with a grace. Tokio's own fire when it comes to
    /// the next deadline of this crate after their own. One that is due within the grace stops the clock: tokio wakes
    /// the runtime for it in real time, again and again.
    ///
    /// ```
    /// # use hairspring::{Duration, sleep, test_util::Pause};
    /// # #[tokio::main]
    /// # async fn main() {
    /// Pause::new().grace(Duration::from_millis(5)).begin();
    /// sleep(Duration::from_secs(60)).await; // takes 5 ms
    /// # }
    /// ```
    pub fn grace(mut self, grace: Duration) -> Pause {
        self.grace = grace;
        self
    }

    /// Pauses the clock of the current runtime. [`resume`](crate::resume()) ends this.
    ///
    /// # Panics
    /// As [`pause`](crate::pause()) does, and with a grace on a current-thread runtime if the system refuses a thread.
    ///
    /// ```should_panic
    /// # use hairspring::test_util::Pause;
    /// # #[tokio::main]
    /// # async fn main() {
    /// Pause::new().begin();
    /// Pause::new().begin(); // time is already frozen
    /// # }
    /// ```
    #[track_caller]
    pub fn begin(self) {
        let Some(runtime) = paused::here() else {
            if self.grace.is_zero() {
                tokio::time::pause();
            } else {
                by_tokio::pause(self.grace);
            }
            // From now on no thread relies on the timer that it remembers, which may be that of a runtime around this.
            one_is_held();
            by_tokio::look_at_the_clock();
            return;
        };
        assert!(paused::pause(&runtime, self.grace), "time is already frozen");
        paused::adopt(runtime.id(), registry::timer_of(&runtime));
        // Registers this thread, if it blocks on the runtime.
        let _ = Instant::now();
        held::wake_free_drivers();
    }
}

/// What is said to a caller who needs a paused clock. Begins with tokio's words.
pub(super) const NOT_PAUSED: &str = "time is not frozen: call `pause` first";

/// Why the clock of the current runtime cannot be moved or resumed, if it cannot.
fn refusal() -> Option<&'static str> {
    if Handle::try_current().is_err() {
        return Some("time cannot be frozen from outside the Tokio runtime");
    }
    let is_paused = paused::here().map_or_else(instant::is_paused, |runtime| paused::clock(&runtime).is_some());
    (!is_paused).then_some(NOT_PAUSED)
}

/// Panics if the clock of the current runtime is not paused, or outside a runtime.
#[track_caller]
pub(super) fn check() {
    if let Some(why) = refusal() {
        panic!("{why}");
    }
}

/// A future that moves the clock of the current runtime. Its first poll panics, where it is awaited, if the clock is not
/// paused.
#[pin_project]
pub(super) struct IfPaused<F> {
    #[pin]
    moves: F,
    /// The function that made this, and where it was called, until the first poll.
    made: Option<(&'static str, &'static Location<'static>)>,
}

impl<F> IfPaused<F> {
    #[track_caller]
    pub(super) fn new(name: &'static str, moves: F) -> IfPaused<F> {
        IfPaused { moves, made: Some((name, Location::caller())) }
    }
}

impl<F: Future<Output = ()>> Future for IfPaused<F> {
    type Output = ();

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if let Some(((name, called), why)) = this.made.take().and_then(|made| Some((made, refusal()?))) {
            // If not, `block_on` polls it, or the like.
            assert!(called.file() == Location::caller().file(), "{why} (`{name}` was called at {called})");
            panic!("{why}");
        }
        this.moves.poll(cx)
    }
}
