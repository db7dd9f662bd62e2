//! A bubble isolates a test, and fails it if it deadlocks or leaves tasks behind. The fuzzer runs random programs in
//! bubbles, and `blocking` tests which work holds their time.

use std::future::{self, Future};
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{HOUR, OnDrop, YEAR, current_thread, ms, must_end, panic_message, panicked_with, paused};
use crate::kinds::{DAY, Kind, MINUTE, WORKERS, on_each};
use futures::{FutureExt, StreamExt};
use hairspring::test_util::{Bubble, advance_and_settle, bubble, hold, settle};
use hairspring::{DelayQueue, Duration, Instant, Timer, advance, interval, sleep, timeout};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking, yield_now};

const KINDS: [Kind; 6] = [
    Kind::Bubble,
    Kind::Workers(1),
    Kind::Workers(4),
    Kind::BubbleOn(&Kind::StartPaused),
    Kind::BubbleOn(&Kind::PausedLater),
    Kind::BubbleOn(&Kind::Workers(2)),
];

#[test]
fn it_returns_an_output_and_shares_tokios_clock() {
    let shared = std::rc::Rc::new(5);
    let (output, passed) = bubble(|| async {
        let start = tokio::time::Instant::now();
        tokio::time::sleep(DAY).await;
        (shared.clone(), start.elapsed())
    });
    assert_eq!(output, shared, "neither the future nor the output has to be `Send`");
    assert!((DAY..DAY + ms(10)).contains(&passed), "{passed:?}");
}

/// Runs `test` in a bubble of each kind, and calls `check` with the message of its panic.
fn each_fails<F: Future<Output = ()>>(test: impl Fn() -> F + Send + Clone + 'static, check: impl Fn(&str)) {
    for kind in KINDS {
        let test = test.clone();
        check(&must_end(move || panic_message(|| kind.run_in(Bubble::new().patience(HOUR), test))));
    }
}

/// A bug that this crate had: one of our threads takes such a step, and the bubble was given up before it came to that.
#[test]
fn a_bubble_without_patience_waits_for_steps_of_less_than_a_millisecond() {
    for kind in [Kind::Bubble, Kind::BubbleOn(&Kind::StartPaused), Kind::BubbleOn(&Kind::PausedLater)] {
        must_end(move || {
            kind.run_in(Bubble::new().patience(Duration::ZERO), || async {
                for _ in 0..100 {
                    sleep(Duration::from_micros(300)).await;
                }
            });
        });
    }
}

const LEFT: &str = "the bubble's future has ended, and left tasks behind\nwaiting: ";

/// A bug that this crate had: the clock moved while the bubble's future was dropped, and the tasks ended.
#[test]
fn leaving_tasks_fails_and_names_their_timers() {
    let line = line!() + 4;
    let test = || {
        let mut leaves = Box::pin(async {
            tokio::spawn(async {
                sleep(HOUR).await;
            });
            tokio::spawn(tokio::time::sleep(HOUR));
            sleep(ms(1)).await;
        });
        let slow = OnDrop(|| thread::sleep(ms(10)));
        future::poll_fn(move |cx| {
            let _dropped_later = &slow;
            leaves.as_mut().poll(cx)
        })
    };
    let timer = format!("{}:{line}:", file!());
    each_fails(test, |message| {
        let names = message.contains("Sleep") && message.contains(&timer);
        assert!(message.starts_with(&format!("{LEFT}2 tasks, 1 timer\n")) && names, "{message}");
    });
}

#[test]
fn a_deadlock_fails_and_counts_what_waits() {
    for kind in KINDS {
        let message = must_end(move || {
            panic_message(|| {
                kind.run_in(Bubble::new().patience(ms(100)), || async {
                    let _waits = tokio::spawn(future::pending::<()>());
                    sleep(DAY).await;
                    future::pending::<()>().await;
                });
            })
        });
        let begins = "deadlock: nothing is left to wake the bubble's own future\nwaiting: 1 task, 0 timers";
        assert!(message.starts_with(begins), "{message}");
    }
}

