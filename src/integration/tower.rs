//! [`Timeout`] and [`TimeoutLayer`], which limit the time of each request of a tower service. Need the feature `tower`.
//!
//! They replace `tower::timeout`. If a request takes too long, its error is [`Elapsed`](crate::error::Elapsed), in a
//! [`BoxError`]. With [`TimeoutLayer::per_request`], each request has a [`Deadline`] of its own.
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

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::deadline::{Deadline, Limited};
use crate::future::{self, sleep};
use crate::timer::Timer;

/// The error of a service with a [`Timeout`]: the service's own error, or [`Elapsed`](crate::error::Elapsed). With
/// [`PerRequest`], [`DeadlineExceeded`](crate::DeadlineExceeded) in place of the latter. It is the same type as tower's.
///
/// ```
/// use hairspring::{error::Elapsed, tower::BoxError};
/// let error: BoxError = Elapsed::new().into();
/// assert!(error.is::<Elapsed>());
/// ```
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A layer that applies a [`Timeout`] to a service, like tower's `TimeoutLayer`.
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
#[derive(Debug, Clone)]
pub struct TimeoutLayer<L = Fixed> {
    limit: L,
}

impl TimeoutLayer {
    /// Creates a layer that limits each request to `duration`, on the timer of the runtime that polls the response.
    ///
    /// ```
    /// use hairspring::{Duration, tower::TimeoutLayer};
    /// const LIMIT: TimeoutLayer = TimeoutLayer::new(Duration::from_secs(1));
    /// # let _ = LIMIT;
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn new(duration: Duration) -> TimeoutLayer {
        TimeoutLayer { limit: Fixed::new(duration) }
    }

    /// Creates a layer that limits each request to the [`Deadline`] that `deadline_of` returns for it, such as that of a
    /// header. `None` is no limit. See [`PerRequest`].
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
    pub fn per_request<Request, F: Fn(&Request) -> Option<Deadline>>(deadline_of: F) -> TimeoutLayer<PerRequest<F>> {
        TimeoutLayer { limit: PerRequest { deadline_of } }
    }

    /// Uses the given timer for this layer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer, tower::TimeoutLayer};
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// let timer = Timer::builder().capacity(10_000).build().unwrap();
    /// let echo = service_fn(|request: u8| async move { Ok::<_, std::io::Error>(request) });
    /// let service = TimeoutLayer::new(Duration::from_secs(60)).with_timer(&timer).layer(echo);
    /// assert_eq!(service.oneshot(7).await.unwrap(), 7);
    /// # }
    /// ```
    #[must_use]
    pub fn with_timer(self, timer: &Timer) -> TimeoutLayer {
        TimeoutLayer { limit: self.limit.with_timer(timer) }
    }
}

impl<S, L: Clone> Layer<S> for TimeoutLayer<L> {
    type Service = Timeout<S, L>;

    fn layer(&self, inner: S) -> Timeout<S, L> {
        Timeout { inner, limit: self.limit.clone() }
    }
}

/// A service that limits the time of each request, like tower's `Timeout`.
///
/// The time counts from `call`; waiting in `poll_ready` is not limited. A request that takes too long is dropped.
///
/// # Errors
/// The response resolves to [`Elapsed`](crate::error::Elapsed) if the limit passes first, to
/// [`DeadlineExceeded`](crate::DeadlineExceeded) if that is a deadline of the request's own, or to the service's own
/// error.
///
/// # Panics
/// Polling the response panics in the same cases as [`sleep`](crate::sleep()).
///
/// ```
/// use hairspring::{Duration, tower::Timeout};
/// use tower::{ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let double = service_fn(|request: u8| async move { Ok::<_, std::io::Error>(request * 2) });
/// assert_eq!(Timeout::new(double, Duration::from_secs(1)).oneshot(4).await.unwrap(), 8);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Timeout<S, L = Fixed> {
    inner: S,
    limit: L,
}

impl<S> Timeout<S> {
    /// Limits each request of `inner` to `duration`, on the timer of the runtime that polls the response.
    ///
    /// ```
    /// use hairspring::{Duration, tower::Timeout};
    /// use tower::{ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let stuck = service_fn(|_request: u8| std::future::pending::<Result<u8, std::io::Error>>());
    /// assert!(Timeout::new(stuck, Duration::from_millis(1)).oneshot(7).await.is_err());
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn new(inner: S, duration: Duration) -> Timeout<S> {
        Timeout { inner, limit: Fixed::new(duration) }
    }

