//! [`pending`]: the timers that wait, and where each was created.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::iter;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, RwLock};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::clock::source::any_is_held;
use crate::clock::{self, Hooks, Instant};
use crate::core::memory::{TimerGuard, TimerLease};
use crate::core::shard::Key;
use crate::core::tasks;
use crate::future::sleep::{ItemKind, WaitHooks};
use crate::test_util::{held, lock, own_clock};
use crate::util::sync::unpoisoned;
use crate::wheel::Tick;

const NAMED: usize = 20;

/// A timer that waits, as listed by [`pending`](pending()).
///
/// `Display` also says what it belongs to, for example `Timeout created at src/client.rs:31:9, due in 30s`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use hairspring::{Duration, sleep, test_util};
/// let mut sleep = sleep(Duration::from_secs(60));
/// assert!(futures::poll!(&mut sleep).is_pending());
/// let timer = &test_util::pending()[0];
/// assert_eq!((timer.deadline(), timer.remaining()), (sleep.deadline(), Duration::from_secs(60)));
/// # }
/// ```
#[derive(Clone)]
pub struct Pending {
    place: Place,
    deadline: Tick,
    remaining: Duration,
}

impl Pending {
    /// Returns where your code created the timer: the call of `sleep`, `timeout` or `interval`, or the call that
    /// created the queue or the map.
    ///
    /// This is a place in this crate if the timer was registered before places were recorded (see
    /// [`pending`](pending())), or if another thread is registering it right now.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use hairspring::{Duration, sleep, test_util};
    /// tokio::spawn(sleep(Duration::from_secs(60)));
    /// test_util::settle().await;
    /// assert_eq!(test_util::pending()[0].location().file(), file!());
    /// # }
    /// ```
    #[must_use]
    pub fn location(&self) -> &'static Location<'static> {
        self.place.0
    }

    /// Returns the deadline; of a queue or a map with more than 16 entries perhaps an earlier time, at which it sorts
    /// them.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use hairspring::{Duration, Instant, sleep, test_util};
    /// let start = Instant::now();
    /// tokio::spawn(sleep(Duration::from_secs(60)));
    /// test_util::settle().await;
    /// assert_eq!(test_util::pending()[0].deadline(), start + Duration::from_secs(60));
    /// # }
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        clock::instant_of(self.deadline)
    }

    /// Returns the time that was left when the timer was listed, by its clock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use hairspring::{Duration, sleep, test_util};
    /// tokio::spawn(sleep(Duration::from_secs(60)));
    /// test_util::settle().await;
    /// assert_eq!(test_util::pending()[0].remaining(), Duration::from_secs(60));
    /// # }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.remaining
    }

    pub(super) fn due(&self) -> String {
        format!("due in {:?}", self.remaining)
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("location", &format_args!("{}", self.location()))
            .field("deadline", &self.deadline())
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            (location, _) if location == UNKNOWN => f.write_str("created at an unknown place")?,
            (location, kind) => write!(f, "{kind:?} created at {location}")?,
        }
        write!(f, ", {}", self.due())
    }
}

/// Lists the timers that wait on the current runtime, sorted by deadline.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use hairspring::{Duration, test_util, timeout};
/// let line = line!() + 1;
/// let request = tokio::spawn(timeout(Duration::from_secs(30), std::future::pending::<()>()));
/// test_util::settle().await;
/// let waiting = test_util::pending();
/// assert_eq!((waiting.len(), waiting[0].location().line()), (1, line));
/// assert!(waiting[0].to_string().starts_with("Timeout created at "));
/// request.abort();
/// # }
/// ```
///
/// A timer is listed from its first poll until it fires or is dropped. A queue or a map is listed once, for its first
/// entry. The list contains the timers of the runtime's own timer; in a bubble with workers or a grace, also those of
/// every [`Timer`](crate::Timer) that follows its clock. It does not contain tokio's own timers.
///
/// Places are recorded once any clock of the process was paused or is moved by hand, or else from the first call of
/// this or of [`assert_no_timers_left`]. Recording takes a lock each time a timer is registered, fires or is cancelled.
///
/// # Panics
///
/// Panics outside a runtime, where [`Timer::metrics`](crate::Timer::metrics) and
/// [`ManualClock::pending`](crate::test_util::ManualClock::pending) count the timers.
#[must_use]
#[track_caller]
pub fn pending() -> Vec<Pending> {
    RECORDS.store(true, Relaxed);
    let runtime = current_runtime("pending");
    if let Some(clock) = own_clock::here() {
        return of(clock.timers().iter().map(TimerGuard::lease), clock.tick());
    }
    let Some(held) = held::existing(runtime.id()) else { return Vec::new() };
    of(iter::once(held.lease()), held.lease().engine().clock.now())
}

