//! [`Canary`]: a socket that is registered with a runtime. Once the runtime has received a message through it, it has
//! handled every socket that was ready earlier.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};

use tokio::net::UdpSocket as Registered;
use tokio::runtime::Handle;

use super::{LONGEST_LOOK, wait_until};
use crate::util::panics;
use crate::util::sync::Counter;

pub(super) struct Canary {
    sender: UdpSocket,
    receiver: Registered,
    received: Arc<Received>,
}

/// Counts the canary's messages, from inside the runtime's I/O driver.
#[derive(Default)]
struct Received(Counter);

impl Wake for Received {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Canary {
    /// Returns `None` on a runtime without `enable_io`, which has no sockets, or if the system refuses.
    pub(super) fn new(runtime: &Handle) -> Option<Canary> {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        // Connected to itself, it receives nothing else.
        receiver.connect(receiver.local_addr().ok()?).ok()?;
        receiver.set_nonblocking(true).ok()?;
        let sender = receiver.try_clone().ok()?;
        let _entered = runtime.enter();
        // The runtime may lack `enable_io`. Without the canary its sockets are invisible.
        let receiver = panics::silently(|| panics::with_io(|| Registered::from_std(receiver))).ok()?.ok()?;
        Some(Canary { sender, receiver, received: Arc::default() })
    }

    /// Sends, and waits until the runtime's I/O driver has received. Returns `false` if that takes too long.
    pub(super) fn round_trip(&mut self) -> bool {
        let waker = Waker::from(self.received.clone());
        while let Poll::Ready(ready) = self.receiver.poll_recv_ready(&mut Context::from_waker(&waker)) {
            if ready.is_err() {
                return false;
            }
            // Left over from an earlier round trip.
            while self.receiver.try_recv(&mut [0; 8]).is_ok() {}
        }
        let before = self.received.0.load(Ordering::SeqCst);
        let is_there = || self.received.0.load(Ordering::SeqCst) != before;
        if self.sender.send(&[0]).is_ok() {
            wait_until(LONGEST_LOOK, is_there);
        }
        is_there()
    }
}
