//! Blocking work keeps a paused clock from moving. In a bubble, on every system, all blocking work does. In other
//! runtimes, only work that `test_util::spawn_blocking` starts does.

use std::net::Ipv4Addr;
use std::pin::pin;
#[cfg(target_os = "linux")]
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::common::{
    HOUR, joined, ms, multi_thread, must_end, must_end_on, on_both_flavours, on_wake, panic_message, poll_with, spin,
    threads_are_seen, wait_until,
};
use crate::kinds::{
    BUBBLES, Kind, MICRO, TOKIOS, WORKERS, computes_for, maybe_in_a_task, no_time_passes_during, on_each,
    on_each_and_in_a_task,
};
use hairspring::test_util::{self, Bubble};
use hairspring::{Duration, Instant, pause, sleep, timeout};
use tokio::net::UdpSocket;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, block_in_place, spawn_blocking, yield_now};

/// Starts blocking work.
type Start = fn(Box<dyn FnOnce() + Send>) -> JoinHandle<()>;

/// Runs `test` on each kind of runtime, with each way to start work that the runtime's clock sees.
fn on_each_that_sees<F: Future<Output = ()> + Send + 'static>(test: fn(Start) -> F) {
    on_each_and_in_a_task(&BUBBLES, move || test(|work| spawn_blocking(work)));
    let all = [TOKIOS.as_slice(), &WORKERS, &BUBBLES].concat();
    on_each(&all, move || test(|work| test_util::spawn_blocking(work)));
    on_each(&[Kind::Workers(1)], move || maybe_in_a_task(true, move || test(|work| test_util::spawn_blocking(work))));
}

/// tokio 5115, 6242: auto-advance moved the clock during `spawn_blocking`.
#[test]
fn blocking_work_holds_time() {
    on_each_that_sees(|start| async move {
        let panics = || {
            thread::sleep(ms(2));
            panic!("on purpose");
        };
        assert!(no_time_passes_during(start(Box::new(panics))).await.unwrap_err().is_panic());

        // The work waits for a task.
        let (sender, answer) = oneshot::channel();
        tokio::spawn(async move {
            for _ in 0..10 {
                yield_now().await;
            }
            sender.send(()).unwrap();
        });
        no_time_passes_during(start(Box::new(|| answer.blocking_recv().unwrap()))).await.unwrap();
        let blocks_on = || Handle::current().block_on(async { tokio::spawn(yield_now()).await.unwrap() });
        no_time_passes_during(start(Box::new(blocks_on))).await.unwrap();

        // The work starts more work.
        let (sender, inner) = oneshot::channel();
        let outer = move || {
            thread::sleep(ms(2));
            sender.send(start(Box::new(|| thread::sleep(ms(10))))).unwrap();
        };
        let both = async {
            start(Box::new(outer)).await.unwrap();
            inner.await.unwrap().await.unwrap();
        };
        no_time_passes_during(both).await;
    });
}

/// Starts more work than the pool has threads.
#[test]
fn queued_work_holds_time() {
    on_each(&[Kind::PausedLater, Kind::Workers(2), Kind::Bubble, Kind::BubbleOfWorkers(2)], || async {
        let done = Arc::<AtomicUsize>::default();
        let tasks: Vec<_> = (0..1_200)
            .map(|_| {
                let counts = done.clone();
                test_util::spawn_blocking(move || {
                    thread::sleep(ms(10));
                    counts.fetch_add(1, SeqCst);
                })
            })
            .collect();
        sleep(MICRO).await;
        assert_eq!(done.load(SeqCst), 1_200);
        joined(tasks).await;
        no_time_passes_during(test_util::spawn_blocking(|| thread::sleep(ms(10)))).await.unwrap();
    });
}

/// Calls `test` with runtimes whose pool has one thread, so further work waits in the queue.
fn runtimes_with_one_blocking_thread(test: fn(Runtime)) {
    for new in [Builder::new_current_thread as fn() -> Builder, Builder::new_multi_thread] {
        must_end(move || test(new().max_blocking_threads(1).enable_all().build().unwrap()));
    }
}

/// Running work, blocked in one place for so long that the clock no longer counts it as busy.
fn begun_work() -> JoinHandle<u32> {
    let (begins, begun) = mpsc::channel();
    let work = test_util::spawn_blocking(move || {
        begins.send(()).unwrap();
        thread::sleep(ms(1_000));
        5
    });
    begun.recv().unwrap();
    work
}

