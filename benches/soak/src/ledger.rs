//! The program's own count of the timers, and the wakers that keep it.
//!
//! Invariants
//! 1. Each waker that the timer holds is that of a [`Token`], and a token is given to one sleep only.
//! 2. When a sleep ends or gets another token, that is said to its old one, before or after it is woken. Either way the
//!    ledger is right once both have happened, or once it is certain that one of them will not.
//!
//! The metrics count a timer as cancelled if it was neither fired nor is pending. Here it is counted by what was done.

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use hairspring::Instant;
use hairspring::timer::Metrics;

/// How many timers there have to be.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    registered: AtomicU64,
    fired: AtomicU64,
    /// More is added than taken at any time but the moment between a late wake-up and what came before it.
    cancelled: AtomicU64,
    pub(crate) early: AtomicU64,
    pub(crate) woken_twice: AtomicU64,
}

/// A state of the ledger, or the timer's view of the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) registered: u64,
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
    pub(crate) pending: u64,
}

impl Ledger {
    pub(crate) fn registered_one(&self) {
        self.registered.fetch_add(1, SeqCst);
    }

    /// Looks at a sleep that has just ended, or was just woken, whichever the caller goes by.
    pub(crate) fn check_not_early(&self, deadline: Instant) {
        if Instant::now() < deadline {
            self.early.fetch_add(1, SeqCst);
        }
    }

    pub(crate) fn count(&self) -> Counts {
        let [registered, fired, cancelled] = [&self.registered, &self.fired, &self.cancelled].map(|n| n.load(SeqCst));
        Counts { registered, fired, cancelled, pending: registered.wrapping_sub(fired).wrapping_sub(cancelled) }
    }
}

impl Counts {
    pub(crate) fn of(metrics: &Metrics) -> Self {
        Counts {
            registered: metrics.registered(),
            fired: metrics.fired(),
            cancelled: metrics.cancelled(),
            pending: metrics.pending(),
        }
    }
}

impl Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { registered, fired, cancelled, pending } = self;
        write!(f, "{registered} registered, {fired} fired, {cancelled} cancelled, {pending} pending")
    }
}

/// The waker of one timer.
#[derive(Debug)]
pub(crate) struct Token {
    ledger: Arc<Ledger>,
    stage: AtomicU8,
    tells: Tells,
}

const WAITING: u8 = 0;
/// It was woken.
const FIRED: u8 = 1;
/// Its sleep has ended, or was dropped.
const ENDED: u8 = 2;
/// Its sleep was reset, and waits with another token.
const REPLACED: u8 = 3;

#[derive(Debug)]
enum Tells {
    Task(Waker),
    /// The place in the set is that of the time when the token is looked at, see [`Token::place`].
    Set(Arc<Inbox>, AtomicU64),
}

/// The tokens of a set that were woken.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Vec<Arc<Token>>>);

impl Inbox {
    pub(crate) fn take(&self) -> Vec<Arc<Token>> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Token {
    pub(crate) fn of_task(ledger: &Arc<Ledger>, task: Waker) -> Arc<Self> {
        Token::new(ledger, Tells::Task(task))
    }

    pub(crate) fn of_set(ledger: &Arc<Ledger>, inbox: &Arc<Inbox>) -> Arc<Self> {
        Token::new(ledger, Tells::Set(Arc::clone(inbox), AtomicU64::new(0)))
    }

    fn new(ledger: &Arc<Ledger>, tells: Tells) -> Arc<Self> {
        Arc::new(Token { ledger: Arc::clone(ledger), stage: AtomicU8::new(WAITING), tells })
    }

    /// Its sleep has ended or was dropped: it was cancelled, unless it has fired or is just being fired.
    pub(crate) fn end(&self) {
        if self.stage.compare_exchange(WAITING, ENDED, SeqCst, SeqCst).is_ok() {
            self.ledger.cancelled.fetch_add(1, SeqCst);
        }
    }

    /// Its sleep was reset and has another token now. The timer is the same, unless this one has fired.
    pub(crate) fn replace(&self) {
        if self.stage.compare_exchange(WAITING, REPLACED, SeqCst, SeqCst).is_err() {
            self.ledger.registered_one();
        }
    }

    /// Where in its set the sleep is.
    pub(crate) fn place(&self) -> usize {
        let Tells::Set(_, place) = &self.tells else { return usize::MAX };
        usize::try_from(place.load(SeqCst)).unwrap_or(usize::MAX)
    }

    pub(crate) fn put_at(&self, to: usize) {
        if let Tells::Set(_, place) = &self.tells {
            place.store(to as u64, SeqCst);
        }
    }
}

impl Wake for Token {
    fn wake(self: Arc<Self>) {
        let ledger = &self.ledger;
        match self.stage.swap(FIRED, SeqCst) {
            WAITING => {}
            // It was thought to be cancelled, and had been taken out to be fired.
            ENDED => drop(ledger.cancelled.fetch_sub(1, SeqCst)),
            // It was thought to be the same timer, and was armed anew.
            REPLACED => ledger.registered_one(),
            _ => drop(ledger.woken_twice.fetch_add(1, SeqCst)),
        }
        ledger.fired.fetch_add(1, SeqCst);
        match &self.tells {
            Tells::Task(task) => task.wake_by_ref(),
            Tells::Set(inbox, _) => {
                let inbox = Arc::clone(inbox);
                inbox.0.lock().unwrap_or_else(PoisonError::into_inner).push(self);
            }
        }
    }
}
