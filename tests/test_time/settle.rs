//! `test_util::settle` returns when all that can happen at the present time has happened, and no sooner.
//!
//! `HAIRSPRING_ROUNDS=100000` runs more random rounds than the default, `HAIRSPRING_SEED=7` only the round with that
//! seed.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::common::{HOUR, Random, current_thread, ms, multi_thread, must_end, paused, step, threads_are_seen};
use hairspring::test_util::{self, advance_and_settle, settle};
use hairspring::{Duration, Instant, interval, pause, sleep, timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

/// A kind of runtime, and whether a test pauses its clock and runs in a task of its own.
#[derive(Clone, Copy)]
struct World {
    name: &'static str,
    make: fn() -> Runtime,
    pauses: bool,
    in_task: bool,
    has_sockets: bool,
}

const WORLD: World = World { name: "", make: current_thread, pauses: false, in_task: false, has_sockets: true };

fn two_workers() -> Runtime {
    multi_thread(2)
}

fn four_workers() -> Runtime {
    multi_thread(4)
}

fn no_sockets() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

const WORLDS: [World; 8] = [
    World { name: "start_paused", make: paused, ..WORLD },
    World { name: "start_paused, in a task", make: paused, in_task: true, ..WORLD },
    World { name: "start_paused, without sockets", make: no_sockets, has_sockets: false, ..WORLD },
    World { name: "current thread, paused later", pauses: true, ..WORLD },
    World { name: "current thread", ..WORLD },
    World { name: "two workers, paused", make: two_workers, pauses: true, ..WORLD },
    World { name: "two workers, paused, in a task", make: two_workers, pauses: true, in_task: true, ..WORLD },
    World { name: "four workers", make: four_workers, in_task: true, ..WORLD },
];

impl World {
    /// Runs `test`, and fails if it hangs.
    fn run(self, test: impl AsyncFnOnce(World) -> () + Send + 'static) {
        println!("{}", self.name);
        must_end(move || {
            (self.make)().block_on(async move {
                if self.pauses {
                    pause();
                }
                test(self).await;
            });
        });
    }

    fn is_paused(self) -> bool {
        self.pauses || self.name.starts_with("start_paused")
    }

    /// Whether the test is a task. It is one, too, if the clock could not see it otherwise.
    fn in_task(self) -> bool {
        self.in_task || self.pauses && !threads_are_seen()
    }
}

fn everywhere<F: Future<Output = ()> + Send + 'static>(test: impl Fn(World) -> F + Send + Clone + 'static) {
    for world in WORLDS {
        let test = test.clone();
        world.run(
            async move |world: World| {
                if world.in_task() { tokio::spawn(test(world)).await.unwrap() } else { test(world).await }
            },
        );
    }
}

/// What each task of a tree does at present.
#[derive(Default)]
struct Steps(Mutex<Vec<Step>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begins,
    Yields,
    Receives,
    Blocks,
    Writes,
    Sleeps,
    Done,
}

impl Steps {
    fn begin(&self) -> usize {
        let mut steps = self.0.lock().unwrap();
        steps.push(Step::Begins);
        steps.len() - 1
    }

    fn set(&self, task: usize, step: Step) {
        self.0.lock().unwrap()[task] = step;
    }

    /// What is not done.
    fn left(&self) -> Vec<Step> {
        self.0.lock().unwrap().iter().copied().filter(|&step| step != Step::Done).collect()
    }
}

