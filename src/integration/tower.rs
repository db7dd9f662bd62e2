//! [`TimeoutLayer`], which limits how long a request to a tower service may take. Needs the feature `tower`.
//!
//! ```
//! use hairspring::{Duration, tower::TimeoutLayer};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let echo = service_fn(|request: u8| async move { Ok::<_, std::io::Error>(request) });
//! let service = ServiceBuilder::new().layer(TimeoutLayer::new(Duration::from_secs(60))).service(echo);
//! assert_eq!(service.oneshot(7).await.unwrap(), 7);
//! # }
//! ```
//!
//! `TimeoutLayer` and `Timeout` replace `tower::timeout`. A request that takes too long fails with a boxed [`Elapsed`], like tower's. With
//! [`TimeoutLayer::respond_with`], the service answers with a response instead. With [`TimeoutLayer::per_request`],
//! each request has its own [`Deadline`].

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::clock;
use crate::deadline::delay::DeadlineSleep;
use crate::deadline::{Deadline, DeadlineExceeded};
use crate::future::{self, now_on, sleep_made_at};
use crate::timer::Timer;
use crate::util::error::{self, Elapsed};

use limit::{Limit, RequestLimit};

/// tower's type of this name.
type BoxError = Box<dyn Error + Send + Sync>;

/// A layer that applies a [`Timeout`] to a service, like tower's `TimeoutLayer`.
///
/// `L` is the limit: a [`Duration`] for all requests, or a function that returns the [`Deadline`] of each. `A` is the
/// answer to a request that takes too long: `()` for an error, or a function that returns the response.
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, error::Elapsed, tower::TimeoutLayer};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let stuck = service_fn(|_request: u8| std::future::pending::<Result<u8, std::io::Error>>());
/// let service = ServiceBuilder::new().layer(TimeoutLayer::new(Duration::from_millis(1))).service(stuck);
/// let error = service.oneshot(7).await.unwrap_err();
/// assert!(error.is::<Elapsed>());
/// # }
/// ```
#[derive(Clone)]
pub struct TimeoutLayer<L = Duration, A = ()> {
    limit: L,
    /// `None` for the timer of the runtime that polls.
    timer: Option<Timer>,
    /// The user's line that created this, to which its timeouts are attributed.
    made: &'static Location<'static>,
    answer: A,
}

impl TimeoutLayer {
    /// Creates a layer that limits each request to `duration`, on the timer of the runtime that polls the response.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, tower::TimeoutLayer};
    /// const LIMIT: TimeoutLayer = TimeoutLayer::new(Duration::from_secs(1));
    /// # let _ = LIMIT;
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn new(duration: Duration) -> TimeoutLayer {
        TimeoutLayer { limit: duration, timer: None, made: Location::caller(), answer: () }
    }

    /// Creates a layer that limits each request to the [`Deadline`] that `deadline_of` returns for it, for example from
    /// a header. `None` means no limit. The function is called before the request is passed on.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Deadline, DeadlineExceeded, Duration, tower::TimeoutLayer};
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// struct Request {
    ///     grpc_timeout: Option<&'static str>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let layer = TimeoutLayer::per_request(|request: &Request| {
    ///     Some(Deadline::from_grpc_timeout(request.grpc_timeout?).ok()?.named("grpc-timeout"))
    /// });
    /// let stuck = service_fn(|_: Request| std::future::pending::<Result<u8, std::io::Error>>());
    /// let service = ServiceBuilder::new().layer(layer).service(stuck);
    /// let error = service.oneshot(Request { grpc_timeout: Some("5m") }).await.unwrap_err();
    /// assert_eq!(error.downcast_ref::<DeadlineExceeded>().unwrap().name(), Some("grpc-timeout"));
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn per_request<Request, F: Fn(&Request) -> Option<Deadline>>(deadline_of: F) -> TimeoutLayer<F> {
        TimeoutLayer { limit: deadline_of, timer: None, made: Location::caller(), answer: () }
    }
}

impl<L> TimeoutLayer<L> {
    /// Answers a request that takes too long with the response that `answer` returns, as tower-http's `TimeoutLayer`
    /// does with a status code. The error type stays the service's, so an axum program needs no `HandleErrorLayer`.
    ///
    /// `answer` gets the reason. Each service and each response has a clone of it.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, tower::{TimeoutLayer, Unanswered}};
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), std::io::Error> {
    /// let stuck = service_fn(|_request: u8| std::future::pending::<Result<u16, std::io::Error>>());
    /// let layer = TimeoutLayer::new(Duration::from_millis(1)).respond_with(|why| match why {
    ///     Unanswered::Late(_deadline) => 504,
    ///     _ => 503,
    /// });
    /// assert_eq!(ServiceBuilder::new().layer(layer).service(stuck).oneshot(7).await?, 504);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn respond_with<A, Response>(self, answer: A) -> TimeoutLayer<L, A>
    where
        A: Fn(Unanswered) -> Response + Clone,
    {
        TimeoutLayer { limit: self.limit, timer: self.timer, made: self.made, answer }
    }
}

