//! Sleeps and timeouts beside `tokio::time`'s. `benches/rivals` measures arming and cancelling.
//!
//! - `timeout_ready`: creates a `timeout` around a ready future and polls it;
//! - `repoll`: polls a waiting sleep, as `select!` in a loop does;
//! - `reset_later`: moves a waiting sleep to a later deadline.
//!
//! Each runs in a loop within one poll of a task, in one task or in two at the same time, on a runtime with two workers.
//! With two tasks, the figure is the time per operation of one task.
//!
//! Run `cargo bench -p micro --bench time` in `benches`, on an idle machine.

use std::future::{self, Future};
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use micro::{Run, compare};
use tokio::task;
use tools::Gate;

/// An operation: takes the context of the task that it runs in, and a number that increases.
trait Operation: FnMut(&mut Context<'_>, u64) + Send + 'static {}

impl<F: FnMut(&mut Context<'_>, u64) + Send + 'static> Operation for F {}

macro_rules! operations {
    ($module:ident, $($time:ident)::+) => {
        mod $module {
            use super::*;

            pub fn timeout_ready() -> impl Operation {
                |cx, i| {
                    let timeout = pin!($($time)::+::timeout(varied(i), future::ready(black_box(i))));
                    assert!(timeout.poll(cx).is_ready());
                }
            }

            pub fn repoll() -> impl Operation {
                let mut sleep = Box::pin($($time)::+::sleep(varied(0)));
                move |cx, _| assert!(sleep.as_mut().poll(cx).is_pending())
            }

            pub fn reset_later() -> impl Operation {
                let mut sleep = Box::pin($($time)::+::sleep(varied(0)));
                let mut deadline = Instant::now() + varied(1);
                let mut is_armed = false;
                move |cx, _| {
                    if !is_armed {
                        assert!(sleep.as_mut().poll(cx).is_pending());
                        is_armed = true;
                    }
                    deadline += Duration::from_micros(1);
                    sleep.as_mut().reset(deadline.into());
                }
            }
        }
    };
}

operations!(ours, hairspring);
operations!(theirs, tokio::time);

fn main() {
    for tasks in [1, 2] {
        bench("timeout_ready", tasks, ours::timeout_ready, theirs::timeout_ready);
        bench("repoll", tasks, ours::repoll, theirs::repoll);
        bench("reset_later", tasks, ours::reset_later, theirs::reset_later);
    }
}

fn bench<O: Operation, P: Operation>(operation: &str, tasks: u32, ours: fn() -> O, theirs: fn() -> P) {
    let runtimes = [micro::runtime(2), micro::runtime(2)];
    let ours: Run<'_> = &mut |iters| runtimes[0].block_on(measure(tasks, ours, iters));
    let theirs: Run<'_> = &mut |iters| runtimes[1].block_on(measure(tasks, theirs, iters));
    compare(&format!("{operation}/{tasks}_tasks"), 1, &mut [("hairspring", ours), ("tokio", theirs)]);
}

/// Lets each task do the operation `iters` times, and returns how long that took, as a mean of the tasks.
async fn measure<O: Operation>(tasks: u32, make: fn() -> O, iters: u64) -> Duration {
    let gate = Arc::new(Gate::new(tasks as usize));
    let task = |_| {
        let gate = Arc::clone(&gate);
        tokio::spawn(async move {
            let mut operation = make();
            // With its first sleeps a thread finds its runtime, with the help of a task that needs a turn.
            for _ in 0..4 {
                repeat(&mut operation, 1).await;
                task::yield_now().await;
            }
            gate.meet().await;
            repeat(&mut operation, iters).await
        })
    };
    let mut sum = Duration::ZERO;
    for task in (0..tasks).map(task).collect::<Vec<_>>() {
        sum += task.await.expect("no operation panics");
    }
    sum / tasks
}

/// Does the operation `iters` times within one poll of the task, and returns how long that took.
async fn repeat<O: Operation>(operation: &mut O, iters: u64) -> Duration {
    future::poll_fn(|cx| {
        let start = Instant::now();
        for i in 0..iters {
            operation(cx, i);
        }
        let taken = start.elapsed();
        // Without budget, a poll would return before it reaches the timer. Only ready polls spend any.
        assert!(task::coop::has_budget_remaining(), "the operations reached the timer");
        Poll::Ready(taken)
    })
    .await
}

/// 30 to 40 s: later than the earlier timer, and not always the same.
fn varied(i: u64) -> Duration {
    Duration::from_millis(30_000 + i % 10_000)
}