/// A bug that this crate had: such a test ran forever, and said nothing.
#[test]
fn a_test_that_goes_on_after_its_limit_fails_and_names_what_waits() {
    for kind in KINDS {
        let line = line!() + 7;
        let (message, beats) = must_end(move || {
            let beats = Arc::<AtomicU32>::default();
            let counts = beats.clone();
            let message = panic_message(|| {
                kind.run_in(Bubble::new().patience(HOUR).limit(MINUTE), || async {
                    tokio::spawn(async move {
                        let mut seconds = interval(Duration::from_secs(1));
                        loop {
                            seconds.tick().await;
                            counts.fetch_add(1, SeqCst);
                        }
                    });
                    future::pending::<()>().await;
                });
            });
            (message, beats.load(SeqCst))
        });
        let begins =
            "the bubble's limit has passed, and its own future had not ended\nwaiting: 1 task, 1 timer\n  Interval ";
        let names = message.contains(&format!("{}:{line}:", file!()));
        assert!(message.starts_with(begins) && names, "{kind:?}: {message}");
        assert!(beats == 61 || beats > 61 && kind.is_tokios(), "{kind:?}: {beats}");
    }
}

#[test]
fn a_limit_includes_its_last_instant_and_counts_advances() {
    for kind in KINDS {
        let run = move |limit, wait| {
            let test = move || async move {
                sleep(HOUR).await;
                advance(HOUR).await;
                sleep(wait).await;
            };
            must_end(move || panicked_with(|| kind.run_in(Bubble::new().limit(limit), test)))
        };
        run(2 * HOUR, Duration::ZERO).unwrap();
        run(Duration::MAX, YEAR).unwrap();
        for (limit, wait) in [(2 * HOUR, ms(1)), (HOUR + MINUTE, Duration::ZERO)] {
            let message = run(limit, wait).unwrap_err();
            assert!(message.starts_with("the bubble's limit has passed"), "{kind:?}: {message}");
        }
        let bubble = Bubble::new().patience(ms(100)).limit(HOUR);
        let message = must_end(move || panic_message(|| kind.run_in(bubble, future::pending::<()>)));
        assert!(message.starts_with("deadlock"), "{kind:?}: {message}");
    }
}

/// A bug that this crate had: the clock was paused some time after the start, between two of tokio's milliseconds.
#[test]
fn a_builder_that_does_not_start_paused_makes_an_exact_clock() {
    on_each(&[Kind::Bubble, Kind::BubbleOn(&Kind::StartPaused), Kind::BubbleOn(&Kind::PausedLater)], || async {
        let start = Instant::now();
        sleep(MINUTE).await;
        assert_eq!(start.elapsed(), MINUTE);
        tokio::time::sleep(MINUTE).await;
        assert_eq!(start.elapsed(), 2 * MINUTE);
    });
}

/// A bug that this crate had: the task that holds tokio's clock occupied the only thread, and nothing ever settled.
#[test]
fn one_blocking_thread_is_enough_or_refused() {
    let with = |mut builder: Builder, threads| {
        builder.enable_all().max_blocking_threads(threads);
        Bubble::new().runtime(builder)
    };
    let message = panic_message(|| with(Builder::new_current_thread(), 1).run(|| async {}));
    assert!(message.contains("`max_blocking_threads` of at least 2"), "{message}");
    let workers = [1, 2, 4].map(|workers| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers);
        with(builder, 1)
    });
    let others = [with(Builder::new_current_thread(), 2), with(Builder::new_current_thread(), 1).grace(ms(1))];
    for bubble in workers.into_iter().chain(others) {
        must_end(|| {
            bubble.run(|| async {
                let task = tokio::spawn(sleep(HOUR));
                let work = spawn_blocking(|| thread::sleep(ms(5)));
                settle().await;
                assert!(work.is_finished() && !task.is_finished());
                let hold = hold();
                spawn_blocking(|| ()).await.unwrap();
                drop(hold);
                advance_and_settle(HOUR).await;
                assert!(task.is_finished());
            });
        });
    }
}

