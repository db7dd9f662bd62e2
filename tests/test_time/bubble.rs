//! A bubble: a test in a world of its own, which fails if it cannot end or leaves tasks behind.
//!
//! `HAIRSPRING_ROUNDS=100000` runs more random bubbles than the default.

use std::future::{self, Future};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{
    HOUR, Random, current_thread, ms, multi_thread, must_end, panic_message, paused, step, threads_are_seen,
};
use hairspring::test_util::{self, Bubble, ManualClock, bubble};
use hairspring::{Duration, Instant, Timer, interval, pause, resume, sleep, timeout};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking, yield_now};

const DAY: Duration = Duration::from_secs(86_400);

/// The runtime of a bubble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Own,
    StartPaused,
    CurrentThread,
    Workers(usize),
    /// One that the test has built.
    Theirs(usize),
}

const KINDS: [Kind; 6] =
    [Kind::Own, Kind::StartPaused, Kind::CurrentThread, Kind::Workers(1), Kind::Workers(4), Kind::Theirs(2)];

/// Those that a bubble has built.
const OWN: [Kind; 3] = [Kind::Own, Kind::Workers(1), Kind::Workers(4)];

impl Kind {
    fn run<F: Future>(self, bubble: Bubble, code: impl FnOnce() -> F) -> F::Output {
        match self {
            Kind::Own => bubble.run(code),
            Kind::StartPaused => bubble.run_on(paused(), code),
            Kind::CurrentThread => bubble.run_on(current_thread(), code),
            Kind::Workers(workers) => bubble.workers(workers).run(code),
            Kind::Theirs(workers) => bubble.run_on(multi_thread(workers), code),
        }
    }

    fn pauses_tokio(self) -> bool {
        !matches!(self, Kind::Workers(_) | Kind::Theirs(_))
    }
}

/// A patience after which no bubble is given up early. Without a socket of its own, as on Windows, a look spawns a task,
/// and tokio does not move its clock in that moment though a timer waits.
fn shortest() -> Duration {
    if threads_are_seen() { Duration::ZERO } else { ms(500) }
}

/// Runs `test` in a bubble of each kind.
fn in_bubbles<F: Future<Output = ()>>(test: impl Fn() -> F + Send + Clone + 'static) {
    for kind in KINDS {
        let test = test.clone();
        must_end(move || kind.run(Bubble::new(), test));
    }
}

/// Runs `test` in a bubble of each kind, and calls `check` with what it panics with.
fn in_bubbles_that_fail<F: Future<Output = ()>>(
    patience: Duration,
    test: impl Fn() -> F + Send + Clone + 'static,
    check: impl Fn(&str),
) {
    for kind in KINDS {
        let test = test.clone();
        check(&must_end(move || panic_message(|| kind.run(Bubble::new().patience(patience), test))));
    }
}

#[test]
fn time_passes_by_itself_and_the_output_is_returned() {
    for kind in KINDS {
        let passed = must_end(move || {
            kind.run(Bubble::new(), || async {
                let start = Instant::now();
                sleep(DAY).await;
                assert!(timeout(DAY, future::pending::<()>()).await.is_err());
                start.elapsed()
            })
        });
        assert!(passed >= 2 * DAY && passed < 2 * DAY + ms(10), "{kind:?}: {passed:?}");
    }
    let shared = std::rc::Rc::new(5);
    assert_eq!(bubble(|| async { shared.to_string() }), "5", "neither future nor output need be `Send`");
}

#[test]
fn on_its_own_runtime_tokio_has_the_same_clock() {
    bubble(|| async {
        let start = tokio::time::Instant::now();
        tokio::time::sleep(DAY).await;
        assert!(start.elapsed() >= DAY && start.elapsed() < DAY + ms(10));
    });
}

#[test]
fn a_bubble_that_cannot_end_fails() {
    let test = || async {
        let (_kept, never) = oneshot::channel::<()>();
        tokio::spawn(future::pending::<()>());
        sleep(DAY).await;
        never.await.unwrap();
    };
    in_bubbles_that_fail(shortest(), test, |message| {
        let waiting = "deadlock: nothing is left to wake the bubble\nwaiting: 1 task, 0 timers\n";
        assert!(message.starts_with(waiting), "{message}");
    });
}

