//! [`Stranger`]: a thread that may be the pool's.

use std::time::{Duration, Instant};

use super::STRANGE;
use super::member::{Member, PAGE};
use crate::test_util::idle::system::{On, Thread, Wait};

/// How long a new thread may take to give itself its name: in processor time, or if it sleeps, since it was found.
const NAMELESS: Duration = Duration::from_millis(20);

/// How long a thread waits in one place until it counts as a parked worker of another runtime.
const PARKED: Duration = Duration::from_millis(20);

/// A thread that may be the pool's.
#[derive(Debug)]
pub(super) struct Stranger {
    pub(super) thread: Thread,
    since: Instant,
    /// Whether it has the name of the pool's threads.
    named: bool,
    /// Whether it was idle at the last look, and how often it had been scheduled.
    idle: Option<u64>,
    /// The place in which it waits as a parked worker does, and since when.
    waits: Option<(Wait, Instant)>,
}

/// What a look finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strange {
    /// It seems to work.
    Works,
    /// It is idle: a call shows whether it is the pool's.
    Idle,
    /// It is not the pool's, or has ended.
    Other,
    /// It may be the pool's, but must not keep time from passing.
    Unconfirmed,
}

impl Stranger {
    pub(super) fn new(thread: Thread) -> Stranger {
        Stranger { thread, since: Instant::now(), named: false, idle: None, waits: None }
    }

    /// `name` is the name of the pool's threads, and `member` one of them.
    pub(super) fn look(&mut self, name: &[u8], member: &Member) -> Strange {
        let runs = self.thread.runs();
        self.idle = None;
        let (Ok(wait), Some(awake)) = (self.thread.wait(), self.thread.is_awake()) else { return Strange::Other };
        let wait = wait.filter(|_| !awake);
        let age = self.since.elapsed();
        if !self.named {
            self.named = self.thread.name().is_some_and(|its| without_number(&its) == without_number(name));
            if !self.named {
                let took = if awake { self.thread.processor_time().unwrap_or(NAMELESS) } else { age };
                return if took >= NAMELESS { Strange::Other } else { Strange::Works };
            }
        }
        let is_idle = |wait: &Wait| wait.on == On::TimedWord && wait.stack % PAGE == member.idle % PAGE;
        self.idle = wait.filter(is_idle).and(runs);
        let parks = |wait: &Wait| match wait.on {
            On::TimedWord => false,
            On::Word => is_on_stack(wait.word, wait.stack) == is_on_stack(member.parker, member.idle),
            On::Files => true,
        };
        let waits = wait.filter(parks);
        self.waits = waits.map(|wait| self.waits.filter(|waits| waits.0 == wait).unwrap_or((wait, Instant::now())));
        // Most often a worker of another runtime, parked.
        let is_parked = self.waits.is_some_and(|(_, since)| since.elapsed() >= PARKED);
        match wait {
            Some(_) if self.idle.is_some() => Strange::Idle,
            _ if is_parked || age >= STRANGE => Strange::Unconfirmed,
            _ => Strange::Works,
        }
    }

    /// Whether it was idle at the last look and has not run since.
    pub(super) fn is_idle_still(&self) -> bool {
        self.idle.is_some() && self.idle == self.thread.runs() && self.thread.is_awake() == Some(false)
    }
}

/// Whether a word is among a thread's own variables, near its stack, and not shared. Tokio parks threads on such a word
/// with its feature `parking_lot`.
fn is_on_stack(word: u64, stack: u64) -> bool {
    const LARGEST: u64 = 8 << 20;
    word.wrapping_sub(stack) < LARGEST
}

/// A name without the number and the line break at its end.
fn without_number(name: &[u8]) -> &[u8] {
    let ends = name.iter().rposition(|byte| !byte.is_ascii_digit() && *byte != b'\n');
    &name[..ends.map_or(0, |at| at + 1)]
}
