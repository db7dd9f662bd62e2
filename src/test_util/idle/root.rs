//! [`Root`]: the future that a thread blocks on, which lets itself be seen on every system: by its waker.
//
// Invariants
// 1. It runs from the moment in which it is woken until it waits again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

pub(crate) struct Root {
    /// Of the thread that blocks on it.
    waker: Waker,
    /// How often it was woken or polled.
    begins: AtomicUsize,
    /// The same when it last began to wait.
    waits: AtomicUsize,
}

impl Root {
    /// It runs already.
    pub(super) fn new(waker: Waker) -> Root {
        Root { waker, begins: AtomicUsize::new(1), waits: AtomicUsize::new(0) }
    }

    pub(crate) fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        let begins = self.begins.fetch_add(1, SeqCst) + 1;
        let polled = future.poll(&mut Context::from_waker(&Waker::from(self.clone())));
        if polled.is_pending() {
            self.waits.store(begins, SeqCst);
        }
        polled
    }

    /// A number that changes when it runs; `None` while it does.
    pub(super) fn waits(&self) -> Option<usize> {
        let waits = self.waits.load(SeqCst);
        (self.begins.load(SeqCst) == waits).then_some(waits)
    }
}

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.begins.fetch_add(1, SeqCst);
        self.waker.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn it_runs_from_when_it_is_woken_until_it_waits_again() {
        let root = Arc::new(Root::new(Waker::noop().clone()));
        assert_eq!(root.waits(), None);
        let (sender, answer) = oneshot::channel::<()>();
        let mut future = pin!(async {
            assert_eq!(root.waits(), None, "it is polled");
            answer.await.unwrap();
            std::future::pending::<()>().await;
        });
        assert!(root.poll(future.as_mut()).is_pending());
        let first = root.waits();
        assert!(first.is_some());
        sender.send(()).unwrap();
        assert_eq!(root.waits(), None, "it is woken");
        assert!(root.poll(future.as_mut()).is_pending());
        assert!(root.waits() > first);
    }

    #[test]
    fn it_runs_if_it_is_woken_while_it_is_polled() {
        let root = Arc::new(Root::new(Waker::noop().clone()));
        let mut once = false;
        let mut wakes_itself = pin!(std::future::poll_fn(|cx| {
            if !std::mem::replace(&mut once, true) {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        assert!(root.poll(wakes_itself.as_mut()).is_pending());
        assert_eq!(root.waits(), None);
        assert!(root.poll(wakes_itself.as_mut()).is_pending());
        assert!(root.waits().is_some());
    }
}
