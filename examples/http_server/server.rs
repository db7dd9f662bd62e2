//! The server: hyper's, with limits on headers, on silence and on handlers.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use hairspring::hyper::HyperTimer;
use hairspring::{Duration, Instant, timeout};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::options::Options;

/// The path of a handler that never answers.
pub(crate) const STUCK: &str = "/stuck";

/// How a connection came to its end.
pub(crate) enum Ending {
    /// The client closed it.
    ByClient,
    /// It was cut off: it was due at the one instant and was at the other.
    CutOff { due: Instant, at: Instant },
    /// It broke.
    Broken,
}

/// Accepts as many connections as there are clients, and returns when all of them have ended.
pub(crate) async fn serve(listener: &TcpListener, options: Options) -> io::Result<Vec<Ending>> {
    let mut server = http1::Builder::new();
    server.timer(HyperTimer::new()).header_read_timeout(options.limit);

    let mut connections = JoinSet::new();
    for _ in 0..options.connections() {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        connections.spawn(hold(stream, server.clone(), options.limit));
    }
    Ok(connections.join_all().await)
}

/// Serves one connection to its end.
async fn hold(stream: TcpStream, server: http1::Builder, limit: Duration) -> Ending {
    // When the server began to wait for the header that is the next.
    let waiting_since = Arc::new(Mutex::new(Instant::now()));
    let answered = Arc::clone(&waiting_since);
    let service = service_fn(move |request| {
        let answered = Arc::clone(&answered);
        async move {
            let response = answer(request, limit).await;
            *answered.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            Ok::<_, Infallible>(response)
        }
    });
    match server.serve_connection(TokioIo::new(stream), service).await {
        Ok(()) => Ending::ByClient,
        Err(error) if error.is_timeout() => {
            let since = *waiting_since.lock().unwrap_or_else(PoisonError::into_inner);
            Ending::CutOff { due: since + limit, at: Instant::now() }
        }
        Err(_) => Ending::Broken,
    }
}

/// The response to `request`, within `limit`.
async fn answer(request: Request<Incoming>, limit: Duration) -> Response<Full<Bytes>> {
    match timeout(limit, handle(request.uri().path())).await {
        Ok(body) => Response::new(Full::from(body)),
        Err(_elapsed) => {
            let mut response = Response::new(Full::from("this took too long"));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        }
    }
}

async fn handle(path: &str) -> &'static str {
    if path == STUCK { pending().await } else { "hello" }
}
