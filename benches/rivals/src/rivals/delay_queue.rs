//! tokio-util's `DelayQueue`: a wheel of the caller's own, not shared with any other task, and one tokio `Sleep` for
//! the earliest of what is in it. Each task has one.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio_util::time::delay_queue::{DelayQueue, Key};

use crate::rival::Rival;

pub struct Queue {
    queue: DelayQueue<()>,
}

impl Rival for Queue {
    const NAME: &str = "tokio-util DelayQueue";
    const SHARED: bool = false;
    type Armed = Key;

    fn new() -> Self {
        Queue { queue: DelayQueue::new() }
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Key {
        let key = self.queue.insert((), duration);
        // Has the queue's own sleep registered.
        assert!(!matches!(self.queue.poll_expired(cx), Poll::Ready(Some(_))), "its deadline is far away");
        key
    }

    fn cancel(&mut self, key: Key) {
        self.queue.remove(&key);
    }

    /// Without a poll between the two: a queue is polled once for many changes.
    #[inline]
    fn arm_cancel(&mut self, duration: Duration, _cx: &mut Context<'_>) {
        let key = self.queue.insert((), duration);
        self.queue.remove(&key);
    }
}
