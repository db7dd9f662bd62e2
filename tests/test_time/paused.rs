//! The paused clock of a multi-thread runtime: when it moves, when it must not, and that it is exact.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, both_flavours, current_thread, ms, multi_thread, must_end, panic_message, threads_are_seen};
use hairspring::test_util::{self, ManualClock, advance_and_settle};
use hairspring::{Instant, Timer, advance, interval, pause, resume, sleep, sleep_until, timeout};
#[cfg(unix)]
use tokio::io::{AsyncReadExt, AsyncWriteExt};
#[cfg(unix)]
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

const DAY: Duration = Duration::from_secs(86_400);
const NANO: Duration = Duration::from_nanos(1);
const NOT_PAUSED: &str = "time is not frozen: call `pause` first";

/// Runs `test` on paused runtimes with different numbers of workers, and fails if it hangs. If the clock does not see the
/// thread in `block_on`, the test is a task.
fn paused_runtimes<F: Future<Output = ()> + Send + 'static>(test: impl Fn() -> F + Send + Clone + 'static) {
    for workers in [1, 2, 4] {
        let test = test.clone();
        must_end(move || {
            multi_thread(workers).block_on(async {
                pause();
                if threads_are_seen() {
                    test().await;
                } else {
                    tokio::spawn(test()).await.unwrap();
                }
            });
        });
    }
}

/// Moves time by an hour whenever nothing else can run.
fn tick_by_the_hour() {
    tokio::spawn(async {
        loop {
            sleep(HOUR).await;
        }
    });
}

#[test]
fn sleeps_end_at_once_and_exactly_at_their_deadline() {
    paused_runtimes(|| async {
        let real = std::time::Instant::now();
        let start = Instant::now();
        for duration in [NANO, ms(1), Duration::from_nanos(1_234_567), HOUR, 365 * DAY] {
            let before = Instant::now();
            sleep(duration).await;
            assert_eq!(before.elapsed(), duration);
        }
        let sum = 365 * DAY + HOUR + ms(1) + Duration::from_nanos(1_234_568);
        assert_eq!(start.elapsed(), sum);
        assert!(real.elapsed() < DAY);
    });
}

