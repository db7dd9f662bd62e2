//! The alarm thread: one for the process, started when first needed, which sleeps until the earliest booking.
//!
//! It needs nothing from a runtime. So timers work without `enable_time` and `enable_io`, and it is on time even if
//! every worker is busy.
//
// Invariants
// 1. A booking is called once, at or after its instant, and then removed.
// 2. A sleeping thread wakes no later than the first booking. If only a notification can ensure that, there is one, and
//    no other until the thread has looked.
// 3. Bookers are called with no lock of this module held. A booker that panics does not stop the others.
// 4. No waker of a foreign executor or a user runs on this thread, unless the system refuses a stand-in.
// 5. A forked process starts a thread of its own at its first booking. It knows nothing of its parent's bookings.
// 6. If the thread sleeps on a file that the program has closed, the booking that finds this starts another thread.
// 7. Bookers live for ever: their memory is never freed, only reused.

use std::io;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::bookings::Bookings;
pub(crate) use super::bookings::{Booker, BookerId};
use super::has_threads;
#[cfg(target_os = "linux")]
use super::priority;
use super::sleeper::{Changed, Ended, Sleeper};
use crate::core::stand_ins::StandIns;
use crate::util::catch_panic::catch_panic;
use crate::util::sync::{self, Mutex, MutexGuard, per_process};

/// When a booking for a jump is called if the system does not tell of jumps.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

struct AlarmThread {
    state: Mutex<State>,
    sleeper: Sleeper,
    stand_ins: StandIns,
}

struct State {
    bookings: Bookings,
    thread: Thread,
    is_started: bool,
}

/// What the thread is doing.
enum Thread {
    /// It will look at the bookings before it sleeps again.
    Awake,
    Asleep {
        until: Option<Instant>,
    },
}

per_process! {
    /// The alarm thread of this process: a forked process does not have its parent's.
    fn alarm() -> &'static AlarmThread = |_| AlarmThread::new();
}

/// Starts the thread, so that booking cannot fail later.
///
/// # Panics
/// If there is no thread and the system refuses one.
pub(crate) fn start() {
    let alarm = alarm();
    if let Err(error) = alarm.start() {
        panic!("hairspring could not start its alarm thread: {error}");
    }
}

/// Books a call of `booker` for `at`, in place of its booking before.
pub(crate) fn book(id: BookerId, at: Instant, booker: &'static dyn Booker) {
    alarm().book(id, at, booker);
}

/// Books a call of `booker` for when a clock next jumps, or a second from now if the system does not tell of jumps.
/// Returns whether it does. Only one booker can do this.
pub(crate) fn book_jump(id: BookerId, booker: &'static dyn Booker) -> bool {
    alarm().book_jump(id, booker)
}

/// Cancels a booking, if there is one.
pub(crate) fn cancel(id: BookerId) {
    // The thread may wake once for nothing. Most often another booking comes before that.
    alarm().lock().bookings.cancel(id);
}

/// When a booker will be called.
#[cfg(test)]
pub(crate) fn booked(id: BookerId) -> Option<Instant> {
    alarm().lock().bookings.of(id)
}

/// Does the thread's work until it is `done`, in a model.
#[cfg(all(test, hairspring_loom))]
pub(crate) fn run_until(done: impl Fn() -> bool) {
    let alarm = alarm();
    let mut state = alarm.lock();
    while !done() {
        state = alarm.round(state).expect("no file is closed in a model");
    }
}

/// Calls all bookers that are due, in a model. Returns whether there was one.
#[cfg(all(test, hairspring_loom))]
pub(crate) fn call_due() -> bool {
    let alarm = alarm();
    let mut called = false;
    loop {
        let due = alarm.lock().bookings.take_due(sync::now());
        let Some(booker) = due else { return called };
        booker.alarm(&alarm.stand_ins);
        called = true;
    }
}

