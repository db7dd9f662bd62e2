//! How a timer ends, and that everything that waits on it ends in exactly one way: fired, cancelled or shut down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;

use crate::common::{
    HOUR, Random, Wakes, both_flavours, current_thread, ms, multi_thread, must_end, panic_message, poll, poll_with,
};
use futures::{FutureExt, StreamExt};
use hairspring::{DeadlineMap, DelayQueue, Duration, Timer};

#[test]
fn a_shutdown_tells_how_many_waited_and_each_of_them_is_told() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let (timer, driver) = Timer::builder().build_with_driver().unwrap();
                let driver = tokio::spawn(driver);
                let sleeps: Vec<_> = (0..100).map(|_| tokio::spawn(timer.try_sleep(HOUR))).collect();
                let unpolled = timer.try_sleep(HOUR);
                while timer.metrics().pending() < 100 {
                    tokio::task::yield_now().await;
                }
                assert_eq!(timer.shutdown(), 100);
                for sleep in sleeps {
                    assert!(sleep.await.unwrap().unwrap_err().is_shutdown());
                }
                assert!(unpolled.await.unwrap_err().is_shutdown());
                driver.await.unwrap();
                assert_eq!(timer.shutdown(), 0, "it is over");
                assert_eq!(timer.clone().shutdown(), 0, "for all handles");
                let _next = Timer::builder().build().unwrap();
                let metrics = timer.metrics();
                assert_eq!((metrics.pending(), metrics.fired(), metrics.next_deadline()), (0, 0, None));
                assert_eq!((metrics.registered(), metrics.cancelled()), (100, 100));
            });
        });
    }
}

#[test]
fn what_is_registered_after_a_shutdown_is_refused_and_what_is_over_is_ready() {
    must_end(|| {
        current_thread().block_on(async {
            let timer = Timer::builder().build().unwrap();
            timer.shutdown();
            assert!(timer.try_sleep(HOUR).await.unwrap_err().is_shutdown());
            assert_eq!(timer.try_sleep(Duration::ZERO).await, Ok(()));
            assert_eq!(timer.timeout(HOUR, std::future::ready(1)).await, Ok(1));
            assert!(panic_message(|| poll(&mut timer.sleep(HOUR))).contains("shut down"));
            // Others go on.
            hairspring::sleep(ms(1)).await;
        });
    });
}

/// netty 14081, folly 3a06d042d: some timers were neither fired nor cancelled.
#[test]
fn every_timer_ends_in_one_way_though_threads_register_and_drop_during_the_shutdown() {
    must_end(|| {
        let runtime = multi_thread(2);
        for round in 0..40 {
            let timer = runtime.block_on(async { Timer::builder().shards(2).build().unwrap() });
            let (armed, fired, dropped) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
            let (told, kept) = (AtomicU32::new(0), AtomicUsize::new(0));
            let ended = thread::scope(|scope| {
                for seed in 1..=2 {
                    let timer = timer.clone();
                    let (armed, fired, dropped, told, kept) = (&armed, &fired, &dropped, &told, &kept);
                    scope.spawn(move || {
                        let mut random = Random::new(seed + 10 * round);
                        let mut sleeps = Vec::new();
                        loop {
                            let mut sleep = timer.try_sleep(Duration::from_micros(10 + random.below(3_000)));
                            match poll(&mut sleep) {
                                Poll::Pending => {
                                    armed.fetch_add(1, SeqCst);
                                    sleeps.push(sleep);
                                }
                                // Never registered.
                                Poll::Ready(Ok(())) => {}
                                Poll::Ready(Err(error)) => {
                                    assert!(error.is_shutdown());
                                    break;
                                }
                            }
                            kept.fetch_add(1, SeqCst);
                            if random.below(3) == 0 && sleeps.pop().is_some() {
                                dropped.fetch_add(1, SeqCst);
                            }
                        }
                        for mut sleep in sleeps {
                            match futures::executor::block_on(&mut sleep) {
                                Ok(()) => {
                                    assert!(timer.now() >= sleep.deadline(), "early");
                                    fired.fetch_add(1, SeqCst);
                                }
                                Err(error) => {
                                    assert!(error.is_shutdown());
                                    told.fetch_add(1, SeqCst);
                                }
                            }
                        }
                    });
                }
                while kept.load(SeqCst) < 500 {
                    thread::yield_now();
                }
                timer.shutdown()
            });
            let [armed, fired, dropped, told] = [armed, fired, dropped, told].map(AtomicU32::into_inner);
            assert_eq!(armed, fired + dropped + told, "of {ended} that the shutdown found");
            // One that was found waiting may be past its deadline by the time it is polled.
            assert!(told as usize <= ended);
            let metrics = timer.metrics();
            assert_eq!((metrics.registered(), metrics.pending()), (armed.into(), 0));
        }
    });
}