#[test]
fn a_task_that_is_left_may_end_with_its_blocking_work() {
    in_bubbles(|| async {
        tokio::spawn(test_util::spawn_blocking(|| thread::sleep(ms(100))));
        drop(tokio::spawn(yield_now()));
    });
    for workers in [0, 2] {
        let bubble = if workers == 0 { Bubble::new() } else { Bubble::new().workers(workers) };
        must_end(move || {
            bubble.run(|| async {
                tokio::spawn(spawn_blocking(|| thread::sleep(ms(100))));
            });
        });
    }
}

#[test]
fn a_bubble_that_leaves_what_never_settles_fails() {
    let yields = || async {
        tokio::spawn(async {
            loop {
                yield_now().await;
            }
        });
    };
    let blocks = || async {
        tokio::spawn(spawn_blocking(thread::park));
    };
    for message in [
        must_end(move || panic_message(|| Bubble::new().run(yields))),
        must_end(move || panic_message(|| Bubble::new().run(blocks))),
    ] {
        assert!(
            message.starts_with("the bubble's future has ended, and left tasks behind\nwaiting: 1 task"),
            "{message}"
        );
    }
}

/// Two tasks that wait for each other, and the bubble for both.
#[test]
fn a_bubble_whose_tasks_wait_for_each_other_fails() {
    let test = || async {
        let ((to_one, one), (to_other, other)) = (oneshot::channel::<()>(), oneshot::channel::<()>());
        let first = tokio::spawn(async move {
            one.await.unwrap();
            to_other.send(()).unwrap();
        });
        let second = tokio::spawn(async move {
            other.await.unwrap();
            to_one.send(()).unwrap();
        });
        let _ = (first.await, second.await);
    };
    in_bubbles_that_fail(shortest(), test, |message| {
        assert!(message.contains("waiting: 2 tasks, 0 timers"), "{message}");
    });
}

#[test]
fn a_bubble_that_leaves_tasks_fails_with_what_they_wait_for() {
    let line = line!() + 3;
    let test = || async {
        tokio::spawn(async {
            sleep(HOUR).await;
        });
        tokio::spawn(future::pending::<()>());
        sleep(ms(1)).await;
    };
    in_bubbles_that_fail(HOUR, test, |message| {
        let waiting = "the bubble's future has ended, and left tasks behind\nwaiting: 2 tasks, 1 timer\n";
        assert!(message.starts_with(waiting), "{message}");
        let named = format!("Sleep created at {}:{line}:", file!());
        assert!(message.contains(&named), "{message}");
    });
}

/// No time passes after the end, and what needs none is waited for.
#[test]
fn tasks_that_end_without_time_passing_are_not_left() {
    in_bubbles(|| async {
        let (stops, stop) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let _ = stop.await;
            for _ in 0..100 {
                yield_now().await;
            }
            test_util::spawn_blocking(|| thread::sleep(ms(2))).await.unwrap();
        });
        let ticks = tokio::spawn(async {
            let mut every = interval(HOUR);
            loop {
                every.tick().await;
            }
        });
        sleep(DAY).await;
        ticks.abort();
        drop(stops);
    });
}

#[test]
fn time_stands_still_after_the_end() {
    let woke = Arc::<AtomicBool>::default();
    let flag = woke.clone();
    let test = move || {
        let flag = flag.clone();
        async move {
            tokio::spawn(async move {
                sleep(HOUR).await;
                flag.store(true, SeqCst);
            });
            tokio::spawn(tokio::time::sleep(HOUR));
        }
    };
    in_bubbles_that_fail(HOUR, test, |message| assert!(message.contains("2 tasks"), "{message}"));
    assert!(!woke.load(SeqCst));
}

/// Threads of its own, and other clocks.
#[test]
fn a_bubble_that_is_held_is_not_given_up() {
    for kind in KINDS {
        must_end(move || {
            kind.run(Bubble::new().patience(shortest()), || async {
                let start = Instant::now();
                for _ in 0..3 {
                    let (sender, answer) = oneshot::channel();
                    let hold = test_util::hold();
                    thread::spawn(move || {
                        thread::sleep(ms(30));
                        sender.send(()).unwrap();
                        drop(hold);
                    });
                    answer.await.unwrap();
                }
                assert_eq!(start.elapsed(), Duration::ZERO);
            });
        });
    }
}

