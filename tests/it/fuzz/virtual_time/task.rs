//! The tasks of a program: what each step does, and what it has to see.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread;

use hairspring::test_util::{advance_and_settle, settle};
use hairspring::{Duration, Instant, Sleep, advance};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{JoinHandle, block_in_place, yield_now};

use super::model::{Clock, Model, Time};
use crate::common::Random;

/// A step of a task. A `usize` is the task that gets a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Yield,
    /// For so long, in real time.
    Compute(Duration),
    Sleep(Duration),
    /// A sleep of tokio's, which is less than 3 ms late.
    TokiosSleep(Duration),
    /// Polls a sleep, sleeps for a while, and sets the first to end after another while.
    Reset([Duration; 3]),
    Timeout {
        limit: Duration,
        sleep: Duration,
    },
    Interval {
        first: Duration,
        period: Duration,
        ticks: u32,
        works: Duration,
    },
    /// Many sleeps that end at about the same time, in no order, while some of them come, move and go.
    Burst(Duration, u64),
    /// Entries of a queue, one of which is reset while another waits.
    Queue([Duration; 3]),
    /// Sleeps and exchanges words with a task that sleeps for another time, through a socket or a pipe.
    Talk(bool, [Duration; 2]),
    /// Spawns a task that sleeps, and aborts it after another time.
    Abort(Duration, Duration),
    Send(usize),
    /// Waits for a message, for so long at most.
    Receive(Duration),
    /// Blocking work that takes so long in real time, and sends a message.
    Block(Work, Duration, usize),
    /// A thread that the clock cannot see sends a message after so long in real time, while the clock is held.
    Outside(Duration, usize),
    /// A thread holds the clock for so long in real time, whatever the tasks do.
    HoldOutside(Duration),
    /// Holds the clock while the other tasks run.
    Hold,
    Settle,
    Advance(Duration),
    AdvanceAndSettle(Duration),
    /// Lets the clock run for so long, while the task sleeps or blocks its thread.
    Run(Duration, bool),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    Tokios,
    InPlace,
}

/// When a message was sent, and whether that was while only a hold stopped the clock.
type Message = (Time, bool);

/// Where messages to a task go: through a channel, or through a list and a [`Notify`].
#[derive(Clone)]
pub(super) enum Mailbox {
    Channel(mpsc::UnboundedSender<Message>),
    List(Arc<(Mutex<VecDeque<Message>>, Notify)>),
}

impl Mailbox {
    fn send(&self, message: Message) {
        match self {
            // The task may have ended.
            Mailbox::Channel(sender) => _ = sender.send(message),
            Mailbox::List(list) => {
                list.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
                list.1.notify_one();
            }
        }
    }

    async fn receive(&self, channel: &mut mpsc::UnboundedReceiver<Message>) -> Message {
        let Mailbox::List(list) = self else { return channel.recv().await.expect("this is a sender") };
        loop {
            let first = list.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match first {
                Some(message) => return message,
                None => list.1.notified().await,
            }
        }
    }
}

pub(super) struct Task {
    model: Arc<Model>,
    name: usize,
    mailboxes: Arc<[Mailbox]>,
    channel: mpsc::UnboundedReceiver<Message>,
    /// Whether only one task at a time may control the clock, because their order would be that of threads.
    alone: bool,
    /// Its time.
    at: Time,
    /// No message had arrived by then.
    nothing_until: Time,
    /// Blocking work that it has not waited for.
    left: Vec<JoinHandle<()>>,
}

impl Task {
    pub(super) fn all(model: &Arc<Model>, count: usize, alone: bool) -> Vec<Task> {
        let (senders, channels): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        let mailbox = |(name, sender)| {
            if name % 2 == 0 { Mailbox::Channel(sender) } else { Mailbox::List(Arc::default()) }
        };
        let mailboxes: Arc<[_]> = senders.into_iter().enumerate().map(mailbox).collect();
        let at = model.sees_at_least(Time::ZERO, || "the start".into());
        let task = |(name, channel)| {
            let (model, mailboxes) = (model.clone(), mailboxes.clone());
            Task { model, name, mailboxes, channel, alone, at, nothing_until: Time::ZERO, left: Vec::new() }
        };
        channels.into_iter().enumerate().map(task).collect()
    }

    pub(super) async fn run(mut self, steps: Vec<Step>) {
        self.sees(self.at, "its spawn");
        for (number, step) in steps.into_iter().enumerate() {
            if let Step::Hold | Step::Outside(..) | Step::Settle | Step::Advance(_) | Step::AdvanceAndSettle(_) = step {
                self.controls(step).await;
            } else {
                self.takes(step).await;
            }
            self.sees(self.at, step);
            self.model.note(self.name, number, self.at);
        }
        self.waits_for_work().await;
    }

