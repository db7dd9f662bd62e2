//! [`Canary`]: a socket pair among a runtime's sockets. Once the runtime has received what was sent through it, it has
//! handled every socket that was ready before.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use super::LONGEST_LOOK;
use crate::util::panics;
use crate::util::sync::Counter;

pub(super) struct Canary {
    sender: UnixStream,
    receiver: AsyncFd<UnixStream>,
    received: Arc<Received>,
}

/// Counts how often the canary was received, from inside the runtime's I/O driver.
#[derive(Default)]
struct Received(Counter);

impl Wake for Received {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Canary {
    /// Returns `None` on a runtime without `enable_io`, which has no sockets, and if the system refuses.
    pub(super) fn new(runtime: &Handle) -> Option<Canary> {
        let (sender, receiver) = UnixStream::pair().ok()?;
        sender.set_nonblocking(true).ok()?;
        receiver.set_nonblocking(true).ok()?;
        let _entered = runtime.enter();
        #[allow(deprecated)] // In favour of an unsafe function for I/O safe types, of which this is one.
        let watch = || AsyncFd::with_interest(receiver, Interest::READABLE);
        // Whether the runtime has `enable_io` is not known. Without the canary its sockets are not seen.
        let receiver = panics::silently(|| panics::with_io(watch)).ok()?.ok()?;
        Some(Canary { sender, receiver, received: Arc::default() })
    }

    /// Sends, and waits until the runtime's I/O driver has received. Returns `false` if it has not in time.
    pub(super) fn round_trip(&mut self) -> bool {
        let waker = Waker::from(self.received.clone());
        while let Poll::Ready(ready) = self.receiver.poll_read_ready(&mut Context::from_waker(&waker)) {
            let Ok(mut ready) = ready else { return false };
            // Read what is left of an earlier round trip.
            while ready.get_inner().read(&mut [0; 8]).is_ok_and(|bytes| bytes > 0) {}
            ready.clear_ready();
        }
        let before = self.received.0.load(Ordering::SeqCst);
        if !self.sender.write(&[0]).is_ok_and(|bytes| bytes == 1) {
            return false;
        }
        let start = Instant::now();
        while self.received.0.load(Ordering::SeqCst) == before {
            if start.elapsed() > LONGEST_LOOK {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }
}