#[test]
fn time_goes_from_deadline_to_deadline_in_order() {
    paused_runtimes(|| async {
        let start = Instant::now();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tasks = (0..100_u64).map(|n| {
            let seen = seen.clone();
            tokio::spawn(async move {
                // No two at one instant; some wake each other's hours.
                let after = Duration::from_nanos(n * 7_919 % 100 * 3_600_000_000_000 + n);
                sleep_until(start + after).await;
                seen.lock().unwrap().push(start.elapsed());
                assert_eq!(start.elapsed(), after);
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert!(seen.lock().unwrap().is_sorted());
    });
}

#[test]
fn timers_of_one_instant_all_fire_there() {
    paused_runtimes(|| async {
        let start = Instant::now();
        let tasks: Vec<_> = (0..500).map(|_| tokio::spawn(sleep_until(start + HOUR))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(start.elapsed(), HOUR);
    });
}

/// Messages circulate among tasks on all workers. While one is under way, no time passes.
#[test]
fn time_stands_while_tasks_pass_messages() {
    paused_runtimes(|| async {
        tick_by_the_hour();
        let (first, mut end) = mpsc::unbounded_channel();
        let first = (0..8).fold(first, |next, _| {
            let (sender, mut inbox) = mpsc::unbounded_channel::<u32>();
            tokio::spawn(async move {
                while let Some(message) = inbox.recv().await {
                    if message % 3 == 0 {
                        tokio::task::yield_now().await;
                    }
                    let _ = next.send(message);
                }
            });
            sender
        });
        for round in crate::common::rounds(3_500) {
            let before = Instant::now();
            first.send(round).unwrap();
            end.recv().await.unwrap();
            assert_eq!(before.elapsed(), Duration::ZERO, "an early jump in round {round}");
            sleep(NANO).await;
        }
    });
}

/// The same with sockets on loopback, where a message can be ready before any worker wakes to read it. On Windows the
/// clock does not see sockets.
#[cfg(unix)]
#[test]
fn time_stands_while_a_socket_has_something_ready() {
    paused_runtimes(|| async {
        tokio::spawn(async {
            tick_by_the_hour();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move {
                while let Ok((mut peer, _)) = listener.accept().await {
                    tokio::spawn(async move {
                        let mut byte = [0];
                        while peer.read_exact(&mut byte).await.is_ok() {
                            peer.write_all(&byte).await.unwrap();
                        }
                    });
                }
            });
            let mut peer = TcpStream::connect(address).await.unwrap();
            peer.set_nodelay(true).unwrap();
            for round in 0..1_000 {
                let before = Instant::now();
                for hop in 0..4 {
                    peer.write_all(&[hop]).await.unwrap();
                    peer.read_exact(&mut [0]).await.unwrap();
                }
                assert_eq!(before.elapsed(), Duration::ZERO, "an early jump in round {round}");
                sleep(NANO).await;
            }
        })
        .await
        .unwrap();
    });
}

/// A computation in the future of `block_on`, which runs on no worker.
#[test]
fn time_stands_while_the_root_future_runs() {
    if !threads_are_seen() {
        return;
    }
    paused_runtimes(|| async {
        tick_by_the_hour();
        for _ in 0..20 {
            let before = Instant::now();
            thread::sleep(ms(2));
            assert_eq!(before.elapsed(), Duration::ZERO);
            sleep(NANO).await;
            assert_eq!(before.elapsed(), NANO);
        }
    });
}

#[test]
fn time_stands_while_a_worker_computes_or_blocks() {
    paused_runtimes(|| async {
        tick_by_the_hour();
        let busy = tokio::spawn(async {
            for _ in 0..10 {
                let before = Instant::now();
                thread::sleep(ms(3));
                assert_eq!(before.elapsed(), Duration::ZERO);
                sleep(NANO).await;
            }
        });
        busy.await.unwrap();
    });
}

/// Tokio issues 5115 and 6242: time must not pass during blocking work, and must pass after it.
#[test]
fn time_stands_while_blocking_work_goes_on_and_moves_after_it() {
    paused_runtimes(|| async {
        let start = Instant::now();
        let work = test_util::spawn_blocking(|| {
            thread::sleep(ms(30));
            5
        });
        assert_eq!(timeout(ms(1), work).await.expect("no time passes").unwrap(), 5);
        assert_eq!(start.elapsed(), Duration::ZERO);
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);

        let work = test_util::spawn_blocking(|| panic!("on purpose"));
        assert!(timeout(ms(1), work).await.expect("no time passes").unwrap_err().is_panic());
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), 2 * HOUR);
    });
}

/// On paused runtimes whose pool has one thread, so that other work waits in its queue.
fn runtimes_with_one_blocking_thread(test: fn(Runtime)) {
    let builders: [fn() -> Builder; 2] = [Builder::new_current_thread, Builder::new_multi_thread];
    for new in builders {
        must_end(move || test(new().max_blocking_threads(1).enable_all().build().unwrap()));
    }
}

/// Work that has begun, and ends with a value once something is sent. That takes longer than a thread that waits in one
/// place counts as working.
fn begun_work() -> (JoinHandle<u32>, oneshot::Receiver<Instant>) {
    let ((begins, begun), (ends, ended)) = (std::sync::mpsc::channel(), oneshot::channel());
    let (release, released) = std::sync::mpsc::channel::<()>();
    let work = test_util::spawn_blocking(move || {
        begins.send(()).unwrap();
        released.recv().unwrap();
        let _ = ends.send(Instant::now());
        5
    });
    begun.recv().unwrap();
    thread::spawn(move || {
        thread::sleep(ms(1_000));
        release.send(()).unwrap();
    });
    (work, ended)
}

#[test]
fn blocking_work_that_was_aborted_after_it_began_holds_time_until_it_ends() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                pause();
                let start = Instant::now();
                let (work, ended) = begun_work();
                work.abort();
                assert!(timeout(HOUR, work).await.expect("no time passes").unwrap_err().is_cancelled());
                assert_eq!(timeout(HOUR, ended).await.expect("no time passes").unwrap(), start);
                let (work, _) = begun_work();
                assert_eq!(timeout(HOUR, work).await.expect("no time passes").unwrap(), 5);
                // Nobody waits for it.
                let ended = begun_work().1;
                assert_eq!(timeout(HOUR, ended).await.expect("no time passes").unwrap(), start);
                sleep(HOUR).await;
                assert!((HOUR..2 * HOUR).contains(&start.elapsed()));
            });
        });
    }
}

