//! The tasks that sleep, and the measurement of one library's turn.

use std::fmt::{self, Display};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use hairspring::Timer;
use hairspring::timer::BuildError;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::jitter::Jitter;
use crate::options::Options;
use crate::processor::Meter;

const TURN: Duration = Duration::from_secs(1);
/// Sleeps are from 1 to 10 ms long.
const SHORTEST: Duration = Duration::from_millis(1);
const SPREAD: Duration = Duration::from_millis(9);
/// How long a worker is blocked, and how long it is not.
const BLOCK: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    Hairspring,
    Tokio,
}

impl Library {
    async fn sleep_until(self, deadline: Instant) {
        match self {
            Library::Hairspring => hairspring::sleep_until(deadline.into()).await,
            Library::Tokio => tokio::time::sleep_until(deadline.into()).await,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    tasks: u32,
    workers: usize,
    /// Whether a task keeps one worker blocked half of the time.
    has_blocked: bool,
}

impl Scenario {
    pub(crate) fn all(has_blocked: bool) -> impl Iterator<Item = Scenario> {
        let populations = [1, 50, 1000].map(|tasks| Scenario { tasks, workers: 2, has_blocked: false });
        let blocked = has_blocked.then_some(Scenario { tasks: 50, workers: 4, has_blocked: true });
        populations.into_iter().chain(blocked)
    }
}

impl Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { tasks, workers, has_blocked } = self;
        let plural = if *tasks == 1 { "" } else { "s" };
        write!(f, "{tasks} task{plural}, {workers} workers")?;
        if *has_blocked { f.write_str(", one blocked half the time") } else { Ok(()) }
    }
}

/// What one library's turns in a scenario came to.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) lateness: Vec<Duration>,
    /// Sleeps that ended before their deadline.
    pub(crate) early: usize,
    elapsed: Duration,
    processor: Option<Duration>,
}

impl Run {
    pub(crate) fn processor_percent(&self) -> Option<f64> {
        self.processor.map(|processor| 100.0 * processor.div_duration_f64(self.elapsed))
    }
}

/// Whether a timer can be built as the options want it.
pub(crate) fn check(options: &Options) -> io::Result<()> {
    runtime(1)?.block_on(async { set_up(options) }).map_err(io::Error::other)
}

/// Runs the tasks on one library, and adds what they saw to `run`.
pub(crate) fn take_turn(
    library: Library,
    scenario: Scenario,
    turn: u32,
    options: &Options,
    run: &mut Run,
) -> io::Result<()> {
    let runtime = runtime(scenario.workers)?;
    let meter = Meter::start();
    let start = Instant::now();
    let sleepers = runtime.block_on(async {
        if library == Library::Hairspring {
            set_up(options).map_err(io::Error::other)?;
        }
        Ok::<_, io::Error>(sleep_all(library, scenario, turn, start + TURN).await)
    })?;
    run.elapsed += start.elapsed();
    // Read before the workers end, and their times with them.
    if let Some(used) = meter.and_then(|meter| meter.used()) {
        *run.processor.get_or_insert_default() += used;
    }
    for sleeper in sleepers {
        run.lateness.extend(sleeper.lateness);
        run.early += sleeper.early;
    }
    Ok(())
}

fn runtime(workers: usize) -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()
}

/// Gives the current runtime the timer that the options ask for. Where they ask for none, it keeps the one that every
/// runtime has.
fn set_up(options: &Options) -> Result<(), BuildError> {
    if options.alarm.is_none() && options.resolution.is_none() {
        return Ok(());
    }
    let mut builder = Timer::builder();
    if let Some(alarm) = options.alarm {
        builder = builder.alarm(alarm);
    }
    if let Some(resolution) = options.resolution {
        builder = builder.resolution(resolution);
    }
    builder.install().map(drop)
}

/// Runs the tasks until `end`.
async fn sleep_all(library: Library, scenario: Scenario, turn: u32, end: Instant) -> Vec<Sleeper> {
    let blocker = scenario.has_blocked.then(|| tokio::spawn(block_half_of_the_time(library)));
    let mut sleepers = JoinSet::new();
    for task in 0..scenario.tasks {
        let seed = (u64::from(turn) << 32) + u64::from(task);
        sleepers.spawn(Sleeper::default().sleep_repeatedly(library, Jitter::seeded(seed), end));
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
    async fn sleep_repeatedly(mut self, library: Library, mut jitter: Jitter, end: Instant) -> Self {
        let mut now = Instant::now();
        while now < end {
            let deadline = now + SHORTEST + jitter.within(SPREAD);
            library.sleep_until(deadline).await;
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
async fn block_half_of_the_time(library: Library) {
    loop {
        thread::sleep(BLOCK);
        library.sleep_until(Instant::now() + BLOCK).await;
    }
}
