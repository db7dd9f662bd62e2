//! A crowd of sleeps that fall due in no order, and what it costs others: a bystander that sleeps 1 ms again and again,
//! and tasks that arm and cancel. What a thread that only sleeps is late shows what the machine does to anybody.
//!
//! Each figure comes from a fresh process of this program; the contenders take turns, and another one begins each time.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use hairspring::Timer;
use tools::machine::Meter;
use tools::{Rng, table};

use crate::cell::{Late, Outcome, Row, child, row};
use crate::contenders::{Contender, TIMERFD, named};
use crate::firing::{Count, arm, arm_cancel, two_workers, warm_up};
use crate::memory::{hairspring_until, more_than, resident};
use crate::rival::{Rival, Until};
use crate::rivals::{Hairspring, Tokio};
use crate::{machine_line, save, verdict};

const CONTENDERS: [&str; 3] = [Hairspring::NAME, TIMERFD, Tokio::NAME];
const COUNT: u64 = 1_000_000;
const ROUNDS: u32 = 5;
/// How long the bystander sleeps, and how often another task arms and cancels so many.
const PAUSE: Duration = Duration::from_millis(1);
const ARMED: usize = 16;

#[derive(Debug, Args)]
pub struct Options {
    /// How many sleeps are pending
    #[arg(long, default_value_t = COUNT, value_parser = clap::value_parser!(u64).range(1_000..=50_000_000))]
    count: u64,
    /// Over how many seconds they are due
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    over: u64,
    /// How often each takes its turn
    #[arg(long, default_value_t = ROUNDS, value_parser = clap::value_parser!(u32).range(1..=60))]
    rounds: u32,
    /// Only this one: hairspring; hairspring, timerfd; or `tokio::time`
    #[arg(long, value_name = "NAME", value_parser = CONTENDERS)]
    only: Option<String>,
}

const COLUMNS: [&str; 10] = [
    "contender",
    "processor s",
    "times tokio's",
    "late p50 ms",
    "late p99 ms",
    "late most ms",
    "slowest arm+cancel ms",
    "thread late most ms",
    "bytes each",
    "turns",
];

pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    println!("{}", machine_line());
    let Options { count, over, rounds, only } = options;
    let chosen: Vec<_> =
        CONTENDERS.into_iter().filter(|name| only.as_ref().is_none_or(|only| only == name)).map(named).collect();
    let what = format!("{count} sleeps due at random over {over} s");
    let rows = Row::measure(&what, &chosen, *rounds, |contender, round| {
        let [count, over, round] = [count.to_string(), over.to_string(), round.to_string()];
        Outcome::of(&child(&["crowd-child".to_owned(), contender.name.to_owned(), count, over, round], None))
    });
    let tokio = row(&rows, Tokio::NAME);
    let lines: Vec<_> = rows.iter().map(|row| cells(row, tokio, *count)).collect();
    println!("\n{what}: the middle of {rounds} rounds, the least and the most\n{}", table(&COLUMNS, &lines));
    if let Some(tokio) = tokio {
        rows.iter().filter(|row| row.who.is_ours).for_each(|row| verdicts(row, tokio, *count));
    }
    // Only a whole run is worth keeping.
    let is_whole = (*count, *over, only) == (COUNT, 5, &None) && *rounds >= ROUNDS;
    save(if is_whole { "crowd" } else { "quick" }, &COLUMNS, &lines)
}

