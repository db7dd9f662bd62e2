//! Tokio's alternative timer, an unstable option of its runtime: a wheel for each worker thread.

use std::task::Context;
use std::time::Duration;

use tokio::runtime::Builder;

use crate::rival::{Kept, Rival, keep, poll_once};

pub struct TokioAlt;

impl Rival for TokioAlt {
    const NAME: &str = "tokio, alternative";
    // The option has no effect there.
    const ON_CURRENT_THREAD: bool = false;
    type Armed = Kept;

    fn configure(runtime: &mut Builder) {
        runtime.enable_alt_timer();
    }

    fn new() -> Self {
        TokioAlt
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Kept {
        keep(tokio::time::sleep(duration), cx)
    }

    #[inline]
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        poll_once(tokio::time::sleep(duration), cx);
    }
}
