//! A million sleeps due at random, and how they affect others: a bystander that sleeps 1 ms in a loop, and tasks that
//! arm and cancel. The lateness of a plain thread shows the share of the machine.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tools::Rng;
use tools::machine::Meter;

use crate::contender::Contender;
use crate::contenders::{TIMERFD, choose, named};
use crate::memory::hairspring_until;
use crate::outcome::{Late, Outcome, child, report};
use crate::population::{Count, Population, arm_cancel};
use crate::rival::{Rival, Until, workers};
use crate::rivals::{Hairspring, Tokio};
use crate::row::{Row, find};
use crate::session::{Scope, Sheet, ratio, verdict, with_range};

const SIZE: usize = 1_000_000;
/// How long the bystander sleeps, and the interval at which a task arms and cancels `ARMED` timers.
const PAUSE: Duration = Duration::from_millis(1);
const ARMED: usize = 16;

const COLUMNS: &str = "contender|processor s|times tokio's|late p50 ms|late p99 ms|late most ms|slowest arm+cancel ms|\
    thread late most ms|bytes each|turns";

pub fn run(scope: &Scope) -> Result<(), Box<dyn Error>> {
    let mut sheet = Sheet::new(&[], COLUMNS);
    let chosen = choose(scope, &[Hairspring::NAME, TIMERFD, Tokio::NAME])?;
    let over = scope.turn(Duration::from_secs(5));
    let what = format!("{SIZE} sleeps due at random over {over:?}");
    let rows = Row::measure(&what, &chosen, scope.rounds(5), |contender, round| {
        let [millis, seed] = [over.as_millis(), round.into()].map(|number| number.to_string());
        Outcome::of(&child(&["crowd-child", contender.name, &millis, &seed]))
    });
    let tokio = find(&rows, Tokio::NAME);
    let lines = rows.iter().map(|row| cells(row, tokio)).collect();
    sheet.add(&format!("{what}: medians of the rounds, with the range"), &[], lines);
    if let Some(tokio) = tokio {
        rows.iter().filter(|row| row.who.is_ours).for_each(|row| verdicts(row, tokio));
    }
    sheet.save(scope.file("crowd"))
}

fn cells(row: &Row, tokio: Option<&Row>) -> Vec<String> {
    let range = |decimals, figure: &dyn Fn(&Outcome) -> f64| with_range(row.range(figure), decimals);
    let times = row.times(tokio, |outcome| outcome.cpu as f64);
    vec![
        row.who.name.to_owned(),
        range(2, &|outcome| outcome.cpu as f64 / 1e9),
        ratio(times, 2),
        range(2, &|outcome| outcome.percentile(50.0) / 1e6),
        range(2, &|outcome| outcome.percentile(99.0) / 1e6),
        range(1, &|outcome| outcome.percentile(100.0) / 1e6),
        range(2, &|outcome| outcome.slowest as f64 / 1e6),
        range(1, &|outcome| outcome.stalled as f64 / 1e6),
        range(1, &|outcome| outcome.resident as f64 / SIZE as f64),
        range(0, &|outcome| outcome.turns as f64),
    ]
}

/// Compares each round with what is promised.
fn verdicts(row: &Row, tokio: &Row) {
    let promise = |what: &str, holds: &dyn Fn(&Outcome, &Outcome) -> bool| {
        let (good, all) =
            (row.rounds.iter().zip(&tokio.rounds).filter(|round| holds(round.0, round.1)).count(), row.rounds.len());
        verdict(5 * good >= 3 * all, &format!("{}: {what}, in {good} of {all} rounds", row.who.name));
    };
    promise("CPU time at most tokio's", &|ours, theirs| ours.cpu <= theirs.cpu);
    promise("bystander's p99 at most 1.5 ms", &|ours, _| ours.percentile(99.0) <= 1.5e6);
    promise("bystander at most 5 ms late", &|ours, _| ours.percentile(100.0) <= 5e6);
    promise("slowest arm and cancel at most 0.5 ms", &|ours, _| ours.slowest <= 500_000);
    promise("at most 90 bytes each", &|ours, _| ours.resident <= 90 * SIZE as u64);
}

/// Runs in the child process.
#[derive(Debug, Args)]
pub struct Child {
    contender: String,
    millis: u64,
    seed: u64,
}

impl Child {
    pub fn run(&self) {
        let contender = named(&self.contender);
        let outcome = if contender.is_ours {
            self.measure::<Hairspring, _>(contender, hairspring_until)
        } else {
            self.measure::<Tokio, _>(contender, |deadline| Box::pin(Tokio::sleep_until(deadline)))
        };
        report(&outcome.numbers());
    }

    fn measure<U: Until, F>(&self, contender: &Contender, sleep_until: fn(Instant) -> F) -> Outcome
    where
        F: Future + Unpin + Send + 'static,
    {
        let runtime = workers(2, U::configure);
        let turns = contender.set_up(&runtime);
        // A microsecond to arm each.
        let due = Instant::now() + Duration::from_secs(1) + Duration::from_micros(SIZE as u64);
        let (over, seed) = (Duration::from_millis(self.millis), self.seed << 32);
        let at_random = move |number| due + over.mul_f64(Rng::with_seed(seed + number as u64).f64());
        let population = Population::arm::<U>(&runtime, SIZE, due, at_random, sleep_until).expect("armed in time");
        let (resident, count) = (population.resident(), &population.count);
        thread::sleep(due.saturating_duration_since(Instant::now()));

        let (meter, turned) = (Meter::start(), turns());
        let bystander = runtime.spawn(stand_by::<U>(Arc::clone(count)));
        // This thread sets the pace: a task that waits for the timer would arm nothing while the timer is busy.
        let slowest = Arc::new(AtomicU64::new(0));
        let stalled = count.wait(PAUSE, || drop(runtime.spawn(arm_some::<U>(Arc::clone(&slowest)))));
        let [took, cpu, stalled] =
            [count.completed_after(due), meter.used(), stalled].map(|time| time.as_nanos() as u64);
        let (slowest, turns) = (slowest.load(Relaxed), turns() - turned);
        let mut outcome = Outcome { took, cpu, slowest, stalled, turns, resident, ..Outcome::default() };
        outcome.note(runtime.block_on(bystander).expect("nothing panics"));
        outcome
    }
}

/// Sleeps until all have fired.
async fn stand_by<U: Until>(count: Arc<Count>) -> Vec<Late> {
    let mut seen = Vec::new();
    while !count.is_complete() {
        let deadline = Instant::now() + PAUSE;
        U::sleep_until(deadline).await;
        seen.push(Instant::now().checked_duration_since(deadline));
    }
    seen
}

/// Arms and cancels, and remembers the slowest.
async fn arm_some<U: Until>(slowest: Arc<AtomicU64>) {
    for _ in 0..ARMED {
        slowest.fetch_max(arm_cancel::<U>().await, Relaxed);
    }
}
