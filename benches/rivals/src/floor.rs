//! The cost of meeting the same deadlines with plain threads: no timer can do with less.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;
use std::ops::Range;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::cell::{Cell, length};
use crate::contender::Contender;
use crate::outcome::{Late, Outcome};

/// The threads outlive the window by this much, because a thread that has ended is not metered.
const LONGER: Duration = Duration::from_millis(50);

/// One thread wakes for each deadline and wakes another.
pub fn thread(_: &Contender, cell: &Cell) -> Outcome {
    measure(cell, |cell, window| {
        let (sender, receiver) = mpsc::channel();
        let counted = window.clone();
        let woken = thread::spawn(move || receiver.iter().flat_map(|due| late(due, &counted)).collect());
        let turns = keep_time(cell, window, thread::park_timeout, |due| sender.send(due).expect("it receives"));
        drop(sender);
        (turns, woken.join().expect("it does not panic"))
    })
}

/// One thread sets a `timerfd` for each deadline and reads it.
pub fn timerfd(_: &Contender, cell: &Cell) -> Outcome {
    measure(cell, |cell, window| {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).expect("a file is left");
        let wait = |time: Duration| {
            let it_value = Timespec { tv_sec: 0, tv_nsec: time.as_nanos().max(1) as i64 };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            timerfd_settime(&fd, TimerfdTimerFlags::empty(), &once).expect("less than a second");
            rustix::io::read(&fd, &mut [0_u8; 8]).expect("it can be read");
        };
        let mut seen = Vec::new();
        (keep_time(cell, window, wait, |due| seen.extend(late(due, window))), seen)
    })
}

fn measure(cell: &Cell, run: fn(&Cell, &Range<Instant>) -> (u64, Vec<Late>)) -> Outcome {
    let (cell, window) = (cell.clone(), cell.window());
    let counted = window.clone();
    let keeper = thread::spawn(move || run(&cell, &counted));
    let mut outcome = Outcome::metered(&window, || 0);
    let (turns, seen) = keeper.join().expect("it does not panic");
    outcome.turns = turns;
    outcome.note(seen);
    outcome
}

/// Waits for the next deadline of all tasks until shortly after the window. Returns the turns in the window.
fn keep_time(cell: &Cell, window: &Range<Instant>, wait: impl Fn(Duration), mut fire: impl FnMut(Vec<Instant>)) -> u64 {
    let (mut random, mut now, mut turns) = (cell.random(0), Instant::now(), 0);
    let mut deadlines: BinaryHeap<_> = (0..cell.tasks).map(|_| Reverse(now + length(&mut random))).collect();
    while now < window.end + LONGER {
        let next = deadlines.peek().map_or(now, |earliest| earliest.0);
        wait(next.saturating_duration_since(Instant::now()));
        now = Instant::now();
        let mut due = Vec::new();
        while let Some(mut earliest) = deadlines.peek_mut().filter(|earliest| earliest.0 <= now) {
            due.push(mem::replace(&mut *earliest, Reverse(now + length(&mut random))).0);
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
