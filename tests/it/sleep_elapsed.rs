//! What a sleep shows before it is polled again: `is_elapsed`, and its `Debug` output.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::common::{HOUR, ms, must_end, on_wake, paused, poll, poll_with, settle};
use hairspring::{Instant, Sleep, Timer, sleep};

/// A bug that this crate had: after firing, `is_elapsed` was false until the next poll: it returned what the last poll
/// had found.
#[tokio::test(start_paused = true)]
async fn it_has_elapsed_once_it_has_fired_polled_or_not() {
    let mut sleep = sleep(ms(10));
    assert!(poll(&mut sleep).is_pending());
    tokio::time::advance(ms(9)).await;
    settle().await;
    assert!(!sleep.is_elapsed());
    tokio::time::advance(ms(1)).await;
    settle().await;
    assert!(sleep.is_elapsed(), "it was woken, and not polled");
    assert!(format!("{sleep:?}").contains("elapsed"), "{sleep:?}");
    (&mut sleep).await;
    assert!(sleep.is_elapsed());
    sleep.reset_at(Instant::now() + ms(10));
    assert!(!sleep.is_elapsed());
    assert!(poll(&mut sleep).is_pending());
    tokio::time::advance(ms(20)).await;
    settle().await;
    assert!(sleep.is_elapsed());
    sleep.reset_at(Instant::now() + ms(10));
    assert!(!sleep.is_elapsed(), "it fired, and was then reset");
}

/// As in tokio: nothing is registered for it, so it does not fire before it is polled.
#[tokio::test(start_paused = true)]
async fn one_that_was_never_polled_has_not_elapsed_whatever_the_time() {
    let mut sleep = sleep(ms(10));
    tokio::time::advance(ms(20)).await;
    settle().await;
    assert!(!sleep.is_elapsed());
    (&mut sleep).await;
    assert!(sleep.is_elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_fallible_one_says_the_same() {
    let mut sleep = Timer::current().try_sleep(ms(10));
    assert!(poll(&mut sleep).is_pending() && !sleep.is_elapsed());
    tokio::time::advance(ms(10)).await;
    settle().await;
    assert!(sleep.is_elapsed());
}

/// More sleeps with the same deadline than the driver takes out at a time.
#[test]
fn each_of_a_crowd_has_elapsed_as_it_is_woken_and_none_before() {
    const COUNT: usize = 300;
    must_end(|| {
        paused().block_on(async {
            let deadline = Instant::now() + ms(10);
            let crowd: Arc<Mutex<Vec<Sleep>>> = Arc::default();
            let elapsed = Arc::new(AtomicUsize::new(0));
            for number in 0..COUNT {
                let (others, elapsed) = (Arc::downgrade(&crowd), Arc::clone(&elapsed));
                let waker = on_wake(move || {
                    let crowd = others.upgrade().expect("it is there till the end");
                    let crowd = crowd.lock().unwrap();
                    elapsed.fetch_add(usize::from(crowd[number].is_elapsed()), SeqCst);
                    assert!(!crowd[COUNT].is_elapsed(), "this one is due later");
                });
                let mut sleep = hairspring::sleep_until(deadline);
                assert!(poll_with(&mut sleep, &waker).is_pending());
                crowd.lock().unwrap().push(sleep);
            }
            let mut later = sleep(ms(11));
            assert!(poll(&mut later).is_pending());
            crowd.lock().unwrap().push(later);
            tokio::time::advance(ms(10)).await;
            settle().await;
            assert_eq!(elapsed.load(SeqCst), COUNT);
        });
    });
}

/// A sleep whose timer has ended learns that at its next poll. Until then `is_elapsed` says whether that poll is ready.
#[test]
fn one_whose_timer_has_gone_has_elapsed_where_its_deadline_has_passed() {
    must_end(|| {
        paused().block_on(async {
            let timer = Timer::builder().build().unwrap();
            let (mut fired, mut lost) = (timer.sleep(ms(10)), timer.sleep(ms(20)));
            assert!(poll(&mut fired).is_pending() && poll(&mut lost).is_pending());
            tokio::time::advance(ms(10)).await;
            settle().await;
            assert_eq!(timer.shutdown(), 1);
            for others in 0..3 {
                assert!(fired.is_elapsed(), "it had fired before, with {others} timers since");
                assert!(!lost.is_elapsed(), "it was shut down, with {others} timers since");
                // It may take over what that timer had.
                let other = Timer::builder().build().unwrap();
                assert!(poll(&mut other.sleep(HOUR)).is_pending());
            }
            tokio::time::advance(ms(10)).await;
            assert!(lost.is_elapsed() && poll(&mut lost).is_ready());
        });
    });
}

/// The alarm thread fires it in place of a late driver.
#[test]
fn one_on_a_runtime_that_nobody_drives_has_elapsed_once_it_was_woken() {
    use crate::common::{Wakes, current_thread, inside};

    must_end(|| {
        // Long enough for a slow machine to begin to wait.
        let soon = ms(300);
        let runtime = current_thread();
        let (woken, waker) = Wakes::new();
        let mut far = inside(&runtime, || sleep(HOUR));
        let mut near = inside(&runtime, || sleep(soon));
        inside(&runtime, || assert!(poll(&mut far).is_pending() && poll_with(&mut near, &waker).is_pending()));
        woken.wait();
        assert!(near.is_elapsed() && !far.is_elapsed());
        // Those that come later, too.
        let (woken, waker) = Wakes::new();
        near.reset_at(Instant::now() + soon);
        assert!(!near.is_elapsed());
        inside(&runtime, || assert!(poll_with(&mut near, &waker).is_pending()));
        woken.wait();
        assert!(near.is_elapsed() && !far.is_elapsed());
    });
}
