//! Each alarm on running and paused clocks, and the other settings of a builder.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use crate::common::{
    HOUR, bare, both_flavours, current_thread, inside, joined, ms, multi_thread, must_end_on, on_both_flavours,
    on_wake, poll, polled, polled_with, until,
};
#[cfg(feature = "test-util")]
use crate::common::{must_end, panic_message, panic_message_of};
use hairspring::timer::Alarm;
use hairspring::{DelayQueue, Duration, Instant, Timer, sleep};
use tokio::runtime::Runtime;

/// Every alarm that this system supports.
pub(crate) fn alarms() -> Vec<Alarm> {
    let mut alarms = vec![Alarm::Thread, Alarm::Tokio];
    if cfg!(target_os = "linux") {
        alarms.push(Alarm::Timerfd);
    }
    alarms
}

/// Each alarm with a runtime of each flavour.
pub(crate) fn alarms_and_runtimes() -> impl Iterator<Item = (Alarm, Runtime)> {
    alarms().into_iter().flat_map(|alarm| both_flavours().map(|runtime| (alarm, runtime)))
}

/// A bug that this crate had: with a `timerfd`, each turn reached only the deadline of the first entry that was left.
#[test]
fn a_backlog_of_a_queue_takes_few_turns() {
    for (alarm, runtime) in alarms_and_runtimes() {
        println!("{alarm:?}");
        must_end_on(runtime, async move || {
            let timer = Timer::builder().alarm(alarm).build().unwrap();
            timer.sleep(ms(1)).await;
            let mut queue = DelayQueue::with_timer(&timer);
            for entry in 0..10_000_u64 {
                queue.insert(entry, Duration::from_micros(2 * entry));
            }
            // All are due.
            thread::sleep(ms(30));
            let before = timer.metrics().turns();
            while queue.recv().await.is_some() {}
            let turns = timer.metrics().turns() - before;
            assert!(turns <= 20, "{turns} turns");
        });
    }
}

/// The driver coalesces dense timers and misses none.
#[test]
fn dense_timers_share_turns() {
    async fn share_turns(timer: Timer) {
        let is_coalesced = async || {
            let before = timer.metrics();
            let tasks = (0..400_u64).map(|n| {
                let timer = timer.clone();
                tokio::spawn(async move {
                    for round in 0..20 {
                        timer.sleep(Duration::from_micros(1_000 + (n * 7 + round * 131) % 2_000)).await;
                    }
                })
            });
            joined(tasks).await;
            let after = timer.metrics();
            (after.turns() - before.turns()) * 20 < after.registered() - before.registered()
        };
        // Try again if the machine was so slow that turns shared nothing.
        for _ in 0..20 {
            if is_coalesced().await {
                return;
            }
        }
        panic!("hardly any timers shared a turn: {:?}", timer.metrics());
    }
    for (alarm, runtime) in alarms_and_runtimes() {
        println!("{alarm:?}");
        must_end_on(runtime, async move || share_turns(Timer::builder().alarm(alarm).build().unwrap()).await);
    }
}

/// A bug that this crate had: with tokio's alarm, each thousand came a millisecond after the last.
#[test]
fn a_crowd_that_takes_several_turns_waits_for_no_alarm_between_them() {
    const SLEEPS: usize = 20_000;
    for alarm in alarms() {
        println!("{alarm:?}");
        must_end_on(current_thread(), async move || {
            let timer = Timer::builder().alarm(alarm).build().unwrap();
            timer.sleep(ms(1)).await;
            let [rounds, first, woken] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
            let waker = on_wake({
                let (rounds, first, woken) = (rounds.clone(), first.clone(), woken.clone());
                move || {
                    if woken.fetch_add(1, SeqCst) == 0 {
                        first.store(rounds.load(SeqCst), SeqCst);
                    }
                }
            });
            // No turn comes before this task waits.
            let due = Instant::now();
            let _naps: Vec<_> = (0..SLEEPS).map(|_| polled_with(timer.sleep_until(due), &waker)).collect();
            until(|| {
                rounds.fetch_add(1, SeqCst);
                woken.load(SeqCst) == SLEEPS
            })
            .await;
            let rounds = rounds.load(SeqCst) - first.load(SeqCst);
            assert!(rounds < 500, "other tasks ran {rounds} times");
        });
    }
}

#[test]
fn registering_ever_earlier_deadlines_takes_few_turns() {
    multi_thread(1).block_on(async {
        let timer = Timer::builder().build().unwrap();
        tokio::task::yield_now().await;
        let mut sleeps: Vec<_> = (0..1_000).map(|n| timer.sleep(Duration::from_secs(10_000 - n))).collect();
        for sleep in &mut sleeps {
            assert!(futures::poll!(sleep).is_pending());
            tokio::task::yield_now().await;
        }
        let turns = timer.metrics().turns();
        // There are a few more if the alarm thread believes that the driver is late.
        assert!(turns < 100, "{turns} turns, though nothing was due");
    });
}

/// As with tokio's. A bug that this crate had: such sleeps never ended.
#[cfg(feature = "test-util")]
#[test]
fn a_sleep_on_a_paused_clock_without_enable_time_panics() {
    const NEEDS: &str = "needs a tokio runtime with `enable_time` on a paused clock";
    let runtime = |is_paused| tokio::runtime::Builder::new_current_thread().start_paused(is_paused).build().unwrap();
    must_end(move || {
        let message = panic_message(|| runtime(true).block_on(sleep(ms(10))));
        assert_eq!(message, format!("hairspring {NEEDS}"));
        let error = runtime(true).block_on(async { Timer::builder().build().unwrap_err().to_string() });
        assert!(error.contains(NEEDS), "{error}");
        runtime(false).block_on(async {
            let before = tokio::spawn(sleep(HOUR));
            sleep(ms(1)).await;
            hairspring::pause();
            let message = panic_message_of(&*before.await.unwrap_err().into_panic());
            assert!(message.contains(NEEDS), "{message}");
        });
    });
}

