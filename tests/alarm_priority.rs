//! The alarm thread is as urgent as the program is, whoever made the first timer.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::thread;

use common::{current_thread, ms, must_end};
use hairspring::sleep;
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

/// Niceness and processors of a thread, by the number of its task.
fn scheduling(task: &str) -> (i32, String) {
    let stat = fs::read_to_string(format!("/proc/self/task/{task}/stat")).unwrap();
    // Behind the name, which is in brackets, come the state and then the fields from the fourth on.
    let niceness = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap().parse().unwrap();
    let status = fs::read_to_string(format!("/proc/self/task/{task}/status")).unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    (niceness, allowed.trim().to_owned())
}

/// Those of all alarm threads. One that was replaced ends by itself.
fn of_alarm_threads() -> Vec<(i32, String)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().file_name().into_string().unwrap());
    let name = |task: &String| fs::read_to_string(format!("/proc/self/task/{task}/comm")).unwrap_or_default();
    tasks.filter(|task| name(task).trim() == "hairspring-alar").map(|task| scheduling(&task)).collect()
}

#[test]
fn the_alarm_thread_does_not_keep_the_niceness_and_processors_of_a_background_thread() {
    must_end(|| {
        let main = scheduling(&std::process::id().to_string());
        thread::spawn(|| {
            setpriority_process(None, 19).unwrap();
            let allowed = sched_getaffinity(None).unwrap();
            let mut one = CpuSet::new();
            one.set((0..CpuSet::MAX_CPU).find(|&processor| allowed.is_set(processor)).unwrap());
            sched_setaffinity(None, &one).unwrap();
            assert_eq!(scheduling(&gettid().as_raw_nonzero().to_string()).0, 19);
            current_thread().block_on(sleep(ms(2)));
        })
        .join()
        .unwrap();
        // If the system did not let it become more urgent, a timer of a more urgent thread puts another in its place.
        current_thread().block_on(sleep(ms(2)));
        while of_alarm_threads() != [main.clone()] {
            thread::sleep(ms(1));
        }
        current_thread().block_on(sleep(ms(2)));
    });
}
