//! A socket pair among a runtime's sockets: when word of it comes, what was ready before it has been handed out.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use super::LONGEST_LOOK;
use crate::util::enabled;

pub(super) struct Canary {
    rings: UnixStream,
    heard_at: AsyncFd<UnixStream>,
    heard: Arc<Heard>,
}

/// Counts how often the canary was heard, from inside the runtime's I/O driver.
#[derive(Default)]
struct Heard(AtomicU64);

impl Wake for Heard {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Canary {
    /// `None` on a runtime without `enable_io`, which has no sockets, and where the system refuses.
    pub(super) fn new(runtime: &Handle) -> Option<Canary> {
        let (rings, heard_at) = UnixStream::pair().ok()?;
        rings.set_nonblocking(true).ok()?;
        heard_at.set_nonblocking(true).ok()?;
        let _entered = runtime.enter();
        #[allow(deprecated)] // In favour of an unsafe function that asks for an I/O safe type, which this is.
        let watch = || AsyncFd::with_interest(heard_at, Interest::READABLE);
        // Whether the runtime has `enable_io`, nobody has said. Without this its sockets are not seen.
        let heard_at = enabled::silently(|| enabled::with_io(watch)).ok()?.ok()?;
        Some(Canary { rings, heard_at, heard: Arc::default() })
    }

    /// Rings, and waits until the runtime's I/O driver has heard it. `false` where it does not, or is about to.
    pub(super) fn ring(&mut self) -> bool {
        let waker = Waker::from(self.heard.clone());
        while let Poll::Ready(ready) = self.heard_at.poll_read_ready(&mut Context::from_waker(&waker)) {
            let Ok(mut ready) = ready else { return false };
            // What is left of an earlier ring.
            while ready.get_inner().read(&mut [0; 8]).is_ok_and(|bytes| bytes > 0) {}
            ready.clear_ready();
        }
        let before = self.heard.0.load(Ordering::SeqCst);
        if !self.rings.write(&[0]).is_ok_and(|bytes| bytes == 1) {
            return false;
        }
        let start = Instant::now();
        while self.heard.0.load(Ordering::SeqCst) == before {
            if start.elapsed() > LONGEST_LOOK {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }
}
