//! The alarm thread: one per process, started on first use, which sleeps until the earliest booking.
//!
//! It needs nothing from a runtime: timers work without `enable_time` and `enable_io`, even if every worker is busy.
//!
//! On Linux it sleeps on its own `timerfd`, which a booking sets with one system call and without waking the thread;
//! most bookings only postpone the check that a driver has turned. On other systems, and where there can be no
//! `timerfd`, the thread waits on a condition variable.
//
// Invariants
// 1. A handler is called once per booking, at or after its instant. An id has at most one booking.
// 2. A sleeping thread wakes no later than the first booking. If that takes a notification, it gets one, and no other
//    until it has checked the bookings. A thread that cannot be woken sleeps for at most `SLEEP_SLICE`.
// 3. Handlers are called without any lock of this module. One that panics does not stop the others.
// 4. No waker of a user runs on this thread, unless no helper thread can be started.
// 5. A forked process starts its own thread at its first booking, and knows nothing of its parent's bookings.
// 6. The file is set only under the lock, to the instant at which the thread has to wake.
// 7. Each operation on bookings takes logarithmic time: a process may have thousands of timers.
//
// They hold because the bookings, and until when the thread sleeps, are under one lock, and only the thread goes to
// sleep: whoever books finds it asleep and ends that, or awake, and it looks again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use super::has_threads;
use super::priority::copy_the_main_threads_priority;
use super::timerfd::Timerfd;
use crate::util::panics::catch_panic;
use crate::util::sync::{self, Condvar, Mutex, MutexGuard, per_process, unpoisoned};

/// How late a wait on a condition variable may end. Windows rounds it up to milliseconds, then to its 15.6 ms tick.
const MAX_OVERSLEEP: Duration = Duration::from_millis(if cfg!(windows) { 17 } else { 0 });

/// How long a booking may go unnoticed.
const SLEEP_SLICE: Duration = Duration::from_millis(1);

/// The longest wait. Windows treats 50 days as forever.
const MAX_WAIT: Duration = Duration::from_secs(86_400);

/// What a booking calls.
pub(crate) trait AlarmHandler: Send + Sync {
    /// Called by the alarm thread when the booking is due. Send anything slow to a [helper](crate::core::helpers).
    fn alarm(&'static self);
}

/// The number of the engine that books.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BookingId(pub(crate) u64);

struct AlarmThread {
    state: Mutex<AlarmState>,
    /// Notified when the thread has to wake earlier, unless it sleeps on the file.
    changed: Condvar,
}

struct AlarmState {
    bookings: Bookings,
    thread: Thread,
    /// `None` if there can be none, or the system does not let the thread wait for it.
    file: Option<&'static Timerfd>,
}

enum Thread {
    /// Not started, or refused by the system.
    Missing,
    /// Will check the bookings before it sleeps again.
    Awake,
    Asleep {
        until: Option<Instant>,
    },
}

#[derive(Default)]
struct Bookings {
    handlers: BTreeMap<BookingId, (Instant, &'static dyn AlarmHandler)>,
    times: BTreeSet<(Instant, BookingId)>,
}

type Guard<'a> = MutexGuard<'a, AlarmState>;

per_process! {
    /// This process's alarm thread; a forked process does not inherit it.
    fn alarm() -> &'static AlarmThread = |_| AlarmThread::new();
}

/// Starts the thread, after which booking cannot fail. Returns an error if there is none and none can be started.
pub(crate) fn start() -> io::Result<()> {
    let refused = |error: io::Error| io::Error::new(error.kind(), format!("failed to start the alarm thread: {error}"));
    alarm().start().map_err(refused)
}

/// Books a call of `handler` at `at`, replacing the last booking with this id.
pub(crate) fn book(id: BookingId, at: Instant, handler: &'static dyn AlarmHandler) {
    alarm().book(id, at, handler);
}

pub(crate) fn cancel(id: BookingId) {
    // The thread may wake up for nothing. Usually another booking is made first.
    alarm().lock().bookings.cancel(id);
}

impl Bookings {
    fn book(&mut self, id: BookingId, at: Instant, handler: &'static dyn AlarmHandler) {
        if let Some((before, _)) = self.handlers.insert(id, (at, handler)) {
            self.times.remove(&(before, id));
        }
        self.times.insert((at, id));
    }

    fn cancel(&mut self, id: BookingId) {
        if let Some((at, _)) = self.handlers.remove(&id) {
            self.times.remove(&(at, id));
        }
    }

    fn first(&self) -> Option<Instant> {
        self.times.first().map(|&(at, _)| at)
    }

