//! `tower::Timeout` and `TimeoutLayer`, compared with tower's own wherever the two should agree. The clock is paused.

use std::convert::Infallible;
use std::future::{Ready, pending, ready};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{ms, paused};
use hairspring::error::Elapsed;
use hairspring::tower::{Timeout, TimeoutLayer};
use hairspring::{Deadline, DeadlineExceeded, Instant, Timer, sleep};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};

/// Waits for the requested time, and answers with it.
async fn take(millis: u64) -> io::Result<u64> {
    sleep(ms(millis)).await;
    if millis == 13 { Err(io::ErrorKind::InvalidData.into()) } else { Ok(millis) }
}

#[test]
fn a_request_that_takes_longer_fails_at_the_limit_and_others_are_left_alone() {
    paused().block_on(async {
        let own = Timer::builder().build().unwrap();
        for layer in [TimeoutLayer::new(ms(100)), TimeoutLayer::with_timer(ms(100), &own)] {
            let mut service = ServiceBuilder::new().layer(layer).service(service_fn(take));
            let start = Instant::now();
            assert_eq!(service.ready().await.unwrap().call(99).await.unwrap(), 99);
            assert_eq!(start.elapsed(), ms(99));

            let start = Instant::now();
            let error = service.ready().await.unwrap().call(101).await.unwrap_err();
            assert_eq!(start.elapsed(), ms(100));
            assert!(error.is::<Elapsed>());
            // The limit is each request's.
            assert_eq!(service.ready().await.unwrap().call(99).await.unwrap(), 99);
        }
    });
}

/// A timer with no room: the panic names the line that made the layer, not one of this crate.
#[test]
fn a_panic_names_the_line_that_made_the_layer() {
    paused().block_on(async {
        let timer = Timer::builder().capacity(1).build().unwrap();
        let mut first = timer.sleep(crate::common::HOUR);
        assert!(crate::common::poll(&mut first).is_pending());
        let layer = TimeoutLayer::with_timer(ms(100), &timer);
        let made = format!("{}:{}:", file!(), line!() - 1);
        let mut service = layer.layer(service_fn(take));
        let mut request = Box::pin(service.call(1));
        let said = crate::common::panic_message(|| crate::common::poll(&mut request));
        assert!(said.contains("at capacity: 1 pending") && said.contains(&made), "{said}");
    });
}

#[test]
fn an_error_of_the_service_is_handed_on() {
    paused().block_on(async {
        let error = Timeout::new(service_fn(take), ms(100)).oneshot(13).await.unwrap_err();
        assert_eq!(error.downcast_ref::<io::Error>().unwrap().kind(), io::ErrorKind::InvalidData);
    });
}

