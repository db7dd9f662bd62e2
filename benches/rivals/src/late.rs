//! How late sleeps end and what that costs: hairspring with either alarm, `tokio::time` and async-io.
//!
//! They take turns of a second, each on a runtime that is new and with the same random numbers, and another one begins
//! each time: what else the machine does falls on all.

use std::error::Error;
use std::fmt::{self, Display};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use hairspring::Timer;
use hairspring::timer::{Alarm, Builder};
use tokio::task::JoinSet;
use tools::chart::{Axis, Panel, curves};
use tools::machine::Meter;
use tools::{Histogram, Rng, between, progress, table};

use crate::rival::{Rival, Until};
use crate::rivals::{AsyncIo, Hairspring, Tokio};
use crate::{machine_line, results};

const WHOLE_RUN: u32 = 5;
const TURN: Duration = Duration::from_secs(1);
/// Sleeps are from 1 to 10 ms long.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(10);
/// How long a worker is blocked, and how long it is not.
const BLOCK: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub struct Options {
    /// How many turns of a second each has in each scenario
    #[arg(long, default_value_t = WHOLE_RUN, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
}

#[derive(Clone, Copy)]
struct Scenario {
    tasks: u32,
    workers: usize,
    /// Whether a task keeps one worker blocked half of the time.
    has_blocked: bool,
}

const SCENARIOS: [Scenario; 4] = [
    Scenario { tasks: 1, workers: 2, has_blocked: false },
    Scenario { tasks: 50, workers: 2, has_blocked: false },
    Scenario { tasks: 1000, workers: 2, has_blocked: false },
    Scenario { tasks: 50, workers: 4, has_blocked: true },
];

impl Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { tasks, workers, has_blocked } = self;
        let plural = if *tasks == 1 { "" } else { "s" };
        write!(f, "{tasks} task{plural}, {workers} workers")?;
        if *has_blocked { f.write_str(", one blocked 20 ms in every 40") } else { Ok(()) }
    }
}

/// One row of the table, and what its turns came to in one scenario.
struct Contender {
    name: &'static str,
    /// Whether a sleep that ends early is our fault.
    is_ours: bool,
    /// Called in each new runtime.
    set_up: fn(),
    take_turn: fn(&mut Contender, Scenario, u32),
    /// Nanoseconds.
    lateness: Histogram<u64>,
    early: u64,
    elapsed: Duration,
    processor: Duration,
}

fn timerfd() -> Builder {
    Timer::builder().alarm(Alarm::Timerfd)
}

fn install(builder: Builder) {
    builder.install().expect("a runtime with `enable_all` can have it");
}

impl Contender {
    fn new<U: Until>(name: &'static str, is_ours: bool, set_up: fn()) -> Self {
        Contender {
            name,
            is_ours,
            set_up,
            take_turn: take_turn::<U>,
            lateness: Histogram::new(3).expect("three digits are allowed"),
            early: 0,
            elapsed: Duration::ZERO,
            processor: Duration::ZERO,
        }
    }

    fn all() -> [Contender; 5] {
        [
            Contender::new::<Hairspring>(Hairspring::NAME, true, || {}),
            Contender::new::<Hairspring>("hairspring, timerfd", true, || install(timerfd())),
            Contender::new::<Hairspring>("hairspring, timerfd, 10 µs", true, || {
                install(timerfd().resolution(Duration::from_micros(10)));
            }),
            Contender::new::<Tokio>(BASE, false, || {}),
            Contender::new::<AsyncIo>(AsyncIo::NAME, false, || {}),
        ]
    }

    fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.lateness.value_at_quantile(percent / 100.0))
    }

    fn processor_percent(&self) -> f64 {
        100.0 * self.processor.div_duration_f64(self.elapsed)
    }

    fn cells(&self, base: &Contender) -> [String; 9] {
        let sleeps = (self.lateness.len() + self.early) as f64;
        let [p50, p99] = [50.0, 99.0].map(|percent| self.percentile(percent));
        [
            self.name.to_owned(),
            in_words(p50),
            in_words(p99),
            format!("{:.1}", self.processor_percent()),
            format!("{:.0}", self.processor.as_nanos() as f64 / sleeps),
            format!("{:.0}", sleeps / self.elapsed.as_secs_f64()),
            self.early.to_string(),
            format!("{:.3}", p99.div_duration_f64(base.percentile(99.0))),
            format!("{:.2}", self.processor_percent() / base.processor_percent()),
        ]
    }
}