#[test]
fn a_bubble_that_waits_for_blocking_work_is_not_given_up() {
    for kind in OWN {
        must_end(move || {
            kind.run(Bubble::new().patience(shortest()), || async {
                for _ in 0..3 {
                    spawn_blocking(|| thread::sleep(ms(30))).await.unwrap();
                    tokio::fs::read("/proc/self/status").await.unwrap();
                    sleep(HOUR).await;
                }
            });
        });
    }
}

#[test]
fn a_clock_of_ones_own_that_moves_by_itself_keeps_a_bubble_alive() {
    for kind in KINDS {
        must_end(move || {
            kind.run(Bubble::new(), || async {
                let clock = ManualClock::new();
                clock.auto_advance();
                let timer = Timer::builder().clock(&clock).build().unwrap();
                for _ in 0..20 {
                    timer.sleep(DAY).await;
                }
            });
        });
    }
}

/// Time moves while the thread looks.
#[test]
fn a_long_chain_of_sleeps_is_not_given_up() {
    for kind in KINDS {
        must_end(move || {
            kind.run(Bubble::new().patience(shortest()), || async {
                for _ in 0..300 {
                    step();
                    sleep(HOUR).await;
                    if kind.pauses_tokio() {
                        tokio::time::sleep(HOUR).await;
                    }
                }
            });
        });
    }
}

#[test]
fn a_bubble_whose_clock_runs_again_is_not_given_up() {
    for kind in KINDS {
        must_end(move || {
            kind.run(Bubble::new().patience(shortest()), || async {
                sleep(HOUR).await;
                resume();
                sleep(ms(50)).await;
                timeout(ms(50), future::pending::<()>()).await.unwrap_err();
            });
        });
    }
}

#[test]
fn a_panic_of_its_future_is_passed_on() {
    in_bubbles_that_fail(HOUR, || async { panic!("on purpose") }, |message| assert_eq!(message, "on purpose"));
}

#[test]
fn there_is_no_bubble_inside_a_runtime() {
    let message = current_thread().block_on(async { panic_message(|| bubble(|| async {})) });
    assert!(message.contains("use a plain `#[test]`"), "{message}");
}

/// It hung: nothing moves that clock, and the bubble's timers were taken for what would.
#[test]
fn a_current_thread_runtime_without_enable_time_is_refused() {
    let [current_thread, multi_thread] = crate::common::bare();
    let message = must_end(|| panic_message(|| Bubble::new().run_on(current_thread, || sleep(HOUR))));
    assert!(message.contains("without `enable_time`"), "{message}");
    must_end(|| Bubble::new().run_on(multi_thread, || sleep(HOUR)));
}

/// The order in which tasks run that sleep until the same instant.
fn order(kind: Kind, bubble: Bubble) -> Vec<usize> {
    let ran = Arc::<Mutex<Vec<usize>>>::default();
    let runs = ran.clone();
    kind.run(bubble, || async move {
        let tasks = (0..50).map(|n| {
            let runs = runs.clone();
            async move {
                for _ in 0..3 {
                    sleep(HOUR).await;
                    runs.lock().unwrap().push(n);
                }
            }
        });
        tasks.collect::<JoinSet<_>>().join_all().await;
    });
    Arc::into_inner(ran).unwrap().into_inner().unwrap()
}

#[test]
fn a_seed_repeats_the_order_of_timers_of_one_instant_and_another_changes_it() {
    for kind in [Kind::Own, Kind::StartPaused, Kind::CurrentThread] {
        let seeded = |seed| order(kind, Bubble::new().seed(seed));
        let orders: Vec<_> = (0..20).map(seeded).collect();
        assert!((0..20).map(seeded).eq(orders.iter().cloned()), "{kind:?}");
        assert!(orders[1..].iter().all(|other| *other != orders[0]), "another seed, another order");
        for order in orders {
            assert_ne!(order[..50], order[50..100], "each instant has an order of its own");
            let mut each = order[..50].to_vec();
            each.sort_unstable();
            assert!(each.into_iter().eq(0..50), "each fires once, in its own hour");
        }
    }
}

