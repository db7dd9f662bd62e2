//! Random programs on a paused clock: every step of every task happens at the instant at which it must, to the nanosecond,
//! neither early nor late.
//!
//! Each task knows by a simple model what time it is for it. A nap adds to that. A message takes no time: it carries the
//! time at which it was sent, and for the receiver it is then the later of both. The clock has to agree after each step.
//!
//! `HAIRSPRING_ROUNDS=10000` runs more programs on each kind of runtime than the default, `HAIRSPRING_SEED=7` only those
//! with that seed.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{
    HOUR, Random, current_thread, ms, multi_thread, must_end, panic_message, paused, step, threads_are_seen,
};
use futures::StreamExt;
use hairspring::test_util::{self, Bubble};
use hairspring::{DelayQueue, Duration, Instant, interval, pause, sleep, sleep_until, timeout, timeout_at};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Barrier, Notify, mpsc, oneshot, watch};
use tokio::task::{JoinSet, LocalSet, yield_now};

/// How many programs run on each kind of runtime.
const ROUNDS: u64 = 30;

/// A kind of runtime, and where on it a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A current-thread runtime that is paused from the start.
    StartPaused,
    /// A current-thread runtime that is paused then.
    PausedLater,
    Workers(usize),
    /// All tasks are in a `LocalSet`.
    Local,
    /// The same on a multi-thread runtime.
    LocalOfWorkers,
    Bubble,
    BubbleOfWorkers,
}

const KINDS: [Kind; 9] = [
    Kind::StartPaused,
    Kind::PausedLater,
    Kind::Workers(1),
    Kind::Workers(2),
    Kind::Workers(8),
    Kind::Local,
    Kind::LocalOfWorkers,
    Kind::Bubble,
    Kind::BubbleOfWorkers,
];

impl Kind {
    /// The runtime of a program, if it is not in a bubble.
    fn make(self) -> Runtime {
        match self {
            Kind::Workers(workers) => multi_thread(workers),
            Kind::LocalOfWorkers => multi_thread(2),
            Kind::StartPaused | Kind::Local => paused(),
            Kind::PausedLater | Kind::Bubble | Kind::BubbleOfWorkers => current_thread(),
        }
    }

    fn is_bubble(self) -> bool {
        matches!(self, Kind::Bubble | Kind::BubbleOfWorkers)
    }

    fn is_local(self) -> bool {
        matches!(self, Kind::Local | Kind::LocalOfWorkers)
    }

    /// Whether it has the clock of tokio's timers.
    fn has_tokios_clock(self) -> bool {
        matches!(self, Kind::StartPaused | Kind::PausedLater | Kind::Local | Kind::Bubble)
    }

    /// Whether plain blocking work and files hold its clock.
    fn sees_blocking_work(self) -> bool {
        self.is_bubble()
    }

    /// Whether the clock sees the tasks of a program of this kind.
    fn is_seen(self) -> bool {
        self != Kind::LocalOfWorkers || threads_are_seen()
    }

    /// Whether the clock sees the future of `block_on`.
    fn sees_the_root(self) -> bool {
        !matches!(self, Kind::Workers(_)) || threads_are_seen()
    }

    /// Runs the program of a seed on a runtime of this kind, which must be paused if `pauses` is not set.
    fn run_on(self, runtime: &Runtime, pauses: bool, seed: u64) -> Result<(), String> {
        let run = async {
            if pauses && !self.starts_paused() {
                pause();
            }
            run(self, seed).await
        };
        if self.is_local() { LocalSet::new().block_on(runtime, run) } else { runtime.block_on(run) }
    }

    fn starts_paused(self) -> bool {
        matches!(self, Kind::StartPaused | Kind::Local)
    }

    /// Runs the program of a seed on a runtime of its own.
    fn run(self, seed: u64) -> Result<(), String> {
        match self {
            Kind::Bubble => in_bubble(Bubble::new().seed(seed), self, seed),
            Kind::BubbleOfWorkers => in_bubble(Bubble::new().seed(seed).workers(2), self, seed),
            _ => self.run_on(&self.make(), true, seed),
        }
    }
}

