//! The alarm thread: one per process, started on first use, which sleeps until the earliest booking.
//!
//! It needs nothing from a runtime: timers work without `enable_time` and `enable_io`, even if every worker is busy.
//!
//! On Linux it sleeps on its own `timerfd`, which a booking sets with one system call and without waking the thread;
//! most bookings only postpone the check that a driver has turned. Without a `timerfd`, the thread waits on a condition
//! variable: on other systems, if the system refuses the `timerfd`, and once the program has closed it, when another
//! thread takes over.
//!
//! Once something waits on a clock that may jump, the thread also waits on a second `timerfd`, which reports jumps.
//
// Invariants
// 1. A handler is called once per booking, at or after its instant. It has at most one booking.
// 2. A sleeping thread wakes no later than the first booking. If that takes a notification, it gets one, and no other
//    until it has checked the bookings. A thread that cannot be woken sleeps for at most `SLEEP_SLICE`.
// 3. Handlers are called without any lock of this module. A handler that panics does not stop the others.
// 4. No waker of another executor or a user runs on this thread, unless the system refuses a helper thread.
// 5. A forked process starts its own thread at its first booking, and knows nothing of its parent's bookings.
// 6. The file is set only under the lock, to the instant at which the thread has to wake. If the program has closed it,
//    the booking that notices starts another thread.
// 7. Once jumps are reported, none is missed: a jump while the thread is awake ends its next sleep.
// 8. Each operation on bookings takes logarithmic time: a process may have thousands of timers.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{OnceLock, PoisonError};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use rustix::{process, thread as system};

#[cfg(not(target_os = "linux"))]
use self::NoTimerfd as Timerfd;
use super::has_threads;
#[cfg(target_os = "linux")]
use super::timerfd::Timerfd;
use crate::core::epoch::Epoch;
use crate::core::helpers::Helpers;
use crate::util::panics::catch_panic;
use crate::util::sync::{self, Condvar, Mutex, MutexGuard, per_process};

/// The delay of a booking for a jump if the system does not report jumps.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How late a wait on a condition variable may end. Windows rounds it up to milliseconds, then to its 15.6 ms tick.
const MAX_OVERSLEEP: Duration = Duration::from_millis(if cfg!(windows) { 17 } else { 0 });

/// How long a booking may go unnoticed.
const SLEEP_SLICE: Duration = Duration::from_millis(1);

/// The longest wait. Windows treats 50 days as forever.
const MAX_WAIT: Duration = Duration::from_secs(86_400);

/// What a booking calls.
pub(crate) trait AlarmHandler: Send + Sync {
    /// Called by the alarm thread when the booking is due. Leave anything slow to the helpers.
    fn alarm(&'static self, helpers: &'static Helpers);

