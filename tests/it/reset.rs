//! Resets by another thread, and in another runtime. The fuzzer's target `timer` compares random resets and drops with
//! a model (tokio 849, 868), and `fuzz::current` with tokio's.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use crate::common::{
    HOUR, OnDrop, Wakes, both_flavours, current_thread, holding, inside, ms, multi_thread, must_end, must_end_on,
    panicked_with, paused, poll, poll_with, wait_until, watched,
};
use hairspring::timer::Alarm;
use hairspring::{Duration, Instant, Interval, Sleep, Time, Timer, boot, interval, sleep, sleep_until, wall};
use tokio::runtime::Runtime;

/// tokio 2290: a reset into the past did not wake the task. go 47329, 47762: a reset to an earlier deadline was
/// ignored. Here another thread resets while the runtime sleeps.
#[test]
fn a_reset_wakes_without_another_poll() {
    for ahead in [None, Some(ms(1))] {
        for runtime in both_flavours() {
            must_end(move || {
                let (mut waiting, woken) = inside(&runtime, || watched(sleep(HOUR)));
                let resets = std::thread::spawn(move || {
                    std::thread::sleep(ms(5));
                    waiting.reset_at(ahead.map_or(Instant::now() - HOUR, |ahead| Instant::now() + ahead));
                    waiting
                });
                runtime.block_on(async {
                    while woken.count() == 0 {
                        sleep(ms(1)).await;
                    }
                });
                assert!(poll(&mut resets.join().unwrap()).is_ready());
                assert_eq!(woken.count(), 1);
            });
        }
    }
}

/// tokio 8169: a reset inside another runtime moved the timer to it.
#[test]
fn a_reset_elsewhere_leaves_the_sleep_in_its_runtime() {
    for home_ends in [false, true] {
        for other in both_flavours() {
            must_end(move || {
                let home = multi_thread(1);
                let (mut sleep, woken) = inside(&home, || watched(sleep(HOUR)));
                let deadline = Instant::now() + ms(20);
                inside(&other, || sleep.reset_at(deadline));
                if home_ends {
                    drop(home);
                    other.block_on(&mut sleep);
                } else {
                    drop(other);
                    woken.wait();
                    assert!(inside(&home, || poll(&mut sleep)).is_ready());
                }
                assert!(Instant::now() >= deadline);
                assert_eq!(woken.count(), 1);
            });
        }
    }
}

/// Bugs that this crate had: the sleep waited, and took its room in the timer, until the driver ran; on a timer with a
/// resolution, the next poll began another wait.
#[test]
fn a_reset_to_an_instant_that_a_turn_has_reached_ends_the_wait_at_once() {
    must_end_on(current_thread(), async || {
        let builder = || Timer::builder().alarm(Alarm::Tokio).max_pending(1);
        for builder in [builder(), builder().resolution(ms(1))] {
            let timer = builder.build().unwrap();
            let start = Instant::now();
            timer.sleep(ms(2)).await;
            let (mut nap, woken) = watched(timer.try_sleep(HOUR));
            nap.reset_at(start);
            assert_eq!((woken.count(), timer.metrics().pending()), (1, 0));
            assert!(poll(&mut timer.try_sleep(HOUR)).is_pending());
            assert_eq!(poll(&mut nap), Poll::Ready(Ok(())));
            assert_eq!(timer.metrics().registered(), 3);
        }
    });
}

/// A bug that this crate had: only a reset in the sleep's runtime knew that.
#[test]
fn a_sleep_that_is_reset_to_an_instant_that_a_turn_has_reached_has_fired_whoever_resets_it() {
    must_end(|| {
        let (home, other) = (multi_thread(1), current_thread());
        let past = Instant::now();
        wait_until(|| inside(&home, || poll(&mut sleep_until(past)).is_ready()));
        for elsewhere in [None, Some(other)] {
            let (mut nap, woken) = inside(&home, || watched(sleep(HOUR)));
            let _entered = elsewhere.as_ref().map(Runtime::enter);
            nap.reset_at(past);
            assert!(nap.is_elapsed() && woken.count() == 1);
        }
    });
}

/// tokio's paused clock, and 1, 2 and 4 workers.
fn runtimes() -> [Runtime; 4] {
    [paused(), multi_thread(1), multi_thread(2), multi_thread(4)]
}

