//! Bugs of this crate, each found by a failing test.

use crate::common::{HOUR, HUNG, Wakes, current_thread, ms, multi_thread, must_end, poll, poll_with};
use hairspring::{Duration, Sleep, interval, sleep, timeout};

fn block_on<F: Future>(future: F) -> F::Output {
    futures::executor::block_on(future)
}

fn pending() -> std::future::Pending<()> {
    std::future::pending()
}

/// A sleep of `after` that is waiting on `runtime`.
fn waiting_on(runtime: &tokio::runtime::Runtime, after: Duration) -> Sleep {
    crate::common::inside(runtime, || {
        let mut sleep = sleep(after);
        assert!(poll(&mut sleep).is_pending());
        sleep
    })
}

/// tokio's sleeps do this too: they hold on to the runtime that they were created on.
#[test]
fn made_in_a_task_it_runs_where_there_is_no_runtime() {
    must_end(|| {
        let runtime = multi_thread(1);
        let made =
            runtime.block_on(runtime.spawn(async { (sleep(ms(2)), timeout(ms(2), pending()), interval(ms(2))) }));
        let (nap, limited, mut ticks) = made.unwrap();
        block_on(nap);
        assert!(block_on(limited).is_err());
        block_on(ticks.tick());
        block_on(ticks.tick());
    });
}

/// The memory of one runtime's timer serves the next. The next one's clock completed a sleep that the first left behind.
#[test]
fn a_sleep_left_behind_is_not_early_where_the_next_runtime_is_ahead_of_time() {
    must_end(|| {
        // Several, because the runtimes of other tests reuse memory at the same time.
        let homes: Vec<_> = (0..8).map(|_| current_thread()).collect();
        let mut left_behind: Vec<_> = homes.iter().map(|home| waiting_on(home, HOUR)).collect();
        drop(homes);
        let ahead: Vec<_> = (0..24).map(|_| crate::common::paused()).collect();
        for runtime in &ahead {
            runtime.block_on(sleep(2 * HOUR));
        }
        current_thread().block_on(async {
            for sleep in &mut left_behind {
                assert!(poll(sleep).is_pending(), "an hour early");
            }
        });
    });
}

/// If a driver waits on the alarm thread, nothing tells it that a clock was paused: its timers did not fire.
#[cfg(feature = "test-util")]
#[test]
fn a_clock_paused_in_mid_run_drives_timers_that_were_registered_before() {
    must_end(|| {
        current_thread().block_on(async {
            let task = tokio::spawn(sleep(HOUR));
            sleep(ms(1)).await;
            tokio::time::pause();
            tokio::time::sleep(2 * HOUR).await;
            crate::common::settle().await;
            assert!(task.is_finished(), "an hour late");
        });
    });
}

/// As above, but this hung until the system's clock reached the hour.
#[cfg(feature = "test-util")]
#[test]
fn a_clock_paused_in_mid_run_drives_timers_that_are_registered_after() {
    must_end(|| {
        current_thread().block_on(async {
            let _task = tokio::spawn(sleep(HOUR));
            sleep(ms(1)).await;
            tokio::time::pause();
            sleep(2 * HOUR).await;
        });
    });
}

/// As above with `advance`: the first poll of a sleep whose deadline had passed was pending.
#[cfg(feature = "test-util")]
#[test]
fn a_clock_paused_and_advanced_in_mid_run_makes_a_sleep_ready() {
    current_thread().block_on(async {
        let _task = tokio::spawn(sleep(HOUR));
        sleep(ms(1)).await;
        let mut nap = sleep(10 * HOUR);
        tokio::time::pause();
        tokio::time::advance(20 * HOUR).await;
        assert!(poll(&mut nap).is_ready(), "ten hours late");
    });
}

/// If tokio had moved a paused clock further than requested, two deadlines a millisecond apart fired at once. A timeout
/// then ended although its answer had come a millisecond earlier.
#[tokio::test(start_paused = true)]
async fn deadlines_a_millisecond_apart_fire_one_after_the_other_on_a_paused_clock() {
    for ours in [false, true] {
        tokio::time::advance(Duration::from_nanos(123_456)).await;
        let (sender, received) = tokio::sync::oneshot::channel();
        if ours {
            tokio::spawn(async move {
                sleep(ms(30)).await;
                let _ = sender.send(());
            });
            assert!(timeout(ms(31), received).await.is_ok(), "hairspring");
        } else {
            tokio::spawn(async move {
                tokio::time::sleep(ms(30)).await;
                let _ = sender.send(());
            });
            assert!(tokio::time::timeout(ms(31), received).await.is_ok(), "tokio");
        }
    }
}