/// A bug that this crate had: work was reported as cancelled although it had begun, and its value was lost.
#[test]
fn begun_work_cannot_be_aborted() {
    on_each_that_sees(|_| async {
        let ((begins, begun), (release, released)) = (mpsc::channel(), mpsc::channel());
        let work = test_util::spawn_blocking(move || {
            begins.send(()).unwrap();
            released.recv().unwrap()
        });
        begun.recv().unwrap();
        work.abort();
        release.send(5).unwrap();
        assert_eq!(no_time_passes_during(work).await.unwrap(), 5);
    });
}

#[test]
fn aborted_queued_work_neither_runs_nor_holds_time() {
    runtimes_with_one_blocking_thread(|runtime| {
        runtime.block_on(async {
            pause();
            let start = Instant::now();
            let (first, runs) = (begun_work(), Arc::<AtomicBool>::default());
            let ran = runs.clone();
            let queued = test_util::spawn_blocking(move || runs.store(true, SeqCst));
            queued.abort();
            assert!(timeout(HOUR, queued).await.expect("no time passes").unwrap_err().is_cancelled());
            assert_eq!(first.await.unwrap(), 5);
            test_util::spawn_blocking(|| ()).await.unwrap();
            assert!(!ran.load(SeqCst));
            assert_eq!(start.elapsed(), Duration::ZERO);
            sleep(HOUR).await;
        });
    });
}

#[test]
fn work_in_the_queue_ends_after_its_runtime() {
    runtimes_with_one_blocking_thread(|runtime| {
        let inside = runtime.enter();
        pause();
        drop(begun_work());
        let queued = test_util::spawn_blocking(|| ());
        drop(inside);
        runtime.shutdown_background();
        // tokio runs the work if its thread gets to it before the shutdown.
        let ended = futures::executor::block_on(queued);
        assert!(ended.is_ok() || ended.is_err_and(|error| error.is_cancelled()));
    });
}

/// The work takes longer than the bubble's patience.
#[test]
fn long_work_holds_time_and_bubbles() {
    for kind in BUBBLES {
        let message = must_end(move || {
            let ended = Arc::<AtomicBool>::default();
            let sets = ended.clone();
            let message = panic_message(|| {
                kind.run_in(Bubble::new().patience(ms(500)), || async {
                    no_time_passes_during(spawn_blocking(|| thread::sleep(ms(1_200)))).await.unwrap();
                    let (_kept, never) = oneshot::channel::<()>();
                    drop(spawn_blocking(move || {
                        thread::sleep(ms(1_200));
                        sets.store(true, SeqCst);
                    }));
                    let _ = never.await;
                });
            });
            assert!(ended.load(SeqCst), "the bubble gave up early");
            message
        });
        assert!(message.starts_with("deadlock: nothing is left to wake the bubble"), "{message}");
    }
    on_both_flavours(|| async {
        pause();
        assert_eq!(no_time_passes_during(begun_work()).await.unwrap(), 5);
    });
}

/// Outside a bubble, the clock of a paused multi-thread runtime may move while tokio reads a file, looks up a host or
/// runs a plain `spawn_blocking`, because tokio's stable metrics do not count that work. A bubble counts it.
#[test]
fn files_and_lookups_hold_a_bubbles_time() {
    on_each_and_in_a_task(&BUBBLES, || async {
        let read = no_time_passes_during(tokio::fs::read(file!())).await;
        assert!(read.is_ok_and(|read| read.len() > 1_000));
        let addresses = no_time_passes_during(tokio::net::lookup_host("localhost:80")).await;
        assert!(addresses.is_ok_and(|mut all| all.next().is_some()));
    });
}

/// Nothing else can run, so time must pass, or the work would wait forever.
#[test]
fn unseen_work_that_waits_for_the_runtime_lets_time_pass() {
    on_each_and_in_a_task(&WORKERS, || async {
        let start = Instant::now();
        for n in 1..=20 {
            spawn_blocking(|| Handle::current().block_on(sleep(HOUR))).await.unwrap();
            assert_eq!(start.elapsed(), n * HOUR);
        }
    });
}

/// Another thread takes over the worker.
#[test]
fn a_worker_that_blocks_in_place_lets_time_pass() {
    for workers in [1, 2, 4] {
        must_end_on(multi_thread(workers), async move || {
            pause();
            let start = Instant::now();
            let nests = async move {
                for _ in 0..5 {
                    block_in_place(|| Handle::current().block_on(sleep(HOUR)));
                    no_time_passes_during(test_util::spawn_blocking(|| thread::sleep(ms(2)))).await.unwrap();
                }
            };
            tokio::spawn(nests).await.unwrap();
            assert_eq!(start.elapsed(), 10 * HOUR);
        });
    }
}

