//! pingora-timeout's fast timers: ticks of 10 ms, a tree of ticks for each thread; what is dropped stays until its
//! tick.

use std::task::Context;
use std::time::Duration;

use crate::rival::{Kept, Rival, keep, poll_once};

pub struct Pingora;

impl Rival for Pingora {
    const NAME: &str = "pingora-timeout";
    type Armed = Kept;

    fn new() -> Self {
        Pingora
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Kept {
        keep(pingora_timeout::fast_timeout::fast_sleep(duration), cx)
    }

    #[inline]
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        poll_once(pingora_timeout::fast_timeout::fast_sleep(duration), cx);
    }
}