impl<L, A> TimeoutLayer<L, A> {
    /// Waits on `timer`, for all kinds of limits, instead of the timer of the runtime that polls the response. Once that was
    /// shut down, the layer no longer calls the service, and requests [fail](Timeout#errors).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer, tower::TimeoutLayer};
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// let timer = Timer::builder().build().unwrap();
    /// let stuck = service_fn(|_request: u8| std::future::pending::<Result<u8, std::io::Error>>());
    /// let service = TimeoutLayer::new(Duration::from_secs(60)).with_timer(&timer).layer(stuck);
    /// assert!(service.oneshot(7).await.is_err());
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    ///
    /// The layer limits time only. To limit the number of requests, use `tower::limit` and `tower::load_shed`.
    ///
    /// # Panics
    ///
    /// Panics if the timer has [`max_pending`](crate::timer::Builder::max_pending): requests would begin, and then be thrown
    /// away.
    #[track_caller]
    #[must_use]
    pub fn with_timer(self, timer: &Timer) -> Self {
        TimeoutLayer { timer: Some(timer.unlimited("TimeoutLayer").clone()), ..self }
    }
}

impl<L, A: Clone> TimeoutLayer<L, A> {
    /// Calls the service, unless the timer was shut down, and limits the response. The limit was asked for before the
    /// service gets the request.
    fn limit<F, Late>(&self, call: impl FnOnce() -> F, limit: RequestLimit) -> ResponseFuture<F, Late, A> {
        let timer = self.timer.as_ref();
        let response = Begun(if timer.is_some_and(Timer::is_shutdown) { None } else { Some(call()) });
        let deadline = match limit {
            RequestLimit::Duration(duration) => {
                let mut deadline = Deadline::at(clock::instant_of(clock::later(now_on(timer), duration)));
                deadline.made_at = self.made;
                deadline
            }
            RequestLimit::Deadline(deadline) => deadline,
        };
        let sleep = sleep_made_at(timer, clock::tick_of(deadline.into()), self.made);
        let response = future::Timeout::new(response, DeadlineSleep::over(deadline, sleep));
        ResponseFuture { response, late: PhantomData, answer: self.answer.clone() }
    }
}

impl<S, L: Clone, A: Clone> Layer<S> for TimeoutLayer<L, A> {
    type Service = Timeout<S, L, A>;

    fn layer(&self, inner: S) -> Timeout<S, L, A> {
        Timeout { inner, layer: self.clone() }
    }
}

/// The two kinds of limits. The trait is public for the bounds of the services, and users cannot name it.
mod limit {
    use super::{BoxError, Deadline, DeadlineExceeded, Duration, Elapsed};

    pub trait Limit<Request> {
        /// What a request that takes too long fails with, unless the layer answers it.
        type Late: From<DeadlineExceeded> + Into<BoxError>;

        fn of(&self, request: &Request) -> RequestLimit;
    }

    /// The limit of one request.
    #[derive(Debug, Clone, Copy)]
    pub enum RequestLimit {
        /// Counts from when the service has taken the request.
        Duration(Duration),
        Deadline(Deadline),
    }

    impl<Request> Limit<Request> for Duration {
        type Late = Elapsed;

        fn of(&self, _: &Request) -> RequestLimit {
            RequestLimit::Duration(*self)
        }
    }

    impl<Request, F: Fn(&Request) -> Option<Deadline>> Limit<Request> for F {
        type Late = DeadlineExceeded;

        fn of(&self, request: &Request) -> RequestLimit {
            RequestLimit::Deadline(self(request).unwrap_or(Deadline::NEVER))
        }
    }
}

/// The service that a [`TimeoutLayer`] makes. It limits the time of each request, like tower's `Timeout`.
///
/// ```
/// use hairspring::{Duration, tower::{Timeout, TimeoutLayer}};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let double = service_fn(|request: u8| async move { Ok::<_, std::io::Error>(request * 2) });
/// let limited: Timeout<_> = TimeoutLayer::new(Duration::from_secs(1)).layer(double);
/// assert_eq!(limited.oneshot(4).await.unwrap(), 8);
/// # }
/// ```
///
/// The time counts from `call`; waiting in `poll_ready` is not limited. A request that takes too long is dropped.
///
/// # Errors
///
/// The response resolves to one of these, in a `Box<dyn Error + Send + Sync>` like tower's:
/// [`Elapsed`] if the limit passes first, [`DeadlineExceeded`] if that was the request's own deadline,
/// [`error::Error`](crate::error::Error) if the timer was shut down, or the service's error. With
/// [`respond_with`](TimeoutLayer::respond_with) there is only the service's error, without a box.
///
/// # Panics
///
/// Polling the response panics if it starts the process's first timer and no thread can be started.
#[derive(Clone)]
pub struct Timeout<S, L = Duration, A = ()> {
    inner: S,
    layer: TimeoutLayer<L, A>,
}

