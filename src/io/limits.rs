//! [`Limits`]: the limits of a stream, and the error that names one.
//
// Invariants
// 1. Never early: a limit has passed only if the clock was read at or after its end.
// 2. While an operation waits, its direction's sleep ends with the first of its limits, as of its last poll. Only when
//    the sleep has ended are bytes that moved in the other direction taken into account.
// 3. While no operation waits in a direction, its sleep never ends.
// 4. Each direction wakes the task that polled it last, because two tasks may share a split stream.

use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use std::{error, fmt, io, mem};

use tokio::task::coop;

use crate::clock::{self, Instant};
use crate::future::{LazySleep, sleep_on};
use crate::timer::Timer;
use crate::util::panics::catch_panic;
use crate::wheel::Tick;

pub(super) struct Limits {
    directions: [Direction; 2],
    pub(super) idle: Option<Duration>,
    /// When bytes last moved, if there is an idle limit.
    last_activity: Tick,
    /// Whether the last flush or shutdown had to wait when it was last polled. When one ends, its bytes have moved.
    flush_waits: bool,
    pub(super) deadline: Option<Instant>,
    /// The tick of the deadline, `Tick::MAX` for none, and how far ahead it was when it was set.
    last: (Tick, Duration),
    /// Whether the task had budget before the inner stream was polled.
    had_budget: bool,
}

struct Direction {
    timeout: Option<Duration>,
    /// When the waiting operation began to wait, or tick 0 if there is no timeout.
    waits_since: Option<Tick>,
    sleep: LazySleep,
    /// The task that polled last and had to wait.
    waker: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Read,
    /// Writes, flushes and shutdowns.
    Write,
}

impl Limits {
    /// No limits yet, on the timer of the runtime that polls.
    #[track_caller]
    pub(super) fn new() -> Limits {
        Limits {
            directions: [Direction::new(), Direction::new()],
            idle: None,
            last_activity: Tick::ZERO,
            flush_waits: false,
            deadline: None,
            last: (Tick::MAX, Duration::ZERO),
            had_budget: true,
        }
    }

    /// Waits on `timer` from now on.
    #[track_caller]
    pub(super) fn wait_on(&mut self, timer: &Timer) {
        for side in [Side::Read, Side::Write] {
            self.direction(side).sleep = LazySleep::new(sleep_on(Some(timer), Tick::MAX));
            self.set_timeout(side, self.timeout(side));
        }
        self.last_activity = self.now();
    }

    pub(super) fn timeout(&self, side: Side) -> Option<Duration> {
        self.directions[side as usize].timeout
    }

    pub(super) fn set_timeout(&mut self, side: Side, timeout: Option<Duration>) {
        let direction = self.direction(side);
        direction.timeout = timeout;
        if direction.waits_since.is_some() {
            direction.waits_since = Some(direction.sleep.now());
        }
        direction.wake();
    }

    pub(super) fn set_idle(&mut self, timeout: Option<Duration>) {
        self.idle = timeout;
        self.last_activity = self.now();
        self.direction(Side::Read).wake();
    }

    pub(super) fn set_deadline(&mut self, deadline: Option<Instant>) {
        let last = deadline.map_or(Tick::MAX, clock::tick_of);
        self.deadline = deadline;
        self.last = (last, clock::duration_of(last - self.now()));
        self.directions.iter_mut().for_each(Direction::wake);
    }

    /// Call this before each operation.
    #[inline]
    pub(super) fn note_budget(&mut self) {
        self.had_budget = coop::has_budget_remaining();
    }

    /// Call this before each operation except a shutdown. One that has waited comes first once more: its data may have
    /// come before the deadline.
    #[inline]
    pub(super) fn check_deadline(&mut self, side: Side) -> io::Result<()> {
        self.note_budget();
        let direction = &self.directions[side as usize];
        // By the clock: if no operation had to wait, nothing has asked the timer for a turn.
        if self.deadline.is_some() && direction.waits_since.is_none() && direction.sleep.now() >= self.last.0 {
            self.operation_ended(side, false);
            return Err(self.exceeded(Limit::Deadline).into());
        }
        Ok(())
    }

