//! [`pending`]: what waits for a deadline, and where it was made.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::iter;
use std::panic::Location;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::clock::source::any_is_held;
use crate::clock::{self, Instant, source};
use crate::core::lease::TimerLease;
use crate::core::shard::Key;
use crate::seam::TimerKind;
use crate::test_util::idle::Watch;
use crate::test_util::{held, lock};
use crate::wheel::Tick;

/// How many timers a list names.
const NAMED: usize = 20;

/// A timer that waits, as [`pending`] found it.
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
#[derive(Debug, Clone)]
pub struct Pending {
    place: Place,
    deadline: Tick,
    remaining: Duration,
}

impl Pending {
    /// Returns where the code that uses this crate made the timer: the call of `sleep`, `timeout` or `interval`, or for
    /// a queue or a map the call that made that.
    ///
    /// It is a place in this crate if the timer began to wait before places were recorded (see [`pending`]), or if another
    /// thread is just beginning to wait.
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

    /// Returns what waits.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use hairspring::{Duration, sleep, test_util};
    /// tokio::spawn(sleep(Duration::from_secs(60)));
    /// test_util::settle().await;
    /// assert_eq!(test_util::pending()[0].kind(), test_util::TimerKind::Sleep);
    /// # }
    /// ```
    #[must_use]
    pub fn kind(&self) -> TimerKind {
        self.place.1
    }

    /// Returns when it fires.
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

    /// Returns how long it still waited when it was listed, by its clock.
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
}

/// Such as `Timeout made at src/client.rs:31:9, due in 30s`.
impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            (location, _) if location == UNKNOWN => f.write_str("made at an unknown place")?,
            (location, kind) => write!(f, "{kind:?} made at {location}")?,
        }
        write!(f, ", due in {:?}", self.remaining)
    }
}

/// Returns what waits on the timer of the current runtime, and if its clock is paused on a multi-thread runtime, on all
/// timers that follow that clock. Sorted by deadline.
///
/// A timer is there from its first poll until it fires or is dropped. Of a queue or a map only the first entry is.
/// Tokio's own timers are not there, nor, unless the runtime is a multi-thread one whose clock is paused, those that
/// you built with [`Builder::build`](crate::timer::Builder::build).
///
/// Where a timer was made is recorded as soon as any clock of the process was paused or is moved by hand. If no test
/// does that, it is recorded from the first call of this or of [`assert_no_timers_left`] on. Recording takes a lock each
/// time a timer begins or ends to wait.
///
/// # Panics
/// Outside a runtime.
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
/// assert_eq!(waiting[0].kind(), test_util::TimerKind::Timeout);
/// request.abort();
/// # }
/// ```
#[must_use]
#[track_caller]
pub fn pending() -> Vec<Pending> {
    source::one_is_held();
    let runtime = Handle::current();
    if let Some(clock) = Watch::clock_here() {
        return clock.waiting();
    }
    let Some(held) = held::existing(runtime.id()) else { return Vec::new() };
    of(iter::once(held.lease()), held.lease().schedule.clock.now())
}

/// Returns a guard that fails the test if a timer of the current runtime still waits when the guard is dropped. It then
/// panics with the list of [`pending`].
///
/// Make it before anything else. As it is dropped when the test ends, tasks that the test has aborted are counted unless
/// the runtime has dropped them: [`settle`](crate::test_util::settle()) at the end of the test.
///
/// # Panics
/// Outside a runtime. The drop panics if a timer waits, unless the thread panics already.
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
#[must_use = "it looks for timers when it is dropped"]
#[track_caller]
pub fn assert_no_timers_left() -> impl Sized + Send {
    source::one_is_held();
    NoTimersLeft { runtime: Handle::current() }
}

/// The guard that [`assert_no_timers_left`] returns.
struct NoTimersLeft {
    runtime: Handle,
}

impl Drop for NoTimersLeft {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let _entered = self.runtime.enter();
        let left = pending();
        assert!(left.is_empty(), "timers are left: {}\n{}", left.len(), list(&left));
    }
}

/// What waits on some timers, by their clock.
pub(super) fn of(timers: impl Iterator<Item = TimerLease>, now: Tick) -> Vec<Pending> {
    // Locked before the entries are read, so that one that fires in between keeps its place.
    let places = lock(&WAITING);
    let mut found = Vec::new();
    for timer in timers {
        for shard in timer.all() {
            let entries: Vec<_> = shard.read(|wheel| wheel.entries().collect());
            found.extend(entries.into_iter().map(|(key, deadline)| Pending {
                place: places.get(&(shard.address(), key)).copied().unwrap_or((UNKNOWN, TimerKind::Sleep)),
                deadline,
                remaining: clock::duration_of(deadline - now),
            }));
        }
    }
    found.sort_by_key(|pending| pending.deadline);
    found
}

/// A line for each, up to `NAMED`.
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

/// Where a timer was made, and what waits.
type Place = (&'static Location<'static>, TimerKind);

/// The places of timers that wait, by the address of their shard.
static WAITING: LazyLock<Mutex<HashMap<(usize, Key), Place>>> = LazyLock::new(Mutex::default);

/// For a timer that began to wait before places were recorded.
static UNKNOWN: &Location<'static> = Location::caller();

/// A timer waits from now on.
#[inline]
pub(crate) fn begins_to_wait(shard: usize, key: Key, location: &'static Location<'static>, kind: TimerKind) {
    if any_is_held() {
        record(shard, key, Some((location, kind)));
    }
}

/// A timer waits no more.
#[inline]
pub(crate) fn waits_no_more(shard: usize, key: Key) {
    if any_is_held() {
        record(shard, key, None);
    }
}

#[cold]
fn record(shard: usize, key: Key, place: Option<Place>) {
    let mut places = lock(&WAITING);
    match place {
        Some(place) => places.insert((shard, key), place),
        None => places.remove(&(shard, key)),
    };
}