impl<S, L, Request> Service<Request> for Timeout<S, L>
where
    S: Service<Request, Error: Into<BoxError>>,
    L: Limit<Request>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, L::Late>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let limit = self.layer.limit.of(&request);
        self.layer.limit(|| self.inner.call(request), limit)
    }
}

impl<S, L, A, Request> Service<Request> for Timeout<S, L, A>
where
    S: Service<Request>,
    L: Limit<Request>,
    A: Fn(Unanswered) -> S::Response + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, DeadlineExceeded, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let limit = self.layer.limit.of(&request);
        self.layer.limit(|| self.inner.call(request), limit)
    }
}

/// Why a layer answers a request in the service's place: see [`TimeoutLayer::respond_with`].
///
/// # Examples
///
/// ```
/// use hairspring::{Deadline, DeadlineExceeded, Duration, tower::Unanswered};
/// let late = Unanswered::Late(DeadlineExceeded::new(Deadline::after(Duration::ZERO).named("request")));
/// assert_eq!(late.to_string(), "the deadline `request` has passed");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unanswered {
    /// The deadline has passed: the request's own, with [`TimeoutLayer::per_request`], or one without a name.
    Late(DeadlineExceeded),
    /// The timer was shut down. If it is one given to [`TimeoutLayer::with_timer`], and ended before the request came, the
    /// service was not called.
    Refused(error::Error),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Late(late) => late.fmt(f),
            Unanswered::Refused(error) => error.fmt(f),
        }
    }
}

impl Error for Unanswered {}

/// A response, if the service was called.
#[pin_project]
#[derive(Debug)]
struct Begun<F>(#[pin] Option<F>);

impl<F: Future> Future for Begun<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().0.as_pin_mut().map_or(Poll::Pending, |response| response.poll(cx))
    }
}

/// The response future of a [`Timeout`].
///
/// ```
/// # use hairspring::{Duration, tower::{ResponseFuture, TimeoutLayer}};
/// # use tower::{Layer, Service, service_fn};
/// let one = service_fn(|()| async { Ok::<_, std::io::Error>(1) });
/// let mut service = TimeoutLayer::new(Duration::from_secs(1)).layer(one);
/// let _response: ResponseFuture<_> = service.call(());
/// ```
///
/// `L` is what a request that takes too long fails with, and `A` the layer's answer to it.
///
/// # Cancel safety
///
/// Dropping the future drops the inner response and cancels the timer.
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[pin_project]
pub struct ResponseFuture<F, L = Elapsed, A = ()> {
    #[pin]
    response: future::Timeout<Begun<F>, Deadline, error::Error>,
    late: PhantomData<fn() -> L>,
    answer: A,
}

impl<F, T, E, L> Future for ResponseFuture<F, L>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
    L: From<DeadlineExceeded> + Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut response = self.project().response;
        Poll::Ready(match ready!(response.as_mut().poll(cx)) {
            Ok(response) => response.map_err(Into::into),
            Err(error) if error.is_elapsed() => Err(L::from(DeadlineExceeded::new(response.deadline())).into()),
            Err(error) => Err(error.into()),
        })
    }
}

impl<F, T, E, A> Future for ResponseFuture<F, DeadlineExceeded, A>
where
    F: Future<Output = Result<T, E>>,
    A: Fn(Unanswered) -> T,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let answer = ready!(this.response.as_mut().poll(cx));
        Poll::Ready(answer.unwrap_or_else(|error| {
            let late = DeadlineExceeded::new(this.response.deadline());
            Ok((this.answer)(if error.is_elapsed() { Unanswered::Late(late) } else { Unanswered::Refused(error) }))
        }))
    }
}

// Limits and answers may be closures, which are not `Debug`.
impl<L, A> fmt::Debug for TimeoutLayer<L, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutLayer").field("timer", &self.timer).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, L, A> fmt::Debug for Timeout<S, L, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("inner", &self.inner).field("layer", &self.layer).finish()
    }
}

impl<F, L, A> fmt::Debug for ResponseFuture<F, L, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("deadline", &self.response.deadline()).finish_non_exhaustive()
    }
}
