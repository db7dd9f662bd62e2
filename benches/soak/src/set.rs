//! A set of sleeps that one task holds and polls by hand.
//!
//! Invariants
//! 1. Each member has been polled, was pending, and is in the ledger.
//! 2. A member's token says where the member is.
//! 3. A sleep that may fire at any moment is reset to at least [`LONG`] from now and gets another token at once: which of
//!    the two is woken then says whether the reset came in time. One with more than [`CALM`] left is simply reset.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use hairspring::{Instant, Sleep, sleep};
use tokio::task::yield_now;
use tools::{Rng, between};

use crate::awaiters::Watched;
use crate::ledger::{Inbox, Ledger, Token};

/// Longer than any thread is held up between two lines.
const CALM: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_mins(1);
/// For how long nothing is to fire once all stand still, so that they can be compared on a slow machine, too.
const STILL: Duration = Duration::from_secs(20);
/// One in so many is short, as a request's timeout beside those of connections.
const SHORT_ONE_IN: usize = 200;
const SHORT: Duration = Duration::from_millis(1);
const SHORTS_END: Duration = Duration::from_millis(100);
/// How many members come or go in a round at most, and how many are disturbed.
const STEP: usize = 2_000;
const DISTURBED: usize = 500;
const PAUSE: Duration = Duration::from_millis(1);
/// If a set is emptied by firing, when its members fire, and that one in so many do so in a single nanosecond.
const EMPTIED_FROM: Duration = Duration::from_millis(500);
const EMPTIED_BY: Duration = Duration::from_millis(2_500);
const AT_ONCE_ONE_IN: usize = 20;

pub(crate) struct Set {
    members: Vec<Member>,
    inbox: Arc<Inbox>,
    ledger: Arc<Ledger>,
    random: Rng,
    /// The share of the time that it may be busy.
    share: f64,
    pub(crate) done: Done,
}

struct Member {
    sleep: Sleep,
    token: Arc<Token>,
}

/// How often a set did what.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) armed: u64,
    pub(crate) fired: u64,
    pub(crate) reset: u64,
    pub(crate) cancelled: u64,
    pub(crate) polled: u64,
}

/// How a set is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Its members are dropped one by one, with traffic in between.
    Cancel,
    /// They are left to fire.
    Fire,
    /// They are dropped at once.
    Drop,
}

