//! Microsoft's `tick`: one binary tree of timers for each clock, behind a lock, driven by a tokio task.
//!
//! Its storage for each thread is for runtimes that pin tasks to threads. On tokio, as here, a clock is shared.

use std::task::Context;
use std::time::Duration;

use tick::Clock;

use crate::rival::{Kept, Rival, keep, poll_once};

pub struct Tick(Clock);

impl Rival for Tick {
    const NAME: &str = "tick";
    type Armed = Kept;

    fn new() -> Self {
        Tick(Clock::new_tokio())
    }

    fn for_another_task(&self) -> Self {
        Tick(self.0.clone())
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Kept {
        keep(self.0.delay(duration), cx)
    }

    #[inline]
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        poll_once(self.0.delay(duration), cx);
    }
}
