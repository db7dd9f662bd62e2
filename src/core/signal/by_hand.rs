//! A [`Signal`] on a clock that is moved by hand, or was.
//!
//! Invariant
//! 1. As long as the clock stands by hand, `armed` is tick 0 and the phase is [`WakesBy::Hand`] or a turn: nobody is woken
//!    for what is armed, as whoever moves the clock fires what is due.
//!
//! Must not know: what `signal` must not know.

use std::task::Waker;

use super::{DriverWaker, Phase, Signal, State, WakesBy};
use crate::clock::Course;
use crate::core::alarm::thread;
use crate::util::sync::atomic::Ordering::SeqCst;
use crate::wheel::Tick;

impl Signal {
    /// What the manual clock shows; `None` where the clock is the runtime's.
    pub(super) fn shown(&self) -> Option<Tick> {
        Some(Tick(self.manual.load(SeqCst))).filter(|&shown| shown < Tick::MAX)
    }

    /// How the runtime's clock goes on, where it was paused once and runs again.
    pub(super) fn course(&self) -> Option<Course> {
        Some(Course(Tick(self.course.load(SeqCst)))).filter(|&Course(from)| from > Tick::ZERO)
    }

    /// Whether the timer is on a manual clock.
    pub(crate) fn is_by_hand(&self) -> bool {
        self.shown().is_some()
    }

    /// A manual clock shows another time.
    pub(crate) fn show(&self, now: Tick) {
        self.manual.fetch_max(now.0, SeqCst);
    }

    /// A timer on a manual clock begins: nobody is woken for it, as the clock's owner fires what is due.
    pub(crate) fn open_by_hand(&self, now: Tick) {
        self.stand_by_hand(&mut self.lock(), now);
    }

    /// The clock becomes one that is moved by hand. `false` where the timer has ended.
    pub(crate) fn take_by_hand(&self, now: Tick) -> bool {
        let mut state = self.lock();
        if let Phase::Closed = state.phase {
            return false;
        }
        self.stand_by_hand(&mut state, now);
        thread::cancel(self.id);
        true
    }

    fn stand_by_hand(&self, state: &mut State, now: Tick) {
        self.manual.store(now.0, SeqCst);
        state.phase = Phase::Asleep(WakesBy::Hand);
        self.publish(Tick::ZERO, Tick::MAX);
    }

    /// The clock moves on with the system's from now on.
    pub(crate) fn run_on(&self, course: Course) {
        let state = self.lock();
        if let Phase::Closed = state.phase {
            return;
        }
        self.course.store(course.0.0, SeqCst);
        self.manual.store(u64::MAX, SeqCst);
        self.rouse(state);
    }

    /// Has `waker` woken when the timer is closed; `false` if there is more to do than wait for that.
    pub(crate) fn wait_for_close(&self, waker: &Waker) -> bool {
        if !self.is_by_hand() {
            return false;
        }
        let waker = DriverWaker { waker: waker.clone(), is_foreign: true };
        let mut state = self.lock();
        let closed = matches!(state.phase, Phase::Closed);
        let before = state.waker.replace(waker);
        let at_once = if closed { state.waker.take() } else { None };
        drop(state);
        drop(before);
        // It has been closed meanwhile: the driver sees that when it is polled again.
        at_once.into_iter().for_each(DriverWaker::wake);
        true
    }
}