#[test]
fn blocking_work_that_was_aborted_in_the_queue_never_runs_and_holds_time_no_more() {
    runtimes_with_one_blocking_thread(|runtime| {
        runtime.block_on(async {
            pause();
            let start = Instant::now();
            let (first, _) = begun_work();
            let runs = Arc::new(AtomicBool::new(false));
            let ran = runs.clone();
            let queued = test_util::spawn_blocking(move || runs.store(true, Ordering::SeqCst));
            queued.abort();
            assert!(timeout(HOUR, queued).await.expect("no time passes").unwrap_err().is_cancelled());
            assert_eq!(first.await.unwrap(), 5);
            test_util::spawn_blocking(|| ()).await.unwrap();
            assert!(!ran.load(Ordering::SeqCst));
            assert_eq!(start.elapsed(), Duration::ZERO);
            sleep(HOUR).await;
            assert!((HOUR..2 * HOUR).contains(&start.elapsed()));
        });
    });
}

#[test]
fn blocking_work_in_the_queue_ends_after_its_runtime() {
    runtimes_with_one_blocking_thread(|runtime| {
        let inside = runtime.enter();
        pause();
        drop(begun_work());
        let queued = test_util::spawn_blocking(|| ());
        drop(inside);
        runtime.shutdown_background();
        // Tokio runs it if the thread comes to it before it learns of the shutdown.
        let ended = futures::executor::block_on(queued);
        assert!(ended.is_ok() || ended.is_err_and(|error| error.is_cancelled()));
    });
}

#[test]
fn blocking_work_and_holds_keep_a_current_thread_clock_too() {
    must_end(|| {
        current_thread().block_on(async {
            pause();
            let start = Instant::now();
            let work = test_util::spawn_blocking(|| thread::sleep(ms(20)));
            timeout(ms(1), work).await.expect("no time passes").unwrap();
            let hold = test_util::hold();
            let (sender, answer) = oneshot::channel();
            thread::spawn(move || {
                thread::sleep(ms(20));
                sender.send(()).unwrap();
                drop(hold);
            });
            timeout(ms(1), answer).await.expect("no time passes").unwrap();
            assert_eq!(start.elapsed(), Duration::ZERO);
            sleep(HOUR).await;
            assert!(start.elapsed() >= HOUR);
        });
    });
}

#[test]
fn a_hold_keeps_time_until_the_last_is_dropped() {
    paused_runtimes(|| async {
        let start = Instant::now();
        let (holds, dropped) = ([test_util::hold(), test_util::hold()], Arc::new(AtomicUsize::new(0)));
        let count = dropped.clone();
        thread::spawn(move || {
            for hold in holds {
                thread::sleep(ms(15));
                count.fetch_add(1, Ordering::SeqCst);
                drop(hold);
            }
        });
        sleep(HOUR).await;
        assert_eq!((dropped.load(Ordering::SeqCst), start.elapsed()), (2, HOUR));
    });
}

#[test]
fn advance_moves_exactly_and_fires_in_order() {
    paused_runtimes(|| async {
        let start = Instant::now();
        let hold = test_util::hold();
        let (sender, mut seen) = mpsc::unbounded_channel();
        for n in (1..=50_u32).rev() {
            let sender = sender.clone();
            tokio::spawn(async move {
                sleep_until(start + n * HOUR).await;
                sender.send(n).unwrap();
            });
        }
        while Timer::current().metrics().pending() < 50 {
            tokio::task::yield_now().await;
        }
        let nearly = HOUR.checked_sub(NANO).unwrap();
        advance(nearly).await;
        assert_eq!(start.elapsed(), nearly);
        assert_eq!(Timer::current().metrics().fired(), 0);
        advance(NANO).await;
        assert_eq!(seen.recv().await, Some(1));
        advance(1_000 * DAY).await;
        assert_eq!((start.elapsed(), Timer::current().metrics().fired()), (HOUR + 1_000 * DAY, 50));
        drop((hold, sender));
        let mut rest = Vec::new();
        while let Some(n) = seen.recv().await {
            rest.push(n);
        }
        rest.sort_unstable();
        assert!(rest.into_iter().eq(2..=50), "each once");
    });
}

