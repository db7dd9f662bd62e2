//! The course of the run: waves, and the points where all stand still.
//!
//! Between two such points the sets go on, each as a task of its own, with the awaiting tasks beside them. At the point
//! the sets have put off what would fire soon and the tasks have ended, so the metrics stand still, too.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use hairspring::{Instant, Timer};
use tokio::task::{JoinSet, coop};
use tools::Rng;

use crate::Options;
use crate::awaiters::{Awaited, Awaiters};
use crate::ledger::{Counts, Ledger};
use crate::memory::{ALLOWED, Memory};
use crate::report::{Faults, in_words, mebibytes};
use crate::set::{Set, Way};

const SETS: usize = 4;
/// The run has about so many waves, unless they would last too long or too short.
const WAVES: u32 = 10;
const LONGEST_CHURN: Duration = Duration::from_secs(5);
const WAYS: [(Way, &str); 3] = [(Way::Cancel, "cancelled"), (Way::Fire, "all fired"), (Way::Drop, "dropped")];
/// How long the last wake-ups may take to reach the ledger.
const SETTLING: Duration = Duration::from_secs(2);
const WATCH_EVERY: Duration = Duration::from_millis(50);

pub(crate) async fn run(options: Options) -> Soak {
    println!("{options}");
    let (mut random, ledger) = (Rng::with_seed(options.seed), Arc::default());
    let mut soak = Soak {
        options,
        start: Instant::now(),
        timer: Timer::current(),
        awaited: Arc::default(),
        faults: Faults::default(),
        sets: (0..SETS).map(|_| Set::new(&ledger, random.fork(), options.share(SETS))).collect(),
        ledger,
        random,
        waves: 0,
        stops: 0,
        peak: 0,
        memory: Memory::default(),
    };
    let watch = tokio::spawn(watch(soak.timer.clone(), soak.faults.clone()));
    while soak.waves <= WAYS.len() || soak.start.elapsed() < options.length() {
        soak.wave().await;
    }
    watch.abort();
    soak.check_run();
    soak
}

pub(crate) struct Soak {
    pub(crate) options: Options,
    pub(crate) start: Instant,
    pub(crate) timer: Timer,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) awaited: Arc<Awaited>,
    pub(crate) faults: Faults,
    pub(crate) sets: Vec<Set>,
    random: Rng,
    pub(crate) waves: usize,
    /// How often all stood still and the counts were compared.
    pub(crate) stops: usize,
    pub(crate) peak: u64,
    pub(crate) memory: Memory,
}

impl Soak {
    /// Up to the peak, to some number below it, and down to none.
    async fn wave(&mut self) {
        let (way, ended) = WAYS[self.waves % WAYS.len()];
        let peak = self.options.peak as usize / SETS;
        let churn = (self.options.length() / WAVES / 3).min(LONGEST_CHURN);
        for size in [peak, self.random.usize(..peak)] {
            let until = Instant::now() + churn;
            self.phase(move |set| set.go_on(size, until)).await;
            self.phase(|set| async { set.settle() }).await;
            self.compare("churn");
        }
        self.phase(move |set| set.empty(way)).await;
        self.compare(ended);
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
            self.faults.add(&format!("the metrics have {counts}, the ledger has {ledger}"));
        }
        if ledger.pending != members as u64 {
            self.faults.add(&format!("the ledger has {} pending, the sets have {members}", ledger.pending));
        }
        self.peak = self.peak.max(metrics.pending());
        let memory = Memory::now(ledger.pending > 0);
        self.memory = self.memory.max(memory);
        println!(
            "{:>7.1?} wave {:<3} {what:<10} {counts}; late {}; {} held, {} resident",
            self.start.elapsed(),
            self.waves,
            in_words(metrics.lateness()),
            mebibytes(memory.held),
            mebibytes(memory.resident),
        );
        if memory.left > ALLOWED {
            self.faults.add(&format!("none is pending, and {} bytes are held; {ALLOWED} are allowed", memory.left));
        }
    }

    fn check_empty(&self) {
        let metrics = self.timer.metrics();
        let occupied: u32 = metrics.occupancy().iter().map(|slots| slots.count_ones()).sum();
        if occupied > 0 || metrics.next_deadline().is_some() || metrics.pending() > 0 {
            let next = metrics.next_deadline();
            self.faults.add(&format!("none is pending, and {occupied} slots are occupied; next deadline: {next:?}"));
        }
    }

    /// What is to hold of the run as a whole.
    fn check_run(&self) {
        let metrics = self.timer.metrics();
        let (latest, bound) = (metrics.lateness().max(), self.options.bound());
        if latest > bound {
            self.faults.add(&format!("a sleep fired {latest:?} late; the bound is {bound:?}"));
        }
        let (early, twice) = (self.ledger.early.load(Relaxed), self.ledger.woken_twice.load(Relaxed));
        if early > 0 {
            self.faults.add(&format!("{early} sleeps ended before their deadline"));
        }
        if twice > 0 {
            self.faults.add(&format!("{twice} timers were woken twice"));
        }
        let counted = metrics.lateness().count();
        if counted != metrics.fired() {
            self.faults.add(&format!("{} timers fired, and of {counted} it was counted how late", metrics.fired()));
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
            faults.add(&format!("at some moment there were {counts}"));
        }
        let goes_back = now.registered() < before.registered()
            || now.fired() < before.fired()
            || now.cancelled() < before.cancelled()
            || now.turns() < before.turns()
            || now.elapsed() < before.elapsed();
        if goes_back {
            faults.add(&format!("counts went back, from {} to {counts}", Counts::of(&before)));
        }
        before = now;
    }
}
