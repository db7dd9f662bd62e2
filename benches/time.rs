//! Sleeps and timeouts beside `tokio::time`'s, in the same run.
//!
//! What is measured is what a server does all day: timers that are made, polled once and dropped again, because what
//! they guard came in time.
//!
//! - `arm_cancel`: makes a sleep of 30 to 40 s, polls it once and drops it;
//! - `timeout_ready`: makes a `timeout` around a future that is ready, and polls it;
//! - `repoll`: polls a sleep that is waiting, as a `select!` in a loop does;
//! - `reset_later`: gives a sleep that is waiting a later deadline;
//! - `create`: makes a sleep and drops it, not polled;
//! - `floor`: what arming and cancelling cannot do without, as long as timers have a lock: one reading of the clock, two
//!   uncontended pairs of lock and unlock, one clone and drop of the waker.
//!
//! `hairspring` goes through the free functions, `handle` through a [`Timer`] that is held.
//!
//! # Where
//! Always inside a spawned task, as timers are, in a loop within one poll of it: on a current-thread runtime, and on two
//! workers in one task or in two tasks at once. With two, the time is an operation's as each task sees it.
//!
//! # With a standing timer and with none
//! A new timer that is earlier than all others has to tell whoever sleeps until the earliest, so `arm_cancel` is measured
//! in both states: `standing`, where a sleep of 20 s is pending on the runtime (one of each crate's), as there nearly
//! always is one in a program that uses timers, and `none`. The state is one of the peer's as much as of ours; where
//! there is none, hairspring tells its driver at the first arming and then keeps the alarm although the timer was
//! cancelled, so that the following ones need not.
//!
//! # tokio's `test-util`
//! This package's tests switch it on, and cargo does so for the benches too. Tokio then looks at a flag whenever it
//! reads the clock, for itself and for hairspring. Without the feature the figures were within 1% of those with it.
//!
//! # Running it
//! `cargo bench --bench time`, on a machine that does nothing else: the contenders take turns of about a second, so a
//! load that comes and goes shifts the ratios. With `-- --test` each operation runs once, to see that it does.

mod table;

use std::future::{self, Future};
use std::hint::{self, black_box};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode};
use hairspring::Timer;
use tokio::runtime::{Builder, Runtime};
use tokio::task;

/// The functions that are compared. A value of it is what a task holds to call them.
trait Api: Send + 'static {
    const NAME: &str;
    type Sleep: Future<Output = ()> + Send;

    /// Called inside the task that is measured.
    fn in_task() -> Self;
    fn sleep(&self, duration: Duration) -> Self::Sleep;
    fn timeout<F: Future>(&self, duration: Duration, future: F) -> impl Future;
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant);
}

struct Tokio;

impl Api for Tokio {
    const NAME: &str = "tokio";
    type Sleep = tokio::time::Sleep;

    fn in_task() -> Self {
        Tokio
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        tokio::time::sleep(duration)
    }

    fn timeout<F: Future>(&self, duration: Duration, future: F) -> impl Future {
        tokio::time::timeout(duration, future)
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.reset(deadline.into());
    }
}

struct Free;

impl Api for Free {
    const NAME: &str = "hairspring";
    type Sleep = hairspring::Sleep;

    fn in_task() -> Self {
        Free
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        hairspring::sleep(duration)
    }

    fn timeout<F: Future>(&self, duration: Duration, future: F) -> impl Future {
        hairspring::timeout(duration, future)
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.reset(deadline.into());
    }
}

struct Handle(Timer);

impl Api for Handle {
    const NAME: &str = "handle";
    type Sleep = hairspring::Sleep;

    fn in_task() -> Self {
        Handle(Timer::current())
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn timeout<F: Future>(&self, duration: Duration, future: F) -> impl Future {
        self.0.timeout(duration, future)
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.reset(deadline.into());
    }
}

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
    /// Whether an earlier timer stands on the runtime.
    standing: bool,
}

const STANDING: [Setting; 3] = [
    Setting { name: "current_thread/standing", workers: None, tasks: 1, standing: true },
    Setting { name: "2_workers_1_task/standing", workers: Some(2), tasks: 1, standing: true },
    Setting { name: "2_workers_2_tasks/standing", workers: Some(2), tasks: 2, standing: true },
];

