//! The services. `L` says how they limit their waiting. Clients in the same runtime ask them.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task;

use super::limit::Limit;

const LESS: &str = "the limit does not pass";

pub trait Service: Send + Sync + 'static {
    const NAME: &str;
    const CLIENTS: usize;
    type Client: Send;

    /// Starts the service.
    fn open<L: Limit>() -> impl Future<Output = Self> + Send;

    fn connect(&self) -> impl Future<Output = Self::Client> + Send;

    /// One request and its answer.
    fn ask<L: Limit>(&self, client: &mut Self::Client) -> impl Future<Output = ()> + Send;
}

/// Actors that count, asked and answering through channels. A limit on each answer.
pub struct Actors {
    inboxes: Vec<mpsc::Sender<oneshot::Sender<u64>>>,
    /// The actor that the next client asks first.
    next: AtomicUsize,
}

impl Service for Actors {
    const NAME: &str = "actors, a limit on each answer";
    const CLIENTS: usize = 256;
    type Client = usize;

    async fn open<L: Limit>() -> Self {
        let inbox = |_| {
            let (inbox, mut asked) = mpsc::channel::<oneshot::Sender<u64>>(64);
            task::spawn(async move {
                let mut answered = 0;
                while let Some(answer) = asked.recv().await {
                    answered += 1;
                    // Nobody waits if the round is over.
                    let _ = answer.send(answered);
                }
            });
            inbox
        };
        Actors { inboxes: (0..8).map(inbox).collect(), next: AtomicUsize::new(0) }
    }

    async fn connect(&self) -> usize {
        self.next.fetch_add(1, Relaxed)
    }

    async fn ask<L: Limit>(&self, client: &mut usize) {
        *client += 1;
        let inbox = &self.inboxes[*client % self.inboxes.len()];
        L::limit(async {
            let (answer, answered) = oneshot::channel();
            inbox.send(answer).await.expect("the actor lives as long");
            answered.await.expect("the actor answers");
        })
        .await
        .expect(LESS);
    }
}

/// An echo server over loopback that limits each read and each write. The client limits the request and its read.
pub struct Echo(SocketAddr);

const MESSAGE: usize = 64;

impl Service for Echo {
    const NAME: &str = "TCP echo, four limits";
    const CLIENTS: usize = 32;
    type Client = TcpStream;

    async fn open<L: Limit>() -> Self {
        Echo(
            listen(|mut stream| async move {
                let mut message = [0; MESSAGE];
                while L::limit(stream.read_exact(&mut message)).await.expect(LESS).is_ok()
                    && L::limit(stream.write_all(&message)).await.expect(LESS).is_ok()
                {}
            })
            .await,
        )
    }

    async fn connect(&self) -> TcpStream {
        connect(self.0).await
    }

    async fn ask<L: Limit>(&self, stream: &mut TcpStream) {
        let mut message = [7; MESSAGE];
        L::limit(async {
            stream.write_all(&message).await.expect("the server reads");
            L::limit(stream.read_exact(&mut message)).await.expect(LESS).expect("the server answers");
        })
        .await
        .expect(LESS);
    }
}

/// hyper, with a limit on the request's header and on the request, which asks an actor.
pub struct Http(SocketAddr);

const ANSWER: &str = "the answer of an actor";

impl Service for Http {
    const NAME: &str = "HTTP, header and request limit";
    const CLIENTS: usize = 32;
    type Client = TcpStream;

    async fn open<L: Limit>() -> Self {
        let actors = Arc::new(Actors::open::<L>().await);
        let answer = move |_: Request<_>| {
            let actors = Arc::clone(&actors);
            async move {
                actors.ask::<L>(&mut actors.connect().await).await;
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(ANSWER.as_bytes()))))
            }
        };
        Http(
            listen(move |stream| {
                let connection = L::server().serve_connection(TokioIo::new(stream), service_fn(answer.clone()));
                async move { drop(connection.await) }
            })
            .await,
        )
    }

    async fn connect(&self) -> TcpStream {
        connect(self.0).await
    }

    async fn ask<L: Limit>(&self, stream: &mut TcpStream) {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("the server reads");
        let (mut answer, mut length) = ([0; 512], 0);
        while !answer[..length].ends_with(ANSWER.as_bytes()) {
            let read = stream.read(&mut answer[length..]).await.expect("the server answers");
            assert!(read > 0, "the server closed the connection: {}", String::from_utf8_lossy(&answer[..length]));
            length += read;
        }
    }
}

/// A pool with fewer connections than clients, and a limit on the wait for one.
pub struct Pool(Semaphore);

impl Service for Pool {
    const NAME: &str = "pool, a limit on each acquisition";
    const CLIENTS: usize = 64;
    type Client = ();

    async fn open<L: Limit>() -> Self {
        Pool(Semaphore::new(Self::CLIENTS / 4))
    }

    async fn connect(&self) {}

    async fn ask<L: Limit>(&self, (): &mut ()) {
        let connection = L::limit(self.0.acquire()).await.expect(LESS).expect("the pool stays open");
        // The query.
        task::yield_now().await;
        drop(connection);
    }
}

/// Serves each connection in a new task.
pub async fn listen<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    task::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a file is left");
            stream.set_nodelay(true).expect("TCP has that");
            task::spawn(serve(stream));
        }
    });
    address
}

pub async fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).await.expect("the server listens");
    stream.set_nodelay(true).expect("TCP has that");
    stream
}
