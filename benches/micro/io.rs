//! A connection with limits beside tokio-io-timeout's and beside one without limits.
//!
//! A byte goes to a task at the other end and back through a pair of buffers, which leaves only the tasks and the
//! limits: `rivals service` measures TCP. Each contender has a read and a write timeout; `all_limits` also has an idle
//! timeout and a deadline. The runtime is a current-thread one.
//!
//! Run `cargo bench -p micro --bench io` in `benches`. The ratio says how many times as long the bare connection takes:
//! 0.91 is 10 % more.

use std::pin::Pin;
use std::time::{Duration, Instant};

use hairspring::io::TimeoutStream;
use micro::compare;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
use tokio::runtime::Builder;

const LIMIT: Duration = Duration::from_secs(30);

fn ours<S>(stream: S) -> TimeoutStream<S> {
    TimeoutStream::new(stream).with_read_timeout(LIMIT).with_write_timeout(LIMIT)
}

fn all_limits<S>(stream: S) -> TimeoutStream<S> {
    ours(stream).with_idle_timeout(LIMIT).with_deadline(hairspring::Instant::now() + 100 * LIMIT)
}

fn theirs<S: AsyncRead + AsyncWrite>(stream: S) -> Pin<Box<tokio_io_timeout::TimeoutStream<S>>> {
    let mut stream = Box::pin(tokio_io_timeout::TimeoutStream::new(stream));
    stream.as_mut().set_read_timeout_pinned(Some(LIMIT));
    stream.as_mut().set_write_timeout_pinned(Some(LIMIT));
    stream
}

/// Sends a byte and waits until it comes back, `iters` times. Returns how long that took.
async fn echo<S, P>(mut stream: S, mut peer: P, iters: u64) -> Duration
where
    S: AsyncRead + AsyncWrite + Unpin,
    P: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Ok(byte) = peer.read_u8().await {
            peer.write_u8(byte).await.unwrap();
        }
    });
    let start = Instant::now();
    for _ in 0..iters {
        stream.write_u8(7).await.unwrap();
        stream.read_u8().await.unwrap();
    }
    start.elapsed()
}

fn main() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    // Each contender has a stream of a different type.
    macro_rules! compare {
        ($($name:literal => $wrap:expr),*) => {
            compare("echo", 1, &mut [$(($name, &mut |iters| runtime.block_on(async {
                let (stream, peer) = duplex(64);
                echo($wrap(stream), peer, iters).await
            }))),*]);
        };
    }
    compare!("hairspring" => ours, "all_limits" => all_limits, "tokio-io-timeout" => theirs, "bare" => |s| s);
}
