//! `TimeoutStream` on manual clocks against a model: which limit ends each operation, when its task is woken, and that
//! neither a waker nor a timer is left.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hairspring::error::LimitExceeded;
use hairspring::io::{Limit, TimeoutStream};
use hairspring::test_util::ManualClock;
use hairspring::{Duration, Instant, Timer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

use super::clock::{polled_in_task, two_clocks};
use super::run::{Round, Target};
use crate::common::{Random, Wakes, spend_the_budget};

/// Durations and instants are in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// An operation, the answer of the inner stream, which of two wakers, and whether the budget is spent before.
    Poll(Kind, Answer, usize, bool),
    /// The timeout of reads or writes.
    Timeout(usize, Option<u64>),
    Idle(Option<u64>),
    Deadline(Option<u64>),
    /// Of the other clock.
    WithTimer,
    Advance(u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Read,
    Write,
    WriteVectored,
    Flush,
    Shutdown,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Waits,
    /// Also spends the task's budget.
    Spends,
    Moves(usize),
    Fails,
    Panics,
}

struct Fake(Answer);

impl Fake {
    fn poll(&self) -> Poll<io::Result<usize>> {
        match self.0 {
            Answer::Waits => Poll::Pending,
            Answer::Spends => {
                spend_the_budget();
                Poll::Pending
            }
            Answer::Moves(bytes) => Poll::Ready(Ok(bytes)),
            // As a system reports it.
            Answer::Fails => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Answer::Panics => panic!("the inner stream panics"),
        }
    }
}

impl AsyncRead for Fake {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll().map_ok(|bytes| buf.put_slice(&vec![1; bytes]))
    }
}

impl AsyncWrite for Fake {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.poll()
    }

    fn poll_write_vectored(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.poll()
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll().map_ok(drop)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll().map_ok(drop)
    }
}

/// What an operation returns if it ends: the limit and its length in its error, if there is one.
type Result = std::result::Result<(), Option<(Limit, Duration)>>;

/// An operation that waits: since when, what its last poll's waker counts, how often that was woken before, and whether
/// it must be woken before a limit ends.
#[derive(Debug, Clone)]
struct Wait {
    since: u64,
    woken: Arc<Wakes>,
    before: usize,
    wakes: bool,
}

pub(crate) struct Pair {
    clocks: [ManualClock; 2],
    start: Instant,
    timers: [Timer; 2],
    /// The clock and the timer in use.
    on: usize,
    runtime: Runtime,
    stream: Option<TimeoutStream<Fake>>,
    /// Of a read, and of the rest.
    wakers: [[(Arc<Wakes>, Waker); 2]; 2],
    now: u64,
    waits: [Option<Wait>; 2],
    timeouts: [Option<u64>; 2],
    idle: Option<u64>,
    /// When bytes last moved.
    active: u64,
    /// Whether the last poll of a flush or a shutdown had to wait.
    flush_waits: bool,
    /// With the time when it was set.
    deadline: Option<(u64, u64)>,
}

impl Target for Pair {
    type Op = Op;

    fn new(_: &mut Random) -> Round<Pair> {
        let (clocks, timers) = two_clocks();
        let target = Pair {
            start: clocks[0].now(),
            clocks,
            on: 0,
            runtime: Builder::new_current_thread().build().expect("the system has room for a runtime"),
            stream: Some(TimeoutStream::new(Fake(Answer::Waits)).with_timer(&timers[0])),
            timers,
            wakers: [(); 2].map(|()| [Wakes::new(), Wakes::new()]),
            now: 0,
            waits: [None, None],
            timeouts: [None; 2],
            idle: None,
            active: 0,
            flush_waits: false,
            deadline: None,
        };
        Round { target, length: 60, set_up: String::new() }
    }

