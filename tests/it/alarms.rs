//! Runs the same tests on each alarm, and tests the other settings of a builder.

use std::time::Duration;

use crate::common::{HOUR, current_thread, ms, multi_thread, must_end};
use futures::future::{join_all, pending};
use hairspring::timer::{Alarm, BuildError};
use hairspring::{Instant, Timer};
use tokio::sync::oneshot;

/// Every alarm that this system supports.
fn alarms() -> Vec<Alarm> {
    let mut alarms = vec![Alarm::Thread, Alarm::Tokio];
    if cfg!(target_os = "linux") {
        alarms.push(Alarm::Timerfd);
    }
    alarms
}

/// Runs a test on each alarm, on a runtime of each flavour.
fn each<F: Future<Output = ()>>(test: impl Fn(Timer) -> F + Send + Clone + 'static) {
    for alarm in alarms() {
        for runtime in [current_thread(), multi_thread(2)] {
            println!("{alarm:?}");
            let test = test.clone();
            must_end(move || runtime.block_on(async { test(Timer::builder().alarm(alarm).build().unwrap()).await }));
        }
    }
}

#[test]
fn sleeps_of_all_lengths_end_and_never_early() {
    each(|timer| async move {
        let sleeps = (0..200u64).map(|n| {
            let deadline = Instant::now() + Duration::from_nanos(n * n * 301);
            let sleep = timer.sleep_until(deadline);
            async move {
                sleep.await;
                assert!(Instant::now() >= deadline);
            }
        });
        join_all(sleeps).await;
    });
}

#[test]
fn an_earlier_timer_is_not_held_back_by_a_later_one() {
    each(|timer| async move {
        let late = tokio::spawn(timer.sleep(Duration::from_secs(3_600)));
        tokio::task::yield_now().await;
        for _ in 0..20 {
            timer.sleep(ms(1)).await;
        }
        late.abort();
    });
}

#[test]
fn a_reset_to_sooner_is_followed() {
    each(|timer| async move {
        let mut sleep = timer.sleep(Duration::from_secs(3_600));
        assert!(futures::poll!(&mut sleep).is_pending());
        sleep.reset_at(Instant::now() + ms(2));
        sleep.await;
    });
}

/// The driver coalesces dense timers and leaves none behind.
#[test]
fn a_crowd_is_fired_together_and_all_of_it() {
    each(|timer| async move {
        let is_gathered = async || {
            let before = timer.metrics();
            let crowd = (0..400_u64).map(|n| {
                let timer = timer.clone();
                tokio::spawn(async move {
                    for round in 0..20 {
                        timer.sleep(Duration::from_micros(1_000 + (n * 7 + round * 131) % 2_000)).await;
                    }
                })
            });
            for task in crowd.collect::<Vec<_>>() {
                task.await.unwrap();
            }
            let after = timer.metrics();
            (after.turns() - before.turns()) * 20 < after.registered() - before.registered()
        };
        // Once more if the driver comes so late that the alarm thread, which does not wait, fires in its place.
        for _ in 0..20 {
            if is_gathered().await {
                return;
            }
        }
        panic!("hardly any were fired together: {:?}", timer.metrics());
    });
}

#[test]
fn timers_registered_from_another_thread_fire() {
    each(|timer| async move {
        let elsewhere = std::thread::spawn(move || futures::executor::block_on(timer.sleep(ms(3))));
        while !elsewhere.is_finished() {
            tokio::task::yield_now().await;
        }
        elsewhere.join().unwrap();
    });
}

#[test]
fn every_alarm_follows_a_clock_that_is_paused() {
    for alarm in alarms() {
        current_thread().block_on(async {
            tokio::time::pause();
            let timer = Timer::builder().alarm(alarm).build().unwrap();
            let start = Instant::now();
            timer.sleep(Duration::from_secs(86_400)).await;
            // Tokio moves its clock on by whole milliseconds.
            let beyond = start.elapsed().checked_sub(Duration::from_secs(86_400)).expect("never early");
            assert!(beyond <= ms(1), "{alarm:?}: {beyond:?} too late");
        });
    }
}