    fn describe(&self, after: impl std::fmt::Debug) -> impl FnOnce() -> String {
        let name = self.name;
        move || format!("{after:?} of task {name}")
    }

    fn sees(&mut self, expected: Time, after: impl std::fmt::Debug) {
        self.at = self.model.sees(expected, self.describe(after));
    }

    fn sees_at_least(&mut self, expected: Time, after: impl std::fmt::Debug) {
        self.at = self.model.sees_at_least(expected, self.describe(after));
    }

    /// A task may not see that a limit has passed unless the program has moved the clock beyond it.
    fn is_in_time(&self, limit: Time, step: Step) {
        let in_time = self.model.has_moved(limit, self.at, true);
        self.model
            .require(in_time, || format!("{step:?} of task {} ends after {limit:?}, at {:?}", self.name, self.at));
    }

    fn instant(&self, at: Time) -> Instant {
        self.model.start + at
    }

    async fn takes(&mut self, step: Step) {
        let model = self.model.clone();
        let (clock, start) = (&model.clock, self.at);
        match step {
            Step::Yield => yield_now().await,
            Step::Compute(real) => {
                let _busy = model.clone().computes();
                computes(real);
            }
            Step::Sleep(length) => self.sleeps(length).await,
            Step::TokiosSleep(length) => {
                tokio::time::sleep(length).await;
                let shown = model.clock.now() - model.start;
                let late = start + length + Duration::from_nanos(2_999_999);
                let right = start + length <= shown && model.has_moved(late, shown, true);
                model.require(right, || format!("tokio's sleep of {length:?} from {start:?} ended at {shown:?}"));
                self.at = shown;
            }
            Step::Reset([first, nap, second]) => {
                let mut moved = clock.sleep(first);
                poll_fn(|cx| Poll::Ready(_ = Pin::new(&mut moved).poll(cx))).await;
                self.sleeps(nap).await;
                let until = self.at + second;
                moved.reset_at(self.instant(until));
                moved.await;
                self.sees(until, step);
            }
            Step::Timeout { limit, sleep } => {
                let (sleep, limit) = (clock.sleep(sleep), start + limit);
                let until = sleep.deadline() - model.start;
                let ended = clock.timeout_at(self.instant(limit), sleep).await.is_ok();
                self.sees(if ended { until } else { limit }, step);
                if ended {
                    // If both are due, the sleep wins.
                    self.is_in_time(limit, step);
                } else {
                    // The clock was moved past both between the poll of the sleep and that of the limit.
                    let both = model.has_moved(until, limit, false);
                    model.require(limit < until || both, || format!("{step:?} at {start:?} ended too soon"));
                }
            }
            Step::Interval { first, period, ticks, works } => {
                let mut interval = clock.interval_at(self.instant(start + first), period);
                for tick in 0..ticks {
                    let (due, told) = (start + first + period * tick, interval.tick().await - model.start);
                    model.require(told == due, || format!("{step:?} at {start:?}: tick {tick} is of {told:?}"));
                    self.sees(due.max(self.at), step);
                    self.sleeps(works).await;
                }
            }
            Step::Burst(length, seed) => self.bursts(length, Random::new(seed), step).await,
            Step::Queue(lengths) => self.queues(lengths, step).await,
            Step::Talk(through_socket, lengths) => self.talks(through_socket, lengths).await,
            Step::Abort(length, after) => {
                let sleep = clock.sleep(length);
                let until = sleep.deadline() - model.start;
                let sleeper = tokio::spawn(sleep);
                self.sleeps(after).await;
                sleeper.abort();
                let ended = sleeper.await.is_ok();
                // While the clock runs, it may have ended just now.
                let now = clock.now() - model.start;
                let right = if ended { until <= now } else { model.has_moved(until, self.at, false) };
                model.require(right, || format!("{step:?} at {start:?}: it has ended: {ended}"));
            }
            Step::Send(to) => self.mailboxes[to].send((self.at, false)),
            Step::Receive(limit) => {
                let until = start + limit;
                let received = self.mailboxes[self.name].receive(&mut self.channel);
                if let Ok((sent, held)) = clock.timeout_at(model.start + until, received).await {
                    let before = std::mem::take(&mut self.nothing_until);
                    let came = sent >= before || model.has_moved(sent, before, held);
                    model.require(came, || format!("a message of {sent:?} had not come at {before:?}"));
                    // If it came while only a hold stopped the clock, who settles did not wait for it.
                    self.at = model.look(sent.max(self.at), held, self.describe(step));
                    self.is_in_time(until, step);
                } else {
                    self.sees(until, step);
                    self.nothing_until = self.at;
                }
            }
            Step::Block(work, real, to) => self.blocks(work, real, to, step).await,
            Step::HoldOutside(real) => model.hold_outside(real),
            Step::Run(real, sleeps) => self.lets_it_run(real, sleeps).await,
            _ => unreachable!("it controls the clock"),
        }
    }

