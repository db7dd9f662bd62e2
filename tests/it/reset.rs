//! Resets and drops at every point in a sleep's life. The fuzzer's target `timer` compares random ones with a model
//! (tokio 849, 868).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::common::{
    HOUR, Random, Wakes, both_flavours, inside, ms, multi_thread, must_end, on_wake, poll, poll_with, settle,
};
use hairspring::{Instant, Timer, boot, sleep, wall};

/// tokio 2290: a reset into the past did not wake the task. go 47329, 47762: a reset to an earlier deadline was ignored.
/// Here another thread resets while the runtime sleeps.
#[test]
fn a_reset_wakes_without_another_poll() {
    for ahead in [None, Some(ms(1))] {
        for runtime in both_flavours() {
            must_end(move || {
                let (woken, waker) = Wakes::new();
                let mut waiting = sleep(HOUR);
                inside(&runtime, || assert!(poll_with(&mut waiting, &waker).is_pending()));
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
                let (woken, waker) = Wakes::new();
                let mut sleep = sleep(HOUR);
                inside(&home, || assert!(poll_with(&mut sleep, &waker).is_pending()));
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

#[derive(Debug, Clone, Copy)]
enum Step {
    Poll,
    ResetToPast,
    ResetAhead,
    /// The deadline passes.
    Pass,
    /// The timer of the fallible sleep is shut down.
    End,
}

use Step::{End, Pass, Poll as PollOnce, ResetAhead, ResetToPast};

/// A bug that this crate had: after a reset into the past, `is_elapsed` was false until a poll, or for ever.
#[tokio::test(start_paused = true)]
async fn a_sleep_has_elapsed_at_its_deadline_once_it_was_polled_or_reset() {
    const STEPS: [Step; 5] = [PollOnce, ResetToPast, ResetAhead, Pass, End];
    macro_rules! take {
        ($step:expr, $sleep:expr, $now:expr, $reset:expr) => {
            match $step {
                PollOnce => _ = poll(&mut $sleep),
                ResetToPast => $reset($now - ms(5)),
                ResetAhead => $reset($now + ms(10)),
                Pass | End => {}
            }
        };
    }
    for order in 0..5 * 5 * 5 * 5 * 2 {
        let steps = [order, order / 5, order / 25, order / 125].map(|which| STEPS[which % 5]);
        let created = if order < 625 { ms(10) } else { ms(0) };
        let timer = Timer::builder().build().unwrap();
        let mut theirs = Box::pin(tokio::time::sleep(created));
        let mut plain = sleep(created);
        let mut fallible = timer.try_sleep(created);
        let (mut boot, mut wall) = (boot::sleep(created), wall::sleep_until(wall::now() + created));
        let (mut deadline, mut has_begun) = (Instant::now() + created, false);
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                PollOnce => {}
                ResetToPast => deadline = Instant::now() - ms(5),
                ResetAhead => deadline = Instant::now() + ms(10),
                Pass => tokio::time::advance(ms(20)).await,
                End => _ = timer.shutdown(),
            }
            take!(step, theirs, tokio::time::Instant::now(), |to| theirs.as_mut().reset(to));
            take!(step, plain, Instant::now(), |to| plain.reset_at(to));
            take!(step, fallible, Instant::now(), |to| fallible.reset_at(to));
            take!(step, boot, boot::Instant::now(), |to| boot.reset_at(to));
            take!(step, wall, wall::now(), |to| wall.reset_at(to));
            settle().await;
            has_begun |= matches!(step, PollOnce | ResetToPast | ResetAhead);
            let expected = has_begun && deadline <= Instant::now();
            let ours = [plain.is_elapsed(), fallible.is_elapsed(), boot.is_elapsed(), wall.is_elapsed()];
            assert_eq!(ours, [expected; 4], "{:?}, created for {created:?}", &steps[..=n]);
            assert_eq!(theirs.is_elapsed(), expected, "tokio's, {:?}, created for {created:?}", &steps[..=n]);
        }
    }
}

/// tokio 3229: a panic when a sleep was dropped in the millisecond in which it was due. go 37196: a cancelled timer
/// fired anyway. Here sleeps are reset and dropped within microseconds of firing.
#[test]
fn a_sleep_cancelled_as_it_fires_wakes_once_at_most() {
    must_end(|| {
        let runtime = multi_thread(2);
        let _guard = runtime.enter();
        let mut random = Random::new(3229);
        let late = Arc::new(AtomicUsize::new(0));
        for round in 0..400 {
            let sleeps = (0..20).map(|_| {
                let (woken, waker) = Wakes::new();
                let mut sleep = sleep(random.duration(ms(1)));
                let _ = poll_with(&mut sleep, &waker);
                (sleep, woken)
            });
            let sleeps: Vec<_> = sleeps.collect();
            std::thread::sleep(random.duration(ms(1)));
            for (mut sleep, woken) in sleeps {
                if round % 2 == 0 {
                    sleep.reset_at(Instant::now() + HOUR);
                    let late = late.clone();
                    let waker = on_wake(move || _ = late.fetch_add(1, SeqCst));
                    assert!(poll_with(&mut sleep, &waker).is_pending(), "it fired after the reset");
                }
                drop(sleep);
                assert!(woken.count() <= 1);
            }
        }
        assert_eq!(late.load(SeqCst), 0, "a waker was woken after its sleep was dropped");
    });
}
