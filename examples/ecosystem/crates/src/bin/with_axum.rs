//! axum, twice: behind a listener that limits connections, and on hyper, with limits on headers and handlers.

use std::convert::Infallible;
use std::error::Error;
use std::future::{pending, ready};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::{IncomingStream, Listener};
use axum::{Extension, Router};
use hairspring::hyper::HyperTimer;
use hairspring::io::TimeoutStream;
use hairspring::tower::TimeoutLayer;
use hairspring::{Instant, timeout};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, service_fn};

const IDLE: Duration = Duration::from_millis(200);
const WRITE: Duration = IDLE;
const HANDLER: Duration = IDLE;
const HEADER: Duration = Duration::from_millis(400);
const LONGEST: Duration = Duration::from_mins(1);

struct Limited(TcpListener);

impl axum::serve::Listener for Limited {
    type Io = TimeoutStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await; // axum's, which tries again after an error
        let limited = TimeoutStream::new(stream).with_idle_timeout(IDLE).with_write_timeout(WRITE);
        (limited.with_deadline(Instant::now() + LONGEST), address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

async fn serve_limited(listener: TcpListener, router: Router) -> io::Result<()> {
    // For handlers that take `ConnectInfo<SocketAddr>`.
    let with_address = service_fn(move |connection: IncomingStream<'_, Limited>| {
        let address = Extension(ConnectInfo(*connection.remote_addr()));
        ready(Ok::<_, Infallible>(address.layer(router.clone())))
    });
    axum::serve(Limited(listener), with_address).await?;
    Ok(())
}

async fn serve_on_hyper(listener: TcpListener) -> io::Result<()> {
    let late = TimeoutLayer::new(HANDLER).respond_with(|_late| StatusCode::GATEWAY_TIMEOUT.into_response());
    let router = Router::new().route("/", get(handler)).layer(late);

    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(HyperTimer::new()).header_read_timeout(HEADER);
    loop {
        let (stream, _) = listener.accept().await?;
        let (server, service) = (server.clone(), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            if let Err(error) = server.serve_connection(TokioIo::new(stream), service).with_upgrades().await {
                eprintln!("{error}"); // such as a header that took too long
            }
        });
    }
}

async fn handler() -> &'static str {
    pending().await // stuck
}

/// Sends a request. Returns everything that the server sends until it disconnects, and how long that took.
async fn talk(address: SocketAddr, request: &str) -> Result<(String, Duration), Box<dyn Error>> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    timeout(LONGEST, stream.read_to_string(&mut answer)).await??;
    Ok((answer, start.elapsed()))
}

async fn listen() -> io::Result<(SocketAddr, TcpListener)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    Ok((listener.local_addr()?, listener))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let request = "GET / HTTP/1.1\r\nhost: loopback\r\n\r\n";
    let unfinished = "GET / HTTP/1.1\r\nslow: ";
    let hello = |ConnectInfo(client): ConnectInfo<SocketAddr>| async move { format!("hello, {}", client.ip()) };

    let (limited, listener) = listen().await?;
    tokio::spawn(serve_limited(listener, Router::new().route("/", get(hello))));
    let (answer, idle) = talk(limited, request).await?;
    assert!(answer.ends_with("hello, 127.0.0.1") && idle >= IDLE, "{answer} {idle:?}");
    let (answer, slow) = talk(limited, unfinished).await?;
    assert!(answer.is_empty() && slow >= IDLE, "{answer} {slow:?}");
    println!("good: the listener disconnected an idle client after {idle:.1?}, a slow one after {slow:.1?}");

    let (on_hyper, listener) = listen().await?;
    tokio::spawn(serve_on_hyper(listener));
    let (answer, stuck) = talk(on_hyper, request).await?;
    assert!(answer.starts_with("HTTP/1.1 504") && stuck >= HANDLER + HEADER, "{answer} {stuck:?}");
    let (_, slow) = talk(on_hyper, unfinished).await?;
    assert!(slow >= HEADER, "{slow:?}");
    println!("good: the layer answered for a stuck handler, and hyper disconnected a slow client after {slow:.1?}");
    Ok(())
}
