//! Creating a sleep, polling it once and dropping it, in tasks of a runtime with two workers.

use std::array;
use std::future::{self, Future};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task;

use crate::gate::Gate;
use crate::session::Session;
use crate::{Hairspring, Time, Tokio, mixed, runtime};

/// Operations in one poll of a task. Then the task yields, which lets the runtime run.
const OPERATIONS: u32 = 1_000;

/// Due before those that are measured.
const EARLIER: Duration = Duration::from_secs(20);

/// Drawn beforehand, because that takes as long as a wheel does.
type Durations = [Duration; 256];

pub(crate) fn run(session: &mut Session) {
    session.group("arm and cancel a sleep");
    let turn = session.options.turn;
    for (is_waiting, others) in [(false, "no other pending"), (true, "an earlier one pending")] {
        for (tasks, named) in [(1, "1 task"), (2, "2 tasks at the same time")] {
            session.compare(&[format!("{named}, {others}")], || {
                (turns::<Hairspring>(tasks, is_waiting, turn), turns::<Tokio>(tasks, is_waiting, turn))
            });
        }
    }
}

fn turns<T: Time>(tasks: usize, is_waiting: bool, turn: Duration) -> impl FnMut() -> Vec<f64> {
    let runtime = runtime();
    if is_waiting {
        runtime.spawn(async {
            loop {
                T::sleep(EARLIER).await;
            }
        });
    }
    move || {
        // The workers park, which makes them look at what is pending.
        thread::sleep(Duration::from_millis(1));
        let gate = Arc::new(Gate::new(tasks));
        let running: Vec<_> = (0..tasks).map(|_| runtime.spawn(measure::<T>(Arc::clone(&gate), turn))).collect();
        let figures = running.into_iter().map(|task| runtime.block_on(task).expect("nothing panics"));
        vec![figures.sum::<f64>() / tasks as f64]
    }
}

/// Nanoseconds per operation.
async fn measure<T: Time>(gate: Arc<Gate>, turn: Duration) -> f64 {
    let durations: Box<Durations> =
        Box::new(array::from_fn(|i| Duration::from_nanos(30_000_000_000 + mixed(i as u64) % 10_000_000_000)));
    // On a thread's first timers, a library may have to set up its state there.
    for _ in 0..16 {
        repeat::<T>(&durations, 1).await;
        task::yield_now().await;
    }
    gate.meet().await;
    let (start, mut operations) = (Instant::now(), 0_u32);
    loop {
        repeat::<T>(&durations, OPERATIONS).await;
        operations += OPERATIONS;
        let elapsed = start.elapsed();
        if elapsed >= turn {
            return elapsed.as_nanos() as f64 / f64::from(operations);
        }
        task::yield_now().await;
    }
}

/// Arms and cancels so often in one poll of the task.
async fn repeat<T: Time>(durations: &Durations, operations: u32) {
    let arm_cancel = |cx: &mut Context<'_>, duration| {
        let is_pending = pin!(T::sleep(duration)).poll(cx).is_pending();
        assert!(is_pending, "its deadline is far away");
    };
    future::poll_fn(|cx| {
        durations.iter().cycle().take(operations as usize).for_each(|&duration| arm_cancel(cx, duration));
        // Without a budget, polls are pending and arm nothing.
        assert!(task::coop::has_budget_remaining(), "the operations were real ones");
        Poll::Ready(())
    })
    .await;
}
