//! Arming and cancelling: a timer of 30 to 40 s is made, polled once and dropped, in the tasks of a runtime.
//!
//! All rivals are ready at the same time, each with a runtime of its own, and take turns: a load that comes and goes
//! meets them all.

use std::future;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task;
use tools::{Gate, Rng, between, progress};

use crate::Options;
use crate::record::{Case, Record, RuntimeKind};
use crate::rival::Rival;
use crate::rivals::{AsyncIo, BareWheel, Floor, FuturesTimer, Hairspring, Handle, Pingora, Queue, Tick, Tokio};

pub const WORKLOAD: &str = "arm+cancel";

/// Operations in one poll of a task. Then the task yields, as tasks do, and the runtime gets to do what it put off: its
/// share is 1 ns of each figure.
const OPS_PER_POLL: u32 = 1_000;

/// How far away the earlier timer is, which is pending while others are armed.
const EARLIER: Duration = Duration::from_secs(20);

/// A rival by its name, and what measures it: nanoseconds for an operation, as each of so many tasks sees it, with an
/// earlier timer pending or not.
type Contender = (&'static str, Box<dyn FnMut(usize, bool, Duration) -> f64>);

/// Measures all rivals, on all runtimes, at all populations, with an earlier timer and without.
pub fn run(options: &Options, record: &mut Record) {
    for runtime in [RuntimeKind::Workers, RuntimeKind::CurrentThread] {
        for &population in options.populations() {
            let mut contenders = contenders(options, runtime, population);
            // First without: an earlier timer may leave an alarm behind.
            for standing in [false, true] {
                for tasks in 1..=runtime.most_tasks() {
                    take_turns(options, record, case(runtime, tasks, standing, population), &mut contenders);
                }
            }
            print(record, runtime, population);
        }
    }
}

pub fn case(runtime: RuntimeKind, tasks: usize, standing: bool, population: usize) -> Case {
    Case { workload: WORKLOAD, runtime, tasks, standing: Some(standing), population }
}

/// A column for each number of tasks and state.
fn print(record: &Record, runtime: RuntimeKind, population: usize) {
    let (mut names, mut cases) = (Vec::new(), Vec::new());
    for standing in [true, false] {
        for tasks in 1..=runtime.most_tasks() {
            let state = if standing { "earlier timer" } else { "no earlier timer" };
            names.push(format!("{tasks} task{}, {state}", if tasks == 1 { "" } else { "s" }));
            cases.push(case(runtime, tasks, standing, population));
        }
    }
    let runtime = runtime.name();
    record.print(&format!("arm and cancel, ns: {runtime}, {population} more timers pending"), &names, &cases);
}

fn contenders(options: &Options, runtime: RuntimeKind, population: usize) -> Vec<Contender> {
    let mut contenders: Vec<Contender> = Vec::new();
    macro_rules! enter {
        ($($rival:ty),*) => {
            $(if options.takes::<$rival>() && (runtime == RuntimeKind::Workers || <$rival>::ON_CURRENT_THREAD) {
                let mut site = Site::<$rival>::new(runtime, population);
                let round = move |tasks, standing, length| site.round(tasks, standing, length);
                contenders.push((<$rival>::NAME, Box::new(round)));
            })*
        };
    }
    enter!(Hairspring, Handle, Tokio);
    #[cfg(tokio_unstable)]
    enter!(crate::rivals::TokioAlt);
    enter!(Pingora, AsyncIo, FuturesTimer, Queue, Tick, Floor, BareWheel);
    contenders
}

fn take_turns(options: &Options, record: &mut Record, case: Case, contenders: &mut [Contender]) {
    let mut figures = vec![Vec::new(); contenders.len()];
    for _ in progress("arm and cancel", options.rounds() as u64).wrap_iter(0..options.rounds()) {
        for ((_, round), figures) in contenders.iter_mut().zip(&mut figures) {
            figures.push(round(case.tasks, case.standing == Some(true), options.round_length()));
        }
    }
    for ((name, _), figures) in contenders.iter().zip(figures) {
        record.add(case, name, "ns", figures);
    }
}

/// A rival with its runtime.
pub struct Site<R: Rival> {
    // Dropped before the runtime.
    seats: Vec<Seat<R>>,
    pub runtime: Runtime,
}

/// What one task of a rival holds. It goes into the task and comes out again.
struct Seat<R: Rival> {
    rival: R,
    population: Vec<R::Armed>,
    earlier: Option<R::Armed>,
    durations: Durations,
}

/// What a task does.
#[derive(Clone, Copy)]
enum Work {
    /// Arms that many timers which stay.
    Populate(usize),
    /// Arms a timer that is earlier than those which are measured.
    Stand,
    /// Cancels that again.
    Unstand,
    /// Arms and cancels for that long, and returns the nanoseconds that one took.
    Measure(Duration),
}

impl<R: Rival> Site<R> {
    /// Nanoseconds for an operation, as each of so many tasks sees it, with an earlier timer pending or not.
    pub fn round(&mut self, tasks: usize, standing: bool, length: Duration) -> f64 {
        let standers = if R::SHARED { 1 } else { tasks };
        if standing {
            self.in_tasks(standers, Work::Stand);
        }
        // The workers go to sleep and take note of what is pending.
        thread::sleep(Duration::from_millis(1));
        let figure = self.in_tasks(tasks, Work::Measure(length));
        if standing {
            self.in_tasks(standers, Work::Unstand);
        }
        figure
    }

    pub fn new(kind: RuntimeKind, population: usize) -> Self {
        let mut builder = match kind {
            RuntimeKind::Workers => Builder::new_multi_thread(),
            RuntimeKind::CurrentThread => Builder::new_current_thread(),
        };
        builder.worker_threads(2).enable_all();
        R::configure(&mut builder);
        let runtime = builder.build().expect("a runtime");
        let tasks = kind.most_tasks();
        let seats = runtime.spawn(async move {
            let first = R::new();
            let mut rivals: Vec<R> = (1..tasks).map(|_| first.for_another_task()).collect();
            rivals.push(first);
            rivals.into_iter().map(Seat::new).collect()
        });
        let seats = runtime.block_on(seats).expect("no rival panics");
        let mut site = Site { seats, runtime };
        site.in_tasks(tasks, Work::Populate(population / tasks));
        site
    }

    /// Has that many tasks do the same at once; returns the mean of what they return.
    fn in_tasks(&mut self, tasks: usize, work: Work) -> f64 {
        let gate = Arc::new(Gate::new(tasks));
        let running: Vec<_> =
            self.seats.drain(..tasks).map(|seat| self.runtime.spawn(seat.work(Arc::clone(&gate), work))).collect();
        let mut sum = 0.0;
        for (place, task) in running.into_iter().enumerate() {
            let (seat, figure) = self.runtime.block_on(task).expect("no rival panics");
            self.seats.insert(place, seat);
            sum += figure;
        }
        sum / tasks as f64
    }
}

impl<R: Rival> Seat<R> {
    fn new(rival: R) -> Self {
        Seat { rival, population: Vec::new(), earlier: None, durations: Durations::new() }
    }

    async fn work(mut self, gate: Arc<Gate>, work: Work) -> (Self, f64) {
        // On a worker thread that is new to it, a timer may have to find out where it is.
        for _ in 0..16 {
            self.repeat(1).await;
            task::yield_now().await;
        }
        gate.meet().await;
        let mut figure = 0.0;
        match work {
            Work::Populate(count) => self.populate(count).await,
            Work::Stand => self.earlier = Some(future::poll_fn(|cx| Poll::Ready(self.rival.arm(EARLIER, cx))).await),
            Work::Unstand => self.earlier.take().into_iter().for_each(|earlier| self.rival.cancel(earlier)),
            Work::Measure(length) => figure = self.measure(length).await,
        }
        // The runtime gets to take note.
        for _ in 0..4 {
            task::yield_now().await;
        }
        (self, figure)
    }

    async fn populate(&mut self, count: usize) {
        for chunk in 0..count.div_ceil(1_000) {
            let numbers = chunk * 1_000..count.min((chunk + 1) * 1_000);
            future::poll_fn(|cx| {
                self.population.extend(numbers.clone().map(|number| self.rival.arm(far_away(number as u64), cx)));
                Poll::Ready(())
            })
            .await;
            task::yield_now().await;
        }
    }

    async fn measure(&mut self, length: Duration) -> f64 {
        let begun = Instant::now();
        let mut operations = 0_u32;
        loop {
            self.repeat(OPS_PER_POLL).await;
            operations += OPS_PER_POLL;
            let elapsed = begun.elapsed();
            if elapsed >= length {
                return elapsed.as_nanos() as f64 / f64::from(operations);
            }
            task::yield_now().await;
        }
    }

    /// Arms and cancels that often, in one poll of the task.
    async fn repeat(&mut self, operations: u32) {
        future::poll_fn(|cx| {
            for _ in 0..operations {
                self.rival.arm_cancel(self.durations.next(), cx);
            }
            // A task that has used up its budget gets "pending" before any timer is armed.
            assert!(task::coop::has_budget_remaining(), "the operations were real ones");
            Poll::Ready(())
        })
        .await;
    }
}

/// One to one and a quarter hours, in no order.
fn far_away(number: u64) -> Duration {
    Duration::from_hours(1) + Duration::from_micros(number.wrapping_mul(2_654_435_761) % 1_000_000_000)
}

/// 30 to 40 s, to the nanosecond and in no order. Drawn beforehand: drawing costs as much as a wheel.
struct Durations {
    drawn: Box<[Duration; 256]>,
    next: usize,
}

impl Durations {
    fn new() -> Self {
        let mut random = Rng::with_seed(0);
        let drawn = std::array::from_fn(|_| between(&mut random, Duration::from_secs(30), Duration::from_secs(40)));
        Durations { drawn: Box::new(drawn), next: 0 }
    }

    #[inline]
    fn next(&mut self) -> Duration {
        self.next = (self.next + 1) % self.drawn.len();
        self.drawn[self.next]
    }
}
