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
// 5. A forked process starts a thread of its own at its first booking. Stand-ins then call all bookers once, to book
//    anew what they wait for.
// 6. Bookers live for ever: their memory is never freed, only reused.

use std::cell::Cell;
use std::io;
use std::sync::{Mutex as PlainMutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::bookings::Bookings;
pub(crate) use super::bookings::{Booker, BookerId};
use super::has_threads;
use super::priority::{self, Priority};
use super::sleeper::Sleeper;
use crate::core::stand_ins::StandIns;
use crate::util::catch_panic::catch_panic;
use crate::util::per_process::{self as process, PerProcess};
use crate::util::sync::{self, Mutex, MutexGuard, per_process};

/// When a booking for a jump is called if the system does not tell of jumps.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

struct AlarmThread {
    state: Mutex<State>,
    sleeper: Sleeper,
    stand_ins: StandIns,
    /// The bookers that are called first, in a forked process.
    inherited: Vec<&'static dyn Booker>,
}

struct State {
    bookings: Bookings,
    thread: Thread,
    serves: Serves,
    /// The number of threads started so far. The latest serves, and the others end.
    latest: u64,
}

/// Whether a thread serves, and its priority.
#[derive(Clone, Copy)]
enum Serves {
    Nobody,
    /// A thread less urgent than the main thread, or not known to be as urgent.
    At(Priority),
    /// A thread as urgent as the main thread, which nothing needs to replace.
    Well,
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
    fn alarm() -> &'static AlarmThread = |parents| {
        // The bookings of the parent are not known here. So all bookers are called, and book anew what they need.
        let inherited = bookers().take_while(|_| parents.is_some());
        AlarmThread::new(inherited.filter(|booker| booker.has_survived()).collect())
    };
}

/// All bookers, for a forked process. Reading them takes no lock.
static BOOKERS: OnceLock<Listed> = OnceLock::new();

#[cfg_attr(hairspring_loom, allow(dead_code))] // No model forks.
struct Listed {
    booker: &'static dyn Booker,
    next: OnceLock<&'static Listed>,
}

fn listed() -> impl Iterator<Item = &'static Listed> {
    std::iter::successors(BOOKERS.get(), |listed| listed.next.get().copied())
}

/// All listed bookers.
pub(crate) fn bookers() -> impl Iterator<Item = &'static dyn Booker> {
    listed().map(|listed| listed.booker)
}

/// Lists a booker, once.
pub(crate) fn list(booker: &'static dyn Booker) {
    static LAST: PerProcess<PlainMutex<Option<&'static Listed>>> = PerProcess::new();
    // The bookers of a model are freed when it ends.
    if sync::MODELLED {
        return;
    }
    let new = || Listed { booker, next: OnceLock::new() };
    let last = LAST.get(|_| PlainMutex::new(listed().last()));
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    *last = Some(match *last {
        None => BOOKERS.get_or_init(new),
        Some(last) => last.next.get_or_init(|| Box::leak(Box::new(new()))),
    });
}

/// Starts the thread, so that booking cannot fail later. Replaces a thread that is less urgent than both the main
/// thread and the calling thread, from which the new one inherits.
///
/// # Panics
/// If there is no thread and the system refuses one.
pub(crate) fn start() {
    let alarm = alarm();
    if let Err(error) = alarm.start() {
        panic!("hairspring could not start its alarm thread: {error}");
    }
}