/// With the root future, tasks that yield, and tasks that only spawn.
#[test]
fn a_seed_repeats_the_whole_order_of_a_bubble() {
    let trace = |seed| {
        let ran = Arc::<Mutex<Vec<u64>>>::default();
        let runs = ran.clone();
        Bubble::new().seed(seed).run(|| async move {
            let tasks: Vec<_> = (0..30)
                .map(|n| {
                    let runs = runs.clone();
                    tokio::spawn(async move {
                        for _ in 0..n % 5 {
                            yield_now().await;
                            runs.lock().unwrap().push(n);
                        }
                        tokio::spawn(async move { runs.lock().unwrap().push(100 + n) }).await.unwrap();
                    })
                })
                .collect();
            for _ in 0..20 {
                yield_now().await;
                runs.lock().unwrap().push(1_000);
            }
            for task in tasks {
                task.await.unwrap();
            }
        });
        Arc::into_inner(ran).unwrap().into_inner().unwrap()
    };
    let traces: Vec<_> = (0..20).map(trace).collect();
    // Beside tests that pause other clocks.
    thread::scope(|scope| {
        // Dropped at the end, also if a bubble fails.
        let (_goes_on, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            while ended.try_recv() == Err(TryRecvError::Empty) {
                multi_thread(1).block_on(async { pause() });
            }
        });
        let other = (0..20_u64).cycle().take(200).find(|&seed| trace(seed) != traces[usize::try_from(seed).unwrap()]);
        assert_eq!(other, None, "a seed that gave another order");
    });
    assert!(traces.iter().any(|trace| *trace != traces[0]), "some differ");
}

#[test]
#[ignore = "run by the next test, as a program of its own"]
fn fails_with_its_order() {
    let order = order(Kind::Own, Bubble::new().seed(5));
    bubble(|| async { println!("order {order:?}") });
    bubble(|| async move { panic!("on purpose") });
}

#[test]
#[ignore = "run by the next test, as a program of its own"]
fn prints_its_order() {
    println!("order {:?}", order(Kind::Own, Bubble::new()));
    bubble(|| async move { panic!("on purpose") });
}

/// Runs one of the tests above with a seed in the environment.
fn run(test: &str, seed: Option<&str>) -> (String, Output) {
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", &format!("bubble::{test}"), "--ignored", "--nocapture"]).env_remove("HAIRSPRING_SEED");
    let output = run.envs(seed.map(|seed| ("HAIRSPRING_SEED", seed))).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let order = printed.lines().find(|line| line.contains("order [")).unwrap_or_default().to_owned();
    (order, output)
}

#[test]
fn a_failure_prints_a_seed_that_repeats_it() {
    let test = "prints_its_order";
    let seed_of = |output: &Output| {
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let line =
            printed.lines().find(|line| line.contains("set HAIRSPRING_SEED=")).unwrap_or_else(|| panic!("{printed}"));
        line.split_once('=').unwrap().1.to_owned()
    };
    let (unseeded, output) = run(test, None);
    assert!(!output.status.success() && !unseeded.is_empty());
    let seed = seed_of(&output);
    let (seeded, again) = run(test, Some(&seed));
    assert_eq!(seed_of(&again), seed);
    assert_eq!(run(test, Some(&seed)).0, seeded);
    assert_ne!(seeded, unseeded, "each bubble has a seed of its own: the first was another");
    let (third, _) = run(test, None);
    assert_ne!(third, unseeded, "without a seed each run has another order");
}

#[test]
fn the_seed_of_the_environment_goes_before_that_of_the_program() {
    let of = |seed| run("fails_with_its_order", seed).0;
    assert_eq!(of(None), of(Some("5")));
    assert_ne!(of(None), of(Some("6")));
}

#[test]
fn a_seed_that_is_none_is_named_with_what_is_allowed() {
    for seed in ["", "seven", "-1", "1.5", "0x10", " 7", "18446744073709551616"] {
        let (_, output) = run("prints_its_order", Some(seed));
        let printed = String::from_utf8_lossy(&output.stderr);
        let named = format!("HAIRSPRING_SEED is `{seed}`, but must be a whole number from 0 to 18446744073709551615");
        assert!(printed.contains(&named), "{printed}");
    }
    let (order, _) = run("prints_its_order", Some("18446744073709551615"));
    assert!(!order.is_empty());
}

/// What tokio lets a bubble do in a build with `RUSTFLAGS="--cfg tokio_unstable"`.
#[cfg(tokio_unstable)]
mod with_unstable_tokio {
    use super::*;

    #[test]
    fn each_task_that_waits_is_named() {
        let line = line!() + 4;
        let message = panic_message(|| {
            bubble(|| async {
                sleep(HOUR).await;
                tokio::spawn(future::pending::<()>());
                tokio::spawn(async {}).await.unwrap();
            });
        });
        let named = format!("waiting: 1 task, 0 timers\n  Task spawned at {}:{line}:", file!());
        assert!(message.contains(&named), "{message}");
    }

