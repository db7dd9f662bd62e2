//! The paused clock of a multi-thread runtime does not move during blocking work that tokio started itself.
#![cfg(all(feature = "test-util", target_os = "linux"))]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use common::{HOUR, OnDrop, current_thread, ms, multi_thread, must_end, step};
use hairspring::test_util::{self, ManualClock};
use hairspring::{Instant, Timer, pause, sleep, timeout};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinSet, block_in_place, spawn_blocking};

/// Shorter than the first deadline that the clock would jump to.
const SHORT: Duration = Duration::from_secs(1);

/// Runs `test` on paused runtimes with different numbers of workers, in the root future and in a task, and fails if it
/// hangs.
fn on_paused_runtimes<F: Future<Output = ()> + Send + 'static>(test: impl Fn() -> F + Send + Clone + 'static) {
    for (workers, in_task) in [(1, false), (1, true), (2, false), (2, true), (4, true)] {
        let test = test.clone();
        must_end(move || {
            multi_thread(workers).block_on(async {
                pause();
                if in_task {
                    tokio::spawn(test()).await.unwrap();
                } else {
                    test().await;
                }
            });
        });
    }
}

/// Waits for `work`, during which no time may pass, and then for an hour, which must pass.
async fn no_time_passes_during<T>(work: impl Future<Output = T>) -> T {
    let before = Instant::now();
    let done = timeout(SHORT, work).await.expect("time went on without it");
    assert_eq!(before.elapsed(), Duration::ZERO, "time went on");
    sleep(HOUR).await;
    assert_eq!(before.elapsed(), HOUR);
    step();
    done
}

#[test]
fn a_blocking_task() {
    on_paused_runtimes(|| async {
        for pause in [0, 1, 5, 30] {
            let work = spawn_blocking(move || {
                thread::sleep(ms(pause));
                pause
            });
            assert_eq!(no_time_passes_during(work).await.unwrap(), pause);
        }
        let computes = spawn_blocking(|| {
            let start = std::time::Instant::now();
            while start.elapsed() < ms(30) {}
        });
        no_time_passes_during(computes).await.unwrap();
    });
}

/// The blocking thread waits in the same system call as an idle thread.
#[test]
fn a_blocking_task_that_waits_for_another_thread() {
    on_paused_runtimes(|| async {
        let lock = Arc::new(Mutex::new(()));
        let (locked, is_locked) = mpsc::channel();
        let held = lock.clone();
        let holder = thread::spawn(move || {
            let _held = held.lock().unwrap();
            locked.send(()).unwrap();
            thread::sleep(ms(50));
        });
        is_locked.recv().unwrap();
        no_time_passes_during(spawn_blocking(move || drop(lock.lock().unwrap()))).await.unwrap();
        holder.join().unwrap();

        let (sender, word) = mpsc::channel();
        let sends = thread::spawn(move || {
            thread::sleep(ms(50));
            sender.send(()).unwrap();
        });
        let both = move || (word.recv_timeout(HOUR).is_ok(), word.recv().is_ok());
        assert_eq!(no_time_passes_during(spawn_blocking(both)).await.unwrap(), (true, false));
        sends.join().unwrap();
    });
}

#[test]
fn many_blocking_tasks_at_a_time() {
    on_paused_runtimes(|| async {
        for _ in 0..3 {
            let mut tasks: JoinSet<()> = JoinSet::new();
            for n in 0..16 {
                tasks.spawn_blocking(move || thread::sleep(ms(n * 7 % 16 * 5)));
            }
            no_time_passes_during(tasks.join_all()).await;
        }
    });
}

/// The waiting task is woken before the blocking thread is idle again.
#[test]
fn thousands_of_short_blocking_tasks() {
    on_paused_runtimes(|| async {
        for round in common::rounds(1_000) {
            let (before, spins) = (Instant::now(), round % 50);
            let work = spawn_blocking(move || (0..spins).for_each(|_| thread::yield_now()));
            timeout(SHORT, work).await.expect("time went on without it").unwrap();
            assert_eq!(before.elapsed(), Duration::ZERO, "in round {round}");
            sleep(ms(1)).await;
        }
    });
}