/// A timer with a `timerfd` did not notice the pause: its sleeps took real time.
#[cfg(feature = "test-util")]
#[test]
fn every_alarm_follows_a_clock_that_is_paused_in_mid_run() {
    for alarm in alarms() {
        must_end(move || {
            current_thread().block_on(async {
                let timer = Timer::builder().alarm(alarm).build().unwrap();
                let nap = tokio::spawn(timer.sleep(HOUR));
                hairspring::sleep(ms(1)).await;
                tokio::time::pause();
                nap.await.unwrap();
            });
        });
    }
}

#[test]
fn an_alarm_that_the_runtime_lacks_something_for_is_refused_by_name() {
    let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
    bare.block_on(async {
        for (alarm, lacks) in [(Alarm::Timerfd, "enable_io"), (Alarm::Tokio, "enable_time")] {
            let error = Timer::builder().alarm(alarm).build().unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("{alarm:?}")) && text.contains(lacks), "{text}");
            let BuildError::Alarm { alarm: refused, kind, .. } = error else { panic!("{error:?}") };
            assert_eq!((refused, kind), (alarm, std::io::ErrorKind::Unsupported));
        }
        Timer::builder().alarm(Alarm::Thread).build().unwrap().sleep(ms(1)).await;
    });
}

/// If the builder could not know that the alarm does not work, the driver uses the alarm thread, and nothing hangs.
#[test]
fn a_driver_spawned_where_its_alarm_does_not_work_makes_do() {
    for alarm in alarms() {
        let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
        bare.block_on(async {
            let (timer, driver) = Timer::builder().alarm(alarm).build_with_driver().unwrap();
            tokio::spawn(driver);
            timer.sleep(ms(2)).await;
        });
    }
}

#[test]
fn settings_out_of_range_are_refused_with_the_value_and_the_range() {
    let refused = |builder: hairspring::timer::Builder| {
        let error = builder.build_with_driver().unwrap_err();
        let text = error.to_string();
        let BuildError::OutOfRange { setting, given, allowed, .. } = error else { panic!("{error:?}") };
        assert_eq!(text, format!("{setting} is {given}: {allowed}"));
        text
    };
    for shards in [0, 1_025, usize::MAX] {
        let error = refused(Timer::builder().shards(shards));
        assert_eq!(error, format!("shards is {shards}: must be from 1 to 1024"));
    }
    for resolution in [Duration::ZERO, Duration::from_nanos(999), Duration::from_nanos(1_000_000_001), Duration::MAX] {
        let error = refused(Timer::builder().resolution(resolution));
        assert_eq!(error, format!("resolution is {resolution:?}: must be from 1µs to 1s"));
    }
    for longest in [Duration::from_nanos(1_000_000_001), Duration::MAX] {
        let error = refused(Timer::builder().coalesce(longest));
        assert_eq!(error, format!("coalesce is {longest:?}: must be at most 1s"));
    }
    let error = refused(Timer::builder().capacity(0));
    assert_eq!(error, "capacity is 0: must be at least 1");
    let error = Timer::builder().build().unwrap_err();
    assert_eq!(error, BuildError::NoRuntime);
    assert!(error.to_string().contains("no tokio runtime"));
}

/// pingora-timeout: timers fire up to 0.9 ms early.
#[test]
fn whatever_the_resolution_nothing_is_early() {
    for resolution in [1, 10, 700, 1_000, 30_000].map(Duration::from_micros) {
        multi_thread(2).block_on(async {
            let timer = Timer::builder().resolution(resolution).shards(3).build().unwrap();
            let sleeps = (0..300u64).map(|n| {
                let deadline = Instant::now() + Duration::from_nanos(n * 31_337);
                let sleep = timer.sleep_until(deadline);
                tokio::spawn(async move {
                    sleep.await;
                    assert!(Instant::now() >= deadline);
                })
            });
            for sleep in sleeps.collect::<Vec<_>>() {
                sleep.await.unwrap();
            }
        });
    }
}