/// A bubble fails if it has left tasks, as a program does that ends at its first fault.
fn in_bubble(bubble: Bubble, kind: Kind, seed: u64) -> Result<(), String> {
    let fault = Arc::<Mutex<Option<String>>>::default();
    let sets = fault.clone();
    let run = || async move {
        let ended = run(kind, seed).await;
        *sets.lock().unwrap() = ended.err();
    };
    let ended = catch_unwind(AssertUnwindSafe(|| bubble.run(run)));
    let failed = fault.lock().unwrap().take();
    failed.map_or(ended.map_err(|_| "the bubble failed".to_owned()), Err)
}

/// The first fault of a program.
#[derive(Clone)]
struct Faults(mpsc::UnboundedSender<String>);

/// Runs a program until its end or its first fault.
async fn run(kind: Kind, seed: u64) -> Result<(), String> {
    let (sender, mut faults) = mpsc::unbounded_channel();
    let mut random = Random::new(seed);
    let is_task = random.below(2) == 0 || !kind.sees_the_root();
    let budget = 10 + random.below(40);
    let start = Instant::now();
    let task = Task { kind, random, start, at: Duration::ZERO, faults: Faults(sender), path: String::new() };
    let spawner = task.clone_for("0", 0);
    let all = async move {
        let mut task = task;
        task.act(budget, 3).await;
    };
    let ended = async {
        if is_task {
            spawner.spawn(all).await;
        } else {
            all.await;
        }
    };
    tokio::select! {
        biased;
        Some(fault) = faults.recv() => Err(fault),
        () = ended => faults.try_recv().map_or(Ok(()), Err),
    }
}

/// A task of a program: what time it is for it, and what it does next.
struct Task {
    kind: Kind,
    random: Random,
    start: Instant,
    /// What time it is, counted from the start.
    at: Duration,
    faults: Faults,
    /// Its parents' numbers and its own.
    path: String,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Task {
    /// A task that begins now, and does other things than those with other numbers.
    fn clone_for(&self, name: impl fmt::Display, number: u64) -> Task {
        let random = Random::new(self.random.clone().next() ^ (number << 32));
        let path = format!("{}/{name}", self.path);
        Task { kind: self.kind, random, start: self.start, at: self.at, faults: self.faults.clone(), path }
    }

    /// Runs code in a task of the runtime, and waits for its result.
    fn spawn<T: Send + 'static>(&self, code: impl Future<Output = T> + Send + 'static) -> Boxed<T> {
        let (sender, result) = oneshot::channel();
        let code = async move {
            let _ = sender.send(code.await);
        };
        if self.kind.is_local() {
            drop(tokio::task::spawn_local(code));
        } else {
            drop(tokio::spawn(code));
        }
        // A task that has found a fault never ends.
        Box::pin(async move {
            match result.await {
                Ok(result) => result,
                Err(_) => std::future::pending().await,
            }
        })
    }

    /// Children that each do something. It is then the latest of the times at which they end.
    async fn join(&mut self, children: Vec<Boxed<Duration>>) {
        for child in children {
            self.at = self.at.max(child.await);
        }
        self.check("its children have ended").await;
    }

