//! Resets by another thread, and in another runtime. The fuzzer's target `timer` compares random resets and drops with a
//! model (tokio 849, 868), and `test_time::like_tokio` with tokio's.

use std::task::Poll;

use crate::common::{
    HOUR, both_flavours, current_thread, inside, ms, multi_thread, must_end, must_end_on, poll, watched,
};
use hairspring::timer::Alarm;
use hairspring::{Instant, Timer, sleep};

/// tokio 2290: a reset into the past did not wake the task. go 47329, 47762: a reset to an earlier deadline was ignored.
/// Here another thread resets while the runtime sleeps.
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
