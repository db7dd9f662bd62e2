//! Firing a mass of timers whose wakers only count, and how long an arm on another task waits meanwhile.

use std::future::{self, Future};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task;
use tools::Gate;
use tools::machine::Meter;

use crate::Options;
use crate::record::{Case, Record};
use crate::rival::{Rival, Until};
use crate::rivals::{Hairspring, Tokio};

/// What is measured if all are due at once, and if they are spread: by itself, and while another task arms.
pub const ONE_TICK: [&str; 4] = [
    "fire in one tick",
    "fire in one tick: processor time",
    "fire in one tick: longest arm",
    "fire in one tick: whole expiry with arms",
];

pub const SPREAD: [&str; 4] = [
    "fire over 50 ms",
    "fire over 50 ms: processor time",
    "fire over 50 ms: longest arm",
    "fire over 50 ms: whole expiry with arms",
];

pub fn run(options: &Options, record: &mut Record) {
    let population = options.firing();
    for (over, workloads) in [(Duration::ZERO, ONE_TICK), (Duration::from_millis(50), SPREAD)] {
        let mut rounds = [const { Vec::new() }; 2];
        for _ in 0..options.firing_rounds() {
            rounds[0].push(round::<Hairspring>(over, population));
            rounds[1].push(round::<Tokio>(over, population));
        }
        for (name, rounds) in [Hairspring::NAME, Tokio::NAME].into_iter().zip(rounds) {
            for (place, (workload, unit)) in workloads.into_iter().zip(["ns", "ns", "us", "us"]).enumerate() {
                let figures = rounds.iter().map(|round: &[f64; 4]| round[place]).collect();
                record.add(Case::of(workload, population), name, unit, figures);
            }
        }
    }
    let cases: Vec<Case> = ONE_TICK.into_iter().chain(SPREAD).map(|workload| Case::of(workload, population)).collect();
    record.print_beside_tokio(&format!("firing {population} timers whose wakers count"), &cases);
}

/// One expiry by itself, and one during which another task arms.
fn round<U: Until>(over: Duration, population: usize) -> [f64; 4] {
    let alone = expire::<U>(over, population, false);
    let disturbed = expire::<U>(over, population, true);
    let [longest, whole] = [disturbed.longest, disturbed.took].map(|time| time.as_nanos() as f64 / 1e3);
    [alone.took.as_nanos() as f64 / population as f64, alone.processor / population as f64, longest, whole]
}

/// An expiry of a whole population.
struct Expiry {
    /// From the first deadline until the last waker was woken.
    took: Duration,
    /// What all threads used meanwhile, in nanoseconds.
    processor: f64,
    /// The longest that an arm took meanwhile.
    longest: Duration,
}

fn expire<U: Until>(over: Duration, population: usize, arm_meanwhile: bool) -> Expiry {
    let runtime = two_workers();
    let mut lead = Duration::from_millis(500);
    // Until all were armed in time.
    let (timers, count, due) = loop {
        let count = Arc::new(Count::new(population));
        let due = Instant::now() + lead;
        let boxed = |deadline| Box::pin(U::sleep_until(deadline));
        let timers = arm::<U, _>(&runtime, &count, evenly(due, over, population), boxed);
        if Instant::now() + Duration::from_millis(20) < due {
            break (timers, count, due);
        }
        lead *= 2;
    };
    thread::sleep(due.saturating_duration_since(Instant::now()).saturating_sub(Duration::from_millis(5)));
    let meter = Meter::start().expect("Linux tells of a process's threads");
    let armer = arm_meanwhile.then(|| runtime.spawn(arm_until_all_fired::<U>(Arc::clone(&count))));
    while !count.is_complete() {
        thread::sleep(Duration::from_millis(1));
        assert!(due.elapsed() < Duration::from_mins(1), "all fire");
    }
    let processor = meter.used().expect("Linux tells of a process's threads").as_nanos() as f64;
    let longest = armer.map_or(Duration::ZERO, |armer| runtime.block_on(armer).expect("nothing panics"));
    drop(timers);
    Expiry { took: count.completed_at().saturating_duration_since(due), processor, longest }
}

pub fn two_workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Deadlines of a population that falls due from `due` on for as long as `over`, in order.
pub fn evenly(due: Instant, over: Duration, population: usize) -> impl Fn(usize) -> Instant + Copy + Send + 'static {
    move |number| due + over.mul_f64(number as f64 / population as f64)
}

/// Arms what the count expects, half of it on each worker.
pub fn arm<U: Until, F: Future + Unpin + Send + 'static>(
    runtime: &Runtime,
    count: &Arc<Count>,
    deadline: impl Fn(usize) -> Instant + Copy + Send + 'static,
    sleep_until: fn(Instant) -> F,
) -> Vec<Vec<F>> {
    let gate = Arc::new(Gate::new(2));
    let halves = [0..count.expected / 2, count.expected / 2..count.expected];
    let tasks = halves.map(|numbers| {
        let (gate, waker) = (Arc::clone(&gate), Waker::from(Arc::clone(count)));
        runtime.spawn(async move {
            warm_up::<U>().await;
            gate.meet().await;
            let mut cx = Context::from_waker(&waker);
            let mut timers = Vec::with_capacity(numbers.len());
            for number in numbers {
                let mut sleep = sleep_until(deadline(number));
                let _ = Pin::new(&mut sleep).poll(&mut cx);
                timers.push(sleep);
            }
            timers
        })
    });
    tasks.into_iter().map(|task| runtime.block_on(task).expect("nothing panics")).collect()
}

/// On a worker thread that is new to it, a timer may have to find out where it is.
pub async fn warm_up<U: Until>() {
    for _ in 0..16 {
        arm_cancel::<U>().await;
        task::yield_now().await;
    }
}

pub async fn arm_cancel<U: Until>() {
    future::poll_fn(|cx| {
        let sleep = pin!(U::sleep_until(Instant::now() + Duration::from_mins(1)));
        assert!(sleep.poll(cx).is_pending(), "its deadline is far away");
        Poll::Ready(())
    })
    .await;
}

/// Arms and cancels from the first waker's waking until the last's, and returns the longest that took.
async fn arm_until_all_fired<U: Until>(count: Arc<Count>) -> Duration {
    let mut longest = Duration::ZERO;
    for turn in 1_u32.. {
        let begun = Instant::now();
        arm_cancel::<U>().await;
        let took = begun.elapsed();
        if count.has_begun() {
            longest = longest.max(took);
        }
        if count.is_complete() {
            break;
        }
        if turn % 64 == 0 {
            task::yield_now().await;
        }
    }
    longest
}

/// Counts how often it is woken, and takes the time of the last.
pub struct Count {
    expected: usize,
    woken: AtomicUsize,
    made: Instant,
    /// Nanoseconds since it was made; 0 until then.
    completed: AtomicU64,
}

impl Count {
    pub fn new(expected: usize) -> Self {
        Count { expected, woken: AtomicUsize::new(0), made: Instant::now(), completed: AtomicU64::new(0) }
    }

    fn has_begun(&self) -> bool {
        self.woken.load(SeqCst) > 0
    }

    pub fn is_complete(&self) -> bool {
        self.completed.load(SeqCst) > 0
    }

    pub fn completed_at(&self) -> Instant {
        self.made + Duration::from_nanos(self.completed.load(SeqCst))
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.woken.fetch_add(1, SeqCst) + 1 == self.expected {
            let since = u64::try_from(self.made.elapsed().as_nanos()).expect("less than 500 years");
            self.completed.store(since, SeqCst);
        }
    }
}
