//! A process that was forked while threads of its parent were making, registering and dropping timers.
#![cfg(target_os = "linux")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{HUNG, current_thread, ms, multi_thread};
use fork::{Fork, fork, waitpid_nohang};
use hairspring::{Instant, Timer, interval, sleep};
use rustix::process::{Pid, Signal, getpid, kill_process};

const CHILDREN: usize = 100;

/// Whether a child that runs `code` completes.
fn ends_in_a_child(code: impl FnOnce()) -> bool {
    match fork().unwrap() {
        Fork::Child => {
            code();
            // Ends without taking a lock of the parent's.
            kill_process(getpid(), Signal::KILL).unwrap();
            unreachable!("it was killed");
        }
        Fork::Parent(child) => {
            let start = Instant::now();
            while start.elapsed() < HUNG / 3 {
                if waitpid_nohang(child).unwrap().is_some() {
                    return true;
                }
                thread::yield_now();
            }
            kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
            false
        }
    }
}

/// Runs `busy` on two threads, over and over, while this thread forks.
fn children_end_beside(busy: impl Fn() + Sync, child: impl Fn()) {
    let stop = AtomicBool::new(false);
    let hung = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    busy();
                }
            });
        }
        let hung = (0..CHILDREN).filter(|_| !ends_in_a_child(&child)).take(2).count();
        stop.store(true, Ordering::SeqCst);
        hung
    });
    // One in thousands hangs on a lock of the standard library's, taken as a thread starts.
    assert!(hung < 2, "children hung");
}

/// A bug that this crate had: a child process hung if it was forked while other threads made timers: the locks that
/// those threads held stayed locked in the child.
#[test]
fn a_child_forked_off_while_timers_are_made_and_dropped_sleeps() {
    futures::executor::block_on(sleep(ms(1)));
    children_end_beside(
        || drop(Timer::builder().build_with_driver().unwrap()),
        || futures::executor::block_on(sleep(ms(1))),
    );
}

#[test]
fn a_child_forked_off_while_timers_are_installed_sleeps_in_a_runtime_of_its_own() {
    current_thread().block_on(sleep(ms(1)));
    children_end_beside(
        || {
            let runtime = current_thread();
            let _inside = runtime.enter();
            for _ in 0..10 {
                Timer::builder().install().unwrap().shutdown();
            }
        },
        || current_thread().block_on(sleep(ms(1))),
    );
}

#[test]
fn a_child_forked_off_while_others_sleep_on_the_processs_timer_sleeps() {
    futures::executor::block_on(sleep(ms(1)));
    children_end_beside(
        || {
            futures::executor::block_on(futures::future::join_all(
                (0..20).map(|n| sleep(Duration::from_micros(50 * n))),
            ));
        },
        || futures::executor::block_on(sleep(ms(1))),
    );
}

/// A timer of the parent's that fired in the child would wake a task of the parent's runtime there. That takes a lock of
/// tokio's, which a thread of the parent may have held.
#[test]
fn a_child_forked_off_while_tasks_are_spawned_sleeps_on_no_runtime() {
    let runtimes: Vec<_> = (0..8).map(|_| multi_thread(1)).collect();
    for runtime in &runtimes {
        runtime.spawn(async {
            let mut ticks = interval(Duration::from_micros(500));
            loop {
                ticks.tick().await;
            }
        });
    }
    let next = AtomicUsize::new(0);
    children_end_beside(
        || {
            let runtime = &runtimes[next.fetch_add(1, Ordering::SeqCst) % runtimes.len()];
            for _ in 0..100 {
                runtime.spawn(async {});
            }
        },
        || futures::executor::block_on(sleep(ms(5))),
    );
}
