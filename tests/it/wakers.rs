//! Which waker is woken, how often, and when it is dropped. Also wakers that panic, block, or call the timer.

use std::sync::Arc;
use std::task::Waker;

use crate::common::{
    HOUR, OnDrop, Wakes, blocking, both_flavours, current_thread, holding, inside, ms, multi_thread, must_end, on_wake,
    panicked_with, pass, paused, poll, poll_with, polled_with, until, watched,
};
use futures::executor::block_on;
use hairspring::{Instant, Sleep, Timer, sleep, sleep_until};
use tokio::runtime::{Handle, Runtime};

#[test]
fn the_last_waker_given_is_woken_exactly_once() {
    async fn test() {
        let [(first, first_waker), (second, second_waker), (last, last_waker)] = [(); 3].map(|()| Wakes::new());
        let mut waiting = sleep(HOUR);
        for waker in [&first_waker, &second_waker, &first_waker, &last_waker, &last_waker] {
            assert!(poll_with(&mut waiting, waker).is_pending());
        }
        waiting.reset_at(Instant::now() + ms(5));
        while last.count() == 0 {
            sleep(ms(1)).await;
        }
        assert!(poll_with(&mut waiting, &first_waker).is_ready());
        sleep(ms(5)).await;
        assert_eq!([first.count(), second.count(), last.count()], [0, 0, 1]);
    }
    for runtime in both_flavours().into_iter().chain([paused()]) {
        must_end(move || runtime.block_on(test()));
    }
    must_end(|| block_on(test()));
}

/// netty 2541, STPE `removeOnCancel`, go 75935: a cancelled timer kept its payload until its deadline.
#[test]
fn a_waker_is_dropped_when_its_sleep_ends() {
    type End = fn(Runtime, Sleep) -> Option<(Option<Runtime>, Sleep)>;
    let ends: [(&str, End); 5] = [
        ("dropped", |_, _| None),
        ("polled with another waker", |runtime, mut sleep| {
            assert!(poll(&mut sleep).is_pending());
            Some((Some(runtime), sleep))
        }),
        ("fired", |runtime, sleep| {
            runtime.block_on(async {
                pass(2 * HOUR).await;
            });
            Some((Some(runtime), sleep))
        }),
        ("ready before the driver ran", |runtime, mut sleep| {
            let ready = || {
                sleep.reset_at(Instant::now());
                poll(&mut sleep).is_ready()
            };
            assert!(inside(&runtime, ready));
            Some((Some(runtime), sleep))
        }),
        ("its runtime ended", |_, sleep| Some((None, sleep))),
    ];
    for (name, end) in ends {
        let runtime = paused();
        let held = Arc::new(());
        let weak = Arc::downgrade(&held);
        let waiting = inside(&runtime, || polled_with(sleep(HOUR), &holding(held)));
        assert_eq!(weak.strong_count(), 1);
        let _left = end(runtime, waiting);
        assert_eq!(weak.strong_count(), 0, "{name}");
    }
}

/// agrona 164cc842, caffeine 3e66fe9de: one callback that panicked stranded the rest of its slot.
#[tokio::test(start_paused = true)]
async fn a_panicking_waker_stops_no_other() {
    const SLEEPS: usize = 150;
    let panics: [fn() -> Waker; 2] =
        [|| on_wake(|| panic!("on purpose")), || holding(OnDrop(|| panic!("dropped on purpose")))];
    for panics in panics {
        for bad in [0, 1, 63, 64, SLEEPS - 1] {
            let now = Instant::now();
            let (woken, good) = Wakes::new();
            let sleeps = (0..SLEEPS).map(|index| {
                let mut sleep = sleep_until(now + ms(5));
                let waker = if index == bad { panics() } else { good.clone() };
                assert!(poll_with(&mut sleep, &waker).is_pending());
                sleep
            });
            let sleeps: Vec<_> = sleeps.collect();
            pass(ms(5)).await;
            assert_eq!(woken.count(), SLEEPS - 1, "waker {bad} panicked");
            for sleep in sleeps {
                sleep.await;
            }
            sleep(ms(5)).await;
            assert_eq!(now.elapsed(), ms(10), "the driver still works");
        }
    }
}

/// A bug that this crate had: the sleep remained a user of its timer, which never ended.
#[test]
fn a_waker_whose_drop_panics_keeps_no_timer() {
    for runtime in both_flavours() {
        must_end(move || {
            let timer = inside(&runtime, || Timer::builder().build().unwrap());
            let bad = holding(OnDrop(|| panic!("dropped on purpose")));
            let nap = polled_with(timer.sleep(HOUR), &bad);
            drop((bad, timer));
            assert!(panicked_with(|| drop(nap)).is_err());
            runtime.block_on(until(|| Handle::current().metrics().num_alive_tasks() == 0));
        });
    }
}

/// Outside any runtime, the helper thread wakes it.
#[test]
fn a_blocking_waker_delays_no_runtime() {
    must_end(|| {
        let (starts, waker, unblock) = blocking();
        let mut nap = polled_with(sleep(HOUR), &waker);
        nap.reset_at(Instant::now() + ms(1));
        starts.recv().unwrap();
        assert!(poll(&mut nap).is_ready());
        for driven in [current_thread(), multi_thread(2)] {
            driven.block_on(sleep(ms(5)));
        }
        // Others outside come once it has ended.
        let (_late, woken) = watched(sleep(ms(1)));
        drop(unblock);
        woken.wait();
    });
}
