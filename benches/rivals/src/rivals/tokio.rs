//! `tokio::time`: one wheel for each runtime, behind a lock.

use std::future::Future;
use std::task::Context;
use std::time::{Duration, Instant};

use crate::rival::{Kept, Rival, Until, keep, poll_once};

pub struct Tokio;

impl Rival for Tokio {
    const NAME: &str = "tokio::time";
    type Armed = Kept;

    fn new() -> Self {
        Tokio
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Kept {
        keep(tokio::time::sleep(duration), cx)
    }

    #[inline]
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        poll_once(tokio::time::sleep(duration), cx);
    }
}

impl Until for Tokio {
    const NAME: &str = <Tokio as Rival>::NAME;

    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send + 'static {
        tokio::time::sleep_until(deadline.into())
    }
}
