//! `tower::TimeoutLayer`, on a paused clock. Where tower's own does the same, a test compares them.

use std::future::{Ready, pending, ready};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{HOUR, ms, panic_message, paused, poll, undriven};
use hairspring::error::{Elapsed, Error};
use hairspring::tower::{TimeoutLayer, Unanswered};
use hairspring::{Deadline, DeadlineExceeded, Instant, Timer, sleep};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

/// A service that waits for the requested time, and answers with it.
async fn take(millis: u64) -> io::Result<u64> {
    sleep(ms(millis)).await;
    if millis == 13 { Err(io::ErrorKind::InvalidData.into()) } else { Ok(millis) }
}

#[tokio::test(start_paused = true)]
async fn all_kinds_of_limits_may_use_a_chosen_timer() {
    let own = Timer::builder().build().unwrap();
    let each = TimeoutLayer::per_request(|_: &u64| Some(Deadline::after(ms(100))));
    let stuck = service_fn(|_: u64| pending::<io::Result<u64>>());
    let error = each.clone().with_timer(&own).layer(stuck).oneshot(1).await.unwrap_err();
    assert!(error.is::<DeadlineExceeded>());
    let answers = each.with_timer(&own).respond_with(|_late| 504).layer(stuck);
    assert_eq!(answers.oneshot(1).await.unwrap(), 504);
    let answers = TimeoutLayer::new(ms(100)).respond_with(|_late| 504).with_timer(&own).layer(stuck);
    assert_eq!(answers.oneshot(1).await.unwrap(), 504);
    assert!(TimeoutLayer::new(ms(100)).with_timer(&own).layer(stuck).oneshot(1).await.unwrap_err().is::<Elapsed>());
    assert_eq!((own.metrics().fired(), Timer::current().metrics().registered()), (4, 0));
}

/// Bugs that this crate had: the request's task panicked; and a service began what was then refused.
#[test]
fn a_timer_that_was_shut_down_fails_requests_before_they_begin() {
    paused().block_on(async {
        let (own, begun) = (Timer::builder().build().unwrap(), Arc::<AtomicUsize>::default());
        let counts = begun.clone();
        let stuck = service_fn(move |_: u64| {
            counts.fetch_add(1, SeqCst);
            pending::<io::Result<u64>>()
        });
        let layer = TimeoutLayer::new(HOUR).with_timer(&own);
        let says_why = layer.clone().respond_with(|why| if let Unanswered::Late(_) = why { 504 } else { 503 });
        let mut waits = Box::pin(layer.clone().layer(stuck.clone()).oneshot(1));
        assert!(poll(&mut waits).is_pending());
        assert_eq!(own.shutdown(), 1);
        let is_shutdown = |error: BoxError| error.downcast_ref::<Error>().is_some_and(Error::is_shutdown);
        assert!(waits.await.is_err_and(is_shutdown));
        assert_eq!(begun.load(SeqCst), 1);
        assert!(layer.layer(stuck.clone()).oneshot(1).await.is_err_and(is_shutdown));
        assert_eq!(says_why.layer(stuck).oneshot(1).await.unwrap(), 503);
        assert_eq!(begun.load(SeqCst), 1, "the service was not called again");
    });
}

/// It would let requests begin, and then throw them away.
#[test]
fn a_timer_with_max_pending_is_refused() {
    let (timer, _runtime) = undriven(Timer::builder().max_pending(1));
    let message = panic_message(|| TimeoutLayer::new(HOUR).with_timer(&timer));
    assert!(message.starts_with("`TimeoutLayer` does not accept a timer with `max_pending`"), "{message}");
}

/// A request: how long it takes, and how long it may take.
type Request = (u64, Option<Deadline>);

#[tokio::test(start_paused = true)]
async fn each_request_may_have_a_deadline() {
    let layer = TimeoutLayer::per_request(|(_, deadline): &Request| *deadline);
    let mut service = layer.clone().layer(service_fn(|(takes, _): Request| take(takes)));
    let deadline = |millis| Some(Deadline::after(ms(millis)).named("request"));
    for (takes, deadline) in [(99, deadline(100)), (99, Some(Deadline::NEVER)), (100_000, None)] {
        assert_eq!(service.ready().await.unwrap().call((takes, deadline)).await.unwrap(), takes);
    }
    let start = Instant::now();
    let error = service.ready().await.unwrap().call((101, deadline(100))).await.unwrap_err();
    assert_eq!(start.elapsed(), ms(100));
    assert_eq!(error.downcast_ref::<DeadlineExceeded>().unwrap().name(), Some("request"));
    assert_eq!(error.to_string(), "the deadline `request` has passed", "a client may read this");
    let error = service.ready().await.unwrap().call((13, deadline(100))).await.unwrap_err();
    assert!(error.is::<io::Error>(), "the service's own");
}

