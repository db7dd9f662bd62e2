//! The contenders whose sleeps end: timers with their settings, and the floors.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use hairspring::Timer;
use hairspring::timer::{Alarm, Builder};
use tokio::runtime::{Builder as RuntimeBuilder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::cell::{Cell, length};
use crate::contender::Contender;
use crate::floor;
use crate::outcome::{Late, Outcome};
use crate::rival::{Rival, Until, build, workers};
use crate::rivals::{AsyncIo, Hairspring, Tokio, TokioHrtime, TokioTimerd};
use crate::session::Scope;

/// How long a worker is blocked, and then free.
const BLOCK: Duration = Duration::from_millis(20);

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
    Contender { name: "floor: thread", measure: floor::thread, on_current_thread: false, ..contender::<Tokio>() },
    Contender { name: "floor: timerfd", measure: floor::timerfd, on_current_thread: false, ..contender::<Tokio>() },
];

const fn contender<U: Until>() -> Contender {
    Contender {
        name: U::NAME,
        is_ours: false,
        most_tasks: u32::MAX,
        on_current_thread: U::ON_CURRENT_THREAD,
        set_up: || {},
        measure: sleep_in_tasks::<U>,
    }
}

const fn ours(name: &'static str, set_up: fn()) -> Contender {
    Contender { name, is_ours: true, set_up, ..contender::<Hairspring>() }
}

fn timerfd() -> Builder {
    Timer::builder().alarm(Alarm::Timerfd)
}

fn install(builder: Builder) {
    builder.install().expect("the runtime has `enable_all`");
}

/// The contenders of these names, or all, if `--only` includes them.
pub fn choose(scope: &Scope, names: &[&str]) -> Result<Vec<&'static Contender>, String> {
    let all = CONTENDERS.iter().filter(|contender| names.is_empty() || names.contains(&contender.name));
    scope.choose(all.collect(), |contender| contender.name)
}

/// The contender of that name.
pub fn named(name: &str) -> &'static Contender {
    CONTENDERS.iter().find(|contender| contender.name == name).expect("a contender's name")
}

/// Runs in the child process.
pub fn run(cell: &Cell) -> Outcome {
    let contender = named(&cell.contender);
    (contender.measure)(contender, cell)
}

fn sleep_in_tasks<U: Until>(contender: &Contender, cell: &Cell) -> Outcome {
    if cell.workers == 0 {
        return sleep_on_current_threads::<U>(contender, cell);
    }
    let runtime = workers(cell.workers, U::configure);
    let turns = contender.set_up(&runtime);
    if cell.has_blocked {
        runtime.spawn(block_half_of_the_time::<U>());
    }
    sleep_on::<U>(&runtime, cell, turns)
}

/// Runs a cell's tasks in each of its current-thread runtimes.
fn sleep_on_current_threads<U: Until>(contender: &Contender, cell: &Cell) -> Outcome {
    let window = cell.window();
    let turns = AtomicU64::new(0);
    let run = |place: usize| {
        let runtime = build(&mut RuntimeBuilder::new_current_thread(), U::configure);
        let turned = contender.set_up(&runtime);
        let mut seen = Vec::new();
        runtime.block_on(async {
            let mut sleepers = spawn_all::<U>(cell, place as u32 * cell.tasks, &window);
            let in_window = async {
                tokio::time::sleep_until(window.start.into()).await;
                let before = turned();
                tokio::time::sleep_until(window.end.into()).await;
                turns.fetch_add(turned() - before, Relaxed);
            };
            in_window.await;
            while let Some(late) = sleepers.join_next().await {
                seen.extend(late.expect("no contender panics"));
            }
        });
        seen
    };
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..cell.runtimes).map(|place| scope.spawn(move || run(place))).collect();
        let mut outcome = Outcome::metered(&window, || turns.load(Relaxed));
        for thread in threads {
            outcome.note(thread.join().expect("no contender panics"));
        }
        outcome.turns = turns.load(Relaxed);
        outcome
    })
}

/// Runs a cell's tasks in a runtime.
pub fn sleep_on<U: Until>(runtime: &Runtime, cell: &Cell, turns: impl Fn() -> u64) -> Outcome {
    let window = cell.window();
    let entered = runtime.enter();
    let mut sleepers = spawn_all::<U>(cell, 0, &window);
    drop(entered);
    let mut outcome = Outcome::metered(&window, turns);
    runtime.block_on(async {
        // A task that never wakes is left out.
        while let Ok(Some(seen)) = timeout(Duration::from_secs(1), sleepers.join_next()).await {
            outcome.note(seen.expect("no contender panics"));
        }
    });
    outcome
}

/// Spawns the tasks of one runtime, the current one. The first has that number.
fn spawn_all<U: Until>(cell: &Cell, first: u32, window: &Range<Instant>) -> JoinSet<Vec<Late>> {
    let mut sleepers = JoinSet::new();
    for task in first..first + cell.tasks {
        sleepers.spawn(sleep_repeatedly::<U>(cell.clone(), task, window.clone()));
    }
    sleepers
}

async fn sleep_repeatedly<U: Until>(cell: Cell, task: u32, window: Range<Instant>) -> Vec<Late> {
    let (mut random, mut seen, mut now) = (cell.random(task), Vec::new(), Instant::now());
    while now < window.end {
        let deadline = now + length(&mut random);
        U::sleep_until(deadline).await;
        now = Instant::now();
        if window.contains(&now) {
            seen.push(now.checked_duration_since(deadline));
        }
    }
    seen
}

/// Blocks its worker, as tasks should not, but sometimes do.
async fn block_half_of_the_time<U: Until>() {
    loop {
        thread::sleep(BLOCK);
        U::sleep_until(Instant::now() + BLOCK).await;
    }
}
