//! async-io: one binary tree of timers for the process, behind a lock, and a queue of operations in front of it.

use std::task::Context;
use std::time::{Duration, Instant};

use crate::rival::{Kept, Rival, Until, keep, poll_once};

pub struct AsyncIo;

impl Rival for AsyncIo {
    const NAME: &str = "async-io";
    type Armed = Kept;

    fn new() -> Self {
        AsyncIo
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Kept {
        keep(async_io::Timer::after(duration), cx)
    }

    #[inline]
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        poll_once(async_io::Timer::after(duration), cx);
    }
}

impl Until for AsyncIo {
    const NAME: &str = <AsyncIo as Rival>::NAME;

    async fn sleep_until(deadline: Instant) {
        async_io::Timer::at(deadline).await;
    }
}
