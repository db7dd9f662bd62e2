//! Random programs of sleeps, timeouts, intervals, selects, channels, resets and cancellations leave the same trace
//! with `tokio::time` and with this crate, on a paused current-thread runtime.
//!
//! tokio's timers end in whole milliseconds of its clock, and this crate's to the nanosecond. Neither promises an order
//! for tasks that are woken at the same time. So there are two kinds of programs:
//! - All times are whole milliseconds, and tasks are independent. Each task must leave the same trace.
//! - Tasks send each other messages, and no two wait for the same millisecond. The whole traces must be the same. In
//!   half of these programs, each task begins a fraction of a millisecond earlier. There the traces must be the same
//!   after this crate's times are rounded up to whole milliseconds.
//!
//! `HAIRSPRING_ROUNDS=10000` runs more random programs, and `HAIRSPRING_SEED=7` only those with that seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Random, for_seeds, must_end, paused};

const MILLI: Duration = Duration::from_millis(1);
/// How many tasks a program has.
const TASKS: u32 = 6;
/// Tasks that must not wait for the same instant take steps of this many milliseconds.
const STRIDE: u32 = 8;

/// A step of a task. Times are in strides, from the present, or for `Until` and `Reset` from the task's origin.
#[derive(Debug, Clone)]
enum Step {
    Sleep(u32),
    Until(u32),
    /// A timeout around a sleep.
    Timeout(u32, u32),
    TimeoutUntil(u32, u32),
    Interval {
        period: u32,
        ticks: u32,
        /// How long the task works after each tick.
        works: u32,
        behavior: u64,
    },
    /// Waits for the first of three sleeps, and drops the others.
    Select([u32; 3]),
    /// Polls a sleep, moves it, then waits for it.
    Reset(u32, Vec<u32>),
    /// Spawns a task that sleeps, and aborts it.
    Abort {
        sleeps: u32,
        after: u32,
    },
    Send(usize),
    /// Waits for a message, for this long at most.
    Receive(u32),
}

#[derive(Debug, Clone)]
struct Plan {
    /// When the task begins, and the length of a stride.
    origin: Duration,
    stride: Duration,
    steps: Vec<Step>,
}

impl Plan {
    /// The first of this task's times at or after `now`, when another task's message arrived.
    fn next_own(&self, now: Duration) -> Duration {
        let strides =
            rounded_up(now).saturating_sub(rounded_up(self.origin)).as_nanos().div_ceil(self.stride.as_nanos());
        self.origin + self.stride * u32::try_from(strides).unwrap()
    }
}

/// tokio's time for a time of this crate's.
fn rounded_up(time: Duration) -> Duration {
    MILLI * u32::try_from(time.as_nanos().div_ceil(MILLI.as_nanos())).unwrap()
}

fn program(seed: u64, talks: bool) -> Vec<Plan> {
    let mut random = Random::new(seed);
    let random = &mut random;
    let plan = |task: u32| {
        let fraction = if talks && seed % 2 == 1 { random.duration(MILLI) } else { Duration::ZERO };
        let stride = if talks { STRIDE * MILLI } else { MILLI };
        let origin = (task * MILLI).saturating_sub(fraction);
        Plan { origin, stride, steps: (0..=random.below(12)).map(|_| step(random, talks)).collect() }
    };
    (0..TASKS).map(plan).collect()
}

fn step(random: &mut Random, talks: bool) -> Step {
    // Mostly short, sometimes zero or an hour.
    let mut time = || {
        let bits = random.pick(&[0, 3, 6, 10, 19]);
        if bits == 0 { 0 } else { u32::try_from(random.up_to_bits(bits)).unwrap() }
    };
    let (a, b, c) = (time(), time(), time());
    match random.below(if talks { 13 } else { 8 }) {
        0 => Step::Sleep(a),
        1 => Step::Until(a),
        2 => Step::Timeout(a, b),
        3 => Step::TimeoutUntil(a, b),
        4 => {
            let (ticks, behavior) = (random.pick(&[1, 2, 5]), random.below(3));
            Step::Interval { period: a.max(1), ticks, works: b, behavior }
        }
        5 => Step::Select([a, b, c]),
        6 => Step::Reset(a, vec![b, c]),
        7 => Step::Abort { sleeps: a, after: b },
        8 | 9 => Step::Receive(a),
        _ => Step::Send(usize::try_from(random.below(TASKS.into())).unwrap()),
    }
}

/// Something that happened at one step of a task.
#[derive(Debug, Clone, PartialEq)]
struct Event {
    at: Duration,
    task: usize,
    step: usize,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    Done,
    /// Whether a timeout's future was ready, or a task ended before it was aborted.
    WasReady(bool),
    /// A tick, and the time for which it was scheduled.
    Tick(Duration),
    /// The index of the branch that was first, or how often something happened.
    Number(usize),
    /// The sender of a message.
    Message(Option<usize>),
}

