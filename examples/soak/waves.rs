//! The course of the run: waves, and the points where all stand still.
//!
//! Between two such points the sets go on, each as a task of its own, with the awaiting tasks beside them. At the point
//! the sets have put off what would fire soon and the tasks have ended, so the metrics stand still, too.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hairspring::timer::Metrics;
use hairspring::{Instant, Timer};
use tokio::task::{JoinSet, coop};

use crate::awaiters::{Awaited, Awaiters};
use crate::ledger::{Counts, Ledger};
use crate::memory::Resident;
use crate::options::Options;
use crate::processor;
use crate::random::Random;
use crate::report::{Faults, Memory, Report, in_words};
use crate::set::{Done, Set, Way};

const SETS: usize = 4;
/// The run has about so many waves, unless they would last too long or too short.
const WAVES: u32 = 10;
const LONGEST_CHURN: Duration = Duration::from_secs(5);
const WAYS: [Way; 3] = [Way::Cancel, Way::Fire, Way::Drop];
/// The memory at the end is compared with what it was after so many waves: one for each way that they go down.
const WARM: usize = WAYS.len();
/// How long the last wake-ups may take to reach the ledger.
const SETTLING: Duration = Duration::from_secs(2);
const WATCH_EVERY: Duration = Duration::from_millis(50);

pub(crate) async fn run(options: &Options) -> Report {
    println!("{options}");
    let start = Instant::now();
    let memory = Resident::now();
    let mut soak = Soak::new(*options, start, memory);
    let watch = tokio::spawn(watch(soak.timer.clone(), soak.faults.clone()));

    let mut warm = memory;
    while soak.waves <= WARM || start.elapsed() < options.length {
        soak.wave().await;
        if soak.waves == WARM {
            warm = Resident::now();
        }
    }
    watch.abort();
    soak.report(warm)
}

struct Soak {
    options: Options,
    start: Instant,
    timer: Timer,
    ledger: Arc<Ledger>,
    awaited: Arc<Awaited>,
    faults: Faults,
    random: Random,
    sets: Vec<Set>,
    waves: usize,
    stops: usize,
    peak: u64,
    memory: Option<Resident>,
    memory_peak: Option<Resident>,
}

impl Soak {
    fn new(options: Options, start: Instant, memory: Option<Resident>) -> Self {
        let ledger = Arc::default();
        let mut random = Random::seeded(options.seed);
        let sets = (0..SETS).map(|_| Set::new(&ledger, random.branch())).collect();
        Soak {
            options,
            start,
            timer: Timer::current(),
            ledger,
            awaited: Arc::default(),
            faults: Faults::default(),
            random,
            sets,
            waves: 0,
            stops: 0,
            peak: 0,
            memory,
            memory_peak: memory,
        }
    }

    /// Up to the peak, to some number below it, and down to none.
    async fn wave(&mut self) {
        let way = WAYS[self.waves % WAYS.len()];
        let peak = self.options.peak / SETS;
        let churn = (self.options.length / WAVES / 3).min(LONGEST_CHURN);
        for size in [peak, self.random.below(peak)] {
            let until = Instant::now() + churn;
            self.phase(move |set| set.go_on(size, until)).await;
            self.phase(|set| async { set.settle() }).await;
            self.compare("churn");
        }
        self.phase(move |set| set.empty(way)).await;
        self.compare(match way {
            Way::Cancel => "cancelled",
            Way::Fire => "all fired",
            Way::Drop => "dropped",
        });
        self.check_empty();
        self.waves += 1;
    }