/// A task of a `LocalSet` was treated as one that its runtime is about to drop, and polled itself until the deadline.
#[test]
fn a_local_task_on_a_runtime_that_was_shut_down_panics() {
    let runtime = current_thread();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    must_end(move || {
        let local = tokio::task::LocalSet::new();
        let task = local.spawn_local(sleep(HOUR));
        handle.block_on(local.run_until(async { assert!(task.await.is_err()) }));
    });
}

/// The alarm thread took a booking out, the driver ended a turn with nothing left to wait for, and only then did the
/// thread call.
#[test]
fn an_alarm_that_goes_off_as_the_driver_goes_to_sleep_for_good_does_no_harm() {
    must_end(|| {
        let runtime = multi_thread(1);
        let timer = runtime.block_on(async { hairspring::Timer::current() });
        let mut random = crate::common::Random::new(6682);
        for _ in crate::common::rounds(20_000) {
            let (woken, waker) = Wakes::new();
            let mut nap = timer.sleep(random.duration(ms(1) / 100));
            if poll_with(&mut nap, &waker).is_pending() {
                let start = std::time::Instant::now();
                while woken.count() == 0 {
                    std::thread::yield_now();
                    assert!(start.elapsed() < HUNG / 2, "a lost wake-up");
                }
            }
            for _ in 0..random.below(300) {
                std::hint::spin_loop();
            }
        }
    });
}

/// It stayed in memory that the next timer uses, and with it the task, its runtime and its files.
#[test]
fn the_waker_of_a_driver_that_has_completed_is_dropped() {
    let (woken, waker) = Wakes::new();
    let (timer, mut driver) = hairspring::Timer::builder().build_with_driver().unwrap();
    assert!(poll_with(&mut driver, &waker).is_pending());
    timer.shutdown();
    assert!(poll_with(&mut driver, &waker).is_ready());
    drop((waker, driver, timer));
    // The alarm thread may hold one for a moment.
    must_end(move || while std::sync::Arc::strong_count(&woken) > 1 {});
}

/// The turn had begun, and nobody ended it.
#[test]
fn a_waker_that_panics_as_the_driver_drops_it_does_not_stop_the_timer() {
    struct Bomb;
    impl std::task::Wake for Bomb {
        fn wake(self: std::sync::Arc<Self>) {}
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "on purpose");
        }
    }
    must_end(|| {
        let (timer, mut driver) = hairspring::Timer::builder().build_with_driver().unwrap();
        assert!(poll_with(&mut driver, &std::task::Waker::from(std::sync::Arc::new(Bomb))).is_pending());
        assert!(poll(&mut driver).is_pending());
        let (woken, waker) = Wakes::new();
        let mut sleep = timer.sleep(ms(5));
        assert!(poll_with(&mut sleep, &waker).is_pending());
        while woken.count() == 0 {
            assert!(poll(&mut driver).is_pending());
        }
    });
}

/// A helper thread was turning when the driver came, and the driver did not watch for the pause.
#[cfg(feature = "test-util")]
#[test]
fn a_pause_after_the_turn_of_a_helper_thread_is_noticed() {
    must_end(|| {
        current_thread().block_on(async {
            let (entered, is_in) = std::sync::mpsc::channel();
            let (go, gone) = std::sync::mpsc::channel::<()>();
            let (entered, gone) = (std::sync::Mutex::new(entered), std::sync::Mutex::new(gone));
            let gate = crate::common::on_wake(move || {
                let _ = entered.lock().unwrap().send(());
                let _ = gone.lock().unwrap().recv();
            });
            let mut gated = sleep(ms(2));
            assert!(poll_with(&mut gated, &gate).is_pending());
            let hour = tokio::spawn(sleep(HOUR));
            tokio::task::yield_now().await;
            is_in.recv().unwrap();
            for _ in 0..500 {
                tokio::task::yield_now().await;
            }
            drop(go);
            std::thread::sleep(ms(20));
            tokio::time::pause();
            hour.await.unwrap();
        });
    });
}
