//! Forked processes, such as daemons. The parent's threads do not exist in the child.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::exit;
use std::thread;
use std::time::Instant;

use crate::common::{HUNG, bare, current_thread, ms, multi_thread, step, use_time};
use crate::forking;
#[cfg(target_os = "linux")]
use crate::sleeps;
use fork::{Fork, fork, waitpid_nohang};
use futures::executor::block_on;
use hairspring::{boot, sleep, wall};

/// The exit status of a child whose check passed.
const WELL: i32 = if cfg!(target_os = "linux") { 9 } else { 17 << 8 };

/// Ends a child, without taking a lock of its parent's if the system allows that.
fn end(well: bool) -> ! {
    #[cfg(target_os = "linux")]
    if well {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    }
    exit(if well { WELL >> 8 } else { 1 });
}

/// Waits for a child, and returns whether it ended.
fn ended(child: i32) -> bool {
    let start = Instant::now();
    while start.elapsed() < HUNG / 3 {
        if let Some(status) = waitpid_nohang(child).unwrap() {
            assert_eq!(status, WELL);
            step();
            return true;
        }
        thread::yield_now();
    }
    #[cfg(target_os = "linux")]
    rustix::process::kill_process(rustix::process::Pid::from_raw(child).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    false
}

/// Whether a child that runs `code` ends.
fn ends_in_a_child(code: impl FnOnce()) -> bool {
    match fork().unwrap() {
        Fork::Child => end(catch_unwind(AssertUnwindSafe(code)).is_ok()),
        Fork::Parent(child) => ended(child),
    }
}

fn in_a_child(code: impl FnOnce()) {
    assert!(ends_in_a_child(code), "the child hangs");
}

/// Waits until all other threads sleep. A lock of tokio's that one of them held at the fork would stay locked in the
/// child.
fn settle() {
    #[cfg(target_os = "linux")]
    {
        let this = std::fs::read_link("/proc/thread-self").unwrap();
        let is_still = |thread: std::path::PathBuf| this.ends_with(thread.file_name().unwrap()) || sleeps(&thread);
        let mut asleep = 0;
        while asleep < 3 {
            let all = std::fs::read_dir("/proc/self/task").unwrap().all(|thread| is_still(thread.unwrap().path()));
            asleep = if all { asleep + 1 } else { 0 };
            thread::yield_now();
        }
    }
}

fn everything_fires() {
    for runtime in [current_thread(), multi_thread(2)] {
        runtime.block_on(async {
            tokio::spawn(use_time()).await.unwrap();
            boot::sleep(ms(2)).await;
            wall::sleep_until(wall::now() + ms(2)).await;
        });
        // A thread that ends takes the lock that `forking` mentions. Do not wait for it.
        runtime.shutdown_background();
    }
    block_on(sleep(ms(2)));
}

/// A bug that this crate had: every sleep in the child hung, because the child inherited the flag that says that the
/// alarm thread runs, but not the thread.
#[test]
fn timers_fire_in_a_child_of_a_child() {
    forking(|| {
        in_a_child(everything_fires);
        everything_fires();
        in_a_child(everything_fires);
        in_a_child(|| {
            everything_fires();
            in_a_child(everything_fires);
        });
        // Fork as soon as the parent is woken, while the thread that woke it is still in its turn.
        for _ in 0..30 {
            block_on(sleep(ms(1)));
            in_a_child(|| block_on(sleep(ms(1))));
            current_thread().block_on(sleep(ms(1)));
            in_a_child(|| current_thread().block_on(sleep(ms(1))));
        }
        everything_fires();
    });
}

/// It also inherits the parent's pending timers.
#[test]
fn an_inherited_runtime_works_in_the_child() {
    forking(|| {
        // This runtime has no time driver of tokio's.
        let [runtime, _] = bare();
        runtime.block_on(sleep(ms(2)));
        settle();
        in_a_child(|| {
            runtime.block_on(sleep(ms(2)));
            runtime.block_on(runtime.spawn(sleep(ms(2)))).unwrap();
        });
        let waits = runtime.spawn(sleep(ms(10)));
        runtime.block_on(sleep(ms(2)));
        settle();
        in_a_child(|| runtime.block_on(sleep(ms(50))));
        runtime.block_on(waits).unwrap();

        // Fork in a task that goes on in the child.
        let task = runtime.spawn(async {
            let waits = tokio::spawn(sleep(ms(10)));
            // The second makes the thread remember the timer for this task, not for the spawned one.
            sleep(ms(1)).await;
            sleep(ms(1)).await;
            settle();
            match fork().unwrap() {
                Fork::Child => {
                    sleep(ms(50)).await;
                    end(true);
                }
                Fork::Parent(child) => assert!(ended(child), "the child hangs"),
            }
            waits.await.unwrap();
        });
        runtime.block_on(task).unwrap();

        // Fork on a worker, which remembers its timer.
        multi_thread(1).block_on(async {
            for _ in 0..100 {
                tokio::spawn(sleep(ms(1))).await.unwrap();
            }
            let waits = tokio::spawn(sleep(ms(10)));
            let fork = async {
                settle();
                in_a_child(|| thread::spawn(|| current_thread().block_on(sleep(ms(50)))).join().unwrap());
            };
            tokio::spawn(fork).await.unwrap();
            waits.await.unwrap();
        });
    });
}

#[cfg(target_os = "linux")]
mod busy {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    use crate::common::beside;
    use futures::future::join_all;
    use hairspring::Timer;

    use super::*;

    /// Runs `busy` repeatedly on two threads, while this thread forks.
    fn children_end_beside(busy: impl Fn() + Sync, child: impl Fn()) {
        // Initializes statics, which takes locks.
        block_on(sleep(ms(1)));
        current_thread().block_on(sleep(ms(1)));
        let busy = |over: &AtomicBool| {
            while !over.load(SeqCst) {
                busy();
            }
        };
        assert!(beside(2, busy, || (0..40).all(|_| ends_in_a_child(&child))), "a child hung");
    }

    /// A bug that this crate had: the locks that threads held at the fork stayed locked in the child.
    #[test]
    fn a_child_sleeps_although_parent_threads_used_timers() {
        forking(|| {
            let without_a_runtime = || block_on(sleep(ms(1)));
            let make = |timer: fn() -> Timer| {
                let runtime = current_thread();
                let _inside = runtime.enter();
                for _ in 0..10 {
                    timer().shutdown();
                }
            };
            children_end_beside(|| make(|| Timer::builder().build().unwrap()), without_a_runtime);
            let install = || make(|| Timer::builder().install().unwrap());
            children_end_beside(install, || current_thread().block_on(sleep(ms(1))));
            let naps = || join_all((0..20).map(|n| sleep(Duration::from_micros(50 * n))));
            children_end_beside(|| drop(block_on(naps())), without_a_runtime);
        });
    }

    /// If a timer of the parent fired in the child, it would wake a task of the parent's runtime. That takes a lock of
    /// tokio's, which a thread of the parent may have held at the fork.
    #[test]
    fn a_child_sleeps_although_parent_threads_spawned_tasks() {
        forking(|| {
            let runtimes = [(); 8].map(|()| multi_thread(1));
            for runtime in &runtimes {
                runtime.spawn(async {
                    let mut ticks = hairspring::interval(Duration::from_micros(500));
                    loop {
                        ticks.tick().await;
                    }
                });
            }
            let next = AtomicUsize::new(0);
            let spawn = || {
                let runtime = &runtimes[next.fetch_add(1, SeqCst) % runtimes.len()];
                for _ in 0..100 {
                    runtime.spawn(async {});
                }
            };
            children_end_beside(spawn, || block_on(sleep(ms(5))));
        });
    }
}

/// A bug that this crate had: a child that registered with its parent's timer moved the parent's alarm, because both
/// processes share the `timerfd`.
#[cfg(target_os = "linux")]
#[test]
fn a_child_does_not_move_its_parents_timerfd() {
    use crate::common::{HOUR, inside, poll, polled};
    use hairspring::{Timer, timer::Alarm};

    forking(|| {
        let runtime = multi_thread(1);
        let timer = inside(&runtime, || Timer::builder().alarm(Alarm::Timerfd).build().unwrap());
        block_on(timer.sleep(ms(2)));
        let mut far = polled(timer.sleep(HOUR));
        let turns = || timer.metrics().turns();
        // The turn of an earlier sleep may begin only now. If the fork falls into it, the child's sleep waits forever.
        let a_child_moves_nothing = || {
            thread::sleep(ms(50));
            let before = turns();
            in_a_child(|| {
                let _ = poll(&mut timer.sleep(ms(20)));
                timer.shutdown();
            });
            thread::sleep(ms(50));
            turns() == before
        };
        assert!((0..20).any(|_| a_child_moves_nothing()), "the parent's alarm went off");
        assert!(poll(&mut far).is_pending());
        let before = turns();
        // A sleep that is first polled late needs no turn.
        while turns() == before {
            block_on(timer.sleep(ms(2)));
        }
    });
}

/// A bug that this crate had: such a process hung, because it believed that the ancestor's alarm thread was its own.
#[cfg(target_os = "linux")]
#[test]
fn a_process_with_a_dead_ancestors_id_sleeps() {
    use std::io::{Read, Write};
    use std::{fs, os::unix::net::UnixStream, process::id};

    /// Root can set the id of the next process here.
    const LAST: &str = "/proc/sys/kernel/ns_last_pid";

    /// Whether a child with the wanted id can sleep. `None` if it got another id.
    fn sleeps_as(wanted: u32) -> Option<bool> {
        fs::write(LAST, (wanted - 1).to_string()).unwrap();
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let sleeps = ends_in_a_child(|| {
            there.write_all(&[u8::from(id() == wanted)]).unwrap();
            block_on(sleep(ms(1)));
        });
        let mut has_it = [0];
        here.read_exact(&mut has_it).unwrap();
        (has_it == [1]).then_some(sleeps)
    }

    forking(|| {
        if let Err(error) = fs::read_to_string(LAST).and_then(|last| fs::write(LAST, last)) {
            println!("not tested: the id of a process cannot be chosen here: {error}");
            return;
        }
        // A process sleeps, forks and ends. Its child uses no timer, and forks a process with the dead parent's id.
        let once = || {
            let (mut here, mut there) = UnixStream::pair().unwrap();
            in_a_child(|| {
                block_on(sleep(ms(1)));
                let sleeper = id();
                if let Fork::Child = fork().unwrap() {
                    there.read_exact(&mut [0]).unwrap();
                    let report = sleeps_as(sleeper).map_or(2, u8::from);
                    there.write_all(&[report]).unwrap();
                }
            });
            here.write_all(&[0]).unwrap();
            let mut report = [0];
            here.read_exact(&mut report).unwrap();
            report[0]
        };
        // Try again if another program took the id.
        let report = (0..100).map(|_| once()).find(|&report| report != 2);
        assert_eq!(report, Some(1), "the process hangs");
    });
}
