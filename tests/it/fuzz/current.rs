//! Random programs on tokio's paused clock, each with tokio's timers and with ours: the same events at the same times.
//! Within one instant the order may differ.
//!
//! They would find tokio 6029, where `Delay` drifted because each tick that was slightly late postponed all that
//! followed, and 3721, where other behaviours than `Burst` made up for a long time asleep; and a bug that this crate had:
//! after a reset into the past, `is_elapsed` was false until a poll, or for ever.

use hairspring::Duration;

use super::run::{Round, Target};
use crate::common::Random;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Yield,
    Sleep(Duration),
    /// Until a time after the start, which may have passed, as in the next.
    Until(Duration),
    TimeoutUntil(Duration, Duration),
    Timeout(Duration, Duration),
    Select(Duration, Duration),
    /// Waits for a sleep for half its time, and resets it.
    Reset(Duration, Duration),
    /// Polls a sleep once, and moves it while time passes.
    Move([Duration; 3]),
    Interval {
        period: Duration,
        behavior: u32,
        works: Duration,
        /// How the interval is reset before one more tick, if at all.
        reset: u32,
    },
    /// Entries of a queue, one of which is reset.
    Queue([Duration; 3]),
    Send(usize),
    /// Counts the messages until a deadline.
    Receive(Duration),
    /// Spawns a task that sleeps, and aborts it after another time.
    Abort(Duration, Duration),
    /// Only where the order of tasks cannot show: which of those that are due together runs first, before time advances
    /// or after, is unspecified.
    Advance(Duration),
}

/// A task, its step, what that saw, and when it ended.
type Event = (usize, usize, u128, Duration);

pub(crate) struct Program {
    tasks: usize,
    finest: Duration,
    ops: Vec<(usize, Step)>,
}

impl Target for Program {
    type Op = (usize, Step);

    fn new(random: &mut Random) -> Round<Self> {
        let (tasks, finest) = (1 + random.index(5), random.pick(&[Duration::from_millis(1), Duration::from_micros(1)]));
        let (length, set_up) = (random.pick(&[4, 12, 40]), format!("{tasks} tasks, multiples of {finest:?}"));
        Round { target: Program { tasks, finest, ops: Vec::new() }, length, set_up }
    }

    fn generate(&mut self, random: &mut Random) -> Self::Op {
        let most = if random.one_in(3) { 5 } else { 12_000 / u64::try_from(self.finest.as_micros()).expect("small") };
        let most = if random.one_in(32) { most * 1_000 } else { most };
        let mut length = || self.finest * u32::try_from(random.below(most + 1)).expect("small");
        let (a, b, c) = (length(), length(), length());
        let step = match random.below(20) {
            0 => Step::Yield,
            1..=4 => Step::Sleep(a),
            5 => Step::Timeout(a, b),
            6 => Step::Select(a, b),
            7 | 8 => Step::Reset(a, b),
            9 => {
                let (behavior, reset) = (random.any() % 3, random.any() % 5);
                Step::Interval { period: a + self.finest, behavior, works: b, reset }
            }
            10 => Step::Queue([a, b, c]),
            11 | 12 => Step::Send(random.index(self.tasks)),
            13 | 14 => Step::Receive(a),
            15 => Step::Abort(a, b),
            16 => Step::Until(a),
            17 => Step::TimeoutUntil(a, b),
            18 => Step::Move([a, b, c]),
            _ if self.tasks == 1 => Step::Advance(Duration::from_millis(u64::try_from(a.as_millis()).expect("small"))),
            _ => Step::Yield,
        };
        (random.index(self.tasks), step)
    }

    fn apply(&mut self, op: &Self::Op) {
        self.ops.push(*op);
    }

    fn finish(&mut self) {
        let steps_of = |task| self.ops.iter().filter(move |op| op.0 == task).map(|op| op.1).collect();
        let plans: Vec<Vec<Step>> = (0..self.tasks).map(steps_of).collect();
        let [theirs, ours] = [with_tokio::run(plans.clone()), with_ours::run(plans)];
        let differ = theirs.iter().zip(&ours).find(|(one, other)| one != other);
        assert!(differ.is_none() && theirs.len() == ours.len(), "tokio's and ours: {differ:?}");
    }
}