/// The program as each crate runs it.
macro_rules! runs_with {
    ($time:path as $name:ident) => {
        mod $name {
            use std::pin::pin;

            use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
            use tokio::task::yield_now;
            use $time as time;

            use super::*;
            use time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout, timeout_at};

            pub(super) fn run(program: &[Plan]) -> Vec<Event> {
                paused().block_on(async {
                    let (start, trace) = (Instant::now(), Arc::default());
                    let (senders, inboxes): (Vec<_>, Vec<_>) = program.iter().map(|_| unbounded_channel()).unzip();
                    let spawn = |(name, (plan, inbox)): (usize, (&Plan, _))| {
                        let (trace, senders) = (Arc::clone(&trace), senders.clone());
                        tokio::spawn(Task { name, start, trace, senders, inbox, step: 0 }.run(plan.clone()))
                    };
                    for task in program.iter().zip(inboxes).enumerate().map(spawn).collect::<Vec<_>>() {
                        task.await.unwrap();
                    }
                    let trace = trace.lock().unwrap().clone();
                    trace
                })
            }

            struct Task {
                name: usize,
                start: Instant,
                trace: Arc<Mutex<Vec<Event>>>,
                senders: Vec<UnboundedSender<usize>>,
                inbox: UnboundedReceiver<usize>,
                step: usize,
            }

            impl Task {
                fn note(&self, what: What) {
                    let event = Event { at: self.start.elapsed(), task: self.name, step: self.step, what };
                    self.trace.lock().unwrap().push(event);
                }

                async fn run(mut self, plan: Plan) {
                    sleep_until(self.start + plan.origin).await;
                    for step in &plan.steps {
                        self.take(step, &plan).await;
                        self.note(What::Done);
                        self.step += 1;
                    }
                }

                async fn take(&mut self, step: &Step, plan: &Plan) {
                    let long = |strides: &u32| *strides * plan.stride;
                    let until = |strides: &u32| self.start + plan.origin + long(strides);
                    match step {
                        Step::Sleep(time) => sleep(long(time)).await,
                        Step::Until(time) => sleep_until(until(time)).await,
                        Step::Timeout(limit, time) => {
                            let done = timeout(long(limit), sleep(long(time))).await;
                            self.note(What::WasReady(done.is_ok()));
                        }
                        Step::TimeoutUntil(limit, time) => {
                            let done = timeout_at(until(limit), sleep(long(time))).await;
                            self.note(What::WasReady(done.is_ok()));
                        }
                        Step::Interval { period, ticks, works, behavior } => {
                            use MissedTickBehavior::{Burst, Delay, Skip};
                            let mut interval = interval(long(period));
                            interval.set_missed_tick_behavior(match behavior {
                                0 => Burst,
                                1 => Delay,
                                _ => Skip,
                            });
                            for _ in 0..*ticks {
                                let planned = interval.tick().await;
                                self.note(What::Tick(planned - self.start));
                                sleep(long(works)).await;
                            }
                        }
                        Step::Select([a, b, c]) => {
                            let first = tokio::select! {
                                biased;
                                () = sleep(long(a)) => 0,
                                () = sleep(long(b)) => 1,
                                () = sleep(long(c)) => 2,
                            };
                            self.note(What::Number(first));
                        }
                        Step::Reset(time, others) => {
                            let mut moved = pin!(sleep(long(time)));
                            for other in others {
                                tokio::select! {
                                    biased;
                                    () = &mut moved => {}
                                    () = yield_now() => {}
                                }
                                moved.as_mut().reset(until(other));
                            }
                            moved.await;
                        }
                        Step::Abort { sleeps, after } => {
                            let sleeper = tokio::spawn(sleep(long(sleeps)));
                            sleep(long(after)).await;
                            sleeper.abort();
                            self.note(What::WasReady(sleeper.await.is_ok()));
                        }
                        Step::Send(to) => {
                            let _ = self.senders[*to].send(self.name);
                        }
                        Step::Receive(limit) => {
                            let message = timeout(long(limit), self.inbox.recv()).await;
                            self.note(What::Message(message.ok().flatten()));
                            sleep_until(self.start + plan.next_own(self.start.elapsed())).await;
                        }
                    }
                }
            }
        }
    };
}

runs_with!(tokio::time as with_tokio);
runs_with!(hairspring as with_hairspring);

/// The comparable part of a trace.
fn compared(talks: bool, mut trace: Vec<Event>) -> Vec<Event> {
    if !talks {
        trace.sort_by_key(|event| event.task);
    }
    for event in &mut trace {
        event.at = rounded_up(event.at);
        if let What::Tick(planned) = &mut event.what {
            *planned = rounded_up(*planned);
        }
    }
    trace
}

/// Fails at the first difference between two traces.
fn assert_same(program: &[Plan], expected: &[Event], trace: &[Event]) {
    let parts = (0..expected.len().max(trace.len())).find(|&at| expected.get(at) != trace.get(at));
    if let Some(at) = parts {
        let (expected, found) = (expected.get(at), trace.get(at));
        let plan = expected.or(found).map(|event| &program[event.task]);
        panic!("event {at}:\n tokio's {expected:?}\n ours    {found:?}\n {plan:?}");
    }
}

fn traces_agree(talks: bool) {
    must_end(move || {
        let mut events = 0;
        for_seeds(100, |seed| {
            let program = program(seed, talks);
            let (tokios, ours) = (with_tokio::run(&program), with_hairspring::run(&program));
            if !talks || seed % 2 == 0 {
                assert!(ours.iter().all(|event| event.at == rounded_up(event.at)), "seed {seed}");
            }
            events += ours.len();
            let (tokios, ours) = (compared(talks, tokios), compared(talks, ours));
            assert_same(&program, &tokios, &ours);
            crate::common::step();
        });
        assert!(std::env::var_os("HAIRSPRING_SEED").is_some() || events > 1_000, "{events} events");
    });
}

#[test]
fn independent_tasks_leave_the_same_traces() {
    traces_agree(false);
}

#[test]
fn tasks_with_messages_leave_the_same_trace() {
    traces_agree(true);
}