    async fn sleeps(&mut self, length: Duration) {
        let sleep = self.model.clock.sleep(length);
        let until = sleep.deadline() - self.model.start;
        let right = self.at + length <= until && self.model.has_moved(self.at, until.saturating_sub(length), false);
        self.model.require(right, || format!("a sleep of {length:?} at {:?} is due at {until:?}", self.at));
        sleep.await;
        self.sees(until, ("a sleep", length));
    }

    async fn bursts(&mut self, length: Duration, mut random: Random, step: Step) {
        let clock = self.model.clock.clone();
        let spread = 1 << random.below(26);
        let about = |random: &mut Random| length + Duration::from_nanos(random.below(spread));
        let mut burst: Vec<_> = (0..=random.below(200)).map(|_| clock.sleep(about(&mut random))).collect();
        for _ in 0..4 {
            for sleep in &mut burst {
                poll_fn(|cx| Poll::Ready(_ = Pin::new(&mut *sleep).poll(cx))).await;
            }
            for _ in 0..random.below(8) {
                yield_now().await;
            }
            let sooner = about(&mut random).saturating_sub(Duration::from_nanos(random.up_to_bits(26)));
            match random.below(if burst.len() > 1 { 3 } else { 1 }) {
                0 => burst.push(clock.sleep(sooner)),
                1 => drop(burst.swap_remove(random.index(burst.len()))),
                _ => burst[0].reset_at(self.instant(self.at + sooner)),
            }
        }
        burst.sort_unstable_by_key(Sleep::deadline);
        // Each sleep is a move of the clock, and takes a while.
        let apart = 1 + random.index(burst.len());
        for sleep in burst.into_iter().step_by(apart) {
            let until = sleep.deadline() - self.model.start;
            sleep.await;
            self.sees(until.max(self.at), step);
        }
    }

    /// The same task at the same time, without its messages.
    fn copy(&self) -> Task {
        let (model, mailboxes, channel) = (self.model.clone(), self.mailboxes.clone(), mpsc::unbounded_channel().1);
        Task { model, mailboxes, channel, left: Vec::new(), ..*self }
    }

    async fn queues(&mut self, [first, second, third]: [Duration; 3], step: Step) {
        let (mut queue, start) = (self.model.clock.queue(), self.model.start);
        let keys = [first, second].map(|after| queue.insert((), after));
        self.sleeps(first.min(second) / 2).await;
        queue.reset(&keys[0], third);
        let mut due = keys.map(|key| queue.deadline(&key) - start);
        due.sort_unstable();
        for due in due {
            let expired = poll_fn(|cx| queue.poll_expired(cx)).await.expect("two were inserted");
            let (expected, told) = (due.max(self.at), expired.deadline() - start);
            self.model.require(told <= expected, || format!("{step:?} gives that of {told:?} at {expected:?}"));
            self.sees(expected, step);
        }
    }

    async fn talks(&mut self, through_socket: bool, lengths: [Duration; 2]) {
        if !through_socket {
            let (near, far) = tokio::io::duplex(64);
            return self.exchange(near, far, lengths).await;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let near = tokio::spawn(TcpStream::connect(listener.local_addr().expect("it has one")));
        let (far, _) = listener.accept().await.expect("it connects");
        let near = near.await.expect("the task ends").expect("it listens");
        // Without this, the system may delay sending in real time, which the clock does not see.
        near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).expect("they are TCP sockets");
        self.sees(self.at, "a connection");
        self.exchange(near, far, lengths).await;
    }