    /// A shard has lost the last user of the timer with this epoch.
    fn unused(&'static self, _: Epoch) {}
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum BookingId {
    Timer(u64),
    /// The search for the I/O driver of that timer's runtime.
    FindIo(u64),
    /// The handler that waits for jumps.
    Jumps,
}

struct AlarmThread {
    state: Mutex<AlarmState>,
    /// Notified when the thread has to wake earlier, unless it sleeps on the file.
    changed: Condvar,
    file: Option<Timerfd>,
    /// Reports jumps. Created on first use; `None` if the system refused it.
    jumps: OnceLock<Option<Timerfd>>,
    helpers: Helpers,
}

struct AlarmState {
    bookings: Bookings,
    thread: Thread,
    /// Whether there is a file that the program has not closed.
    has_file: bool,
    /// Whether a jump of a clock ends the thread's sleep.
    is_told_of_jumps: bool,
}

enum Thread {
    /// Not started, refused by the system, or replaced because the program closed its file.
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
    /// The handler to call when a clock jumps.
    on_jump: Option<&'static dyn AlarmHandler>,
}

type Guard<'a> = MutexGuard<'a, AlarmState>;

per_process! {
    /// This process's alarm thread; a forked process does not inherit it.
    fn alarm() -> &'static AlarmThread = |_| AlarmThread::new();
}

/// Starts the thread, after which booking cannot fail. Returns an error if there is none and the system refuses one.
pub(crate) fn start() -> io::Result<()> {
    let refused = |error: io::Error| io::Error::new(error.kind(), format!("failed to start the alarm thread: {error}"));
    alarm().start().map_err(refused)
}

/// Books a call of `handler` at `at`, replacing its previous booking.
pub(crate) fn book(id: BookingId, at: Instant, handler: &'static dyn AlarmHandler) {
    alarm().book(id, at, handler);
}

/// Books a call of `handler` at the next jump of a clock, or a second from now if the system does not report jumps.
/// Returns whether it does. Only one handler can do this.
pub(crate) fn book_jump(handler: &'static dyn AlarmHandler) -> bool {
    alarm().book_jump(handler)
}

pub(crate) fn cancel(id: BookingId) {
    // The thread may wake up for nothing. Usually another booking is made first.
    alarm().lock().bookings.cancel(id);
}

#[cfg(test)]
pub(crate) fn booked(id: BookingId) -> Option<Instant> {
    alarm().lock().bookings.handlers.get(&id).map(|&(at, _)| at)
}

/// Does the thread's work in a model, until `done`.
#[cfg(all(test, hairspring_loom))]
pub(crate) fn run_until(done: impl Fn() -> bool) {
    let alarm = alarm();
    let mut state = alarm.lock();
    while !done() {
        state = alarm.round(state).expect("no file is closed in a model");
    }
}

/// Calls all due handlers in a model. Returns whether there were any.
#[cfg(all(test, hairspring_loom))]
pub(crate) fn call_due() -> bool {
    let alarm = alarm();
    let mut called = false;
    loop {
        let due = alarm.lock().bookings.take_due(sync::now());
        let Some(handler) = due else { return called };
        handler.alarm(&alarm.helpers);
        called = true;
    }
}

impl Bookings {
    fn book(&mut self, id: BookingId, at: Instant, handler: &'static dyn AlarmHandler) {
        if let Some((before, _)) = self.handlers.insert(id, (at, handler)) {
            self.times.remove(&(before, id));
        }
        self.times.insert((at, id));
    }

    /// A clock has jumped: a booking for that is due now.
    fn jumped(&mut self, now: Instant) {
        if let Some(handler) = self.on_jump.take() {
            self.book(BookingId::Jumps, now, handler);
        }
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
        AlarmThread {
            state: Mutex::new(AlarmState {
                bookings: Bookings::default(),
                thread: Thread::Missing,
                has_file: file.is_some(),
                is_told_of_jumps: false,
            }),
            changed: Condvar::new(),
            file,
            jumps: OnceLock::new(),
            helpers: Helpers::new(),
        }
    }

    fn lock(&self) -> Guard<'_> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (first, had_file) = (state.bookings.first(), state.has_file);
        if let Thread::Asleep { until } = state.thread {
            let is_earlier = |first| until.is_none_or(|until| first < until);
            if first == until {
                return;
            } else if self.set_file(&mut state, sync::now) {
                state.thread = Thread::Asleep { until: first };
                return;
            } else if had_file {
                state.thread = Thread::Missing;
            } else if first.is_some_and(is_earlier) {
                state.thread = Thread::Awake;
                drop(state);
                return self.changed.notify_one();
            }
        }
        // After a fork, or if the file was closed. If the system refuses a thread, the next booking tries again.
        if matches!(state.thread, Thread::Missing) {
            drop(state);
            let _ = self.start();
        }
    }

    fn book_jump(&'static self, handler: &'static dyn AlarmHandler) -> bool {
        let mut state = self.lock();
        if state.is_told_of_jumps {
            state.bookings.on_jump = Some(handler);
            return true;
        }
        // If jumps are reported from now on, the thread has to wake up and wait for them.
        let after = if self.watch_for_jumps(&mut state) { Duration::ZERO } else { CHECK_INTERVAL };
        drop(state);
        self.book(BookingId::Jumps, sync::now() + after, handler);
        false
    }

    /// Makes the file end the thread's sleep at the first booking. Returns `false` if the file is gone.
    fn set_file(&self, state: &mut AlarmState, now: impl Fn() -> Instant) -> bool {
        let Some(file) = self.file.as_ref().filter(|_| state.has_file) else { return false };
        let now = now();
        if file.set(state.bookings.first(), now).is_err() {
            // The program has closed the file. From here on, jumps are not reported.
            (state.has_file, state.is_told_of_jumps) = (false, false);
            state.bookings.jumped(now);
        }
        state.has_file
    }

    /// Makes the next jump end the thread's sleep. Returns whether that works.
    fn watch_for_jumps(&self, state: &mut AlarmState) -> bool {
        let file = || self.jumps.get_or_init(|| Timerfd::on_the_wall_clock().ok());
        state.is_told_of_jumps = state.has_file && file().as_ref().is_some_and(Timerfd::watch_for_jumps);
        state.is_told_of_jumps
    }

    fn run(&'static self) {
        #[cfg(target_os = "linux")]
        copy_the_main_threads_priority();
        let mut state = self.lock();
        while let Some(next) = self.round(state) {
            state = next;
        }
    }

    /// Calls the first due handler, or sleeps until one may be due. Returns `None` if another thread has taken over.
    fn round(&'static self, mut state: Guard<'static>) -> Option<Guard<'static>> {
        let now = sync::now();
        if let Some(handler) = state.bookings.take_due(now) {
            drop(state);
            catch_panic(|| handler.alarm(&self.helpers));
            return Some(self.lock());
        }
        let on_file = self.set_file(&mut state, || now);
        let until = state.bookings.first();
        state.thread = Thread::Asleep { until };
        let left = until.map(|until| until.duration_since(now));
        let jumped;
        (state, jumped) =
            if on_file { self.wait_for_files(state, left) } else { (self.wait(state, left, MAX_OVERSLEEP), false) };
        if on_file && !state.has_file && !matches!(state.thread, Thread::Missing) {
            return None;
        }
        if jumped {
            self.watch_for_jumps(&mut state);
            state.bookings.jumped(sync::now());
        }
        state.thread = Thread::Awake;
        Some(state)
    }

