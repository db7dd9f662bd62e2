//! The load: sleeps that a task holds and polls by hand, as a server holds those of its connections.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use hairspring::timer::Metrics;
use hairspring::{Instant, Sleep, Timer};
use ratatui::crossterm::event::KeyEvent;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::{JoinHandle, coop};
use tools::Rng;

use crate::settings::{BURST, Settings};

const ROUND: Duration = Duration::from_millis(1);
/// How many sleeps come or go in a round at most, and how many are cancelled.
const STEP: usize = 5_000;
/// How long before it the sleeps of a burst are armed.
const BEFORE_BURST: Duration = Duration::from_secs(1);

/// A handle on the load.
pub(crate) struct Load {
    settings: watch::Sender<Settings>,
    timer: Timer,
    task: JoinHandle<()>,
}

impl Load {
    pub(crate) fn start(runtime: &Runtime) -> Self {
        let _context = runtime.enter();
        let timer = Timer::current();
        let (settings, current) = watch::channel(Settings::default());
        // It polls more in a row than a task's budget is for, and yields by itself.
        let task = runtime.spawn(coop::unconstrained(carry(current, timer.clone())));
        Load { settings, timer, task }
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.timer.metrics()
    }

    pub(crate) fn settings(&self) -> Settings {
        *self.settings.borrow()
    }

    /// Does what a key asks for. Returns whether that is to quit.
    pub(crate) fn press(&self, key: KeyEvent) -> bool {
        let mut quits = false;
        self.settings.send_modify(|settings| quits = settings.press(key));
        quits
    }

    /// Fails if the task has ended: it goes on for ever, unless it panics.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.task.is_finished() { Err("the load has panicked") } else { Ok(()) }
    }
}

async fn carry(settings: watch::Receiver<Settings>, timer: Timer) {
    let mut holder = Holder::new(timer);
    loop {
        let settings = *settings.borrow();
        holder.follow(&settings);
        // Tokio's sleep, so that the timer shown has the load only.
        tokio::time::sleep(ROUND).await;
    }
}

/// Holds the sleeps. Each place has a waker, which says that the sleep there has fired.
struct Holder {
    timer: Timer,
    sleeps: Vec<Sleep>,
    wakers: Vec<Waker>,
    fired: Arc<Inbox>,
    random: Rng,
    /// How many are to be cancelled, for the share to be right.
    owed: usize,
    bursts: Vec<Burst>,
    bursts_seen: u32,
    storms_seen: u32,
}

type Inbox = Mutex<Vec<usize>>;

struct Place {
    number: usize,
    fired: Arc<Inbox>,
}

impl Wake for Place {
    fn wake(self: Arc<Self>) {
        self.fired.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

/// Sleeps that are all due in one tick, kept until they have fired.
struct Burst {
    deadline: Instant,
    _sleeps: Vec<Sleep>,
}

impl Holder {
    fn new(timer: Timer) -> Self {
        Holder {
            timer,
            sleeps: Vec::new(),
            wakers: Vec::new(),
            fired: Arc::default(),
            random: Rng::with_seed(1),
            owed: 0,
            bursts: Vec::new(),
            bursts_seen: 0,
            storms_seen: 0,
        }
    }

    /// Does a round of what the settings say.
    fn follow(&mut self, settings: &Settings) {
        self.bursts.retain(|burst| burst.deadline + BEFORE_BURST > Instant::now());
        if settings.is_paused {
            return;
        }
        self.take_fired(settings);
        self.resize(settings);
        self.cancel_some(settings);
        if mem::replace(&mut self.bursts_seen, settings.bursts) != settings.bursts {
            self.burst();
        }
        if mem::replace(&mut self.storms_seen, settings.storms) != settings.storms {
            for place in 0..self.sleeps.len() {
                self.arm(place, settings);
            }
        }
    }

    fn take_fired(&mut self, settings: &Settings) {
        let fired = mem::take(&mut *self.fired.lock().unwrap_or_else(PoisonError::into_inner));
        for place in fired {
            // It may have been reset since, or be gone.
            if place < self.sleeps.len() && self.poll(place) {
                self.arm(place, settings);
                let cancelled = usize::from(settings.cancelled());
                self.owed += cancelled / (100 - cancelled);
            }
        }
    }

    fn resize(&mut self, settings: &Settings) {
        let size = settings.population();
        for place in self.sleeps.len()..size.min(self.sleeps.len() + STEP) {
            if place == self.wakers.len() {
                self.wakers.push(Waker::from(Arc::new(Place { number: place, fired: Arc::clone(&self.fired) })));
            }
            self.sleeps.push(self.timer.sleep(Duration::ZERO));
            self.arm(place, settings);
        }
        self.sleeps.truncate(size.max(self.sleeps.len().saturating_sub(STEP)));
    }

    fn cancel_some(&mut self, settings: &Settings) {
        let now = self.owed.min(STEP);
        self.owed = if self.sleeps.is_empty() { 0 } else { self.owed - now };
        for _ in 0..now.min(self.sleeps.len()) {
            let place = self.random.usize(..self.sleeps.len());
            // The new one takes the place of the old, which is dropped.
            self.sleeps[place] = self.timer.sleep(Duration::ZERO);
            self.arm(place, settings);
        }
    }

    /// Gives a sleep another deadline, and polls it, so that it waits.
    fn arm(&mut self, place: usize, settings: &Settings) {
        let length = settings.length_at(self.random.f64());
        self.sleeps[place].reset_at(Instant::now() + length);
        if self.poll(place) {
            // The thread was held up for as long as that. It is looked at again in the next round.
            self.wakers[place].wake_by_ref();
        }
    }

    /// Whether the sleep has ended.
    fn poll(&mut self, place: usize) -> bool {
        let mut context = Context::from_waker(&self.wakers[place]);
        Pin::new(&mut self.sleeps[place]).poll(&mut context).is_ready()
    }

    fn burst(&mut self) {
        let deadline = Instant::now() + BEFORE_BURST;
        let armed = |_| {
            let mut sleep = self.timer.sleep_until(deadline);
            // Nobody waits for its end.
            let _ = Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop()));
            sleep
        };
        let sleeps = (0..BURST).map(armed).collect();
        self.bursts.push(Burst { deadline, _sleeps: sleeps });
    }
}
