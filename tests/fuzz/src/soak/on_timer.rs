//! A timer on a manual clock.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use hairspring::test_util::ManualClock;
use hairspring::{Duration, Instant, Sleep, Timer};

use super::Rig;
use crate::clock::clock_at;

pub(super) struct OnTimer {
    clock: ManualClock,
    origin: Instant,
    timer: Timer,
    /// By the timer's number.
    sleeps: Vec<Option<(Sleep, Waker)>>,
    woken: Arc<Mutex<Vec<(usize, Instant)>>>,
}

struct Notes {
    number: usize,
    clock: ManualClock,
    woken: Arc<Mutex<Vec<(usize, Instant)>>>,
}

impl Wake for Notes {
    fn wake(self: Arc<Self>) {
        self.woken.lock().expect("nothing panics there").push((self.number, self.clock.now()));
    }
}

impl OnTimer {
    pub(super) fn new(start: u64) -> OnTimer {
        let (clock, origin) = clock_at(start);
        let timer = Timer::builder().clock(&clock).build().expect("good settings");
        OnTimer { clock, origin, timer, sleeps: Vec::new(), woken: Arc::default() }
    }

    fn tick_of(&self, instant: Instant) -> u64 {
        u64::try_from((instant - self.origin).as_nanos()).expect("there are 584 years")
    }
}

impl Rig for OnTimer {
    fn arm(&mut self, timer: usize, deadline: u64) {
        let deadline = self.origin + Duration::from_nanos(deadline);
        if self.sleeps.len() <= timer {
            self.sleeps.resize_with(timer + 1, || None);
        }
        let (sleep, waker) = self.sleeps[timer].get_or_insert_with(|| {
            let notes = Notes { number: timer, clock: self.clock.clone(), woken: Arc::clone(&self.woken) };
            (self.timer.sleep_until(deadline), Waker::from(Arc::new(notes)))
        });
        sleep.reset_at(deadline);
        let polled = Pin::new(sleep).poll(&mut Context::from_waker(waker));
        assert!(polled.is_pending(), "its deadline is ahead");
    }

    fn now(&self) -> u64 {
        self.tick_of(self.clock.now())
    }

    fn advance(&mut self, limit: u64, fired: &mut Vec<(usize, u64)>) {
        let next = self.sleeps.iter().flatten().map(|(sleep, _)| sleep).filter(|sleep| !sleep.is_elapsed());
        let next = next.map(Sleep::deadline).min().map_or(limit, |next| self.tick_of(next));
        // The earliest deadline, against which the clock is checked. The clock may not move beyond the limit.
        if next <= limit {
            assert!(self.clock.advance_to_next().is_some(), "a timer is due at {next}");
        } else {
            self.clock.advance(Duration::from_nanos(limit - self.now()));
        }
        let woken = std::mem::take(&mut *self.woken.lock().expect("nothing panics there"));
        for (timer, at) in woken {
            let (sleep, waker) = self.sleeps[timer].as_mut().expect("it was armed");
            assert!(Pin::new(sleep).poll(&mut Context::from_waker(waker)).is_ready(), "woken, and not ready");
            fired.push((timer, self.tick_of(at)));
        }
    }
}
