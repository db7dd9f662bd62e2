//! Sleeps and timeouts beside `tokio::time`'s, in the same run. Arming and cancelling one is in `benches/rivals`.
//!
//! - `timeout_ready`: makes a `timeout` around a future that is ready, and polls it;
//! - `repoll`: polls a sleep that is waiting, as a `select!` in a loop does;
//! - `reset_later`: gives a sleep that is waiting a later deadline;
//! - `create`: makes a sleep and drops it, not polled.
//!
//! Always inside a spawned task, as timers are, in a loop within one poll of it: on a current-thread runtime, and on two
//! workers in one task or in two tasks at once. With two, the time is an operation's as each task sees it. A sleep of
//! each crate's is pending on the runtime that is earlier than all others, as there nearly always is one in a program
//! that uses timers.
//!
//! `cargo bench --bench time` in `benches`, on a machine that does nothing else: the contenders take turns of about a
//! second, so a load that comes and goes shifts the ratios. With `-- --test` each operation runs once, to see that it
//! does.

use std::future::{self, Future};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use criterion::Criterion;
use micro::{compare, criterion, print, stand};
use tokio::runtime::Builder;
use tokio::task;
use tools::Gate;

/// The functions that are compared.
trait Api: 'static {
    const NAME: &str;
    type Sleep: Future<Output = ()> + Send;

    fn sleep(duration: Duration) -> Self::Sleep;
    fn timeout<F: Future>(duration: Duration, future: F) -> impl Future;
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant);
}

macro_rules! api {
    ($name:ident, $shown:literal, $($time:ident)::+) => {
        struct $name;

        impl Api for $name {
            const NAME: &str = $shown;
            type Sleep = $($time)::+::Sleep;

            fn sleep(duration: Duration) -> Self::Sleep {
                $($time)::+::sleep(duration)
            }

            fn timeout<F: Future>(duration: Duration, future: F) -> impl Future {
                $($time)::+::timeout(duration, future)
            }

            fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
                sleep.reset(deadline.into());
            }
        }
    };
}

api!(Hairspring, "hairspring", hairspring);
api!(Tokio, "tokio", tokio::time);

/// An operation: called with the context of the task that it runs in, and with a number that goes up.
trait Operation: FnMut(&mut Context<'_>, u64) + Send + 'static {}

impl<F: FnMut(&mut Context<'_>, u64) + Send + 'static> Operation for F {}

/// Where operations are measured.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    /// `None` for a current-thread runtime.
    workers: Option<usize>,
    /// How many tasks do the same at once.
    tasks: u32,
}

const SETTINGS: [Setting; 3] = [
    Setting { name: "current_thread", workers: None, tasks: 1 },
    Setting { name: "2_workers_1_task", workers: Some(2), tasks: 1 },
    Setting { name: "2_workers_2_tasks", workers: Some(2), tasks: 2 },
];

fn main() {
    let mut criterion = criterion(50);
    for setting in SETTINGS {
        bench(&mut criterion, "timeout_ready", setting, timeout_ready::<Hairspring>, timeout_ready::<Tokio>);
        bench(&mut criterion, "repoll", setting, repoll::<Hairspring>, repoll::<Tokio>);
        bench(&mut criterion, "reset_later", setting, reset_later::<Hairspring>, reset_later::<Tokio>);
        bench(&mut criterion, "create", setting, create::<Hairspring>, create::<Tokio>);
    }
    criterion.final_summary();
    print(Tokio::NAME);
}

fn bench<O: Operation, P: Operation>(
    criterion: &mut Criterion,
    operation: &str,
    setting: Setting,
    ours: fn() -> O,
    theirs: fn() -> P,
) {
    let row = format!("{operation}/{}", setting.name);
    let contenders: &mut [(&str, micro::Run<'_>)] =
        &mut [(Hairspring::NAME, &mut setting.run(ours)), (Tokio::NAME, &mut setting.run(theirs))];
    compare(criterion, &row, contenders);
}

impl Setting {
    /// Has each task do the operation so many times, and returns what that took, as a mean of the tasks.
    fn run<O: Operation>(self, make: fn() -> O) -> impl FnMut(u64) -> Duration {
        let mut builder = match self.workers {
            None => Builder::new_current_thread(),
            Some(_) => Builder::new_multi_thread(),
        };
        // A runtime of its own: nothing is left there of what was measured before.
        let runtime = builder.worker_threads(self.workers.unwrap_or(1)).enable_all().build().expect("a runtime");
        move |iters| runtime.block_on(self.measure(make, iters))
    }

    async fn measure<O: Operation>(self, make: fn() -> O, iters: u64) -> Duration {
        // Anew for each sample, so that it is always pending, however long a run goes on.
        let standing = stand().await;
        let gate = Arc::new(Gate::new(self.tasks as usize));
        let tasks: Vec<_> = (0..self.tasks)
            .map(|_| {
                let gate = Arc::clone(&gate);
                tokio::spawn(async move {
                    let mut operation = make();
                    // The first sleeps on a thread find out what runtime it belongs to, with the help of a task that
                    // wants to run.
                    for _ in 0..4 {
                        repeat(&mut operation, 1).await;
                        task::yield_now().await;
                    }
                    gate.meet().await;
                    repeat(&mut operation, iters).await
                })
            })
            .collect();
        let mut sum = Duration::ZERO;
        for task in tasks {
            sum += task.await.expect("no operation panics");
        }
        standing.iter().for_each(task::JoinHandle::abort);
        sum / self.tasks
    }
}

/// Does the operation `iters` times within one poll of the task, and returns how long that took.
async fn repeat<O: Operation>(operation: &mut O, iters: u64) -> Duration {
    future::poll_fn(|cx| {
        let start = Instant::now();
        for i in 0..iters {
            operation(cx, i);
        }
        let taken = start.elapsed();
        // A task without budget gets "pending" before the timer is looked at. Polls that are not ready spend none.
        assert!(task::coop::has_budget_remaining(), "the operations were real ones");
        Poll::Ready(taken)
    })
    .await
}

/// 30 to 40 s: later than the standing timer, and not always the same.
fn varied(i: u64) -> Duration {
    Duration::from_millis(30_000 + i % 10_000)
}

fn timeout_ready<A: Api>() -> impl Operation {
    |cx, i| {
        let timeout = pin!(A::timeout(varied(i), future::ready(black_box(i))));
        assert!(timeout.poll(cx).is_ready());
    }
}

fn repoll<A: Api>() -> impl Operation {
    let mut sleep = Box::pin(A::sleep(varied(0)));
    move |cx, _| assert!(sleep.as_mut().poll(cx).is_pending())
}

fn reset_later<A: Api>() -> impl Operation {
    let mut sleep = Box::pin(A::sleep(varied(0)));
    let mut deadline = Instant::now() + varied(1);
    let mut is_armed = false;
    move |cx, _| {
        if !is_armed {
            assert!(sleep.as_mut().poll(cx).is_pending());
            is_armed = true;
        }
        deadline += Duration::from_micros(1);
        A::reset(sleep.as_mut(), deadline);
    }
}

fn create<A: Api>() -> impl Operation {
    |_, i| {
        black_box(&A::sleep(varied(i)));
    }
}