/// A random tree of tasks, messages, sockets and blocking work.
fn grow(
    mut random: Random,
    depth: u32,
    sockets: Option<Arc<Sockets>>,
    steps: Arc<Steps>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let task = steps.begin();
    Box::pin(async move {
        for _ in 0..random.below(4) {
            match random.below(8) {
                0 => {
                    steps.set(task, Step::Yields);
                    for _ in 0..random.below(100) {
                        yield_now().await;
                    }
                }
                1 => {
                    steps.set(task, Step::Receives);
                    let (sender, receiver) = tokio::sync::oneshot::channel();
                    tokio::spawn(async move {
                        yield_now().await;
                        sender.send(()).unwrap();
                    });
                    receiver.await.unwrap();
                }
                2 => {
                    steps.set(task, Step::Blocks);
                    let spins = random.below(50);
                    test_util::spawn_blocking(move || (0..spins).for_each(|_| thread::yield_now())).await.unwrap();
                }
                3 | 4 => {
                    if let Some(sockets) = &sockets {
                        steps.set(task, Step::Writes);
                        sockets.pass(random.below(10)).await;
                    }
                }
                5 => {
                    steps.set(task, Step::Sleeps);
                    sleep(Duration::ZERO).await;
                }
                _ if depth > 0 => {
                    let child = grow(Random::new(random.below(u64::MAX)), depth - 1, sockets.clone(), steps.clone());
                    drop(tokio::spawn(child));
                }
                _ => {}
            }
        }
        steps.set(task, Step::Done);
    })
}

/// Both ends of a connection through the system, and an echo.
struct Sockets(tokio::sync::Mutex<TcpStream>);

impl Sockets {
    async fn new() -> Arc<Sockets> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect = TcpStream::connect(listener.local_addr().unwrap());
        let (accepted, connected) = tokio::join!(listener.accept(), connect);
        let (mut echo, _) = accepted.unwrap();
        tokio::spawn(async move {
            let mut byte = [0];
            while echo.read_exact(&mut byte).await.is_ok() {
                echo.write_all(&byte).await.unwrap();
            }
        });
        Arc::new(Sockets(connected.unwrap().into()))
    }

    async fn pass(&self, times: u64) {
        let mut socket = self.0.lock().await;
        for _ in 0..times {
            socket.write_all(&[7]).await.unwrap();
            socket.read_exact(&mut [0]).await.unwrap();
        }
    }
}

/// One random round after another. Nothing may be left to do when `settle` returns, and no time may have passed.
async fn rounds(world: World, seeds: std::ops::Range<u64>) {
    // Elsewhere nothing shows that a socket is about to be ready.
    let sockets = if world.has_sockets && cfg!(unix) { Some(Sockets::new().await) } else { None };
    settle().await;
    let start = Instant::now();
    for seed in seeds {
        let (steps, fired) = (Arc::<Steps>::default(), Arc::<AtomicBool>::default());
        let late = fired.clone();
        let sleeps = tokio::spawn(async move {
            sleep(ms(1)).await;
            late.store(true, SeqCst);
        });
        drop(tokio::spawn(grow(Random::new(seed), 4, sockets.clone(), steps.clone())));
        settle().await;
        assert_eq!(steps.left(), [], "{}: it returned early: HAIRSPRING_SEED={seed}", world.name);
        if world.is_paused() {
            assert!(!fired.load(SeqCst), "{}: a timer fired: HAIRSPRING_SEED={seed}", world.name);
            assert_eq!(start.elapsed(), Duration::ZERO, "{}: HAIRSPRING_SEED={seed}", world.name);
        }
        sleeps.abort();
        step();
    }
}

#[test]
fn it_never_returns_early() {
    const ROUNDS: u64 = 25;
    let number = |name| std::env::var(name).ok().map(|value| value.parse().expect("a whole number"));
    let seeds = number("HAIRSPRING_SEED").map_or(0..number("HAIRSPRING_ROUNDS").unwrap_or(ROUNDS), |at| at..at + 1);
    for world in WORLDS {
        let seeds = seeds.clone();
        world.run(async move |world: World| {
            let rounds = rounds(world, seeds);
            if world.in_task() { tokio::spawn(rounds).await.unwrap() } else { rounds.await }
        });
    }
}

/// tokio 2443, 3709, 7419: 61 yields may be too few.
#[test]
fn a_thousand_steps_are_as_good_as_one() {
    everywhere(|_| async {
        let done = Arc::<AtomicBool>::default();
        let sets = done.clone();
        tokio::spawn(async move {
            for _ in 0..1_000 {
                step();
                let (sender, receiver) = tokio::sync::oneshot::channel();
                tokio::spawn(async move { sender.send(()) });
                receiver.await.unwrap();
            }
            sets.store(true, SeqCst);
        });
        settle().await;
        assert!(done.load(SeqCst));
    });
}

