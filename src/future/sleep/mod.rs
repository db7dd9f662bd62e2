//! [`Sleep`]: a future that completes at a deadline.
//
// Invariants
// 1. Never early: a turn has read a clock at or after the deadline.
// 2. No poll reads a clock. A sleep is over once a turn has fired it, or at its first poll if a turn has reached the
//    deadline.
// 3. A sleep without a chosen timer finds one anywhere, except in a runtime that has ended.
//    Outside a runtime it is the timer the sleep was on before, or the process's own.
// 4. A sleep that completed or was dropped leaves nothing in a shard.
// 5. Only a ready poll spends the task's budget.
// 6. A completed sleep that is no part of another item keeps the waker of its last poll until it is reset or dropped.

mod place;
mod poll;

use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::Waker;
use std::time::Duration;

pub(crate) use self::place::ItemKind;
use self::place::{Flags, Place};
use crate::clock::instant::FAR_FUTURE;
use crate::clock::{self, Hooks, Instant};
use crate::core::epoch::Epoch;
use crate::core::shard::{Key, ShardLease};
use crate::core::thread_shards;
use crate::future::TrySleep;
use crate::future::delay::Delay;
use crate::future::spans::Spans;
use crate::timer::Timer;
use crate::wheel::Tick;

pub(crate) trait WaitHooks {
    /// An entry of the shard at an address begins to wait. `made` is where the user's code created it.
    #[inline]
    fn begins_to_wait(_shard: usize, _: Key, _made: &'static Location<'static>, _: ItemKind) {}

    #[inline]
    fn waits_no_more(_shard: usize, _: Key) {}
}

#[cfg(not(feature = "test-util"))]
impl WaitHooks for Hooks {}

/// This much lateness counts as on time, as in tokio.
const ON_TIME: Duration = Duration::from_millis(5);

/// Waits until `duration` has passed since this call.
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
///
/// The time counts from the call, not from the first poll. The sleep never completes early. It completes once the
/// runtime has polled for I/O after the deadline. So with a zero `duration` the first poll is pending, and other
/// tasks run before the next, as with tokio; that takes tens of microseconds. A sleep of more than 500 years ends after
/// 500.
///
/// A sleep can be created and polled anywhere. On a runtime it waits on that runtime's timer, which needs neither
/// `enable_time` nor `enable_io`. Elsewhere it waits on the timer that it was on before, or on the process's own timer,
/// which runs on a thread of this crate.
///
/// # Cancel safety
///
/// Dropping the future cancels the timer and frees everything it holds immediately.
///
/// # Panics
///
/// - Creating or polling a sleep panics if it starts the process's first timer and the system cannot start a
///   thread.
/// - Polling panics if the sleep has to wait and the current runtime has been shut down, as with tokio. Code may still
///   run there on threads of `spawn_blocking` and `block_in_place`, and in `block_on` and `enter` of its
///   [`Handle`](tokio::runtime::Handle).
#[inline]
#[track_caller]
#[doc(alias = "setTimeout")]
#[doc(alias = "delay_for")]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::new(clock::after(duration.min(FAR_FUTURE)))
}

/// The sleep of a limit. One of more than 500 years has no timer.
#[inline]
#[track_caller]
pub(crate) fn limit(duration: Duration) -> Sleep {
    Sleep::new(clock::after(duration))
}

/// Waits until `deadline`. If that has passed, the first poll is usually still pending, and the sleep completes after the
/// runtime's next poll for I/O. See [`sleep`].
///
/// # Examples
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
#[doc(alias = "delay_until")]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(clock::tick_of(deadline))
}

/// A sleep on the given timer, or without one on the timer of the runtime that polls it.
#[track_caller]
pub(crate) fn sleep_on(timer: Option<&Timer>, deadline: Tick) -> Sleep {
    sleep_made_at(timer, deadline, Location::caller())
}

/// [`sleep_on`], attributed to the line of user's code that created the owner of the sleep.
pub(crate) fn sleep_made_at(timer: Option<&Timer>, deadline: Tick, made: &'static Location<'static>) -> Sleep {
    match timer {
        Some(timer) => Sleep::on(thread_shards::shard_of(timer.lease), deadline, made),
        None => Sleep::made_at(deadline, made),
    }
}

/// The future that [`sleep`] and [`sleep_until`] return.
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
///
/// Unlike tokio's it is `Unpin`, so you can keep it in a field, await `&mut sleep` repeatedly, and give it a new
/// deadline with [`reset_at`](Sleep::reset_at), all without pinning. Once it has completed, every poll is ready until
/// you reset it.
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[doc(alias = "Delay")]
pub struct Sleep {
    deadline: Tick,
    made: &'static Location<'static>,
    place: Place,
    spans: Spans,
}

