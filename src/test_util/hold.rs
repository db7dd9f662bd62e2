//! [`Hold`], and all other claims on a clock: the reasons why it must not move by itself.
//
// Invariants
// 1. A claim is in force when the call returns that made it: a clock moves by itself only under the lock of its claims.
// 2. What came during a claim may still run when that has ended: a move that was decided before does not take place.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};

use tokio::runtime::Handle;

use crate::test_util::held::wake_drivers_on;
use crate::test_util::lock;

/// Keeps a clock from advancing by itself while it lives. Returned by
/// [`ManualClock::hold`](crate::test_util::ManualClock::hold) and [`test_util::hold`](crate::test_util::hold()).
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, Timer, test_util::ManualClock};
///
/// # #[tokio::main]
/// # async fn main() {
/// let clock = ManualClock::new();
/// clock.auto_advance();
/// let timer = Timer::builder().clock(&clock).build().unwrap();
/// let (start, hold) = (clock.now(), clock.hold());
/// let sleep = tokio::spawn(timer.sleep(Duration::from_secs(60)));
/// hairspring::sleep(Duration::from_millis(5)).await; // in real time
/// assert_eq!(clock.now(), start);
/// drop(hold);
/// sleep.await.unwrap();
/// assert_eq!(clock.now() - start, Duration::from_secs(60));
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the clock is held only as long as this lives"]
pub struct Hold(#[allow(dead_code)] pub(super) Claimed); // It holds as long as it exists.

/// Why a clock must not move by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// A test holds it.
    Hold,
    /// It is tokio's, and one of our threads moves it instead of tokio.
    Move,
    /// The same, and none of our alarms may make tokio wake the runtime: a thread waits until it is idle.
    NoAlarm,
    /// A test settles.
    Settle,
    /// It waits to be told that the runtime is idle. With how many began to settle before it did.
    Waits(u64),
    /// Blocking work runs.
    Work,
}

/// The claims on the clock of a runtime, or on a manual clock.
#[derive(Default)]
pub(crate) struct Claims {
    pub(super) runtime: Option<Handle>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    all: Vec<(Claim, &'static Location<'static>)>,
    /// How many have ended.
    ended: u64,
    /// Ends the task that keeps tokio from moving the clock.
    pub(super) task: Option<mpsc::Sender<()>>,
}

impl State {
    fn any(&self, claim: Claim) -> bool {
        self.all.iter().any(|(claimed, _)| *claimed == claim)
    }
}

/// A claim that is in force while this lives.
pub(crate) struct Claimed {
    claims: Arc<Claims>,
    claim: (Claim, &'static Location<'static>),
}

impl Claims {
    pub(super) fn on(runtime: &Handle) -> Arc<Claims> {
        Arc::new(Claims { runtime: Some(runtime.clone()), ..Claims::default() })
    }

    #[track_caller]
    pub(super) fn claim(self: &Arc<Self>, claim: Claim) -> Claimed {
        let claim = (claim, Location::caller());
        self.lock().all.push(claim);
        Claimed { claims: self.clone(), claim }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn any(&self, claim: Claim) -> bool {
        self.lock().any(claim)
    }

    pub(super) fn places(&self, claim: Claim) -> Vec<&'static Location<'static>> {
        self.lock().all.iter().filter(|(claimed, _)| *claimed == claim).map(|(_, place)| *place).collect()
    }

    /// Changes if a claim ends.
    pub(super) fn ended(&self) -> u64 {
        self.lock().ended
    }

    /// Moves the clock, unless a test holds it or settles, or a claim has ended since so many had.
    pub(super) fn unless_held(&self, ended: u64, moves: impl FnOnce()) -> bool {
        let claims = self.lock();
        let may_move = !claims.any(Claim::Hold) && !claims.any(Claim::Settle) && claims.ended == ended;
        if may_move {
            moves();
        }
        may_move
    }
}

impl Claimed {
    /// Whether no one waits who began to settle later.
    pub(super) fn began_last(&self) -> bool {
        let claims = self.claims.lock();
        let waiting = claims.all.iter().map(|(claim, _)| claim).filter(|claim| matches!(claim, Claim::Waits(_)));
        waiting.max() == Some(&self.claim.0)
    }
}

impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claimed").field(&self.claim).finish()
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let mut claims = self.claims.lock();
        let at = claims.all.iter().position(|claim| *claim == self.claim);
        at.map(|at| claims.all.swap_remove(at));
        claims.ended += 1;
        let is_held = claims.any(Claim::Hold) || claims.any(Claim::Move);
        let task = if is_held { None } else { claims.task.take() };
        let may_alarm = self.claim.0 == Claim::NoAlarm && !claims.any(Claim::NoAlarm);
        drop(claims);
        drop(task);
        if may_alarm {
            self.claims.runtime.as_ref().inspect(|runtime| wake_drivers_on(runtime));
        }
    }
}