#[test]
fn every_timer_of_the_runtime_follows_and_no_other() {
    must_end(|| {
        let (other, runtime) = (multi_thread(2), multi_thread(2));
        let (built, elsewhere) = runtime.block_on(async {
            let built = Timer::builder().shards(2).build().unwrap();
            let before = tokio::spawn(built.sleep(HOUR));
            let waits = tokio::spawn(sleep(HOUR));
            tokio::task::yield_now().await;
            let elsewhere = other.spawn(sleep(HOUR));
            pause();
            let start = Instant::now();
            // Armed before the pause, on either timer, they end within the hour; and what is built later follows, too.
            before.await.unwrap();
            waits.await.unwrap();
            assert!(start.elapsed() <= HOUR);
            Timer::builder().build().unwrap().sleep(DAY).await;
            interval(DAY).tick().await;
            (start.elapsed(), elsewhere)
        });
        assert!((DAY..=DAY + HOUR).contains(&built));
        assert!(!elsewhere.is_finished(), "another runtime's time is its own");
        elsewhere.abort();
    });
}

#[test]
fn resume_goes_on_from_what_the_clock_shows() {
    paused_runtimes(|| async {
        let start = Instant::now();
        sleep(DAY).await;
        let waits = tokio::spawn(sleep(ms(20)));
        resume();
        let real = std::time::Instant::now();
        assert!((DAY..DAY + HOUR).contains(&start.elapsed()));
        sleep(ms(10)).await;
        assert!(real.elapsed() >= ms(10), "time is real again");
        waits.await.unwrap();
        assert!(start.elapsed() < DAY + HOUR);
        pause();
        let again = Instant::now();
        assert!(again.duration_since(start) >= DAY + ms(20), "time never goes back");
        sleep(DAY).await;
        assert_eq!(again.elapsed(), DAY);
    });
}

#[test]
fn pausing_twice_and_resuming_what_runs_are_refused() {
    multi_thread(2).block_on(async {
        assert_eq!(panic_message(resume), NOT_PAUSED);
        assert_eq!(panic_message(test_util::hold), NOT_PAUSED);
        pause();
        assert_eq!(panic_message(pause), "time is already frozen");
        resume();
        pause();
    });
}

thread_local! {
    /// The file and the line of this thread's last panic.
    static PANICKED: RefCell<(String, u32)> = RefCell::default();
}

/// The message with which `code` panics, the file and the line.
fn panicked<T>(code: impl FnOnce() -> T) -> (String, String, u32) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let at = panic.location().map(|at| (at.file().to_owned(), at.line()));
            PANICKED.set(at.unwrap_or_default());
            before(panic);
        }));
    });
    let message = panic_message(code);
    let (file, line) = PANICKED.take();
    (message, file, line)
}

