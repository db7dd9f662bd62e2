//! The threads of this crate have the main thread's niceness and processors, whatever thread made the first timer.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use common::{HUNG, current_thread, ms, must_end};
use fork::{Fork, fork, waitpid};
use futures::executor::block_on;
use hairspring::{Instant, sleep};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The niceness of a thread, and the processors that it may use.
type Urgency = (i32, String);

fn of(task: &str) -> Option<Urgency> {
    let read = |file| fs::read_to_string(format!("/proc/self/task/{task}/{file}")).ok();
    let stat = read("stat")?;
    // Behind the name, which is in brackets, come the state and then the fields from the fourth on.
    let niceness = stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()?;
    let status = read("status")?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some((niceness, allowed.trim().to_owned()))
}

/// The same for all threads of this crate.
fn of_ours() -> Vec<Urgency> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().file_name().into_string().unwrap());
    let name = |task: &String| fs::read_to_string(format!("/proc/self/task/{task}/comm")).unwrap_or_default();
    tasks.filter(|task| name(task).starts_with("hairspring")).filter_map(|task| of(&task)).collect()
}

/// Runs in a process of its own. `first` makes the first timers, on a separate thread. Whatever that thread's niceness
/// and processors, the threads that serve later sleeps have those of the main thread.
fn first_timers(first: fn()) {
    if let Fork::Parent(child) = fork().unwrap() {
        assert_eq!(waitpid(child).unwrap(), 0);
        return;
    }
    let test = || {
        let main = of(&std::process::id().to_string()).unwrap();
        thread::spawn(first).join().unwrap();
        let start = Instant::now();
        while of_ours().iter().any(|urgency| *urgency != main) {
            assert!(start.elapsed() < HUNG / 2, "{:?} and not as {main:?}", of_ours());
            block_on(sleep(ms(2)));
            current_thread().block_on(sleep(ms(2)));
        }
    };
    std::process::exit(i32::from(catch_unwind(AssertUnwindSafe(test)).is_err()));
}

fn sleep_on_both() {
    current_thread().block_on(sleep(ms(2)));
    block_on(sleep(ms(2)));
}

/// Whether the system lets a thread take its niceness back.
fn may_be_raised() -> bool {
    let lower_and_raise = || setpriority_process(None, 19).and_then(|()| setpriority_process(None, 0));
    thread::spawn(lower_and_raise).join().unwrap().is_ok()
}

/// A bug that this crate had: timers fired hundreds of milliseconds late if a background thread made the program's
/// first timer: the alarm thread inherited its niceness and CPU affinity.
// One test, as each part forks.
#[test]
fn the_threads_of_this_crate_do_not_stay_as_a_background_thread_was() {
    must_end(|| {
        if may_be_raised() {
            first_timers(|| {
                setpriority_process(None, 19).unwrap();
                sleep_on_both();
            });
        } else {
            println!("not tested with niceness: the system does not let this process raise a thread's priority");
        }
        first_timers(|| {
            let allowed = sched_getaffinity(None).unwrap();
            let mut one = CpuSet::new();
            one.set((0..CpuSet::MAX_CPU).find(|&processor| allowed.is_set(processor)).unwrap());
            sched_setaffinity(None, &one).unwrap();
            sleep_on_both();
        });
    });
}
