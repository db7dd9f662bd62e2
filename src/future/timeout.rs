//! [`Timeout`]: a future with a deadline, on any clock.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project::pin_project;
use tokio::task::coop;

use crate::clock::Instant;
use crate::future::delay::{Delay, Time};
use crate::future::{ItemKind, limit, sleep_until};
use crate::util::error::{Elapsed, Error};

/// Awaits `future` for at most `duration` from now.
///
/// ```
/// use hairspring::{Duration, timeout};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(timeout(Duration::from_secs(1), async { "done" }).await, Ok("done"));
/// assert!(timeout(Duration::from_millis(1), std::future::pending::<()>()).await.is_err());
/// # }
/// ```
///
/// Warn every 8 s until the work is done:
///
/// ```
/// use hairspring::{Duration, sleep, timeout};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let mut work = std::pin::pin!(sleep(Duration::from_secs(20)));
/// while timeout(Duration::from_secs(8), work.as_mut()).await.is_err() {
///     println!("still working");
/// }
/// # }
/// ```
///
/// The future is polled before the timer. If it is ready, it wins, however late; if it is ready at its first poll, no
/// timer is registered. A `duration` of more than 500 years, such as [`Duration::MAX`], sets no limit.
///
/// # Errors
///
/// Resolves to [`Elapsed`] if the deadline passes first. [`Elapsed`] converts into an [`io::Error`](std::io::Error), so
/// `?` works in functions that return [`io::Result`](std::io::Result).
///
/// The future is dropped with the `Timeout`. To keep it, pass a pinned reference to it, as here, or take it out with
/// [`into_inner`](Timeout::into_inner).
///
/// # Cancel safety
///
/// Dropping the `Timeout` drops the future and cancels the timer. It is as cancel safe as the future.
///
/// # Panics
///
/// Polling panics as [`sleep`](crate::sleep()) does.
#[inline]
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), limit(duration))
}

/// Awaits `future` until `deadline` at the latest. See [`timeout`].
///
/// Use it to share one limit among several steps. A [`Deadline`](crate::Deadline) does that too, and its error names
/// the limit.
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, Instant, timeout_at};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let deadline = Instant::now() + Duration::from_millis(1);
/// assert!(timeout_at(deadline, std::future::pending::<()>()).await.is_err());
/// # }
/// ```
#[inline]
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep_until(deadline))
}

/// The future that [`timeout`] and [`timeout_at`] return.
///
/// ```
/// use hairspring::{Duration, Instant, timeout};
///
/// let mut limited = timeout(Duration::from_secs(1), std::future::ready(7));
/// let deadline = Instant::now() + Duration::from_secs(60);
/// limited.reset_at(deadline);
/// assert_eq!(limited.deadline(), deadline);
/// assert_eq!(limited.into_inner().into_inner(), 7);
/// ```
///
/// `F` is the future, `T` the time of its deadline, and `E` its error:
///
/// | returned by | type | resolves to |
/// |---|---|---|
/// | [`timeout`], [`timeout_at`], [`Timer::timeout`](crate::Timer::timeout) | `Timeout<F>` | `Result<F::Output, Elapsed>` |
/// | [`boot::timeout`](crate::boot::timeout()), [`boot::timeout_at`](crate::boot::timeout_at) | `Timeout<F, boot::Instant>` | `Result<F::Output, Elapsed>` |
/// | [`wall::timeout_at`](crate::wall::timeout_at) | `Timeout<F, SystemTime>` | `Result<F::Output, Elapsed>` |
/// | [`Deadline::limit`](crate::Deadline::limit) | `Timeout<F, Deadline, DeadlineExceeded>` | `Result<F::Output, DeadlineExceeded>` |
/// | [`fallible`](Timeout::fallible) | `Timeout<F, T, Error>` | `Result<F::Output, Error>` |
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[pin_project]
pub struct Timeout<F, T: Time = Instant, E = Elapsed> {
    #[pin]
    future: F,
    delay: T::Sleep,
    error: PhantomData<fn() -> E>,
}

impl<F, T: Time, E> Timeout<F, T, E> {
    #[inline]
    pub(crate) fn new(future: F, delay: T::Sleep) -> Self {
        Timeout { future, delay: delay.part_of(ItemKind::Timeout), error: PhantomData }
    }