    /// Starts a child.
    fn child<F: Future<Output = Task> + Send + 'static>(
        &mut self,
        name: &str,
        code: impl FnOnce(Task) -> F,
    ) -> Boxed<Duration> {
        let number = self.random.next();
        let child = self.clone_for(name, number);
        let code = code(child);
        self.spawn(async move { code.await.at })
    }

    /// Reports a fault, and goes no further.
    async fn fail(&self, what: impl fmt::Display + Send) -> ! {
        let _ = self.faults.0.send(format!("task {}: {what}", self.path));
        std::future::pending().await
    }

    async fn fail_unless(&self, holds: bool, what: impl fmt::Display + Send) {
        if !holds {
            self.fail(what).await;
        }
    }

    /// Fails unless the clock shows what it must.
    async fn check(&self, after: impl fmt::Display + Send) {
        let shown = self.start.elapsed();
        if shown != self.at {
            let (what, by) = if shown < self.at {
                ("early", self.at.saturating_sub(shown))
            } else {
                ("late", shown.saturating_sub(self.at))
            };
            self.fail(format!("{by:?} {what} at {:?}, after {after}", self.at)).await;
        }
        step();
    }

    /// What was sent at `sent` has come.
    async fn received(&mut self, sent: Duration, how: &str) {
        self.at = self.at.max(sent);
        self.check(how).await;
    }

    /// From nothing to hours.
    fn length(&mut self) -> Duration {
        match self.random.below(12) {
            0 => Duration::ZERO,
            1 => Duration::from_nanos(1),
            2 | 3 => self.random.duration(Duration::from_micros(1)),
            4 | 5 => self.random.duration(ms(1)),
            6 => ms(1 + self.random.below(5)),
            7 => self.random.duration(ms(20)),
            8 => Duration::from_secs(1),
            9 => HOUR,
            10 => self.random.duration(24 * HOUR),
            _ => Duration::from_nanos(self.random.up_to_bits(42)),
        }
    }

    async fn nap(&mut self) {
        let length = self.length();
        if self.random.below(2) == 0 {
            sleep(length).await;
        } else {
            sleep_until(self.start + self.at + length).await;
        }
        self.at += length;
        self.check(format!("a sleep of {length:?}")).await;
    }

    async fn maybe_nap(&mut self) {
        match self.random.below(4) {
            0 => yield_now().await,
            1 | 2 => self.nap().await,
            _ => {}
        }
    }

    /// Does things one after the other. Each thing, those of its children included, takes from the budget.
    fn act(&mut self, budget: u64, depth: u32) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let mut left = budget;
            while left > 0 {
                left -= 1;
                match self.random.below(24) {
                    0..4 => self.nap().await,
                    4 => self.limits().await,
                    5 => self.ticks().await,
                    6 => self.queues().await,
                    7 => self.races().await,
                    8 => self.moves_a_sleep().await,
                    9 => self.aborts().await,
                    10 => self.waits_for_tokio().await,
                    11 => self.blocks().await,
                    12 => self.talks_through_a_channel().await,
                    13 => self.talks_in_turn().await,
                    14 => self.notifies().await,
                    15 => self.watches().await,
                    16 => self.meets().await,
                    17 => self.passes_round().await,
                    18 => self.talks_through_a_pipe().await,
                    19 => self.talks_through_sockets().await,
                    20 => self.asks_a_server().await,
                    21 => self.joins_as_they_end().await,
                    _ if depth > 0 && left > 0 => {
                        let share = 1 + self.random.below(left);
                        left -= share;
                        let children = 1 + self.random.below(4);
                        self.has_children(children, share / children + 1, depth - 1).await;
                    }
                    _ => self.maybe_nap().await,
                }
            }
        })
    }

    async fn has_children(&mut self, number: u64, budget: u64, depth: u32) {
        let children = (0..number).map(|n| {
            self.child(&n.to_string(), move |mut child| async move {
                child.act(budget, depth).await;
                child
            })
        });
        let children = children.collect();
        self.maybe_nap().await;
        self.join(children).await;
    }

    /// A timeout around a sleep, or around what never comes.
    async fn limits(&mut self) {
        let (limit, nap) = (self.length(), self.length());
        let ends = match self.random.below(3) {
            0 => timeout(limit, sleep(nap)).await.is_ok(),
            1 => timeout_at(self.start + self.at + limit, sleep(nap)).await.is_ok(),
            _ => timeout(limit, timeout(nap, std::future::pending::<()>())).await.is_ok(),
        };
        // If both are due, what is limited goes first.
        self.at += limit.min(nap);
        self.check(format!("a timeout of {limit:?} around a sleep of {nap:?}")).await;
        self.fail_unless(ends == (nap <= limit), format!("a sleep of {nap:?} within {limit:?}: {ends}")).await;
    }

    async fn ticks(&mut self) {
        let (period, first) = (self.length().max(Duration::from_nanos(1)), self.at);
        let mut every = interval(period);
        for n in 0..=u32::try_from(self.random.below(8)).unwrap() {
            let due = first + n * period;
            let tick = every.tick().await;
            self.fail_unless(tick == self.start + due, format!("tick {n} says {:?}", tick - self.start)).await;
            self.received(due, "a tick").await;
            if self.random.below(3) == 0 {
                self.nap().await;
            }
        }
    }

    async fn queues(&mut self) {
        let (mut queue, mut due) = (DelayQueue::new(), Vec::new());
        for n in 0..=self.random.below(6) {
            let length = self.length();
            let key = queue.insert(n, length);
            match self.random.below(5) {
                0 => drop(queue.remove(&key)),
                1 => {
                    let length = self.length();
                    queue.reset(&key, length);
                    due.push(self.at + length);
                }
                _ => due.push(self.at + length),
            }
            if self.random.below(8) == 0 {
                self.nap().await;
            }
        }
        due.sort_unstable();
        for due in due {
            let Some(expired) = queue.next().await else { self.fail("a queue has ended").await };
            // One that has been added late may come after others that are due later.
            let said = expired.deadline() - self.start;
            self.fail_unless(said <= self.at.max(due), format!("an entry due at {said:?} has come early")).await;
            self.received(due, "an entry of a queue").await;
        }
        self.fail_unless(queue.next().await.is_none(), "a queue has more than it was given").await;
    }

    /// The first of several sleeps.
    async fn races(&mut self) {
        let lengths: [Duration; 3] = std::array::from_fn(|_| self.length());
        let [one, two, three] = lengths.map(sleep);
        tokio::select! {
            () = one => {}
            () = two => {}
            () = three => {}
        }
        self.at += *lengths.iter().min().unwrap();
        self.check(format!("the first of sleeps of {lengths:?}")).await;
    }

    /// A sleep that is set to another time before it ends.
    async fn moves_a_sleep(&mut self) {
        let (first, second) = (self.length() + HOUR, self.length());
        let mut moved = sleep(first);
        if futures::poll!(&mut moved).is_ready() {
            self.fail("a sleep of an hour was ready at once").await;
        }
        self.maybe_nap_below(HOUR).await;
        moved.reset_at(self.start + self.at + second);
        moved.await;
        self.at += second;
        self.check("a sleep that was set to another time").await;
    }

    async fn maybe_nap_below(&mut self, limit: Duration) {
        if self.random.below(2) == 0 {
            let length = self.random.duration(limit);
            sleep(length).await;
            self.at += length;
            self.check("a nap").await;
        }
    }

    /// A task that would have slept for years.
    async fn aborts(&mut self) {
        let sleeps = 1_000 * HOUR + self.length();
        let mut tasks = JoinSet::new();
        for _ in 0..=self.random.below(3) {
            if self.kind.is_local() {
                tasks.spawn_local(sleep(sleeps));
            } else {
                tasks.spawn(sleep(sleeps));
            }
        }
        self.maybe_nap_below(HOUR).await;
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        self.check("tasks were aborted").await;
    }

    /// Tokio's timers end in whole milliseconds of its clock, and less than three late.
    async fn waits_for_tokio(&mut self) {
        if !self.kind.has_tokios_clock() {
            return self.nap().await;
        }
        let length = self.length();
        tokio::time::sleep(length).await;
        let (due, shown) = (self.at + length, self.start.elapsed());
        let what = format!("a sleep of tokio's, due at {due:?}, ends at {shown:?}");
        self.fail_unless((due..=due + ms(3)).contains(&shown), what).await;
        self.at = shown;
    }

    /// Real time, in which none may pass here.
    async fn blocks(&mut self) {
        let micros = Duration::from_micros(self.random.below(1_500));
        match self.random.below(8) {
            0 if cfg!(unix) => {
                let hold = test_util::hold();
                let status = tokio::process::Command::new("true").status().await;
                self.check("another process ended while the clock was held").await;
                drop(hold);
                self.fail_unless(status.is_ok_and(|status| status.success()), "another process has failed").await;
            }
            1 => {
                let (hold, (sender, answer)) = (test_util::hold(), oneshot::channel());
                thread::spawn(move || {
                    thread::sleep(micros);
                    sender.send(()).unwrap();
                });
                answer.await.unwrap();
                self.check("a thread has answered while the clock was held").await;
                drop(hold);
            }
            2 => {
                thread::sleep(micros);
                self.check("it has blocked its thread").await;
            }
            3 | 4 if self.kind.sees_blocking_work() => {
                tokio::task::spawn_blocking(move || thread::sleep(micros)).await.unwrap();
                self.check("blocking work").await;
            }
            5 if self.kind.sees_blocking_work() => {
                let read = tokio::fs::read(file!()).await;
                self.check("a file was read").await;
                self.fail_unless(read.is_ok_and(|read| read.len() > 1_000), "the file is not there").await;
            }
            6 => {
                let _hold = test_util::hold();
                tokio::task::spawn_blocking(move || thread::sleep(micros)).await.unwrap();
                self.check("blocking work while the clock was held").await;
            }
            _ => {
                test_util::spawn_blocking(move || thread::sleep(micros)).await.unwrap();
                self.check("blocking work that holds the clock").await;
            }
        }
    }

    /// One sends at times of its own. The other receives, with a limit or without.
    async fn talks_through_a_channel(&mut self) {
        let messages = 1 + self.random.below(8);
        let (sender, mut receiver) = mpsc::unbounded_channel::<Duration>();
        let sends = self.child("sends", move |mut task| async move {
            for _ in 0..messages {
                task.maybe_nap().await;
                sender.send(task.at).unwrap();
            }
            task
        });
        let other = self.child("receives", move |mut task| async move {
            // Nothing was sent before this, or it would have come.
            let mut not_before = Duration::ZERO;
            for _ in 0..messages {
                task.maybe_nap().await;
                let sent = loop {
                    let limit = task.length();
                    if task.random.below(2) == 0 {
                        break receiver.recv().await;
                    }
                    if let Ok(received) = timeout(limit, receiver.recv()).await {
                        if let Some(sent) = received {
                            let what = format!("a message of {sent:?} came in time for {:?}", task.at + limit);
                            task.fail_unless(sent <= task.at + limit, what).await;
                        }
                        break received;
                    }
                    task.at += limit;
                    task.check(format!("a message did not come within {limit:?}")).await;
                    not_before = task.at;
                };
                let Some(sent) = sent else { return std::future::pending().await };
                let what = format!("a message of {sent:?} had not come at {not_before:?}");
                task.fail_unless(sent >= not_before, what).await;
                task.received(sent, "a message").await;
                not_before = Duration::ZERO;
            }
            task
        });
        self.join(vec![sends, other]).await;
    }

    /// Two tasks that wait for each other in turn.
    async fn talks_in_turn(&mut self) {
        let turns = 1 + self.random.below(6);
        let (mut firsts, mut seconds) = (VecDeque::new(), VecDeque::new());
        for _ in 0..turns {
            let ((to_second, from_first), (to_first, from_second)) = (oneshot::channel(), oneshot::channel());
            firsts.push_back((to_second, from_second));
            seconds.push_back((from_first, to_first));
        }
        let first = self.child("first", move |mut task| async move {
            for (to_second, from_second) in firsts {
                task.maybe_nap().await;
                let _ = to_second.send(task.at);
                let Ok(sent) = from_second.await else { return std::future::pending().await };
                task.received(sent, "an answer").await;
            }
            task
        });
        let second = self.child("second", move |mut task| async move {
            for (from_first, to_first) in seconds {
                let Ok(sent) = from_first.await else { return std::future::pending().await };
                task.received(sent, "a question").await;
                task.maybe_nap().await;
                let _ = to_first.send(task.at);
            }
            task
        });
        self.join(vec![first, second]).await;
    }

    async fn notifies(&mut self) {
        let (notify, at) = (Arc::new(Notify::new()), Arc::<Mutex<Option<Duration>>>::default());
        let (notified, notified_at) = (notify.clone(), at.clone());
        let one = self.child("notifies", move |mut task| async move {
            task.maybe_nap().await;
            *at.lock().unwrap() = Some(task.at);
            notify.notify_one();
            task
        });
        let other = self.child("waits", move |mut task| async move {
            task.maybe_nap().await;
            notified.notified().await;
            let at = *notified_at.lock().unwrap();
            task.received(at.unwrap(), "a notification").await;
            task
        });
        self.join(vec![one, other]).await;
    }

    /// Several wait for versions of one value.
    async fn watches(&mut self) {
        let (sender, receiver) = watch::channel(Vec::new());
        let versions = 1 + usize::try_from(self.random.below(5)).unwrap();
        let mut tasks = vec![self.child("sends", move |mut task| async move {
            for _ in 0..versions {
                task.maybe_nap().await;
                sender.send_modify(|times| times.push(task.at));
            }
            task
        })];
        for _ in 0..=self.random.below(3) {
            let mut receiver = receiver.clone();
            tasks.push(self.child("watches", move |mut task| async move {
                for version in 0..versions {
                    task.maybe_nap().await;
                    let changed = receiver.wait_for(|times| times.len() > version).await.map(|times| times[version]);
                    let Ok(sent) = changed else { return std::future::pending().await };
                    task.received(sent, "a change").await;
                }
                task
            }));
        }
        drop(receiver);
        self.join(tasks).await;
    }

    /// All go on when the last has come.
    async fn meets(&mut self) {
        let number = 2 + usize::try_from(self.random.below(4)).unwrap();
        let (barrier, last) = (Arc::new(Barrier::new(number)), Arc::<Mutex<Duration>>::default());
        let tasks = (0..number).map(|_| {
            let (barrier, last) = (barrier.clone(), last.clone());
            self.child("meets", move |mut task| async move {
                task.maybe_nap().await;
                {
                    let mut last = last.lock().unwrap();
                    *last = task.at.max(*last);
                }
                barrier.wait().await;
                let last = *last.lock().unwrap();
                task.received(last, "all have met").await;
                task.maybe_nap().await;
                task
            })
        });
        let tasks = tasks.collect();
        self.join(tasks).await;
    }

    /// Tasks in a ring. Each sends to the next, and receives from the one before.
    async fn passes_round(&mut self) {
        let (number, rounds) = (2 + self.random.below(5), 1 + self.random.below(4));
        let (mut senders, mut receivers): (VecDeque<_>, Vec<_>) =
            (0..number).map(|_| mpsc::channel::<Duration>(usize::try_from(rounds).unwrap())).unzip();
        senders.rotate_left(1);
        let tasks = senders.into_iter().zip(receivers.drain(..)).map(|(sender, mut receiver)| {
            self.child("passes", move |mut task| async move {
                for _ in 0..rounds {
                    task.maybe_nap().await;
                    let _ = sender.send(task.at).await;
                    let Some(sent) = receiver.recv().await else { return std::future::pending().await };
                    task.received(sent, "a message of the ring").await;
                }
                task
            })
        });
        let tasks = tasks.collect();
        self.join(tasks).await;
    }

    async fn talks_through_a_pipe(&mut self) {
        let (near, far) = tokio::io::duplex(64);
        self.talks_through(near, far).await;
    }

    async fn talks_through_sockets(&mut self) {
        // On Windows the clock does not see them.
        if cfg!(windows) {
            return self.talks_through_a_pipe().await;
        }
        #[cfg(unix)]
        if self.random.below(2) == 0 {
            let (near, far) = tokio::net::UnixStream::pair().unwrap();
            return self.talks_through(near, far).await;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect = TcpStream::connect(listener.local_addr().unwrap());
        let (near, (far, _)) = tokio::try_join!(connect, listener.accept()).unwrap();
        self.check("a connection").await;
        // Without this the system waits for some real time before it sends, which nothing shows.
        for end in [&near, &far] {
            end.set_nodelay(true).unwrap();
        }
        self.talks_through(near, far).await;
    }

    /// Both send words at times of their own, and receive as many.
    async fn talks_through(
        &mut self,
        near: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        far: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) {
        let words = 1 + self.random.below(6);
        let both = [
            self.child("near", move |task| task.exchanges(near, words)),
            self.child("far", move |task| task.exchanges(far, words)),
        ];
        self.join(both.into()).await;
    }

    /// Each word is the time at which it was sent.
    async fn exchanges(mut self, mut socket: impl AsyncRead + AsyncWrite + Unpin, words: u64) -> Task {
        for _ in 0..words {
            self.maybe_nap().await;
            let sent = u64::try_from(self.at.as_nanos()).unwrap();
            let mut word = [0; 8];
            let exchanged = async {
                socket.write_all(&sent.to_le_bytes()).await?;
                socket.read_exact(&mut word).await
            };
            if exchanged.await.is_err() {
                return std::future::pending().await;
            }
            self.received(Duration::from_nanos(u64::from_le_bytes(word)), "a word through a socket").await;
        }
        // The other may still send.
        let _ = socket.shutdown().await;
        self
    }

    /// Clients that each ask some questions, and a server that takes some time for each answer.
    async fn asks_a_server(&mut self) {
        let (requests, mut asked) = mpsc::unbounded_channel::<(Duration, Duration, oneshot::Sender<Duration>)>();
        let mut tasks = vec![self.child("serves", move |task| async move {
            let mut number = 0;
            while let Some((sent, takes, answer)) = asked.recv().await {
                number += 1;
                let mut worker = task.clone_for("answers", number);
                worker.at = sent;
                let worker = async move {
                    worker.check("a request").await;
                    sleep(takes).await;
                    worker.at += takes;
                    worker.check("the work on a request").await;
                    let _ = answer.send(worker.at);
                };
                drop(task.spawn(worker));
            }
            task
        })];
        for _ in 0..=self.random.below(4) {
            let requests = requests.clone();
            tasks.push(self.child("asks", move |mut task| async move {
                for _ in 0..=task.random.below(4) {
                    task.maybe_nap().await;
                    let (answer, answered) = oneshot::channel();
                    let takes = task.length();
                    let _ = requests.send((task.at, takes, answer));
                    let expected = task.at + takes;
                    let Ok(at) = answered.await else { return std::future::pending().await };
                    task.fail_unless(at == expected, format!("an answer of {at:?}, not {expected:?}")).await;
                    task.received(at, "an answer").await;
                }
                task
            }));
        }
        drop(requests);
        self.join(tasks).await;
    }

    /// A `JoinSet` whose tasks end in the order of their sleeps.
    async fn joins_as_they_end(&mut self) {
        let (mut set, mut ends) = (JoinSet::new(), Vec::new());
        for _ in 0..=self.random.below(6) {
            let length = self.length();
            ends.push(self.at + length);
            if self.kind.is_local() {
                set.spawn_local(sleep(length));
            } else {
                set.spawn(sleep(length));
            }
        }
        ends.sort_unstable();
        for end in ends {
            set.join_next().await.unwrap().unwrap();
            self.received(end, "a task of a set has ended").await;
        }
    }
}