/// Ratios are to this one.
const BASE: &str = Tokio::NAME;
const COLUMNS: &str = "contender,p50,p99,processor percent,ns a sleep,sleeps a second,early,p99 times tokio's,\
                       processor times tokio's";

/// Measures, prints tables, and keeps them with a chart. Fails if a sleep of ours ended early.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    println!("{}", machine_line());
    let mut csv = csv::Writer::from_writer(format!("# {}\n", machine_line()).into_bytes());
    let columns: Vec<&str> = COLUMNS.split(',').collect();
    csv.write_record(["scenario"].iter().chain(&columns))?;
    let (mut panels, mut early) = (Vec::new(), 0);
    for scenario in SCENARIOS {
        let contenders = compare(scenario, options.seconds);
        let base = contenders.iter().find(|contender| contender.name == BASE).expect("it takes part");
        let rows: Vec<_> = contenders.iter().map(|contender| contender.cells(base).to_vec()).collect();
        println!("\n{scenario}\n{}", table(&columns, &rows));
        for row in rows {
            csv.write_record([scenario.to_string()].into_iter().chain(row))?;
        }
        panels.push(panel(scenario, [&contenders[0], base]));
        early += contenders.iter().filter(|contender| contender.is_ours).map(|contender| contender.early).sum::<u64>();
    }
    // Only a whole run is worth keeping.
    let name = if options.seconds < WHOLE_RUN { "quick" } else { "late" };
    fs::write(results(name).with_extension("csv"), csv.into_inner()?)?;
    fs::write(results(name).with_extension("svg"), draw(&panels, options.seconds))?;
    println!("\nresults/{name}.csv and .svg written");
    if early > 0 {
        Err(format!("BAD: {early} of hairspring's sleeps ended before their deadline").into())
    } else {
        Ok(())
    }
}

