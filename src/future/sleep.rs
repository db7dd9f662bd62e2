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
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;

use crate::clock::{self, Instant};
use crate::core::epoch::Epoch;
use crate::core::registry;
use crate::core::shard::{EntryState, InsertError, Key, Shard, ShardLease};
use crate::future::spans::Spans;
use crate::seam::{self, TimerKind};
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
    /// The line that made this.
    made: &'static Location<'static>,
    /// Of the timer that this waits on or last waited on, or that the caller chose. Otherwise `None` before the first
    /// poll.
    shard: Option<&'static Shard>,
    /// The entry in that shard, while this waits.
    key: Key,
    marks: Marks,
    spans: Spans,
}

/// The rest of what a sleep knows, in one word so that a sleep takes 40 bytes: the epoch of its timer in the lowest bits,
/// then the [`TimerKind`] of timer that it is a part of, whether the caller chose the timer, and the stage.
#[derive(Clone, Copy)]
struct Marks(u32);

impl Marks {
    const EPOCH: u32 = (1 << Epoch::BITS) - 1;
    const KIND: u32 = 7 << Epoch::BITS;
    const CHOSEN: u32 = 1 << 29;
    const STAGE: u32 = Marks::WAITING | Marks::DONE;

    /// A stage: not registered.
    const IDLE: u32 = 0;
    /// A stage: registered with the timer, with the waker of the last poll.
    const WAITING: u32 = 1 << 30;
    /// A stage: polled and completed.
    const DONE: u32 = 1 << 31;

    fn epoch(self) -> Epoch {
        Epoch(self.0 & Marks::EPOCH)
    }

    fn kind(self) -> TimerKind {
        match (self.0 & Marks::KIND) >> Epoch::BITS {
            0 => TimerKind::Sleep,
            1 => TimerKind::Timeout,
            2 => TimerKind::Interval,
            3 => TimerKind::DelayQueue,
            _ => TimerKind::DeadlineMap,
        }
    }

    fn has(self, mark: u32) -> bool {
        self.0 & mark != 0
    }

    /// The same marks, with `value` in one of the places.
    fn with(self, place: u32, value: u32) -> Marks {
        Marks(self.0 & !place | value)
    }
}

impl Sleep {
    #[inline]
    #[track_caller]
    pub(crate) fn new(deadline: Tick) -> Sleep {
        // The first poll finds the timer. If a test holds a clock, the sleep keeps to that clock from here on.
        let timer = registry::shard_if_held();
        Sleep::at(timer, deadline)
    }

    /// A sleep on the timer that the caller chose, which does not end for want of a handle before the sleep is dropped.
    #[track_caller]
    pub(crate) fn on(timer: ShardLease, deadline: Tick) -> Sleep {
        timer.join();
        let mut sleep = Sleep::at(Some(timer), deadline);
        sleep.marks.0 |= Marks::CHOSEN;
        sleep
    }

    #[inline]
    #[track_caller]
    fn at(timer: Option<ShardLease>, deadline: Tick) -> Sleep {
        let spans = Spans::new("Sleep", || timer.and_then(ShardLease::name));
        let now = || timer.map_or_else(clock::now, ShardLease::now);
        let spans = spans.operation("Sleep::new_timeout", deadline, now);
        let marks = Marks((TimerKind::Sleep as u32) << Epoch::BITS | timer.map_or(0, |timer| timer.epoch().0));
        let shard = timer.map(ShardLease::shard);
        Sleep { deadline, made: Location::caller(), shard, key: Key::numbered(0), marks, spans }
    }

    /// The same sleep, as if it had been made on that line: that of the user's who made what it is a part of.
    pub(crate) fn made_at(mut self, line: &'static Location<'static>) -> Sleep {
        self.made = line;
        self
    }

    /// The same sleep, as part of something else.
    #[inline]
    pub(crate) fn of(mut self, kind: TimerKind) -> Sleep {
        self.marks = self.marks.with(Marks::KIND, (kind as u32) << Epoch::BITS);
        self
    }

    /// The timer that this waits on or last waited on, or that the caller chose.
    #[inline]
    fn timer(&self) -> Option<ShardLease> {
        self.shard.map(|shard| ShardLease::new(shard, self.marks.epoch()))
    }

    #[inline]
    fn set_stage(&mut self, stage: u32) {
        self.marks = self.marks.with(Marks::STAGE, stage);
    }

