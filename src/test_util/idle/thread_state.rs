//! [`Thread`]: whether a thread runs, as Linux tells. Other systems do not.
//!
//! A thread that was woken counts as running, although no CPU may have run it yet: on a busy machine, that takes
//! milliseconds.

use std::ffi::c_long;
use std::fs::File;
use std::time::{Duration, Instant};

use tokio::runtime;

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

    /// The system call in which it waits; `None` if it runs, is ready to run, or has ended.
    pub(super) fn waits_in(&self) -> Option<Call> {
        let call = waits::call(&self.call)?;
        waits::read(&self.stat, &mut [0; 192]).filter(|stat| !is_awake(stat)).map(|_| call)
    }
}

/// Whether the thread with this number runs or is ready to run. Keeps no file open: much work may end together.
pub(super) fn runs(number: u32) -> bool {
    let state = waits::open(number, "stat").and_then(|stat| waits::read(&stat, &mut [0; 192]).map(is_awake));
    state.unwrap_or(false)
}

/// Whether a thread runs, is ready to run, or was woken and waits for a page of memory. The state follows the name,
/// which is in parentheses, may contain some, and need not be UTF-8.
fn is_awake(stat: &[u8]) -> bool {
    let name_ends = stat.iter().rposition(|&byte| byte == b')');
    name_ends.is_none_or(|at| matches!(stat[at + 1..], [b' ', b'R' | b'D', ..]))
}

/// A thread in `block_on`. It always waits there on the same futex, which is learnt: in any other system call it counts
/// as running until it was found there many times in a row.
#[derive(Debug)]
pub(super) struct BlockedThread {
    thread: Thread,
    waits: Waits,
    /// Whether it ran a task after `block_in_place`.
    pub(super) was_worker: bool,
    /// Whether it was found to wait for blocking work, after that task.
    pub(super) has_left: bool,
}

impl BlockedThread {
    pub(super) fn current() -> Option<BlockedThread> {
        let (waits, was_worker) = (Waits::new(Instant::now()), runtime::worker_index().is_some());
        Some(BlockedThread { thread: Thread::current()?, waits, was_worker, has_left: false })
    }

    pub(super) fn runs(&mut self) -> bool {
        let call = self.thread.waits_in();
        let waits = self.waits.is_usual(call, Instant::now());
        self.has_left = self.was_worker && waits && call.is_some_and(may_be_for_work);
        !waits
    }
}

/// Where a thread was found to wait: each time the system call's number and first argument.
#[derive(Debug)]
struct Waits {
    usual: Option<(c_long, u64)>,
    last: Option<(c_long, u64)>,
    /// How often in a row it was found there, and when it last counted.
    times: u32,
    counted: Instant,
}

impl Waits {
    /// How often it must be found on its first condition variable, and in any other call. On a busy machine, the time
    /// between two checks says little: the thread may have run in between, or may wait for one that no CPU runs.
    const FIRST: u32 = 20;
    const OTHER: u32 = 100;
    /// The time between two checks that count.
    const APART: Duration = Duration::from_millis(1);

    fn new(now: Instant) -> Waits {
        Waits { usual: None, last: None, times: 0, counted: now }
    }

    /// Whether the thread, which is in `call` now, usually waits there.
    fn is_usual(&mut self, call: Option<Call>, now: Instant) -> bool {
        let at = call.filter(|call| !is_read_lock(*call)).map(|(number, [first, ..])| (number, first));
        if at != self.last {
            (self.last, self.times, self.counted) = (at, 0, now);
        } else if now - self.counted >= Waits::APART {
            (self.times, self.counted) = (self.times + 1, now);
        }
        let may_be_first = self.usual.is_none() && call.is_some_and(may_be_block_on);
        if at.is_some() && self.times >= if may_be_first { Waits::FIRST } else { Waits::OTHER } {
            self.usual = at;
        }
        at.is_some() && at == self.usual
    }
}

/// How the standard library waits for a private futex.
const WAIT_BITSET: u64 = 128 + 9;
/// From this value on, a futex is neither that of a condition variable, which counts up, nor that of a mutex.
const OTHERS: u64 = 1 << 30;

/// Whether a call may wait for a condition variable, whose futex is private to the process and counts. The futex of an
/// ending thread is not private, and that of a parked thread has another value.
fn may_be_condvar((_, [_, operation, value, _]): Call) -> bool {
    const WAIT: u64 = 128;
    matches!(operation, WAIT | WAIT_BITSET) && value < OTHERS
}

/// Whether a call may be that of `block_on`, and not that for a lock.
fn may_be_block_on(call @ (_, [_, _, value, _]): Call) -> bool {
    const LOCKED_MUTEX: u64 = 2;
    may_be_condvar(call) && value != LOCKED_MUTEX
}

/// Whether a call may be that of tokio's threads for blocking work: its time is limited, and that of `block_on` is not.
fn may_be_for_work(call @ (_, [.., limit]): Call) -> bool {
    may_be_condvar(call) && limit != 0
}

