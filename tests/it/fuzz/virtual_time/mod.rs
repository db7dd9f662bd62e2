//! Random programs in bubbles and on manual clocks: tasks that sleep, send messages, use sockets, compute and block, while
//! they hold and move the clock. After each step a task sees the time that a model of virtual time expects, to the
//! nanosecond; in a bubble on tokio's clock, to two milliseconds.
//!
//! An operation is a step of one task, and the programs run when a round ends. In a bubble that decides all choices,
//! a program leaves the same trace twice.

mod model;
mod task;

use std::sync::{Arc, mpsc};
use std::thread;

use hairspring::test_util::{Bubble, ManualClock};
use hairspring::{Duration, Timer};
use tokio::runtime::Builder;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use self::model::{Clock, Event, Model};
use self::task::{Step, Task, Work};
use super::run::{Round, Target};
use crate::common::{Random, panic_message_of};

/// A program that takes longer counts as hung. Programs are usually thousands of times shorter.
const HUNG: Duration = Duration::from_secs(150);

/// Where a program runs. The numbers are workers, and zero is a current-thread runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bubble(usize),
    /// A bubble on a runtime that the program builds.
    BubbleOn(usize),
    /// On a manual clock, which a task of a bubble moves whenever that has settled.
    Manual(usize),
}

#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // They have nothing to do with each other.
struct Setup {
    kind: Kind,
    tasks: usize,
    /// Whether the first task is the future in `block_on`.
    has_root: bool,
    /// Whether the tasks are in a `LocalSet`.
    is_local: bool,
    /// Whether tasks talk through sockets, or only through pipes.
    has_sockets: bool,
    /// Whether the seed decides everything in a bubble: no step needs a thread that might be early or late.
    is_repeatable: bool,
    /// Whether tokio's own sleeps are used, too.
    has_tokios: bool,
    seed: u64,
}

pub(crate) struct Program<const KIND: u8> {
    setup: Setup,
    ops: Vec<(usize, Step)>,
}

pub(crate) type InBubble = Program<0>;
pub(crate) type OnManualClock = Program<1>;

impl<const KIND: u8> Target for Program<KIND> {
    type Op = (usize, Step);

    fn new(random: &mut Random) -> Round<Self> {
        let workers = random.pick(&[1, 2, 4, 8]);
        let kind = match KIND {
            0 if random.one_in(4) => Kind::BubbleOn(random.pick(&[0, workers])),
            0 => Kind::Bubble(random.pick(&[0, workers, workers])),
            _ => Kind::Manual(random.pick(&[0, workers])),
        };
        let is_repeatable = kind == Kind::Bubble(0) && random.one_in(2);
        let setup = Setup {
            kind,
            tasks: 1 + random.index(5),
            has_root: random.one_in(2),
            is_local: random.one_in(4) && !is_repeatable,
            // On Windows the clock does not see them.
            has_sockets: !cfg!(windows) && !is_repeatable && random.one_in(2),
            is_repeatable,
            has_tokios: kind.is_tokios() && !is_repeatable && random.one_in(4),
            seed: random.next(),
        };
        let (length, set_up) = (random.pick(&[4, 12, 40]), format!("{setup:?}"));
        Round { target: Program { setup, ops: Vec::new() }, length, set_up }
    }

    fn generate(&mut self, random: &mut Random) -> Self::Op {
        (random.index(self.setup.tasks), self.setup.step(random))
    }

    fn apply(&mut self, op: &Self::Op) {
        self.ops.push(*op);
    }

    fn finish(&mut self) {
        let trace = self.run();
        if self.setup.is_repeatable {
            let again = self.run();
            let differ = trace.iter().zip(&again).find(|(one, other)| one != other);
            assert!(differ.is_none() && trace.len() == again.len(), "the same seed leaves two traces: {differ:?}");
        }
    }
}

impl<const KIND: u8> Program<KIND> {
    fn run(&self) -> Vec<Event> {
        let setup = self.setup;
        let steps_of = |task| self.ops.iter().filter(move |op| op.0 == task).map(|op| op.1).collect();
        let plans: Vec<Vec<Step>> = (0..setup.tasks).map(steps_of).collect();
        let (sends, models) = mpsc::channel();
        let thread = thread::spawn(move || setup.run(plans, &sends));
        let model = models.recv().ok();
        // The sender is dropped when the program ends.
        let hangs = matches!(models.recv_timeout(HUNG), Err(mpsc::RecvTimeoutError::Timeout));
        let trace = model.map(|model: Arc<Model>| model.trace());
        assert!(!hangs, "the program hangs after {trace:?}");
        if let Err(payload) = thread.join() {
            panic!("{}; {trace:?}", panic_message_of(&*payload));
        }
        trace.expect("it has begun").unwrap_or_else(|fault| panic!("{fault}"))
    }
}

impl Kind {
    fn workers(self) -> usize {
        match self {
            Kind::Bubble(workers) | Kind::BubbleOn(workers) | Kind::Manual(workers) => workers,
        }
    }