/// A coarse resolution fires together all timers that are due between two of its multiples.
#[test]
fn a_coarse_resolution_costs_few_turns() {
    current_thread().block_on(async {
        let timer = Timer::builder().resolution(Duration::from_secs(1)).build().unwrap();
        let sleeps = (0..1_000u64).map(|n| timer.sleep(Duration::from_micros(n * 100)));
        join_all(sleeps).await;
        let turns = timer.metrics().turns();
        assert!(turns < 100, "{turns} turns for 1000 timers within 0.1 s");
    });
}

#[test]
fn an_installed_timer_takes_the_runtimes_sleeps_from_then_on() {
    for runtime in [current_thread(), multi_thread(2)] {
        runtime.block_on(async {
            let before = Timer::current();
            let (polled, is_polled) = oneshot::channel();
            let (go_on, goes_on) = oneshot::channel();
            let task = tokio::spawn(async move {
                let mut standing = hairspring::sleep(HOUR);
                assert!(futures::poll!(&mut standing).is_pending());
                polled.send(()).unwrap();
                goes_on.await.unwrap();
                // In this task, too, whose thread has slept on the old one.
                for _ in 0..5 {
                    assert!(futures::poll!(hairspring::sleep(HOUR)).is_pending());
                }
                standing.reset_at(Instant::now() + ms(1));
                standing.await;
            });
            is_polled.await.unwrap();
            let installed = Timer::builder().shards(2).install().unwrap();
            assert_eq!(Timer::current(), installed);
            assert_ne!(before, installed);
            go_on.send(()).unwrap();
            task.await.unwrap();
            assert_eq!((before.metrics().registered(), installed.metrics().registered()), (1, 5));
        });
    }
}

#[test]
fn a_timer_that_was_shut_down_says_so_and_its_driver_ends() {
    current_thread().block_on(async {
        let (timer, driver) = Timer::builder().build_with_driver().unwrap();
        let driver = tokio::spawn(driver);
        let waits = tokio::spawn(timer.timeout(Duration::from_secs(3_600), pending::<()>()));
        tokio::task::yield_now().await;
        assert_eq!((timer.shutdown(), timer.shutdown()), (1, 0));
        let metrics = timer.metrics();
        assert_eq!((metrics.registered(), metrics.cancelled(), metrics.pending()), (1, 1, 0));
        driver.await.unwrap();
        assert!(waits.await.unwrap_err().is_panic(), "nothing completes early, nothing hangs");
    });
}

/// Registering takes a few turns, but not one per level or per tick.
#[test]
fn a_far_timer_costs_no_turns_while_it_waits() {
    multi_thread(2).block_on(async {
        let timer = Timer::builder().build().unwrap();
        let far = tokio::spawn(timer.sleep(Duration::from_secs(36_000)));
        tokio::time::sleep(ms(300)).await;
        let turns = timer.metrics().turns();
        assert!(turns <= 6, "{turns} turns for one timer ten hours away");
        far.abort();
    });
}

#[test]
fn registering_ever_earlier_timers_does_not_turn_the_wheels_for_each() {
    multi_thread(1).block_on(async {
        let timer = Timer::builder().build().unwrap();
        tokio::task::yield_now().await;
        let mut sleeps: Vec<_> = (0..1_000).map(|n| timer.sleep(Duration::from_secs(10_000 - n))).collect();
        for sleep in &mut sleeps {
            assert!(futures::poll!(sleep).is_pending());
            tokio::task::yield_now().await;
        }
        let turns = timer.metrics().turns();
        // More than three if the alarm thread, which takes the driver to be late, joins in.
        assert!(turns < 100, "{turns} turns, though nothing was due");
    });
}

/// A turn costs time on two threads, so timers that are dense share turns: one each millisecond, and a few at once.
#[test]
fn dense_timers_share_turns() {
    multi_thread(2).block_on(async {
        let timer = Timer::builder().build().unwrap();
        let start = std::time::Instant::now();
        let mut random = crate::common::Random::new(3);
        let sleeps: Vec<_> = (0..5_000).map(|_| timer.sleep(random.duration(ms(100)))).collect();
        join_all(sleeps).await;
        let allowed = start.elapsed().as_micros() / 950 + 50;
        let turns = timer.metrics().turns();
        assert!(u128::from(turns) <= allowed, "{turns} turns, of {allowed}");
    });
}
