//! [`Expirations`]: the stream of what expired.
//!
//! Invariants
//! 1. Never early: what is handed out was due at a time that the clock has shown, and was not touched since.
//! 2. What is due is taken out one at a time, as it is handed out, so nothing is lost when this is dropped, and a slow
//!    consumer holds nothing back but what it has not asked for.
//! 3. Order: the shard with the earliest work is served, as far as no other has any before that.
//! 4. The clock is followed forwards only.
//!
//! Must not know: hashes, the wheel.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::task::coop;

use super::{Shared, endless_sleep};
use crate::future::Sleep;
use crate::wheel::Tick;

/// Holds of a shard's lock in one poll, before other tasks have their turn.
const HOLDS: usize = 64;

/// The entries of a [`DeadlineMap`](super::DeadlineMap) that expired: a stream of `(K, V)`, for one consumer.
///
/// Each entry comes once, at or after its deadline and never before, and unless it was touched, replaced or removed
/// before it was handed out. They come in the order of their deadlines; of equal ones, in any. What is due earlier but
/// inserted or touched while others are handed out may come after those.
///
/// It ends when every handle on the map was dropped and what they left has expired and been handed out. Dropping it
/// leaves the map usable; see [there](super::DeadlineMap#the-two-halves).
///
/// A poll that finds nothing due waits with a [`Sleep`] of the polling task's runtime, where there is none of the one that
/// the map was made in, or of the timer given to [`DeadlineMap::with_timer`](super::DeadlineMap::with_timer). One that finds something, or an empty map, needs none.
///
/// # Cancel safety
/// A poll that is pending has taken nothing: futures that wait on the stream can be dropped at any point.
///
/// # Panics
/// When it has to wait and a [`Sleep`] would panic: on a timer that was shut down or is
/// [full](crate::timer::Builder::capacity). The entries stay.
///
/// ```
/// use hairspring::{DeadlineMap, Duration};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let (map, mut expirations) = DeadlineMap::new();
/// map.insert("b", 2, Duration::from_millis(2));
/// map.insert("a", 1, Duration::from_millis(1));
/// drop(map);
/// assert_eq!(expirations.recv().await, Some(("a", 1)));
/// assert_eq!(expirations.recv().await, Some(("b", 2)));
/// assert_eq!(expirations.recv().await, None);
/// # }
/// ```
#[must_use = "what expires is handed out only where this is polled"]
pub struct Expirations<K, V> {
    shared: Arc<Shared<K, V>>,
    /// The latest that the clock has shown.
    now: Tick,
    /// Reaches as far as the earliest work that the last look has found. `None` while it is left with the map.
    sleep: Option<Sleep>,
    /// Whether the last poll was pending, so that a waker may have been left.
    waits: bool,
    /// Whether a clock was ever found to jump to what this waits for.
    moves_clock: bool,
}

/// What a look at the shards has found.
enum Look<T> {
    Due(T),
    /// Nothing is due before this tick; `Tick::MAX` where there is no entry.
    NothingUntil(Tick),
    /// There was too much work, and more is left.
    Interrupted,
}

impl<K, V> Expirations<K, V> {
    /// The stream of a map, which waits with `sleep`.
    pub(super) fn of(shared: Arc<Shared<K, V>>, sleep: Sleep) -> Self {
        Expirations { shared, now: Tick::ZERO, sleep: Some(sleep), waits: false, moves_clock: false }
    }

    /// Waits for the next entry that expires; `None` when there will be no more. The stream's `next`, without a trait to
    /// import.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    /// As [`Expirations`] does.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (map, mut expirations) = DeadlineMap::new();
    /// map.insert(7, "session", Duration::from_millis(1));
    /// assert_eq!(expirations.recv().await, Some((7, "session")));
    /// # }
    /// ```
    pub async fn recv(&mut self) -> Option<(K, V)> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Option<(K, V)>> {
        // By the time read last and with no waker left: where much is due, that is all it takes.
        let mut look = self.look();
        while let Look::NothingUntil(_) = look {
            self.waits = true;
            let left = self.shared.consumer.look(cx.waker().clone());
            self.sleep = left.or(self.sleep.take());
            // Read before the look, which then sees all that was ever inserted.
            let closed = self.shared.is_closed();
            self.now = self.now.max(self.shared.now());
            look = self.look();
            if let Look::NothingUntil(tick) = look {
                if closed && tick == Tick::MAX {
                    self.stop_waiting();
                    return Poll::Ready(None);
                }
                if self.poll_sleep(tick, cx).is_ready() {
                    self.now = self.now.max(tick);
                } else if self.parks_until(tick) {
                    return Poll::Pending;
                }
            }
        }
        if let Look::Due(entry) = look {
            self.stop_waiting();
            return Poll::Ready(Some(entry));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes what is due first, or finds out how long nothing will be.
    fn look(&self) -> Look<(K, V)> {
        for _ in 0..HOLDS {
            let mut first = (Tick::MAX, None);
            let mut second = Tick::MAX;
            for shard in self.shared.shards.iter() {
                let next = shard.next();
                if next < first.0 {
                    second = first.0;
                    first = (next, Some(shard));
                } else {
                    second = second.min(next);
                }
            }
            let (next, Some(shard)) = first else { return Look::NothingUntil(Tick::MAX) };
            if next > self.now {
                return Look::NothingUntil(next);
            }
            if let Some(entry) = shard.take_due(self.now.min(second)) {
                return Look::Due(entry);
            }
        }
        Look::Interrupted
    }

    fn poll_sleep(&mut self, until: Tick, cx: &mut Context<'_>) -> Poll<()> {
        // Whoever puts something off may have the one that was left with the map.
        let sleep = self.sleep.get_or_insert_with(|| endless_sleep(self.shared.timer.as_ref()));
        if until == Tick::MAX {
            sleep.disarm();
            return Poll::Pending;
        }
        sleep.reset_to_tick(until);
        // The budget is spent on what is handed out.
        Pin::new(&mut coop::unconstrained(sleep)).poll(cx)
    }

    /// `false` if the shards are to be looked at again. If a clock would jump to the sleep, it is left with the map: whoever
    /// removes or puts off what it waits for may move it.
    fn parks_until(&mut self, tick: Tick) -> bool {
        let left = self.sleep.take_if(|sleep| sleep.moves_clock());
        if left.is_some() && !std::mem::replace(&mut self.moves_clock, true) {
            self.shared.shards.move_clock();
            self.sleep = left;
            return false;
        }
        match self.shared.consumer.park(tick, left) {
            Ok(()) => true,
            Err(sleep) => {
                self.sleep = sleep.or(self.sleep.take());
                false
            }
        }
    }

    fn stop_waiting(&mut self) {
        if self.waits {
            self.waits = false;
            self.shared.consumer.stop_waiting();
        }
    }
}

impl<K, V> Stream for Expirations<K, V> {
    type Item = (K, V);

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<(K, V)>> {
        let budget = ready!(coop::poll_proceed(cx));
        let polled = self.get_mut().poll_due(cx);
        if polled.is_ready() {
            budget.made_progress();
        }
        polled
    }
}

impl<K, V> Drop for Expirations<K, V> {
    fn drop(&mut self) {
        self.shared.consumer.leave();
    }
}

impl<K, V> fmt::Debug for Expirations<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expirations").field("sleep", &self.sleep).finish_non_exhaustive()
    }
}
