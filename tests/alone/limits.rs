//! Data that has come to a socket before a limit is read, on any number of workers, whatever else the process does.
//!
//! The I/O driver of each runtime here was found before a test begins, or its timer has asked for a `timerfd`.

use std::collections::HashSet;
use std::future::Future;
use std::io::Write;
use std::net;
use std::os::unix;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::alone;
use crate::common::limits::{Read, connected, kinds};
use crate::common::{HOUR, blocking, current_thread, ms, multi_thread, polled, step, until, wait_until, with_workers};
use fork::{Fork, fork, waitpid_nohang};
use futures::future::join_all;
use hairspring::timer::{self, Alarm};
use hairspring::{Instant, Sleep, Timer, sleep, timeout};
use rustix::process::{Signal, getpid, kill_process};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::task::block_in_place;

/// How long a limit is.
const LIMIT: Duration = Duration::from_millis(60);

/// The runtimes, by the number of workers. Zero stands for a current-thread runtime.
pub(crate) const WORKERS: [usize; 5] = [0, 1, 2, 4, 8];

/// A new runtime. The file of the one before may be closed by another thread, a moment later, and would be taken for
/// this one's.
fn runtime(workers: usize) -> Runtime {
    wait_until(|| runtimes_files() == 0);
    with_workers(workers)
}