    /// Unlocks, and sleeps until the file or a jump ends the sleep. May return early. Returns whether a clock has
    /// jumped.
    fn wait_for_files<'a>(&'a self, state: Guard<'a>, left: Option<Duration>) -> (Guard<'a>, bool) {
        let jumps = self.jumps.get().and_then(Option::as_ref).filter(|_| state.is_told_of_jumps);
        drop(state);
        let jumped = self.file.as_ref().expect("it was just set").wait(left, jumps);
        (self.lock(), jumped)
    }

    /// Unlocks, and sleeps for `left`, or forever if that is `None`. May return early. A wait may end `late`.
    fn wait<'a>(&'a self, state: Guard<'a>, left: Option<Duration>, late: Duration) -> Guard<'a> {
        match left.map(|left| Slice::first(left, late)) {
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(Slice::Wait(time)) => self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0,
            Some(Slice::Sleep(time)) => {
                drop(state);
                std::thread::sleep(time);
                self.lock()
            }
        }
    }
}

/// The next step towards an instant without a file. Windows times `thread::sleep` more precisely than waits, so the
/// thread waits until shortly before the instant, and sleeps the rest in slices.
#[derive(Debug)]
enum Slice {
    Wait(Duration),
    Sleep(Duration),
}

impl Slice {
    /// The first step if `left` remains and a wait may end `late`.
    fn first(left: Duration, late: Duration) -> Slice {
        match left.checked_sub(late) {
            None | Some(Duration::ZERO) => Slice::Sleep(left.min(SLEEP_SLICE)),
            Some(time) => Slice::Wait(time.min(MAX_WAIT)),
        }
    }
}

#[cfg(not(target_os = "linux"))]
enum NoTimerfd {}

#[cfg(not(target_os = "linux"))]
impl NoTimerfd {
    fn new() -> io::Result<NoTimerfd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn on_the_wall_clock() -> io::Result<NoTimerfd> {
        NoTimerfd::new()
    }

    fn set(&self, _: Option<Instant>, _: Instant) -> io::Result<()> {
        match *self {}
    }

    fn watch_for_jumps(&self) -> bool {
        match *self {}
    }

    fn wait(&self, _: Option<Duration>, _: Option<&NoTimerfd>) -> bool {
        match *self {}
    }
}