impl Sleep {
    #[inline]
    #[track_caller]
    pub(crate) fn new(deadline: Tick) -> Sleep {
        Sleep::made_at(deadline, Location::caller())
    }

    /// A sleep that the line `made` of user's code created.
    #[inline]
    pub(crate) fn made_at(deadline: Tick, made: &'static Location<'static>) -> Sleep {
        // The first poll finds the timer, unless a test controls a clock. Then the sleep belongs to the current clock
        // from here on.
        Sleep::at(thread_shards::shard_if_held(), deadline, made)
    }

    /// A sleep on the timer that the caller chose. It keeps the timer alive.
    pub(crate) fn on(timer: ShardLease, deadline: Tick, made: &'static Location<'static>) -> Sleep {
        timer.join();
        let mut sleep = Sleep::at(Some(timer), deadline, made);
        sleep.place.set_flags(0, Flags::CHOSEN);
        sleep
    }

    #[inline]
    fn at(timer: Option<ShardLease>, deadline: Tick, made: &'static Location<'static>) -> Sleep {
        let spans = Spans::new("Sleep", made, || timer.and_then(ShardLease::name));
        let now = || timer.map_or_else(clock::now, ShardLease::now);
        let spans = spans.operation("Sleep::new_timeout", deadline, now);
        let flags = Flags::of((ItemKind::Sleep as u32) << Epoch::BITS | timer.map_or(0, |timer| timer.epoch().0));
        let shard = timer.map(ShardLease::shard);
        Sleep { deadline, made, place: Place::Timer { shard, key: Key::numbered(0), flags }, spans }
    }

    /// The same sleep on another timer, until `deadline`.
    pub(crate) fn moved_to(&self, timer: &Timer, deadline: Tick) -> Sleep {
        let mut moved = sleep_made_at(Some(timer), deadline, self.made).part_of(self.flags().kind());
        if self.flags().has(Flags::DONE) {
            moved.set_stage(Flags::DONE);
        }
        moved
    }

    /// The same sleep, as part of another item.
    #[inline]
    pub(crate) fn part_of(mut self, kind: ItemKind) -> Sleep {
        self.place.set_flags(Flags::KIND, (kind as u32) << Epoch::BITS);
        self
    }

    #[inline]
    fn flags(&self) -> Flags {
        self.place.flags()
    }

    #[inline]
    fn timer(&self) -> Option<ShardLease> {
        self.place.shard().map(|shard| ShardLease::new(shard, self.flags().epoch()))
    }

    #[inline]
    fn set_stage(&mut self, stage: u32) {
        self.place.set_flags(Flags::STAGE, stage);
    }

    /// The shard in which this is registered, and its key there.
    #[inline]
    fn entry(&self) -> Option<(ShardLease, Key)> {
        match self.place {
            Place::Timer { shard: Some(shard), key, flags } if flags.has(Flags::WAITING) => {
                Some((ShardLease::new(shard, flags.epoch()), key))
            }
            _ => None,
        }
    }

    /// Returns the same sleep with errors in place of panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, sleep};
    /// assert_eq!(sleep(Duration::from_millis(1)).fallible().await, Ok(()));
    /// # }
    /// ```
    pub fn fallible(self) -> TrySleep {
        TrySleep::over(self)
    }

    /// Returns the instant at which this completes.
    ///
    /// If the requested instant is from 50 years before to about 530 years after the program's first timer, this is
    /// exactly that instant. Otherwise it is the nearer of these bounds.
    ///
    /// # Examples
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

    #[inline]
    pub(crate) fn tick(&self) -> Tick {
        self.deadline
    }

    /// Whether this is registered, or was when it last changed.
    #[inline]
    pub(crate) fn is_registered(&self) -> bool {
        self.flags().has(Flags::WAITING)
    }