/// Awaits the sleep, and resets it in the poll that finds it ready, as futures written by hand do. That poll is the
/// only one until the sleep wakes the task.
async fn again<F: Future + Unpin>(mut sleep: F, reset: impl FnOnce(&mut F)) -> F::Output {
    let mut reset = Some(reset);
    poll_fn(|cx| {
        let slept = ready!(Pin::new(&mut sleep).poll(cx));
        let Some(reset) = reset.take() else { return Poll::Ready(slept) };
        reset(&mut sleep);
        Poll::Pending
    })
    .await
}

/// Runs a task on each kind of runtime, which has to take between 10 ms and an hour of its own clock.
fn each_waits<F: Future<Output = ()> + Send + 'static>(test: fn() -> F) {
    for runtime in runtimes() {
        must_end_on(runtime, async move || {
            let start = Instant::now();
            tokio::spawn(test()).await.unwrap();
            assert!((ms(10)..HOUR).contains(&start.elapsed()), "{:?}", start.elapsed());
        });
    }
}

/// Bugs that this crate had: the tasks were never woken; with tokio's sleeps they are.
#[test]
fn a_completed_sleep_that_is_reset_wakes_its_task_without_another_poll() {
    fn later(sleep: &mut Sleep) {
        sleep.reset_at(Instant::now() + ms(10));
    }
    fn past(sleep: &mut Sleep) {
        sleep.reset_at(Instant::now() - HOUR);
    }
    each_waits(|| again(sleep(ms(1)), later));
    each_waits(|| again(sleep(ms(10)), past));
    each_waits(|| async {
        let timer = Timer::builder().build().unwrap();
        again(timer.sleep(ms(1)), later).await;
        again(timer.sleep(ms(10)), past).await;
        assert_eq!(timer.metrics().pending(), 0);
    });
}

#[test]
fn so_do_sleeps_on_other_clocks() {
    each_waits(|| again(boot::sleep(ms(1)), |sleep| sleep.reset_at(boot::Instant::now() + ms(10))));
    each_waits(|| again(boot::sleep(ms(10)), |sleep| sleep.reset_at(boot::Instant::now())));
    each_waits(|| again(wall::sleep_until(wall::now()), |sleep| sleep.reset_at(wall::now() + ms(10))));
    each_waits(|| async {
        let timer = Timer::builder().build().unwrap();
        again(boot::sleep(ms(1)).with_timer(&timer), |sleep| sleep.reset_at(boot::Instant::now() + ms(10))).await;
    });
}

#[test]
fn so_do_fallible_sleeps() {
    each_waits(|| async {
        let timer = Timer::current();
        let slept = again(timer.try_sleep(ms(1)), |sleep| sleep.reset_at(Instant::now() + ms(10))).await;
        assert_eq!(slept, Ok(()));
        let slept = again(timer.try_sleep(ms(10)), |sleep| sleep.reset_at(Instant::now() - HOUR)).await;
        assert_eq!(slept, Ok(()));
    });
    each_waits(|| async {
        let sleep = boot::sleep(ms(1)).fallible();
        assert_eq!(again(sleep, |sleep| sleep.reset_at(boot::Instant::now() + ms(10))).await, Ok(()));
    });
}

/// The task's next poll returns the error.
#[test]
fn a_completed_sleep_that_is_reset_on_a_timer_that_has_ended_wakes_its_task() {
    each_waits(|| async {
        let timer = Timer::builder().build().unwrap();
        let ended = again(timer.try_sleep(ms(10)), |sleep| {
            timer.shutdown();
            sleep.reset_at(Instant::now() + HOUR);
        });
        assert!(ended.await.is_err_and(|error| error.is_shutdown()));
    });
}

