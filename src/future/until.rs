//! [`Until`]: waits until a clock that jumps has come to a time.
//!
//! It waits on an ordinary sleep, for as long as the clock has to go if it does not jump, and looks at the clock again
//! if it does.
//
// Invariants
// 1. Never early: ready only if the clock was read at or after the deadline.
// 2. It begins to wait for jumps before it last reads the clock, so it misses none.
// 3. When it completes or is dropped, nothing of it stays behind.

use std::task::{Context, Poll, ready};

use tokio::task::coop;

use crate::clock;
use crate::clock::jumping::Jumping;
use crate::clock::reading::Reading;
use crate::core::jumps::Waiter;
use crate::future::Sleep;
use crate::wheel::{Tick, Ticks};

/// Two computations of when the deadline comes differ by the time between two readings. Up to this, the sleep stays.
const SLACK: Ticks = Ticks(1_000);

#[derive(Debug)]
pub(crate) struct Until {
    clock: Jumping,
    deadline: Reading,
    sleep: Sleep,
    /// When the sleep ends.
    end: Tick,
    waiter: Waiter,
    has_completed: bool,
}

impl Until {
    #[track_caller]
    pub(crate) fn new(clock: Jumping, deadline: Reading) -> Until {
        let end = due(clock.read(clock::now), deadline);
        Until { clock, deadline, sleep: Sleep::new(end), end, waiter: Waiter::default(), has_completed: false }
    }

    pub(crate) fn deadline(&self) -> Reading {
        self.deadline
    }

    /// The reading, by the clock of the timer that this waits on.
    pub(crate) fn now(&self) -> Reading {
        self.read().1
    }

    fn read(&self) -> (Tick, Reading) {
        self.clock.read(|| self.sleep.now())
    }

    /// Whether the clock has come to the deadline.
    pub(crate) fn is_elapsed(&self) -> bool {
        self.has_completed || self.now() >= self.deadline
    }

    /// Sets a new deadline. A task that waits is woken then, without another poll.
    pub(crate) fn reset(&mut self, deadline: Reading) {
        self.deadline = deadline;
        self.has_completed = false;
        self.sleep_until(due(self.read(), deadline));
    }

    fn sleep_until(&mut self, end: Tick) {
        self.end = end;
        self.sleep.reset_to_tick(end);
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_completed {
            ready!(self.poll_clock(cx));
        }
        // As in a sleep, only a poll that is ready takes of the task's budget.
        ready!(coop::poll_proceed(cx)).made_progress();
        self.has_completed = true;
        Poll::Ready(())
    }

    fn poll_clock(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.now() < self.deadline {
            self.waiter.wait(cx.waker());
            ready!(self.poll_sleep(cx));
        }
        self.waiter.leave();
        self.sleep.reset_idle(self.end);
        Poll::Ready(())
    }

    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let read = self.read();
            if read.1 >= self.deadline {
                return Poll::Ready(());
            }
            let end = due(read, self.deadline);
            // It also has to be set anew if it has ended too early, as after a clock was set back.
            if end.0.abs_diff(self.end.0) > SLACK.0 || self.end <= read.0 {
                self.sleep_until(end);
            }
            if let Err(error) = ready!(self.sleep.poll_without_budget(cx)) {
                self.sleep.panic_with(error);
            }
        }
    }
}

/// When the clock comes to `deadline` if it does not jump.
fn due((tick, reading): (Tick, Reading), deadline: Reading) -> Tick {
    clock::later(tick, deadline.since(reading))
}
