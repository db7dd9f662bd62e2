//! [`Thread`]: whether a thread runs, as Linux tells. Other systems do not.
//!
//! A thread that was woken counts as running, although no CPU may have run it yet: on a busy machine, that takes
//! milliseconds.

use std::fs::File;
use std::time::{Duration, Instant};

use crate::util::waits::{self, Call};

#[derive(Debug)]
pub(super) struct Thread {
    /// Says which system call it is in.
    call: File,
    /// Says whether it sleeps or runs, among much else.
    stat: File,
}

impl Thread {
    /// Returns `None` if the system does not say what the calling thread does.
    pub(super) fn current() -> Option<Thread> {
        let open = |name| waits::are_known().then(|| waits::open(waits::current_number(), name)).flatten();
        Some(Thread { call: open("syscall")?, stat: open("stat")? })
    }

    /// Whether it waits, and no CPU is to run it. `None` if it has ended.
    pub(super) fn sleeps(&self) -> Option<bool> {
        waits::read(&self.stat, &mut [0; 192]).map(|stat| !is_awake(stat))
    }

    /// The system call in which it waits; `None` if it runs, is ready to run, or has ended.
    fn waits_in(&self) -> Option<Call> {
        let call = waits::call(&self.call)?;
        self.sleeps()?.then_some(call)
    }
}

/// Whether a thread runs or is ready to run. The state follows the name, which is in parentheses, may contain some,
/// and need not be UTF-8.
fn is_awake(stat: &[u8]) -> bool {
    let name_ends = stat.iter().rposition(|&byte| byte == b')');
    name_ends.is_none_or(|at| stat[at + 1..].starts_with(b" R"))
}

/// A thread in `block_on`. It always waits there on the same futex, which is learnt: in any other system call it counts
/// as running until it was found there many times in a row.
#[derive(Debug)]
pub(super) struct BlockedThread {
    thread: Thread,
    waits: Waits,
}

impl BlockedThread {
    pub(super) fn current() -> Option<BlockedThread> {
        Some(BlockedThread { thread: Thread::current()?, waits: Waits::new(Instant::now()) })
    }

    pub(super) fn runs(&mut self) -> bool {
        !self.waits.is_usual(self.thread.waits_in(), Instant::now())
    }
}

/// Where a thread was found to wait.
#[derive(Debug)]
struct Waits {
    usual: Option<Call>,
    last: Option<Call>,
    /// How often in a row it was found there, and when it last counted.
    times: u32,
    counted: Instant,
}

impl Waits {
    /// How often it must be found on its first futex, and in any other call. On a busy machine, the time between two checks
    /// says little: the thread may have run in between, or may wait for one that no CPU runs.
    const FIRST: u32 = 20;
    const OTHER: u32 = 100;
    /// The second argument of a first call: a futex that is private to the process, unlike that of an ending thread.
    const ON_FUTEX: [u64; 2] = [128, 128 + 9];
    /// The time between two checks that count.
    const APART: Duration = Duration::from_millis(1);

    fn new(now: Instant) -> Waits {
        Waits { usual: None, last: None, times: 0, counted: now }
    }

    /// Whether the thread, which waits in `call` now, usually waits there.
    fn is_usual(&mut self, call: Option<Call>, now: Instant) -> bool {
        if call != self.last {
            (self.last, self.times, self.counted) = (call, 0, now);
        } else if now - self.counted >= Waits::APART {
            (self.times, self.counted) = (self.times + 1, now);
        }
        let may_be_first = self.usual.is_none() && call.is_some_and(|(_, of)| Waits::ON_FUTEX.contains(&of[1]));
        if self.times >= if may_be_first { Waits::FIRST } else { Waits::OTHER } {
            self.usual = call;
        }
        call.is_some() && call == self.usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_woken_runs() {
        assert!(is_awake(b"7 (tokio-runtime-w) R 1 7 7 0 -1"));
        assert!(!is_awake(b"7 (tokio-runtime-w) S 1 7 7 0 -1"));
        assert!(!is_awake(b"7 (a) R (b) S 1 7"), "a name with parentheses");
    }

    const BLOCK_ON: Option<Call> = Some((202, [0x7f10, 0x89]));
    const LOCK: Option<Call> = Some((202, [0x7f20, 0x89]));
    /// The end of a thread.
    const JOIN: Option<Call> = Some((202, [0x7f20, 0x109]));

    /// How many checks in a row, each `apart`, find a thread in `call` until it counts as waiting, up to 1,000.
    fn checks(waits: &mut Waits, now: &mut Instant, call: Option<Call>, apart: Duration) -> usize {
        let mut found = || {
            *now += apart;
            waits.is_usual(call, *now)
        };
        (0..1_000).take_while(|_| !found()).count()
    }

    /// A bug that this crate had: on a busy machine, two checks that were far apart and found a thread at the same lock
    /// made its futex that of `block_on`.
    #[test]
    fn a_thread_waits_as_usual_once_many_checks_in_a_row_found_it_there() {
        let mut now = Instant::now();
        let mut waits = Waits::new(now);
        for apart in [1, 1_000].map(Duration::from_millis) {
            for _ in 0..100 {
                assert!(!waits.is_usual(LOCK, now), "it has run in between");
                now += apart;
                assert!(!waits.is_usual(LOCK, now));
                assert!(!waits.is_usual(None, now), "it runs");
            }
        }
        assert_eq!(checks(&mut waits, &mut now, BLOCK_ON, Duration::from_millis(1)), 20);
        assert!(!waits.is_usual(None, now));
        assert_eq!(checks(&mut waits, &mut now, BLOCK_ON, Duration::ZERO), 0, "from now on at once");
        assert_eq!(checks(&mut waits, &mut now, LOCK, Duration::from_secs(1)), 100);
        assert_eq!(checks(&mut Waits::new(now), &mut now, JOIN, Duration::from_secs(1)), 100, "not the first either");
    }

    #[test]
    fn checks_in_quick_succession_count_once() {
        let mut now = Instant::now();
        let mut waits = Waits::new(now);
        assert_eq!(checks(&mut waits, &mut now, LOCK, Duration::from_micros(1)), 1_000);
        assert_eq!(checks(&mut waits, &mut now, None, Duration::from_secs(1)), 1_000, "it runs");
    }
}