    pub(crate) fn map_delay(self, change: impl FnOnce(T::Sleep) -> T::Sleep) -> Self {
        Timeout { delay: change(self.delay), ..self }
    }

    /// Polls the future, then the sleep. `late` makes the error of what ended the sleep.
    #[inline]
    pub(crate) fn poll_or(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        late: impl FnOnce(&T::Sleep, Result<(), Error>) -> E,
    ) -> Poll<Result<F::Output, E>>
    where
        F: Future,
    {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        let slept = ready!(this.delay.poll_delay(cx, has_spent_the_budget(had_budget)));
        Poll::Ready(Err(late(this.delay, slept)))
    }

    /// Returns the same timeout with errors in place of panics. Its error says which it is: the deadline [passed
    /// first](Error::is_elapsed), or the future has to wait and the timer is [full](Error::is_at_capacity) or
    /// was [shut down](Error::is_shutdown).
    ///
    /// The future is polled first, so a full timer does not affect one that is ready immediately. The future
    /// survives an error: poll again to retry, or take it out with [`into_inner`](Timeout::into_inner).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::builder().max_pending(100).build().unwrap();
    /// match timer.timeout(Duration::from_secs(1), async { 5 }).fallible().await {
    ///     Ok(answer) => assert_eq!(answer, 5),
    ///     Err(error) if error.is_elapsed() => eprintln!("too late"),
    ///     Err(error) => eprintln!("shedding load: {error}"),
    /// }
    /// timer.shutdown();
    /// let nap = hairspring::sleep(Duration::from_millis(1));
    /// let mut limited = timer.timeout(Duration::from_secs(60), nap).fallible();
    /// assert!((&mut limited).await.is_err_and(|error| error.is_shutdown()));
    /// limited.into_inner().await; // without a limit, then
    /// # }
    /// ```
    pub fn fallible(self) -> Timeout<F, T, Error> {
        Timeout { future: self.future, delay: self.delay, error: PhantomData }
    }

    /// Returns a reference to the inner future.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, timeout};
    /// let limited = timeout(Duration::from_secs(1), std::future::pending::<u8>());
    /// let _inner: &std::future::Pending<u8> = limited.get_ref();
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns a mutable reference to the inner future.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, timeout};
    /// let mut limited = timeout(Duration::from_secs(1), std::future::pending::<u8>());
    /// let _inner: &mut std::future::Pending<u8> = limited.get_mut();
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the inner future, which then has no deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, timeout};
    /// assert_eq!(timeout(Duration::ZERO, std::future::ready(3)).into_inner().await, 3);
    /// # }
    /// ```
    pub fn into_inner(self) -> F {
        self.future
    }

    /// Returns the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, Instant, timeout_at};
    /// let deadline = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(timeout_at(deadline, async {}).deadline(), deadline);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> T {
        self.delay.deadline()
    }

    /// Sets a new deadline. As with [`Sleep::reset_at`](crate::Sleep::reset_at), a waiting task is woken at the new
    /// deadline, or immediately if that has passed. A timeout that has elapsed waits again once it is polled.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Instant, timeout};
    /// let mut limited = timeout(Duration::from_secs(3600), std::future::pending::<()>());
    /// limited.reset_at(Instant::now());
    /// assert!(limited.await.is_err());
    /// # }
    /// ```
    pub fn reset_at(&mut self, deadline: T) {
        self.delay.reset_at(deadline);
    }
}

impl<F: fmt::Debug, T: Time, E> fmt::Debug for Timeout<F, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout")
            .field("future", &self.future)
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}

impl<F: Future, T: Time> Future for Timeout<F, T> {
    type Output = Result<F::Output, Elapsed>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_or(cx, |delay, slept| {
            slept.unwrap_or_else(|error| delay.panic_with(error));
            Elapsed::new()
        })
    }
}

impl<F: Future, T: Time> Future for Timeout<F, T, Error> {
    type Output = Result<F::Output, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_or(cx, |_, slept| slept.err().unwrap_or_else(|| Elapsed::new().into()))
    }
}

/// Whether what was just polled has spent the last of the task's budget, if there was some before. A limit then needs
/// none: otherwise what spends the whole budget in each poll would never meet it.
#[inline]
pub(crate) fn has_spent_the_budget(had_budget: bool) -> bool {
    had_budget && !coop::has_budget_remaining()
}
