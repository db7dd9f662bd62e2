//! This crate's free functions.

use std::future::Future;
use std::task::Context;
use std::time::{Duration, Instant};

use crate::rival::{Kept, Rival, Until, keep, poll_once};

pub struct Hairspring;

impl Rival for Hairspring {
    const NAME: &str = "hairspring";
    type Armed = Kept;

    fn new() -> Self {
        Hairspring
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Kept {
        keep(hairspring::sleep(duration), cx)
    }

    #[inline]
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        poll_once(hairspring::sleep(duration), cx);
    }
}

impl Until for Hairspring {
    const NAME: &str = <Hairspring as Rival>::NAME;

    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send + 'static {
        hairspring::sleep_until(deadline.into())
    }
}