/// [`start`], but only once for each calling thread.
///
/// # Panics
/// In the same cases as [`start`].
pub(crate) fn start_for_this_thread() {
    thread_local! {
        /// The process in which this thread has called `start`.
        static ASKED: Cell<u32> = const { Cell::new(0) };
    }
    let process = process::number();
    if ASKED.try_with(|asked| asked.replace(process)) != Ok(process) {
        start();
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
        state = alarm.round(state);
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
    fn new(inherited: Vec<&'static dyn Booker>) -> Self {
        AlarmThread {
            inherited,
            state: Mutex::new(State {
                bookings: Bookings::new(),
                thread: Thread::Awake,
                serves: Serves::Nobody,
                latest: 0,
            }),
            sleeper: Sleeper::new(),
            stand_ins: StandIns::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread unless there is one at least as urgent as the caller.
    fn start(&'static self) -> io::Result<()> {
        // In a model the test calls, and without threads nobody does: see `Alarm::Tokio`.
        if sync::MODELLED || !has_threads() {
            return Ok(());
        }
        if let Serves::Well = self.lock().serves {
            return Ok(());
        }
        let here = Priority::of_this_thread();
        let mut state = self.lock();
        match state.serves {
            Serves::Well => return Ok(()),
            Serves::At(priority) if priority >= here => return Ok(()),
            Serves::At(_) | Serves::Nobody => {}
        }
        // The new thread waits for this lock, and so for the state that is set here.
        let number = state.latest + 1;
        let started = std::thread::Builder::new().name("hairspring-alarm".into()).spawn(move || self.run(number));
        match started {
            Ok(_) => {
                state.latest = number;
                state.serves = Serves::At(here);
                self.wake_all(&mut state);
                drop(state);
                // Each is as urgent as the thread that started it.
                self.stand_ins.retire();
                Ok(())
            }
            // The existing thread will do.
            Err(_) if matches!(state.serves, Serves::At(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn book(&'static self, id: BookerId, at: Instant, booker: &'static dyn Booker) {
        let mut state = self.lock();
        state.bookings.book(id, at, booker);
        let is_missing = matches!(state.serves, Serves::Nobody);
        self.sleep_anew(state);
        if is_missing {
            // This process was forked from one that had timers. If the system refuses, the next booking tries again.
            let _ = self.start();
        }
    }

    fn book_jump(&'static self, id: BookerId, booker: &'static dyn Booker) -> bool {
        if !self.sleeper.watch_for_jumps() {
            self.book(id, sync::now() + LOOK_AGAIN, booker);
            return false;
        }
        let mut state = self.lock();
        state.bookings.book_jump(id, booker);
        // A thread that is asleep may have begun to sleep before there was a watch.
        if let Thread::Asleep { .. } = state.thread {
            self.wake_all(&mut state);
        }
        let is_missing = matches!(state.serves, Serves::Nobody);
        drop(state);
        if is_missing {
            let _ = self.start();
        }
        true
    }

    /// The bookings have changed: makes a sleeping thread wake for the first of them. Unlocks.
    fn sleep_anew(&self, mut state: MutexGuard<'_, State>) {
        let first = state.bookings.first();
        let Thread::Asleep { until } = state.thread else { return };
        if until == first {
            return;
        }
        if self.sleeper.set(first) {
            state.thread = Thread::Asleep { until: first };
        } else if first.is_some_and(|first| until.is_none_or(|until| first < until)) {
            state.thread = Thread::Awake;
            drop(state);
            self.sleeper.wake();
        }
    }

    /// Wakes all threads, to look again and see whether they still serve. No booking puts that off.
    fn wake_all(&self, state: &mut State) {
        state.thread = Thread::Awake;
        self.sleeper.wake_all();
    }

    fn run(&'static self, number: u64) {
        let priority = priority::settle();
        if number == 1 {
            // Not on this thread: a woken task may wait for ever for a lock that a thread of the parent held.
            self.inherited.iter().for_each(|booker| self.stand_ins.send(Box::new(|| booker.alarm(&self.stand_ins))));
        }
        let mut state = self.lock();
        if state.latest == number {
            // The priority that was tried counts: a caller that is no more urgent need not try again.
            state.serves = match (priority, state.serves) {
                (None, _) => Serves::Well,
                (Some(reached), Serves::At(tried)) => Serves::At(reached.max(tried)),
                (Some(reached), _) => Serves::At(reached),
            };
        }
        while state.latest == number {
            state = self.round(state);
        }
        // A notification for the thread that serves now may have come here.
        self.wake_all(&mut state);
    }

    /// Calls the booker that is due first. If none is due, sleeps until one may be.
    fn round(&'static self, mut state: MutexGuard<'static, State>) -> MutexGuard<'static, State> {
        let now = sync::now();
        if let Some(booker) = state.bookings.take_due(now) {
            drop(state);
            catch_panic(|| booker.alarm(&self.stand_ins));
            return self.lock();
        }
        let until = state.bookings.first();
        state.thread = Thread::Asleep { until };
        let (mut state, jumped) = self.sleeper.sleep(|| self.lock(), state, until, now);
        state.thread = Thread::Awake;
        if jumped {
            state.bookings.jumped(sync::now());
        }
        state
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
        let alarm: &'static AlarmThread = Box::leak(Box::new(AlarmThread::new(Vec::new())));
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