/// tokio's interval did so before 1.53, after a reset, and only then.
#[test]
fn an_interval_wakes_the_task_of_its_last_tick_if_it_is_reset() {
    async fn test<T: Time>(mut interval: Interval<T>) {
        let mut is_reset = false;
        poll_fn(|cx| {
            ready!(interval.poll_tick(cx));
            if std::mem::replace(&mut is_reset, true) {
                return Poll::Ready(());
            }
            interval.reset_after(ms(10));
            Poll::Pending
        })
        .await;
    }
    each_waits(|| test(interval(HOUR)));
    each_waits(|| test(boot::interval(HOUR)));
    each_waits(|| test(Timer::builder().build().unwrap().interval(HOUR)));
    must_end_on(paused(), async || {
        let [(first, first_waker), (last, last_waker)] = [(); 2].map(|()| Wakes::new());
        let mut interval = interval(ms(10));
        for waker in [&first_waker, &last_waker] {
            let tick = poll_fn(|cx| interval.poll_tick(cx)).await;
            interval.reset_at(tick);
            assert!(poll_with(&mut Box::pin(interval.tick()), waker).is_ready());
        }
        sleep(ms(50)).await;
        assert_eq!([first.count(), last.count()], [0, 0], "a tick that nobody polled for");
        interval.reset();
        sleep(ms(50)).await;
        assert_eq!([first.count(), last.count()], [0, 1]);
    });
}

#[test]
fn the_last_waker_of_a_completed_sleep_is_woken_once_and_dropped() {
    for is_chosen in [false, true] {
        must_end_on(paused(), async move || {
            let timer = Timer::current();
            let [(first, first_waker), (last, last_waker)] = [(); 2].map(|()| Wakes::new());
            let mut sleep = if is_chosen { timer.sleep(Duration::ZERO) } else { sleep(Duration::ZERO) };
            (&mut sleep).await;
            for waker in [&first_waker, &last_waker] {
                assert!(poll_with(&mut sleep, waker).is_ready());
            }
            drop(first_waker);
            assert_eq!(Arc::strong_count(&first), 1, "it was dropped");
            sleep.reset_at(Instant::now() + ms(5));
            assert!(!sleep.is_elapsed());
            hairspring::sleep(ms(10)).await;
            assert_eq!([first.count(), last.count()], [0, 1]);
            assert!(sleep.is_elapsed() && poll(&mut sleep).is_ready());
            drop(last_waker);
            assert_eq!(Arc::strong_count(&last), 1);
        });
    }
}

/// The timer's clock is the test's, so it does not count in real time.
#[test]
fn a_reset_outside_the_runtime_stays_on_a_clock_that_a_test_has_paused() {
    must_end_on(paused(), async || {
        let mut nap = sleep(ms(1));
        (&mut nap).await;
        let (woken, waker) = Wakes::new();
        assert!(poll_with(&mut nap, &waker).is_ready());
        let deadline = Instant::now() + HOUR;
        std::thread::scope(|scope| scope.spawn(|| nap.reset_at(deadline)).join().unwrap());
        sleep(2 * HOUR).await;
        assert!(nap.is_elapsed() && woken.count() == 1);
    });
}

#[test]
fn a_completed_sleep_whose_timer_has_ended_waits_on_that_of_the_task_that_resets_it() {
    let other = multi_thread(1);
    let mut sleep = inside(&other, || sleep(ms(1)));
    other.block_on(&mut sleep);
    drop(other);
    must_end_on(current_thread(), async || again(sleep, |sleep| sleep.reset_at(Instant::now() + ms(1))).await);
}

/// Wakers are user code: they may panic when they are cloned or dropped, and use timers.
#[test]
fn a_waker_that_a_completed_sleep_keeps_may_panic_and_use_timers() {
    must_end_on(paused(), async || {
        for is_chosen in [false, true] {
            let timer = Timer::current();
            let mut nap = if is_chosen { timer.sleep(Duration::ZERO) } else { sleep(Duration::ZERO) };
            (&mut nap).await;
            let bad = holding(OnDrop(|| {
                assert!(poll(&mut sleep(HOUR)).is_pending());
                panic!("dropped on purpose");
            }));
            assert!(poll_with(&mut nap, &bad).is_ready());
            drop(bad);
            let (woken, waker) = Wakes::new();
            assert!(panicked_with(|| poll_with(&mut nap, &waker)).is_err());
            assert!(poll_with(&mut nap, &waker).is_ready());
            nap.reset_at(Instant::now() + ms(1));
            sleep(ms(2)).await;
            assert_eq!((woken.count(), poll(&mut nap)), (1, Poll::Ready(())));
        }
    });
}
