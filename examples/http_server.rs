//! An HTTP server that cuts off slow and silent clients, on hyper with hairspring's timer.
//!
//! hyper's `header_read_timeout` limits a request's header and the silence between requests, a `TimeoutStream` how long
//! a client may not read, and a `timeout` each handler. Of the clients, in the same process, some behave, some send a
//! header that does not end, and some say nothing more. Exits with 1 if not just the latter were cut off, and in time.
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
use hairspring::{Duration, Instant, io::TimeoutStream, sleep, timeout};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What a header, a silence and a handler may take.
const LIMIT: Duration = Duration::from_millis(500);
/// How long a client waits to be cut off before it takes it that it is let be.
const PATIENCE: Duration = Duration::from_secs(10);
const CLIENTS: usize = 300;
const REQUESTS: usize = 20;

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener));

    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client(address, number));
    }
    let mut counts = [0; 4];
    for outcome in clients.join_all().await {
        counts[outcome? as usize] += 1;
    }
    let [answered, slow, silent, wrong] = counts;
    println!("{CLIENTS} clients: {answered} got {REQUESTS} answers, {slow} slow and {silent} silent ones were cut off");
    println!("{}", if wrong == 0 { "good: and nobody else was" } else { "BAD: others were, or too early, or not all" });
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    let mut server = http1::Builder::new();
    server.timer(HyperTimer::new()).header_read_timeout(LIMIT);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let stream = TokioIo::new(TimeoutStream::new(stream).with_write_timeout(LIMIT));
        tokio::spawn(server.serve_connection(stream, service_fn(answer))); // fails if the client is cut off
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

enum Outcome {
    Answered,
    SlowCutOff,
    SilentCutOff,
    Wrong,
}

/// One of three kinds, in turn.
async fn client(address: SocketAddr, number: usize) -> io::Result<Outcome> {
    // The server's limit begins after this.
    let mut since = Instant::now();
    let mut server = BufReader::new(TcpStream::connect(address).await?);
    server.get_ref().set_nodelay(true)?;
    match number % 3 {
        0 => {
            let mut is_good = true;
            for _ in 1..REQUESTS {
                is_good &= ask(&mut server, "/").await? == 200;
                sleep(LIMIT / 10).await;
            }
            is_good &= ask(&mut server, "/stuck").await? == 503;
            Ok(if is_good { Outcome::Answered } else { Outcome::Wrong })
        }
        1 => {
            let is_cut_off = is_cut_off(&mut server, b"GET / HTTP/1.1\r\nslow: ", since).await;
            Ok(if is_cut_off { Outcome::SlowCutOff } else { Outcome::Wrong })
        }
        _ => {
            since = Instant::now();
            let is_good = ask(&mut server, "/").await? == 200 && is_cut_off(&mut server, b"", since).await;
            Ok(if is_good { Outcome::SilentCutOff } else { Outcome::Wrong })
        }
    }
}

/// Sends a request, reads the response to its end, and returns its status.
async fn ask(server: &mut BufReader<TcpStream>, path: &str) -> io::Result<u16> {
    server.write_all(format!("GET {path} HTTP/1.1\r\nhost: loopback\r\n\r\n").as_bytes()).await?;
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        if server.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        } else if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            status = rest.get(..3).and_then(|status| status.parse().ok()).unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("content-length: ") {
            length = rest.trim_end().parse().unwrap_or(0);
        } else if line == "\r\n" {
            server.read_exact(&mut vec![0; length]).await?;
            return Ok(status);
        }
    }
}

/// Sends `header` a byte at a time, and waits to be cut off: not before the limit, and before it is out of patience.
async fn is_cut_off(server: &mut BufReader<TcpStream>, header: &[u8], since: Instant) -> bool {
    let mut bytes = header.iter();
    while since.elapsed() < PATIENCE {
        // The server says nothing: this read ends only when it closes the connection.
        if timeout(LIMIT / 8, server.read(&mut [0])).await.is_ok() {
            return since.elapsed() >= LIMIT;
        }
        if let Some(&byte) = bytes.next() {
            // An error is found by the read, too.
            let _ = server.write_all(&[byte]).await;
        }
    }
    false
}
