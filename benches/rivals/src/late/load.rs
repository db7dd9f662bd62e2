//! The tasks that sleep, and one turn of theirs.

use std::fmt::{self, Display};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::distribution::Distribution;
use super::jitter::Jitter;
use super::processor::Meter;
use crate::rival::Until;

const TURN: Duration = Duration::from_secs(1);
/// Sleeps are from 1 to 10 ms long.
const SHORTEST: Duration = Duration::from_millis(1);
const SPREAD: Duration = Duration::from_millis(9);
/// How long a worker is blocked, and how long it is not.
const BLOCK: Duration = Duration::from_millis(20);

#[derive(Clone, Copy)]
pub struct Scenario {
    tasks: u32,
    workers: usize,
    /// Whether a task keeps one worker blocked half of the time.
    has_blocked: bool,
}

impl Scenario {
    pub fn all() -> [Scenario; 4] {
        let [one, some, many] = [1, 50, 1000].map(|tasks| Scenario { tasks, workers: 2, has_blocked: false });
        [one, some, many, Scenario { tasks: 50, workers: 4, has_blocked: true }]
    }
}

impl Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { tasks, workers, has_blocked } = self;
        let plural = if *tasks == 1 { "" } else { "s" };
        write!(f, "{tasks} task{plural}, {workers} workers")?;
        if *has_blocked { f.write_str(", one blocked 20 ms in every 40") } else { Ok(()) }
    }
}

/// What the turns of one contender came to.
#[derive(Default)]
pub struct Run {
    lateness: Vec<Duration>,
    /// Sleeps that ended before their deadline.
    pub early: usize,
    elapsed: Duration,
    /// Of all threads.
    processor: Duration,
}

impl Run {
    pub fn lateness(&self) -> Distribution {
        Distribution::of(self.lateness.clone())
    }

    /// In per cent of one core.
    pub fn processor_percent(&self) -> f64 {
        100.0 * self.processor.div_duration_f64(self.elapsed)
    }

    /// Processor time in nanoseconds.
    pub fn nanos_each(&self) -> f64 {
        self.processor.as_nanos() as f64 / self.sleeps()
    }

    pub fn sleeps_a_second(&self) -> f64 {
        self.sleeps() / self.elapsed.as_secs_f64()
    }

    fn sleeps(&self) -> f64 {
        (self.lateness.len() + self.early) as f64
    }
}

/// Lets the tasks sleep for a second, and adds what they saw to `run`.
pub fn take_turn<U: Until>(scenario: Scenario, turn: u32, set_up: fn(), run: &mut Run) {
    let workers = Builder::new_multi_thread().worker_threads(scenario.workers).enable_all().build();
    let runtime = workers.expect("a runtime");
    // Not the sum over all threads before and after: workers of the last turn may still be among the threads, and end.
    let meter = Meter::start().expect("Linux tells of a process's threads");
    let start = Instant::now();
    let sleepers = runtime.block_on(async {
        set_up();
        sleep_all::<U>(scenario, turn, start + TURN).await
    });
    run.elapsed += start.elapsed();
    // Before the workers end, and their times with them.
    run.processor += meter.used().expect("Linux tells of a process's threads");
    for sleeper in sleepers {
        run.lateness.extend(sleeper.lateness);
        run.early += sleeper.early;
    }
}

/// Runs the tasks until `end`.
async fn sleep_all<U: Until>(scenario: Scenario, turn: u32, end: Instant) -> Vec<Sleeper> {
    let blocker = scenario.has_blocked.then(|| tokio::spawn(block_half_of_the_time::<U>()));
    let mut sleepers = JoinSet::new();
    for task in 0..scenario.tasks {
        let seed = (u64::from(turn) << 32) + u64::from(task);
        sleepers.spawn(Sleeper::default().sleep_repeatedly::<U>(Jitter::seeded(seed), end));
    }
    let sleepers = sleepers.join_all().await;
    if let Some(blocker) = blocker {
        blocker.abort();
    }
    sleepers
}

/// One task, and what it saw.
#[derive(Default)]
struct Sleeper {
    lateness: Vec<Duration>,
    early: usize,
}

impl Sleeper {
    async fn sleep_repeatedly<U: Until>(mut self, mut jitter: Jitter, end: Instant) -> Self {
        let mut now = Instant::now();
        while now < end {
            let deadline = now + SHORTEST + jitter.within(SPREAD);
            U::sleep_until(deadline).await;
            now = Instant::now();
            match now.checked_duration_since(deadline) {
                Some(late) => self.lateness.push(late),
                None => self.early += 1,
            }
        }
        self
    }
}

/// Does what a task must not, as some do all the same.
async fn block_half_of_the_time<U: Until>() {
    loop {
        thread::sleep(BLOCK);
        U::sleep_until(Instant::now() + BLOCK).await;
    }
}
