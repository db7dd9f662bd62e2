//! The tasks of a random program, each with a model of its time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::thread;

use super::{Rules, Setting};
use crate::common::{HOUR, Random, ms, step};
use crate::kinds::{Kind, MICRO, NANO};
use futures::StreamExt;
use hairspring::test_util;
use hairspring::{DelayQueue, Duration, Instant, interval, sleep, sleep_until, timeout, timeout_at};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;

/// Where a program reports its faults.
pub(super) type Faults = mpsc::UnboundedSender<String>;

/// A task of a program.
pub(super) struct Task {
    setting: Setting,
    random: Random,
    start: Instant,
    /// Its time, counted from the start.
    at: Duration,
    faults: Faults,
    /// The names of its ancestors, and its own.
    path: String,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Task {
    pub(super) fn new(setting: Setting, random: Random, faults: Faults) -> Task {
        Task { setting, random, start: Instant::now(), at: Duration::ZERO, faults, path: String::new() }
    }

    /// A new task. Its number decides what it does.
    pub(super) fn clone_for(&self, name: impl fmt::Display, number: u64) -> Task {
        let random = Random::new(self.random.clone().next() ^ (number << 32));
        let path = format!("{}/{name}", self.path);
        Task { setting: self.setting, random, start: self.start, at: self.at, faults: self.faults.clone(), path }
    }

    /// Spawns a task, and waits for its result.
    pub(super) fn spawn<T: Send + 'static>(&self, code: impl Future<Output = T> + Send + 'static) -> Boxed<T> {
        let (sender, result) = oneshot::channel();
        let code = async move {
            let _ = sender.send(code.await);
        };
        if self.setting.kind.is_local() {
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

    /// Waits for children. Its time is then the latest of theirs.
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

    /// Reports a fault, and never returns.
    async fn fail(&self, what: impl fmt::Display + Send) -> ! {
        let _ = self.faults.send(format!("task {}: {what}", self.path));
        std::future::pending().await
    }

    async fn fail_unless(&self, holds: bool, what: impl fmt::Display + Send) {
        if !holds {
            self.fail(what).await;
        }
    }

    /// Fails unless the clock shows this task's time.
    async fn check(&self, after: impl fmt::Display + Send) {
        if self.setting.rules == Rules::ClockRuns {
            return;
        }
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

    /// Notes that a message arrived that was sent at `sent`.
    async fn received(&mut self, sent: Duration, how: &str) {
        self.at = self.at.max(sent);
        self.check(how).await;
    }

    fn passes_time(&self) -> bool {
        matches!(self.setting.rules, Rules::TimePasses | Rules::HoursPass)
    }

    /// A duration from zero to hours.
    fn length(&mut self) -> Duration {
        match self.setting.rules {
            Rules::TimePasses => {}
            Rules::HoursPass => return HOUR * u32::try_from(self.random.below(3)).unwrap(),
            Rules::TimeStands | Rules::ClockRuns => return Duration::ZERO,
        }
        match self.random.below(12) {
            0 => Duration::ZERO,
            1 => NANO,
            2 | 3 => self.random.duration(MICRO),
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

    /// Does random things in sequence. Each uses up some of the budget, as do those of its children.
    pub(super) fn act(&mut self, budget: u64, depth: u32) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let mut left = budget;
            while left > 0 {
                left -= 1;
                match self.random.below(if self.passes_time() { 16 } else { 10 }) {
                    0 | 10 | 11 => self.nap().await,
                    1 => self.blocks().await,
                    2 | 3 => self.talks_through_a_channel().await,
                    4 => self.talks_through_a_pipe().await,
                    5 => self.talks_through_sockets().await,
                    6..=8 if depth > 0 && left > 0 => {
                        let share = 1 + self.random.below(left);
                        left -= share;
                        let children = 1 + self.random.below(4);
                        self.has_children(children, share / children + 1, depth - 1).await;
                    }
                    12 => self.limits().await,
                    13 => self.ticks().await,
                    14 => self.queues().await,
                    15 => self.moves_a_sleep().await,
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

    /// A timeout around a sleep, or around a future that is never ready.
    async fn limits(&mut self) {
        let (limit, nap) = (self.length(), self.length());
        let ends = match self.random.below(3) {
            0 => timeout(limit, sleep(nap)).await.is_ok(),
            1 => timeout_at(self.start + self.at + limit, sleep(nap)).await.is_ok(),
            _ => timeout(limit, timeout(nap, std::future::pending::<()>())).await.is_ok(),
        };
        // If both are due, the inner future wins.
        self.at += limit.min(nap);
        self.check(format!("a timeout of {limit:?} around a sleep of {nap:?}")).await;
        self.fail_unless(ends == (nap <= limit), format!("a sleep of {nap:?} within {limit:?}: {ends}")).await;
    }

    async fn ticks(&mut self) {
        let shortest = if self.setting.rules == Rules::HoursPass { HOUR } else { NANO };
        let (period, first) = (self.length().max(shortest), self.at);
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
            // An entry that was added late may follow others that were due later.
            let said = expired.deadline() - self.start;
            self.fail_unless(said <= self.at.max(due), format!("an entry due at {said:?} is early")).await;
            self.received(due, "an entry of a queue").await;
        }
        self.fail_unless(queue.next().await.is_none(), "a queue has more than it was given").await;
    }

    /// A sleep that is set to another time before it ends.
    async fn moves_a_sleep(&mut self) {
        let (first, second) = (self.length() + HOUR, self.length());
        let mut moved = sleep(first);
        if futures::poll!(&mut moved).is_ready() {
            self.fail("a sleep of an hour was ready immediately").await;
        }
        if self.setting.rules == Rules::TimePasses {
            let nap = self.random.duration(HOUR);
            sleep(nap).await;
            self.at += nap;
        }
        moved.reset_at(self.start + self.at + second);
        moved.await;
        self.at += second;
        self.check("a sleep that was set to another time").await;
    }

    /// Takes real time, while no time may pass on the clock.
    async fn blocks(&mut self) {
        let micros = Duration::from_micros(self.random.below(1_500));
        let (bound, seen) = (if self.passes_time() { 7 } else { 2 }, self.setting.kind.sees_blocking_work());
        match self.random.below(bound) {
            0 => {
                thread::sleep(micros);
                self.check("it has blocked its thread").await;
            }
            2 => {
                let (hold, (sender, answer)) = (test_util::hold(), oneshot::channel());
                thread::spawn(move || {
                    thread::sleep(micros);
                    sender.send(()).unwrap();
                });
                answer.await.unwrap();
                self.check("a thread has answered while the clock was held").await;
                drop(hold);
            }
            3 | 4 if seen => {
                tokio::task::spawn_blocking(move || thread::sleep(micros)).await.unwrap();
                self.check("blocking work").await;
            }
            5 if seen => {
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

    /// One task sends occasionally. The other receives, with a limit or without.
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
            // A message that was sent before this would have arrived.
            let mut not_before = Duration::ZERO;
            for _ in 0..messages {
                task.maybe_nap().await;
                let sent = loop {
                    let limit = task.length();
                    if !task.passes_time() || task.random.below(2) == 0 {
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

    async fn talks_through_a_pipe(&mut self) {
        let (near, far) = tokio::io::duplex(64);
        self.talks_through(near, far).await;
    }

    async fn talks_through_sockets(&mut self) {
        // On Windows the clock does not see them.
        if cfg!(windows) || self.setting.kind == Kind::NoSockets {
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
        // Without this, the system may delay sending in real time, which the clock does not see.
        for end in [&near, &far] {
            end.set_nodelay(true).unwrap();
        }
        self.talks_through(near, far).await;
    }

    /// Each task occasionally sends words, and receives as many.
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
        // The other task may still send.
        let _ = socket.shutdown().await;
        self
    }
}
