//! This crate through a `Timer` that is held, which need not be found first.

use std::task::Context;
use std::time::Duration;

use hairspring::Timer;

use crate::rival::{Kept, Rival, keep, poll_once};

pub struct Handle(Timer);

impl Rival for Handle {
    const NAME: &str = "hairspring, handle";
    type Armed = Kept;

    fn new() -> Self {
        Handle(Timer::current())
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Kept {
        keep(self.0.sleep(duration), cx)
    }

    #[inline]
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        poll_once(self.0.sleep(duration), cx);
    }
}