    /// Has each set do something, in a task of its own, with other tasks about.
    async fn phase<F: Future<Output = Set> + Send + 'static>(&mut self, go: impl Fn(Set) -> F) {
        let awaiters = Awaiters::start(&self.ledger, &self.awaited, &mut self.random);
        let mut tasks = JoinSet::new();
        for set in self.sets.drain(..) {
            // As for the tasks that await: the ledger cannot see a poll for which there was no budget.
            tasks.spawn(coop::unconstrained(go(set)));
        }
        self.sets = tasks.join_all().await;
        awaiters.stop().await;
    }

    /// Compares the metrics with the ledger and the sets while nothing goes on.
    fn compare(&mut self, what: &str) {
        self.stops += 1;
        let members: usize = self.sets.iter().map(Set::len).sum();
        let patience = Instant::now() + SETTLING;
        let (metrics, ledger) = loop {
            let (metrics, ledger) = (self.timer.metrics(), self.ledger.count());
            let agree = Counts::of(&metrics) == ledger && ledger.pending == members as u64;
            if agree || Instant::now() > patience {
                break (metrics, ledger);
            }
            thread::sleep(Duration::from_millis(1));
        };
        let counts = Counts::of(&metrics);
        if counts != ledger {
            self.faults.add(format!("the metrics have {counts}, the ledger has {ledger}"));
        }
        if ledger.pending != members as u64 {
            self.faults.add(format!("the ledger has {} pending, the sets have {members}", ledger.pending));
        }
        self.peak = self.peak.max(metrics.pending());
        let memory = Resident::now();
        self.memory_peak = self.memory_peak.max(memory);
        println!(
            "{:>7.1?} wave {:<3} {what:<10} {counts}; late {}{}",
            self.start.elapsed(),
            self.waves,
            in_words(metrics.lateness()),
            memory.map_or_else(String::new, |memory| format!("; {memory}")),
        );
    }

    fn check_empty(&self) {
        let metrics = self.timer.metrics();
        let occupied: u32 = metrics.occupancy().iter().map(|slots| slots.count_ones()).sum();
        if occupied > 0 || metrics.next_deadline().is_some() || metrics.pending() > 0 {
            let next = metrics.next_deadline();
            self.faults.add(format!("none is pending, and {occupied} slots are occupied; next deadline: {next:?}"));
        }
    }

    fn report(self, warm: Option<Resident>) -> Report {
        let metrics = self.timer.metrics();
        let end = Resident::now();
        let memory = match (self.memory, warm, self.memory_peak, end) {
            (Some(start), Some(warm), Some(peak), Some(end)) => Some(Memory { start, warm, peak, end }),
            _ => None,
        };
        self.check_run(&metrics, memory);
        let mut done = Done::default();
        for set in &self.sets {
            done.add(set.done);
        }
        Report {
            options: self.options,
            took: self.start.elapsed(),
            waves: self.waves,
            stops: self.stops,
            peak: self.peak,
            done,
            awaited: self.awaited,
            ledger: self.ledger,
            metrics,
            waited: processor::waited(),
            memory,
            faults: self.faults,
        }
    }

    /// What is to hold of the run as a whole.
    fn check_run(&self, metrics: &Metrics, memory: Option<Memory>) {
        let (latest, bound) = (metrics.lateness().max(), self.options.bound);
        if latest > bound {
            self.faults.add(format!("a sleep fired {latest:?} late; the bound is {bound:?}"));
        }
        let (early, twice) = (self.ledger.early(), self.ledger.woken_twice());
        if early > 0 {
            self.faults.add(format!("{early} sleeps ended before their deadline"));
        }
        if twice > 0 {
            self.faults.add(format!("{twice} timers were woken twice"));
        }
        let counted = metrics.lateness().count();
        if counted != metrics.fired() {
            self.faults.add(format!("{} timers fired, and of {counted} it was counted how late", metrics.fired()));
        }
        let grown = memory.filter(|memory| memory.end > memory.warm.most_at_end());
        if let Some(Memory { warm, end, .. }) = grown {
            self.faults.add(format!("{end} are resident at the end; after three waves it was {warm}"));
        }
    }
}

/// Reads the metrics all the time. They hold together whatever goes on, and do not go back.
async fn watch(timer: Timer, faults: Faults) {
    let mut before = timer.metrics();
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let now = timer.metrics();
        let counts = Counts::of(&now);
        if counts.registered < counts.fired + counts.pending {
            faults.add(format!("at some moment there were {counts}"));
        }
        let goes_back = now.registered() < before.registered()
            || now.fired() < before.fired()
            || now.cancelled() < before.cancelled()
            || now.turns() < before.turns()
            || now.elapsed() < before.elapsed();
        if goes_back {
            faults.add(format!("counts went back, from {} to {counts}", Counts::of(&before)));
        }
        before = now;
    }
}
