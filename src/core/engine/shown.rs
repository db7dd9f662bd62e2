//! An engine whose time a test sets: it shows that time, and fires when that moves.

use super::Engine;
use crate::util::sync::atomic::Ordering::SeqCst;
use crate::wheel::{Tick, Ticks};

impl Engine {
    /// Opens a timer whose time a test sets, starting at `now`.
    pub(crate) fn open_shown(&'static self, now: Tick) {
        self.clock.shown.store(now.0, SeqCst);
        drop(self.begin(false, Ticks(0)));
        self.reach(now);
    }

    /// From now on a test sets the time. Returns `false` if the timer has ended.
    pub(crate) fn show(&'static self, now: Tick) -> bool {
        let mut state = self.parker.lock();
        if !state.is_closed() {
            self.clock.shown.store(now.0, SeqCst);
            self.stop(&mut state);
            self.reach(now);
        }
        !state.is_closed()
    }
}