    /// Whether tokio's own sleeps follow the clock.
    fn is_tokios(self) -> bool {
        !matches!(self, Kind::Manual(_)) && self.workers() == 0
    }
}

impl Setup {
    fn step(&self, random: &mut Random) -> Step {
        let mut length = || if self.kind.is_tokios() { whole(length(random)) } else { length(random) };
        let (a, b, c) = (length(), length(), length());
        let (real, to) = (Duration::from_micros(random.below(400)), random.index(self.tasks));
        match random.below(if self.is_repeatable { 26 } else { 40 }) {
            0 => Step::Yield,
            1 | 30 => Step::Compute(real),
            // They wait several times, and each wait on tokio's clock is rounded.
            3 | 4 if !self.kind.is_tokios() => Step::Burst(a, random.next()),
            2..=4 => Step::Sleep(a),
            5 if self.has_tokios => Step::TokiosSleep(a),
            5 | 6 => Step::Reset([a, b, c]),
            7 | 8 => Step::Timeout { limit: a, sleep: b },
            9 => Step::Interval {
                first: a,
                period: b.max(if self.kind.is_tokios() { MILLISECOND } else { Duration::from_nanos(1) }),
                ticks: 1 + random.any() % 4,
                works: random.pick(&[Duration::ZERO, c]),
            },
            10..=12 => Step::Abort(a, b),
            13..=15 => Step::Send(to),
            16..=18 => Step::Receive(a),
            19 => Step::Hold,
            20 | 21 => Step::Settle,
            22 | 31 => Step::Advance(a),
            23 | 32 => Step::AdvanceAndSettle(a),
            24 => Step::Queue([a, b, c]),
            25 | 26 => Step::Talk(self.has_sockets && random.one_in(2), [a, b]),
            27 | 28 => Step::Outside(real, to),
            29 if matches!(self.kind, Kind::Manual(_)) => Step::Run(real, random.one_in(2)),
            33 | 34 => Step::HoldOutside(real),
            _ => {
                let may_block_in_place = self.kind.workers() > 0 && !self.is_local;
                Step::Block(if may_block_in_place && random.one_in(3) { Work::InPlace } else { Work::Tokios }, real, to)
            }
        }
    }

    fn run(self, plans: Vec<Vec<Step>>, models: &mpsc::Sender<Arc<Model>>) {
        let root = async || {
            if self.is_local {
                LocalSet::new().run_until(self.root(plans, models)).await;
            } else {
                self.root(plans, models).await;
            }
        };
        let bubble = Bubble::new().seed(self.seed);
        match (self.kind, self.kind.workers()) {
            (Kind::BubbleOn(_), workers) => {
                let mut builder =
                    if workers == 0 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
                builder.worker_threads(workers.max(1)).enable_time();
                if self.has_sockets {
                    builder.enable_io();
                }
                bubble.runtime(builder).run(root);
            }
            (_, 0) => bubble.run(root),
            (_, workers) => bubble.workers(workers).run(root),
        }
    }

    fn spawn(self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        if self.is_local { spawn_local(task) } else { tokio::spawn(task) }
    }

    async fn root(self, plans: Vec<Vec<Step>>, models: &mpsc::Sender<Arc<Model>>) {
        let clock = if let Kind::Manual(_) = self.kind {
            let clock = ManualClock::new();
            let timer = Timer::builder().clock(&clock).build().expect("good settings");
            Clock::Manual(clock, timer)
        } else {
            Clock::OfTheRuntime
        };
        let model = Arc::new(Model::new(clock, self.kind.is_tokios()));
        models.send(model.clone()).expect("the watchdog waits");
        let (control, runs) = (model.control.write().await, model.runs.write().await);
        let mover = self.spawn(model.clone().moves_its_clock());
        let mut tasks = Task::all(&model, self.tasks, self.is_repeatable).into_iter().zip(plans);
        let root = if self.has_root { tasks.next() } else { None };
        let spawned: Vec<_> = tasks.map(|(task, steps)| self.spawn(task.run(steps))).collect();
        drop((control, runs));
        if let Some((task, steps)) = root {
            task.run(steps).await;
        }
        for task in spawned {
            task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        }
        model.waits_for_threads().await;
        mover.abort();
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// tokio's clock moves by whole milliseconds, so that is what programs there are about.
fn whole(length: Duration) -> Duration {
    Duration::from_secs(length.as_secs()) + MILLISECOND * (length.subsec_nanos() % 1_000)
}

/// From nothing to hours. Some are often equal.
fn length(random: &mut Random) -> Duration {
    match random.below(10) {
        0 => Duration::from_nanos(random.below(2)),
        1 => Duration::from_nanos(random.up_to_bits(20)),
        2 | 3 => Duration::from_micros(random.pick(&[100, 1_000, 1_500, 2_000])),
        4 | 5 => Duration::from_millis(1 + random.below(5)),
        6 => Duration::from_nanos(random.up_to_bits(25)),
        7 => Duration::from_secs(1),
        _ => Duration::from_nanos(random.up_to_bits(42)),
    }
}
