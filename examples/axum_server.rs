//! An axum server with limits. It disconnects a client that does not finish a header, answers 504 if a handler takes too
//! long, and 503 to a request that is one too many. On shutdown, requests under way get some time to finish.
//!
//! The program is its own client, and prints what the server did.
//!
//! ```text
//! cargo run --release --features axum --example axum_server
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::{error::Error, future::Future, io, pin::pin, sync::Arc};

use axum::error_handling::HandleErrorLayer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener;
use axum::{BoxError, Router};
use hairspring::{Duration, Elapsed, hyper::HyperTimer, timeout, tower::TimeoutLayer};
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, server::graceful::GracefulShutdown, service::TowerToHyperService};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tower::{ServiceBuilder, limit::GlobalConcurrencyLimitLayer};

struct Limits {
    /// How long a client may take for a header, including the silence before it.
    header: Duration,
    handler: Duration,
    /// How many requests may be under way at a time.
    requests: usize,
    /// How long requests may still take once the server shuts down.
    shutdown: Duration,
}

fn router(limits: &Limits, work: Arc<Work>) -> Router {
    let layers = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(async |_: BoxError| StatusCode::SERVICE_UNAVAILABLE))
        .load_shed()
        // With `ConcurrencyLimitLayer`, each route would have a limit of its own.
        .layer(GlobalConcurrencyLimitLayer::new(limits.requests))
        .layer(TimeoutLayer::new(limits.handler).respond_with(|_| StatusCode::GATEWAY_TIMEOUT.into_response()));
    Router::new().route("/", get("hello")).route("/work", get(do_work)).layer(layers).with_state(work)
}

/// Serves until `stop` is ready, and then finishes the requests under way. Fails if that takes longer than its limit.
async fn serve(mut listener: TcpListener, router: Router, limits: Limits, stop: impl Future) -> Result<(), Elapsed> {
    let mut http = http1::Builder::new();
    http.timer(HyperTimer::new()).header_read_timeout(limits.header);
    let (graceful, mut connections, mut stop) = (GracefulShutdown::new(), JoinSet::new(), pin!(stop));
    loop {
        tokio::select! {
            _ = &mut stop => break,
            // axum's `accept`, which tries again after an error.
            (stream, _) = Listener::accept(&mut listener) => {
                let service = TowerToHyperService::new(router.clone());
                connections.spawn(graceful.watch(http.serve_connection(TokioIo::new(stream), service)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    // The set goes afterwards, and with it the connections that are left.
    timeout(limits.shutdown, graceful.shutdown()).await
}

/// What the handler and the client of this program tell each other, so that nothing here depends on speed.
struct Work {
    begun: Semaphore,
    may_end: Semaphore,
}

async fn do_work(State(work): State<Arc<Work>>) {
    work.begun.add_permits(1);
    work.may_end.acquire().await.expect("never closed").forget();
}

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(3_600);
/// Each server below has one limit that is short.
const LIMITS: Limits = Limits { header: LONG, handler: LONG, requests: 1_000, shutdown: LONG };

struct Server {
    address: SocketAddr,
    work: Arc<Work>,
    /// In place of `tokio::signal::ctrl_c()`.
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), Elapsed>>,
}

impl Server {
    async fn start(limits: Limits) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let work = Arc::new(Work { begun: Semaphore::new(0), may_end: Semaphore::new(0) });
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(listener, router(&limits, work.clone()), limits, stopped));
        Ok(Server { address, work, stop, serving })
    }

    /// Sends a request, and returns once the handler has begun.
    async fn begin(&self) -> JoinHandle<io::Result<Answer>> {
        let answer = tokio::spawn(send(self.address, "GET /work HTTP/1.1\r\nhost: loopback\r\n\r\n"));
        self.work.begun.acquire().await.expect("never closed").forget();
        answer
    }
}

/// The status, or `None` if the server closed the connection without an answer.
type Answer = Option<u16>;

/// Sends that on a new connection, and reads a status.
async fn send(address: SocketAddr, text: &str) -> io::Result<Answer> {
    let (mut stream, mut line) = (TcpStream::connect(address).await?, [0; "HTTP/1.1 200".len()]);
    stream.write_all(text.as_bytes()).await?;
    match stream.read_exact(&mut line).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(|_| std::str::from_utf8(&line[9..]).ok()?.parse().ok()),
    }
}

type Outcome<T> = Result<T, Box<dyn Error>>;

async fn unfinished_header() -> Outcome<Answer> {
    let server = Server::start(Limits { header: SHORT, ..LIMITS }).await?;
    Ok(send(server.address, "GET / HTTP/1.1\r\nslow: ").await?)
}

async fn slow_handler() -> Outcome<Answer> {
    let server = Server::start(Limits { handler: SHORT, ..LIMITS }).await?;
    Ok(server.begin().await.await??)
}

/// Returns the answer to a request, and to another that comes meanwhile.
async fn one_too_many() -> Outcome<[Answer; 2]> {
    let server = Server::start(Limits { requests: 1, ..LIMITS }).await?;
    let first = server.begin().await;
    let second = send(server.address, "GET / HTTP/1.1\r\nhost: loopback\r\n\r\n").await?;
    server.work.may_end.add_permits(1);
    Ok([first.await??, second])
}

/// Returns the answer to a request that is under way, and whether the server has finished in time.
async fn shutdown(limit: Duration, work_ends: bool) -> Outcome<(Answer, bool)> {
    let server = Server::start(Limits { shutdown: limit, ..LIMITS }).await?;
    let answer = server.begin().await;
    let mut idle = TcpStream::connect(server.address).await?;
    drop(server.stop);
    let _ = idle.read(&mut [0]).await; // until the server closes it, which shows that the shutdown has begun
    server.work.may_end.add_permits(usize::from(work_ends));
    Ok((answer.await??, server.serving.await?.is_ok()))
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let shown = |answer: Answer| answer.map_or("disconnected".to_owned(), |status| status.to_string());
    println!("a client that does not finish its header: {}", shown(unfinished_header().await?));
    println!("a handler that takes too long: {}", shown(slow_handler().await?));
    println!("two requests where one may be under way: {}", one_too_many().await?.map(shown).join(", "));
    for (what, limit, work_ends) in [("ends", LONG, true), ("takes too long", SHORT, false)] {
        let (answer, in_time) = shutdown(limit, work_ends).await?;
        println!("shutdown while a handler {what}: {}, finished in time: {in_time}", shown(answer));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_limit_has_its_answer() -> Outcome<()> {
        assert_eq!(unfinished_header().await?, None);
        assert_eq!(slow_handler().await?, Some(504));
        assert_eq!(one_too_many().await?, [Some(200), Some(503)]);
        assert_eq!(shutdown(LONG, true).await?, (Some(200), true));
        assert_eq!(shutdown(SHORT, false).await?, (None, false));
        Ok(())
    }
}
