//! Wakers: which one is woken and how often, what is kept of one, and wakers that panic or call back into the timer.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;

use crate::common::{
    HOUR, HUNG, OnDrop, Wakes, both_flavours, current_thread, holding, inside, ms, multi_thread, must_end, on_wake,
    poll, poll_with, settle,
};
use hairspring::{Instant, Sleep, Timer, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn the_last_waker_given_is_woken_exactly_once() {
    let (first, first_waker) = Wakes::new();
    let (second, second_waker) = Wakes::new();
    let (last, last_waker) = Wakes::new();
    let mut sleep = sleep(ms(100));
    for waker in [&first_waker, &second_waker, &first_waker, &last_waker, &last_waker] {
        assert!(poll_with(&mut sleep, waker).is_pending());
        tokio::time::advance(ms(10)).await;
    }
    tokio::time::advance(HOUR).await;
    settle().await;
    assert_eq!([first.count(), second.count(), last.count()], [0, 0, 1]);
    assert!(poll_with(&mut sleep, &first_waker).is_ready());
    tokio::time::advance(HOUR).await;
    settle().await;
    assert_eq!([first.count(), second.count(), last.count()], [0, 0, 1]);
}

#[test]
fn the_last_waker_is_woken_by_the_systems_clock_too() {
    for runtime in both_flavours() {
        must_end(move || {
            let (first, first_waker) = Wakes::new();
            let (last, last_waker) = Wakes::new();
            let mut waiting = sleep(HOUR);
            for waker in [&first_waker, &last_waker] {
                inside(&runtime, || assert!(poll_with(&mut waiting, waker).is_pending()));
            }
            waiting.reset_at(Instant::now() + ms(5));
            runtime.block_on(async {
                while last.count() == 0 {
                    sleep(ms(1)).await;
                }
                sleep(ms(5)).await;
            });
            assert_eq!([first.count(), last.count()], [0, 1]);
        });
    }
}

/// After a sleep moves from one task to another, it wakes the task that has it.
#[tokio::test(start_paused = true)]
async fn a_sleep_that_moved_to_another_task_wakes_that_one() {
    let mut waiting = sleep(ms(50));
    assert!(futures::poll!(&mut waiting).is_pending());
    let task = tokio::spawn(async move {
        waiting.await;
        Instant::now()
    });
    let deadline = Instant::now() + ms(50);
    assert_eq!(task.await.unwrap(), deadline);
}

/// netty 2541, STPE `removeOnCancel`, go 75935: what a cancelled timer held was kept until its deadline.
#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_a_waker_once_its_sleep_is_done_with_it() {
    fn tracked() -> (Weak<()>, Waker) {
        let held = Arc::new(());
        (Arc::downgrade(&held), holding(held))
    }
    fn waiting(waker: &Waker) -> Sleep {
        let mut sleep = sleep(HOUR);
        assert!(poll_with(&mut sleep, waker).is_pending());
        sleep
    }
    let (held, waker) = tracked();
    let waits = waiting(&waker);
    drop(waker);
    assert_eq!(held.strong_count(), 1);
    drop(waits);
    assert_eq!(held.strong_count(), 0, "dropped");

    let (held, waker) = tracked();
    let mut replaced = waiting(&waker);
    drop(waker);
    assert!(poll(&mut replaced).is_pending());
    assert_eq!(held.strong_count(), 0, "replaced by another waker");

    let (held, waker) = tracked();
    let mut fired = waiting(&waker);
    drop(waker);
    tokio::time::advance(2 * HOUR).await;
    settle().await;
    assert_eq!(held.strong_count(), 0, "fired");
    assert!(poll(&mut fired).is_ready());

    let (held, waker) = tracked();
    let mut ready = waiting(&waker);
    drop(waker);
    ready.reset_at(Instant::now());
    assert!(poll(&mut ready).is_ready());
    assert_eq!(held.strong_count(), 0, "ready, before the driver came round");

    let (held, waker) = tracked();
    let mut limited = timeout(HOUR, std::future::pending::<()>());
    assert!(poll_with(&mut limited, &waker).is_pending());
    drop(waker);
    drop(limited);
    assert_eq!(held.strong_count(), 0, "a timeout dropped");

    let (held, waker) = tracked();
    let mut ticks = hairspring::interval(HOUR);
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(ticks.poll_tick(&mut cx).is_ready() && ticks.poll_tick(&mut cx).is_pending());
    drop(waker);
    assert_eq!(held.strong_count(), 1);
    drop(ticks);
    assert_eq!(held.strong_count(), 0, "an interval dropped");
}

