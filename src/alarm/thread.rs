//! The alarm thread: one for the process, started when first needed, asleep until the earliest booking.
//!
//! It needs nothing of a runtime, so timers work on one that has neither `enable_time` nor `enable_io`, and it rings on
//! time even where every worker is busy.
//!
//! Invariants
//! 1. A booking rings once, at or after its instant, and is then gone.
//! 2. The thread is told of a new booking only where it would oversleep it, and once until it has looked.
//! 3. Bells are rung with no lock of this module held, and one that panics does not stop the others.
//!
//! Bells live for ever: what rings is never freed, only used again.
//!
//! Must not know: wheel, shards, the driver.

use std::sync::{OnceLock, PoisonError};
use std::time::Instant;

use crate::contain::contain;
use crate::sync::{self, Condvar, Mutex, MutexGuard, global};

/// What the thread rings.
pub(crate) trait Bell: Send + Sync {
    fn ring(&self);
}

/// Names whose booking it is: a bell has one at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BellId(pub(crate) u64);

struct AlarmThread {
    bookings: Mutex<Bookings>,
    changed: Condvar,
}

struct Bookings {
    /// Few: one for every driver in the process.
    all: Vec<Booking>,
    thread: Thread,
}

struct Booking {
    id: BellId,
    at: Instant,
    bell: &'static dyn Bell,
}

/// What the thread is doing.
enum Thread {
    /// It looks at the bookings before it sleeps again.
    Awake,
    Asleep {
        until: Option<Instant>,
    },
}

impl Thread {
    fn oversleeps(&self, at: Instant) -> bool {
        match self {
            Thread::Awake => false,
            Thread::Asleep { until } => until.is_none_or(|until| at < until),
        }
    }
}

global! {
    static ALARM: AlarmThread = AlarmThread {
        bookings: Mutex::new(Bookings { all: Vec::new(), thread: Thread::Awake }),
        changed: Condvar::new(),
    };
}

/// Starts the thread, so that booking cannot fail later.
///
/// # Panics
/// Where the system refuses another thread.
pub(crate) fn start() {
    static STARTED: OnceLock<()> = OnceLock::new();
    // A model rings by itself.
    if cfg!(hairspring_loom) {
        return;
    }
    STARTED.get_or_init(|| {
        let started = std::thread::Builder::new().name("hairspring-alarm".into()).spawn(|| ALARM.run());
        if let Err(error) = started {
            panic!("hairspring could not start its alarm thread: {error}");
        }
    });
}

/// Books `bell` for `at`, in place of what it had booked before.
pub(crate) fn book(id: BellId, at: Instant, bell: &'static dyn Bell) {
    ALARM.book(id, at, bell);
}

/// Takes a booking back, where there is one.
pub(crate) fn cancel(id: BellId) {
    ALARM.cancel(id);
}

/// When a bell is to ring.
#[cfg(test)]
pub(crate) fn booked(id: BellId) -> Option<Instant> {
    ALARM.lock().all.iter().find(|booking| booking.id == id).map(|booking| booking.at)
}

/// Does the thread's work until it is `done`, in a model.
#[cfg(all(test, hairspring_loom))]
pub(crate) fn run_until(done: impl Fn() -> bool) {
    let mut bookings = ALARM.lock();
    while !done() {
        bookings = ALARM.round(bookings);
    }
}

/// Rings all that is due, in a model. Returns whether anything was.
#[cfg(all(test, hairspring_loom))]
pub(crate) fn ring_due() -> bool {
    let mut rung = false;
    loop {
        let due = ALARM.lock().take_due(sync::now());
        let Some(due) = due else { return rung };
        due.bell.ring();
        rung = true;
    }
}

impl Bookings {
    /// Takes out the earliest booking, where it is due.
    fn take_due(&mut self, now: Instant) -> Option<Booking> {
        let (earliest, booking) = self.all.iter().enumerate().min_by_key(|(_, booking)| booking.at)?;
        (booking.at <= now).then(|| self.all.swap_remove(earliest))
    }
}

impl AlarmThread {
    fn lock(&self) -> MutexGuard<'_, Bookings> {
        // Nothing that can panic runs under this lock.
        self.bookings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn book(&self, id: BellId, at: Instant, bell: &'static dyn Bell) {
        let mut bookings = self.lock();
        match bookings.all.iter_mut().find(|booking| booking.id == id) {
            Some(booking) => booking.at = at,
            None => bookings.all.push(Booking { id, at, bell }),
        }
        if bookings.thread.oversleeps(at) {
            bookings.thread = Thread::Awake;
            drop(bookings);
            self.changed.notify_one();
        }
    }

    fn cancel(&self, id: BellId) {
        self.lock().all.retain(|booking| booking.id != id);
    }

    fn run(&self) -> ! {
        sleep_precisely();
        let mut bookings = self.lock();
        loop {
            bookings = self.round(bookings);
        }
    }

    /// Rings what is due first; where nothing is, sleeps until something may be.
    fn round<'a>(&'a self, mut bookings: MutexGuard<'a, Bookings>) -> MutexGuard<'a, Bookings> {
        let now = sync::now();
        if let Some(due) = bookings.take_due(now) {
            drop(bookings);
            contain(|| due.bell.ring());
            return self.lock();
        }
        let until = bookings.all.iter().map(|booking| booking.at).min();
        bookings.thread = Thread::Asleep { until };
        bookings = match until {
            None => self.changed.wait(bookings).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let wait = self.changed.wait_timeout(bookings, until.duration_since(now));
                wait.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        bookings.thread = Thread::Awake;
        bookings
    }
}

/// Asks the system not to round this thread's waits: Linux would add up to 50 us, to wake threads together.
fn sleep_precisely() {
    // Where it refuses, waits are as they were.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    struct Note(&'static str, mpsc::Sender<(&'static str, Instant)>);

    impl Bell for Note {
        fn ring(&self) {
            self.1.send((self.0, Instant::now())).unwrap();
            assert_ne!(self.0, "panics", "on purpose");
        }
    }

    /// Keeps the thread busy until it is told to go on.
    struct Gate(Mutex<mpsc::Receiver<()>>);

    impl Bell for Gate {
        fn ring(&self) {
            self.0.lock().unwrap().recv().unwrap();
        }
    }

    #[test]
    fn bells_ring_in_order_and_never_early() {
        start();
        let (open, closed) = mpsc::channel();
        let now = Instant::now();
        // So that all is booked before the first rings, however slow this thread is.
        book(BellId(u64::MAX - 6), now, Box::leak(Box::new(Gate(Mutex::new(closed)))));
        let (sender, rings) = mpsc::channel();
        let book = |id, name, after: Duration| {
            book(BellId(u64::MAX - id), now + after, Box::leak(Box::new(Note(name, sender.clone()))));
        };
        book(0, "far", Duration::from_secs(3_600));
        book(1, "last", Duration::from_millis(60));
        book(2, "first", Duration::from_millis(20));
        book(3, "panics", Duration::from_millis(30));
        book(4, "moved", Duration::from_secs(3_600));
        book(4, "moved", Duration::from_millis(40));
        book(5, "cancelled", Duration::from_millis(25));
        cancel(BellId(u64::MAX - 5));
        open.send(()).unwrap();
        for (name, after) in [("first", 20), ("panics", 30), ("moved", 40), ("last", 60)] {
            let (bell, at) = rings.recv_timeout(Duration::from_secs(30)).unwrap();
            assert_eq!(bell, name);
            assert!(at >= now + Duration::from_millis(after), "{name} rang early");
        }
        cancel(BellId(u64::MAX));
        assert!(rings.try_recv().is_err(), "each rings once");
    }
}