/// The seeds of the programs.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a whole number"));
    number("HAIRSPRING_SEED").map_or(0..number("HAIRSPRING_ROUNDS").unwrap_or(ROUNDS), |at| at..at + 1)
}

/// Fails with the seeds of all programs that fail, and with what they say. A program that hangs is the last.
fn never_fails(name: &str, run: impl Fn(u64) -> Result<(), String> + Send + Sync + 'static) {
    let run = Arc::new(run);
    let mut failures = Vec::new();
    for seed in seeds() {
        let (run, failure) = (run.clone(), Arc::<Mutex<Option<String>>>::default());
        let fails = failure.clone();
        // Says so if it hangs.
        println!("{name}: HAIRSPRING_SEED={seed}");
        must_end(move || *fails.lock().unwrap() = run(seed).err());
        failures.extend(failure.lock().unwrap().take().map(|what| format!("HAIRSPRING_SEED={seed}: {what}")));
    }
    let (failed, of) = (failures.len(), seeds().count());
    failures.truncate(10);
    assert!(failures.is_empty(), "{name}: {failed} of {of} programs fail: {failures:#?}");
}

fn on(kind: Kind) {
    if kind.is_seen() {
        never_fails(&format!("{kind:?}"), move |seed| kind.run(seed));
    }
}