#[test]
fn the_driver_ends_once_no_handle_is_left_and_nothing_waits() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let (timer, driver) = Timer::builder().build_with_driver().unwrap();
                let mut driver = tokio::spawn(driver);
                let mut waits = timer.try_sleep(HOUR);
                let mut unpolled = timer.try_sleep(HOUR);
                let (woken, waker) = Wakes::new();
                assert!(poll_with(&mut waits, &waker).is_pending());
                let other = timer.clone();
                drop(timer);
                other.sleep(ms(2)).await;
                assert!((&mut driver).now_or_never().is_none(), "there is a handle yet");
                drop(other);
                let now = hairspring::Instant::now();
                unpolled.reset_at(now + ms(2));
                assert_eq!((&mut unpolled).await, Ok(()), "it had not begun to wait");
                drop(unpolled);
                assert!((&mut driver).now_or_never().is_none() && woken.count() == 0, "one waits yet");
                waits.reset_at(now + ms(4));
                assert_eq!((&mut waits).await, Ok(()));
                waits.reset_at(now + ms(6));
                assert_eq!((&mut waits).await, Ok(()), "it may go on");
                assert!((&mut driver).now_or_never().is_none());
                drop(waits);
                driver.await.unwrap();
            });
        });
    }
}

/// The handle is gone before the first poll of what it made.
#[test]
fn no_future_needs_the_handle_that_made_it() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let build = || Timer::builder().build().unwrap();
                build().sleep(ms(2)).await;
                assert!(build().timeout(ms(2), std::future::pending::<()>()).await.is_err());
                assert_eq!(build().try_sleep(ms(2)).await, Ok(()));
                let sleeps: Vec<_> = {
                    let timer = build();
                    (0..100).map(|n| tokio::spawn(timer.sleep(ms(n % 7)))).collect()
                };
                for sleep in sleeps {
                    sleep.await.unwrap();
                }
            });
        });
    }
}

#[test]
fn the_task_of_a_built_timer_is_gone_when_its_last_handle_is() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
                let before = alive();
                let timers: Vec<_> = (0..10).map(|_| Timer::builder().build().unwrap()).collect();
                for timer in &timers {
                    timer.sleep(ms(1)).await;
                }
                assert_eq!(alive(), before + 10);
                drop(timers);
                while alive() > before {
                    tokio::task::yield_now().await;
                }
            });
        });
    }
}

/// Intervals, queues and maps keep their timer alive; you need not keep a handle.
#[test]
fn intervals_queues_and_maps_keep_the_timer_that_they_were_made_on() {
    must_end(|| {
        current_thread().block_on(async {
            let build = || Timer::builder().build().unwrap();
            let mut ticks = build().interval(ms(1));
            let mut queue = DelayQueue::with_timer(&build());
            let (map, mut expirations) = DeadlineMap::with_timer(&build());
            queue.insert('q', ms(3));
            map.insert('k', 'm', ms(3));
            drop(map);
            for _ in 0..3 {
                ticks.tick().await;
            }
            assert_eq!(queue.next().await.unwrap().into_inner(), 'q');
            assert_eq!(expirations.next().await, Some(('k', 'm')));
        });
    });
}

/// Any dependency can get a handle on the timer of the whole runtime.
#[test]
fn a_default_timer_that_nobody_built_cannot_be_shut_down() {
    for runtime in both_flavours() {
        must_end(move || {
            let outside = Timer::current();
            runtime.block_on(async {
                let mut waits = hairspring::sleep(HOUR);
                assert!(poll(&mut waits).is_pending());
                let timer = Timer::current();
                assert_eq!((timer.shutdown(), outside.shutdown()), (0, 0));
                assert_eq!((timer.metrics().pending(), &timer), (1, &Timer::current()));
                timer.sleep(ms(1)).await;
            });
            futures::executor::block_on(outside.sleep(ms(1)));
        });
    }
}

#[test]
fn a_runtimes_timer_does_not_need_a_handle() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let installed = Timer::builder().install().unwrap();
                for handle in [installed, Timer::current()] {
                    drop(handle);
                    tokio::spawn(hairspring::sleep(ms(1))).await.unwrap();
                }
            });
        });
    }
}