/// Bugs that this crate had: a driver that waited on another alarm than tokio's did not notice the pause.
#[cfg(feature = "test-util")]
#[test]
fn every_alarm_follows() {
    for alarm in alarms().into_iter().map(Some).chain([None]) {
        for way in 0..4 {
            println!("{alarm:?}, {way}");
            must_end_on(current_thread(), async move || {
                if let Some(alarm) = alarm {
                    Timer::builder().alarm(alarm).install().unwrap();
                }
                let before = tokio::spawn(sleep(HOUR));
                sleep(ms(1)).await;
                hairspring::pause();
                match way {
                    0 => sleep(2 * HOUR).await,
                    1 => tokio::time::sleep(2 * HOUR).await,
                    2 => tokio::time::advance(20 * HOUR).await,
                    _ => return before.await.unwrap(),
                }
                crate::common::settle().await;
                assert!(before.is_finished(), "an hour late");
            });
        }
    }
}

/// The alarm thread follows the system's clock. A sleep may be due on that clock, but not on the paused one.
#[cfg(not(feature = "test-util"))] // With the feature, the driver follows the clock immediately.
#[test]
fn no_sleep_is_early_on_a_just_paused_clock() {
    use crate::common::{Wakes, poll_with};
    const LONG: Duration = Duration::from_millis(20);
    let in_time = || {
        current_thread().block_on(async {
            let (woken, waker) = Wakes::new();
            let mut sleep = sleep(LONG);
            let waits = poll_with(&mut sleep, &waker).is_pending();
            tokio::task::yield_now().await;
            tokio::time::pause();
            if !waits || Instant::now() >= sleep.deadline() {
                return false;
            }
            // The alarm thread wakes the driver's task meanwhile.
            thread::sleep(LONG * 2);
            tokio::task::yield_now().await;
            assert_eq!(woken.count(), 0, "no time has passed on the runtime's clock");
            assert!(poll_with(&mut sleep, &waker).is_pending());
            tokio::time::advance(LONG).await;
            sleep.await;
            true
        })
    };
    // If the machine was too slow, try again in a runtime that has not been paused.
    while !in_time() {}
}

#[test]
fn an_unsupported_alarm_is_refused_by_name() {
    let [bare, _] = bare();
    bare.block_on(async {
        for (alarm, lacks) in [(Alarm::Timerfd, "enable_io"), (Alarm::Tokio, "enable_time")] {
            let error = Timer::builder().alarm(alarm).build().unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("{alarm:?}")) && text.contains(lacks), "{text}");
            assert!(error.source().is_none(), "nothing was refused by the system");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::Unsupported);
        }
    });
}

#[test]
fn bad_settings_are_refused_with_value_and_range() {
    let (nano, second) = (Duration::from_nanos(1), Duration::from_secs(1));
    let (runtime, builder) = (current_thread(), Timer::builder);
    for (builder, message) in [
        (builder().shards(0), "shards is 0: must be from 1 to 1024".to_owned()),
        (builder().shards(1_025), "shards is 1025: must be from 1 to 1024".to_owned()),
        (builder().shards(usize::MAX), format!("shards is {}: must be from 1 to 1024", usize::MAX)),
        (builder().resolution(999 * nano), "resolution is 999ns: must be from 1µs to 1s".to_owned()),
        (builder().resolution(Duration::ZERO), "resolution is 0ns: must be from 1µs to 1s".to_owned()),
        (builder().resolution(second + nano), "resolution is 1.000000001s: must be from 1µs to 1s".to_owned()),
        (builder().coalesce(second + nano), "coalesce is 1.000000001s: must be at most 1s".to_owned()),
        (builder().coalesce(Duration::MAX), format!("coalesce is {:?}: must be at most 1s", Duration::MAX)),
        (builder().max_pending(0), "max_pending is 0: must be at least 1".to_owned()),
    ] {
        let error = inside(&runtime, || builder.build()).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(error.source().is_none());
        let as_io = io::Error::from(error.clone());
        assert_eq!(as_io.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(as_io.get_ref().unwrap().downcast_ref(), Some(&error));
    }
    let error = builder().build().unwrap_err();
    assert!(error.to_string().contains("no tokio runtime"));
    assert_eq!(error, builder().shards(2).install().unwrap_err());
    assert_ne!(error, inside(&runtime, || builder().shards(0).build()).unwrap_err());
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::Other);
}

#[test]
fn an_installed_timer_takes_the_runtimes_later_sleeps() {
    on_both_flavours(|| async {
        let before = Timer::current();
        let (go_on, goes_on) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let mut standing = polled(sleep(HOUR));
            goes_on.await.unwrap();
            // This task's thread has used the old timer, and now uses the new one.
            for _ in 0..5 {
                assert!(poll(&mut sleep(HOUR)).is_pending());
            }
            standing.reset_at(Instant::now() + ms(1));
            standing.await;
        });
        until(|| before.metrics().registered() > 0).await;
        let installed = Timer::builder().shards(2).install().unwrap();
        assert_eq!(Timer::current(), installed);
        assert_ne!(before, installed);
        go_on.send(()).unwrap();
        task.await.unwrap();
        assert_eq!((before.metrics().registered(), installed.metrics().registered()), (1, 5));
    });
}
