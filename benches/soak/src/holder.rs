//! A vector of sleeps that one task polls by hand.
//!
//! Each place has a waker, which queues the place. A queued place is polled even if it holds a newer sleep by then,
//! because an extra poll does no harm.

use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use hairspring::{Instant, Sleep, sleep};
use tokio::task::yield_now;
use tools::{Rng, between};

use crate::Tally;

const PAUSE: Duration = Duration::from_millis(1);
/// How many sleeps are armed after each pause at most, and how many are disturbed.
const STEP: usize = 2_000;
const DISTURBED: usize = 500;
/// One sleep in so many is short.
const SHORT_ONE_IN: usize = 200;

/// How a wave ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// Drops all sleeps.
    Cancel,
    /// Lets all sleeps fire within two seconds, a twentieth of them at one instant.
    Fire,
}

type Queue = Arc<Mutex<Vec<usize>>>;

struct Place {
    number: usize,
    queued: Queue,
}

impl Wake for Place {
    fn wake(self: Arc<Self>) {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

pub(crate) struct Holder {
    tally: Arc<Tally>,
    random: Rng,
    /// The number of sleeps to reach.
    size: usize,
    bound: Duration,
    queued: Queue,
    /// A sleep that has fired is `None` until it is armed again.
    sleeps: Vec<(Option<Sleep>, Waker)>,
}

impl Holder {
    pub(crate) fn new(tally: Arc<Tally>, random: Rng, size: usize, bound: Duration) -> Self {
        Holder { tally, random, size, bound, queued: Queue::default(), sleeps: Vec::new() }
    }

    /// Arms, resets, cancels and polls sleeps until the given time, then ends them all.
    pub(crate) async fn live(mut self, until: Instant, end: End) {
        while Instant::now() < until || self.sleeps.len() < self.size {
            self.poll_queued(true);
            for _ in 0..STEP.min(self.size - self.sleeps.len()) {
                let place = Place { number: self.sleeps.len(), queued: self.queued.clone() };
                self.sleeps.push((None, Waker::from(Arc::new(place))));
                self.arm(self.sleeps.len() - 1);
            }
            (0..DISTURBED.min(self.sleeps.len())).for_each(|_| self.disturb());
            sleep(PAUSE).await;
        }
        match end {
            End::Cancel => self.cancel_all().await,
            End::Fire => self.fire_all().await,
        }
    }

    /// Drops all sleeps, and lets the runtime look at its timers meanwhile: nothing else does.
    async fn cancel_all(&mut self) {
        while !self.sleeps.is_empty() {
            self.sleeps.truncate(self.sleeps.len().saturating_sub(STEP));
            yield_now().await;
        }
    }

    /// Polls the queued places.
    fn poll_queued(&mut self, arms_again: bool) {
        let queued = std::mem::take(&mut *self.queued.lock().unwrap_or_else(PoisonError::into_inner));
        for place in queued {
            if self.poll(place) && arms_again {
                self.arm(place);
            }
        }
    }

    /// Polls the sleep at this place. Returns whether it has just ended.
    fn poll(&mut self, place: usize) -> bool {
        let (held, waker) = &mut self.sleeps[place];
        let Some(sleep) = held else { return false };
        if Pin::new(&mut *sleep).poll(&mut Context::from_waker(waker)).is_pending() {
            return false;
        }
        self.tally.check_not_early(sleep.deadline());
        self.tally.fired.fetch_add(1, Relaxed);
        *held = None;
        true
    }

    /// Replaces the sleep at this place, which cancels the old one.
    fn arm(&mut self, place: usize) {
        let length = match self.random.usize(..SHORT_ONE_IN) {
            0 => between(&mut self.random, PAUSE, 100 * PAUSE),
            _ => between(&mut self.random, Duration::from_secs(5), Duration::from_mins(1)),
        };
        self.sleeps[place].0 = Some(sleep(length));
        self.tally.armed.fetch_add(1, Relaxed);
        self.poll(place);
    }

    fn disturb(&mut self) {
        let place = self.random.usize(..self.sleeps.len());
        match self.random.u8(..10) {
            0..5 => {
                let length = between(&mut self.random, Duration::from_secs(5), Duration::from_mins(1));
                self.reset(place, Instant::now() + length);
            }
            5..8 => self.arm(place),
            _ => {
                let was_lost = self.sleeps[place].0.as_ref().is_some_and(|sleep| {
                    Instant::now() > sleep.deadline() + self.bound
                        && self.queued.lock().is_ok_and(|queued| !queued.contains(&place))
                });
                if was_lost {
                    self.tally.fault("a sleep was not woken");
                }
                if self.poll(place) {
                    self.arm(place);
                }
            }
        }
    }

    fn reset(&mut self, place: usize, deadline: Instant) {
        if let Some(sleep) = &mut self.sleeps[place].0 {
            sleep.reset_at(deadline);
            self.tally.reset.fetch_add(1, Relaxed);
        }
    }

    /// Lets all sleeps fire. Polls only queued places, so a missing wake-up shows.
    async fn fire_all(&mut self) {
        let last = Instant::now() + Duration::from_millis(2_500);
        for place in 0..self.sleeps.len() {
            if place % STEP == 0 {
                yield_now().await;
            }
            let deadline = match self.random.usize(..20) {
                0 => last,
                _ => Instant::now() + between(&mut self.random, 500 * PAUSE, 2_500 * PAUSE),
            };
            self.reset(place, deadline);
        }
        let given_up = last + 20 * self.bound;
        while self.sleeps.iter().any(|(sleep, _)| sleep.is_some()) {
            self.poll_queued(false);
            if Instant::now() > given_up {
                let left = self.sleeps.iter().filter(|(sleep, _)| sleep.is_some()).count();
                return self.tally.fault(&format!("{left} sleeps were not woken"));
            }
            sleep(PAUSE).await;
        }
    }
}
