//! Threads and a paused multi-thread runtime. A thread in `block_on` holds time, and a thread that has left does not.

use std::net::{Ipv4Addr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self};

use crate::common::{
    HOUR, HUNG, bare, blocking, current_thread, ms, multi_thread, must_end, poll_with, rounds, step, threads_are_seen,
};
use crate::kinds::{MICRO, computes_for};
use hairspring::test_util::settle;
use hairspring::{Instant, pause, sleep};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Enters a runtime, calls a function there, and leaves.
type Way = (&'static str, fn(&Runtime, &dyn Fn()));

const WAYS: [Way; 5] = [
    ("block_on returned", |runtime, inside| runtime.block_on(async { inside() })),
    ("a guard was dropped", |runtime, inside| {
        let _guard = runtime.enter();
        inside();
    }),
    ("block_on returned after a sleep", |runtime, inside| {
        runtime.block_on(async {
            inside();
            sleep(HOUR).await;
        });
    }),
    ("block_on panicked", |runtime, inside| {
        let left = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(async {
                inside();
                panic!("on purpose");
            })
        }));
        assert!(left.is_err());
    }),
    ("a guard was dropped after that of another runtime", |runtime, inside| {
        let _guard = runtime.enter();
        inside();
        let other = current_thread();
        let _other = other.enter();
        assert!(Instant::now() <= Instant::now());
    }),
];

/// What a thread does after it has left, until it is released.
struct Then {
    blocks: Box<dyn FnOnce() + Send>,
    release: Box<dyn FnOnce() + Send>,
}

impl Then {
    fn new(blocks: impl FnOnce() + Send + 'static, release: impl FnOnce() + Send + 'static) -> Then {
        Then { blocks: Box::new(blocks), release: Box::new(release) }
    }

    /// Calls `step` repeatedly, until it is released.
    fn repeats(mut step: impl FnMut() + Send + 'static) -> Then {
        let over = Arc::<AtomicBool>::default();
        let ends = over.clone();
        let blocks = move || {
            while !over.load(SeqCst) {
                step();
            }
        };
        Then::new(blocks, move || ends.store(true, SeqCst))
    }

    /// Waits in one call until it is released: on a busy machine, a thread that wakes up now and then seems to run.
    fn receives(receive: impl FnOnce(&UdpSocket) + Send + 'static) -> Then {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (sender, address) = (socket.try_clone().unwrap(), socket.local_addr().unwrap());
        Then::new(move || receive(&socket), move || _ = sender.send_to(&[0], address).unwrap())
    }

    fn waits_in(other: impl FnOnce() -> Runtime + Send + 'static) -> Then {
        let (sender, answer) = oneshot::channel();
        Then::new(move || other().block_on(answer).unwrap(), move || sender.send(()).unwrap())
    }
}

/// Fails unless the clock of a runtime moves, and `settle` returns, while a thread that has left it blocks.
fn goes_on((name, way): Way, then: Then) -> Result<(), String> {
    let runtime = Arc::new(multi_thread(2));
    let ((go, may_begin), (ends, ended)) = (oneshot::channel(), mpsc::channel());
    let task = Mutex::new(Some(async move {
        may_begin.await.unwrap();
        let start = Instant::now();
        for _ in 0..5 {
            sleep(HOUR).await;
            settle().await;
        }
        ends.send(start.elapsed()).unwrap();
    }));
    let (leaves, has_left) = mpsc::channel();
    let entered = runtime.clone();
    let thread = thread::spawn(move || {
        way(&entered, &|| {
            pause();
            assert!(Instant::now() <= Instant::now());
            let _spawned = tokio::spawn(task.lock().unwrap().take().unwrap());
        });
        drop(entered);
        leaves.send(()).unwrap();
        (then.blocks)();
    });
    has_left.recv_timeout(HUNG).unwrap();
    // By now, the thread most probably blocks.
    thread::sleep(ms(30));
    go.send(()).unwrap();
    let passed = ended.recv_timeout(HUNG);
    (then.release)();
    thread.join().unwrap();
    if let Some(runtime) = Arc::into_inner(runtime) {
        runtime.shutdown_background();
    }
    match passed {
        Ok(passed) if passed == 5 * HOUR => Ok(()),
        Ok(passed) => Err(format!("{name}: {passed:?} passed instead of five hours")),
        Err(_) => Err(format!("{name}: the clock did not move")),
    }
}

