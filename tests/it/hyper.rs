//! `HyperTimer` in hyper's own servers and clients: what a slow, a silent and a well-behaved peer see.
//!
//! Most tests run in memory with tokio's clock paused, so their times are exact. Tests over TCP run in real time.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::ptr;
use std::time::Duration;

use crate::common::{
    HOUR, HUNG, Wakes, current_thread, inside, longest, ms, must_end, paused, poll, poll_with, settle,
};
use hairspring::hyper::HyperTimer;
use hairspring::{Instant, Sleep, Timer, sleep, sleep_until};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{self, Timer as _};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

const LIMIT: Duration = Duration::from_secs(10);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";
/// What begins each HTTP/2 connection: the preface and an empty `SETTINGS` frame.
const HTTP2_HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}

/// Serves HTTP/1 and limits the header of a request to `LIMIT`.
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

/// Once on the runtime's timer, and twice on a timer that was built.
fn timers() -> [HyperTimer; 3] {
    let own = Timer::builder().build().unwrap();
    [HyperTimer::new(), HyperTimer::with_timer(&own), HyperTimer::from(own)]
}

#[test]
fn a_silent_client_is_cut_off_at_the_limit() {
    paused().block_on(async {
        for timer in timers() {
            let start = Instant::now();
            let (mut client, server) = connected(timer);
            closed(&mut client).await;
            assert_eq!(start.elapsed(), LIMIT);
            assert!(server.await.unwrap().unwrap_err().is_timeout());
        }
    });
}

#[test]
fn a_client_that_sends_its_header_byte_by_byte_is_cut_off_at_the_limit() {
    paused().block_on(async {
        for timer in timers() {
            let start = Instant::now();
            let (mut client, server) = connected(timer);
            // A byte a second: each is progress, and the header as a whole takes too long.
            for &byte in REQUEST {
                sleep(Duration::from_secs(1)).await;
                if client.write_all(&[byte]).await.is_err() {
                    break;
                }
            }
            assert_eq!(start.elapsed(), LIMIT + Duration::from_secs(1), "found with the write after it");
            assert!(server.await.unwrap().unwrap_err().is_timeout());
        }
    });
}

#[test]
fn each_request_has_the_whole_limit_and_silence_after_it_is_cut_off() {
    paused().block_on(async {
        for timer in timers() {
            let (mut client, server) = connected(timer);
            for _ in 0..20 {
                sleep(ms(9_999)).await;
                ask(&mut client).await.unwrap();
            }
            let start = Instant::now();
            closed(&mut client).await;
            assert_eq!(start.elapsed(), LIMIT);
            drop(server);
        }
    });
}

#[test]
fn a_live_http2_client_stays_and_a_mute_one_is_cut_off_when_its_ping_goes_unanswered() {
    paused().block_on(async {
        for timer in timers() {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(timer).keep_alive_interval(LIMIT).keep_alive_timeout(ms(3_000));

            let (client, io) = duplex(4096);
            let server = tokio::spawn(builder.serve_connection(TokioIo::new(io), service_fn(hello)));
            let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client));
            let (mut requests, connection) = handshake.await.unwrap();
            let client = tokio::spawn(connection);
            sleep(HOUR).await;
            let response = requests.send_request(Request::new(Empty::<Bytes>::new())).await.unwrap();
            assert_eq!(response.status(), 200);
            drop((requests, response));
            client.await.unwrap().unwrap();
            server.await.unwrap().unwrap();

            let start = Instant::now();
            let (mut client, io) = duplex(4096);
            let server = tokio::spawn(builder.serve_connection(TokioIo::new(io), service_fn(hello)));
            client.write_all(HTTP2_HELLO).await.unwrap();
            closed(&mut client).await;
            assert_eq!(start.elapsed(), LIMIT + ms(3_000), "the pause before the ping, and the wait for its answer");
            assert!(server.await.unwrap().is_err());
        }
    });
}

#[test]
fn an_http2_client_gives_up_on_a_mute_server() {
    paused().block_on(async {
        for timer in timers() {
            let start = Instant::now();
            let (io, mut server) = duplex(4096);
            server.write_all(&HTTP2_HELLO[24..]).await.unwrap();
            let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
            builder.timer(timer).keep_alive_interval(LIMIT).keep_alive_timeout(ms(3_000)).keep_alive_while_idle(true);
            let (mut requests, connection) = builder.handshake(TokioIo::new(io)).await.unwrap();
            tokio::spawn(connection);
            requests.send_request(Request::new(Empty::<Bytes>::new())).await.unwrap_err();
            assert_eq!(start.elapsed(), LIMIT + ms(3_000));
        }
    });
}

#[test]
fn hyper_utils_server_of_both_versions_takes_it() {
    paused().block_on(async {
        for timer in timers() {
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http1().timer(timer.clone()).header_read_timeout(LIMIT);
            builder.http2().timer(timer);
            let serve = |builder: &auto::Builder<TokioExecutor>, io| {
                let builder = builder.clone();
                tokio::spawn(async move { builder.serve_connection(TokioIo::new(io), service_fn(hello)).await })
            };

            let (mut idle, io) = duplex(4096);
            serve(&builder, io);
            ask(&mut idle).await.unwrap();
            let start = Instant::now();
            closed(&mut idle).await;
            assert_eq!(start.elapsed(), LIMIT);

            let (mut slow, io) = duplex(4096);
            serve(&builder, io);
            slow.write_all(&REQUEST[..9]).await.unwrap();
            let start = Instant::now();
            closed(&mut slow).await;
            assert_eq!(start.elapsed(), LIMIT);

            // With a client that says nothing, it waits without limit for bytes that show the version, if that is open.
            let (mut silent, io) = duplex(4096);
            serve(&builder.http1_only(), io);
            let start = Instant::now();
            closed(&mut silent).await;
            assert_eq!(start.elapsed(), LIMIT);
        }
    });
}

