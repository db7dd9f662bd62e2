//! An axum server with limits. It disconnects a client that does not finish a header, answers 504 if a handler takes too
//! long, and 503 to a request that is one too many. After Ctrl-C, requests under way get some time to finish.
//!
//! It prints commands to try. The tests reach each limit in an instant.
//!
//! ```text
//! cargo run --release --features axum --example axum_server
//! cargo test --features axum,test-util --example axum_server
//! ```

use std::net::Ipv4Addr;
use std::{future::Future, io, pin::pin};

use axum::error_handling::HandleErrorLayer;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener;
use axum::{BoxError, Router};
use hairspring::{Duration, Elapsed, hyper::HyperTimer, sleep, timeout, tower::TimeoutLayer};
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, server::graceful::GracefulShutdown, service::TowerToHyperService};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::{ServiceBuilder, limit::GlobalConcurrencyLimitLayer};

/// How long a client may take for a header, including the silence before it.
const HEADER: Duration = Duration::from_secs(5);
const HANDLER: Duration = Duration::from_secs(3);
/// How many requests may be under way at a time.
const REQUESTS: usize = 100;
/// How long requests may still take once the server shuts down.
const SHUTDOWN: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    println!("curl --include http://{address}/wait/1   # 200 after a second");
    println!("curl --include http://{address}/wait/9   # 504 after {HANDLER:?}");
    println!("curl telnet://{address}   # disconnected after {HEADER:?}");
    println!("Ctrl-C ends the server.");
    if serve(listener, tokio::signal::ctrl_c()).await.is_err() {
        println!("requests were still under way after {SHUTDOWN:?}");
    }
    Ok(())
}

fn router() -> Router {
    let layers = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(async |_: BoxError| StatusCode::SERVICE_UNAVAILABLE))
        .load_shed()
        // With `ConcurrencyLimitLayer`, each route would have a limit of its own.
        .layer(GlobalConcurrencyLimitLayer::new(REQUESTS))
        .layer(TimeoutLayer::new(HANDLER).respond_with(|_| StatusCode::GATEWAY_TIMEOUT.into_response()));
    Router::new().route("/wait/{seconds}", get(wait)).layer(layers)
}

async fn wait(Path(seconds): Path<u64>) -> String {
    sleep(Duration::from_secs(seconds)).await;
    format!("waited {seconds} s\n")
}

/// Serves until `stop` is ready, and then finishes the requests under way. Fails if that takes longer than its limit.
async fn serve(mut listener: TcpListener, stop: impl Future) -> Result<(), Elapsed> {
    let mut http = http1::Builder::new();
    http.timer(HyperTimer::new()).header_read_timeout(HEADER);
    let (router, graceful) = (router(), GracefulShutdown::new());
    let (mut connections, mut stop) = (JoinSet::new(), pin!(stop));
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
    timeout(SHUTDOWN, graceful.shutdown()).await
}

#[cfg(all(test, feature = "test-util"))]
mod tests {
    use std::net::SocketAddr;

    use hairspring::Instant;
    use hairspring::test_util::settle;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    use super::*;

    struct Server {
        address: SocketAddr,
        stop: oneshot::Sender<()>,
        serving: JoinHandle<Result<(), Elapsed>>,
    }

    impl Server {
        async fn start() -> Server {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let (stop, stopped) = oneshot::channel();
            Server { address, stop, serving: tokio::spawn(serve(listener, stopped)) }
        }

        async fn stop(self) -> Result<(), Elapsed> {
            self.stop.send(()).unwrap();
            self.serving.await.unwrap()
        }

        /// Sends a request. Returns the answer, empty if the server just disconnects, and how long that took.
        fn send(&self, request: String) -> JoinHandle<(String, Duration)> {
            let address = self.address;
            tokio::spawn(async move {
                let start = Instant::now();
                let (mut stream, mut answer) = (TcpStream::connect(address).await.unwrap(), String::new());
                stream.write_all(request.as_bytes()).await.unwrap();
                stream.read_to_string(&mut answer).await.unwrap();
                (answer, start.elapsed())
            })
        }

        fn wait(&self, seconds: u64) -> JoinHandle<(String, Duration)> {
            self.send(format!("GET /wait/{seconds} HTTP/1.1\r\nhost: loopback\r\nconnection: close\r\n\r\n"))
        }
    }

    #[hairspring::test(workers = 2)]
    async fn a_handler_answers() {
        let server = Server::start().await;
        let (answer, after) = server.wait(1).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("waited 1 s\n"), "{answer}");
        assert_eq!(after, Duration::from_secs(1));
        assert!(server.stop().await.is_ok());
    }

    #[hairspring::test(workers = 2)]
    async fn a_client_that_does_not_finish_its_header_is_disconnected() {
        let server = Server::start().await;
        assert_eq!(server.send("GET / HTTP/1.1\r\nslow: ".to_owned()).await.unwrap(), (String::new(), HEADER));
        assert!(server.stop().await.is_ok());
    }

    #[hairspring::test(workers = 2)]
    async fn a_handler_that_takes_too_long_is_answered_for() {
        let server = Server::start().await;
        let (answer, after) = server.wait(9).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
        assert_eq!(after, HANDLER);
        assert!(server.stop().await.is_ok());
    }

    #[hairspring::test(workers = 2)]
    async fn a_request_too_many_is_refused_at_once() {
        let server = Server::start().await;
        let under_way: Vec<_> = (0..REQUESTS).map(|_| server.wait(1)).collect();
        settle().await;
        let (answer, after) = server.wait(1).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert_eq!(after, Duration::ZERO);
        for request in under_way {
            assert!(request.await.unwrap().0.starts_with("HTTP/1.1 200"));
        }
        assert!(server.stop().await.is_ok());
    }

    #[hairspring::test(workers = 2)]
    async fn a_shutdown_lets_requests_finish() {
        let server = Server::start().await;
        let request = server.wait(1);
        settle().await;
        assert!(server.stop().await.is_ok());
        assert!(request.await.unwrap().0.starts_with("HTTP/1.1 200"));
    }

    #[hairspring::test(workers = 2)]
    async fn a_shutdown_ends_in_time() {
        let (server, start) = (Server::start().await, Instant::now());
        let request = server.wait(9);
        settle().await;
        assert!(server.stop().await.is_err());
        assert_eq!(start.elapsed(), SHUTDOWN);
        assert_eq!(request.await.unwrap(), (String::new(), SHUTDOWN));
    }
}
