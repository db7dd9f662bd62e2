//! Reads with a limit of every kind, and sockets for them.

use std::future::Future;
use std::net::{self, TcpListener};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use hairspring::io::TimeoutStream;
use hairspring::{
    Deadline, DeadlineMap, DelayQueue, Instant, StreamExt as _, Timer, boot, sleep, timeout, timeout_at, wall,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Both ends of a connection. What is written to one is readable at the other at once.
pub(crate) fn connected() -> (TcpStream, net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    (TcpStream::from_std(ours).unwrap(), peer)
}

/// A read with a limit of some kind. Returns whether it got the byte.
pub(crate) type Read = fn(TcpStream, Duration) -> BoxFuture<'static, bool>;

pub(crate) async fn read(mut socket: TcpStream) -> bool {
    socket.read_u8().await.is_ok()
}

/// Reads until `limit` ends. In the poll that finds both, the read wins.
pub(crate) async fn read_until(socket: TcpStream, limit: impl Future) -> bool {
    tokio::select! {
        biased;
        got = read(socket) => got,
        _ = limit => false,
    }
}

/// Every kind of limit.
pub(crate) fn kinds() -> Vec<(&'static str, Read)> {
    #[cfg_attr(not(any(feature = "hyper", feature = "tower")), allow(unused_mut))]
    let mut kinds: Vec<(&'static str, Read)> = vec![
        ("timeout", |socket, limit| timeout(limit, read(socket)).map(|got| got.is_ok()).boxed()),
        ("timeout_at", |socket, limit| timeout_at(Instant::now() + limit, read(socket)).map(|got| got.is_ok()).boxed()),
        ("fallible", |socket, limit| {
            Timer::current().timeout(limit, read(socket)).fallible().map(|got| got.is_ok()).boxed()
        }),
        ("Deadline", |socket, limit| Deadline::after(limit).limit(read(socket)).map(|got| got.is_ok()).boxed()),
        ("boot", |socket, limit| boot::timeout(limit, read(socket)).map(|got| got.is_ok()).boxed()),
        ("wall", |socket, limit| wall::timeout_at(wall::now() + limit, read(socket)).map(|got| got.is_ok()).boxed()),
        ("sleep", |socket, limit| read_until(socket, sleep(limit)).boxed()),
        ("TrySleep", |socket, limit| read_until(socket, sleep(limit).fallible()).boxed()),
        ("read timeout", |socket, limit| {
            async move { TimeoutStream::new(socket).with_read_timeout(limit).read_u8().await.is_ok() }.boxed()
        }),
        ("idle timeout", |socket, limit| {
            async move { TimeoutStream::new(socket).with_idle_timeout(limit).read_u8().await.is_ok() }.boxed()
        }),
        ("connection deadline", |socket, limit| {
            async move { TimeoutStream::new(socket).with_deadline(Instant::now() + limit).read_u8().await.is_ok() }
                .boxed()
        }),
        ("stream timeout", |socket, limit| {
            let mut bytes = stream::once(read(socket)).boxed().timeout(limit);
            async move { bytes.next().await.is_some_and(|got| got.is_ok()) }.boxed()
        }),
        ("DelayQueue", |socket, limit| {
            let mut queue = DelayQueue::new();
            queue.insert((), limit);
            async move { read_until(socket, queue.next()).await }.boxed()
        }),
        ("DeadlineMap", |socket, limit| {
            let (map, mut expirations) = DeadlineMap::new();
            map.insert((), (), limit);
            async move { read_until(socket, expirations.recv()).await }.boxed()
        }),
    ];
    #[cfg(feature = "hyper")]
    kinds.push(("HyperTimer", |socket, limit| {
        read_until(socket, hyper::rt::Timer::sleep(&hairspring::hyper::HyperTimer::new(), limit)).boxed()
    }));
    #[cfg(feature = "tower")]
    kinds.push(("TimeoutLayer", |socket, limit| {
        use tower::{Layer, ServiceExt};
        let service = tower::service_fn(|socket| async { Ok::<_, std::convert::Infallible>(read(socket).await) });
        hairspring::tower::TimeoutLayer::new(limit).layer(service).oneshot(socket).map(|got| got.is_ok()).boxed()
    }));
    kinds
}