/// A waker may hold the last handle and the last sleep, and drop both when it is woken: the timer ends in its own turn.
#[test]
fn the_last_of_a_timer_may_go_as_it_fires() {
    for runtime in both_flavours() {
        must_end(move || {
            let timer = runtime.block_on(async { Timer::builder().build().unwrap() });
            let mut sleep = timer.try_sleep(HOUR);
            let held = Arc::new(std::sync::Mutex::new(None));
            let drops = held.clone();
            let waker = crate::common::on_wake(move || drop(drops.lock().unwrap().take()));
            assert!(poll_with(&mut sleep, &waker).is_pending());
            sleep.reset_at(timer.now() + ms(5));
            *held.lock().unwrap() = Some((timer, sleep));
            runtime.block_on(async {
                while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
                    tokio::task::yield_now().await;
                }
            });
            assert!(held.lock().unwrap().is_none());
        });
    }
}

/// If the runtime of a named timer is dropped, the timer is shut down, whatever runtime polls its sleeps.
#[test]
fn a_fallible_sleep_is_told_when_its_timers_runtime_goes_away() {
    let timers: [fn() -> Timer; 3] =
        [Timer::current, || Timer::builder().build().unwrap(), || Timer::builder().install().unwrap()];
    for make in timers {
        for home in both_flavours() {
            must_end(move || {
                let timer = home.block_on(async { make() });
                let handle = home.handle().clone();
                let on_another = {
                    let sleep = timer.try_sleep(HOUR);
                    thread::spawn(move || current_thread().block_on(sleep))
                };
                let on_a_task_of_another = {
                    let (sleep, another) = (timer.try_sleep(HOUR), multi_thread(1));
                    thread::spawn(move || another.block_on(another.spawn(sleep)).unwrap())
                };
                let on_a_plain_executor = {
                    let sleep = timer.try_sleep(HOUR);
                    thread::spawn(move || futures::executor::block_on(sleep))
                };
                while timer.metrics().pending() < 3 {
                    thread::sleep(ms(1));
                }
                drop(home);
                for thread in [on_another, on_a_task_of_another, on_a_plain_executor] {
                    assert!(thread.join().unwrap().unwrap_err().is_shutdown());
                }
                assert!(futures::executor::block_on(timer.try_sleep(HOUR)).unwrap_err().is_shutdown());
                let _entered = handle.enter();
                assert!(futures::executor::block_on(timer.try_sleep(HOUR)).unwrap_err().is_shutdown());
                assert_eq!(timer.shutdown(), 0);
            });
        }
    }
}

#[test]
fn a_driver_that_is_dropped_ends_its_timer() {
    must_end(|| {
        let (timer, driver) = Timer::builder().shards(1).build_with_driver().unwrap();
        let mut sleeps: Vec<_> = (0..10).map(|_| timer.try_sleep(HOUR)).collect();
        assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
        drop(driver);
        for mut sleep in sleeps {
            assert!(matches!(poll(&mut sleep), Poll::Ready(Err(error)) if error.is_shutdown()));
        }
    });
}

/// A driver may be polled by an executor whose wakers panic.
#[test]
fn a_driver_whose_waker_panics_keeps_nobody_from_waiting_or_being_told() {
    must_end(|| {
        let (timer, mut driver) = Timer::builder().build_with_driver().unwrap();
        let bad = crate::common::on_wake(|| panic!("on purpose"));
        assert!(poll_with(&mut driver, &bad).is_pending());
        let mut waits = timer.try_sleep(HOUR);
        let (woken, waker) = Wakes::new();
        assert!(poll_with(&mut waits, &waker).is_pending());
        assert!(poll_with(&mut driver, &bad).is_pending());
        assert_eq!(timer.shutdown(), 1);
        assert_eq!(woken.count(), 1);
        assert!(matches!(poll(&mut waits), Poll::Ready(Err(error)) if error.is_shutdown()));
    });
}

/// Shuts the timer down twice from inside a wake-up of that timer.
#[test]
fn a_waker_may_shut_its_timer_down() {
    must_end(|| {
        let runtime = multi_thread(2);
        let timer = runtime.block_on(async { Timer::builder().build().unwrap() });
        let found = Arc::new(AtomicUsize::new(usize::MAX));
        let (sees, shuts) = (found.clone(), timer.clone());
        let (mut first, mut second) = (timer.try_sleep(HOUR), timer.try_sleep(HOUR));
        let (woken, waker) = Wakes::new();
        assert!(poll_with(&mut second, &waker).is_pending());
        let shut_down = crate::common::on_wake(move || sees.store(shuts.shutdown(), SeqCst));
        assert!(poll_with(&mut first, &shut_down).is_pending());
        first.reset_at(timer.now() + ms(5));
        woken.wait();
        while found.load(SeqCst) == usize::MAX {
            thread::sleep(ms(1));
        }
        assert_eq!(found.load(SeqCst), 1);
        assert_eq!(timer.shutdown(), 0);
    });
}