    fn take_due(&mut self, now: Instant) -> Option<&'static dyn AlarmHandler> {
        let id = self.times.first().filter(|&&(at, _)| at <= now)?.1;
        self.times.pop_first();
        self.handlers.remove(&id).map(|(_, handler)| handler)
    }
}

impl AlarmThread {
    fn new() -> Self {
        // In a model, loom has to see the wait.
        let file = if sync::MODELLED { None } else { Timerfd::new().ok() };
        let file = file.map(|file| &*Box::leak(Box::new(file)));
        let state = AlarmState { bookings: Bookings::default(), thread: Thread::Missing, file };
        AlarmThread { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> Guard<'_> {
        // Nothing that can panic runs under this lock.
        unpoisoned(self.state.lock())
    }

    fn start(&'static self) -> io::Result<()> {
        // In a model the test makes the calls. Without threads nobody does: see `Alarm::Tokio`.
        if sync::MODELLED || !has_threads() {
            return Ok(());
        }
        let mut state = self.lock();
        if matches!(state.thread, Thread::Missing) {
            std::thread::Builder::new().name("hairspring-alarm".into()).spawn(|| self.run())?;
            state.thread = Thread::Awake;
        }
        Ok(())
    }

    fn book(&'static self, id: BookingId, at: Instant, handler: &'static dyn AlarmHandler) {
        let mut state = self.lock();
        state.bookings.book(id, at, handler);
        let first = state.bookings.first();
        if let Thread::Asleep { until } = state.thread {
            let is_earlier = |first| until.is_none_or(|until| first < until);
            match state.file {
                _ if first == until => {}
                Some(file) => {
                    file.set(first, sync::now());
                    state.thread = Thread::Asleep { until: first };
                }
                None if first.is_some_and(is_earlier) => {
                    state.thread = Thread::Awake;
                    drop(state);
                    self.changed.notify_one();
                }
                None => {}
            }
        } else if matches!(state.thread, Thread::Missing) {
            // After a fork. If no thread can be started, the next booking tries again.
            drop(state);
            let _ = self.start();
        }
    }

    fn run(&'static self) {
        copy_the_main_threads_priority();
        let mut state = self.lock();
        loop {
            state = self.round(state);
        }
    }

    /// Calls the first due handler, or sleeps until one may be due.
    fn round(&'static self, mut state: Guard<'static>) -> Guard<'static> {
        let now = sync::now();
        if let Some(handler) = state.bookings.take_due(now) {
            drop(state);
            catch_panic(|| handler.alarm());
            return self.lock();
        }
        let until = state.bookings.first();
        state.thread = Thread::Asleep { until };
        if let Some(file) = state.file {
            file.set(until, now);
            drop(state);
            let can_wait = file.wait();
            state = self.lock();
            state.file = state.file.filter(|_| can_wait);
        } else {
            let left = until.map(|until| until.duration_since(now));
            state = self.wait(state, left, MAX_OVERSLEEP);
        }
        state.thread = Thread::Awake;
        state
    }

    /// Unlocks, and sleeps for `left`, or forever if that is `None`. May return early. A wait may end `late`.
    fn wait<'a>(&'a self, state: Guard<'a>, left: Option<Duration>, late: Duration) -> Guard<'a> {
        let Some(left) = left else { return unpoisoned(self.changed.wait(state)) };
        if let Some(time) = coarse_wait(left, late) {
            return unpoisoned(self.changed.wait_timeout(state, time)).0;
        }
        drop(state);
        std::thread::sleep(left.min(SLEEP_SLICE));
        self.lock()
    }
}

/// How much of `left` may be waited without a file, if a wait may end `late`. `None` if only the rest is left: Windows
/// times `thread::sleep` more precisely than waits, so the thread sleeps that in slices.
fn coarse_wait(left: Duration, late: Duration) -> Option<Duration> {
    left.checked_sub(late).filter(|time| !time.is_zero()).map(|time| time.min(MAX_WAIT))
}

/// What models see of the thread, and do in its place.
#[cfg(test)]
pub(crate) mod modelled {
    use super::*;

    pub(crate) fn booked(id: BookingId) -> Option<Instant> {
        alarm().lock().bookings.handlers.get(&id).map(|&(at, _)| at)
    }

    /// Does the thread's work, until `done`.
    #[cfg(hairspring_loom)]
    pub(crate) fn run_until(done: impl Fn() -> bool) {
        let alarm = alarm();
        let mut state = alarm.lock();
        while !done() {
            state = alarm.round(state);
        }
    }