impl Set {
    pub(crate) fn new(ledger: &Arc<Ledger>, random: Rng, share: f64) -> Self {
        let (inbox, ledger) = (Arc::default(), Arc::clone(ledger));
        Set { members: Vec::new(), inbox, ledger, random, share, done: Done::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Goes on until the set has `size` members and the time has come.
    pub(crate) async fn go_on(mut self, size: usize, until: Instant) -> Self {
        let (start, mut busy) = (Instant::now(), Duration::ZERO);
        loop {
            let begun = Instant::now();
            self.take_fired(true);
            self.resize(size);
            self.disturb();
            busy += begun.elapsed();
            if self.len() == size && Instant::now() >= until {
                return self;
            }
            yield_now().await;
            Watched::sleep(&self.ledger, busy.div_f64(self.share).saturating_sub(start.elapsed())).await;
        }
    }

    pub(crate) async fn empty(mut self, way: Way) -> Self {
        match way {
            Way::Cancel => self = self.go_on(0, Instant::now()).await,
            Way::Fire => self.fire_all().await,
            Way::Drop => {
                self.done.cancelled += self.len() as u64;
                for member in std::mem::take(&mut self.members) {
                    member.drop();
                }
            }
        }
        self.members = Vec::new();
        self
    }

    /// Puts off what would fire soon, so that for a while nothing happens.
    pub(crate) fn settle(mut self) -> Self {
        loop {
            self.take_fired(true);
            let soon = Instant::now() + STILL;
            for place in 0..self.len() {
                if self.members[place].sleep.deadline() < soon {
                    // Twice as long, as what is put off first is not to fire before what is put off last was looked at.
                    let length = between(&mut self.random, 2 * STILL, LONGEST);
                    self.reset(place, length);
                }
            }
            if self.inbox.is_empty() {
                return self;
            }
        }
    }

    async fn fire_all(&mut self) {
        let all_at_once = Instant::now() + EMPTIED_BY;
        for member in &mut self.members {
            let deadline = match self.random.usize(..AT_ONCE_ONE_IN) {
                0 => all_at_once,
                _ => Instant::now() + between(&mut self.random, EMPTIED_FROM, EMPTIED_BY),
            };
            // They were put off, so none is to fire before this.
            member.sleep.reset_at(deadline);
        }
        self.done.reset += self.len() as u64;
        while self.len() > 0 {
            self.take_fired(false);
            Watched::sleep(&self.ledger, PAUSE).await;
        }
    }

    /// Polls those that were woken; they are armed anew, or taken out.
    fn take_fired(&mut self, rearm: bool) {
        for token in self.inbox.take() {
            let place = token.place();
            let Some(member) = self.members.get_mut(place) else { continue };
            // A wake-up that was on its way when its sleep was reset or dropped.
            if !Arc::ptr_eq(&member.token, &token) {
                continue;
            }
            self.ledger.check_not_early(member.sleep.deadline());
            if member.poll() {
                self.done.fired += 1;
                self.replace(place, rearm);
            }
        }
    }

    fn resize(&mut self, size: usize) {
        for _ in self.len()..size.min(self.len() + STEP) {
            let length = self.some_length();
            self.arm(sleep(length));
        }
        for _ in size.max(self.len().saturating_sub(STEP))..self.len() {
            let place = self.random.usize(..self.members.len());
            self.take_out(place).drop();
            self.done.cancelled += 1;
        }
    }

    /// Resets, cancels and polls some members, whichever they are.
    fn disturb(&mut self) {
        for _ in 0..DISTURBED.min(self.len()) {
            let place = self.random.usize(..self.members.len());
            match self.random.u8(..10) {
                0..5 => {
                    let length = between(&mut self.random, LONG, LONGEST);
                    self.reset(place, length);
                }
                5..8 => {
                    self.take_out(place).drop();
                    self.done.cancelled += 1;
                    let length = self.some_length();
                    self.arm(sleep(length));
                }
                _ => {
                    self.done.polled += 1;
                    if self.members[place].poll() {
                        self.ledger.check_not_early(self.members[place].sleep.deadline());
                        self.replace(place, true);
                    }
                }
            }
        }
    }

    fn reset(&mut self, place: usize, length: Duration) {
        self.done.reset += 1;
        let member = &mut self.members[place];
        let now = Instant::now();
        let is_calm = member.sleep.deadline() > now + CALM;
        member.sleep.reset_at(now + length);
        if is_calm {
            return;
        }
        let token = Token::of_set(&self.ledger, &self.inbox);
        token.put_at(place);
        std::mem::replace(&mut member.token, token).replace();
        assert!(!member.poll(), "a sleep that was reset to {length:?} was ready: early, or this thread stood as long");
    }

    /// Arms the sleep of a member that has ended, or takes it out.
    fn replace(&mut self, place: usize, rearm: bool) {
        let Member { mut sleep, token } = self.take_out(place);
        token.end();
        if rearm {
            sleep.reset_at(Instant::now() + self.some_length());
            self.arm(sleep);
        }
    }

    fn arm(&mut self, sleep: Sleep) {
        let token = Token::of_set(&self.ledger, &self.inbox);
        token.put_at(self.len());
        let mut member = Member { sleep, token };
        // Where this thread was held up for as long as the sleep is, that was never registered.
        while member.poll() {
            self.ledger.check_not_early(member.sleep.deadline());
            member.sleep.reset_at(Instant::now() + LONG);
        }
        self.ledger.registered_one();
        self.done.armed += 1;
        self.members.push(member);
    }

    fn take_out(&mut self, place: usize) -> Member {
        let member = self.members.swap_remove(place);
        if let Some(moved) = self.members.get(place) {
            moved.token.put_at(place);
        }
        member
    }

    fn some_length(&mut self) -> Duration {
        match self.random.usize(..SHORT_ONE_IN) {
            0 => between(&mut self.random, SHORT, SHORTS_END),
            _ => between(&mut self.random, LONG, LONGEST),
        }
    }
}

impl Member {
    /// Whether the sleep has ended.
    fn poll(&mut self) -> bool {
        let waker = Waker::from(Arc::clone(&self.token));
        Pin::new(&mut self.sleep).poll(&mut Context::from_waker(&waker)).is_ready()
    }

    fn drop(self) {
        let Member { sleep, token } = self;
        drop(sleep);
        token.end();
    }
}