/// A bug that this crate had: a queue and an interval went on by the time of the bubble, an hour ahead.
#[test]
fn what_a_bubble_made_can_be_used_after_its_end() {
    for kind in [&[Kind::Bubble], WORKERS.as_slice()].concat() {
        must_end(move || {
            let (mut queue, mut ticks, mut idle, timer) = kind.run(|| async {
                let mut made = (DelayQueue::new(), interval(MINUTE), sleep(MINUTE), Timer::current());
                made.0.insert("old", MINUTE);
                made.0.next().await.unwrap();
                made.1.tick().await;
                (&mut made.2).await;
                sleep(HOUR).await;
                made
            });
            paused().block_on(async {
                let start = Instant::now();
                queue.insert("new", MINUTE);
                ticks.reset();
                idle.reset_at(start + MINUTE);
                assert_eq!(queue.next().await.unwrap().into_inner(), "new");
                ticks.tick().await;
                idle.await;
                assert!((MINUTE..=MINUTE + ms(1)).contains(&start.elapsed()), "{kind:?}: {:?}", start.elapsed());
                assert!(timer.try_sleep(MINUTE).await.unwrap_err().is_shutdown());
            });
        });
    }
}

#[test]
fn leaving_tasks_that_never_settle_fails() {
    let yields = || async {
        tokio::spawn(async {
            loop {
                thread::sleep(ms(1));
                yield_now().await;
            }
        });
    };
    let blocks = || async {
        tokio::spawn(spawn_blocking(thread::park));
    };
    let other = thread::spawn(move || must_end(move || panic_message(|| bubble(yields))));
    for message in [must_end(move || panic_message(|| bubble(blocks))), other.join().unwrap()] {
        assert!(message.starts_with(&format!("{LEFT}1 task")), "{message}");
    }
}