fn processor(outcome: &Outcome) -> f64 {
    outcome.processor.as_secs_f64()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn cells(row: &Row, tokio: Option<&Row>, count: u64) -> Vec<String> {
    let spread = |digits: usize, figure: &dyn Fn(&Outcome) -> f64| {
        let [middle, least, most] = row.spread(figure);
        format!("{middle:.digits$} ({least:.digits$}..{most:.digits$})")
    };
    let times = |tokio: &Row| format!("{:.2}", row.spread(processor)[0] / tokio.spread(processor)[0]);
    vec![
        row.who.name.to_owned(),
        spread(2, &processor),
        tokio.map_or("-".to_owned(), times),
        spread(2, &|outcome| millis(outcome.percentile(50.0))),
        spread(2, &|outcome| millis(outcome.percentile(99.0))),
        spread(1, &|outcome| millis(outcome.percentile(100.0))),
        spread(2, &|outcome| millis(outcome.slowest)),
        spread(1, &|outcome| millis(outcome.stalled)),
        spread(1, &|outcome| outcome.resident as f64 / count as f64),
        spread(0, &|outcome| outcome.turns as f64),
    ]
}

/// What is promised, held against each round.
fn verdicts(row: &Row, tokio: &Row, count: u64) {
    let rounds: Vec<_> = row.rounds.iter().zip(&tokio.rounds).collect();
    let promise = |what: &str, holds: &dyn Fn(&Outcome, &Outcome) -> bool| {
        let good = rounds.iter().filter(|(ours, theirs)| holds(ours, theirs)).count();
        let what = format!("{}: {what}, in {good} of {} rounds", row.who.name, rounds.len());
        verdict::line(5 * good >= 3 * rounds.len(), &what);
    };
    promise("processor time at most tokio's", &|ours, theirs| ours.processor <= theirs.processor);
    promise("bystander's p99 at most 1.5 ms", &|ours, _| millis(ours.percentile(99.0)) <= 1.5);
    promise("bystander at most 5 ms late", &|ours, _| millis(ours.percentile(100.0)) <= 5.0);
    promise("slowest arm and cancel at most 0.5 ms", &|ours, _| millis(ours.slowest) <= 0.5);
    promise("at most 90 bytes for each", &|ours, _| ours.resident <= 90 * count);
}

/// What a process measures that was started for it.
#[derive(Debug, Args)]
pub struct Child {
    contender: String,
    count: usize,
    over: u64,
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
        println!("{}", outcome.in_numbers());
    }

    fn measure<U: Until, F>(&self, contender: &Contender, sleep_until: fn(Instant) -> F) -> Outcome
    where
        F: Future + Unpin + Send + 'static,
    {
        let runtime = two_workers();
        let timer = runtime.block_on(async {
            (contender.set_up)();
            contender.is_ours.then(Timer::current)
        });
        for task in [warm_up::<U>(), warm_up::<U>()].map(|warm_up| runtime.spawn(warm_up)) {
            runtime.block_on(task).expect("nothing panics");
        }
        let turns = || timer.as_ref().map_or(0, |timer| timer.metrics().turns());
        let (before, count) = (resident(), Arc::new(Count::new(self.count)));
        // A microsecond for each to be armed in.
        let due = Instant::now() + Duration::from_secs(1) + Duration::from_micros(self.count as u64);
        let (over, seed) = (Duration::from_secs(self.over), self.seed << 32);
        let at_random = move |number| due + over.mul_f64(Rng::with_seed(seed + number as u64).f64());
        let timers = arm::<U, F>(&runtime, &count, at_random, sleep_until);
        assert!(Instant::now() < due, "armed in time");
        let resident = more_than(before);
        thread::sleep(due.saturating_duration_since(Instant::now()));

        let (meter, turned) = (Meter::start().expect("Linux tells of a process's threads"), turns());
        let bystander = runtime.spawn(stand_by::<U>(Arc::clone(&count)));
        // By this thread's pace: what waited for the timer to be woken would arm nothing while the timer is busy.
        let (slowest, mut stalled) = (Arc::new(AtomicU64::new(0)), Duration::ZERO);
        while !count.is_complete() {
            let begun = Instant::now();
            thread::sleep(PAUSE);
            stalled = stalled.max(begun.elapsed().saturating_sub(PAUSE));
            runtime.spawn(arm_some::<U>(Arc::clone(&slowest)));
            assert!(due.elapsed() < over + Duration::from_mins(1), "all fire");
        }
        let processor = meter.used().expect("Linux tells of a process's threads");
        let (took, turns) = (count.completed_at().saturating_duration_since(due), turns() - turned);
        let slowest = Duration::from_nanos(slowest.load(Relaxed));
        let mut outcome = Outcome { took, processor, slowest, stalled, turns, resident, ..Outcome::default() };
        outcome.note(runtime.block_on(bystander).expect("nothing panics"));
        drop(timers);
        outcome
    }
}

/// Sleeps until all have fired, and returns how late each sleep was.
async fn stand_by<U: Until>(count: Arc<Count>) -> Vec<Late> {
    let mut seen = Vec::new();
    while !count.is_complete() {
        let deadline = Instant::now() + PAUSE;
        U::sleep_until(deadline).await;
        seen.push(Instant::now().checked_duration_since(deadline));
    }
    seen
}

/// Arms and cancels, and notes if that took longer than ever.
async fn arm_some<U: Until>(slowest: Arc<AtomicU64>) {
    for _ in 0..ARMED {
        let begun = Instant::now();
        arm_cancel::<U>().await;
        slowest.fetch_max(begun.elapsed().as_nanos() as u64, Relaxed);
    }
}
