//! What unit tests of several folders share.

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};

/// A waker that reports when it is woken, then blocks until the last channel end is dropped.
pub(crate) fn blocking() -> (mpsc::Receiver<()>, Waker, mpsc::Sender<()>) {
    struct Blocks(Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>);
    impl Wake for Blocks {
        fn wake(self: Arc<Self>) {
            let ends = self.0.lock().unwrap();
            let _ = (ends.0.send(()), ends.1.recv());
        }
    }

    let (started, starts) = mpsc::channel();
    let (unblock, blocked) = mpsc::channel();
    (starts, Waker::from(Arc::new(Blocks(Mutex::new((started, blocked))))), unblock)
}
