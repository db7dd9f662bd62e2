//! What limits cost a service: how many requests it answers, and the processor time of each.
//!
//! All contenders are ready in one process, each with a runtime of its own, and take turns; another one begins each
//! time. A figure is compared with those of the same round. The clients keep all workers busy, so processor time says
//! what a request costs even if other programs take some of the processors.

mod limit;
mod services;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tools::machine::Meter;
use tools::{progress, quantile, table};

use crate::{machine_line, save};
use limit::{Hairspring, Limit, Tokio, Unlimited};
use services::{Actors, Echo, Http, Pool, Service};

const WHOLE_RUN: u32 = 15;
const WORKERS: [u16; 2] = [2, 1];
const TURN: Duration = Duration::from_millis(150);

#[derive(Debug, Args)]
pub struct Options {
    /// Only the services that have it in their names
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// How many threads a runtime has, one table for each
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_values_t = WORKERS,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: Vec<u16>,
    /// How often each takes its turn
    #[arg(long, default_value_t = WHOLE_RUN, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
}

/// Measures, prints tables, and keeps them.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    println!("{}", machine_line());
    let mut lines = Vec::new();
    for &workers in &options.workers {
        compare::<Actors>(options, workers, &mut lines);
        compare::<Echo>(options, workers, &mut lines);
        compare::<Http>(options, workers, &mut lines);
        compare::<Pool>(options, workers, &mut lines);
    }
    if lines.is_empty() {
        let names = [Actors::NAME, Echo::NAME, Http::NAME, Pool::NAME].join("; ");
        return Err(format!("{:?} is in none of the names: {names}", options.only).into());
    }
    // Only a whole run is worth keeping.
    let is_whole = options.only.is_none() && options.rounds >= WHOLE_RUN && options.workers == WORKERS;
    let figures = FIGURES.iter().flat_map(|(name, _)| ["", " p25", " p75"].map(|which| format!("{name}{which}")));
    let columns: Vec<_> = ["service", "workers", "contender"].map(str::to_owned).into_iter().chain(figures).collect();
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    save(if is_whole { "service" } else { "quick" }, &columns, &lines)
}

/// What came of a turn.
#[derive(Clone, Copy)]
struct Turn {
    a_second: f64,
    /// Nanoseconds of processor time for a request, of all threads of the process.
    processor: f64,
}

