//! Sleeps that are created, polled and left behind in one runtime, in several, after the end of one, and in none.

use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;

use crate::common::{
    HOUR, Wakes, bare, both_flavours, current_thread, inside, ms, multi_thread, must_end, panic_message, poll, polled,
    polled_with, use_time, watched,
};
use futures::executor::block_on;
use futures::future::{BoxFuture, join_all};
use hairspring::{Duration, Instant, Sleep, Timer, interval, sleep, timeout};
use tokio::runtime::{Builder, Handle, LocalOptions, Runtime};
use tokio::task::{LocalSet, block_in_place, spawn_local};

/// A sleep that waits on `runtime` for `after`.
fn waiting_on(runtime: &Runtime, after: Duration) -> Sleep {
    let mut sleep = inside(runtime, || polled(sleep(HOUR)));
    sleep.reset_at(Instant::now() + after);
    sleep
}

/// Polls a future whose runtime has ended.
type Next = fn(BoxFuture<'static, ()>);

#[test]
fn a_sleep_outlives_its_runtime() {
    let next: [(&str, Next); 3] = [
        ("a current-thread runtime", |left| current_thread().block_on(left)),
        ("a task", |left| {
            let next = multi_thread(1);
            next.block_on(next.spawn(left)).unwrap();
        }),
        ("no runtime", |left| block_on(left)),
    ];
    for (name, next) in next {
        for home in both_flavours().into_iter().chain(bare()) {
            must_end(move || {
                let start = Instant::now();
                let mut waiting = waiting_on(&home, ms(20));
                let created = home.spawn(async { (sleep(ms(20)), timeout(ms(20), pending::<()>())) });
                let (unpolled, limited) = home.block_on(created).unwrap();
                drop(home);
                let left = async move {
                    (&mut waiting).await;
                    assert!(start.elapsed() >= ms(20), "early, with {name} next");
                    assert!(waiting.is_elapsed());
                    unpolled.await;
                    assert!(limited.await.is_err());
                    waiting.reset_at(Instant::now() + ms(1));
                    waiting.await;
                    use_time().await;
                };
                next(Box::pin(left));
            });
        }
    }
}

/// The next timer reuses the memory of one that ended. Bugs that this crate had: the clock of the next timer completed
/// a sleep that was left behind, or the process's own timer treated that sleep as its own and refused it.
#[test]
fn the_next_timer_ignores_a_sleep_left_behind() {
    must_end(|| {
        let shards = thread::available_parallelism().unwrap().get(); // as many as the process's own timer has
        // Use several, because the runtimes of other tests reuse memory too. Without I/O they open no files.
        let homes: Vec<_> = (0..20).map(|_| Builder::new_current_thread().build().unwrap()).collect();
        let wait = |(number, home)| {
            let install = || Timer::builder().shards(shards).install().unwrap();
            let _installed = (number % 2 == 0).then(|| inside(home, install));
            waiting_on(home, HOUR)
        };
        let mut left: Vec<_> = homes.iter().enumerate().map(wait).collect();
        drop(homes);
        let paused = || Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let ahead: Vec<_> = (0..24).map(|_| paused()).collect();
        for runtime in &ahead {
            runtime.block_on(sleep(2 * HOUR));
        }
        let is_pending = |sleep: &mut Sleep| poll(sleep).is_pending();
        current_thread().block_on(async { assert!(left[..10].iter_mut().all(is_pending), "an hour early") });
        for mut sleep in left {
            sleep.reset_at(Instant::now() + ms(1));
            block_on(sleep);
        }
    });
}

/// Dropping the runtime waits for the thread, so the sleep panics. tokio's sleeps do the same.
#[test]
fn a_sleeping_thread_does_not_block_its_runtimes_end() {
    fn nap_with_resets(before: Duration, resets: &[Duration]) {
        let mut nap = sleep(before);
        block_on(std::future::poll_fn(|cx| {
            let polled = Pin::new(&mut nap).poll(cx);
            for &after in resets {
                nap.reset_at(Instant::now() + after);
            }
            polled
        }));
    }

    type Wait = fn(&Handle);
    let waits: [(&str, Wait); 3] = [
        ("sleep", |handle| handle.block_on(sleep(HOUR))),
        ("a sleep that is postponed repeatedly", |handle| {
            let mut nap = sleep(HOUR);
            handle.block_on(std::future::poll_fn(|cx| {
                nap.reset_at(Instant::now() + HOUR);
                thread::sleep(ms(5));
                cx.waker().wake_by_ref();
                Pin::new(&mut nap).poll(cx)
            }));
        }),
        ("interval", |handle| {
            handle.block_on(async {
                let mut ticks = interval(ms(1));
                loop {
                    ticks.tick().await;
                }
            });
        }),
    ];
    for (name, wait) in waits {
        for runtime in both_flavours() {
            let message = must_end(move || {
                let ((started, starts), (panics, message)) = (mpsc::channel(), mpsc::channel());
                let handle = runtime.handle().clone();
                runtime.spawn_blocking(move || {
                    started.send(()).unwrap();
                    let _ = panics.send(panic_message(|| wait(&handle)));
                });
                starts.recv().unwrap();
                drop(runtime);
                message.recv().unwrap()
            });
            assert!(message.contains("the current tokio runtime was shut down"), "{name}: {message}");
        }
    }
    let in_tasks: [fn(); 5] = [
        || block_in_place(|| Handle::current().block_on(sleep(HOUR))),
        // With tokio's sleeps, this one and the next do block it.
        || block_on(sleep(HOUR)),
        // A bug that this crate had: so did a sleep that was postponed.
        || nap_with_resets(HOUR, &[2 * HOUR]),
        || nap_with_resets(ms(50), &[HOUR]),
        || nap_with_resets(HOUR, &[ms(50), HOUR]),
    ];
    for wait in in_tasks {
        must_end(move || {
            let runtime = multi_thread(2);
            let (started, starts) = mpsc::channel();
            runtime.spawn(async move {
                started.send(()).unwrap();
                wait();
            });
            starts.recv().unwrap();
            drop(runtime);
        });
    }
}

/// A bug that this crate had: a thread that sleeps briefly and repeatedly delayed its runtime's end by a second.
#[test]
fn a_runtime_that_has_ended_fails_every_sleep_that_has_to_wait() {
    for runtime in both_flavours() {
        must_end(move || {
            let handle = runtime.handle().clone();
            runtime.spawn(sleep(HOUR));
            drop(runtime);
            let entered = handle.enter();
            let mut late = sleep(HOUR).fallible();
            let ended = poll(&mut late).map(Result::unwrap_err);
            assert!(matches!(ended, Poll::Ready(error) if error.is_shutdown() && !error.is_no_runtime()), "{ended:?}");
            assert_eq!(block_on(timeout(HOUR, std::future::ready(1))), Ok(1));
            assert!(Timer::try_current().is_err_and(|error| error.is_shutdown()));
            drop(entered);
            late.reset_at(Instant::now() + ms(2));
            assert_eq!(block_on(late), Ok(()), "outside, the process's own timer serves");
        });
    }
}

/// A bug that this crate had: the task kept the timer of the first runtime, which nobody drove any more.
#[test]
fn a_task_of_a_local_set_waits_on_the_runtime_that_drives_it() {
    must_end(|| {
        let set = LocalSet::new();
        let (sender, mut slept) = tokio::sync::mpsc::unbounded_channel();
        set.spawn_local(async move {
            loop {
                sleep(ms(1)).await;
                let _ = sender.send(());
            }
        });
        for runtime in [current_thread(), multi_thread(1), current_thread()] {
            let before = set.block_on(&runtime, async {
                while slept.try_recv().is_ok() {}
                // The one that it waits for now may be the last runtime's.
                slept.recv().await;
                Timer::current().metrics().registered()
            });
            set.block_on(&runtime, async {
                slept.recv().await;
                slept.recv().await;
                assert!(Timer::current().metrics().registered() > before, "it waits elsewhere");
            });
        }
    });
}

/// A bug that this crate had: each shutdown of an installed timer that met a poll counted as the end of the runtime,
/// and a second later the sleeps of that thread failed.
#[test]
fn a_runtime_whose_timers_are_shut_down_has_not_ended() {
    must_end(|| {
        let runtime = multi_thread(2);
        let over = Arc::new(AtomicBool::new(false));
        let polls = [(); 2].map(|()| {
            let over = over.clone();
            runtime.spawn(async move {
                let mut polls = 0;
                while !over.load(SeqCst) {
                    assert!(Timer::try_current().is_ok());
                    // Either of the two may find a timer that ends before the sleep is registered.
                    for _ in 0..100 {
                        assert!(poll(&mut sleep(HOUR)).is_pending());
                        polls += 1;
                    }
                    tokio::task::yield_now().await;
                }
                polls
            })
        });
        let start = Instant::now();
        let _entered = runtime.enter();
        for round in 0.. {
            let timer = Timer::builder().install().unwrap();
            (0..round * 37 % 2_000).for_each(|_| std::hint::spin_loop());
            timer.shutdown();
            if start.elapsed() > ms(1_500) {
                break;
            }
        }
        over.store(true, SeqCst);
        for task in polls {
            assert!(block_on(task).unwrap() > 0);
        }
    });
}

/// A bug that this crate had: the sleep assumed that the runtime was about to drop its task, and kept waking the task
/// until the deadline.
#[test]
fn a_local_task_on_an_ended_runtime_panics() {
    let runtime = current_thread();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    must_end(move || {
        let local = LocalSet::new();
        let task = local.spawn_local(sleep(HOUR));
        handle.block_on(local.run_until(async { assert!(task.await.is_err()) }));
    });
}

#[test]
fn a_local_runtime_has_timers_in_its_tasks_and_on_other_threads() {
    let local = |is_paused| {
        let mut builder = Builder::new_current_thread();
        builder.enable_all().start_paused(is_paused).build_local(LocalOptions::default()).unwrap()
    };
    must_end(move || {
        let runtime = local(false);
        let handle = runtime.handle().clone();
        let elsewhere = thread::spawn(move || handle.block_on(use_time()));
        runtime.block_on(async {
            while !elsewhere.is_finished() {
                sleep(ms(1)).await;
            }
            let task = spawn_local(async {
                let held = Rc::new(sleep(ms(2)).deadline()); // not `Send`
                use_time().await;
                assert!(Instant::now() >= *held);
            });
            task.await.unwrap();
        });
        let mut left = None;
        runtime.block_on(async { left = Some(spawn_local(sleep(HOUR))) });
        drop(runtime);
        assert!(block_on(left.unwrap()).unwrap_err().is_cancelled());
        local(true).block_on(async {
            let start = Instant::now();
            spawn_local(sleep(HOUR)).await.unwrap();
            assert_eq!(start.elapsed(), HOUR);
        });
    });
}

/// As with tokio's sleeps, the entered runtime counts, not the executor that polls.
#[test]
fn entered_runtimes_may_be_nested() {
    must_end(|| {
        let [outer, inner] = [multi_thread(2), multi_thread(1)];
        let guard = outer.enter();
        let first = sleep(ms(2));
        {
            let _guard = inner.enter();
            block_on(use_time());
        }
        block_on(use_time());
        let handle = inner.handle().clone();
        let task = outer.spawn(async move {
            let mut created_inside = {
                let _guard = handle.enter();
                sleep(ms(2))
            };
            (&mut created_inside).await;
            created_inside.reset_at(Instant::now() + ms(1));
            created_inside.await;
            block_in_place(|| handle.block_on(use_time()));
            use_time().await;
        });
        outer.block_on(task).unwrap();
        drop(inner);
        block_on(use_time());
        let limited = timeout(ms(2), pending::<()>());
        drop(guard);
        block_on(first);
        assert!(thread::spawn(move || block_on(limited)).join().unwrap().is_err());
    });
}

/// As with tokio's. A bug that this crate had: a helper thread fired it, though its runtime had not looked at its
/// sockets.
#[test]
fn a_sleep_waits_while_nobody_drives_its_runtime() {
    for runtime in [current_thread(), bare().into_iter().next().unwrap()] {
        must_end(move || {
            for is_driven_before in [false, true] {
                if is_driven_before {
                    runtime.block_on(use_time());
                }
                let mut far = waiting_on(&runtime, HOUR);
                let (mut nap, woken) = inside(&runtime, || watched(sleep(HOUR)));
                let deadline = Instant::now() + ms(10);
                nap.reset_at(deadline);
                thread::sleep(ms(30));
                assert_eq!((woken.count(), nap.is_elapsed()), (0, false));
                runtime.block_on(async {
                    while woken.count() == 0 {
                        tokio::task::yield_now().await;
                    }
                });
                assert!(Instant::now() >= deadline && nap.is_elapsed() && !far.is_elapsed());
                assert_eq!(woken.count(), 1);
                assert!(poll(&mut far).is_pending());
                // Another runtime needs no waker of this one.
                current_thread().block_on(&mut nap);
            }
        });
    }
}

/// go 45716: timers never fired if the thread that registered them had ended.
#[test]
fn timers_fire_after_their_threads_ended() {
    for runtime in [current_thread(), multi_thread(2)] {
        must_end(move || {
            let (woken, waker) = Wakes::new();
            let threads = (0..24).map(|_| {
                let (handle, waker) = (runtime.handle().clone(), waker.clone());
                let thread = thread::spawn(move || {
                    let _guard = handle.enter();
                    (0..20).map(|_| polled_with(sleep(HOUR), &waker)).collect::<Vec<_>>()
                });
                thread.join().unwrap()
            });
            let mut naps: Vec<_> = threads.flatten().collect();
            for (index, nap) in (0..).zip(&mut naps) {
                nap.reset_at(Instant::now() + ms(2 + index % 20));
            }
            runtime.block_on(async {
                while woken.count() < naps.len() {
                    sleep(ms(1)).await;
                }
                join_all(&mut naps).await;
            });
            assert_eq!(woken.count(), naps.len());
        });
    }
}