#[test]
fn a_clock_that_runs_is_neither_moved_nor_resumed_and_the_panic_has_the_callers_line() {
    let here = |message: &str, line| (message.to_owned(), file!().to_owned(), line);
    for runtime in both_flavours() {
        let run = |future: Pin<Box<dyn Future<Output = ()>>>| panicked(|| runtime.block_on(future));
        // Rounds, because a message must not depend on whether any clock of the process was ever paused.
        for _ in 0..2 {
            let advances = run(Box::pin(async { advance(ms(1)).await }));
            assert_eq!(advances, here(NOT_PAUSED, line!() - 1));
            let settles = run(Box::pin(async { advance_and_settle(ms(1)).await }));
            assert_eq!(settles, here(NOT_PAUSED, line!() - 1));
            let resumes = run(Box::pin(async { resume() }));
            assert_eq!(resumes, here(NOT_PAUSED, line!() - 1));
            // Where tokio polls it, the message has the line.
            let (message, ..) = panicked(|| runtime.block_on(advance(ms(1))));
            let called = format!("{NOT_PAUSED} (`advance` was called at {}:{}:", file!(), line!() - 1);
            assert!(message.starts_with(&called), "{message}");
            let (message, ..) = panicked(|| runtime.block_on(advance_and_settle(ms(1))));
            let called = format!("{NOT_PAUSED} (`advance_and_settle` was called at {}:{}:", file!(), line!() - 1);
            assert!(message.starts_with(&called), "{message}");
            // As in tokio, it counts whether the clock is paused at the first poll.
            runtime.block_on(async {
                let (start, moves) = (Instant::now(), advance(HOUR));
                drop(advance(HOUR));
                pause();
                moves.await;
                assert!(start.elapsed() >= HOUR);
                resume();
            });
        }
    }
    let outside = "time cannot be frozen from outside the Tokio runtime";
    let advances = panicked(|| futures::executor::block_on(async { advance(ms(1)).await }));
    assert_eq!(advances, here(outside, line!() - 1));
    let settles = panicked(|| futures::executor::block_on(async { advance_and_settle(ms(1)).await }));
    assert_eq!(settles, here(outside, line!() - 1));
    assert_eq!(panicked(resume).0, outside);
    assert_eq!(panicked(pause).0, outside);
}

#[test]
fn runtimes_are_paused_each_for_itself_and_go_without_a_trace() {
    let runs = (0..8).map(|n| {
        thread::spawn(move || {
            for _ in 0..5 {
                let runtime = multi_thread(2);
                runtime.block_on(async {
                    pause();
                    let start = Instant::now();
                    sleep((n + 1) * HOUR).await;
                    assert_eq!(start.elapsed(), (n + 1) * HOUR);
                });
                runtime.spawn(sleep(DAY));
            }
        })
    });
    for run in runs.collect::<Vec<_>>() {
        must_end(|| run.join().unwrap());
    }
}

/// As on every runtime, a sleep may wait on one runtime and be polled in another.
#[test]
fn a_clock_of_ones_own_moves_by_itself_on_every_runtime() {
    for runtime in [current_thread(), multi_thread(1), multi_thread(4)] {
        must_end(move || {
            runtime.block_on(async {
                let clock = ManualClock::new();
                clock.auto_advance();
                let timer = Timer::builder().clock(&clock).build().unwrap();
                let start = clock.now();
                let may_move = Arc::new(AtomicBool::new(false));
                let (hold, released) = (clock.hold(), may_move.clone());
                thread::spawn(move || {
                    thread::sleep(ms(20));
                    released.store(true, Ordering::SeqCst);
                    drop(hold);
                });
                for n in 1..=20 {
                    timer.sleep(DAY).await;
                    assert!(may_move.load(Ordering::SeqCst), "it does not move while it is held");
                    assert_eq!(clock.now() - start, n * DAY);
                }
            });
        });
    }
}

#[test]
fn a_clock_that_moved_with_one_runtime_can_move_with_another() {
    let clock = ManualClock::new();
    for _ in 0..2 {
        let clock = clock.clone();
        must_end(move || {
            let runtime = multi_thread(2);
            runtime.block_on(async {
                // The thread that moved it before sees within a moment that its runtime has gone.
                while catch_unwind(AssertUnwindSafe(|| clock.auto_advance())).is_err() {
                    thread::sleep(ms(1));
                }
                assert!(panic_message(|| clock.auto_advance()).contains("already"));
                Timer::builder().clock(&clock).build().unwrap().sleep(DAY).await;
            });
        });
    }
}

/// Its driver does nothing while the test holds the clock, and kept its task until the clock ran again.
#[test]
fn a_timer_that_is_replaced_while_the_clock_is_paused_ends_once_nothing_waits_on_it() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                pause();
                let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
                tokio::spawn(sleep(ms(1))).await.unwrap();
                let before = tasks();
                let waits = tokio::spawn(sleep(HOUR));
                tokio::task::yield_now().await;
                Timer::builder().install().unwrap();
                tokio::spawn(sleep(ms(1))).await.unwrap();
                waits.await.unwrap();
                while tasks() > before {
                    tokio::task::yield_now().await;
                }
            });
        });
    }
}
