//! What arming and cancelling cannot do without, as long as timers have a lock and a deadline counts from now: one
//! reading of the clock, two uncontended pairs of lock and unlock, one clone and drop of the waker.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::task::Context;
use std::time::{Duration, Instant};

use crate::rival::Rival;

pub struct Floor {
    // On cache lines of its own, as the timers of one thread ought to be.
    lock: Box<Padded>,
}

#[repr(align(128))]
struct Padded(Mutex<u64>);

impl Floor {
    #[inline]
    fn lock_unlock(&self) {
        *black_box(&self.lock.0).lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

impl Rival for Floor {
    const NAME: &str = "floor: clock, 2 locks, waker";
    type Armed = ();

    fn new() -> Self {
        Floor { lock: Box::new(Padded(Mutex::new(0))) }
    }

    fn arm(&mut self, _duration: Duration, _cx: &mut Context<'_>) {}

    #[inline]
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        black_box(Instant::now() + duration);
        self.lock_unlock();
        black_box(cx.waker().clone());
        self.lock_unlock();
    }
}
