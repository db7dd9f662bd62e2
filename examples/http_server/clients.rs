//! The clients: each speaks HTTP over a TCP connection of its own.

use std::io;
use std::net::SocketAddr;

use hairspring::{Duration, Instant, sleep, timeout};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::options::Options;
use crate::server::STUCK;

/// How many requests a well-behaved client sends at once, before it reads the responses.
const PIPELINED: u64 = 4;
/// A slow client sends so many bytes in the time that it has for the whole header.
const SLOW_BYTES: u32 = 8;
/// How often the limit passes before a slow or silent client takes it that it is let be.
const PATIENCE: u32 = 4;
/// On top of that, for a machine that is busy.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    WellBehaved,
    /// Sends a header that does not end, byte by byte.
    Slow,
    /// Says nothing at all.
    Silent,
    /// Says nothing after its first request.
    SilentLater,
}

/// What a client saw.
pub(crate) struct Outcome {
    pub(crate) kind: Kind,
    /// Responses that were as they should.
    pub(crate) answered: u64,
    /// Of those, the ones to say that the handler took too long.
    pub(crate) too_long: u64,
    /// How long after the client began what is limited it was cut off; `None` where it was not.
    pub(crate) cut_off_after: Option<Duration>,
    /// What went wrong.
    pub(crate) error: Option<io::Error>,
}

/// Connects all clients, spread over the run, and returns when the last is done.
pub(crate) async fn run(address: SocketAddr, options: Options) -> io::Result<Vec<Outcome>> {
    let mut clients = JoinSet::new();
    for number in 0..options.clients {
        let arrives = pause(options).mul_f64(share(number, options.clients));
        clients.spawn(client(Kind::WellBehaved, arrives, address, options));
    }
    for number in 0..options.slow {
        let arrives = options.span().mul_f64(share(number, options.slow));
        clients.spawn(client(Kind::Slow, arrives, address, options));
    }
    for number in 0..options.silent {
        let arrives = options.span().mul_f64(share(number, options.silent));
        let kind = if number % 2 == 0 { Kind::Silent } else { Kind::SilentLater };
        clients.spawn(client(kind, arrives, address, options));
    }
    let mut outcomes = Vec::new();
    while let Some(outcome) = clients.join_next().await {
        outcomes.push(outcome??);
    }
    Ok(outcomes)
}

/// How far `number` is on the way to `all`.
fn share(number: u64, all: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX)) / f64::from(u32::try_from(all).unwrap_or(u32::MAX))
}

/// How long a well-behaved client waits between its batches: it fills the run, and is far from the limit.
fn pause(options: Options) -> Duration {
    let batches = u32::try_from(options.requests.div_ceil(PIPELINED)).unwrap_or(u32::MAX);
    (options.span() / batches).min(options.limit / 3)
}

async fn client(kind: Kind, arrives: Duration, address: SocketAddr, options: Options) -> io::Result<Outcome> {
    sleep(arrives).await;
    let mut outcome = Outcome { kind, answered: 0, too_long: 0, cut_off_after: None, error: None };
    // No server sees the connection before this instant.
    let mut start = Instant::now();
    let mut server = BufReader::new(TcpStream::connect(address).await?);
    server.get_ref().set_nodelay(true)?;
    match kind {
        Kind::WellBehaved => outcome.error = behave(&mut server, options, &mut outcome).await.err(),
        Kind::Slow => outcome.cut_off_after = wait(&mut server, start, options, b"GET / HTTP/1.1\r\nslow: ").await,
        Kind::Silent => outcome.cut_off_after = wait(&mut server, start, options, b"").await,
        Kind::SilentLater => {
            start = Instant::now();
            outcome.error = ask(&mut server, "/", 1, &mut outcome).await.err();
            outcome.cut_off_after = wait(&mut server, start, options, b"").await;
        }
    }
    Ok(outcome)
}

/// Sends all requests, the last for what takes too long.
async fn behave(server: &mut BufReader<TcpStream>, options: Options, outcome: &mut Outcome) -> io::Result<()> {
    let mut left = options.requests - 1;
    while left > 0 {
        let batch = left.min(PIPELINED);
        ask(server, "/", batch, outcome).await?;
        left -= batch;
        sleep(pause(options)).await;
    }
    ask(server, STUCK, 1, outcome).await
}

/// Sends so many requests for `path`, and then reads the responses.
async fn ask(server: &mut BufReader<TcpStream>, path: &str, count: u64, outcome: &mut Outcome) -> io::Result<()> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: loopback\r\n\r\n");
    for _ in 0..count {
        server.write_all(request.as_bytes()).await?;
    }
    let expected = if path == STUCK { 503 } else { 200 };
    for _ in 0..count {
        let status = response(server).await?;
        if status != expected {
            return Err(io::Error::other(format!("the server said {status} to {path}, not {expected}")));
        }
        outcome.answered += 1;
        outcome.too_long += u64::from(path == STUCK);
    }
    Ok(())
}

/// Reads a response to its end, and returns its status.
async fn response(server: &mut BufReader<TcpStream>) -> io::Result<u16> {
    let mut line = String::new();
    let mut status = 0;
    let mut length = 0;
    loop {
        line.clear();
        if server.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            status = rest.get(..3).and_then(|status| status.parse().ok()).unwrap_or(0);
        }
        if let Some(rest) = line.strip_prefix("content-length: ") {
            length = rest.trim_end().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            let mut body = vec![0; length];
            server.read_exact(&mut body).await?;
            return Ok(status);
        }
    }
}

/// Waits to be cut off, and says how long after `start` that was. Meanwhile sends `header`, where there is any, a byte at
/// a time, and more of the same after it.
async fn wait(server: &mut BufReader<TcpStream>, start: Instant, options: Options, header: &[u8]) -> Option<Duration> {
    let mut bytes = header.iter().chain(std::iter::repeat(&b'.'));
    let give_up = start + options.limit * PATIENCE + GRACE;
    while Instant::now() < give_up {
        // The server says nothing: this read ends only when it closes the connection.
        if timeout(options.limit / SLOW_BYTES, server.read(&mut [0])).await.is_ok() {
            return Some(start.elapsed());
        }
        if let (false, Some(&byte)) = (header.is_empty(), bytes.next()) {
            // An error is found by the read, too.
            let _ = server.write_all(&[byte]).await;
        }
    }
    None
}
