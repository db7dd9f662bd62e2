//! axum, twice: behind a listener that limits connections, and on hyper, with limits on headers and handlers. On a
//! paused clock, so each limit takes no time, and is exact.

use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use hairspring::hyper::HyperTimer;
use hairspring::{Duration, Instant};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The snippet of the guide: all of a module, so it compiles as it stands.
mod limited {
    use std::{io, net::SocketAddr};

    use axum::{Router, http::StatusCode, response::IntoResponse, serve::Listener, serve::ListenerExt};
    use hairspring::tower::{TimeoutLayer, Unanswered};
    use hairspring::{Duration, Instant, io::TimeoutStream};
    use tokio::net::{TcpListener, TcpStream};

    struct Limited(TcpListener);

    impl Listener for Limited {
        type Io = TimeoutStream<TcpStream>;
        type Addr = SocketAddr;

        async fn accept(&mut self) -> (Self::Io, SocketAddr) {
            let (stream, address) = Listener::accept(&mut self.0).await; // axum's, which survives errors
            let limited = TimeoutStream::new(stream)
                .with_idle_timeout(Duration::from_secs(30))
                .with_write_timeout(Duration::from_secs(10))
                .with_deadline(Instant::now() + Duration::from_secs(1_000));
            (limited, address)
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            self.0.local_addr()
        }
    }

    pub(crate) async fn serve(listener: TcpListener, router: Router) -> io::Result<()> {
        let limit = TimeoutLayer::new(Duration::from_secs(5)).respond_with(|unanswered| {
            let status = match unanswered {
                Unanswered::Late(_) => StatusCode::GATEWAY_TIMEOUT,
                Unanswered::Refused(_) => StatusCode::SERVICE_UNAVAILABLE, // the timer was shut down
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            status.into_response()
        });
        let service = router.layer(limit).into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(Limited(listener).tap_io(|_| ()), service).await
    }
}

async fn serve_on_hyper(listener: TcpListener, router: Router) -> io::Result<()> {
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(HyperTimer::new()).header_read_timeout(Duration::from_secs(7));
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

/// Sends a request. Returns everything that the server sends until it disconnects, and after how many seconds.
async fn talk(address: SocketAddr, request: &str) -> io::Result<(String, u64)> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok((answer, start.elapsed().as_secs()))
}

async fn listen() -> io::Result<(SocketAddr, TcpListener)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    Ok((listener.local_addr()?, listener))
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> io::Result<()> {
    let hello = |ConnectInfo(client): ConnectInfo<SocketAddr>| async move { format!("hello, {}", client.ip()) };
    let router = Router::new().route("/", get(hello)).route("/stuck", get(pending::<()>));

    let (limited, listener) = listen().await?;
    tokio::spawn(limited::serve(listener, router.clone()));
    let (answer, idle) = talk(limited, "GET / HTTP/1.1\r\nhost: loopback\r\n\r\n").await?;
    assert!(answer.ends_with("hello, 127.0.0.1") && idle == 30, "{answer} {idle}");
    let (answer, slow) = talk(limited, "GET / HTTP/1.1\r\nslow: ").await?;
    assert!(answer.is_empty() && slow == 30, "{answer} {slow}");
    let (answer, stuck) = talk(limited, "GET /stuck HTTP/1.1\r\nhost: loopback\r\nconnection: close\r\n\r\n").await?;
    assert!(answer.starts_with("HTTP/1.1 504") && stuck == 5, "{answer} {stuck}");
    println!("good: the layer answered for a stuck handler, and the listener disconnected idle and slow clients");

    let (on_hyper, listener) = listen().await?;
    tokio::spawn(serve_on_hyper(listener, router));
    let (answer, slow) = talk(on_hyper, "GET / HTTP/1.1\r\nslow: ").await?;
    assert!(answer.is_empty() && slow == 7, "{answer} {slow}");
    println!("good: hyper disconnected a slow client");
    Ok(())
}
