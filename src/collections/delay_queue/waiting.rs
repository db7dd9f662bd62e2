//! How a queue waits for its earliest entry, and which changes wake the task that polled last.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use futures_core::Stream;
use tokio::task::coop;

use super::{DelayQueue, Expired, Key};
use crate::wheel::{Step, Tick};

/// How many entries are handed out before the clock is read again.
const PER_LOOK: u32 = 64;

/// How many entries of the wheel one poll moves, at most: about a millisecond's work.
const MOVES: u64 = 16_384;

/// What the last poll returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastPoll {
    /// An entry. Also before the first poll, and once the poller was woken: it will poll again.
    Ready,
    /// Pending. The poller is woken at `until` at the latest.
    Pending { until: Tick },
    /// `None`: the queue was empty.
    Empty,
}

impl<T> DelayQueue<T> {
    /// Polls for the next entry whose deadline has passed. Returns `None` if the queue is empty, and is pending if
    /// there are entries but none is due.
    ///
    /// Each entry that comes out spends one unit of the task's budget, as in tokio-util. If the budget is spent, the
    /// poll is pending and the task soon runs again. The same happens if a poll finds tens of thousands of unordered
    /// entries near the present, which it sorts in parts.
    ///
    /// # Panics
    /// If it has to wait and the queue's timer was shut down or is [full](crate::timer::Builder::capacity). The entries
    /// stay in the queue.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::from_millis(1));
    /// let expired = std::future::poll_fn(|cx| queue.poll_expired(cx)).await;
    /// assert_eq!(expired.unwrap().into_inner(), 'x');
    /// # }
    /// ```
    #[track_caller]
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.remember(cx.waker());
        if self.wheel.is_empty() {
            self.sleep.wait_for(Tick::MAX);
            self.last_poll = LastPoll::Empty;
            return Poll::Ready(None);
        }
        self.last_poll = LastPoll::Ready;
        let budget = ready!(coop::poll_proceed(cx));
        let expired = ready!(self.poll_due(cx));
        budget.made_progress();
        Poll::Ready(Some(expired))
    }

    /// Hands out the first entry as soon as it is due. There must be an entry.
    #[track_caller]
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Expired<T>> {
        if self.handed_out >= PER_LOOK {
            self.look();
        }
        let moved = self.wheel.cascaded();
        loop {
            match self.wheel.step(self.now) {
                Step::Fired { key, deadline, value } => {
                    self.handed_out += 1;
                    self.expired += 1;
                    return Poll::Ready(Expired::new(Key(key), deadline, value));
                }
                Step::Cascaded if self.wheel.cascaded() - moved >= MOVES => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Step::Cascaded => {}
                Step::Done => {
                    let next = self.wheel.next_expiration().expect("there is an entry");
                    self.sleep.reset_to_tick(next);
                    match self.sleep.poll_without_budget(cx) {
                        Poll::Ready(Ok(())) => {
                            self.now = self.now.max(next);
                            self.look();
                        }
                        Poll::Ready(Err(error)) => self.sleep.panic_with(error),
                        Poll::Pending => {
                            self.last_poll = LastPoll::Pending { until: next };
                            self.drives_clock = self.sleep.drives_clock();
                            return Poll::Pending;
                        }
                    }
                }
            }
        }
    }

    /// An entry was inserted.
    #[inline]
    pub(super) fn wake_if_earlier(&mut self, deadline: Tick) {
        match self.last_poll {
            LastPoll::Pending { until } if until <= deadline => {}
            LastPoll::Ready => {}
            LastPoll::Pending { .. } | LastPoll::Empty => self.wake_poller(),
        }
    }

    /// The deadline of an entry has changed.
    pub(super) fn wake_if_reset(&mut self, before: Tick, deadline: Tick) {
        let LastPoll::Pending { until } = self.last_poll else { return };
        // If the poller waits for this entry and it is still the first, it is woken once, as in tokio-util. If another
        // entry is the first now, the poller sees it when it wakes at `until`.
        let is_awaited = before == until && before != deadline && self.wheel.next_expiration() == Some(deadline);
        if deadline < until || is_awaited {
            self.wake_poller();
        }
    }

    /// The tick at which an entry goes into the wheel. As long as entries may be left that were due when the clock was
    /// last read, an entry with a deadline in the past goes behind them. Otherwise it keeps its deadline, and the wheel
    /// keeps that order by itself.
    #[inline]
    pub(super) fn behind_what_is_due(&self, deadline: Tick) -> Tick {
        if self.wheel.elapsed() < self.now { deadline.max(self.now) } else { deadline }
    }

    /// Reads the clock.
    fn look(&mut self) {
        self.now = self.now.max(self.sleep.now());
        self.handed_out = 0;
    }

    fn remember(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Wakes the last poller unless it will poll again anyway.
    #[inline]
    pub(super) fn wake_poller(&mut self) {
        if self.last_poll != LastPoll::Ready {
            self.last_poll = LastPoll::Ready;
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// An entry that was due at `before` was removed or put off. If the sleep drives a clock, it must not still wait
    /// for this entry.
    #[inline]
    pub(super) fn put_off(&mut self, before: Tick) {
        if self.drives_clock || self.sleep.drives_clock_to(before) {
            self.wait_anew();
        }
    }

    #[cold]
    fn wait_anew(&mut self) {
        let earliest = self.wheel.next_expiration().unwrap_or(Tick::MAX);
        self.sleep.wait_for(earliest);
        if let LastPoll::Pending { until } = &mut self.last_poll {
            *until = earliest;
        }
    }

    /// The queue has become empty.
    pub(super) fn end_wait(&mut self) {
        self.sleep.wait_for(Tick::MAX);
        self.wake_poller();
    }
}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(cx)
    }
}