    fn generate(&mut self, random: &mut Random) -> Op {
        let some = (!random.one_in(3)).then(|| random.below(30));
        match random.below(12) {
            0..=5 => {
                let writes = [Kind::Write, Kind::WriteVectored, Kind::Flush, Kind::Shutdown];
                let kind = if random.one_in(2) { Kind::Read } else { random.pick(&writes) };
                let ends = [Answer::Moves(0), Answer::Moves(1), Answer::Fails, Answer::Panics];
                let answer = if random.one_in(3) { random.pick(&ends) } else { Answer::Waits };
                let answer = if random.one_in(8) { Answer::Spends } else { answer };
                Op::Poll(kind, answer, random.index(2), random.one_in(6))
            }
            6 => Op::Timeout(random.index(2), some),
            7 => Op::Idle(some),
            8 => Op::Deadline(some.map(|some| (self.now + some * 2).saturating_sub(10))),
            9 if random.one_in(4) => Op::WithTimer,
            _ => Op::Advance(random.below(25)),
        }
    }

    fn apply(&mut self, op: &Op) {
        let (now, limit) = (self.now, |millis: Option<u64>| millis.map(Duration::from_millis));
        let stream = self.stream.as_mut().expect("it is not dropped");
        match *op {
            Op::Poll(kind, answer, waker, is_spent) => self.poll(kind, answer, waker, is_spent),
            Op::Timeout(side, millis) => {
                let set = [TimeoutStream::set_read_timeout, TimeoutStream::set_write_timeout][side];
                set(stream, limit(millis));
                self.timeouts[side] = millis;
                self.waits[side].iter_mut().for_each(|wait| (wait.since, wait.wakes) = (now, true));
            }
            Op::Idle(millis) => {
                stream.set_idle_timeout(limit(millis));
                (self.idle, self.active) = (millis, now);
                self.waits[0].iter_mut().for_each(|wait| wait.wakes = true);
            }
            Op::Deadline(at) => {
                stream.set_deadline(limit(at).map(|at| self.start + at));
                self.deadline = at.map(|at| (at, now));
                self.waits.iter_mut().flatten().for_each(|wait| wait.wakes = true);
            }
            Op::WithTimer => {
                self.on = 1 - self.on;
                self.stream = self.stream.take().map(|stream| stream.with_timer(&self.timers[self.on]));
                let now = u64::try_from((self.clocks[self.on].now() - self.start).as_millis()).expect("hours");
                (self.now, self.active) = (now, now);
                self.waits.iter_mut().flatten().for_each(|wait| (wait.since, wait.wakes) = (now, true));
            }
            Op::Advance(millis) => {
                self.clocks[self.on].advance(Duration::from_millis(millis));
                self.now += millis;
            }
        }
        self.compare();
    }

    fn finish(&mut self) {
        self.stream = None;
        assert_eq!(self.pending(), [0, 0], "a dropped stream keeps no timer");
        self.waits = [None, None];
        self.keeps_no_waker_but_the_last();
    }
}

impl Pair {
    fn poll(&mut self, kind: Kind, answer: Answer, waker: usize, is_spent: bool) {
        let side = usize::from(kind != Kind::Read);
        // What gives a task without budget its turn wakes it, too.
        let fresh = Wakes::new();
        let (woken, task) = if is_spent { &fresh } else { &self.wakers[side][waker] };
        let before = woken.count();
        let stream = self.stream.as_mut().expect("it is not dropped");
        stream.get_mut().0 = answer;
        let (cx, stream) = (&mut Context::from_waker(task), Pin::new(stream));
        let polled = polled_in_task(&self.runtime, is_spent, || match kind {
            Kind::Read => stream.poll_read(cx, &mut ReadBuf::new(&mut [0])),
            Kind::Write => stream.poll_write(cx, &[1]).map_ok(drop),
            Kind::WriteVectored => stream.poll_write_vectored(cx, &[IoSlice::new(&[1])]).map_ok(drop),
            Kind::Flush => stream.poll_flush(cx),
            Kind::Shutdown => stream.poll_shutdown(cx),
        });
        let limit_of = |error: io::Error| {
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            let exceeded = error.get_ref()?.downcast_ref::<LimitExceeded>()?;
            Some((exceeded.limit(), exceeded.length()))
        };
        let polled: Option<Poll<Result>> = polled.map(|polled| polled.map_err(limit_of));

        // An operation that has waited comes first once more.
        let begins = self.waits[side].is_none();
        let is_over = |&(at, _): &(u64, u64)| kind != Kind::Shutdown && begins && at <= self.now;
        if let Some((at, set)) = self.deadline.filter(is_over) {
            self.ends(side, false);
            let length = Duration::from_millis(at.saturating_sub(set));
            assert_eq!(polled, Some(Poll::Ready(Err(Some((Limit::Deadline, length))))));
            return;
        }
        let flushes = matches!(kind, Kind::Flush | Kind::Shutdown);
        let flush_waited = self.flush_waits;
        if flushes && !matches!(answer, Answer::Panics) {
            self.flush_waits = matches!(answer, Answer::Waits | Answer::Spends);
        }
        match answer {
            Answer::Panics => assert_eq!(polled, None),
            Answer::Moves(bytes) => {
                self.ends(side, if flushes { flush_waited } else { bytes > 0 });
                assert_eq!(polled, Some(Poll::Ready(Ok(()))));
            }
            Answer::Fails => {
                self.ends(side, false);
                assert_eq!(polled, Some(Poll::Ready(Err(None))));
            }
            Answer::Waits | Answer::Spends if is_spent => {
                assert_eq!(polled, Some(Poll::Pending));
                assert!(woken.count() > before, "it was not woken");
            }
            Answer::Waits | Answer::Spends => {
                let since = self.waits[side].as_ref().map_or(self.now, |wait| wait.since);
                let woken = woken.clone();
                self.waits[side] = Some(Wait { since, woken, before, wakes: false });
                let (end, exceeded) = self.end(side);
                if end <= self.now {
                    self.ends(side, false);
                    assert_eq!(polled, Some(Poll::Ready(Err(Some(exceeded)))));
                } else {
                    assert_eq!(polled, Some(Poll::Pending));
                }
            }
        }
    }