    /// Uses the given timer for this service.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer, tower::Timeout};
    /// use tower::{ServiceExt, service_fn};
    ///
    /// let timer = Timer::builder().build().unwrap();
    /// let stuck = service_fn(|_request: u8| std::future::pending::<Result<u8, std::io::Error>>());
    /// assert!(Timeout::new(stuck, Duration::from_secs(1)).with_timer(&timer).oneshot(7).await.is_err());
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    #[must_use]
    pub fn with_timer(self, timer: &Timer) -> Timeout<S> {
        Timeout { inner: self.inner, limit: self.limit.with_timer(timer) }
    }
}

impl<S, L> Timeout<S, L> {
    /// Returns a reference to the inner service.
    ///
    /// ```
    /// # use hairspring::{Duration, tower::Timeout};
    /// assert_eq!(*Timeout::new(7, Duration::ZERO).get_ref(), 7);
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns a mutable reference to the inner service.
    ///
    /// ```
    /// # use hairspring::{Duration, tower::Timeout};
    /// let mut service = Timeout::new(7, Duration::ZERO);
    /// *service.get_mut() += 1;
    /// assert_eq!(service.into_inner(), 8);
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner service, without the limit.
    ///
    /// ```
    /// # use hairspring::{Duration, tower::Timeout};
    /// assert_eq!(Timeout::new(7, Duration::ZERO).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, Request> Service<Request> for Timeout<S>
where
    S: Service<Request, Error: Into<BoxError>>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<future::Timeout<S::Future>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        ResponseFuture { response: self.limit.start(self.inner.call(request)) }
    }
}

impl<S, F, Request> Service<Request> for Timeout<S, PerRequest<F>>
where
    S: Service<Request, Error: Into<BoxError>>,
    F: Fn(&Request) -> Option<Deadline>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<Limited<S::Future>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let deadline = (self.limit.deadline_of)(&request).unwrap_or(Deadline::NEVER);
        ResponseFuture { response: deadline.limit(self.inner.call(request)) }
    }
}

/// The response future of a [`Timeout`].
///
/// # Cancel safety
/// Dropping it drops the inner response and cancels the timer.
///
/// ```
/// # use hairspring::{Duration, tower::{ResponseFuture, Timeout}};
/// # use tower::{Service, service_fn};
/// let mut service = Timeout::new(service_fn(|()| async { Ok::<_, std::io::Error>(1) }), Duration::from_secs(1));
/// let _response: ResponseFuture<_> = service.call(());
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[derive(Debug)]
#[pin_project]
pub struct ResponseFuture<L> {
    /// The response, limited.
    #[pin]
    response: L,
}

impl<L, T, E, Late> Future for ResponseFuture<L>
where
    L: Future<Output = Result<Result<T, E>, Late>>,
    E: Into<BoxError>,
    Late: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let limited = ready!(self.project().response.poll(cx));
        Poll::Ready(limited.map_err(Into::into)?.map_err(Into::into))
    }
}

/// The limit of a [`TimeoutLayer`] or [`Timeout`] that has a deadline for each request, from a function of the user's.
/// [`TimeoutLayer::per_request`] makes it.
///
/// `call` asks for the deadline before it passes the request on.
///
/// ```
/// use hairspring::{Deadline, tower::{PerRequest, Timeout, TimeoutLayer}};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let layer: TimeoutLayer<PerRequest<_>> = TimeoutLayer::per_request(|_request: &u8| Some(Deadline::NEVER));
/// let echo = service_fn(|request: u8| async move { Ok::<_, std::io::Error>(request) });
/// let service: Timeout<_, PerRequest<_>> = layer.layer(echo);
/// assert_eq!(service.oneshot(7).await.unwrap(), 7);
/// # }
/// ```
#[derive(Clone)]
pub struct PerRequest<F> {
    deadline_of: F,
}

impl<F> fmt::Debug for PerRequest<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerRequest").finish_non_exhaustive()
    }
}

/// The limit of a [`TimeoutLayer`] or [`Timeout`] that is the same for all requests.
///
/// ```
/// use hairspring::{Duration, tower::{Fixed, Timeout}};
/// let _service: Timeout<&str, Fixed> = Timeout::new("any", Duration::from_secs(1));
/// ```
#[derive(Debug, Clone)]
pub struct Fixed {
    duration: Duration,
    /// `None` for the timer of the runtime that polls.
    timer: Option<Timer>,
    /// The line of the user's that made it, which a panic of its timeouts names.
    made: &'static Location<'static>,
}

impl Fixed {
    #[track_caller]
    const fn new(duration: Duration) -> Fixed {
        Fixed { duration, timer: None, made: Location::caller() }
    }

    fn with_timer(self, timer: &Timer) -> Fixed {
        Fixed { timer: Some(timer.clone()), ..self }
    }

    fn start<F: Future>(&self, response: F) -> future::Timeout<F> {
        let sleep = self.timer.as_ref().map_or_else(|| sleep(self.duration), |timer| timer.sleep(self.duration));
        future::Timeout::new(response, sleep.made_at(self.made))
    }
}