    /// The shard in which this is registered, and its key.
    #[inline]
    fn entry(&self) -> Option<(ShardLease, Key)> {
        if !self.is_registered() {
            return None;
        }
        Some((self.timer()?, self.key))
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
        self.marks.has(Marks::WAITING)
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
        let Some((lease, key)) = self.entry() else { return self.marks.has(Marks::DONE) };
        // An entry that neither fired nor is here is of a timer that has ended.
        lease.has_fired(self.deadline) || !lease.holds(key, self.deadline) && lease.has_come_rounded(self.deadline)
    }

    /// Sets a new deadline, whether the sleep is waiting, was never polled, or has completed.
    ///
    /// A waiting sleep goes on waiting, on the same timer: its task is woken at the new deadline without another poll,
    /// or at once if the deadline has passed. This takes a pinned sleep, as in tokio; [`reset_at`](Sleep::reset_at)
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
        self.get_mut().reset_at(deadline);
    }

    /// Sets a new deadline: [`reset`](Sleep::reset) without the pin. A [`Timeout`](crate::Timeout::reset_at), an
    /// [`Interval`](crate::Interval::reset_at), a [`boot::Sleep`](crate::boot::Sleep::reset_at) and a
    /// [`Try`](crate::Try) have a `reset_at` too, each for times on its clock.
    ///
    /// ```
    /// use hairspring::{Duration, Instant, sleep};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut sleep = sleep(Duration::from_secs(3600));
    /// sleep.reset_at(Instant::now() + Duration::from_millis(1));
    /// sleep.await;
    /// # }
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.reset_at_tick(clock::tick_of(deadline));
    }

    /// [`reset_at`](Sleep::reset_at), for a tick.
    pub(crate) fn reset_at_tick(&mut self, deadline: Tick) {
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
        self.leave(Marks::IDLE);
        self.set_deadline(deadline);
    }

    /// Stores a deadline, and records the reset in the spans if it differs.
    fn set_deadline(&mut self, deadline: Tick) {
        if deadline != self.deadline {
            self.deadline = deadline;
            self.spans = self.spans.operation("Sleep::reset", deadline, || self.now());
        }
    }

    /// Removes this from its shard, if it is in one. Leaves the stage as it is.
    #[inline]
    fn cancel(&self) {
        if let Some((lease, key)) = self.entry() {
            if !lease.has_fired(self.deadline) {
                lease.remove(key);
            }
            seam::waits_no_more(lease.address(), key);
        }
    }

    /// This waits no more.
    #[inline]
    fn leave(&mut self, stage: u32) {
        self.cancel();
        self.set_stage(stage);
    }

    /// Polls, with an error in place of a panic. If `is_spent`, this takes none of the task's budget: the caller does, or
    /// must not.
    #[inline]
    pub(crate) fn poll_elapsed(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        let elapsed = ready!(self.poll_stage(cx));
        // Only a poll that is ready takes of the task's budget, so one that waits need not ask for any.
        if !is_spent {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        if elapsed.is_ok() {
            self.set_stage(Marks::DONE);
        }
        Poll::Ready(elapsed)
    }

    #[inline]
    fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        // Moved out meanwhile, so that the poll can borrow the sleep.
        let spans = mem::take(&mut self.spans);
        let elapsed = spans.poll("poll_elapsed", || match self.marks {
            marks if marks.has(Marks::WAITING) => self.poll_waiting(cx),
            marks if marks.has(Marks::DONE) => Poll::Ready(Ok(())),
            _ => self.poll_idle(cx),
        });
        self.spans = spans;
        elapsed
    }

    // Not inlined, so that a first poll does not save the registers that this uses.
    #[inline(never)]
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let ((lease, key), deadline) = (self.entry().expect("it waits on a timer"), self.deadline);
        if lease.has_fired(deadline)
            || lease.has_come(deadline) && (!lease.rounds() || lease.has_come_rounded(deadline))
        {
            self.leave(Marks::DONE);
            return Poll::Ready(Ok(()));
        }
        match lease.set_waker(key, cx.waker()) {
            EntryState::Waiting => Poll::Pending,
            // It fired by another clock than this poll's, or just now, or because the wait was cut short: look again.
            EntryState::Fired | EntryState::Gone => {
                self.leave(Marks::IDLE);
                self.poll_idle(cx)
            }
        }
    }

    #[inline]
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let timer = if self.marks.has(Marks::CHOSEN) {
            self.timer().expect("it was chosen")
        } else {
            registry::shard_of_runtime().unwrap_or_else(|| last_or_own(self.timer()))
        };
        self.register(timer, cx)
    }

    #[inline]
    fn register(&mut self, timer: ShardLease, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if timer.is_driverless() {
            return self.register_with_own(timer, cx);
        }
        // With a resolution other tasks go first, so here only a turn can have ended it.
        if timer.has_come(self.deadline) && !timer.rounds() {
            return Poll::Ready(Ok(()));
        }
        match timer.insert(self.deadline, cx.waker().clone()) {
            Ok(key) => self.wait_on(timer, key),
            Err(InsertError::Closed) if !self.marks.has(Marks::CHOSEN) => self.poll_anew(cx),
            Err(refusal) => self.refused(timer, &refusal),
        }
    }

    /// The timer that was found has just ended, with its runtime or by a shutdown: the next poll looks for another.
    #[cold]
    fn poll_anew(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.shard = None;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Registers with the process's own timer, which never ends. A thread that delays the shutdown of its runtime must
    /// not wait there for long.
    #[cold]
    fn register_with_own(&mut self, own: ShardLease, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if own.has_come(self.deadline) {
            return Poll::Ready(Ok(()));
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
        seam::begins_to_wait(timer.address(), key, self.made, self.marks.kind());
        self.shard = Some(timer.shard());
        self.key = key;
        self.marks = self.marks.with(Marks::EPOCH | Marks::STAGE, timer.epoch().0 | Marks::WAITING);
        Poll::Pending
    }

    #[cold]
    fn refused(&mut self, timer: ShardLease, refusal: &InsertError) -> Poll<Result<(), Error>> {
        match *refusal {
            _ if timer.has_come_rounded(self.deadline) => Poll::Ready(Ok(())),
            InsertError::AlreadyDue => Poll::Ready(Ok(())),
            InsertError::Closed => Poll::Ready(Err(Error::ended(timer.name()))),
            InsertError::Full(pending) => Poll::Ready(Err(Error::full(timer.name(), pending))),
        }
    }

    /// The time on the timer's clock, or on the current runtime's before the timer is known.
    pub(crate) fn now(&self) -> Tick {
        self.timer().map_or_else(clock::now, ShardLease::now)
    }

    /// Whether a tick has come on the timer's clock. Reads no clock if it is far ahead.
    pub(crate) fn has_come(&self, tick: Tick) -> bool {
        self.timer().map_or_else(|| clock::now() >= tick, |timer| timer.has_come(tick))
    }

    /// Panics with an error for which what this is a part of has no result.
    #[cold]
    #[inline(never)]
    pub(crate) fn panic_with(&self, error: Error) -> ! {
        let (what, instead) = match self.marks.kind() {
            TimerKind::Sleep => ("sleep", "; `Timer::try_sleep` or `Try::from` returns an error instead"),
            TimerKind::Timeout => ("timeout", "; `Timer::try_timeout` returns an error instead"),
            TimerKind::Interval => ("interval", "; `Timer::try_interval` returns an error instead"),
            TimerKind::DelayQueue => ("queue", ""),
            TimerKind::DeadlineMap => ("map", ""),
        };
        panic!("{error}; the {what} was made at {}{instead}", self.made)
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
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.poll_elapsed(cx, false)) {
            Ok(()) => Poll::Ready(()),
            Err(error) => self.panic_with(error),
        }
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        self.cancel();
        if self.marks.has(Marks::CHOSEN) {
            // The timer may end, if this was the last that kept it.
            self.timer().expect("it was chosen").leave();
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.marks {
            _ if self.is_elapsed() => "elapsed",
            marks if marks.has(Marks::WAITING) => "waiting",
            _ => "idle",
        };
        f.debug_struct("Sleep").field("deadline", &self.deadline()).field("stage", &stage).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use tokio::runtime::Builder;

    use super::*;

    /// A thread finds the timer of its runtime, and the runtime ends before the thread has registered. It waited for an
    /// hour on the process's own timer, and whoever dropped the runtime waited for it.
    #[test]
    fn a_runtime_that_ends_between_the_search_and_the_registration_does_not_wait_for_the_deadline() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (found, is_found) = mpsc::channel();
        let blocked = runtime.spawn_blocking(move || {
            let timer = registry::shard_of_runtime().unwrap();
            found.send(()).unwrap();
            while timer.is_default() {
                thread::yield_now();
            }
            let mut sleep = sleep(Duration::from_secs(3_600));
            let found = sleep.register(timer, &mut Context::from_waker(std::task::Waker::noop()));
            assert!(found.is_pending());
            futures::executor::block_on(std::future::poll_fn(|cx| sleep.poll_elapsed(cx, false)))
        });
        is_found.recv().unwrap();
        drop(runtime);
        let ended = futures::executor::block_on(blocked).unwrap();
        assert!(ended.is_err_and(|error| error.is_shutdown()));
    }
}
