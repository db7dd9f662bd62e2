//! The interface of a timer that takes part.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Context;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

/// A timer as held by one task.
pub trait Rival: Sized + Send + 'static {
    const NAME: &str;
    /// Whether it works on a current-thread runtime.
    const ON_CURRENT_THREAD: bool = true;
    /// Whether all tasks of a runtime share one timer: then one task's early deadline serves all.
    const SHARED: bool = true;

    /// A timer that stays armed until this is dropped or cancelled.
    type Armed: Send + 'static;

    /// Configures the runtime.
    fn configure(_runtime: &mut Builder) {}

    /// Called in a task of the runtime.
    fn new() -> Self;

    /// For another task of the same runtime.
    fn for_another_task(&self) -> Self {
        Self::new()
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Self::Armed;

    fn cancel(&mut self, armed: Self::Armed) {
        drop(armed);
    }

    /// The operation that is measured.
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        let armed = self.arm(duration, cx);
        self.cancel(armed);
    }
}

/// A rival whose timers are also left to fire.
pub trait Until: Rival {
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send + 'static;
}

/// A future that was polled and stays armed.
pub type Kept = Pin<Box<dyn Send>>;

/// Polls a sleep once on the stack, then drops it.
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

/// A multi-thread runtime.
pub fn workers(count: usize, configure: fn(&mut Builder)) -> Runtime {
    build(Builder::new_multi_thread().worker_threads(count), configure)
}

pub fn build(builder: &mut Builder, configure: fn(&mut Builder)) -> Runtime {
    configure(builder.enable_all());
    builder.build().expect("the system has enough threads and files")
}
