//! The load: one task holds many sleeps and polls them by hand.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use hairspring::timer::Metrics;
use hairspring::{Instant, Sleep, Timer};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::coop;
use tools::Rng;

use crate::lateness::Lateness;

/// The range of lengths. Each decade is equally likely.
pub(crate) const SHORTEST: Duration = Duration::from_millis(10);
pub(crate) const LONGEST: Duration = Duration::from_secs(100);

const ROUND: Duration = Duration::from_millis(1);
/// A round adds or removes at most this many sleeps.
const STEP: usize = 5_000;

pub(crate) struct Load {
    /// How many sleeps there are.
    pub(crate) population: watch::Sender<usize>,
    pub(crate) lateness: Lateness,
    timer: Timer,
}

impl Load {
    pub(crate) fn start(runtime: &Runtime) -> Self {
        let _context = runtime.enter();
        let (timer, lateness) = (Timer::current(), Lateness::default());
        let (population, current) = watch::channel(1_000);
        let fired = Arc::default();
        let mut holder = Holder {
            timer: timer.clone(),
            lateness: lateness.clone(),
            places: Vec::new(),
            fired,
            random: Rng::with_seed(1),
        };
        // It polls more sleeps in a row than a task's budget allows, and yields by itself.
        runtime.spawn(coop::unconstrained(async move {
            loop {
                let population = *current.borrow();
                holder.follow(population);
                // tokio's sleep, to keep it out of the counts
                tokio::time::sleep(ROUND).await;
            }
        }));
        Load { population, lateness, timer }
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.timer.metrics()
    }
}

struct Holder {
    timer: Timer,
    lateness: Lateness,
    /// Each sleep, and a waker that notes its place as fired.
    places: Vec<(Sleep, Waker)>,
    fired: Arc<Fired>,
    random: Rng,
}

/// The places whose sleeps have fired, and when.
type Fired = Mutex<Vec<(usize, Instant)>>;

struct Place {
    number: usize,
    fired: Arc<Fired>,
}

impl Wake for Place {
    fn wake(self: Arc<Self>) {
        self.fired.lock().unwrap_or_else(PoisonError::into_inner).push((self.number, Instant::now()));
    }
}

impl Holder {
    fn follow(&mut self, population: usize) {
        let fired = mem::take(&mut *self.fired.lock().unwrap_or_else(PoisonError::into_inner));
        let mut late = Vec::new();
        for (place, at) in fired {
            // The place may be gone, or have a new sleep.
            if place < self.places.len() && self.poll(place) {
                late.push(at.saturating_duration_since(self.places[place].0.deadline()));
                self.arm(place);
                // For each sleep that fires, another one is cancelled.
                let other = self.random.usize(..self.places.len());
                self.places[other].0 = self.timer.sleep(Duration::ZERO);
                self.arm(other);
            }
        }
        self.lateness.record(late);

        let size = self.places.len();
        for number in size..population.min(size + STEP) {
            let waker = Waker::from(Arc::new(Place { number, fired: Arc::clone(&self.fired) }));
            self.places.push((self.timer.sleep(Duration::ZERO), waker));
            self.arm(number);
        }
        self.places.truncate(population.max(size.saturating_sub(STEP)));
    }

    /// Gives a sleep a new deadline, and polls it to register it.
    fn arm(&mut self, place: usize) {
        loop {
            let share = LONGEST.div_duration_f64(SHORTEST).powf(self.random.f64());
            self.places[place].0.reset_at(Instant::now() + SHORTEST.mul_f64(share));
            // If the thread was delayed, the sleep may be over already.
            if !self.poll(place) {
                break;
            }
        }
    }

    /// Whether the sleep has ended.
    fn poll(&mut self, place: usize) -> bool {
        let (sleep, waker) = &mut self.places[place];
        Pin::new(sleep).poll(&mut Context::from_waker(waker)).is_ready()
    }
}
