//! Cancelled and postponed timers do not move a paused clock.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, current_thread, ms, must_end, must_end_on, paused, poll, polled, word_from_another_thread};
use futures::StreamExt;
use futures::future::join_all;
use hairspring::timer::Alarm;
use hairspring::{DeadlineMap, Instant, Timer, interval_at, sleep, sleep_until, timeout};
use tokio::runtime::Runtime;
use tokio::task::yield_now;

/// A runtime, and a function that pauses its clock if it does not start paused.
type World = (fn() -> Runtime, fn());

const SHORT: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(30);

/// Ways to pause a clock: from the start, by tokio's `pause` and by ours. In `later`, a timer has fired before.
const WORLDS: &[World] = &[
    (paused, || ()),
    (current_thread, tokio::time::pause),
    (later, tokio::time::pause),
    #[cfg(feature = "test-util")]
    (current_thread, hairspring::pause),
];

fn later() -> Runtime {
    let runtime = current_thread();
    runtime.block_on(sleep(ms(1)));
    runtime
}

/// Runs `test` in each world, and fails if it hangs.
fn on_paused_clocks(test: impl AsyncFn() + Send + Copy + 'static) {
    for &(make, pause) in WORLDS {
        must_end_on(make(), async move || {
            pause();
            test().await;
        });
    }
}

/// Fails if timers that `cancels` leaves behind move the clock while the runtime waits for another thread.
fn moves_no_clock<T>(cancels: impl AsyncFn() -> T + Send + Copy + 'static) {
    on_paused_clocks(async move || {
        let start = Instant::now();
        let _kept = cancels().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "cancelling took time");
        word_from_another_thread(ms(20)).await;
        assert_eq!(start.elapsed(), Duration::ZERO, "the clock moved");
    });
}

/// If `yields`, lets the timer's driver and tokio's see the timers that were registered.
async fn seen(yields: bool) {
    for _ in 0..if yields { 4 } else { 0 } {
        yield_now().await;
    }
}

/// The times, counted from the start, at which a runtime's clock stops on its way to [`LONG`] after `before` has run.
/// The value that `before` returns lives until then.
fn stops_after<T>(before: impl AsyncFn() -> T) -> Vec<Duration> {
    let stops = Arc::new(Mutex::new(Vec::new()));
    let noted = stops.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .on_thread_park(move || noted.lock().unwrap().push(Instant::now()))
        .build()
        .unwrap();
    let start = runtime.block_on(async {
        let start = Instant::now();
        let last = tokio::spawn(sleep(LONG));
        let _kept = before().await;
        last.await.unwrap();
        assert!((LONG..LONG + ms(2)).contains(&start.elapsed()), "{:?}", start.elapsed());
        start
    });
    let mut stops: Vec<Duration> = stops.lock().unwrap().iter().map(|stop| *stop - start).collect();
    stops.dedup();
    stops
}

/// Checks a way to postpone a timer that is due at [`SHORT`], with and without letting the drivers see it first. The
/// clock must then move to [`LONG`] as if the timer had never existed.
fn postpones<T>(way: impl AsyncFn(bool) -> T + Send + Copy + 'static) {
    for yields in [false, true] {
        must_end(move || assert_eq!(stops_after(async || way(yields).await), stops_after(async || ())));
    }
}

/// Checks a way to cancel such a timer. No clock may move for it either.
fn cancels<T>(way: impl AsyncFn(bool) -> T + Send + Copy + 'static) {
    postpones(way);
    for yields in [false, true] {
        moves_no_clock(async move || way(yields).await);
    }
}

/// A bug that this crate had: a cancelled timer moved a paused clock, because tokio's sleep for it stayed registered.
#[test]
fn a_timeout_that_ended_moves_no_clock() {
    cancels(async |yields| {
        let inner = async {
            yield_now().await;
            seen(yields).await;
        };
        timeout(SHORT, inner).await.unwrap();
        timeout(SHORT, tokio::spawn(seen(yields))).await.unwrap().unwrap();
    });
}