macro_rules! world {
    ($name:ident, $time:path, $queue:path) => {
        mod $name {
            use std::sync::{Arc, Mutex};

            use futures::StreamExt as _;
            use tokio::sync::mpsc;
            use $queue as Queue;
            use $time as time;

            use super::{Event, Step};
            use crate::common::settle;

            pub(super) fn run(plans: Vec<Vec<Step>>) -> Vec<Event> {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
                let events = Arc::<Mutex<Vec<Event>>>::default();
                runtime.expect("the system has room for a runtime").block_on(async {
                    let start = time::Instant::now();
                    let (senders, receivers): (Vec<_>, Vec<_>) =
                        plans.iter().map(|_| mpsc::unbounded_channel()).unzip();
                    let tasks: Vec<_> = (0..)
                        .zip(plans.into_iter().zip(receivers))
                        .map(|(task, (steps, mut messages))| {
                            let (events, senders) = (events.clone(), senders.clone());
                            tokio::spawn(async move {
                                for (number, step) in (0..).zip(steps) {
                                    let seen = take(step, start, &senders, &mut messages).await;
                                    events.lock().unwrap().push((task, number, seen, start.elapsed()));
                                }
                            })
                        })
                        .collect();
                    for task in tasks {
                        task.await.unwrap();
                    }
                });
                let mut events = std::mem::take(&mut *events.lock().unwrap());
                events.sort_unstable();
                events
            }

            async fn take(
                step: Step,
                start: time::Instant,
                senders: &[mpsc::UnboundedSender<()>],
                messages: &mut mpsc::UnboundedReceiver<()>,
            ) -> u128 {
                match step {
                    Step::Yield => tokio::task::yield_now().await,
                    Step::Sleep(length) => time::sleep(length).await,
                    Step::Until(end) => time::sleep_until(start + end).await,
                    Step::TimeoutUntil(end, length) => {
                        return time::timeout_at(start + end, time::sleep(length)).await.is_ok().into();
                    }
                    Step::Timeout(limit, length) => {
                        return time::timeout(limit, time::sleep(length)).await.is_ok().into();
                    }
                    Step::Select(one, other) => tokio::select! {
                        biased;
                        () = time::sleep(one) => return 1,
                        () = time::sleep(other) => return 2,
                    },
                    Step::Reset(first, second) => {
                        tokio::pin! {
                            let sleep = time::sleep(first);
                        }
                        let ended = time::timeout(first / 2, sleep.as_mut()).await.is_ok();
                        sleep.as_mut().reset(time::Instant::now() + second);
                        sleep.await;
                        return ended.into();
                    }
                    Step::Move([first, second, third]) => {
                        tokio::pin! {
                            let sleep = time::sleep(first);
                        }
                        let mut seen = 0;
                        for end in [second, third] {
                            tokio::select! {
                                biased;
                                () = &mut sleep => {}
                                () = tokio::task::yield_now() => {}
                            }
                            sleep.as_mut().reset(start + end);
                            time::sleep(first).await;
                            settle().await;
                            seen = 2 * seen + u128::from(sleep.is_elapsed());
                        }
                        sleep.await;
                        return seen;
                    }
                    Step::Interval { period, behavior, works, reset } => {
                        use time::MissedTickBehavior::{Burst, Delay, Skip};
                        let mut interval = time::interval(period);
                        interval.set_missed_tick_behavior([Burst, Delay, Skip][behavior as usize]);
                        let first = interval.tick().await;
                        time::sleep(works).await;
                        interval.tick().await;
                        let third = interval.tick().await;
                        match reset {
                            0 => interval.reset(),
                            1 => interval.reset_immediately(),
                            2 => interval.reset_after(works),
                            3 => interval.reset_at(start + works),
                            _ => {}
                        }
                        let last = interval.tick().await;
                        // tokio's wakes the task if it is reset to a time that has come, before 1.53; ours always.
                        tokio::task::yield_now().await;
                        return (third - first).as_nanos() << 64 | (last - start).as_nanos();
                    }
                    Step::Queue([first, second, third]) => {
                        let mut queue = Queue::new();
                        let keys = [first, second].map(|after| queue.insert((), after));
                        time::sleep(first.min(second) / 2).await;
                        queue.reset(&keys[0], third);
                        // Which of two with the same deadline comes first is unspecified.
                        return queue.next().await.is_some().into();
                    }
                    Step::Send(to) => _ = senders[to].send(()),
                    Step::Receive(limit) => {
                        tokio::pin! {
                            let end = time::sleep(limit);
                        }
                        let mut count = 0;
                        loop {
                            tokio::select! {
                                biased;
                                () = &mut end => return count,
                                _ = messages.recv() => count += 1,
                            }
                        }
                    }
                    Step::Abort(length, after) => {
                        let sleeper = tokio::spawn(time::sleep(length));
                        time::sleep(after).await;
                        sleeper.abort();
                        _ = sleeper.await;
                    }
                    Step::Advance(length) => time::advance(length).await,
                }
                0
            }
        }
    };
}

world!(with_tokio, tokio::time, tokio_util::time::DelayQueue);
world!(with_ours, hairspring, hairspring::DelayQueue);
