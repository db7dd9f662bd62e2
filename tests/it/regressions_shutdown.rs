//! Bugs of this crate that occurred when timers ended and others reused their memory, each found by a failing test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::common::{HOUR, current_thread, inside, ms, multi_thread, must_end, poll};
use hairspring::{Instant, Timer, sleep};

/// The next timer got the memory of the previous one, which was still shutting down.
#[test]
fn a_shutdown_does_not_touch_the_timers_of_others() {
    must_end(|| {
        let runtime = multi_thread(2);
        let over = Arc::new(AtomicBool::new(false));
        let (done, others) = (over.clone(), runtime.handle().clone());
        let other = std::thread::spawn(move || {
            let _entered = others.enter();
            while !done.load(SeqCst) {
                let timer = Timer::builder().shards(3).build().unwrap();
                others.block_on(timer.sleep(Duration::from_micros(300)));
                timer.shutdown();
            }
        });
        let _entered = runtime.enter();
        for _ in 0..20 {
            let timer = Timer::builder().shards(3).build().unwrap();
            let mut sleeps: Vec<_> = (0..5_000).map(|_| timer.sleep(HOUR)).collect();
            assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
            assert_eq!(timer.shutdown(), 5_000);
        }
        over.store(true, SeqCst);
        other.join().unwrap();
    });
}

/// A shutdown between the driver's look and its sleep went unnoticed.
#[test]
fn a_driver_ends_whenever_it_is_shut_down() {
    must_end(|| {
        multi_thread(2).block_on(async {
            for spin in crate::common::rounds(5_000) {
                let (timer, driver) = Timer::builder().shards(1).build_with_driver().unwrap();
                let driver = tokio::spawn(driver);
                for _ in 0..spin % 200 {
                    std::hint::spin_loop();
                }
                timer.shutdown();
                driver.await.unwrap();
            }
        });
    });
}

/// The alarm thread did not send a helper thread for a driver that sets an alarm of its own.
#[cfg(target_os = "linux")]
#[test]
fn a_timer_with_a_timerfd_fires_though_its_runtime_is_blocked() {
    must_end(|| {
        current_thread().block_on(async {
            let timer = Timer::builder().alarm(hairspring::timer::Alarm::Timerfd).build().unwrap();
            timer.sleep(ms(5)).await;
            tokio::time::sleep(ms(5)).await;
            let elsewhere = std::thread::spawn(move || futures::executor::block_on(timer.sleep(ms(20))));
            // Blocks the runtime that is to turn the timer.
            elsewhere.join().unwrap();
        });
    });
}

/// What the runtime's clock had reached fired on a manual clock that had not reached it.
#[cfg(feature = "test-util")]
#[test]
fn an_installed_timer_on_a_manual_clock_goes_by_that_clock_only() {
    crate::common::paused().block_on(async {
        let clock = hairspring::test_util::ManualClock::new();
        let timer = Timer::builder().clock(&clock).install().unwrap();
        let mut nap = timer.sleep(HOUR);
        assert!(poll(&mut nap).is_pending());
        hairspring::advance(2 * HOUR).await;
        assert!(poll(&mut nap).is_pending(), "an hour early on its clock");
        clock.advance(HOUR);
        assert!(poll(&mut nap).is_ready());
    });
}

/// The process's own timer got the memory of a timer that had ended. A sleep that had waited there took that for its own
/// timer, was refused, and panicked.
#[test]
fn sleeps_that_outlive_their_runtimes_fire_outside_of_any() {
    must_end(|| {
        let shards = std::thread::available_parallelism().unwrap().get(); // As many as the process's own timer has.
        let runtimes: Vec<_> = (0..20).map(|_| current_thread()).collect();
        let wait = |runtime| {
            inside(runtime, || {
                Timer::builder().shards(shards).install().unwrap();
                let mut nap = sleep(HOUR);
                assert!(poll(&mut nap).is_pending());
                nap
            })
        };
        let naps: Vec<_> = runtimes.iter().map(wait).collect();
        drop(runtimes);
        for mut nap in naps {
            nap.reset_at(Instant::now() + ms(1));
            futures::executor::block_on(nap);
        }
    });
}

/// Timers of ever different sizes left their memory behind.
#[test]
fn timers_of_all_sizes_share_their_memory() {
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
        pages.split(' ').nth(1)?.parse::<u64>().ok()
    };
    let before = resident();
    for shards in 1..300 {
        drop(Timer::builder().shards(shards).build_with_driver().unwrap());
    }
    if let (Some(before), Some(after)) = (before, resident()) {
        // A page is 4 KiB; one timer of each size would be 500 MB, and 1024 shards are 12 MB.
        let more = after.saturating_sub(before);
        assert!(more < 25_000, "{} KiB more", more * 4);
    }
}