type NamedThen = (&'static str, fn() -> Then);

/// Ways to wait and to work that look different to the system.
const THENS: &[NamedThen] = &[
    ("ends", || Then::new(|| (), || ())),
    ("waits for a packet", || Then::receives(|socket| _ = socket.recv(&mut [0]).unwrap())),
    ("receives a message", || {
        let (sender, receiver) = mpsc::channel();
        Then::new(move || receiver.recv().unwrap(), move || sender.send(()).unwrap())
    }),
    ("waits in a current-thread runtime", || Then::waits_in(current_thread)),
    ("waits in a multi-thread runtime without drivers", || Then::waits_in(|| bare().into_iter().last().unwrap())),
    ("sleeps in another runtime", || Then::repeats(|| current_thread().block_on(sleep(ms(20))))),
    ("blocks in a current-thread runtime", || {
        Then::receives(|socket| current_thread().block_on(async { _ = socket.recv(&mut [0]).unwrap() }))
    }),
];

/// A bug that this crate had: a thread that had left a paused multi-thread runtime stopped its clock, unless the thread
/// waited on a futex.
#[test]
fn a_thread_that_has_left_holds_no_time() {
    for (does, then) in THENS {
        // Not all at once: a system may allow few threads and files.
        for ways in WAYS.chunks(2) {
            thread::scope(|scope| {
                let threads: Vec<_> = ways.iter().map(|&way| scope.spawn(move || goes_on(way, then()))).collect();
                for thread in threads {
                    assert_eq!(thread.join().unwrap(), Ok(()), "it {does}");
                }
            });
        }
    }
}

/// Several threads repeatedly enter the runtime and leave it.
#[test]
fn threads_that_come_and_go_let_time_pass() {
    must_end(|| {
        let runtime = multi_thread(2);
        runtime.block_on(async { pause() });
        let moves = runtime.spawn(async {
            for _ in 0..20 {
                sleep(HOUR).await;
                settle().await;
                step();
            }
        });
        thread::scope(|scope| {
            for naps in [false, true, false, true] {
                let (runtime, moves) = (&runtime, &moves);
                scope.spawn(move || {
                    while !moves.is_finished() {
                        runtime.block_on(async {
                            let start = Instant::now();
                            sleep(HOUR).await;
                            let passed = start.elapsed();
                            assert!(passed == HOUR || passed > HOUR && !threads_are_seen(), "{passed:?}");
                        });
                        if naps {
                            thread::sleep(ms(1));
                        }
                    }
                });
            }
        });
        runtime.block_on(moves).unwrap();
    });
}

/// A thread in `block_on` holds time unless it waits to be woken.
pub(crate) mod inside {
    use super::*;

    /// Blocks for long and short times, waiting and computing.
    const BLOCKS: [fn(); 4] =
        [|| thread::sleep(ms(20)), || computes_for(ms(20)), || thread::sleep(ms(1)), || computes_for(100 * MICRO)];

    /// A task wakes this future, then waits for a timer that is due soon, while this future blocks its thread.
    pub(crate) async fn holds_time() {
        for blocks in BLOCKS {
            for round in rounds(8) {
                let start = Instant::now();
                let (sender, answer) = oneshot::channel();
                let nap = if round % 2 == 0 { ms(1) } else { HOUR };
                let naps = tokio::spawn(async move {
                    sleep(HOUR).await;
                    sender.send(()).unwrap();
                    sleep(nap).await;
                });
                answer.await.unwrap();
                blocks();
                assert_eq!(start.elapsed(), HOUR, "in round {round}");
                assert!(!naps.is_finished(), "in round {round}");
                naps.await.unwrap();
                assert_eq!(start.elapsed(), HOUR + nap, "in round {round}");
            }
        }
    }

    /// Calls `test` with runtimes of several workers.
    fn on_workers(test: impl Fn(&Runtime) + Send + Clone + 'static) {
        if !threads_are_seen() {
            return;
        }
        for workers in [1, 2, 4] {
            let test = test.clone();
            must_end(move || test(&multi_thread(workers)));
        }
    }

    #[test]
    fn it_blocks_after_it_has_come_back() {
        on_workers(|runtime| {
            runtime.block_on(async { pause() });
            for _ in 0..2 {
                thread::sleep(ms(5));
                current_thread().block_on(sleep(ms(5)));
                runtime.block_on(holds_time());
            }
        });
    }

    /// Computes or waits for longer than any grace while a task sleeps. The thread has not yet waited in `block_on`. On a
    /// slow machine it may wait for so long that it counts as waiting.
    fn no_time_passes_here() {
        pause();
        let start = Instant::now();
        let sleeps = tokio::spawn(sleep(HOUR));
        computes_for(ms(100));
        let waits = std::time::Instant::now();
        thread::spawn(|| thread::sleep(ms(60))).join().unwrap();
        assert!(start.elapsed().is_zero() || waits.elapsed() >= ms(100), "{:?}", start.elapsed());
        sleeps.abort();
    }

    #[test]
    fn it_pauses_in_a_task_or_in_blocking_work() {
        on_workers(|runtime| runtime.block_on(async { no_time_passes_here() }));
        on_workers(|runtime| {
            LocalSet::new().block_on(runtime, async {
                tokio::task::spawn_local(async { no_time_passes_here() }).await.unwrap();
            });
        });
        on_workers(|runtime| {
            let inner = || multi_thread(2).block_on(async { no_time_passes_here() });
            runtime.block_on(runtime.spawn_blocking(inner)).unwrap();
            runtime.block_on(runtime.spawn(async move { tokio::task::block_in_place(inner) })).unwrap();
        });
    }
}

/// A bug that this crate had: a helper thread had taken a waker out, and the clock was paused and moved to the next
/// deadline before the thread woke the task.
#[test]
fn a_clock_waits_for_tasks_that_a_thread_is_about_to_wake() {
    must_end(|| {
        for runtime in [multi_thread(1), current_thread()] {
            let ((is_called, waker, release), is_released) = (blocking(), Arc::<AtomicBool>::default());
            // A blocked worker cannot drive the timer.
            let task = async move {
                let mut near = sleep(ms(1));
                // If the machine stalls, it is over.
                while poll_with(&mut near, &waker).is_ready() {
                    near = sleep(ms(1));
                }
                is_called.recv().unwrap();
                pause();
                let flag = is_released.clone();
                thread::spawn(move || {
                    thread::sleep(ms(100));
                    flag.store(true, SeqCst);
                    drop(release);
                });
                sleep(HOUR).await;
                assert!(is_released.load(SeqCst), "the clock moved before");
            };
            runtime.block_on(runtime.spawn(task)).unwrap();
        }
    });
}