#[test]
fn on_a_current_thread_runtime() {
    on(Kind::StartPaused);
}

#[test]
fn on_a_current_thread_runtime_that_is_paused_later() {
    on(Kind::PausedLater);
}

#[test]
fn on_one_worker() {
    on(Kind::Workers(1));
}

#[test]
fn on_two_workers() {
    on(Kind::Workers(2));
}

#[test]
fn on_eight_workers() {
    on(Kind::Workers(8));
}

#[test]
fn in_a_local_set() {
    on(Kind::Local);
}

#[test]
fn in_a_local_set_on_two_workers() {
    on(Kind::LocalOfWorkers);
}

#[test]
fn in_a_bubble() {
    on(Kind::Bubble);
}

#[test]
fn in_a_bubble_of_workers() {
    on(Kind::BubbleOfWorkers);
}

/// Kinds that run here.
fn kinds() -> Vec<Kind> {
    KINDS.into_iter().filter(|kind| kind.is_seen()).collect()
}

/// The clock of a runtime whose thread is in another one goes on, and is right when the thread comes back.
#[test]
fn on_several_runtimes_in_turn_on_one_thread() {
    never_fails("in turn", |seed| {
        let (mut random, kinds) = (Random::new(seed), kinds());
        let mut runtimes: Vec<_> = (0..3).map(|_| random.pick(&kinds)).map(|kind| (kind, kind.make(), true)).collect();
        let mut others = Vec::new();
        for _ in 0..6 {
            let at = usize::try_from(random.below(3)).unwrap();
            let (kind, runtime, pauses) = &mut runtimes[at];
            let (kind, seed) = (*kind, random.next());
            if kind.is_bubble() {
                kind.run(seed)?;
                continue;
            }
            kind.run_on(runtime, std::mem::take(pauses), seed).map_err(|what| format!("{kind:?}: {what}"))?;
            if let Kind::Workers(_) = kind {
                // Goes on while the thread is elsewhere, and is waited for from there.
                let (seed, (ends, ended)) = (random.next(), oneshot::channel());
                runtime.spawn(async move {
                    let _ = ends.send(run(kind, seed).await);
                });
                others.push((kind, ended));
            }
        }
        let last = current_thread();
        for (kind, other) in others {
            last.block_on(other)
                .unwrap()
                .map_err(|what| format!("{kind:?}, while its thread was elsewhere: {what}"))?;
        }
        Ok(())
    });
}

#[test]
fn on_several_runtimes_at_once_in_threads_of_one_process() {
    never_fails("at once", |seed| {
        let (mut random, kinds) = (Random::new(seed), kinds());
        let programs: [_; 4] = std::array::from_fn(|_| (random.pick(&kinds), random.next()));
        let results = thread::scope(|scope| {
            let threads = programs.map(|(kind, seed)| {
                scope.spawn(move || kind.run(seed).map_err(|what| format!("{kind:?}, beside others: {what}")))
            });
            threads.map(|thread| thread.join().unwrap())
        });
        results.into_iter().collect()
    });
}

/// The model, on a clock that runs: there it has to find faults.
#[test]
fn the_check_finds_a_clock_that_is_late() {
    let found = (0..20).filter(|&seed| {
        current_thread().block_on(async {
            let program = async { run(Kind::Workers(1), seed).await };
            // It would take hours.
            timeout(ms(50), program).await.is_ok_and(|result| result.is_err_and(|what| what.contains("late")))
        })
    });
    assert!(found.count() > 5);
    assert!(panic_message(|| never_fails("fails", |_| Err("on purpose".into()))).contains("on purpose"));
}
