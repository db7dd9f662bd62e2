//! What threads cost that wait for the same deadlines without any runtime: what no timer can do without.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::cell::{Cell, Late, Outcome};
use crate::contenders::Contender;

/// How much longer the threads go on than it is counted: a thread that has ended is not counted.
const LONGER: Duration = Duration::from_millis(50);

/// What a thread costs that wakes up for each deadline and then wakes another one, and no runtime.
pub fn thread(_: &Contender, cell: &Cell) -> Outcome {
    let (cell, window) = (cell.clone(), cell.window());
    let [until, counted] = [window.clone(), window.clone()];
    let due = Arc::new(Mutex::new(Some(Vec::new())));
    let taken = Arc::clone(&due);
    let woken = thread::spawn(move || {
        let take = || taken.lock().expect("nobody panics").as_mut().map(mem::take);
        let mut seen = Vec::new();
        while let Some(due) = take() {
            seen.extend(late(due, &counted));
            thread::park();
        }
        seen
    });
    let waker = woken.thread().clone();
    let keeper = thread::spawn(move || {
        let turns = keep_time(&cell, &until, thread::park_timeout, |late| {
            due.lock().expect("nobody panics").as_mut().expect("it goes on").extend(late);
            waker.unpark();
        });
        *due.lock().expect("nobody panics") = None;
        waker.unpark();
        turns
    });
    let mut outcome = Outcome::metered(&window, || 0);
    outcome.turns = keeper.join().expect("it does not panic");
    outcome.note(woken.join().expect("it does not panic"));
    outcome
}

/// What a thread costs that sets a `timerfd` for each deadline and reads it, and nothing else.
pub fn timerfd(_: &Contender, cell: &Cell) -> Outcome {
    let (cell, window) = (cell.clone(), cell.window());
    let counted = window.clone();
    let keeper = thread::spawn(move || {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).expect("the system has one more");
        let wait = |time: Duration| {
            let it_value = Timespec { tv_sec: 0, tv_nsec: time.as_nanos().max(1) as i64 };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            timerfd_settime(&fd, TimerfdTimerFlags::empty(), &once).expect("less than a second");
            rustix::io::read(&fd, &mut [0_u8; 8]).expect("it can be read");
        };
        let mut seen = Vec::new();
        let turns = keep_time(&cell, &counted, wait, |due| seen.extend(late(due, &counted)));
        (turns, seen)
    });
    let mut outcome = Outcome::metered(&window, || 0);
    let seen;
    (outcome.turns, seen) = keeper.join().expect("it does not panic");
    outcome.note(seen);
    outcome
}

/// Waits for deadline after deadline of all tasks, a little longer than the window; returns the turns in it.
fn keep_time(
    cell: &Cell,
    window: &Range<Instant>,
    mut wait: impl FnMut(Duration),
    mut fire: impl FnMut(Vec<Instant>),
) -> u64 {
    let mut random = cell.random(0);
    let mut now = Instant::now();
    let mut deadlines: BinaryHeap<_> = (0..cell.tasks).map(|_| Reverse(now + cell.length(&mut random))).collect();
    let mut turns = 0;
    while now < window.end + LONGER {
        let next = deadlines.peek().map_or(now, |earliest| earliest.0);
        wait(next.saturating_duration_since(Instant::now()));
        now = Instant::now();
        let mut due = Vec::new();
        while let Some(mut earliest) = deadlines.peek_mut().filter(|earliest| earliest.0 <= now) {
            due.push(mem::replace(&mut *earliest, Reverse(now + cell.length(&mut random))).0);
        }
        if !due.is_empty() {
            turns += u64::from(window.contains(&now));
            fire(due);
        }
    }
    turns
}

fn late(due: Vec<Instant>, window: &Range<Instant>) -> Vec<Late> {
    let now = Instant::now();
    let counts = window.contains(&now);
    due.into_iter().filter(|_| counts).map(|deadline| now.checked_duration_since(deadline)).collect()
}
