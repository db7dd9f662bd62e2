//! An HTTP server that disconnects slow and silent clients, on hyper with hairspring's timer.
//!
//! hyper's `header_read_timeout` limits how long a client may take to send a header, and how long it may be silent
//! between requests. A `timeout` limits each handler. A `TimeoutStream` disconnects clients that do not read. 300
//! clients in the same process exercise the first three limits. Exits with 1 if a client gets a wrong answer, or is
//! disconnected too early.
//!
//! ```text
//! cargo run --release --features hyper --example http_server
//! ```

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use hairspring::hyper::HyperTimer;
use hairspring::{Duration, Instant, io::TimeoutStream, timeout};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The limit for headers, silence, handlers and writes.
const LIMIT: Duration = Duration::from_millis(500);
const CLIENTS_OF_A_KIND: usize = 75;

/// Each kind of client: its request, the beginning of the answer, and the minimum time until the server disconnects.
const KINDS: [(&str, &str, &str, Duration); 4] = [
    ("polite", "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", "HTTP/1.1 200 OK\r\n", Duration::ZERO),
    ("silent", "GET / HTTP/1.1\r\nhost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n", LIMIT),
    ("slow", "GET / HTTP/1.1\r\nhost: ", "", LIMIT),
    ("unlucky", "GET /stuck HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", "HTTP/1.1 503 ", LIMIT),
];

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener));

    let mut is_good = true;
    for (kind, request, expected, least) in KINDS {
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS_OF_A_KIND {
            clients.spawn(talk(address, request));
        }
        let outcomes = clients.join_all().await.into_iter().collect::<io::Result<Vec<_>>>()?;
        let right = |(answer, time): &&(String, Duration)| answer.starts_with(expected) && *time >= least;
        let count = outcomes.iter().filter(right).count();
        let longest = outcomes.iter().map(|(_, time)| *time).max().unwrap_or_default();
        println!("{count} of {CLIENTS_OF_A_KIND} {kind} clients got the expected answer, after at most {longest:.1?}");
        is_good &= count == CLIENTS_OF_A_KIND;
    }
    println!("{}", if is_good { "good" } else { "BAD" });
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    let mut server = http1::Builder::new();
    server.timer(HyperTimer::new()).header_read_timeout(LIMIT);
    loop {
        let (stream, _) = listener.accept().await?;
        let stream = TokioIo::new(TimeoutStream::new(stream).with_write_timeout(LIMIT));
        tokio::spawn(server.serve_connection(stream, service_fn(answer))); // fails if the client is disconnected
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match timeout(LIMIT, handle(request.uri().path())).await {
        Ok(body) => (StatusCode::OK, body),
        Err(_elapsed) => (StatusCode::SERVICE_UNAVAILABLE, "this took too long"),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    Ok(response)
}

async fn handle(path: &str) -> &'static str {
    if path == "/stuck" { pending().await } else { "hello" }
}

/// Sends a request. Returns what the server sends until it disconnects, and how long that takes.
async fn talk(address: SocketAddr, request: &str) -> io::Result<(String, Duration)> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok((answer, start.elapsed()))
}
