//! Creating a timer of 30 to 40 s, polling it once and dropping it, in the tasks of a runtime.
//!
//! All rivals are set up in one process, each with its own runtime, and take turns.

use std::array;
use std::future;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task;
use tools::{Gate, Rng, between};

use crate::Options;
use crate::record::{CURRENT_THREAD, Case, Record, WORKERS};
use crate::rival::{Rival, build, workers};
use crate::rivals::{AsyncIo, BareWheel, Floor, FuturesTimer, Hairspring, Handle, Pingora, Queue, Tick, Tokio};
use crate::session::{contains, take_turns};

/// Operations in one poll of a task. Then the task yields, which lets the runtime run. That takes 1 ns per operation.
const OPS_PER_POLL: u32 = 1_000;

/// The deadline of the earlier timer that stays pending.
const EARLIER: Duration = Duration::from_secs(20);

/// A rival's name, and its [`Site::round`].
type Contender = (&'static str, Box<dyn FnMut(usize, bool, Duration) -> f64>);

pub fn run(options: &Options, record: &mut Record) {
    for (runtime, most_tasks) in [(WORKERS, 2), (CURRENT_THREAD, 1)] {
        for &population in options.populations() {
            let mut contenders = contenders(options, most_tasks, population);
            let (mut columns, mut cases) = (Vec::new(), Vec::new());
            // First without an earlier timer, because one may leave an alarm behind.
            for (standing, earlier) in [(false, "none"), (true, "standing")] {
                for tasks in 1..=most_tasks {
                    let case = case(runtime, tasks, standing, population);
                    let turns = take_turns("arm and cancel", options.rounds(), contenders.len(), |place, _| {
                        (contenders[place].1)(tasks, standing, options.round_length())
                    });
                    contenders.iter().zip(turns).for_each(|((name, _), figures)| record.add(case, name, "ns", figures));
                    columns.push(format!("tasks: {tasks}, earlier timer: {earlier}"));
                    cases.push(case);
                }
            }
            let columns: Vec<_> = columns.iter().map(String::as_str).collect();
            let title = format!("arm and cancel, ns: {runtime}, {population} other timers pending");
            record.print(&title, &columns, &cases);
        }
    }
}

pub fn case(runtime: &'static str, tasks: usize, standing: bool, population: usize) -> Case {
    let earlier = if standing { "standing" } else { "none" };
    Case { runtime, tasks, earlier, ..Case::of("arm+cancel", population) }
}

fn contenders(options: &Options, most_tasks: usize, population: usize) -> Vec<Contender> {
    let mut contenders: Vec<Contender> = Vec::new();
    macro_rules! enter {
        ($($rival:ty),*) => {
            $(
                // All ratios are to hairspring, so it always takes part.
                let takes_part = <$rival>::NAME == Hairspring::NAME || contains(&options.only, <$rival>::NAME);
                if takes_part && (most_tasks > 1 || <$rival>::ON_CURRENT_THREAD) {
                    let mut site = Site::<$rival>::new(most_tasks, population);
                    let round = move |tasks, standing, length| site.round(tasks, standing, length);
                    contenders.push((<$rival>::NAME, Box::new(round)));
                }
            )*
        };
    }
    enter!(Hairspring, Handle, Tokio);
    #[cfg(tokio_unstable)]
    enter!(crate::rivals::TokioAlt);
    enter!(Pingora, AsyncIo, FuturesTimer, Queue, Tick, Floor, BareWheel);
    contenders
}

/// A rival with its runtime.
pub struct Site<R: Rival> {
    // Dropped before the runtime.
    seats: Vec<Seat<R>>,
    pub runtime: Runtime,
}

/// The state of one task. It moves into the task and back.
struct Seat<R: Rival> {
    rival: R,
    population: Vec<R::Armed>,
    earlier: Option<R::Armed>,
    /// 30 to 40 s at random, drawn beforehand because that takes as long as a wheel does.
    durations: Box<[Duration; 256]>,
    /// The index of the next duration.
    next: u8,
}

/// What a task does in one turn.
#[derive(Clone, Copy)]
enum Work {
    /// Arms so many timers, which stay.
    Populate(usize),
    /// Arms a timer that is earlier than the measured ones.
    Stand,
    /// Cancels that timer.
    Unstand,
    /// Arms and cancels for so long.
    Measure(Duration),
}

impl<R: Rival> Site<R> {
    /// Nanoseconds per operation in each of so many tasks, with an earlier timer pending or not.
    pub fn round(&mut self, tasks: usize, standing: bool, length: Duration) -> f64 {
        let standers = if R::SHARED { 1 } else { tasks };
        if standing {
            self.in_tasks(standers, Work::Stand);
        }
        // The workers park, which makes them look at what is pending.
        thread::sleep(Duration::from_millis(1));
        let figure = self.in_tasks(tasks, Work::Measure(length));
        if standing {
            self.in_tasks(standers, Work::Unstand);
        }
        figure
    }

    /// With two tasks, on two workers; with one, on a current-thread runtime.
    pub fn new(tasks: usize, population: usize) -> Self {
        let runtime = match tasks {
            1 => build(&mut Builder::new_current_thread(), R::configure),
            _ => workers(tasks, R::configure),
        };
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

    /// Runs the same work in so many tasks simultaneously. Returns the mean of their figures.
    fn in_tasks(&mut self, tasks: usize, work: Work) -> f64 {
        let gate = Arc::new(Gate::new(tasks));
        let running: Vec<_> =
            self.seats.drain(..tasks).map(|seat| self.runtime.spawn(seat.work(Arc::clone(&gate), work))).collect();
        let done = running.into_iter().map(|task| self.runtime.block_on(task).expect("no rival panics"));
        let (seats, figures): (Vec<_>, Vec<_>) = done.unzip();
        self.seats.splice(0..0, seats);
        figures.iter().sum::<f64>() / tasks as f64
    }
}

impl<R: Rival> Seat<R> {
    fn new(rival: R) -> Self {
        let mut random = Rng::with_seed(0);
        let durations = array::from_fn(|_| between(&mut random, Duration::from_secs(30), Duration::from_secs(40)));
        Seat { rival, population: Vec::new(), earlier: None, durations: Box::new(durations), next: 0 }
    }

    async fn work(mut self, gate: Arc<Gate>, work: Work) -> (Self, f64) {
        // On a thread's first timers, a library may have to set up its state there.
        for _ in 0..16 {
            self.repeat(1).await;
            task::yield_now().await;
        }
        gate.meet().await;
        let mut figure = 0.0;
        match work {
            Work::Populate(count) => self.populate(count).await,
            Work::Stand => self.earlier = Some(self.arm(EARLIER).await),
            Work::Unstand => self.earlier.take().into_iter().for_each(|earlier| self.rival.cancel(earlier)),
            Work::Measure(length) => figure = self.measure(length).await,
        }
        // Lets the runtime catch up.
        for _ in 0..4 {
            task::yield_now().await;
        }
        (self, figure)
    }

    /// Arms a timer that stays.
    async fn arm(&mut self, duration: Duration) -> R::Armed {
        future::poll_fn(|cx| Poll::Ready(self.rival.arm(duration, cx))).await
    }

    async fn populate(&mut self, count: usize) {
        for number in 0..count {
            let armed = self.arm(far_away(number as u64)).await;
            self.population.push(armed);
            if number % 1_000 == 999 {
                task::yield_now().await;
            }
        }
    }

    async fn measure(&mut self, length: Duration) -> f64 {
        let start = Instant::now();
        let mut operations = 0_u32;
        loop {
            self.repeat(OPS_PER_POLL).await;
            operations += OPS_PER_POLL;
            let elapsed = start.elapsed();
            if elapsed >= length {
                return elapsed.as_nanos() as f64 / f64::from(operations);
            }
            task::yield_now().await;
        }
    }

    /// Arms and cancels so often in one poll of the task.
    async fn repeat(&mut self, operations: u32) {
        future::poll_fn(|cx| {
            for _ in 0..operations {
                self.next = self.next.wrapping_add(1);
                self.rival.arm_cancel(self.durations[usize::from(self.next)], cx);
            }
            // Without a budget, polls are pending and arm nothing.
            assert!(task::coop::has_budget_remaining(), "the operations were real ones");
            Poll::Ready(())
        })
        .await;
    }
}

/// An hour to an hour and 17 minutes, at random.
fn far_away(number: u64) -> Duration {
    Duration::from_hours(1) + Duration::from_micros(number.wrapping_mul(2_654_435_761) % 1_000_000_000)
}