#[test]
fn blocking_work_that_lets_itself_be_seen_is_waited_for() {
    everywhere(|_| async {
        settle().await;
        for sleeps in [0, 1, 30] {
            let done = Arc::<AtomicBool>::default();
            let sets = done.clone();
            drop(test_util::spawn_blocking(move || {
                thread::sleep(ms(sleeps));
                sets.store(true, SeqCst);
            }));
            settle().await;
            assert!(done.load(SeqCst), "{sleeps} ms");
        }
    });
}

#[test]
fn a_task_that_never_waits_is_waited_for() {
    everywhere(|_| async {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        tokio::spawn(async move {
            while !stopped.load(SeqCst) {
                yield_now().await;
            }
        });
        let (sender, settles) = mpsc::channel();
        let settled = async move {
            settle().await;
            let _ = sender.send(());
        };
        let stops = stop.clone();
        let after_a_while = thread::spawn(move || {
            let early = settles.recv_timeout(ms(50)).is_ok();
            stops.store(true, SeqCst);
            early
        });
        settled.await;
        assert!(!after_a_while.join().unwrap(), "it returned while a task ran");
    });
}

#[test]
fn tasks_that_settle_at_the_same_time_all_return() {
    everywhere(|_| async {
        let tasks: Vec<_> = (0..5).map(|_| tokio::spawn(settle())).collect();
        settle().await;
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn it_may_be_dropped() {
    everywhere(|world| async move {
        for _ in 0..20 {
            let mut settles = Box::pin(settle());
            assert!(futures::poll!(&mut settles).is_pending());
        }
        if world.is_paused() {
            let start = Instant::now();
            sleep(HOUR).await;
            assert!(start.elapsed() >= HOUR, "the clock moves again");
        }
    });
}

#[test]
fn each_task_runs_at_its_time_on_the_way() {
    everywhere(|world| async move {
        if !world.is_paused() {
            return;
        }
        let held = if world.in_task() { Some(test_util::hold()) } else { None };
        let (start, trace) = (Instant::now(), Arc::<Mutex<Vec<_>>>::default());
        let traces = trace.clone();
        tokio::spawn(async move {
            for length in [ms(1), Duration::from_nanos(1_234_567), HOUR, ms(3)] {
                sleep(length).await;
                traces.lock().unwrap().push(start.elapsed());
            }
        });
        let ticks = Arc::<AtomicUsize>::default();
        let counts = ticks.clone();
        tokio::spawn(async move {
            let mut minutes = interval(HOUR / 60);
            loop {
                assert_eq!(minutes.tick().await, Instant::now());
                counts.fetch_add(1, SeqCst);
            }
        });
        advance_and_settle(Duration::from_nanos(2_234_567)).await;
        assert_eq!(start.elapsed(), Duration::from_nanos(2_234_567));
        assert_eq!(*trace.lock().unwrap(), [ms(1), Duration::from_nanos(2_234_567)]);
        advance_and_settle(HOUR + ms(3)).await;
        let woken = Duration::from_nanos(2_234_567) + HOUR;
        let end = woken + ms(3);
        assert_eq!(start.elapsed(), end);
        assert_eq!(trace.lock().unwrap()[2..], [woken, end]);
        assert_eq!(ticks.load(SeqCst), 61);
        drop(held);
    });
}

#[test]
fn a_timeout_that_has_passed_is_seen_at_once() {
    everywhere(|world| async move {
        if !world.is_paused() {
            return;
        }
        let limited = tokio::spawn(timeout(HOUR, std::future::pending::<()>()));
        settle().await;
        advance_and_settle(HOUR.saturating_sub(Duration::from_nanos(1))).await;
        assert!(!limited.is_finished());
        advance_and_settle(Duration::from_nanos(1)).await;
        assert!(limited.is_finished());
    });
}

#[test]
#[should_panic(expected = "time is not frozen")]
fn a_clock_that_runs_is_not_advanced() {
    current_thread().block_on(advance_and_settle(ms(1)));
}