#[test]
fn tasks_that_end_without_time_passing_are_allowed() {
    on_each(&KINDS, || async {
        let (stops, stop) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let _ = stop.await;
            for _ in 0..100 {
                yield_now().await;
            }
            spawn_blocking(|| thread::sleep(ms(50))).await.unwrap();
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
    on_each(&KINDS[..2], || async {
        tokio::spawn(spawn_blocking(|| thread::sleep(ms(100))));
    });
}

#[test]
fn panics_pass_through_and_bad_runtimes_are_refused() {
    each_fails(|| async { panic!("on purpose") }, |message| assert_eq!(message, "on purpose"));
    let message = current_thread().block_on(async { panic_message(|| bubble(|| async {})) });
    assert!(message.contains("use a plain `#[test]`"), "{message}");
    // Such a bubble would hang, because nothing moves its clock.
    let bare = || Bubble::new().runtime(Builder::new_current_thread());
    let message = must_end(move || panic_message(|| bare().run(|| sleep(HOUR))));
    assert!(message.contains("Call `enable_time`"), "{message}");
    must_end(|| Bubble::new().runtime(Builder::new_multi_thread()).run(|| sleep(HOUR)));
    let mut paused = Builder::new_current_thread();
    paused.enable_all().start_paused(true);
    let message = panic_message(|| Bubble::new().runtime(paused).grace(ms(1)).run(|| async {}));
    assert!(message.contains("leave out `start_paused`"), "{message}");
}

/// A bug that this crate had: the thread that moves the clock panicked. The test hung, or failed with a false deadlock.
#[test]
fn a_test_fails_if_the_system_refuses_the_threads_that_moving_the_clock_takes() {
    let refused = || {
        let mut builder = Builder::new_current_thread();
        // Nobody has room for such a stack. The clock moves once a thread has shown that no blocking work is left.
        builder.enable_all().thread_stack_size(usize::MAX / 4 * 3);
        builder
    };
    for moves in [|| sleep(HOUR).left_future(), || settle().right_future()] {
        let bubble = Bubble::new().grace(ms(1)).runtime(refused());
        let message = must_end(move || panic_message(|| bubble.run(moves)));
        assert!(message.contains("has panicked: its message comes before this one"), "{message}");
    }
}

#[test]
fn with_a_grace_what_comes_from_outside_comes_before_time_moves() {
    for bubble in [Bubble::new(), Bubble::new().workers(2)] {
        must_end(|| {
            bubble.grace(Duration::from_secs(5)).run(|| async {
                let start = Instant::now();
                let (sender, word) = oneshot::channel();
                thread::spawn(move || {
                    thread::sleep(ms(20));
                    sender.send(()).unwrap();
                });
                assert_eq!(timeout(HOUR, word).await, Ok(Ok(())));
                assert_eq!(start.elapsed(), Duration::ZERO);
            });
        });
    }
}

/// Adds `n` after each of three hours, or each of three yields.
async fn takes_turns(n: usize, yields: bool, runs: Arc<Mutex<Vec<usize>>>) {
    for _ in 0..3 {
        if yields {
            yield_now().await;
        } else {
            sleep(HOUR).await;
        }
        runs.lock().unwrap().push(n);
    }
}

/// Runs tasks that yield or sleep until the same instants, and returns the order in which they ran.
fn order(kind: Kind, bubble: Bubble, yields: bool) -> Vec<usize> {
    let ran = Arc::<Mutex<Vec<usize>>>::default();
    let runs = ran.clone();
    kind.run_in(bubble, || async move {
        let tasks: JoinSet<_> = (1..=50).map(|n| takes_turns(n, yields, runs.clone())).collect();
        if yields {
            takes_turns(0, true, runs).await;
        }
        tasks.join_all().await;
    });
    Arc::into_inner(ran).unwrap().into_inner().unwrap()
}

#[test]
fn a_seed_decides_the_order_of_simultaneous_timers() {
    for kind in [KINDS[0], KINDS[3], KINDS[4]] {
        let seeded = |seed| order(kind, Bubble::new().seed(seed), false);
        let orders: Vec<_> = (0..20).map(seeded).collect();
        assert!((0..20).map(seeded).eq(orders.iter().cloned()), "{kind:?}");
        assert!(orders[1..].iter().all(|other| *other != orders[0]), "another seed, another order");
        for order in orders {
            assert_ne!(order[..50], order[50..100], "each instant has a different order");
            let mut each = order[..50].to_vec();
            each.sort_unstable();
            assert!(each.into_iter().eq(1..=50), "each fires once, in its hour");
        }
    }
}

/// The order covers the bubble's own future and tasks that yield.
#[test]
fn a_seed_decides_the_whole_order() {
    let seeded = |seed| order(Kind::Bubble, Bubble::new().seed(seed), true);
    let orders: Vec<_> = (0..20).map(seeded).collect();
    assert!((0..20).map(seeded).eq(orders.iter().cloned()), "the same seed repeats its order");
    assert!(orders.iter().any(|order| *order != orders[0]), "some differ");
}

#[test]
#[ignore = "run by the next tests in a separate process"]
fn prints_its_order() {
    println!("order {:?}", order(Kind::Bubble, Bubble::new(), false));
    println!("order {:?}", order(Kind::Bubble, Bubble::new().seed(5), false));
    bubble(|| async move { panic!("on purpose") });
}

/// Runs the test above with a seed in the environment. Returns the orders that it prints and the seed that it names.
fn run(seed: Option<&str>) -> (Vec<String>, Option<String>, Output) {
    let mut run = crate::alone("bubble::prints_its_order");
    let output = run.env_remove("HAIRSPRING_SEED").envs(seed.map(|seed| ("HAIRSPRING_SEED", seed))).output().unwrap();
    let [printed, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    let orders = printed.lines().filter_map(|line| Some(line.split_once("order [")?.1.to_owned())).collect();
    let named = error.lines().find_map(|line| Some(line.split_once("set HAIRSPRING_SEED=")?.1.to_owned()));
    (orders, named, output)
}

#[test]
fn a_failure_prints_a_seed_that_repeats_it() {
    let (unseeded, seed, output) = run(None);
    assert!(!output.status.success() && unseeded.len() == 2, "{output:?}");
    let (seeded, again, _) = run(seed.as_deref());
    assert_eq!(again.as_ref(), Some(&seed.unwrap()));
    assert_eq!(run(again.as_deref()).0, seeded);
    assert_ne!(seeded[0], unseeded[0], "each bubble has a different seed");
    assert_eq!(seeded[0], seeded[1], "the environment's seed overrides the program's");
    let third = run(None).0;
    assert_ne!(third[0], unseeded[0], "without a seed, each run has a different order");
    assert_eq!(third[1], unseeded[1]);
}

#[test]
fn a_bad_seed_is_named_with_the_range() {
    for seed in ["", "seven", "-1", "1.5", "0x10", " 7", "18446744073709551616"] {
        let (_, _, output) = run(Some(seed));
        let printed = String::from_utf8_lossy(&output.stderr);
        let names = printed.contains(&format!("HAIRSPRING_SEED is `{seed}`, but "));
        assert!(names && printed.contains("a whole number from 0 to 18446744073709551615"), "{printed}");
    }
    assert_eq!(run(Some("18446744073709551615")).0.len(), 2);
}

/// These tests need a build with `RUSTFLAGS="--cfg tokio_unstable"`.
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
