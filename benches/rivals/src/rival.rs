//! What a timer has to do to take part.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Context;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

/// A timer, as one task holds it.
pub trait Rival: Sized + Send + 'static {
    const NAME: &str;
    /// Whether it can be had on a current-thread runtime.
    const ON_CURRENT_THREAD: bool = true;
    /// Whether all tasks of a runtime use one timer, so that an early deadline of one task counts for all.
    const SHARED: bool = true;

    /// Keeps a timer armed.
    type Armed: Send + 'static;

    /// Settings of the runtime that it needs.
    fn configure(_runtime: &mut Builder) {}

    /// Called in a task of the runtime.
    fn new() -> Self;

    /// What another task of the same runtime holds.
    fn for_another_task(&self) -> Self {
        Self::new()
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Self::Armed;

    fn cancel(&mut self, armed: Self::Armed) {
        drop(armed);
    }

    /// What is measured.
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        let armed = self.arm(duration, cx);
        self.cancel(armed);
    }
}

/// A rival that is also let run out: for firing, tasks and memory, or for lateness.
pub trait Until: Rival {
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send + 'static;
}

/// A future that was polled, and is kept so that it stays armed.
pub type Kept = Pin<Box<dyn Send>>;

/// Polls a sleep once, on the stack, and drops it.
#[inline]
pub fn poll_once(sleep: impl Future, cx: &mut Context<'_>) {
    assert!(pin!(sleep).poll(cx).is_pending(), "its deadline is far away");
}

/// Polls a sleep once and keeps it.
pub fn keep(sleep: impl Future + Send + 'static, cx: &mut Context<'_>) -> Kept {
    let mut sleep = Box::pin(sleep);
    assert!(sleep.as_mut().poll(cx).is_pending(), "its deadline is far away");
    sleep
}
