//! hyper-util: its server, which speaks HTTP/1 and HTTP/2, and its client with a pool, all with the same timer.

use std::convert::Infallible;
use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Duration;

use hairspring::hyper::HyperTimer;
use hairspring::{Timer, sleep};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

/// How long the client keeps a connection that nobody uses, and the server waits for a header.
const IDLE: Duration = Duration::from_millis(100);

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let (closed, mut connections) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut server = auto::Builder::new(TokioExecutor::new());
        server.http1().timer(HyperTimer::new()).header_read_timeout(100 * IDLE);
        server.http2().timer(HyperTimer::new()).keep_alive_interval(IDLE);
        while let Ok((stream, _)) = listener.accept().await {
            let (server, closed) = (server.clone(), closed.clone());
            tokio::spawn(async move {
                let outcome = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
                closed.send(outcome.is_ok())
            });
        }
    });

    for is_http2 in [false, true] {
        let client = Client::builder(TokioExecutor::new())
            .timer(HyperTimer::new())
            .pool_timer(HyperTimer::new())
            .pool_idle_timeout(IDLE)
            .http2_only(is_http2)
            .build_http::<Empty<Bytes>>();
        for _ in 0..3 {
            let response = client.get(format!("http://{address}/").parse()?).await?;
            assert_eq!(response.into_body().collect().await?.to_bytes(), "hello");
        }
        sleep(3 * IDLE).await; // pings are answered
        // The pool closes the connection, as nobody uses it.
        assert_eq!(connections.recv().await, Some(true));
    }
    let timers = Timer::current().metrics().registered();
    println!("good: three requests on a connection that is closed when it is idle, twice; {timers} timers");
    Ok(())
}