    async fn exchange<S>(&mut self, near: S, far: S, [ours, theirs]: [Duration; 2])
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut other = self.copy();
        let other = tokio::spawn(async move { other.exchanges(far, theirs).await });
        self.exchanges(near, ours).await;
        other.await.expect("the task ends");
    }

    /// Each word is the time at which it was sent.
    async fn exchanges(&mut self, mut socket: impl AsyncRead + AsyncWrite + Unpin, nap: Duration) {
        for nap in [nap, Duration::ZERO, nap / 2, Duration::ZERO] {
            self.sleeps(nap).await;
            let (sent, mut word) = (u64::try_from(self.at.as_nanos()).expect("hours"), [0; 8]);
            socket.write_all(&sent.to_le_bytes()).await.expect("it is open");
            socket.read_exact(&mut word).await.expect("it is open");
            let came = Duration::from_nanos(u64::from_le_bytes(word));
            self.sees(came.max(self.at), "a word");
        }
    }

    async fn blocks(&mut self, work: Work, real: Duration, to: usize, step: Step) {
        let (mut task, mailbox) = (self.copy(), self.mailboxes[to].clone());
        let code = move || {
            let _busy = task.model.clone().computes();
            task.sees(task.at, step);
            thread::sleep(real);
            task.sees(task.at, step);
            mailbox.send((task.at, false));
        };
        match work {
            Work::Tokios => self.left.push(tokio::task::spawn_blocking(code)),
            Work::InPlace => block_in_place(code),
        }
        // Nobody waits for some of the work until the end.
        if real.subsec_micros() % 4 > 0 {
            self.waits_for_work().await;
        }
    }

    async fn waits_for_work(&mut self) {
        for work in self.left.drain(..) {
            work.await.expect("the work ends");
        }
    }

    /// A step that needs the clock to be paused.
    async fn controls(&mut self, step: Step) {
        let model = self.model.clone();
        let (mut one, mut any) = (None, None);
        if self.alone {
            one = Some(model.control.write().await);
        } else {
            any = Some(model.control.read().await);
        }
        self.sees_at_least(self.at, step);
        let [begun, active] = &model.controls;
        let (before, others) = (begun.fetch_add(1, SeqCst) + 1, active.fetch_add(1, SeqCst));
        match step {
            Step::Hold => {
                let _hold = model.hold();
                for _ in 0..3 {
                    yield_now().await;
                    self.sees_at_least(self.at, step);
                }
            }
            Step::Outside(real, to) => {
                // No move is by who settles while something comes from where that does not look.
                model.begin_move(Some(Duration::ZERO), false);
                let ((sends, answer), hold) = (oneshot::channel(), model.hold());
                let (mailbox, at) = (self.mailboxes[to].clone(), self.at);
                thread::spawn(move || {
                    thread::sleep(real);
                    mailbox.send((at, true));
                    let _ = sends.send(());
                    drop(hold);
                });
                answer.await.expect("the thread answers");
                self.sees_at_least(self.at, step);
                model.end_move();
            }
            Step::Settle => {
                settle().await;
                let busy = model.busy.load(SeqCst);
                let quiet = others == 0 && begun.load(SeqCst) == before;
                model.require(!quiet || busy == 0, || format!("a task runs when {} has settled", self.name));
                self.sees_at_least(self.at, step);
            }
            Step::Advance(by) | Step::AdvanceAndSettle(by) => self.advances(by, step).await,
            _ => unreachable!("it leaves the clock alone"),
        }
        active.fetch_sub(1, SeqCst);
        model.is_free.notify_one();
        drop((one, any));
    }

    async fn advances(&mut self, by: Duration, step: Step) {
        let settles = matches!(step, Step::AdvanceAndSettle(_));
        self.model.begin_move(Some(by), settles && matches!(self.model.clock, Clock::OfTheRuntime));
        let before = self.model.clock.now() - self.model.start;
        match self.model.clock.clone() {
            // Here it is a thread that moves it.
            Clock::Manual(clock, _) if settles => {
                let ((sends, moved), hold) = (oneshot::channel(), self.model.hold());
                thread::spawn(move || {
                    clock.advance(by);
                    let _ = sends.send(());
                    drop(hold);
                });
                moved.await.expect("the thread moves the clock");
            }
            Clock::Manual(clock, _) => clock.advance(by),
            Clock::OfTheRuntime if settles => advance_and_settle(by).await,
            Clock::OfTheRuntime => advance(by).await,
        }
        self.sees_at_least(before + by, step);
        self.model.end_move();
    }

    async fn lets_it_run(&mut self, real: Duration, sleeps: bool) {
        let model = self.model.clone();
        let _control = model.control.write().await;
        self.sees_at_least(self.at, "a wait");
        // Not while a thread holds it. Waiting for that would let time pass.
        let Ok(_runs) = model.runs.try_write() else { return };
        model.begin_move(None, false);
        let Clock::Manual(clock, _) = &model.clock else { unreachable!("a bubble's clock does not run") };
        clock.set_rate(1_000.0);
        if sleeps {
            self.sleeps(real).await;
        } else {
            thread::sleep(real);
        }
        clock.set_rate(0.0);
        // Waits until what was due has been woken.
        clock.advance(Duration::ZERO);
        model.end_move();
        self.sees_at_least(self.at, "a run");
    }
}

/// Keeps the thread, by computing or by sleeping.
fn computes(real: Duration) {
    if real.subsec_micros() % 2 == 0 {
        thread::sleep(real);
    } else {
        let start = std::time::Instant::now();
        while start.elapsed() < real {
            std::hint::spin_loop();
        }
    }
}