/// Returns a guard that checks, when it is dropped, that no timer of the current runtime waits. Use it to find a
/// timeout that is never cancelled. See [`NoTimersLeft`].
///
/// ```should_panic
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use hairspring::{Duration, sleep, test_util};
/// let _all_end = test_util::assert_no_timers_left();
/// tokio::spawn(sleep(Duration::from_secs(60))); // nobody stops it
/// test_util::settle().await;
/// # }
/// ```
///
/// Like [`pending`](pending()), it sees the runtime's own timer, and the timers that you built only in a bubble with
/// workers or a grace. For others, check `timer.metrics().pending()` or `ManualClock::pending`.
///
/// # Panics
///
/// Panics outside a runtime, where [`Timer::metrics`](crate::Timer::metrics) and
/// [`ManualClock::pending`](crate::test_util::ManualClock::pending) count the timers.
#[doc(alias = "goleak")]
#[doc(alias = "leak")]
#[track_caller]
pub fn assert_no_timers_left() -> NoTimersLeft {
    RECORDS.store(true, Relaxed);
    NoTimersLeft(current_runtime("assert_no_timers_left"))
}

#[track_caller]
fn current_runtime(name: &str) -> Handle {
    let Ok(runtime) = Handle::try_current() else {
        panic!(
            "`{name}` looks at the timers of the current tokio runtime, and there is none here: call it in a test with \
             a runtime, or ask `Timer::metrics` or `ManualClock::pending`"
        )
    };
    runtime
}

/// The guard that [`assert_no_timers_left`] returns. Its drop fails the test if a timer of that runtime still waits.
///
/// ```
/// use hairspring::test_util::{NoTimersLeft, assert_no_timers_left};
///
/// struct Fixture {
///     _all_end: NoTimersLeft,
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let _fixture = Fixture { _all_end: assert_no_timers_left() };
/// hairspring::sleep(hairspring::Duration::from_secs(60)).await;
/// # }
/// ```
///
/// Create it first in the test, or in the fixture that owns the runtime. If the test aborts tasks, call
/// [`settle`](crate::test_util::settle()) at its end: the timers of an aborted task count until the runtime has dropped
/// it.
///
/// # Panics
///
/// The drop panics with the list of [`pending`](pending()) if a timer waits. It also panics if the runtime has already
/// ended: fields drop in order, so declare the guard above the runtime. If the thread is already panicking, it does not
/// panic.
#[must_use = "it checks for timers when it is dropped"]
#[derive(Debug)]
pub struct NoTimersLeft(Handle);

impl Drop for NoTimersLeft {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let _entered = self.0.enter();
        assert!(
            !tasks::was_dropped(tasks::spawn(&self.0, "hairspring check", async {})),
            "the runtime ended before this guard could check its timers: declare the guard above the runtime"
        );
        let left = pending();
        assert!(left.is_empty(), "timers still waiting: {}\n{}", left.len(), list(&left));
    }
}

/// The timers that wait on some [`TimerLease`]s, by their clock.
pub(super) fn of(timers: impl Iterator<Item = TimerLease>, now: Tick) -> Vec<Pending> {
    let mut found = Vec::new();
    for timer in timers {
        for shard in timer.all() {
            // Lock before reading the entries: a timer that fires in between keeps its place.
            let places = places(shard.address());
            let entries: Vec<_> = shard.read(|wheel| wheel.entries().collect());
            // Some only say that there is no limit.
            let all = entries.into_iter().filter(|(_, deadline)| *deadline < Tick::MAX);
            found.extend(all.map(|(key, deadline)| Pending {
                place: places.get(&key).copied().unwrap_or((UNKNOWN, ItemKind::Sleep)),
                deadline,
                remaining: clock::duration_of(deadline - now),
            }));
        }
    }
    found.sort_by_key(|pending| pending.deadline);
    found
}

pub(super) fn list(pending: &[Pending]) -> String {
    let mut text = String::new();
    for timer in pending.iter().take(NAMED) {
        let _ = writeln!(text, "  {timer}");
    }
    if pending.len() > NAMED {
        let _ = writeln!(text, "  and {} more", pending.len() - NAMED);
    }
    text
}

type Place = (&'static Location<'static>, ItemKind);

type Places = HashMap<Key, Place>;

/// Whether a test asked for a list. Until then places are recorded only if one has paused a clock.
static RECORDS: AtomicBool = AtomicBool::new(false);

#[inline]
fn records() -> bool {
    any_is_held() || RECORDS.load(Relaxed)
}

/// For a timer that was registered before places were recorded.
static UNKNOWN: &Location<'static> = Location::caller();

impl WaitHooks for Hooks {
    #[inline]
    fn begins_to_wait(shard: usize, key: Key, made: &'static Location<'static>, kind: ItemKind) {
        if records() {
            places(shard).insert(key, (made, kind));
        }
    }

    #[inline]
    fn waits_no_more(shard: usize, key: Key) {
        if records() {
            places(shard).remove(&key);
        }
    }
}

/// The places of a shard's timers. Shards do not share a lock: a thread in `block_on` that waits long for a thread of
/// another runtime would count as waiting for the clock.
#[cold]
fn places(shard: usize) -> MutexGuard<'static, Places> {
    /// By the address of the shard, which is never freed.
    static ALL: RwLock<BTreeMap<usize, &'static Mutex<Places>>> = RwLock::new(BTreeMap::new());
    let known = unpoisoned(ALL.read()).get(&shard).copied();
    lock(known.unwrap_or_else(|| unpoisoned(ALL.write()).entry(shard).or_insert_with(|| Box::leak(Box::default()))))
}