/// The error type stays that of the inner service.
#[tokio::test(start_paused = true)]
async fn a_late_request_may_have_a_response() {
    let start = Instant::now();
    let layer = TimeoutLayer::new(ms(100)).respond_with(move |why| {
        let Unanswered::Late(late) = why else { panic!("{why}") };
        assert!(late.name().is_none() && format!("{late:?}").contains(file!()), "{late:?}");
        assert_eq!(late, DeadlineExceeded::new(Deadline::at(Instant::now())));
        u64::try_from(start.elapsed().as_millis()).unwrap()
    });
    let mut service = layer.layer(service_fn(take));
    for (takes, answer) in [(99, 99), (101, 199)] {
        let answered: io::Result<u64> = service.ready().await.unwrap().call(takes).await;
        assert_eq!((answered.unwrap(), start.elapsed()), (answer, ms(answer)));
    }
    assert_eq!(service.call(13).await.unwrap_err().kind(), io::ErrorKind::InvalidData);

    let layer = TimeoutLayer::per_request(|(_, deadline): &Request| *deadline);
    let layer = layer.respond_with(|why| match why {
        Unanswered::Late(late) if late.name() == Some("request") => 1,
        _ => 2,
    });
    let mut service = layer.layer(service_fn(|(takes, _): Request| take(takes)));
    let named = Deadline::after(ms(100)).named("request");
    for (deadline, answer) in [(Some(named), 1), (None, 200), (Some(Deadline::NEVER), 200)] {
        assert_eq!(service.ready().await.unwrap().call((200, deadline)).await.unwrap(), answer);
    }
}

/// A service with its own readiness.
#[derive(Debug, Clone)]
struct Busy(Poll<Result<(), io::ErrorKind>>);

impl Service<()> for Busy {
    type Response = ();
    type Error = io::Error;
    type Future = Ready<io::Result<()>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.map_err(io::Error::from)
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(Ok(()))
    }
}

#[test]
fn it_is_ready_when_the_service_is() {
    fn follows<S: Service<()>>(of: impl Fn(Busy) -> S) {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(of(Busy(Poll::Pending)).poll_ready(&mut cx).is_pending());
        assert!(matches!(of(Busy(Poll::Ready(Ok(())))).poll_ready(&mut cx), Poll::Ready(Ok(()))));
        let fails = Busy(Poll::Ready(Err(io::ErrorKind::Other)));
        assert!(matches!(of(fails).poll_ready(&mut cx), Poll::Ready(Err(_))));
    }
    follows(|service| TimeoutLayer::new(ms(100)).layer(service));
    follows(|service| TimeoutLayer::per_request(|()| None).layer(service));
    follows(|service| TimeoutLayer::new(ms(100)).respond_with(|_late| ()).layer(service));
    follows(|service| TimeoutLayer::per_request(|()| None).respond_with(|_late| ()).layer(service));
}

/// A program that names the layer, the service and the error, once with tower's and once with ours.
macro_rules! program {
    ($name:ident, $timeout:path, $layer:path, $elapsed:path) => {
        mod $name {
            use super::*;
            use $elapsed as Elapsed;
            use $layer as TimeoutLayer;
            use $timeout as Timeout;

            const LAYER: TimeoutLayer = TimeoutLayer::new(Duration::from_millis(100));

            pub(super) async fn outcome(millis: u64) -> (Result<u64, &'static str>, Duration) {
                let start = Instant::now();
                let service: Timeout<_> = LAYER.layer(service_fn(take));
                let result: Result<u64, BoxError> = service.oneshot(millis).await;
                let result = result.map_err(|error| if error.is::<Elapsed>() { "too slow" } else { "failed" });
                (result, start.elapsed())
            }
        }
    };
}

program!(theirs, tower::timeout::Timeout, tower::timeout::TimeoutLayer, tower::timeout::error::Elapsed);
program!(ours, hairspring::tower::Timeout, hairspring::tower::TimeoutLayer, hairspring::error::Elapsed);

#[tokio::test(start_paused = true)]
async fn it_behaves_like_towers_timeout() {
    for millis in [0, 1, 13, 99, 200, 100_000] {
        let (theirs, _) = theirs::outcome(millis).await;
        let (ours, took) = ours::outcome(millis).await;
        assert_eq!(ours, theirs, "{millis}");
        assert_eq!(took, ms(millis.min(100)));
    }
    let (start, late) = (Instant::now(), TimeoutLayer::new(ms(100)).layer(service_fn(take)).call(101));
    sleep(ms(60)).await;
    assert!(late.await.is_err() && start.elapsed() == ms(100), "the limit counts from the call");
}