/// Whether a call waits to read what an `RwLock` protects, as some statics of this crate: the futex counts the readers,
/// and says in its highest bits who waits. That of a parked thread has all bits.
fn is_read_lock((_, [_, operation, value, _]): Call) -> bool {
    operation == WAIT_BITSET && value >= OTHERS && value != u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_woken_runs() {
        assert!(is_awake(b"7 (tokio-runtime-w) R 1 7 7 0 -1"));
        assert!(!is_awake(b"7 (tokio-runtime-w) S 1 7 7 0 -1"));
        assert!(is_awake(b"7 (tokio-runtime-w) D 1 7 7 0 -1"), "it waits for a page of its memory to be read");
        assert!(!is_awake(b"7 (a) R (b) S 1 7"), "a name with parentheses");
    }

    const BLOCK_ON: Option<Call> = Some((202, [0x7f10, 0x89, 7, 0]));
    const OTHER_CONDVAR: Option<Call> = Some((202, [0x7f20, 0x89, 7, 0]));
    const MUTEX: Option<Call> = Some((202, [0x7f30, 0x89, 2, 0]));
    const RWLOCK: Option<Call> = Some((202, [0x7f40, 0x89, 0x4000_0001, 0]));
    const CHANNEL: Option<Call> = Some((202, [0x7f50, 0x89, 0xffff_ffff, 0]));
    const JOIN: Option<Call> = Some((202, [0x7f60, 0x109, 0x77, 0]));

    /// How many checks in a row, each `apart`, find a thread in `call` until it counts as waiting, up to 1,000.
    fn checks(waits: &mut Waits, now: &mut Instant, call: Option<Call>, apart: Duration) -> usize {
        let mut found = || {
            *now += apart;
            waits.is_usual(call, *now)
        };
        (0..1_000).take_while(|_| !found()).count()
    }

    /// A bug that this crate had: on a busy machine, time moved while the thread in `block_on` waited for a lock, which
    /// a thread held that no CPU ran.
    #[test]
    fn a_thread_that_waits_for_a_lock_runs_for_a_hundred_checks() {
        let mut now = Instant::now();
        for call in [MUTEX, CHANNEL, JOIN] {
            assert_eq!(checks(&mut Waits::new(now), &mut now, call, Duration::from_secs(1)), 100, "{call:?}");
        }
        assert_eq!(checks(&mut Waits::new(now), &mut now, RWLOCK, Duration::from_secs(1)), 1_000, "however long");
    }

    #[test]
    fn a_thread_waits_as_usual_once_many_checks_in_a_row_found_it_there() {
        let mut now = Instant::now();
        let mut waits = Waits::new(now);
        for apart in [1, 1_000].map(Duration::from_millis) {
            for _ in 0..100 {
                assert!(!waits.is_usual(OTHER_CONDVAR, now), "it has run in between");
                now += apart;
                assert!(!waits.is_usual(OTHER_CONDVAR, now));
                assert!(!waits.is_usual(None, now), "it runs");
            }
        }
        assert_eq!(checks(&mut waits, &mut now, BLOCK_ON, Duration::from_millis(1)), 20);
        assert!(!waits.is_usual(None, now));
        let counts_on = BLOCK_ON.map(|(number, [futex, operation, _, limit])| (number, [futex, operation, 2, limit]));
        assert_eq!(checks(&mut waits, &mut now, counts_on, Duration::ZERO), 0, "from now on at once");
        assert_eq!(checks(&mut waits, &mut now, OTHER_CONDVAR, Duration::from_secs(1)), 100);
    }

    /// A bug that this crate had: after `block_in_place`, a thread in `block_on` that had slept for long was forgotten.
    #[test]
    fn only_a_wait_for_a_condition_variable_with_a_limit_may_be_for_work() {
        const LIMIT: u64 = 0x7ffd_1000;
        let limited = |call: Option<Call>| call.map(|(number, [a, b, c, _])| (number, [a, b, c, LIMIT]));
        // After two notifications, a condition variable has the value of a locked mutex.
        for call in [BLOCK_ON, MUTEX] {
            assert_eq!([call, limited(call)].map(|call| call.is_some_and(may_be_for_work)), [false, true]);
        }
        let sleeps = Some((230, [1, 0, LIMIT, LIMIT]));
        let polls = Some((232, [3, LIMIT, 1_024, u64::from(u32::MAX)]));
        for call in [limited(CHANNEL), limited(JOIN), sleeps, polls] {
            assert!(!call.is_some_and(may_be_for_work), "{call:?}");
        }
    }

    #[test]
    fn checks_in_quick_succession_count_once() {
        let mut now = Instant::now();
        let mut waits = Waits::new(now);
        assert_eq!(checks(&mut waits, &mut now, OTHER_CONDVAR, Duration::from_micros(1)), 1_000);
        assert_eq!(checks(&mut waits, &mut now, None, Duration::from_secs(1)), 1_000, "it runs");
    }
}