type Contender = (&'static str, Box<dyn Fn(Duration) -> Turn>, Vec<Turn>);

fn contender<S: Service, L: Limit>(workers: u16) -> Contender {
    let site = Site::<S>::new::<L>(workers);
    (L::NAME, Box::new(move |length| site.turn::<L>(length)), Vec::new())
}

fn compare<S: Service>(options: &Options, workers: u16, lines: &mut Vec<Vec<String>>) {
    if options.only.as_ref().is_some_and(|part| !S::NAME.contains(part.as_str())) {
        return;
    }
    let mut contenders = [
        contender::<S, Unlimited>(workers),
        contender::<S, Hairspring>(workers),
        contender::<S, Tokio>(workers),
        #[cfg(tokio_unstable)]
        contender::<S, limit::TokioAlt>(workers),
    ];
    // The first round warms up.
    for round in progress(S::NAME, options.rounds.into()).wrap_iter(0..=options.rounds) {
        let first = round as usize % contenders.len();
        for place in (first..contenders.len()).chain(0..first) {
            let (_, turn, turns) = &mut contenders[place];
            let turn = turn(TURN);
            if round > 0 {
                turns.push(turn);
            }
        }
    }
    let find = |name| contenders.iter().find(|other| other.0 == name).map(|other| &other.2).expect("it takes part");
    let (unlimited, tokio) = (find(Unlimited::NAME), find(Tokio::NAME));
    let rows: Vec<_> = contenders.iter().map(|(name, _, turns)| (name, figures(turns, unlimited, tokio))).collect();
    let shown = rows.iter().map(|(name, figures)| {
        let figure = |((_, decimals), [middle, p25, p75]): (&(&str, usize), &[f64; 3])| {
            format!("{middle:.decimals$} ({p25:.decimals$}..{p75:.decimals$})")
        };
        [(**name).to_owned()].into_iter().chain(FIGURES.iter().zip(figures).map(figure)).collect::<Vec<_>>()
    });
    let names: Vec<_> = ["contender"].into_iter().chain(FIGURES.map(|(name, _)| name)).collect();
    let workers = format!("{workers} worker{}", if workers == 1 { "" } else { "s" });
    println!("\n{}, {workers}; p25..p75\n{}", S::NAME, table(&names, &shown.collect::<Vec<_>>()));
    for (name, figures) in rows {
        let numbers =
            FIGURES.iter().zip(figures).flat_map(|((_, decimals), figure)| figure.map(|n| format!("{n:.decimals$}")));
        lines.push([S::NAME, &workers, name].map(str::to_owned).into_iter().chain(numbers).collect());
    }
}

/// What is reported of a contender, with how many decimals: each figure in the middle of all rounds, and its quartiles.
const FIGURES: [(&str, usize); 6] = [
    ("requests a second", 0),
    ("percent of none", 1),
    ("processor ns a request", 0),
    ("ns of its limits", 0),
    ("requests times tokio's", 3),
    ("processor times tokio's", 3),
];

/// For [`FIGURES`]. Shares, differences and ratios are those of a round.
fn figures(turns: &[Turn], unlimited: &[Turn], tokio: &[Turn]) -> [[f64; 3]; 6] {
    let of = |figure: &dyn Fn(&Turn, &Turn, &Turn) -> f64| {
        let rounds = turns.iter().zip(unlimited).zip(tokio);
        let mut figures: Vec<_> = rounds.map(|((turn, none), tokio)| figure(turn, none, tokio)).collect();
        figures.sort_by(f64::total_cmp);
        [0.5, 0.25, 0.75].map(|share| quantile(&figures, share))
    };
    [
        of(&|turn, _, _| turn.a_second),
        of(&|turn, none, _| 100.0 * turn.a_second / none.a_second),
        of(&|turn, _, _| turn.processor),
        of(&|turn, none, _| turn.processor - none.processor),
        of(&|turn, _, tokio| turn.a_second / tokio.a_second),
        of(&|turn, _, tokio| turn.processor / tokio.processor),
    ]
}

/// A service in a runtime of its own.
struct Site<S> {
    service: Arc<S>,
    runtime: Runtime,
}

impl<S: Service> Site<S> {
    fn new<L: Limit>(workers: u16) -> Self {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers.into()).enable_all();
        L::configure(&mut builder);
        let runtime = builder.build().expect("a runtime");
        let service = runtime.block_on(runtime.spawn(S::open::<L>())).expect("it opens");
        Site { service: Arc::new(service), runtime }
    }

    /// Lets clients ask, again and again.
    fn turn<L: Limit>(&self, length: Duration) -> Turn {
        let (gate, is_over) = (Arc::new(Barrier::new(S::CLIENTS + 1)), Arc::new(AtomicBool::new(false)));
        let mut clients = JoinSet::new();
        for _ in 0..S::CLIENTS {
            let (service, gate, is_over) = (Arc::clone(&self.service), Arc::clone(&gate), Arc::clone(&is_over));
            let client = async move {
                let mut client = service.connect().await;
                gate.wait().await;
                let mut asked = 0_u64;
                loop {
                    service.ask::<L>(&mut client).await;
                    asked += 1;
                    if is_over.load(Relaxed) {
                        return asked;
                    }
                }
            };
            clients.spawn_on(client, self.runtime.handle());
        }
        self.runtime.block_on(gate.wait());
        let (begun, meter) = (Instant::now(), Meter::start().expect("Linux tells of a process's threads"));
        thread::sleep(length);
        is_over.store(true, Relaxed);
        let asked: u64 = self.runtime.block_on(clients.join_all()).into_iter().sum();
        let (took, processor) = (begun.elapsed(), meter.used().expect("Linux tells of a process's threads"));
        Turn { a_second: asked as f64 / took.as_secs_f64(), processor: processor.as_nanos() as f64 / asked as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_a_round() {
        let turns = |figures: [(f64, f64); 3]| figures.map(|(a_second, processor)| Turn { a_second, processor });
        let none = turns([(100.0, 10.0), (200.0, 10.0), (100.0, 10.0)]);
        let ours = turns([(50.0, 14.0), (100.0, 15.0), (60.0, 16.0)]);
        let [requests, share, _, cost, times, processor] = figures(&ours, &none, &none).map(|[middle, ..]| middle);
        assert_eq!([requests, share, cost, times, processor].map(|n| n.to_string()), ["60", "50", "5", "0.5", "1.5"]);
    }

    #[test]
    fn every_service_answers_with_every_limit() {
        fn answers<S: Service, L: Limit>() {
            let turn = Site::<S>::new::<L>(2).turn::<L>(Duration::from_millis(1));
            assert!(turn.a_second > 0.0 && turn.processor > 0.0, "{} with {}", S::NAME, L::NAME);
        }
        fn all<L: Limit>() {
            answers::<Actors, L>();
            answers::<Echo, L>();
            answers::<Http, L>();
            answers::<Pool, L>();
        }
        all::<Unlimited>();
        all::<Hairspring>();
        all::<Tokio>();
    }
}