#[test]
fn nothing_is_kept_of_a_waker_once_its_runtime_has_gone() {
    for runtime in both_flavours() {
        let held = Arc::new(());
        let weak = Arc::downgrade(&held);
        let mut waits = sleep(HOUR);
        inside(&runtime, || assert!(poll_with(&mut waits, &holding(held)).is_pending()));
        assert_eq!(weak.strong_count(), 1);
        drop(runtime);
        assert_eq!(weak.strong_count(), 0);
        drop(waits);
    }
}

/// agrona 164cc842, caffeine 3e66fe9de: one callback that panicked stranded the rest of its slot.
#[tokio::test(start_paused = true)]
async fn where_one_waker_panics_the_others_fire() {
    const SLEEPS: usize = 300;
    for bad in [0, 1, 63, 64, 150, SLEEPS - 1] {
        let now = Instant::now();
        let (woken, good_waker) = Wakes::new();
        let sleeps: Vec<_> = (0..SLEEPS)
            .map(|index| {
                let mut sleep = hairspring::sleep_until(now + ms(5));
                let waker = if index == bad { on_wake(|| panic!("on purpose")) } else { good_waker.clone() };
                assert!(poll_with(&mut sleep, &waker).is_pending());
                sleep
            })
            .collect();
        tokio::time::advance(ms(5)).await;
        settle().await;
        assert_eq!(woken.count(), SLEEPS - 1, "waker {bad} panicked");
        for sleep in sleeps {
            sleep.await;
        }
        assert_eq!(now.elapsed(), ms(5));
        sleep(ms(5)).await;
    }
}

#[test]
fn where_wakers_panic_the_driver_of_a_running_program_lives_on() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                for _ in 0..5 {
                    let panicked = Arc::new(AtomicUsize::new(0));
                    let count = panicked.clone();
                    let mut bad = sleep(ms(2));
                    let waker = on_wake(move || {
                        count.fetch_add(1, SeqCst);
                        panic!("on purpose");
                    });
                    if poll_with(&mut bad, &waker).is_pending() {
                        while panicked.load(SeqCst) == 0 {
                            sleep(ms(1)).await;
                        }
                    }
                    sleep(ms(1)).await;
                }
            });
        });
    }
}

/// The same for a value that a waker holds, and whose drop panics when the waker is woken or replaced.
#[tokio::test(start_paused = true)]
async fn where_the_drop_of_a_waker_panics_the_others_fire() {
    let (woken, good_waker) = Wakes::new();
    let mut sleeps: Vec<_> = (0..100).map(|_| sleep(ms(5))).collect();
    for (index, sleep) in sleeps.iter_mut().enumerate() {
        let waker = if index == 40 { holding(OnDrop(|| panic!("on purpose"))) } else { good_waker.clone() };
        assert!(poll_with(sleep, &waker).is_pending());
    }
    tokio::time::advance(ms(5)).await;
    settle().await;
    assert_eq!(woken.count(), 99);
    sleep(ms(5)).await;
}

/// go 38070: code that was called under a lock called back. Here it calls every operation there is, on the same timer.
fn use_the_timer(timer: &Timer) {
    let (_, waker) = Wakes::new();
    let mut near = timer.sleep(ms(1));
    let mut far = timer.sleep(HOUR);
    let _ = (poll_with(&mut near, &waker), poll_with(&mut far, &waker));
    near.reset_at(timer.now() + HOUR);
    far.reset_at(timer.now());
    let _ = (poll(&mut near), poll(&mut far));
    drop((near, far));
    let _ = poll(&mut timer.timeout(HOUR, std::future::pending::<()>()));
}

/// go 38070: a callback deadlocks with its own timer.
#[test]
fn a_waker_may_register_reset_and_cancel_on_the_timer_that_wakes_it() {
    for runtime in both_flavours() {
        must_end(move || {
            let timer = runtime.block_on(async { Timer::current() });
            let called = Arc::new(AtomicUsize::new(0));
            let mut sleeps = Vec::new();
            for index in 0..200 {
                let (timer, count) = (timer.clone(), called.clone());
                let waker = on_wake({
                    let timer = timer.clone();
                    move || {
                        use_the_timer(&timer);
                        count.fetch_add(1, SeqCst);
                    }
                });
                let mut sleep = timer.sleep(HOUR);
                assert!(poll_with(&mut sleep, &waker).is_pending());
                // Some are woken by the driver, some in the reset, by whoever resets.
                sleep.reset_at(if index % 2 == 0 { timer.now() + ms(2) } else { timer.now() - HOUR });
                sleeps.push(sleep);
            }
            runtime.block_on(async {
                while called.load(SeqCst) < 200 {
                    sleep(ms(1)).await;
                }
            });
            assert_eq!(called.load(SeqCst), 200);
        });
    }
}

