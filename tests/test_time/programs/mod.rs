//! Random programs on a paused clock. Each step of each task must happen exactly on time, to the nanosecond.
//!
//! Each task keeps a model of its time. A sleep adds to that time. A message carries the time at which it was sent. It
//! arrives immediately, so the receiver's time becomes the later of the two. After each step, the clock must show the
//! task's time.
//!
//! `HAIRSPRING_ROUNDS=10000` runs more programs on each kind of runtime, and `HAIRSPRING_SEED=7` only that seed's.

mod task;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use self::task::Task;
use crate::common::{Random, current_thread, for_seeds, ms, must_end, panic_message, threads_are_seen};
use crate::kinds::{Kind, maybe_in_a_task};
use hairspring::test_util::{Bubble, settle};
use hairspring::{Duration, Instant, sleep, timeout};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// The rules of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// Its tasks sleep, for any number of nanoseconds.
    TimePasses,
    /// Its tasks sleep, for whole hours.
    HoursPass,
    /// It ends without time passing.
    TimeStands,
    /// It ends without time passing, on a clock that is not paused.
    ClockRuns,
}

/// Where a program runs, and by which rules.
#[derive(Debug, Clone, Copy)]
struct Setting {
    kind: Kind,
    rules: Rules,
}

/// Runs the program of a seed until its end or its first fault.
async fn run(setting: Setting, seed: u64) -> Result<(), String> {
    let (faults, mut fault) = mpsc::unbounded_channel();
    let mut random = Random::new(seed);
    let is_task = random.below(2) == 0 || !setting.kind.sees_the_root();
    let budget = 10 + random.below(40);
    let mut task = Task::new(setting, random, faults);
    let spawner = task.clone_for("0", 0);
    let all = async move { task.act(budget, 3).await };
    let ended = async {
        if is_task {
            spawner.spawn(all).await;
        } else {
            all.await;
        }
    };
    tokio::select! {
        biased;
        Some(fault) = fault.recv() => Err(fault),
        () = ended => fault.try_recv().map_or(Ok(()), Err),
    }
}

/// Runs the program of a seed, with sleeps.
async fn run_on(kind: Kind, seed: u64) -> Result<(), String> {
    run(Setting { kind, rules: Rules::TimePasses }, seed).await
}

/// How a bubble ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Well,
    Deadlock,
    LeavesTasks,
}

/// Runs the program of a seed in a bubble. The bubble must fail if it hangs or leaves tasks, but not before that.
fn run_in_bubble(kind: Kind, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    // Without patience, a step of less than a millisecond looks like a deadlock, because another thread makes it.
    let (rules, bubble, ends): (_, _, &[End]) = if seed % 2 == 0 {
        (Rules::TimePasses, Bubble::new(), &[End::Well, End::LeavesTasks])
    } else {
        let hasty = Bubble::new().patience(shortest_patience());
        (Rules::HoursPass, hasty, &[End::Well, End::Deadlock, End::LeavesTasks])
    };
    let (end, left) = (random.pick(ends), 1 + random.below(3));
    let result = Mutex::new(None);
    let run_it = || {
        kind.run_in(bubble.seed(seed), || async {
            let mut stuck: JoinSet<()> = JoinSet::new();
            if end != End::Well {
                (0..left).for_each(|_| drop(stuck.spawn(std::future::pending())));
            }
            let ended = run(Setting { kind, rules }, seed).await;
            *result.lock().unwrap() = Some(ended);
            match end {
                End::Well => {}
                End::Deadlock => drop(stuck.join_next().await),
                End::LeavesTasks => stuck.detach_all(),
            }
        });
    };
    let failed = catch_unwind(AssertUnwindSafe(run_it));
    let message = failed.err().and_then(|payload| payload.downcast::<String>().ok()).unwrap_or_default();
    result.into_inner().unwrap().unwrap_or_else(|| Err(format!("the bubble gave up early: {message}")))?;
    let begins = match end {
        End::Well => "",
        End::Deadlock => "deadlock: ",
        End::LeavesTasks => "the bubble's future has ended",
    };
    let waiting = format!("waiting: {left} {}, 0 timers", if left == 1 { "task" } else { "tasks" });
    let is_right = message.starts_with(begins) && (end == End::Well) == message.is_empty();
    let names = end == End::Well || message.lines().nth(1) == Some(&waiting);
    if is_right && names { Ok(()) } else { Err(format!("{end:?} with {left} tasks: {message}")) }
}

/// The shortest patience with which no bubble gives up early. On Windows each check spawns a task, and while that runs
/// tokio does not move its clock although a timer waits.
fn shortest_patience() -> Duration {
    if threads_are_seen() { Duration::ZERO } else { ms(500) }
}

/// Runs the program of a seed on a new runtime.
fn run_alone(kind: Kind, seed: u64) -> Result<(), String> {
    if kind.is_bubble() { run_in_bubble(kind, seed) } else { kind.run(|| run_on(kind, seed)) }
}