    fn ends(&mut self, side: usize, moved: bool) {
        self.waits[side] = None;
        if moved {
            self.active = self.now;
        }
    }

    /// When the first limit of an operation that waits ends, and what its error says.
    fn end(&self, side: usize) -> (u64, (Limit, Duration)) {
        let since = self.waits[side].as_ref().expect("it waits").since;
        let deadline = self.deadline.map(|(at, set)| (at, Limit::Deadline, at.saturating_sub(set)));
        let own = self.timeouts[side].map(|length| (since + length, [Limit::Read, Limit::Write][side], length));
        let idle = self.idle.filter(|_| side == 0).map(|length| (self.active + length, Limit::Idle, length));
        let first = [deadline, own, idle].into_iter().flatten().min_by_key(|(end, ..)| *end);
        first.map_or((u64::MAX, (Limit::Idle, Duration::MAX)), |(end, limit, length)| {
            (end, (limit, Duration::from_millis(length)))
        })
    }

    fn pending(&self) -> [usize; 2] {
        self.clocks.each_ref().map(ManualClock::pending)
    }

    fn keeps_no_waker_but_the_last(&self) {
        for (wakers, wait) in self.wakers.iter().zip(&self.waits) {
            for (woken, _) in wakers {
                let waits = wait.as_ref().is_some_and(|wait| Arc::ptr_eq(&wait.woken, woken));
                assert!(waits || Arc::strong_count(woken) == 2, "a waker is left");
            }
        }
    }

    fn compare(&self) {
        for side in [0, 1] {
            let Some(wait) = &self.waits[side] else { continue };
            let woken = wait.woken.count() > wait.before;
            let must = wait.wakes || self.end(side).0 <= self.now;
            assert!(woken || !must, "side {side} was not woken");
            // Bytes that move in the other direction leave it to the wake-up to postpone the idle limit.
            assert!(!woken || must || side == 0 && self.idle.is_some(), "side {side} was woken too early");
        }
        let idle = self.stream.as_ref().and_then(TimeoutStream::idle_timeout);
        assert_eq!(idle, self.idle.map(Duration::from_millis), "an idle limit is what was set");
        let may_end =
            |side: &usize| self.waits[*side].as_ref().is_some_and(|wait| wait.wakes || self.end(*side).0 < u64::MAX);
        let pending = self.pending();
        assert!(pending[self.on] <= [0, 1].iter().filter(|side| may_end(side)).count(), "a timer is left");
        assert_eq!(pending[1 - self.on], 0, "the other timer is left");
        self.keeps_no_waker_but_the_last();
    }
}