    /// Calls all due handlers. Returns whether there were any.
    #[cfg(hairspring_loom)]
    pub(crate) fn call_due() -> bool {
        let alarm = alarm();
        let mut called = false;
        loop {
            let due = alarm.lock().bookings.take_due(sync::now());
            let Some(handler) = due else { return called };
            handler.alarm();
            called = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    impl AlarmHandler for () {
        fn alarm(&'static self) {}
    }

    struct Note(&'static str, mpsc::Sender<(&'static str, Instant)>);

    impl AlarmHandler for Note {
        fn alarm(&'static self) {
            self.1.send((self.0, Instant::now())).unwrap();
            assert_ne!(self.0, "panics", "on purpose");
        }
    }

    struct Gate(Mutex<mpsc::Receiver<()>>);

    impl AlarmHandler for Gate {
        fn alarm(&'static self) {
            self.0.lock().unwrap().recv().unwrap();
        }
    }

    #[test]
    fn handlers_are_called_in_order_and_never_early() {
        start().unwrap();
        let (open, closed) = mpsc::channel();
        let now = Instant::now();
        // All bookings are made before the first call, however slow this thread is.
        book(BookingId(u64::MAX - 6), now, Box::leak(Box::new(Gate(Mutex::new(closed)))));
        let (sender, calls) = mpsc::channel();
        let book = |id, name, after: Duration| {
            book(BookingId(u64::MAX - id), now + after, Box::leak(Box::new(Note(name, sender.clone()))));
        };
        book(0, "far", Duration::from_secs(3_600));
        book(1, "last", Duration::from_millis(60));
        book(2, "first", Duration::from_millis(20));
        book(3, "panics", Duration::from_millis(30));
        book(4, "moved", Duration::from_secs(3_600));
        book(4, "moved", Duration::from_millis(40));
        book(5, "cancelled", Duration::from_millis(25));
        cancel(BookingId(u64::MAX - 5));
        open.send(()).unwrap();
        for (name, after) in [("first", 20), ("panics", 30), ("moved", 40), ("last", 60)] {
            let (who, at) = calls.recv_timeout(Duration::from_secs(30)).unwrap();
            assert_eq!(who, name);
            assert!(at >= now + Duration::from_millis(after), "{name} was called early");
        }
        cancel(BookingId(u64::MAX));
        assert!(calls.try_recv().is_err(), "each is called once");
    }

    /// If each operation scanned all bookings, this would take very long.
    #[test]
    fn a_hundred_thousand_bookings_are_made_moved_and_taken_out_in_order() {
        const IDS: u64 = 100_000;
        let start = Instant::now();
        let mut bookings = Bookings::default();
        for id in 0..IDS {
            bookings.book(BookingId(id), start + Duration::from_secs(3_600), &());
        }
        for id in 0..IDS {
            bookings.book(BookingId(id), start + Duration::from_nanos(id * 7_919 % IDS), &());
        }
        for id in (0..IDS).step_by(2) {
            bookings.cancel(BookingId(id));
        }
        let mut taken = 0;
        while let Some(first) = bookings.first() {
            assert!(bookings.take_due(first.checked_sub(Duration::from_nanos(1)).unwrap()).is_none(), "early");
            assert!(bookings.take_due(first).is_some());
            taken += 1;
        }
        assert_eq!(taken, IDS / 2);
    }

    /// When a wait that begins at `now` ends on Windows: at the next tick after its whole milliseconds.
    fn end_of_wait(now: Duration, time: Duration) -> Duration {
        const TICK: u128 = 15_625_000;
        let whole = Duration::from_millis(time.as_nanos().div_ceil(1_000_000).try_into().unwrap());
        Duration::from_nanos(((now + whole).as_nanos().div_ceil(TICK) * TICK).try_into().unwrap())
    }

    /// A bug that this crate had: Windows treated a wait of 50 days as forever, and ended short waits on its tick, 16
    /// ms late.
    #[test]
    fn a_coarse_wait_ends_on_time_to_the_nanosecond_and_never_takes_50_days() {
        let day = Duration::from_secs(86_400);
        let short = (0..200_000).step_by(97).map(Duration::from_micros);
        for length in short.chain([1, 49, 50, 51, 400].map(|days| days * day + Duration::from_nanos(7))) {
            for start in [0, 1, 7_812_500, 15_624_999].map(Duration::from_nanos) {
                let (until, mut now, mut steps) = (start + length, start, 0);
                while now < until {
                    let left = until.saturating_sub(now);
                    let time = coarse_wait(left, Duration::from_millis(17));
                    assert!(time.is_none_or(|time| time <= day), "{time:?} for {length:?}");
                    now = time.map_or(now + left.min(SLEEP_SLICE), |time| end_of_wait(now, time));
                    steps += 1;
                }
                assert_eq!(now, until, "{length:?} from {start:?}");
                assert!(steps <= 20 + length.as_secs() / 86_400, "{steps} steps for {length:?}");
            }
        }
    }

    #[test]
    fn a_wait_that_ends_on_time_is_not_sliced() {
        let left = Duration::from_millis(5);
        assert_eq!(coarse_wait(left, Duration::ZERO), Some(left));
    }

    /// No notification: a booking made while the thread sleeps is noticed after the slice.
    #[cfg(not(hairspring_loom))]
    #[test]
    fn a_thread_that_cannot_be_woken_looks_after_each_slice() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let alarm = AlarmThread::new();
        std::thread::scope(|scope| {
            let mut state = alarm.lock();
            scope.spawn(|| alarm.lock().bookings.book(BookingId(0), Instant::now(), &()));
            while state.bookings.first().is_none() {
                state = alarm.wait(state, Some(HOUR), 2 * HOUR);
            }
        });
    }
}