/// One thread runs all work: queued work has not started yet.
#[test]
fn blocking_tasks_that_wait_for_a_thread() {
    must_end(|| {
        let runtime =
            Builder::new_multi_thread().worker_threads(2).max_blocking_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            pause();
            for _ in 0..3 {
                let mut tasks: JoinSet<()> = JoinSet::new();
                for _ in 0..5 {
                    tasks.spawn_blocking(|| thread::sleep(ms(10)));
                }
                no_time_passes_during(tasks.join_all()).await;
            }
        });
    });
}

fn pipe(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[test]
fn files_are_read() {
    let directory = std::env::temp_dir().join(format!("hairspring-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.clone();
    let _removed = OnDrop(move || std::fs::remove_dir_all(&path).unwrap());
    let pipe = pipe(&directory, "pipe");
    on_paused_runtimes(move || {
        let pipe = pipe.clone();
        async move {
            for _ in 0..3 {
                let end = pipe.clone();
                let writer = thread::spawn(move || {
                    thread::sleep(ms(20));
                    std::fs::write(end, "word").unwrap();
                });
                assert_eq!(no_time_passes_during(tokio::fs::read(&pipe)).await.unwrap(), b"word");
                writer.join().unwrap();
            }
            for _ in 0..20 {
                no_time_passes_during(tokio::fs::read("/proc/self/status")).await.unwrap();
            }
        }
    });
}

#[test]
fn a_hosts_address_is_looked_up() {
    on_paused_runtimes(|| async {
        for _ in 0..10 {
            let addresses = no_time_passes_during(tokio::net::lookup_host("localhost:80")).await;
            assert!(addresses.is_ok_and(|mut all| all.next().is_some()));
        }
    });
}

/// Nothing else can run, so time must pass, or this would wait forever.
#[test]
fn a_blocking_task_that_waits_for_the_runtime_lets_time_pass() {
    on_paused_runtimes(|| async {
        let start = Instant::now();
        for n in 1..=20 {
            let work = spawn_blocking(|| Handle::current().block_on(sleep(HOUR)));
            work.await.unwrap();
            assert_eq!(start.elapsed(), n * HOUR);
        }
        let (sender, answer) = tokio::sync::oneshot::channel();
        let work = spawn_blocking(|| answer.blocking_recv().unwrap());
        sleep(HOUR).await;
        sender.send(5).unwrap();
        assert_eq!((work.await.unwrap(), start.elapsed()), (5, 21 * HOUR));

        let (sender, answer) = mpsc::channel();
        let work = spawn_blocking(move || answer.recv().unwrap());
        sleep(HOUR).await;
        sender.send(6).unwrap();
        assert_eq!((work.await.unwrap(), start.elapsed()), (6, 22 * HOUR));
    });
}

/// Another thread becomes a worker in its place.
#[test]
fn a_worker_that_blocks_in_place_lets_time_pass() {
    for workers in [1, 2, 4] {
        must_end(move || {
            multi_thread(workers).block_on(async {
                pause();
                let start = Instant::now();
                let nests = async move {
                    for _ in 0..20 {
                        block_in_place(|| Handle::current().block_on(sleep(HOUR)));
                        sleep(HOUR).await;
                        no_time_passes_during(spawn_blocking(|| thread::sleep(ms(2)))).await.unwrap();
                    }
                };
                tokio::spawn(nests).await.unwrap();
                assert_eq!(start.elapsed(), 60 * HOUR);
            });
        });
    }
}

/// Threads of other runtimes have the same name. Their work does not stop time here.
#[test]
fn other_runtimes_do_as_they_like() {
    must_end(|| {
        let done = Arc::new(AtomicBool::new(false));
        let spins = |done: &Arc<AtomicBool>| {
            let done = done.clone();
            move || {
                while !done.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            }
        };
        let waits = |done: &Arc<AtomicBool>| {
            let done = done.clone();
            move || {
                while !done.load(Ordering::Relaxed) {
                    thread::sleep(ms(1));
                }
            }
        };
        let mut others: Vec<Runtime> = Vec::new();
        let ends = done.clone();
        let _ends = OnDrop(move || ends.store(true, Ordering::Relaxed));
        let runtime = multi_thread(2);
        runtime.block_on(async {
            pause();
            let start = Instant::now();
            for n in 1..=5 {
                // Its threads begin just as some do here.
                let work = (0..3).map(|_| spawn_blocking(|| thread::sleep(ms(5)))).collect::<Vec<_>>();
                let other = multi_thread(2);
                let works = waits(&done);
                if n < 3 {
                    other.spawn_blocking(spins(&done));
                }
                other.spawn(async move { works() });
                other.spawn_blocking(waits(&done));
                others.push(other);
                for work in work {
                    timeout(SHORT, work).await.expect("time went on without it").unwrap();
                }
                sleep(HOUR).await;
                assert_eq!(start.elapsed(), n * HOUR);
            }
        });
    });
}

/// Threads that end as soon as they are idle, and a pool without threads.
#[test]
fn a_pool_that_cannot_be_watched_lets_time_pass() {
    for keeps in [Duration::ZERO, ms(1), ms(30)] {
        must_end(move || {
            let runtime = Builder::new_multi_thread().worker_threads(2).thread_keep_alive(keeps).enable_all().build();
            runtime.unwrap().block_on(async {
                pause();
                let start = Instant::now();
                for n in 1..=10 {
                    spawn_blocking(|| thread::sleep(ms(2))).await.unwrap();
                    sleep(HOUR).await;
                    assert!(start.elapsed() >= n * HOUR);
                }
            });
        });
    }
    must_end(|| {
        let runtime = Builder::new_multi_thread().worker_threads(2).max_blocking_threads(1).enable_all().build();
        runtime.unwrap().block_on(async {
            let (sender, answer) = mpsc::channel();
            let work = spawn_blocking(move || answer.recv().unwrap());
            pause();
            sleep(HOUR).await;
            sender.send(5).unwrap();
            assert_eq!(work.await.unwrap(), 5);
            // From here on its thread is known.
            test_util::spawn_blocking(|| ()).await.unwrap();
            no_time_passes_during(spawn_blocking(|| thread::sleep(ms(20)))).await.unwrap();
        });
    });
}

#[test]
fn a_clock_of_ones_own_does_not_move_either() {
    for runtime in [current_thread(), multi_thread(2)] {
        must_end(move || {
            runtime.block_on(async {
                let clock = ManualClock::new();
                clock.auto_advance();
                let timer = Timer::builder().clock(&clock).build().unwrap();
                let start = clock.now();
                for n in 1..=5 {
                    let work = spawn_blocking(|| thread::sleep(ms(20)));
                    timer.timeout(SHORT, work).await.expect("time went on without it").unwrap();
                    timer.sleep(HOUR).await;
                    assert_eq!(clock.now() - start, n * HOUR);
                }
            });
        });
    }
}

/// A program whose standard input is a pipe: see the next test.
#[test]
#[ignore = "run by the next test, as a program of its own"]
fn reads_standard_input() {
    on_paused_runtimes(|| async {
        let mut input = tokio::io::stdin();
        let mut word = [0; 4];
        no_time_passes_during(tokio::io::AsyncReadExt::read_exact(&mut input, &mut word)).await.unwrap();
        assert_eq!(&word, b"word");
    });
}

#[test]
fn standard_input_is_read() {
    use std::io::Write;

    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", "reads_standard_input", "--ignored", "--nocapture"]);
    let mut run = run.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut input = run.stdin.take().unwrap();
    // One word for each runtime.
    for _ in 0..5 {
        thread::sleep(ms(30));
        input.write_all(b"word").unwrap();
    }
    assert!(run.wait().unwrap().success());
}