impl AlarmThread {
    fn new() -> Self {
        AlarmThread {
            state: Mutex::new(State { bookings: Bookings::new(), thread: Thread::Awake, is_started: false }),
            sleeper: Sleeper::new(),
            stand_ins: StandIns::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread, unless there is one.
    fn start(&'static self) -> io::Result<()> {
        // In a model the test calls, and without threads nobody does: see `Alarm::Tokio`.
        if sync::MODELLED || !has_threads() {
            return Ok(());
        }
        let mut state = self.lock();
        if !state.is_started {
            std::thread::Builder::new().name("hairspring-alarm".into()).spawn(|| self.run())?;
            state.is_started = true;
        }
        Ok(())
    }

    fn book(&'static self, id: BookerId, at: Instant, booker: &'static dyn Booker) {
        let mut state = self.lock();
        state.bookings.book(id, at, booker);
        let until = state.bookings.first();
        match state.thread {
            Thread::Asleep { until: before } if before != until => {
                self.sleep_anew(state, until, Thread::Asleep { until });
            }
            _ => self.start_if_missing(state),
        }
    }

    fn book_jump(&'static self, id: BookerId, booker: &'static dyn Booker) -> bool {
        if !self.sleeper.watch_for_jumps() {
            self.book(id, sync::now() + LOOK_AGAIN, booker);
            return false;
        }
        let mut state = self.lock();
        state.bookings.book_jump(id, booker);
        match state.thread {
            // It may have begun to sleep before there was a watch. No booking puts off that it looks again.
            Thread::Asleep { .. } => self.sleep_anew(state, Some(sync::now()), Thread::Awake),
            Thread::Awake => self.start_if_missing(state),
        }
        true
    }

    /// Makes the sleeping thread wake at another instant, and notes what it does then. Unlocks.
    fn sleep_anew(&'static self, mut state: MutexGuard<'static, State>, at: Option<Instant>, then: Thread) {
        match self.sleeper.set(at) {
            Changed::Done => state.thread = then,
            Changed::ToNotify => {
                let Thread::Asleep { until } = state.thread else { return };
                if at.is_some_and(|at| until.is_none_or(|until| at < until)) {
                    state.thread = Thread::Awake;
                    drop(state);
                    self.sleeper.wake();
                }
            }
            Changed::Lost => {
                // Another thread serves, and sleeps on the condition variable. Jumps are not seen from here on.
                (state.thread, state.is_started) = (Thread::Awake, false);
                state.bookings.jumped(sync::now());
                self.start_if_missing(state);
            }
        }
    }

    /// Starts the thread if this process was forked from one that had timers, or its thread was lost. If the system
    /// refuses, the next booking tries again. Unlocks.
    fn start_if_missing(&'static self, state: MutexGuard<'static, State>) {
        let is_missing = !state.is_started;
        drop(state);
        if is_missing {
            let _ = self.start();
        }
    }

    fn run(&'static self) {
        #[cfg(target_os = "linux")]
        priority::copy_the_main_threads();
        let mut state = self.lock();
        while let Some(next) = self.round(state) {
            state = next;
        }
    }

    /// Calls the booker that is due first. If none is due, sleeps until one may be. Returns `None` if another thread
    /// serves from now on.
    fn round(&'static self, mut state: MutexGuard<'static, State>) -> Option<MutexGuard<'static, State>> {
        let now = sync::now();
        if let Some(booker) = state.bookings.take_due(now) {
            drop(state);
            catch_panic(|| booker.alarm(&self.stand_ins));
            return Some(self.lock());
        }
        let until = state.bookings.first();
        state.thread = Thread::Asleep { until };
        let (mut state, ended) = self.sleeper.sleep(|| self.lock(), state, until, now);
        match ended {
            Ended::Lost if state.is_started => return None,
            // The system has refused the other thread.
            Ended::Lost => state.is_started = true,
            Ended::Jumped => state.bookings.jumped(sync::now()),
            Ended::Plainly => {}
        }
        state.thread = Thread::Awake;
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    struct Note(&'static str, mpsc::Sender<(&'static str, Instant)>);

    impl Booker for Note {
        fn alarm(&'static self, _: &'static StandIns) {
            self.1.send((self.0, Instant::now())).unwrap();
            assert_ne!(self.0, "panics", "on purpose");
        }
    }

    /// Blocks the thread until a message comes.
    struct Gate(Mutex<mpsc::Receiver<()>>);

    impl Booker for Gate {
        fn alarm(&'static self, _: &'static StandIns) {
            self.0.lock().unwrap().recv().unwrap();
        }
    }

    #[test]
    fn bookers_are_called_in_order_and_never_early() {
        start();
        let (open, closed) = mpsc::channel();
        let now = Instant::now();
        // So that all bookings are made before the first call, however slow this thread is.
        book(BookerId(u64::MAX - 6), now, Box::leak(Box::new(Gate(Mutex::new(closed)))));
        let (sender, calls) = mpsc::channel();
        let book = |id, name, after: Duration| {
            book(BookerId(u64::MAX - id), now + after, Box::leak(Box::new(Note(name, sender.clone()))));
        };
        book(0, "far", Duration::from_secs(3_600));
        book(1, "last", Duration::from_millis(60));
        book(2, "first", Duration::from_millis(20));
        book(3, "panics", Duration::from_millis(30));
        book(4, "moved", Duration::from_secs(3_600));
        book(4, "moved", Duration::from_millis(40));
        book(5, "cancelled", Duration::from_millis(25));
        cancel(BookerId(u64::MAX - 5));
        open.send(()).unwrap();
        for (name, after) in [("first", 20), ("panics", 30), ("moved", 40), ("last", 60)] {
            let (who, at) = calls.recv_timeout(Duration::from_secs(30)).unwrap();
            assert_eq!(who, name);
            assert!(at >= now + Duration::from_millis(after), "{name} was called early");
        }
        cancel(BookerId(u64::MAX));
        assert!(calls.try_recv().is_err(), "each is called once");
    }

    #[cfg(all(target_os = "linux", not(hairspring_loom)))]
    #[test]
    fn a_jump_ends_the_sleep_of_a_thread_that_slept_before_anyone_waited_for_jumps() {
        // One of its own: `core::jumps` is the only booker of the process's.
        let alarm: &'static AlarmThread = Box::leak(Box::new(AlarmThread::new()));
        alarm.start().unwrap();
        let is_asleep = || matches!(alarm.lock().thread, Thread::Asleep { .. });
        while !is_asleep() {
            std::thread::yield_now();
        }
        let (sender, calls) = mpsc::channel();
        let note: &'static Note = Box::leak(Box::new(Note("jump", sender)));
        for _ in 0..3 {
            assert!(alarm.book_jump(BookerId(1), note), "Linux tells of jumps");
            alarm.sleeper.jump();
            assert_eq!(calls.recv_timeout(Duration::from_secs(30)).unwrap().0, "jump");
        }
        alarm.sleeper.jump();
        alarm.book(BookerId(2), Instant::now() + Duration::from_millis(5), note);
        calls.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(calls.try_recv().is_err(), "a jump for which nobody has booked calls nobody");
    }
}
