//! A vector of sleeps that one task polls by hand.
//!
//! Each place has one waker, which notes the place. A noted place is polled whatever sleep is there by then, because a
//! poll too many does no harm.

use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use hairspring::{Instant, Sleep, sleep};
use tools::{Rng, between};

use crate::Tally;

const PAUSE: Duration = Duration::from_millis(1);
/// How many sleeps are armed, and how many are disturbed, in each pause at most.
const STEP: usize = 2_000;
const DISTURBED: usize = 500;
/// One sleep in so many is short.
const SHORT_ONE_IN: usize = 200;

/// How a wave ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// All sleeps are dropped.
    Cancel,
    /// All sleeps fire within two seconds, a twentieth of them at one instant.
    Fire,
}

type Noted = Arc<Mutex<Vec<usize>>>;

struct Place {
    number: usize,
    noted: Noted,
}

impl Wake for Place {
    fn wake(self: Arc<Self>) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

pub(crate) struct Holder {
    tally: Arc<Tally>,
    random: Rng,
    /// How many sleeps there will be.
    size: usize,
    bound: Duration,
    noted: Noted,
    /// A sleep that has fired, and was not armed again, is `None`.
    sleeps: Vec<(Option<Sleep>, Waker)>,
}

impl Holder {
    pub(crate) fn new(tally: Arc<Tally>, random: Rng, size: usize, bound: Duration) -> Self {
        Holder { tally, random, size, bound, noted: Noted::default(), sleeps: Vec::new() }
    }

    /// Arms, resets, cancels and polls sleeps until the time has come, then ends them all.
    pub(crate) async fn live(mut self, until: Instant, end: End) {
        while Instant::now() < until || self.sleeps.len() < self.size {
            self.poll_noted(true);
            for _ in 0..STEP.min(self.size - self.sleeps.len()) {
                let place = Place { number: self.sleeps.len(), noted: self.noted.clone() };
                self.sleeps.push((None, Waker::from(Arc::new(place))));
                self.arm(self.sleeps.len() - 1);
            }
            (0..DISTURBED.min(self.sleeps.len())).for_each(|_| self.disturb());
            sleep(PAUSE).await;
        }
        if let End::Fire = end {
            self.fire_all().await;
        }
    }

    /// Polls the places whose wakers were called.
    fn poll_noted(&mut self, arms_again: bool) {
        let noted = std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        for place in noted {
            if self.poll(place) && arms_again {
                self.arm(place);
            }
        }
    }

    /// Whether a sleep at this place has just ended.
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

    /// Puts a new sleep in this place, which cancels the one that is there.
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
                        && self.noted.lock().is_ok_and(|noted| !noted.contains(&place))
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

    /// Lets all sleeps fire, without a poll that their wakers have not asked for.
    async fn fire_all(&mut self) {
        let last = Instant::now() + Duration::from_millis(2_500);
        for place in 0..self.sleeps.len() {
            let deadline = match self.random.usize(..20) {
                0 => last,
                _ => Instant::now() + between(&mut self.random, 500 * PAUSE, 2_500 * PAUSE),
            };
            self.reset(place, deadline);
        }
        let given_up = last + 20 * self.bound;
        while self.sleeps.iter().any(|(sleep, _)| sleep.is_some()) {
            self.poll_noted(false);
            if Instant::now() > given_up {
                let left = self.sleeps.iter().filter(|(sleep, _)| sleep.is_some()).count();
                return self.tally.fault(&format!("{left} sleeps were not woken"));
            }
            sleep(PAUSE).await;
        }
    }
}