    /// Whether it waits on a timer whose driver notices removals, because a test has paused its clock.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.entry().is_some_and(|(lease, _)| lease.shard().publishes_removals())
    }

    /// Returns whether this has fired, whether or not it was polled since. As in tokio, a sleep that was not polled yet
    /// has not fired, and one that completed has until the next reset.
    ///
    /// # Examples
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
        self.flags().has(Flags::DONE)
            || self.entry().is_some_and(|(lease, key)| lease.entry_has_fired(key, self.deadline))
    }

    /// Sets a new deadline, in any state: waiting, never polled, or completed.
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
    ///
    /// The task of the last poll is woken at the new deadline without another poll, or immediately if the deadline has
    /// passed. A waiting sleep stays on its timer. A completed one waits on the timer of the runtime that resets it,
    /// unless it is on a timer that you chose. This method takes a pinned sleep, as tokio's does;
    /// [`reset_at`](Sleep::reset_at) needs no pin.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_at(deadline);
    }

    /// Sets a new deadline, as [`reset`](Sleep::reset) does, without pinning. A [`Timeout`](crate::Timeout::reset_at),
    /// an [`Interval`](crate::Interval::reset_at), a [`boot::Sleep`](crate::boot::Sleep::reset_at) and a
    /// [`TrySleep`](crate::TrySleep) also have a `reset_at`.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Instant, sleep};
    ///
    /// const SILENCE: Duration = Duration::from_millis(5);
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let (sender, mut lines) = tokio::sync::mpsc::channel(8);
    /// # sender.send("one").await.unwrap();
    /// let mut silence = sleep(SILENCE);
    /// loop {
    ///     tokio::select! {
    ///         biased; // a line that has arrived wins, however late this task is
    ///         Some(_) = lines.recv() => silence.reset_at(Instant::now() + SILENCE),
    ///         () = &mut silence => break,
    ///     }
    /// }
    /// # }
    /// ```
    #[doc(alias = "postpone")]
    pub fn reset_at(&mut self, deadline: Instant) {
        self.reset_at_tick(clock::tick_of(deadline));
    }

    pub(crate) fn reset_at_tick(&mut self, deadline: Tick) {
        if let Some((lease, key)) = self.entry() {
            if deadline == self.deadline || lease.reset(key, deadline, self.flags().has(Flags::ENDING)) {
                self.set_deadline(deadline);
                return;
            }
        }
        let kept = self.place.let_go();
        // Asked first: one that waits is on its timer until it leaves.
        let has_come = self.has_come(deadline);
        self.reset_idle(deadline);
        if has_come {
            self.set_stage(Flags::DONE);
        }
        if let Some(waker) = kept {
            self.wait_for(waker);
        }
    }

    /// Keeps the waker of the poll that has completed this, until the next reset.
    pub(crate) fn keep(&mut self, waker: &Waker) {
        self.place.keep(waker);
    }

    /// Takes out the waker that this keeps.
    pub(crate) fn let_go(&mut self) -> Option<Waker> {
        self.place.let_go()
    }

    /// Sets a new deadline without registering it.
    pub(crate) fn reset_idle(&mut self, deadline: Tick) {
        drop(self.place.let_go());
        self.leave(Flags::IDLE);
        self.set_deadline(deadline);
    }

    fn set_deadline(&mut self, deadline: Tick) {
        if deadline != self.deadline {
            self.deadline = deadline;
            self.spans = self.spans.operation("Sleep::reset", deadline, || self.now());
        }
    }

    /// Removes this from its shard, without changing the stage. Returns its waker, whose drop may panic.
    #[inline]
    fn cancel(&self) -> Option<Waker> {
        let (lease, key) = self.entry()?;
        let waker = if lease.has_fired(self.deadline) { None } else { lease.remove(key) };
        Hooks::waits_no_more(lease.address(), key);
        waker
    }

    #[inline]
    fn leave(&mut self, stage: u32) {
        let waker = self.cancel();
        self.set_stage(stage);
        drop(waker);
    }

    /// Zero for a lateness that counts as on time.
    pub(crate) fn unless_on_time(&self, late: Duration) -> Duration {
        let on_time = late <= ON_TIME || self.timer().is_some_and(|timer| late <= clock::duration_of(timer.delays()));
        if on_time { Duration::ZERO } else { late }
    }

    pub(crate) fn now(&self) -> Tick {
        self.timer().map_or_else(clock::now, ShardLease::now)
    }

    /// Whether a turn has reached a tick, so that a sleep until then would be ready.
    fn has_come(&self, tick: Tick) -> bool {
        self.timer_here().is_some_and(|timer| timer.is_reached(tick))
    }

    /// The last tick that a turn has reached; tick 0 outside runtimes, unless this waits or was given a timer.
    pub(crate) fn reached(&self) -> Tick {
        self.timer_here().map_or(Tick::ZERO, ShardLease::reached)
    }

    /// The timer that a poll here waits on. The one before may have been another runtime's, whose clock is ahead.
    fn timer_here(&self) -> Option<ShardLease> {
        if self.flags().has(Flags::WAITING | Flags::CHOSEN) {
            self.timer()
        } else {
            thread_shards::shard_of_runtime().ok()
        }
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        let _waker = self.cancel();
        if self.flags().has(Flags::CHOSEN) {
            // If this was the last to use the timer, it ends.
            self.timer().expect("it was chosen").leave();
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.flags() {
            _ if self.is_elapsed() => "elapsed",
            flags if flags.has(Flags::WAITING) => "waiting",
            _ => "idle",
        };
        f.debug_struct("Sleep").field("deadline", &self.deadline()).field("stage", &stage).finish_non_exhaustive()
    }
}
