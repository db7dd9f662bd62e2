//! [`Sleep`]: a future that completes at a deadline.
//
// Invariants
// 1. Never early: ready only if a clock was read at or after the deadline, here or by whoever turned the wheel.
// 2. A poll at or after the deadline is ready, whether or not the driver has turned. For a far deadline the poll relies
//    on the alarm thread instead of a clock, and may be wrong by the thread's lateness at most. With a resolution that
//    is the rounded deadline, and the first poll goes by the driver alone.
// 3. A sleep whose timer nobody chose finds one anywhere. Outside a runtime it is the one that it was on before, or else
//    the process's own, which also serves on a runtime that was shut down.
// 4. When a sleep completes, is reset or is dropped, nothing of it stays in a shard.
// 5. Only a poll that is ready spends the task's budget.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;

use crate::clock::{self, Instant};
use crate::core::place::{Kind, Place};
use crate::core::registry;
use crate::core::shard::{EntryState, InsertError, Key, ShardLease};
use crate::future::spans::Spans;
use crate::util::error::Error;
use crate::wheel::Tick;

/// Waits until `duration` has passed since this call.
///
/// Completes at or after that instant, never a nanosecond before. A zero `duration` is ready at the first poll, unless
/// the timer has a [resolution](crate::timer::Builder::resolution). A duration of more than 500 years is treated as 500
/// years.
///
/// You can make and poll it anywhere. It waits on the timer of the runtime that polls it, which needs neither
/// `enable_time` nor `enable_io`. Outside a runtime it waits on the timer that it was on before, or else on the
/// process's own timer, which threads of this crate turn.
///
/// # Cancel safety
/// Dropping the future cancels the timer and frees everything it holds at once.
///
/// # Panics
/// A poll panics if the runtime's timer is [full](crate::timer::Builder::capacity); only a timer with a limit can be.
/// Making or polling a sleep panics if it starts the first timer of the process and the system refuses a thread.
///
/// A poll in `spawn_blocking` or `block_in_place` panics if the runtime was shut down and the sleep would wait for more
/// than a second after that thread found out: dropping a runtime waits for such threads. tokio's sleeps panic there at
/// once.
///
/// ```
/// use hairspring::{Duration, Instant, sleep};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let start = Instant::now();
/// sleep(Duration::from_millis(5)).await;
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// # }
/// ```
#[inline]
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::new(clock::after(duration))
}

/// Waits until `deadline`. If it has passed, the first poll is ready, unless the timer has a
/// [resolution](crate::timer::Builder::resolution). Otherwise the same as [`sleep`].
///
/// # Panics
/// In the same cases as [`sleep`].
///
/// ```
/// use hairspring::{Duration, Instant, sleep_until};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let deadline = Instant::now() + Duration::from_millis(5);
/// sleep_until(deadline).await;
/// assert!(Instant::now() >= deadline);
/// # }
/// ```
#[inline]
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(clock::tick_of(deadline))
}

/// The future that [`sleep`] and [`sleep_until`] return.
///
/// It is `Unpin`, unlike tokio's: you can await `&mut sleep` in a `select!` again and again without pinning. Once it
/// has completed, every poll is ready until you reset it.
///
/// ```
/// use hairspring::{Duration, sleep};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut limit = sleep(Duration::from_millis(20));
/// let mut rounds = 0;
/// loop {
///     tokio::select! {
///         () = &mut limit => break,
///         () = sleep(Duration::from_millis(1)) => rounds += 1,
///     }
/// }
/// assert!(rounds <= 20 && limit.is_elapsed());
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep {
    deadline: Tick,
    /// The timer that this waits on or last waited on, or that the caller chose. Otherwise `None` before the first
    /// poll.
    timer: Option<ShardLease>,
    stage: Stage,
    spans: Spans,
}

enum Stage {
    /// Not registered.
    Idle(Place),
    /// Registered with the timer, with the waker of the last poll.
    Waiting(Key),
    /// Polled and completed.
    Done(Place),
}

impl Sleep {
    #[inline]
    #[track_caller]
    pub(crate) fn new(deadline: Tick) -> Sleep {
        // The first poll finds the timer. If a test holds a clock, the sleep keeps to that clock from here on.
        let timer = registry::shard_if_held();
        Sleep::at(timer, deadline)
    }