#[test]
fn hyper_utils_pool_closes_idle_connections_with_it() {
    must_end(|| {
        // In real time: this pool's connections are over TCP.
        current_thread().block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let uri = format!("http://{}/", listener.local_addr().unwrap());
            let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
                .pool_timer(HyperTimer::new())
                .pool_idle_timeout(ms(100))
                .build_http::<Empty<Bytes>>();
            let start = Instant::now();
            let serve = async {
                let (stream, _) = listener.accept().await.unwrap();
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello)).await.unwrap();
            };
            let asked = async { client.get(uri.parse().unwrap()).await.unwrap().collect().await.unwrap().to_bytes() };
            // The server's end comes when the client closes the connection.
            let (body, ()) = tokio::join!(asked, serve);
            assert_eq!(body, "hello");
            assert!(start.elapsed() >= ms(100));
        });
    });
}

#[test]
fn over_tcp_on_a_runtime_without_timers_the_slow_are_cut_off_and_the_others_served() {
    const LIMIT: Duration = Duration::from_millis(100);
    must_end(|| {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut client = TcpStream::connect(address).await.unwrap();
            // Nobody is too slow for the limit of this one, however busy the machine is.
            let server = serve_http1(listener.accept().await.unwrap().0, HyperTimer::new(), HUNG);

            for _ in 0..5 {
                let start = Instant::now();
                let mut slow = TcpStream::connect(address).await.unwrap();
                let cuts_off = serve_http1(listener.accept().await.unwrap().0, HyperTimer::new(), LIMIT);
                slow.write_all(&REQUEST[..9]).await.unwrap();
                for _ in 0..50 {
                    crate::common::step();
                    ask(&mut client).await.unwrap();
                }
                closed(&mut slow).await;
                assert!(cuts_off.await.unwrap().unwrap_err().is_timeout());
                assert!((LIMIT..HUNG).contains(&start.elapsed()), "cut off after {:?}", start.elapsed());
            }
            drop(client);
            server.await.unwrap().unwrap();
        });
    });
}

#[test]
fn a_reset_keeps_the_allocation_and_wakes_at_the_new_time_without_a_poll() {
    paused().block_on(async {
        for timer in timers() {
            let start = timer.now();
            let mut limit = timer.sleep(ms(1_000));
            let address: *const dyn rt::Sleep = &raw const *limit;
            let (woken, waker) = Wakes::new();
            assert!(poll_with(&mut limit, &waker).is_pending());
            for (other, wakes) in [(5_000, 0), (2_000, 1), (7_000, 1)] {
                timer.reset(&mut limit, start + ms(other));
                assert!(ptr::addr_eq(address, &raw const *limit), "moved to another box");
                sleep_until((start + ms(2_000)).into()).await;
                settle().await;
                assert_eq!(woken.count(), wakes, "{other}");
            }
            limit.as_mut().await;
            assert_eq!(timer.now() - start, ms(7_000));
            // As good after it has elapsed.
            timer.reset(&mut limit, start + ms(9_000));
            assert!(ptr::addr_eq(address, &raw const *limit));
            limit.as_mut().await;
            assert_eq!(timer.now() - start, ms(9_000));
        }
    });
}

#[test]
fn a_reset_takes_the_place_of_another_timers_sleep() {
    paused().block_on(async {
        let theirs = hyper_util::rt::TokioTimer::new();
        for timer in timers() {
            let start = timer.now();
            let mut limit = theirs.sleep(ms(1_000));
            timer.reset(&mut limit, start + ms(2_000));
            assert!(limit.is::<Sleep>());
            limit.await;
            assert_eq!(timer.now() - start, ms(2_000));
        }
    });
}

#[test]
fn the_longest_durations_are_taken() {
    let runtime = paused();
    inside(&runtime, || {
        for (timer, duration) in
            timers().into_iter().flat_map(|timer| longest().map(|longest| (timer.clone(), longest)))
        {
            let mut limit = timer.sleep(duration);
            assert!(poll(&mut limit).is_pending());
        }
    });
}

#[cfg(feature = "test-util")]
#[test]
fn on_a_timer_whose_clock_is_moved_by_hand_the_limit_is_exact() {
    use hairspring::test_util::ManualClock;

    must_end(|| {
        // Tokio's clock goes on as it likes.
        current_thread().block_on(async {
            let clock = ManualClock::new();
            let timer = Timer::builder().clock(&clock).build().unwrap();
            assert_eq!(HyperTimer::with_timer(&timer).now(), clock.now().into_std());
            let (mut client, server) = connected(HyperTimer::with_timer(&timer));
            ask(&mut client).await.unwrap();
            settle().await;
            clock.advance(LIMIT.checked_sub(Duration::from_nanos(1)).unwrap());
            ask(&mut client).await.unwrap();
            settle().await;
            clock.advance(LIMIT.checked_sub(Duration::from_nanos(1)).unwrap());
            settle().await;
            assert!(!server.is_finished());
            clock.advance(Duration::from_nanos(1));
            closed(&mut client).await;
        });
    });
}