const NONE: [Setting; 3] = [
    Setting { name: "current_thread/none", standing: false, ..STANDING[0] },
    Setting { name: "2_workers_1_task/none", standing: false, ..STANDING[1] },
    Setting { name: "2_workers_2_tasks/none", standing: false, ..STANDING[2] },
];

fn main() {
    // Some fifty benchmarks, and a full run is to take about a minute and a half.
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(50)
        .nresamples(20_000)
        .configure_from_args();
    for setting in STANDING.into_iter().chain(NONE) {
        compare(&mut criterion, "arm_cancel", setting, |group| {
            group.bench::<Free, _>(arm_cancel::<Free>);
            group.bench::<Handle, _>(arm_cancel::<Handle>);
            group.bench::<Tokio, _>(arm_cancel::<Tokio>);
        });
    }
    // What follows either arms nothing or has a timer standing by itself.
    for setting in STANDING {
        compare(&mut criterion, "timeout_ready", setting, |group| {
            group.bench::<Free, _>(timeout_ready::<Free>);
            group.bench::<Handle, _>(timeout_ready::<Handle>);
            group.bench::<Tokio, _>(timeout_ready::<Tokio>);
        });
        compare(&mut criterion, "repoll", setting, |group| {
            group.bench::<Free, _>(repoll::<Free>);
            group.bench::<Tokio, _>(repoll::<Tokio>);
        });
        compare(&mut criterion, "reset_later", setting, |group| {
            group.bench::<Free, _>(reset_later::<Free>);
            group.bench::<Tokio, _>(reset_later::<Tokio>);
        });
        compare(&mut criterion, "create", setting, |group| {
            group.bench::<Free, _>(create::<Free>);
            group.bench::<Handle, _>(create::<Handle>);
            group.bench::<Tokio, _>(create::<Tokio>);
        });
        compare(&mut criterion, "floor", setting, |group| group.bench_named("std", floor));
    }
    criterion.final_summary();
    table::print(Tokio::NAME);
    if cfg!(feature = "test-util") {
        println!("\nMeasured with the feature test-util, which takes hairspring's shortcuts away.");
    }
}

/// One operation in one setting, by all contenders in turn.
struct Group<'a> {
    criterion: BenchmarkGroup<'a, WallTime>,
    row: String,
    setting: Setting,
}

fn compare(criterion: &mut Criterion, operation: &str, setting: Setting, contenders: impl FnOnce(&mut Group<'_>)) {
    let row = format!("{operation}/{}", setting.name);
    let mut group = Group { criterion: criterion.benchmark_group(&row), row, setting };
    // All samples have the same number of iterations: the table at the end relies on it.
    group.criterion.sampling_mode(SamplingMode::Flat);
    contenders(&mut group);
    group.criterion.finish();
}

impl Group<'_> {
    fn bench<A: Api, O: Operation>(&mut self, make: fn() -> O) {
        self.bench_named(A::NAME, make);
    }

    fn bench_named<O: Operation>(&mut self, contender: &str, make: fn() -> O) {
        let (row, setting) = (&self.row, self.setting);
        // A runtime of its own: nothing is left there of what was measured before.
        let runtime = setting.runtime();
        self.criterion.bench_function(contender, |bencher| {
            bencher.iter_custom(|iters| {
                let taken = runtime.block_on(setting.measure(make, iters));
                table::record(row, contender, iters, taken);
                taken
            });
        });
    }
}

impl Setting {
    fn runtime(self) -> Runtime {
        let mut builder = match self.workers {
            None => Builder::new_current_thread(),
            Some(_) => Builder::new_multi_thread(),
        };
        builder.worker_threads(self.workers.unwrap_or(1)).enable_all().build().expect("a runtime")
    }