    /// Call this with the result of polling an operation. Returns that result, or the error of a limit that has passed.
    /// `has_moved` says whether bytes have moved.
    #[inline]
    pub(super) fn after_poll<T>(
        &mut self,
        side: Side,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        has_moved: impl FnOnce(&T) -> bool,
    ) -> Poll<io::Result<T>> {
        match polled {
            Poll::Pending => self.poll_waiting(side, cx).map(Err),
            Poll::Ready(result) => {
                let has_moved = result.as_ref().is_ok_and(has_moved);
                self.operation_ended(side, has_moved);
                Poll::Ready(result)
            }
        }
    }

    /// [`after_poll`](Limits::after_poll) of a flush or a shutdown.
    pub(super) fn after_flush(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        let has_waited = mem::replace(&mut self.flush_waits, polled.is_pending());
        self.after_poll(Side::Write, cx, polled, |()| has_waited)
    }

    #[inline]
    fn operation_ended(&mut self, side: Side, has_moved: bool) {
        let direction = self.direction(side);
        if direction.waits_since.take().is_some() {
            direction.sleep.end_at(Tick::MAX);
            // It would keep its task's memory while the connection waits in a pool. The sleep keeps a clone until it
            // fires, because removing that would use the timer in each operation.
            direction.waker = None;
        }
        if has_moved && self.idle.is_some() {
            self.last_activity = self.now();
        }
    }

    /// An operation has to wait. Returns the error of a limit that has passed, or wakes the task when one does.
    #[inline(never)]
    fn poll_waiting(&mut self, side: Side, cx: &mut Context<'_>) -> Poll<io::Error> {
        if !self.had_budget {
            // Perhaps it only has to wait for that.
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        let direction = self.direction(side);
        direction.waker.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
        if direction.waits_since.is_none() {
            direction.waits_since = Some(direction.timeout.map_or(Tick::ZERO, |_| direction.sleep.now()));
        }
        // What a turn has reached.
        let mut now = Tick::ZERO;
        loop {
            let (end, limit) = self.first_end(side);
            if end <= now {
                self.operation_ended(side, false);
                return Poll::Ready(self.exceeded(limit).into());
            }
            let sleep = &mut self.direction(side).sleep;
            sleep.end_at(end);
            match ready!(sleep.poll(cx)) {
                Ok(()) => now = sleep.reached().max(end),
                // The timer is full, or the runtime was shut down and must not wait for this thread.
                Err(error) => {
                    self.operation_ended(side, false);
                    return Poll::Ready(error.into());
                }
            }
        }
    }

    /// The first limit of a waiting operation to end if nothing moves, and when: `Tick::MAX` for never.
    fn first_end(&self, side: Side) -> (Tick, Limit) {
        let Direction { timeout, waits_since, .. } = self.directions[side as usize];
        let own = waits_since.zip(timeout).map_or(Tick::MAX, |(since, timeout)| clock::later(since, timeout));
        let limit = if side == Side::Read { Limit::Read } else { Limit::Write };
        let idle = self.idle.filter(|_| side == Side::Read);
        let idle = idle.map_or(Tick::MAX, |idle| clock::later(self.last_activity, idle));
        let ends = [(self.last.0, Limit::Deadline), (own, limit), (idle, Limit::Idle)];
        ends.into_iter().min_by_key(|(end, _)| *end).expect("there are three")
    }

    #[cold]
    fn exceeded(&self, limit: Limit) -> LimitExceeded {
        let length = match limit {
            Limit::Read => self.timeout(Side::Read),
            Limit::Write => self.timeout(Side::Write),
            Limit::Idle => self.idle,
            Limit::Deadline => Some(self.last.1),
        };
        LimitExceeded::new(limit, length.expect("only a limit that is set ends"))
    }

    #[inline]
    fn now(&self) -> Tick {
        self.directions[Side::Read as usize].sleep.now()
    }

    #[inline]
    fn direction(&mut self, side: Side) -> &mut Direction {
        &mut self.directions[side as usize]
    }
}

impl Direction {
    #[track_caller]
    fn new() -> Direction {
        let sleep = LazySleep::new(sleep_on(None, Tick::MAX));
        Direction { timeout: None, waits_since: None, sleep, waker: None }
    }

