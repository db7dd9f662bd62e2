//! `HyperTimer` in hyper's servers and clients, with slow, silent and well-behaved peers.
//!
//! In-memory connections run on a paused clock, with exact times. The test over TCP runs in real time.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::ptr;
use std::time::Duration;

use crate::common::{HOUR, HUNG, Wakes, ms, must_end, paused, poll_with, settle};
use hairspring::hyper::HyperTimer;
use hairspring::{Instant, Sleep, Timer, sleep, sleep_until};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{self, Timer as _};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const LIMIT: Duration = Duration::from_secs(10);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";
/// The preface of HTTP/2 and an empty `SETTINGS` frame.
const HTTP2_HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}

/// Serves HTTP/1. A client has `limit` to send a request's header.
fn serve_http1<T>(io: T, timer: HyperTimer, limit: Duration) -> JoinHandle<hyper::Result<()>>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut server = http1::Builder::new();
    server.timer(timer).header_read_timeout(limit);
    tokio::spawn(server.serve_connection(TokioIo::new(io), service_fn(hello)))
}

/// The client's end of an in-memory connection to a server with `timer`.
fn connected(timer: HyperTimer) -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
    let (client, server) = duplex(4096);
    (client, serve_http1(server, timer, LIMIT))
}

/// Sends a request and reads the complete response.
async fn ask(client: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    client.write_all(REQUEST).await?;
    let mut response = Vec::new();
    while !response.ends_with(b"hello") {
        if client.read_buf(&mut response).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
    Ok(())
}

/// Reads until the server closes the connection.
async fn closed(client: &mut (impl AsyncRead + Unpin)) {
    let _ = client.read_to_end(&mut Vec::new()).await;
}

/// Runs `test` with the runtime's timer, and twice with one that was built.
fn with_each_timer(test: impl AsyncFn(HyperTimer)) {
    paused().block_on(async {
        let own = Timer::builder().build().unwrap();
        for timer in [HyperTimer::new(), HyperTimer::with_timer(&own), HyperTimer::from(own)] {
            test(timer).await;
        }
    });
}

#[test]
fn slow_and_silent_clients_are_disconnected_on_time() {
    with_each_timer(async |timer| {
        let start = Instant::now();
        let (mut client, server) = connected(timer.clone());
        for &byte in REQUEST {
            sleep(Duration::from_secs(1)).await;
            if client.write_all(&[byte]).await.is_err() {
                break;
            }
        }
        assert_eq!(start.elapsed(), LIMIT + Duration::from_secs(1), "the next write fails");
        assert!(server.await.unwrap().unwrap_err().is_timeout());

        let (mut client, _server) = connected(timer);
        for _ in 0..20 {
            sleep(ms(9_999)).await;
            ask(&mut client).await.expect("each request has the whole limit");
        }
        let start = Instant::now();
        closed(&mut client).await;
        assert_eq!(start.elapsed(), LIMIT, "the client falls silent after its requests");
    });
}

#[test]
fn http2_pings_disconnect_only_clients_that_do_not_answer() {
    with_each_timer(async |timer| {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(timer).keep_alive_interval(LIMIT).keep_alive_timeout(ms(3_000));
        let (client, io) = duplex(4096);
        let server = tokio::spawn(builder.serve_connection(TokioIo::new(io), service_fn(hello)));
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client));
        let (mut requests, connection) = handshake.await.unwrap();
        let client = tokio::spawn(connection);
        sleep(HOUR).await;
        let response = requests.send_request(Request::new(Empty::<Bytes>::new())).await.unwrap();
        assert_eq!(response.status(), 200, "a client that answers pings");
        drop((requests, response));
        client.await.unwrap().unwrap();
        server.await.unwrap().unwrap();

        let start = Instant::now();
        let (mut client, io) = duplex(4096);
        let server = tokio::spawn(builder.serve_connection(TokioIo::new(io), service_fn(hello)));
        client.write_all(HTTP2_HELLO).await.unwrap();
        closed(&mut client).await;
        assert_eq!(start.elapsed(), LIMIT + ms(3_000), "a client that does not");
        assert!(server.await.unwrap().is_err());
    });
}

#[test]
fn a_pool_closes_idle_connections_without_enable_time() {
    must_end(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let uri = format!("http://{}/", listener.local_addr().unwrap());
            let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
                .pool_timer(HyperTimer::new())
                .pool_idle_timeout(ms(100))
                .build_http::<Empty<Bytes>>();
            let start = Instant::now();
            // The server ends when the client closes the connection.
            let serve = async {
                let (stream, _) = listener.accept().await.unwrap();
                serve_http1(stream, HyperTimer::new(), HUNG).await.unwrap().unwrap();
            };
            let asked = async { client.get(uri.parse().unwrap()).await.unwrap().collect().await.unwrap().to_bytes() };
            let (body, ()) = tokio::join!(asked, serve);
            assert_eq!(body, "hello");
            assert!(start.elapsed() >= ms(100));
        });
    });
}

#[test]
fn a_reset_keeps_the_allocation_and_the_waker() {
    with_each_timer(async |timer| {
        let start = timer.now();
        let mut limit = timer.sleep(ms(1_000));
        let address: *const dyn rt::Sleep = &raw const *limit;
        let (woken, waker) = Wakes::new();
        assert!(poll_with(&mut limit, &waker).is_pending());
        for (other, wakes) in [(5_000, 0), (2_000, 1), (7_000, 1)] {
            timer.reset(&mut limit, start + ms(other));
            sleep_until((start + ms(2_000)).into()).await;
            settle().await;
            assert_eq!(woken.count(), wakes, "{other}");
        }
        limit.as_mut().await;
        assert_eq!(timer.now() - start, ms(7_000));
        timer.reset(&mut limit, start + ms(9_000));
        assert!(ptr::addr_eq(address, &raw const *limit), "the sleep moved to another box");
        limit.as_mut().await;
        assert_eq!(timer.now() - start, ms(9_000), "after it has elapsed");

        let mut theirs = hyper_util::rt::TokioTimer::new().sleep(ms(1_000));
        timer.reset(&mut theirs, start + ms(9_500));
        assert!(theirs.is::<Sleep>(), "a reset replaces the sleep of another timer");
        theirs.await;
        assert_eq!(timer.now() - start, ms(9_500));
    });
}

#[cfg(feature = "test-util")]
#[test]
fn hyper_sees_the_timers_clock() {
    let clock = hairspring::test_util::ManualClock::new();
    let timer = HyperTimer::with_timer(&Timer::builder().clock(&clock).build().unwrap());
    clock.advance(HOUR);
    assert_eq!(timer.now(), clock.now().into_std());
}