#[test]
fn a_dropped_sleep_or_interval_moves_no_clock() {
    cancels(async |yields| {
        let (mut sleep, mut ticks) = (sleep(SHORT), interval_at(Instant::now() + SHORT, LONG));
        assert!(poll(&mut sleep).is_pending() && poll(&mut ticks.next()).is_pending());
        seen(yields).await;
    });
    cancels(async |yields| {
        let sleep = polled(sleep(SHORT));
        seen(yields).await;
        thread::spawn(move || drop(sleep)).join().unwrap();
    });
    cancels(async |yields| {
        let many: Vec<_> = (0..40).map(|n| tokio::spawn(sleep(SHORT + ms(n * 7_919 % 40)))).collect();
        seen(yields).await;
        for task in many {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
    });
}

/// A bug that this crate had: the clock stopped where the first of many was due, if the timer knew only in which slot of
/// its wheel the others were.
#[test]
fn the_first_of_a_burst_moves_no_clock_once_it_is_gone() {
    let bursts = async |has_first: bool| {
        for round in 0..40 {
            let start = Instant::now();
            let burst = (0..60).map(|n| sleep_until(start + ms(40 + n * 7 % 5)));
            let mut burst: Vec<_> = burst.map(polled).collect();
            let mut first = has_first.then(|| polled(sleep_until(start + ms(30))));
            drop(burst.pop());
            seen(true).await;
            match &mut first {
                Some(first) if round % 2 == 0 => first.reset_at(start + ms(41)),
                _ => drop(first),
            }
            seen(true).await;
            join_all(burst).await;
        }
    };
    must_end(move || assert_eq!(stops_after(async || bursts(true).await), stops_after(async || bursts(false).await)));
}

#[test]
fn a_postponed_sleep_moves_no_clock() {
    postpones(async |yields| {
        let mut sleep = sleep(SHORT);
        for _ in 0..3 {
            assert!(poll(&mut sleep).is_pending());
            seen(yields).await;
            sleep.reset_at(sleep.deadline() + HOUR);
        }
        [sleep]
    });
}

#[test]
fn a_timer_that_was_shut_down_moves_no_clock() {
    moves_no_clock(async || {
        for alarm in [Alarm::Thread, Alarm::Tokio] {
            let timers = [1, 3].map(|shards| Timer::builder().alarm(alarm).shards(shards).build().unwrap());
            let _sleep = polled(timers[0].sleep(LONG));
            timers[1].timeout(LONG, seen(true)).await.unwrap();
            timers[0].shutdown();
            word_from_another_thread(ms(20)).await;
        }
    });
}

/// A bug that this crate had: the consumer's sleep waited for the entry's old deadline.
#[test]
fn an_entry_that_was_touched_to_expire_moves_no_clock() {
    cancels(async |yields| {
        let (map, mut expirations) = DeadlineMap::new();
        map.insert(1, (), SHORT);
        assert!(poll(&mut expirations.next()).is_pending());
        seen(yields).await;
        // A turn has reached that time.
        assert!(map.touch_at(&1, Instant::now() - HOUR) && poll(&mut expirations.next()).is_ready());
        (map, expirations)
    });
}

/// If timers are cancelled while the clock runs, they must not move it after it is paused again.
#[test]
fn timers_cancelled_before_a_pause_move_no_clock() {
    must_end_on(paused(), async || {
        let [mut later, mut earlier] = [LONG, SHORT].map(sleep);
        assert!(poll(&mut later).is_pending());
        seen(true).await;
        tokio::time::resume();
        assert!(poll(&mut earlier).is_pending());
        seen(true).await;
        drop((later, earlier));
        seen(true).await;
        tokio::time::pause();
        let start = Instant::now();
        word_from_another_thread(ms(20)).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[cfg(feature = "test-util")]
#[test]
fn a_manual_clock_jumps_to_a_postponed_deadline() {
    use hairspring::DelayQueue;
    use hairspring::test_util::ManualClock;
    use std::sync::atomic::{AtomicBool, Ordering};

    let clock = ManualClock::new();
    let timer = Timer::builder().clock(&clock).build().unwrap();
    let start = clock.now();
    let looks = |over: &AtomicBool| {
        while !over.load(Ordering::Relaxed) {
            let shown = clock.now() - start;
            assert_eq!(shown.as_nanos() % SHORT.as_nanos(), 0, "it shows {shown:?}");
        }
    };
    let jumps = || {
        for round in crate::common::rounds(300) {
            let mut queue = DelayQueue::with_timer(&timer);
            let key = queue.insert(1, SHORT / 4);
            // Of unsorted neighbours, the wheel knows only where their slot begins.
            let mut sleeps: Vec<_> = (0..40).rev().map(|n| timer.sleep(SHORT / 8 + ms(n))).collect();
            assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()) && poll(&mut queue.next()).is_pending());
            for sleep in &mut sleeps {
                sleep.reset_at(start + (round + 1) * SHORT);
            }
            queue.reset(&key, SHORT);
            assert_eq!(clock.advance_to_next(), Some(start + (round + 1) * SHORT));
        }
    };
    crate::common::beside(1, looks, jumps);
}

/// Nor may the clock stop at the old deadline of an entry that was touched while it ran.
#[cfg(feature = "test-util")]
#[test]
fn an_entry_that_was_touched_before_a_pause_wakes_its_consumer_once() {
    must_end_on(current_thread(), async || {
        // From then on what is postponed tells its timer at once.
        let _clock = hairspring::test_util::ManualClock::new();
        let (map, mut expirations) = DeadlineMap::new();
        map.insert(1, (), SHORT);
        assert!(poll(&mut expirations.next()).is_pending());
        assert!(map.touch(&1, LONG));
        seen(true).await;
        hairspring::pause();
        let mut polls = Vec::new();
        let expired = std::future::poll_fn(|cx| {
            polls.push(Instant::now());
            expirations.poll_next_unpin(cx)
        });
        assert_eq!(expired.await, Some((1, ())));
        assert_eq!(polls.len(), 2, "{polls:?}");
    });
}