pub(crate) fn timers() -> [(&'static str, timer::Builder); 5] {
    let with = |alarm| Timer::builder().alarm(alarm);
    [
        ("default", Timer::builder()),
        ("Thread", with(Alarm::Thread)),
        ("Timerfd", with(Alarm::Timerfd)),
        ("a resolution", Timer::builder().resolution(ms(1))),
        ("a resolution, Timerfd", with(Alarm::Timerfd).resolution(ms(1))),
    ]
}

/// How many `timerfd`s I/O drivers wait for. Those of the crate's threads are not among them.
pub(crate) fn runtimes_files() -> usize {
    let files = std::fs::read_dir("/proc/self/fdinfo").unwrap().map(|file| file.unwrap().path());
    let files: Vec<String> = files.filter_map(|file| std::fs::read_to_string(file).ok()).collect();
    let watched = files.iter().flat_map(|file| file.lines()).filter_map(|line| line.strip_prefix("tfd:"));
    let watched: HashSet<&str> = watched.filter_map(|line| line.split_whitespace().next()).collect();
    let is_alarm = |file: &&&str| {
        let link = std::fs::read_link(format!("/proc/self/fd/{file}"));
        link.is_ok_and(|link| link.to_string_lossy().contains("[timerfd]"))
    };
    watched.iter().filter(is_alarm).count()
}

/// Installs a timer. Returns once its runtime waits for its file.
async fn installed(timer: timer::Builder) {
    let before = runtimes_files();
    timer.install().unwrap();
    until_found(before).await;
}

async fn until_found(before: usize) {
    while runtimes_files() <= before {
        sleep(ms(2)).await;
    }
}

/// Every kind of read, with the other ends of their connections.
fn reads() -> (Vec<(&'static str, Read, tokio::net::TcpStream)>, Vec<net::TcpStream>) {
    let read = |(name, read)| {
        let (ours, peer) = connected();
        ((name, read, ours), peer)
    };
    kinds().into_iter().map(read).unzip()
}

/// Writes a byte to each. A read that was cut has closed its connection.
fn write_to(peers: &mut [net::TcpStream]) {
    for peer in peers {
        let _ = peer.write_all(b"x");
    }
}

/// Which of the reads got their byte.
async fn which_got(reads: Vec<(&'static str, Read, tokio::net::TcpStream)>) -> Vec<(&'static str, bool)> {
    let tasks = reads.into_iter().map(|(name, read, ours)| async move {
        let got = tokio::spawn(async move { read(ours, LIMIT).await });
        (name, got.await.unwrap())
    });
    join_all(tasks).await
}

/// A socket that calls the waker when a byte comes, and its other end.
pub(crate) fn watched_socket(waker: &Waker) -> (UnixStream, unix::net::UnixStream) {
    let (ours, peer) = unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let ours = UnixStream::from_std(ours).unwrap();
    assert!(ours.poll_read_ready(&mut Context::from_waker(waker)).is_pending());
    (ours, peer)
}

/// A socket whose waker blocks the thread that has the I/O driver, from when a byte comes until `go` is dropped.
fn slow_socket() -> (UnixStream, unix::net::UnixStream, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (started, waker, go) = blocking();
    let (ours, peer) = watched_socket(&waker);
    (ours, peer, started, go)
}

/// Bytes come in time, while the thread that has the I/O driver is held up until the limit is over. It is held up
/// twice: the second time, it has already taken an alarm for an earlier sleep from the system, but not yet reported it.
fn data_comes_while_the_driver_is_held_up(workers: usize, timer: timer::Builder) -> Vec<(&'static str, bool)> {
    let runtime = runtime(workers);
    runtime.block_on(async move {
        installed(timer).await;
        loop {
            let (reads, mut peers) = reads();
            let [(slow, mut wakes_slow, started, go), (slow_2, mut wakes_slow_2, started_2, go_2)] =
                [(); 2].map(|()| slow_socket());
            let begun = Instant::now();
            let earlier = tokio::spawn(sleep(LIMIT / 3));
            let writes = thread::spawn(move || {
                thread::sleep(LIMIT / 6);
                let _ = wakes_slow.write_all(b"x");
                let _ = started.recv();
                let _ = wakes_slow_2.write_all(b"x");
                thread::sleep((LIMIT / 2).saturating_sub(begun.elapsed()));
                drop(go);
                let _ = started_2.recv();
                write_to(&mut peers);
                let in_time = begun.elapsed() < LIMIT * 3 / 4;
                thread::sleep(LIMIT * 2);
                drop((go_2, wakes_slow, wakes_slow_2));
                (in_time, peers)
            });
            let got = which_got(reads).await;
            earlier.await.unwrap();
            drop((slow, slow_2));
            let (in_time, _peers) = writes.join().unwrap();
            if in_time {
                return got;
            }
            step();
        }
    })
}

/// A bug that this crate had: another worker ran a turn, although nobody had looked at the sockets.
#[test]
fn what_came_before_a_limit_is_read_though_the_worker_with_the_io_driver_is_held_up() {
    alone(|| {
        for workers in WORKERS {
            for (name, timer) in timers() {
                step();
                let got = data_comes_while_the_driver_is_held_up(workers, timer);
                assert!(got.iter().all(|&(_, got)| got), "{workers} workers, {name}: {got:?}");
            }
        }
    });
}

/// The same while tasks go to other threads, and back, all the time.
#[test]
fn what_came_is_read_beside_tasks_that_block_in_place() {
    alone(|| {
        let runtime = multi_thread(4);
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..3 {
            let over = over.clone();
            runtime.spawn(async move {
                while !over.load(SeqCst) {
                    block_in_place(|| thread::sleep(Duration::from_micros(300)));
                    tokio::task::yield_now().await;
                }
            });
        }
        runtime.block_on(installed(Timer::builder().alarm(Alarm::Timerfd)));
        for _ in 0..10 {
            step();
            let got = runtime.block_on(bursts());
            assert!(got.iter().all(|&(_, got)| got), "{got:?}");
        }
        over.store(true, SeqCst);
    });
}

/// Bytes come shortly before the limit.
async fn bursts() -> Vec<(&'static str, bool)> {
    loop {
        let (reads, mut peers) = reads();
        let limit = Instant::now() + LIMIT;
        let writes = thread::spawn(move || {
            thread::sleep((limit - ms(3)).saturating_duration_since(Instant::now()));
            write_to(&mut peers);
            (Instant::now() < limit, peers)
        });
        let got = which_got(reads).await;
        if writes.join().unwrap().0 {
            return got;
        }
        step();
    }
}

/// Lets a child stop this process, write to the peers, and let it go on after some time. Returns a function that waits
/// for the child, and says whether it wrote before the limit.
pub(crate) fn stand_still(mut peers: Vec<net::TcpStream>, limit: Instant, time: Duration) -> impl FnOnce() -> bool {
    let parent = getpid();
    match fork().unwrap() {
        Fork::Child => {
            kill_process(parent, Signal::STOP).unwrap();
            write_to(&mut peers);
            let in_time = std::time::Instant::now() < limit.into_std();
            thread::sleep(time);
            kill_process(parent, Signal::CONT).unwrap();
            // Without a lock of its parent's.
            kill_process(getpid(), if in_time { Signal::KILL } else { Signal::TERM }).unwrap();
            unreachable!("it was killed");
        }
        Fork::Parent(child) => move || {
            let status = std::iter::repeat_with(|| waitpid_nohang(child).unwrap()).flatten().next();
            drop(peers);
            status == Some(Signal::KILL.as_raw())
        },
    }
}

/// tokio's timeouts cut most of these: the signal ends `epoll_wait`, which reports nothing, and tokio goes on to its
/// timers.
#[test]
fn what_came_while_the_process_stood_still_is_read() {
    alone(|| {
        for workers in WORKERS {
            for (name, timer) in timers() {
                let runtime = runtime(workers);
                runtime.block_on(installed(timer));
                let round = || {
                    step();
                    runtime.block_on(async {
                        let (reads, peers) = reads();
                        let limit = Instant::now() + LIMIT;
                        let got = tokio::spawn(which_got(reads));
                        sleep(LIMIT / 8).await;
                        let in_time = stand_still(peers, limit, LIMIT * 3);
                        let got = got.await.unwrap();
                        in_time().then_some(got)
                    })
                };
                let got = std::iter::repeat_with(round).flatten().next().unwrap();
                assert!(got.iter().all(|&(_, got)| got), "{workers} workers, {name}: {got:?}");
            }
        }
    });
}

/// A synchronous client, which drives its runtime only during calls. A bug that this crate had: a helper turned for a
/// runtime that had not turned for a second.
#[test]
fn a_connection_lives_in_a_runtime_that_is_driven_in_pieces() {
    fn lives(runtime: &Runtime) {
        let (mut ours, mut peer) = runtime.block_on(async { connected() });
        let reads = runtime.spawn(async move {
            let mut reads = 0;
            while timeout(LIMIT, ours.read_u8()).await.is_ok_and(|read| read.is_ok()) {
                reads += 1;
            }
            reads
        });
        for gap in [LIMIT * 2, ms(1_200)] {
            runtime.block_on(sleep(ms(1)));
            peer.write_all(b"x").unwrap();
            // Nobody drives the runtime, and the limit passes.
            thread::sleep(gap);
            runtime.block_on(sleep(ms(1)));
            assert!(!reads.is_finished(), "cut, though its peer never paused");
        }
        drop(peer);
        assert_eq!(runtime.block_on(reads).unwrap(), 2);
    }
    alone(|| {
        let runtimes = timers().map(|(_, timer)| {
            let runtime = current_thread();
            runtime.block_on(installed(timer));
            runtime
        });
        thread::scope(|scope| runtimes.iter().for_each(|runtime| _ = scope.spawn(|| lives(runtime))));
    });
}

/// Installs a timer. A task reads from a socket, with a limit, until the I/O driver has been found.
pub(crate) fn read_until_found(runtime: &Runtime, timer: timer::Builder) {
    let before = runtimes_files();
    runtime.block_on(async {
        timer.install().unwrap();
        let (mut ours, mut peer) = connected();
        let reads = tokio::spawn(async move { while timeout(HOUR, ours.read_u8()).await.unwrap().is_ok() {} });
        while runtimes_files() <= before {
            peer.write_all(b"x").unwrap();
            sleep(ms(2)).await;
        }
        drop(peer);
        reads.await.unwrap();
    });
}

/// A server may have few timers, and a worker that waits for sockets without ever running a task.
#[test]
fn the_io_driver_is_found_on_any_number_of_workers() {
    alone(|| {
        for workers in WORKERS {
            for tasks in [2, 10, 50, 200] {
                step();
                let runtime = runtime(workers);
                let over = Arc::new(AtomicBool::new(false));
                for task in 0..tasks {
                    let over = over.clone();
                    runtime.spawn(async move {
                        while !over.load(SeqCst) {
                            sleep(ms(2 + task % 7)).await;
                        }
                    });
                }
                runtime.block_on(until_found(0));
                over.store(true, SeqCst);
            }
        }
    });
}

/// Beside other runtimes, whose workers have the same name, too, once a worker has read with a limit.
#[test]
fn so_it_is_beside_other_runtimes() {
    alone(|| {
        let _others = [2, 8].map(multi_thread);
        let runtimes = WORKERS.map(with_workers);
        for runtime in &runtimes {
            step();
            read_until_found(runtime, Timer::builder());
        }
    });
}

/// A task that polls a sleep once, and then computes until the last is dropped. The receiver says when.
fn computes_after(first: Option<Sleep>) -> (impl Future<Output = ()> + Send, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (begins, begun) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let task = async move {
        let first = first.map(polled);
        begins.send(()).unwrap();
        let _ = stopped.recv();
        drop(first);
    };
    (task, begun, stop)
}

/// Bugs that this crate had: the worker that registers a sleep that is due, or the first of its runtime, kept the
/// timer's driver to itself. tokio lets nobody take a task from there.
#[test]
fn sleeps_end_while_the_task_that_registered_the_first_or_one_that_is_due_computes() {
    alone(|| {
        let alarms = [Alarm::Auto, Alarm::Thread, Alarm::Timerfd, Alarm::Tokio];
        let firsts = [None, Some(Duration::ZERO), Some(ms(3_600_000))];
        for alarm in alarms {
            for first in firsts {
                for workers in [2, 4, 8] {
                    step();
                    let runtime = multi_thread(workers);
                    if let Some(_used) = first {
                        runtime.block_on(async {
                            Timer::builder().alarm(alarm).install().unwrap();
                            tokio::spawn(sleep(ms(2))).await.unwrap();
                        });
                    }
                    let length = first.unwrap_or(ms(60_000));
                    let (task, begun, _stop) = computes_after(Some(sleep(length)));
                    runtime.spawn(task);
                    begun.recv().unwrap();
                    // They are woken from outside of the workers.
                    let others: Vec<_> = (0..3).map(|_| runtime.spawn(sleep(ms(5)))).collect();
                    runtime.block_on(join_all(others));
                }
            }
        }
    });
}

/// The alarm of the first sleep goes off while no other worker has come to the sockets; the next is found by one that
/// is woken.
///
/// If a worker is about to park without a search while the other finds a task that computes, tokio tells neither of
/// what is spawned just then: once in some thousand rounds on a busy machine. The next spawn makes up for it.
#[test]
fn an_idle_worker_looks_if_the_one_that_took_the_events_computes() {
    alone(|| {
        for alarm in [Alarm::Auto, Alarm::Thread, Alarm::Timerfd] {
            let runtime = runtime(2);
            runtime.block_on(installed(Timer::builder().alarm(alarm)));
            let mut missed = 0;
            for _ in 0..20 {
                step();
                let (task, begun, _stop) = computes_after(None);
                let (slept, is_over) = mpsc::channel::<()>();
                let handle = runtime.handle().clone();
                let spawns = thread::spawn(move || {
                    let is_missed = is_over.recv_timeout(ms(10_000)) == Err(mpsc::RecvTimeoutError::Timeout);
                    if is_missed {
                        handle.spawn(async {});
                    }
                    usize::from(is_missed)
                });
                runtime.block_on(async {
                    // The worker that is woken by its sleep computes.
                    tokio::spawn(async {
                        sleep(ms(1)).await;
                        task.await;
                    });
                    until(|| begun.try_recv().is_ok()).await;
                    tokio::spawn(sleep(ms(1))).await.unwrap();
                });
                drop(slept);
                missed += spawns.join().unwrap();
            }
            assert!(missed <= 1, "{missed} sleeps were missed with {alarm:?}");
        }
    });
}

/// An executor that polls a future within its waker, as one with `schedule = |runnable| runnable.run()` does.
#[test]
fn a_waker_may_poll_its_future_and_yield() {
    use std::pin::Pin;
    use std::sync::Mutex;

    struct Inline(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);
    impl Wake for Inline {
        fn wake(self: Arc<Self>) {
            let Some(mut future) = self.0.lock().unwrap().take() else { return };
            let waker = Waker::from(self.clone());
            if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                *self.0.lock().unwrap() = Some(future);
            }
        }
    }
    alone(|| {
        for workers in WORKERS {
            for alarm in [Alarm::Auto, Alarm::Thread, Alarm::Timerfd, Alarm::Tokio] {
                step();
                runtime(workers).block_on(async {
                    Timer::builder().alarm(alarm).install().unwrap();
                    let (ends, mut ended) = tokio::sync::mpsc::channel(1);
                    tokio::spawn(async move {
                        let future = async move {
                            sleep(ms(2)).await;
                            tokio::task::yield_now().await;
                            sleep(ms(2)).await;
                            ends.send(()).await.unwrap();
                        };
                        Arc::new(Inline(Mutex::new(Some(Box::pin(future))))).wake();
                    });
                    ended.recv().await.unwrap();
                });
            }
        }
    });
}