    /// Has each task do the operation `iters` times, and returns what that took, as a mean of the tasks.
    async fn measure<O: Operation>(self, make: fn() -> O, iters: u64) -> Duration {
        // Anew for each sample, so that it is always pending, however long a run goes on.
        let standing = if self.standing { stand().await } else { Vec::new() };
        let arrived = Arc::new(AtomicU32::new(0));
        let tasks: Vec<_> = (0..self.tasks)
            .map(|_| {
                let arrived = Arc::clone(&arrived);
                tokio::spawn(async move {
                    let mut operation = make();
                    // The first sleeps on a thread find out what runtime it belongs to, with the help of a task that
                    // wants to run.
                    for _ in 0..4 {
                        repeat(&mut operation, 1).await;
                        task::yield_now().await;
                    }
                    self.meet(&arrived).await;
                    repeat(&mut operation, iters).await
                })
            })
            .collect();
        let mut sum = Duration::ZERO;
        for task in tasks {
            sum += task.await.expect("no operation panics");
        }
        for timer in standing {
            timer.abort();
            assert!(timer.await.is_err(), "it stood until now");
        }
        sum / self.tasks
    }

    /// Returns in all tasks at the same moment, each on a thread of its own.
    ///
    /// A barrier that suspends the task would let both go on on one thread, one after the other. One that blocks the
    /// thread waits for ever where the other task is in line behind this one, where no other thread can take it.
    async fn meet(self, arrived: &AtomicU32) {
        loop {
            arrived.fetch_add(1, SeqCst);
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(1) {
                if arrived.load(SeqCst) == self.tasks {
                    return;
                }
                hint::spin_loop();
            }
            let left = arrived.fetch_update(SeqCst, SeqCst, |count| (count < self.tasks).then(|| count - 1));
            if left.is_err() {
                return;
            }
            task::yield_now().await;
        }
    }
}

/// Makes a timer of each crate that is earlier than those that will be armed, and lets their drivers take note.
async fn stand() -> Vec<task::JoinHandle<()>> {
    const EARLIER: Duration = Duration::from_secs(20);
    let timers = vec![
        tokio::spawn(async { tokio::time::sleep(EARLIER).await }),
        tokio::spawn(async { hairspring::sleep(EARLIER).await }),
    ];
    tokio::time::sleep(Duration::from_millis(2)).await;
    timers
}

/// Does the operation `iters` times within one poll of the task, and returns how long that took.
async fn repeat<O: Operation>(operation: &mut O, iters: u64) -> Duration {
    future::poll_fn(|cx| {
        let start = Instant::now();
        for i in 0..iters {
            operation(cx, i);
        }
        let taken = start.elapsed();
        // A task without budget is told "pending" before the timer is looked at. Polls that are not ready spend none.
        assert!(task::coop::has_budget_remaining(), "the operations were real ones");
        Poll::Ready(taken)
    })
    .await
}

/// 30 to 40 s: later than the standing timer, and not always the same.
fn varied(i: u64) -> Duration {
    Duration::from_millis(30_000 + i % 10_000)
}

fn arm_cancel<A: Api>() -> impl Operation {
    let api = A::in_task();
    move |cx, i| {
        let sleep = pin!(api.sleep(varied(i)));
        assert!(sleep.poll(cx).is_pending());
    }
}

fn timeout_ready<A: Api>() -> impl Operation {
    let api = A::in_task();
    move |cx, i| {
        let timeout = pin!(api.timeout(varied(i), future::ready(black_box(i))));
        assert!(timeout.poll(cx).is_ready());
    }
}

fn repoll<A: Api>() -> impl Operation {
    let mut sleep = Box::pin(A::in_task().sleep(varied(0)));
    move |cx, _| assert!(sleep.as_mut().poll(cx).is_pending())
}

fn reset_later<A: Api>() -> impl Operation {
    let mut sleep = Box::pin(A::in_task().sleep(varied(0)));
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
    let api = A::in_task();
    move |_, i| {
        black_box(&api.sleep(varied(i)));
    }
}

fn floor() -> impl Operation {
    let lock = Mutex::new(0);
    move |cx, i| {
        black_box(Instant::now());
        let waker = black_box(cx.waker().clone());
        *black_box(&lock).lock().unwrap() += i;
        *black_box(&lock).lock().unwrap() -= i;
        drop(waker);
    }
}