    /// Wakes a waiting task to poll under a changed limit.
    fn wake(&mut self) {
        // A panic would keep the other direction from being woken.
        catch_panic(|| self.waker.take().into_iter().for_each(Waker::wake));
    }
}

/// A limit of a [`TimeoutStream`](crate::io::TimeoutStream).
///
/// # Examples
///
/// ```
/// use hairspring::io::Limit;
/// assert_ne!(Limit::Read, Limit::Idle);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// How long a read may wait: see [`set_read_timeout`](crate::io::TimeoutStream::set_read_timeout).
    Read,
    /// How long a write, a flush or a shutdown may wait: see
    /// [`set_write_timeout`](crate::io::TimeoutStream::set_write_timeout).
    Write,
    /// How long the connection may be idle: see [`set_idle_timeout`](crate::io::TimeoutStream::set_idle_timeout).
    Idle,
    /// The deadline of the connection: see [`set_deadline`](crate::io::TimeoutStream::set_deadline).
    Deadline,
}

/// The error inside an [`io::Error`] of kind [`TimedOut`](io::ErrorKind::TimedOut): a limit of a
/// [`TimeoutStream`](crate::io::TimeoutStream) has passed. A `TimedOut` of the operating system does not contain it.
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, error::LimitExceeded, io::{Limit, TimeoutStream}};
/// use tokio::io::AsyncReadExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (connection, _silent_peer) = tokio::io::duplex(64);
/// let mut connection = TimeoutStream::new(connection).with_read_timeout(Duration::from_millis(5));
/// let error = connection.read_u8().await.unwrap_err();
/// let exceeded: &LimitExceeded = error.get_ref().unwrap().downcast_ref().unwrap();
/// assert_eq!(exceeded.limit(), Limit::Read);
/// assert_eq!(exceeded.length(), Duration::from_millis(5));
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitExceeded {
    limit: Limit,
    length: Duration,
}

impl LimitExceeded {
    /// Creates the error, for tests of code that handles it.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, error::LimitExceeded, io::Limit};
    /// let error: std::io::Error = LimitExceeded::new(Limit::Write, Duration::from_secs(30)).into();
    /// assert_eq!(error.to_string(), "the write timeout of 30s has passed");
    /// ```
    #[must_use]
    pub fn new(limit: Limit, length: Duration) -> LimitExceeded {
        LimitExceeded { limit, length }
    }

    /// Returns which limit has passed. If several have, this is the deadline, or else the one that passed first.
    /// For a shutdown it is always the one that passed first.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, error::LimitExceeded, io::Limit};
    /// assert_eq!(LimitExceeded::new(Limit::Idle, Duration::from_secs(60)).limit(), Limit::Idle);
    /// ```
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns how long the limit was. For [`Limit::Deadline`], that is the time since the call that set it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, error::LimitExceeded, io::Limit};
    /// assert_eq!(LimitExceeded::new(Limit::Idle, Duration::from_secs(60)).length(), Duration::from_secs(60));
    /// ```
    #[must_use]
    pub fn length(&self) -> Duration {
        self.length
    }
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.length;
        match self.limit {
            Limit::Read => write!(f, "the read timeout of {length:?} has passed"),
            Limit::Write => write!(f, "the write timeout of {length:?} has passed"),
            Limit::Idle => write!(f, "the idle timeout of {length:?} has passed"),
            Limit::Deadline => write!(f, "the connection's deadline has passed, {length:?} after it was set"),
        }
    }
}

impl error::Error for LimitExceeded {}

impl From<LimitExceeded> for io::Error {
    fn from(exceeded: LimitExceeded) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, exceeded)
    }
}
