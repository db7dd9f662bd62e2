//! Who is let sleep again and again, in tasks of a runtime.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use hairspring::Timer;
use hairspring::timer::{Alarm, Builder};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::cell::{Cell, Late, Outcome};
use crate::floor;
use crate::rival::{Rival, Until};
use crate::rivals::{AsyncIo, Hairspring, Tokio, TokioHrtime, TokioTimerd};

/// How long a worker is blocked, and how long it is not.
const BLOCK: Duration = Duration::from_millis(20);

/// Who sleeps.
pub struct Contender {
    pub name: &'static str,
    /// Whether a sleep that ends early is our fault.
    pub is_ours: bool,
    /// More would take too many files.
    pub most_tasks: u32,
    /// Called in the new runtime.
    pub set_up: fn(),
    pub measure: fn(&Contender, &Cell) -> Outcome,
}

pub const TIMERFD: &str = "hairspring, timerfd";
const MILLISECOND: Duration = Duration::from_millis(1);

const CONTENDERS: &[Contender] = &[
    ours(Hairspring::NAME, || {}),
    ours("hairspring, 1 ms", || install(Timer::builder().resolution(MILLISECOND))),
    ours(TIMERFD, || install(timerfd())),
    ours("hairspring, timerfd, 10 µs", || install(timerfd().resolution(Duration::from_micros(10)))),
    ours("hairspring, timerfd, 1 ms", || install(timerfd().resolution(MILLISECOND))),
    contender::<Tokio>(),
    #[cfg(tokio_unstable)]
    contender::<crate::rivals::TokioAlt>(),
    contender::<AsyncIo>(),
    Contender { most_tasks: 500, ..contender::<TokioHrtime>() },
    Contender { most_tasks: 500, ..contender::<TokioTimerd>() },
    Contender { name: "floor: thread", measure: floor::thread, ..contender::<Tokio>() },
    Contender { name: "floor: timerfd", measure: floor::timerfd, ..contender::<Tokio>() },
];

const fn contender<U: Until>() -> Contender {
    Contender { name: U::NAME, is_ours: false, most_tasks: u32::MAX, set_up: || {}, measure: sleep_in_tasks::<U> }
}

const fn ours(name: &'static str, set_up: fn()) -> Contender {
    Contender { name, is_ours: true, set_up, ..contender::<Hairspring>() }
}

fn timerfd() -> Builder {
    Timer::builder().alarm(Alarm::Timerfd)
}

fn install(builder: Builder) {
    builder.install().expect("a runtime with `enable_all` can have it");
}

/// Those of the names, or, for what is no name, those that have it in theirs; all if nothing is asked for.
pub fn chosen(only: &[String]) -> Result<Vec<&'static Contender>, String> {
    let is_name = |part: &str| CONTENDERS.iter().any(|other| other.name == part);
    let fits = |name: &str, part: &str| name == part || !is_name(part) && name.contains(part);
    let takes = |name: &str| only.is_empty() || only.iter().any(|part| fits(name, part));
    let chosen: Vec<_> = CONTENDERS.iter().filter(|contender| takes(contender.name)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = CONTENDERS.iter().map(|contender| contender.name).collect();
        return Err(format!("{only:?} is in none of the names: {}", names.join("; ")));
    }
    Ok(chosen)
}

/// The one of that name.
pub fn named(name: &str) -> &'static Contender {
    CONTENDERS.iter().find(|contender| contender.name == name).expect("a contender's name")
}

fn sleep_in_tasks<U: Until>(contender: &Contender, cell: &Cell) -> Outcome {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(cell.workers).enable_all();
    U::configure(&mut builder);
    let runtime = builder.build().expect("a runtime");
    let timer = runtime.block_on(async {
        (contender.set_up)();
        contender.is_ours.then(Timer::current)
    });
    if cell.has_blocked {
        runtime.spawn(block_half_of_the_time::<U>());
    }
    sleep_on::<U>(&runtime, cell, || timer.as_ref().map_or(0, |timer| timer.metrics().turns()))
}

/// Lets the tasks of a cell sleep in a runtime.
pub fn sleep_on<U: Until>(runtime: &Runtime, cell: &Cell, turns: impl Fn() -> u64) -> Outcome {
    let (window, mut sleepers) = (cell.window(), JoinSet::new());
    for task in 0..cell.tasks {
        sleepers.spawn_on(sleep_repeatedly::<U>(cell.clone(), task, window.clone()), runtime.handle());
    }
    let mut outcome = Outcome::metered(&window, turns);
    runtime.block_on(async {
        // One that never wakes up is left out.
        while let Ok(Some(seen)) = timeout(Duration::from_secs(1), sleepers.join_next()).await {
            outcome.note(seen.expect("no contender panics"));
        }
    });
    outcome
}

async fn sleep_repeatedly<U: Until>(cell: Cell, task: u32, window: Range<Instant>) -> Vec<Late> {
    let (mut random, mut seen, mut now) = (cell.random(task), Vec::new(), Instant::now());
    while now < window.end {
        let deadline = now + cell.length(&mut random);
        U::sleep_until(deadline).await;
        now = Instant::now();
        if window.contains(&now) {
            seen.push(now.checked_duration_since(deadline));
        }
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
