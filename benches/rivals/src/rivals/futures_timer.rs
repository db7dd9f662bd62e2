//! futures-timer: one heap of timers for the process, kept by a thread that is told of each change.

use std::task::Context;
use std::time::Duration;

use crate::rival::{Kept, Rival, keep, poll_once};

pub struct FuturesTimer;

impl Rival for FuturesTimer {
    const NAME: &str = "futures-timer";
    type Armed = Kept;

    fn new() -> Self {
        FuturesTimer
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Kept {
        keep(futures_timer::Delay::new(duration), cx)
    }

    #[inline]
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        poll_once(futures_timer::Delay::new(duration), cx);
    }
}