    #[test]
    fn a_seed_repeats_which_branch_is_polled_first() {
        let branches = |seed| {
            Bubble::new().seed(seed).run(|| async {
                let mut firsts = Vec::new();
                for _ in 0..30 {
                    firsts.push(tokio::select! {
                        () = future::ready(()) => 0,
                        () = future::ready(()) => 1,
                    });
                }
                firsts
            })
        };
        let first: Vec<_> = (0..10).map(branches).collect();
        assert!((0..10).map(branches).eq(first.iter().cloned()));
        assert_ne!(first[0], first[1]);
    }
}

/// What a random bubble comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Well,
    Deadlock,
    LeavesTasks,
}

/// A random tree of tasks that sleep, wait for each other, and do blocking work. It always ends.
fn grow(mut random: Random, depth: u32, with_tokio: bool) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let mut children = JoinSet::new();
        for _ in 0..random.below(6) {
            let hours = HOUR * u32::try_from(random.below(3)).unwrap();
            match random.below(9) {
                0 => {
                    for _ in 0..random.below(70) {
                        yield_now().await;
                    }
                }
                1 => sleep(hours).await,
                2 => sleep(random.duration(HOUR)).await,
                3 if with_tokio => tokio::time::sleep(hours + ms(1)).await,
                4 => assert!(timeout(hours, future::pending::<()>()).await.is_err()),
                5 => {
                    let (sender, receiver) = oneshot::channel();
                    children.spawn(async move {
                        sleep(hours).await;
                        sender.send(()).unwrap();
                    });
                    receiver.await.unwrap();
                }
                6 => {
                    let spins = random.below(50);
                    test_util::spawn_blocking(move || (0..spins).for_each(|_| thread::yield_now())).await.unwrap();
                }
                _ if depth > 0 => drop(children.spawn(grow(Random::new(random.next()), depth - 1, with_tokio))),
                _ => {}
            }
        }
        children.join_all().await;
    })
}

/// Runs the random bubble of a seed, and fails if it ends otherwise than it must.
fn check_end(kind: Kind, seed: u64) {
    let mut random = Random::new(seed);
    let expected = random.pick(&[End::Well, End::Well, End::Deadlock, End::LeavesTasks]);
    let (grown, left) = (AtomicBool::new(false), 1 + random.below(3));
    let run = || {
        kind.run(Bubble::new().seed(seed).patience(shortest()), || async {
            let mut stuck: JoinSet<()> = JoinSet::new();
            if expected != End::Well {
                (0..left).for_each(|_| drop(stuck.spawn(future::pending())));
            }
            grow(random, 3, kind.pauses_tokio()).await;
            grown.store(true, SeqCst);
            match expected {
                End::Well => {}
                End::Deadlock => drop(stuck.join_next().await),
                End::LeavesTasks => stuck.detach_all(),
            }
        });
    };
    let ended = catch_unwind(AssertUnwindSafe(run));
    let message = ended.err().and_then(|payload| payload.downcast::<String>().ok());
    let begins = match expected {
        End::Well => None,
        End::Deadlock => Some("deadlock: nothing is left to wake the bubble"),
        End::LeavesTasks => Some("the bubble's future has ended, and left tasks behind"),
    };
    let tasks = if left == 1 { "task" } else { "tasks" };
    let expected = begins.map(|begins| format!("{begins}\nwaiting: {left} {tasks}, 0 timers"));
    // With `tokio_unstable`, the places of the tasks follow.
    let message = message.map(|message| message.lines().take(2).collect::<Vec<_>>().join("\n"));
    assert_eq!(message, expected, "on {kind:?}: HAIRSPRING_SEED={seed}");
    assert!(grown.load(SeqCst), "it was given up early on {kind:?}: HAIRSPRING_SEED={seed}");
}

#[test]
fn no_bubble_is_given_up_early_or_not_at_all() {
    const ROUNDS: u64 = 20;
    let number = |name| std::env::var(name).ok().map(|value| value.parse().expect("a whole number"));
    let seeds = number("HAIRSPRING_SEED").map_or(0..number("HAIRSPRING_ROUNDS").unwrap_or(ROUNDS), |at| at..at + 1);
    for kind in KINDS {
        let seeds = seeds.clone();
        must_end(move || {
            for seed in seeds {
                check_end(kind, seed);
                step();
            }
        });
    }
}