    /// A sleep on the timer that the caller chose.
    #[track_caller]
    pub(crate) fn on(timer: ShardLease, deadline: Tick) -> Sleep {
        Sleep::at(Some(timer.as_chosen()), deadline)
    }

    #[inline]
    #[track_caller]
    fn at(timer: Option<ShardLease>, deadline: Tick) -> Sleep {
        let spans = Spans::new("Sleep", || timer.and_then(|timer| timer.name().get())).operation("Sleep::new_timeout");
        let sleep = Sleep { deadline, timer, stage: Stage::Idle(Place::here()), spans };
        sleep.spans.due(deadline, || sleep.now());
        sleep
    }

    /// The same sleep, as part of something else.
    #[inline]
    pub(crate) fn of(mut self, kind: Kind) -> Sleep {
        if let Stage::Idle(place) = self.stage {
            self.stage = Stage::Idle(place.of(kind));
        }
        self
    }

    /// The shard in which this is registered, and its key.
    #[inline]
    fn entry(&self) -> Option<(ShardLease, Key)> {
        let Stage::Waiting(key) = self.stage else { return None };
        self.timer.map(|timer| (timer, key))
    }

    /// Returns the instant at which this completes.
    ///
    /// This is the requested instant, to the nanosecond, if it is from 50 years before to 500 years after the program's
    /// first timer. Otherwise it is the nearer of these bounds.
    ///
    /// ```
    /// use hairspring::{Duration, Instant, sleep_until};
    /// let deadline = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(sleep_until(deadline).deadline(), deadline);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        clock::instant_of(self.deadline)
    }

    /// [`deadline`](Sleep::deadline), as a tick.
    #[inline]
    pub(crate) fn tick(&self) -> Tick {
        self.deadline
    }

    /// Whether this is registered, or was when it last changed.
    #[inline]
    pub(crate) fn is_registered(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    /// Returns whether this has fired, as in tokio: whether or not it was polled since. A reset makes it `false`.
    ///
    /// A sleep is not registered before its first poll, after a reset once it has completed, or after a reset to a
    /// deadline that has passed. Then this returns `true` only after a poll that is ready. If the timer was shut down,
    /// or ended with its runtime, before the sleep fired, this returns whether the deadline has passed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, sleep};
    /// let mut limit = sleep(Duration::from_secs(1));
    /// assert!(futures::poll!(&mut limit).is_pending());
    /// assert!(!limit.is_elapsed());
    /// sleep(Duration::from_secs(2)).await;
    /// assert!(limit.is_elapsed());
    /// # }
    /// ```
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        let Some((lease, key)) = self.entry() else { return matches!(self.stage, Stage::Done(_)) };
        // An entry that neither fired nor is here was fired by a stand-in and is unconfirmed, or its timer has ended.
        lease.has_fired(self.deadline) || !lease.holds(key, self.deadline) && lease.has_come_rounded(self.deadline)
    }

    /// Sets a new deadline, whether the sleep is waiting, was never polled, or has completed.
    ///
    /// A waiting sleep goes on waiting, on the same timer: its task is woken at the new deadline without another poll,
    /// or at once if the deadline has passed. This takes a pinned sleep, as in tokio; [`reset_to`](Sleep::reset_to)
    /// needs no pin.
    ///
    /// ```
    /// use hairspring::{Duration, Instant, sleep};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut sleep = std::pin::pin!(sleep(Duration::from_secs(3600)));
    /// sleep.as_mut().reset(Instant::now() + Duration::from_millis(1));
    /// sleep.await;
    /// # }
    /// ```
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_to(deadline);
    }

    /// Sets a new deadline: [`reset`](Sleep::reset) without the pin.
    ///
    /// ```
    /// use hairspring::{Duration, Instant, sleep};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut sleep = sleep(Duration::from_secs(3600));
    /// sleep.reset_to(Instant::now() + Duration::from_millis(1));
    /// sleep.await;
    /// # }
    /// ```
    pub fn reset_to(&mut self, deadline: Instant) {
        self.reset_to_tick(clock::tick_of(deadline));
    }

    /// [`reset_to`](Sleep::reset_to), for a tick.
    pub(crate) fn reset_to_tick(&mut self, deadline: Tick) {
        if let Some((lease, key)) = self.entry() {
            // If the wait has a limit now, the task is woken to poll again, which applies it.
            let cut_short = lease.is_driverless() && registry::may_wait().is_some();
            let until = if cut_short { Tick::ZERO } else { deadline };
            if deadline == self.deadline || lease.reset(key, until) {
                self.set_deadline(deadline);
                return;
            }
        }
        self.reset_idle(deadline);
    }

    /// Sets a new deadline. Nothing is registered until the next poll.
    pub(crate) fn reset_idle(&mut self, deadline: Tick) {
        let place = self.cancel();
        self.set_deadline(deadline);
        self.stage = Stage::Idle(place);
    }

    /// Stores a deadline, and records the reset in the spans if it differs.
    fn set_deadline(&mut self, deadline: Tick) {
        if deadline != self.deadline {
            self.deadline = deadline;
            self.spans = self.spans.operation("Sleep::reset");
            self.spans.due(deadline, || self.now());
        }
    }

    /// Whether this is registered and drives a clock: one that a test has paused jumps to its deadline.
    pub(crate) fn drives_clock(&self) -> bool {
        self.entry().is_some_and(|(lease, _)| lease.drives_clock())
    }

    /// Whether this drives a clock to `deadline`.
    #[inline]
    pub(crate) fn drives_clock_to(&self, deadline: Tick) -> bool {
        deadline == self.deadline && self.drives_clock()
    }

    /// Waits for the earliest deadline of many, or for nothing if that is `Tick::MAX`.
    pub(crate) fn wait_for(&mut self, earliest: Tick) {
        if earliest < Tick::MAX {
            self.reset_to_tick(earliest);
        } else if let Stage::Waiting(..) = self.stage {
            self.reset_idle(Tick::MAX);
        }
    }

    /// Removes this from its shard, if it is in one, and returns where it was made. Leaves the stage as it is.
    #[inline]
    fn cancel(&self) -> Place {
        if let Some((lease, key)) = self.entry() {
            if !lease.has_fired(self.deadline) {
                lease.remove(key);
            }
        }
        self.leave()
    }

    /// Where this was made. It waits no more. Leaves the stage as it is.
    #[inline]
    fn leave(&self) -> Place {
        match self.stage {
            Stage::Idle(place) | Stage::Done(place) => place,
            Stage::Waiting(key) => Place::of_former(|| self.timer.map_or(0, ShardLease::address), key),
        }
    }

    /// Polls, with an error in place of a panic.
    #[inline]
    pub(crate) fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let elapsed = ready!(self.poll_stage(cx));
        // Only a poll that is ready takes of the task's budget, so one that waits need not ask for any.
        ready!(coop::poll_proceed(cx)).made_progress();
        self.end(elapsed)
    }

    /// [`poll_elapsed`](Sleep::poll_elapsed), for callers that spend the task's budget themselves.
    #[inline]
    pub(crate) fn poll_without_budget(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let elapsed = ready!(self.poll_stage(cx));
        self.end(elapsed)
    }

    fn end(&mut self, elapsed: Result<(), Error>) -> Poll<Result<(), Error>> {
        if elapsed.is_ok() {
            self.stage = Stage::Done(self.leave());
        }
        Poll::Ready(elapsed)
    }

    #[inline]
    fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        // Moved out meanwhile, so that the poll can borrow the sleep.
        let spans = mem::replace(&mut self.spans, Spans::none());
        let elapsed = spans.poll("poll_elapsed", || match self.stage {
            Stage::Idle(_) => self.poll_idle(cx),
            Stage::Waiting(key) => self.poll_waiting(key, cx),
            Stage::Done(_) => Poll::Ready(Ok(())),
        });
        self.spans = spans;
        elapsed
    }

    // Not inlined, so that a first poll does not save the registers that this uses.
    #[inline(never)]
    fn poll_waiting(&mut self, key: Key, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (lease, deadline) = (self.timer.expect("it waits on one"), self.deadline);
        if lease.has_fired(deadline) {
            return self.complete();
        }
        if lease.has_come(deadline) && (!lease.rounds() || lease.has_come_rounded(deadline)) {
            lease.remove(key);
            return self.complete();
        }
        match lease.set_waker(key, cx.waker()) {
            EntryState::Waiting => Poll::Pending,
            // It fired by another clock than this poll's, or just now, or because the wait was cut short: look again.
            EntryState::Fired | EntryState::Gone => {
                self.stage = Stage::Idle(self.leave());
                self.poll_idle(cx)
            }
        }
    }

    #[inline]
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let timer = match self.timer {
            Some(chosen) if chosen.is_chosen() => chosen,
            last => registry::shard_of_runtime().unwrap_or_else(|| last_or_own(last)),
        };
        if timer.is_driverless() {
            return self.register_with_own(timer, cx);
        }
        // With a resolution other tasks go first, so here only a turn can have ended it.
        if timer.has_come(self.deadline) && !timer.rounds() {
            return self.complete_on(timer);
        }
        match timer.insert(self.deadline, cx.waker().clone()) {
            Ok(key) => self.wait_on(timer, key),
            // The timer ended just now, with its runtime or by a shutdown.
            Err(InsertError::Closed) if !timer.is_chosen() => self.register_with_own(registry::own_shard(), cx),
            Err(refusal) => self.refused(timer, &refusal),
        }
    }

    /// Registers with the process's own timer, which never ends. A thread that delays the shutdown of its runtime must
    /// not wait there for long.
    #[cold]
    fn register_with_own(&mut self, own: ShardLease, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if own.has_come(self.deadline) {
            return self.complete_on(own);
        }
        let until = match registry::may_wait() {
            None => self.deadline,
            Some(Duration::ZERO) => return Poll::Ready(Err(Error::shutdown())),
            Some(wait) => clock::later(own.now(), wait).min(self.deadline),
        };
        match own.insert(until, cx.waker().clone()) {
            Ok(key) => self.wait_on(own, key),
            Err(InsertError::AlreadyDue) if until < self.deadline => Poll::Ready(Err(Error::shutdown())),
            Err(refusal) => self.refused(own, &refusal),
        }
    }

    #[inline]
    fn wait_on(&mut self, timer: ShardLease, key: Key) -> Poll<Result<(), Error>> {
        if let Stage::Idle(place) = self.stage {
            place.waits(timer.address(), key);
        }
        self.timer = Some(timer);
        self.stage = Stage::Waiting(key);
        Poll::Pending
    }

    #[cold]
    fn refused(&mut self, timer: ShardLease, refusal: &InsertError) -> Poll<Result<(), Error>> {
        match *refusal {
            _ if timer.has_come_rounded(self.deadline) => self.complete_on(timer),
            InsertError::AlreadyDue => self.complete_on(timer),
            InsertError::Closed => Poll::Ready(Err(Error::ended(timer.name()))),
            InsertError::Full(pending) => Poll::Ready(Err(Error::full(timer.name(), pending))),
        }
    }

    fn complete_on(&mut self, timer: ShardLease) -> Poll<Result<(), Error>> {
        self.timer = Some(timer);
        Poll::Ready(Ok(()))
    }

    /// The time on the timer's clock, or on the current runtime's before the timer is known.
    pub(crate) fn now(&self) -> Tick {
        self.timer.map_or_else(clock::now, ShardLease::now)
    }

    /// Whether a tick has come on the timer's clock. Reads no clock if it is far ahead.
    pub(crate) fn has_come(&self, tick: Tick) -> bool {
        self.timer.map_or_else(|| clock::now() >= tick, |timer| timer.has_come(tick))
    }

    fn complete(&mut self) -> Poll<Result<(), Error>> {
        self.stage = Stage::Done(self.leave());
        Poll::Ready(Ok(()))
    }
}

/// For a poll outside a runtime: the timer that the sleep last waited on, or else the process's own.
#[cold]
fn last_or_own(last: Option<ShardLease>) -> ShardLease {
    last.unwrap_or_else(registry::own_shard)
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.get_mut().poll_elapsed(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        self.cancel();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            _ if self.is_elapsed() => "elapsed",
            Stage::Waiting(_) => "waiting",
            Stage::Idle(_) | Stage::Done(_) => "idle",
        };
        f.debug_struct("Sleep").field("deadline", &self.deadline()).field("stage", &stage).finish_non_exhaustive()
    }
}