#[test]
fn the_time_counts_from_the_call() {
    paused().block_on(async {
        let mut service = Timeout::new(service_fn(take), ms(100));
        let response = service.call(99);
        sleep(ms(150)).await;
        let start = Instant::now();
        assert!(response.await.unwrap_err().is::<Elapsed>());
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn a_response_that_is_ready_is_taken_whatever_the_limit() {
    // There is no runtime here: no timer is armed.
    let mut service = Timeout::new(service_fn(|()| ready(Ok::<_, Infallible>(1))), Duration::ZERO);
    let mut response = service.call(());
    assert!(matches!(crate::common::poll(&mut response), Poll::Ready(Ok(1))));
}

#[test]
fn a_request_that_took_too_long_is_dropped() {
    paused().block_on(async {
        let request = Arc::new(());
        let service = service_fn(|request: Arc<()>| async move {
            pending::<()>().await;
            Ok::<_, Infallible>(request)
        });
        let response = Timeout::new(service, ms(100)).oneshot(Arc::clone(&request)).await;
        assert!(response.unwrap_err().is::<Elapsed>());
        assert_eq!(Arc::strong_count(&request), 1);
    });
}

/// Each request says how long it takes, and how long it may take.
#[test]
fn each_request_may_have_a_deadline_of_its_own() {
    type Request = (u64, Option<Deadline>);

    paused().block_on(async {
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
        assert_eq!(
            error.to_string(),
            "the deadline `request` has passed",
            "no line of the source: a client may read it"
        );
        let error = service.ready().await.unwrap().call((13, deadline(100))).await.unwrap_err();
        assert!(error.is::<io::Error>(), "the service's own");
    });
}

/// The service's error stays its own: no other is possible here.
#[test]
fn a_request_that_takes_longer_may_be_answered_with_a_response() {
    paused().block_on(async {
        let own = Timer::builder().build().unwrap();
        for layer in [TimeoutLayer::new(ms(100)), TimeoutLayer::with_timer(ms(100), &own)] {
            let start = Instant::now();
            let late = move |late: DeadlineExceeded| {
                assert_eq!(late.deadline().instant(), Some(Instant::now()));
                assert_eq!((late.name(), late.deadline().set_at().file()), (None, file!()));
                0
            };
            let mut service = layer.respond_with(late).layer(service_fn(take));
            let answers: [io::Result<u64>; 2] =
                [service.ready().await.unwrap().call(99).await, service.ready().await.unwrap().call(101).await];
            assert_eq!(answers.map(Result::unwrap), [99, 0]);
            assert_eq!(start.elapsed(), ms(199));
            assert_eq!(service.call(13).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        assert_eq!(own.metrics().fired(), 1);
        let mut cx = Context::from_waker(Waker::noop());
        let layer = TimeoutLayer::new(ms(100)).respond_with(|_late| ());
        assert!(layer.layer(Busy(Poll::Pending)).poll_ready(&mut cx).is_pending());
        let failed: Poll<io::Result<()>> =
            layer.layer(Busy(Poll::Ready(Err(io::ErrorKind::Other)))).poll_ready(&mut cx);
        assert!(matches!(failed, Poll::Ready(Err(_))));
    });
}

#[test]
fn the_answer_to_a_request_that_had_a_deadline_of_its_own_knows_which() {
    paused().block_on(async {
        let layer = TimeoutLayer::per_request(|deadline: &Option<Deadline>| *deadline);
        let layer = layer.respond_with(|late: DeadlineExceeded| late.name().unwrap_or("unnamed"));
        let slow = service_fn(|_: Option<Deadline>| async {
            sleep(ms(200)).await;
            Ok::<_, Infallible>("done")
        });
        let mut service = layer.layer(slow);
        let named = Deadline::after(ms(100)).named("request");
        let start = Instant::now();
        let Ok(answer) = service.ready().await.unwrap().call(Some(named)).await;
        assert_eq!((answer, start.elapsed()), ("request", ms(100)));
        for deadline in [None, Some(Deadline::NEVER)] {
            let Ok(answer) = service.ready().await.unwrap().call(deadline).await;
            assert_eq!(answer, "done");
        }
        let mut cx = Context::from_waker(Waker::noop());
        let layer = TimeoutLayer::per_request(|()| None).respond_with(|_late| ());
        assert!(layer.layer(Busy(Poll::Pending)).poll_ready(&mut cx).is_pending());
    });
}

/// A service that decides when it is ready.
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
    let mut cx = Context::from_waker(Waker::noop());
    let mut service = Timeout::new(Busy(Poll::Pending), ms(100));
    assert!(service.poll_ready(&mut cx).is_pending());
    service.get_mut().0 = Poll::Ready(Ok(()));
    assert!(matches!(service.poll_ready(&mut cx), Poll::Ready(Ok(()))));
    service.get_mut().0 = Poll::Ready(Err(io::ErrorKind::Other));
    assert!(matches!(service.poll_ready(&mut cx), Poll::Ready(Err(error)) if error.is::<io::Error>()));
    assert!(matches!(service.get_ref(), Busy(Poll::Ready(Err(_)))));
    assert!(matches!(service.into_inner(), Busy(Poll::Ready(Err(_)))));

    let layer = TimeoutLayer::per_request(|()| None);
    assert!(layer.layer(Busy(Poll::Pending)).poll_ready(&mut cx).is_pending());
    let failed = layer.layer(Busy(Poll::Ready(Err(io::ErrorKind::Other)))).poll_ready(&mut cx);
    assert!(matches!(failed, Poll::Ready(Err(error)) if error.is::<io::Error>()));
}

/// A program that names the layer, the service and the error compiles with tower's and with ours.
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

#[test]
fn a_program_does_the_same_with_towers_and_with_ours() {
    paused().block_on(async {
        for millis in [0, 1, 13, 99, 200, 100_000] {
            let (theirs, _) = theirs::outcome(millis).await;
            let (ours, took) = ours::outcome(millis).await;
            assert_eq!(ours, theirs, "{millis}");
            assert_eq!(took, ms(millis.min(100)));
        }
    });
}