/// Gives this thread the main thread's niceness and CPU affinity. Otherwise it would inherit those of its creator,
/// possibly a background thread.
#[cfg(target_os = "linux")]
fn copy_the_main_threads_priority() {
    // By default Linux adds up to 50 us to each wait, to wake threads together.
    let _ = system::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
    let main = Some(process::getpid());
    let _ = system::sched_getaffinity(main).and_then(|processors| system::sched_setaffinity(None, &processors));
    let _ = process::getpriority_process(main).and_then(|niceness| process::setpriority_process(None, niceness));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    impl AlarmHandler for () {
        fn alarm(&'static self, _: &'static Helpers) {}
    }

    struct Note(&'static str, mpsc::Sender<(&'static str, Instant)>);

    impl AlarmHandler for Note {
        fn alarm(&'static self, _: &'static Helpers) {
            self.1.send((self.0, Instant::now())).unwrap();
            assert_ne!(self.0, "panics", "on purpose");
        }
    }

    struct Gate(Mutex<mpsc::Receiver<()>>);

    impl AlarmHandler for Gate {
        fn alarm(&'static self, _: &'static Helpers) {
            self.0.lock().unwrap().recv().unwrap();
        }
    }

    #[test]
    fn handlers_are_called_in_order_and_never_early() {
        start().unwrap();
        let (open, closed) = mpsc::channel();
        let now = Instant::now();
        // All bookings are made before the first call, however slow this thread is.
        book(BookingId::Timer(u64::MAX - 6), now, Box::leak(Box::new(Gate(Mutex::new(closed)))));
        let (sender, calls) = mpsc::channel();
        let book = |id, name, after: Duration| {
            book(BookingId::Timer(u64::MAX - id), now + after, Box::leak(Box::new(Note(name, sender.clone()))));
        };
        book(0, "far", Duration::from_secs(3_600));
        book(1, "last", Duration::from_millis(60));
        book(2, "first", Duration::from_millis(20));
        book(3, "panics", Duration::from_millis(30));
        book(4, "moved", Duration::from_secs(3_600));
        book(4, "moved", Duration::from_millis(40));
        book(5, "cancelled", Duration::from_millis(25));
        cancel(BookingId::Timer(u64::MAX - 5));
        open.send(()).unwrap();
        for (name, after) in [("first", 20), ("panics", 30), ("moved", 40), ("last", 60)] {
            let (who, at) = calls.recv_timeout(Duration::from_secs(30)).unwrap();
            assert_eq!(who, name);
            assert!(at >= now + Duration::from_millis(after), "{name} was called early");
        }
        cancel(BookingId::Timer(u64::MAX));
        assert!(calls.try_recv().is_err(), "each is called once");
    }

    #[cfg(all(target_os = "linux", not(hairspring_loom)))]
    #[test]
    fn what_is_booked_for_a_jump_is_called_once_at_the_next() {
        // Its own alarm thread: `core::jumps` is the only such handler of the process's.
        let alarm: &'static AlarmThread = Box::leak(Box::new(AlarmThread::new()));
        alarm.start().unwrap();
        let jump = || {
            let now = Instant::now();
            alarm.jumps.get().unwrap().as_ref().expect("the system has one").set(Some(now), now).unwrap();
        };
        let sleeps = || {
            while !matches!(alarm.lock().thread, Thread::Asleep { .. }) {
                std::thread::yield_now();
            }
        };
        let (sender, calls) = mpsc::channel();
        let note: &'static Note = Box::leak(Box::new(Note("jump", sender)));
        let comes = || calls.recv_timeout(Duration::from_secs(30)).unwrap();
        sleeps();
        assert!(!alarm.book_jump(note), "the thread has to wake up first");
        comes();
        for _ in 0..3 {
            assert!(alarm.book_jump(note), "Linux reports jumps");
            jump();
            comes();
        }
        jump();
        alarm.book(BookingId::Timer(2), Instant::now() + Duration::from_millis(5), note);
        comes();
        assert!(calls.try_recv().is_err(), "a jump for which nobody has booked calls nobody");
    }

    /// If each operation scanned all bookings, this would take hours.
    #[test]
    fn half_a_million_bookings_are_made_moved_and_taken_out_in_order() {
        const IDS: u64 = 500_000;
        let start = Instant::now();
        let mut bookings = Bookings::default();
        for id in 0..IDS {
            bookings.book(BookingId::Timer(id), start + Duration::from_secs(3_600), &());
        }
        for id in 0..IDS {
            bookings.book(BookingId::Timer(id), start + Duration::from_nanos(id * 7_919 % IDS), &());
        }
        for id in (0..IDS).step_by(2) {
            bookings.cancel(BookingId::Timer(id));
        }
        let mut taken = 0;
        while let Some(first) = bookings.first() {
            assert!(bookings.take_due(first.checked_sub(Duration::from_nanos(1)).unwrap()).is_none(), "early");
            assert!(bookings.take_due(first).is_some());
            taken += 1;
        }
        assert_eq!(taken, IDS / 2);
    }

    /// When a step that begins at `now` ends on Windows: a wait ends at the next tick after its whole milliseconds.
    fn end_of(step: &Slice, now: Duration) -> Duration {
        const TICK: u128 = 15_625_000;
        match step {
            Slice::Sleep(time) => now + *time,
            Slice::Wait(time) => {
                let whole = Duration::from_millis(time.as_nanos().div_ceil(1_000_000).try_into().unwrap());
                Duration::from_nanos(((now + whole).as_nanos().div_ceil(TICK) * TICK).try_into().unwrap())
            }
        }
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
                    let step = Slice::first(until.saturating_sub(now), Duration::from_millis(17));
                    assert!(!matches!(step, Slice::Wait(time) if time > day), "{step:?} for {length:?}");
                    now = end_of(&step, now);
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
        assert!(matches!(Slice::first(left, Duration::ZERO), Slice::Wait(time) if time == left));
    }

    /// No notification: a booking made while the thread sleeps is noticed after the slice.
    #[cfg(not(hairspring_loom))]
    #[test]
    fn a_thread_that_cannot_be_woken_looks_after_each_slice() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let alarm = AlarmThread::new();
        std::thread::scope(|scope| {
            let mut state = alarm.lock();
            scope.spawn(|| alarm.lock().bookings.book(BookingId::Jumps, Instant::now(), &()));
            while state.bookings.first().is_none() {
                state = alarm.wait(state, Some(HOUR), 2 * HOUR);
            }
        });
    }
}
