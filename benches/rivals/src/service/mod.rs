//! The cost of timeouts in a service: requests per second, and CPU time per request.
//!
//! All contenders are set up in one process, each with its own runtime, and take turns. The clients keep all workers
//! busy, so the CPU time of a request does not depend on how much of the machine other programs take.

mod limit;
mod services;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tools::machine::Meter;
use tools::table;

use crate::rival;
use crate::session::{Scope, Sheet, quartiles, take_turns, with_range};
use limit::{Hairspring, Limit, Tokio, Unlimited};
use services::{Actors, Echo, Http, Pool, Service};
pub use services::{connect, listen};

/// A service's name, and its comparison with so many workers.
type Comparison = (&'static str, fn(&Scope, usize, &mut Sheet));

pub fn run(scope: &Scope) -> Result<(), Box<dyn Error>> {
    let services: Vec<Comparison> = vec![
        (Actors::NAME, compare::<Actors>),
        (Echo::NAME, compare::<Echo>),
        (Http::NAME, compare::<Http>),
        (Pool::NAME, compare::<Pool>),
    ];
    let services = scope.choose(services, |service| service.0)?;
    let figures = FIGURES.map(|(name, ..)| format!("|{name}|{name} p25|{name} p75")).concat();
    let mut sheet = Sheet::new(&[], &format!("service|workers|contender{figures}"));
    for workers in [2, 1] {
        for (_, compare) in &services {
            compare(scope, workers, &mut sheet);
        }
    }
    sheet.save(scope.file("service"))
}

#[derive(Clone, Copy)]
struct Turn {
    per_second: f64,
    /// Nanoseconds of the process's CPU time per request.
    cpu: f64,
}

/// A name, and the measurement of one turn.
type Contender = (&'static str, Box<dyn Fn(Duration) -> Turn>);

fn contender<S: Service, L: Limit>(workers: usize) -> Contender {
    let site = Site::<S>::new::<L>(workers);
    (L::NAME, Box::new(move |length| site.turn::<L>(length)))
}

fn compare<S: Service>(scope: &Scope, workers: usize, sheet: &mut Sheet) {
    let contenders = [
        contender::<S, Unlimited>(workers),
        contender::<S, Hairspring>(workers),
        contender::<S, Tokio>(workers),
        #[cfg(tokio_unstable)]
        contender::<S, limit::TokioAlt>(workers),
    ];
    let length = scope.turn(Duration::from_millis(150));
    // The first round warms up.
    let mut all = take_turns(S::NAME, scope.rounds(15) + 1, contenders.len(), |place, _| (contenders[place].1)(length));
    for turns in &mut all {
        turns.remove(0);
    }
    let workers = format!("{workers} worker{}", if workers == 1 { "" } else { "s" });
    let mut shown = Vec::new();
    for ((name, _), turns) in contenders.iter().zip(&all) {
        let [mut line, mut row] = [vec![(*name).to_owned()], [S::NAME, &workers, name].map(str::to_owned).to_vec()];
        for (_, decimals, figure) in FIGURES {
            // Without limits and tokio, in the same round.
            let rounds = turns.iter().zip(&all[0]).zip(&all[2]);
            let figures = quartiles(rounds.map(|((turn, none), tokio)| figure(turn, none, tokio)).collect());
            line.push(with_range(figures, decimals));
            row.extend(figures.map(|figure| format!("{figure:.decimals$}")));
        }
        shown.push(line);
        sheet.push(row);
    }
    let head: Vec<_> = ["contender"].into_iter().chain(FIGURES.map(|(name, ..)| name)).collect();
    println!("\n{}, {workers}; quartiles\n{}", S::NAME, table(&head, &shown));
}

/// A figure of a turn beside those without limits and with tokio.
type Figure = fn(&Turn, &Turn, &Turn) -> f64;

/// The figures with their decimals.
const FIGURES: [(&str, usize, Figure); 6] = [
    ("requests a second", 0, |turn, _, _| turn.per_second),
    ("percent of none", 1, |turn, none, _| 100.0 * turn.per_second / none.per_second),
    ("processor ns a request", 0, |turn, _, _| turn.cpu),
    ("ns of its limits", 0, |turn, none, _| turn.cpu - none.cpu),
    ("requests times tokio's", 3, |turn, _, tokio| turn.per_second / tokio.per_second),
    ("processor times tokio's", 3, |turn, _, tokio| turn.cpu / tokio.cpu),
];

/// A service with its runtime.
struct Site<S> {
    service: Arc<S>,
    runtime: Runtime,
}

impl<S: Service> Site<S> {
    fn new<L: Limit>(workers: usize) -> Self {
        let runtime = rival::workers(workers, L::configure);
        let service = runtime.block_on(runtime.spawn(S::open::<L>())).expect("it opens");
        Site { service: Arc::new(service), runtime }
    }

    /// Runs clients that ask in a loop.
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
        let (start, meter) = (Instant::now(), Meter::start());
        thread::sleep(length);
        is_over.store(true, Relaxed);
        let asked: u64 = self.runtime.block_on(clients.join_all()).into_iter().sum();
        let (took, cpu) = (start.elapsed(), meter.used());
        Turn { per_second: asked as f64 / took.as_secs_f64(), cpu: cpu.as_nanos() as f64 / asked as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_answers_with_every_limit() {
        fn answers<S: Service, L: Limit>() {
            let turn = Site::<S>::new::<L>(2).turn::<L>(Duration::from_millis(1));
            assert!(turn.per_second > 0.0 && turn.cpu > 0.0, "{} with {}", S::NAME, L::NAME);
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