/// tokio 5429: a deadlock when dropping a waker called back into the timer.
#[test]
fn the_drop_of_a_waker_may_register_reset_and_cancel_on_the_same_timer() {
    fn nosy_of(drops: &Arc<AtomicUsize>) -> Waker {
        let drops = drops.clone();
        holding(OnDrop(move || {
            drops.fetch_add(1, SeqCst);
        }))
    }

    for runtime in both_flavours() {
        must_end(move || {
            let timer = runtime.block_on(async { Timer::current() });
            let drops = Arc::new(AtomicUsize::new(0));
            let nosy = || {
                let (timer, drops) = (timer.clone(), drops.clone());
                // What it holds is itself waiting on this timer.
                let mut held = timer.sleep(HOUR);
                assert!(poll_with(&mut held, &Wakes::new().1).is_pending());
                let held = Mutex::new(Some(held));
                holding(OnDrop(move || {
                    drop(held.lock().unwrap().take());
                    drops.fetch_add(1, SeqCst);
                    // Panics on a timer that has gone, which is to be contained.
                    use_the_timer(&timer);
                }))
            };
            let waiting = || {
                let mut sleep = timer.sleep(HOUR);
                assert!(poll_with(&mut sleep, &nosy()).is_pending());
                sleep
            };
            drop(waiting());
            assert_eq!(drops.load(SeqCst), 1, "cancelled");
            assert!(poll(&mut waiting()).is_pending());
            assert_eq!(drops.load(SeqCst), 2, "replaced");
            let mut reset = waiting();
            reset.reset_at(timer.now());
            assert!(poll(&mut reset).is_ready());
            drop(reset);
            // A turn may have it in hand.
            while drops.load(SeqCst) < 3 {
                std::thread::yield_now();
            }
            assert_eq!(drops.load(SeqCst), 3, "ready");
            let mut fires = waiting();
            fires.reset_at(timer.now() + ms(2));
            runtime.block_on(async {
                while drops.load(SeqCst) < 4 {
                    sleep(ms(1)).await;
                }
            });
            drop(fires);
            let waits = waiting();
            drop(runtime);
            assert_eq!(drops.load(SeqCst), 5, "with its runtime");
            drop(waits);
            // On a timer that has gone, the waker is dropped where the sleep is refused.
            let _ = crate::common::panic_message(|| poll_with(&mut timer.sleep(HOUR), &nosy_of(&drops)));
            assert_eq!(drops.load(SeqCst), 6, "refused");
        });
    }
}

/// A chain of sleeps on one timer, each dropped by the waker of the one before: a deep recursion.
#[test]
fn a_chain_of_sleeps_held_by_each_others_wakers_is_dropped() {
    must_end(|| {
        let runtime = current_thread();
        let chain = inside(&runtime, || {
            let mut last = sleep(HOUR);
            for _ in 0..200 {
                let mut next = sleep(HOUR);
                assert!(poll_with(&mut next, &holding(last)).is_pending());
                last = next;
            }
            last
        });
        drop(chain);
        runtime.block_on(sleep(ms(1)));
    });
}

/// Wakers that call back into the runtime that fires them: they spawn there, and wake others.
#[test]
fn a_waker_may_spawn_on_the_runtime_that_wakes_it() {
    must_end(|| {
        for runtime in [multi_thread(1), multi_thread(3), current_thread()] {
            let handle = runtime.handle().clone();
            let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
            runtime.block_on(async {
                let mut sleep = sleep(ms(2));
                let waker = on_wake(move || {
                    let sender = sender.clone();
                    handle.spawn(async move {
                        hairspring::sleep(ms(1)).await;
                        let _ = sender.send(());
                    });
                });
                if poll_with(&mut sleep, &waker).is_pending() {
                    let spawned = tokio::time::timeout(HUNG, received.recv()).await;
                    assert!(spawned.unwrap().is_some());
                }
            });
        }
    });
}