fn compare(scenario: Scenario, seconds: u32) -> [Contender; 5] {
    let mut contenders = Contender::all();
    let bar = progress(&scenario.to_string(), u64::from(seconds) * contenders.len() as u64);
    let first = (0..contenders.len()).cycle();
    for (turn, first) in (0..seconds).zip(first) {
        let (later, sooner) = contenders.split_at_mut(first);
        for contender in sooner.iter_mut().chain(later) {
            (contender.take_turn)(contender, scenario, turn);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    contenders
}

/// Lets the tasks sleep for a second, and notes what they saw.
fn take_turn<U: Until>(contender: &mut Contender, scenario: Scenario, turn: u32) {
    let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(scenario.workers).enable_all().build();
    let runtime = workers.expect("a runtime");
    let meter = Meter::start().expect("Linux tells of a process's threads");
    let start = Instant::now();
    let sleepers = runtime.block_on(async {
        (contender.set_up)();
        sleep_all::<U>(scenario, turn, start + TURN).await
    });
    contender.elapsed += start.elapsed();
    // Before the workers end, and their times with them.
    contender.processor += meter.used().expect("Linux tells of a process's threads");
    for late in sleepers.into_iter().flatten() {
        match late {
            Some(late) => contender.lateness += late.as_nanos() as u64,
            None => contender.early += 1,
        }
    }
}

/// Runs the tasks until `end`.
async fn sleep_all<U: Until>(scenario: Scenario, turn: u32, end: Instant) -> Vec<Vec<Option<Duration>>> {
    let blocker = scenario.has_blocked.then(|| tokio::spawn(block_half_of_the_time::<U>()));
    let mut sleepers = JoinSet::new();
    for task in 0..scenario.tasks {
        let seed = (u64::from(turn) << 32) + u64::from(task);
        sleepers.spawn(sleep_repeatedly::<U>(Rng::with_seed(seed), end));
    }
    let sleepers = sleepers.join_all().await;
    if let Some(blocker) = blocker {
        blocker.abort();
    }
    sleepers
}

/// One task. Returns how late each sleep was; `None` for one that ended before its deadline.
async fn sleep_repeatedly<U: Until>(mut random: Rng, end: Instant) -> Vec<Option<Duration>> {
    let mut seen = Vec::new();
    let mut now = Instant::now();
    while now < end {
        let deadline = now + between(&mut random, SHORTEST, LONGEST);
        U::sleep_until(deadline).await;
        now = Instant::now();
        seen.push(now.checked_duration_since(deadline));
    }
    seen
}

/// Does what a task must not, as some do all the same.
async fn block_half_of_the_time<U: Until>() {
    loop {
        thread::sleep(BLOCK);
        U::sleep_until(Instant::now() + BLOCK).await;
    }
}

/// The histograms of one scenario: the horizontal axis is the power of ten of microseconds, from 10 µs to 10 ms. What is
/// beyond is counted with the first and the last column.
fn panel(scenario: Scenario, contenders: [&Contender; 2]) -> Panel {
    const COLUMNS: u32 = 30;
    let power = |column| 1.0 + 3.0 * f64::from(column) / f64::from(COLUMNS);
    let nanos = |column| (1e3 * 10_f64.powf(power(column))) as u64;
    let share = |contender: &Contender, column| {
        let low = if column == 0 { 0 } else { nanos(column) };
        let high = if column + 1 == COLUMNS { u64::MAX } else { nanos(column + 1) - 1 };
        100.0 * contender.lateness.count_between(low, high) as f64 / contender.lateness.len().max(1) as f64
    };
    let outline = |contender| {
        let steps = |column| [(power(column), share(contender, column)), (power(column + 1), share(contender, column))];
        (0..COLUMNS).flat_map(steps).collect()
    };
    let note = |contender: &Contender| {
        let [p50, p99] = [50.0, 99.0].map(|percent| in_words(contender.percentile(percent)));
        format!("p50 {p50} · p99 {p99} · processor {:.1} %", contender.processor_percent())
    };
    Panel {
        title: scenario.to_string(),
        notes: contenders.map(note).to_vec(),
        curves: contenders.map(outline).to_vec(),
    }
}

fn draw(panels: &[Panel], seconds: u32) -> String {
    let label = |power: f64| in_words(Duration::from_secs_f64(1e-6 * 10_f64.powf(power)));
    let highest =
        panels.iter().flat_map(|panel| panel.curves.iter().flatten()).map(|point| point.1).fold(1.0, f64::max);
    let late = Axis { range: 1.0..4.0, label };
    let share = Axis { range: 0.0..highest * 1.05, label: |percent| format!("{percent:.0} %") };
    let note = format!(
        "Share of sleeps by how late they end; hairspring with default settings; {seconds} s for each library and panel. \
         100 % is one processor. The columns at the edges hold what lies beyond them."
    );
    let names = [Hairspring::NAME, BASE];
    curves(["How late sleeps of 1 to 10 ms end", &note], &names, panels, [&late, &share], 2, true)
}

/// Microseconds up to a millisecond, and milliseconds from there on.
fn in_words(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..9.95 => format!("{micros:.1} µs"),
        ..999.5 => format!("{micros:.0} µs"),
        _ => format!("{:.1} ms", micros / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hold_all_sleeps() {
        let mut contender = Contender::new::<Tokio>(BASE, false, || {});
        for micros in [1, 10, 95, 101, 9_900, 50_000] {
            contender.lateness.record(micros * 1_000).unwrap();
        }
        let panel = panel(SCENARIOS[0], [&contender, &contender]);
        let columns: Vec<f64> = panel.curves[0].iter().step_by(2).map(|point| point.1).collect();
        assert!((columns.iter().sum::<f64>() - 100.0).abs() < 1e-9, "{columns:?}");
        for (column, of_six) in [(0, 2.0), (9, 1.0), (10, 1.0), (29, 2.0)] {
            assert!((columns[column] - 100.0 * of_six / 6.0).abs() < 1e-9, "{columns:?}");
        }
        let words = [1_500, 63_400, 999_400, 999_600, 12_340_000].map(|nanos| in_words(Duration::from_nanos(nanos)));
        assert_eq!(words, ["1.5 µs", "63 µs", "999 µs", "1.0 ms", "12.3 ms"]);
    }
}