/// Fails with the seeds and faults of all programs that fail.
fn never_fails(name: &str, rounds: u64, run: impl Fn(u64) -> Result<(), String> + Send + Sync + 'static) {
    let run = Arc::new(run);
    let mut failures = Vec::new();
    for_seeds(rounds, |seed| {
        // If the program hangs, this is the last line of the output.
        println!("{name}: HAIRSPRING_SEED={seed}");
        let run = run.clone();
        failures.extend(must_end(move || run(seed).err()).map(|fault| format!("HAIRSPRING_SEED={seed}: {fault}")));
    });
    assert!(failures.is_empty(), "{name}: {} programs fail: {failures:#?}", failures.len());
}

const KINDS: [Kind; 12] = [
    Kind::StartPaused,
    Kind::PausedLater,
    Kind::PausedByTokio,
    Kind::Workers(1),
    Kind::Workers(2),
    Kind::Workers(8),
    Kind::Local,
    Kind::LocalOfWorkers,
    Kind::Bubble,
    Kind::BubbleOfWorkers(2),
    Kind::BubbleOn(&Kind::PausedLater),
    Kind::BubbleOn(&Kind::Workers(2)),
];

/// The kinds on which the clock sees all tasks on this system.
fn kinds() -> impl Iterator<Item = Kind> {
    KINDS.into_iter().filter(|&kind| kind != Kind::LocalOfWorkers || kind.sees_the_root())
}

#[test]
fn time_is_exact_on_each_kind_of_runtime() {
    for kind in kinds() {
        never_fails(&format!("{kind:?}"), 20, move |seed| run_alone(kind, seed));
    }
}

/// The clock of a runtime moves while its thread is in another runtime, and is exact when the thread returns.
#[test]
fn time_is_exact_on_runtimes_that_share_a_thread() {
    never_fails("in turn", 10, |seed| {
        let (mut random, kinds): (_, Vec<_>) = (Random::new(seed), kinds().collect());
        let runtimes: [_; 3] = std::array::from_fn(|_| random.pick(&kinds)).map(|kind| (kind, kind.make()));
        let mut is_paused = [false; 3];
        let mut others = Vec::new();
        for _ in 0..6 {
            let at = usize::try_from(random.below(3)).unwrap();
            let ((kind, runtime), seed) = (&runtimes[at], random.next());
            let kind = *kind;
            if kind.is_bubble() {
                run_alone(kind, seed)?;
                continue;
            }
            let pauses = !std::mem::replace(&mut is_paused[at], true);
            let result = kind.run_on(runtime, || async {
                if pauses {
                    kind.pause();
                }
                run_on(kind, seed).await
            });
            result.map_err(|fault| format!("{kind:?}: {fault}"))?;
            if let Kind::Workers(_) = kind {
                // This runtime keeps running while the thread is elsewhere.
                let (seed, (ends, ended)) = (random.next(), oneshot::channel());
                runtime.spawn(async move { ends.send(run_on(kind, seed).await) });
                others.push((kind, ended));
            }
        }
        others.into_iter().try_for_each(|(kind, other)| {
            let result = current_thread().block_on(other).unwrap();
            result.map_err(|fault| format!("{kind:?}, while its thread was elsewhere: {fault}"))
        })
    });
}

/// On a running clock, the model must find faults.
#[test]
fn the_model_notices_a_late_clock() {
    let found = (0..20).filter(|&seed| {
        // The whole program would take hours.
        let program = async { timeout(ms(50), run_on(Kind::Workers(1), seed)).await };
        current_thread().block_on(program).is_ok_and(|result| result.is_err_and(|fault| fault.contains("late")))
    });
    assert!(found.count() > 5);
    assert!(panic_message(|| never_fails("fails", 1, |_| Err("on purpose".into()))).contains("on purpose"));
}

/// When `settle` returns, the program has ended and no time has passed.
#[test]
fn settle_returns_neither_early_nor_late() {
    let runs = [Kind::PausedLater, Kind::Workers(4)].map(|kind| Setting { kind, rules: Rules::ClockRuns });
    let paused = [Kind::StartPaused, Kind::NoSockets, Kind::PausedLater, Kind::Workers(2)];
    let paused = paused.map(|kind| Setting { kind, rules: Rules::TimeStands });
    for setting in runs.into_iter().chain(paused) {
        let kind = setting.kind;
        println!("{setting:?}");
        for_seeds(20, |seed| {
            let test = move || async move {
                let (fired, start) = (Arc::<AtomicBool>::default(), Instant::now());
                let sets = fired.clone();
                let sleeps = tokio::spawn(async move {
                    sleep(ms(1)).await;
                    sets.store(true, SeqCst);
                });
                let program = tokio::spawn(run(setting, seed));
                settle().await;
                assert!(program.is_finished(), "`settle` returned early");
                assert_eq!(program.await.unwrap(), Ok(()));
                if setting.rules == Rules::TimeStands {
                    assert!(!fired.load(SeqCst), "a timer fired");
                    assert_eq!(start.elapsed(), Duration::ZERO);
                }
                sleeps.abort();
            };
            must_end(move || {
                kind.run_on(&kind.make(), || async move {
                    if setting.rules == Rules::TimeStands {
                        kind.pause();
                    }
                    maybe_in_a_task(seed % 2 == 1 || !kind.sees_the_root(), test).await;
                });
            });
        });
    }
}