/// The calling thread is no worker until its task waits.
fn moves_the_only_worker() {
    block_in_place(|| Handle::current().block_on(tokio::spawn(async {}))).unwrap();
}

/// From the end of the hold, the clock sees the calling thread.
fn moves_the_only_worker_under_a_hold() {
    let hold = test_util::hold();
    moves_the_only_worker();
    drop(hold);
}

/// A bug that this crate had: the clock did not see that a task ran on after `block_in_place` and the end of a hold.
#[test]
fn a_task_holds_time_after_blocking_in_place_under_a_hold() {
    if !threads_are_seen() {
        return;
    }
    must_end_on(multi_thread(1), async || {
        pause();
        let task = async {
            moves_the_only_worker_under_a_hold();
            computes_for(ms(50));
        };
        no_time_passes_during(tokio::spawn(task)).await.unwrap();
    });
}

/// A bug that this crate had: the clock lost sight of the thread once it had waited.
#[test]
fn code_that_a_task_blocks_on_holds_time_after_it_has_waited() {
    if !threads_are_seen() {
        return;
    }
    must_end_on(multi_thread(2), async || {
        pause();
        tokio::spawn(async {
            loop {
                sleep(HOUR).await;
            }
        });
        let code = async {
            let before = Instant::now();
            sleep(5 * HOUR).await;
            computes_for(ms(50));
            assert_eq!(before.elapsed(), 5 * HOUR);
        };
        tokio::spawn(async { block_in_place(|| Handle::current().block_on(code)) }).await.unwrap();
    });
}

/// Mostly, the calling thread is the worker again before another could become it.
fn reads_the_time_in_a_nested_block_on() {
    block_in_place(|| Handle::current().block_on(async { Instant::now() }));
}

/// Bugs that this crate had: once such a task had ended, all blocking work on its thread held time, also on a thread
/// that was a worker again.
#[test]
fn other_blocking_work_on_a_former_worker_lets_time_pass() {
    for nests in [moves_the_only_worker_under_a_hold, reads_the_time_in_a_nested_block_on] {
        must_end_on(multi_thread(1), async move || {
            pause();
            // The clock knows the workers' threads from here on.
            sleep(HOUR).await;
            tokio::spawn(async move { nests() }).await.unwrap();
            // Work that begins sooner may count as the task's.
            sleep(HOUR).await;
            let over = Arc::<AtomicBool>::default();
            let [one, other] = [(); 2].map(|()| over.clone());
            let works =
                [spawn_blocking(move || spin(&one)), tokio::spawn(async move { block_in_place(|| spin(&other)) })];
            sleep(HOUR).await;
            over.store(true, SeqCst);
            for work in works {
                work.await.unwrap();
            }
        });
    }
}

/// A bug that this crate had: after `block_in_place` had moved a worker to another thread, the clock did not see that
/// thread handle a socket.
#[test]
fn a_worker_on_another_thread_holds_time_while_it_handles_a_socket() {
    must_end_on(multi_thread(1), async || {
        pause();
        sleep(HOUR).await;
        tokio::spawn(async { moves_the_only_worker() }).await.unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let handled = Arc::<AtomicUsize>::default();
        let steps = handled.clone();
        let waker = on_wake(move || {
            steps.store(1, SeqCst);
            computes_for(ms(50));
            steps.store(2, SeqCst);
        });
        let mut readable = pin!(socket.readable());
        assert!(poll_with(&mut readable, &waker).is_pending());
        socket.send_to(&[0], socket.local_addr().unwrap()).await.unwrap();
        wait_until(|| handled.load(SeqCst) > 0);
        sleep(HOUR).await;
        assert_eq!(handled.load(SeqCst), 2, "time moved while a socket was handled");
    });
}

/// Runs some tests again on a system that shows programs nothing about their threads.
#[cfg(target_os = "linux")]
#[test]
fn a_bubble_works_without_proc() {
    const WITHIN: &str = "HAIRSPRING_WITHOUT_PROC";
    if std::env::var_os(WITHIN).is_some() {
        assert_eq!(std::fs::read_dir("/proc").unwrap().count(), 0);
        return;
    }
    let without_proc = |then: &str| {
        let script = format!("mount -t tmpfs none /proc && {then}");
        let mut run = Command::new("unshare");
        run.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(std::env::current_exe().unwrap());
        run.env(WITHIN, "yes");
        run
    };
    if !without_proc("true").output().is_ok_and(|output| output.status.success()) {
        println!("not tested: this system does not let a program hide /proc from another");
        return;
    }
    let output =
        without_proc("exec \"$0\" bubbles_time blocking_work_holds_time code_blocks_between works_without_proc")
            .output()
            .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("4 passed"), "{output:?}");
}
