//! What `Timer::metrics` shows an operator, and that it is correct at any moment.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use crate::common::{HOUR, Random, current_thread, ms, multi_thread, must_end, poll};
use hairspring::{Duration, Instant, Timer};

#[test]
fn the_counts_balance_at_every_moment_that_they_are_read() {
    must_end(|| {
        let runtime = multi_thread(2);
        let timer = runtime.block_on(async { Timer::builder().shards(3).build().unwrap() });
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(SeqCst) {
                    let metrics = timer.metrics();
                    assert_eq!(metrics.registered(), metrics.fired() + metrics.cancelled() + metrics.pending());
                    assert_eq!(metrics.lateness().count(), metrics.fired());
                }
            });
            let load = |seed| {
                let timer = &timer;
                move || {
                    let mut random = Random::new(seed);
                    let mut sleeps = std::collections::VecDeque::new();
                    // However slow the machine is, it comes to firing some.
                    while sleeps.len() < 20_000 || timer.metrics().fired() == 0 {
                        let mut sleep = timer.sleep(random.duration(ms(2)));
                        let _ = poll(&mut sleep);
                        sleeps.push_back(sleep);
                        if random.below(3) == 0 {
                            sleeps.pop_front();
                        }
                    }
                }
            };
            for thread in [scope.spawn(load(1)), scope.spawn(load(2))] {
                thread.join().unwrap();
            }
            over.store(true, SeqCst);
        });
        let metrics = timer.metrics();
        assert_eq!(metrics.pending(), 0);
        assert!(metrics.fired() > 0 && metrics.cancelled() > 0 && metrics.turns() > 0);
    });
}

/// Lateness is the time from the deadline to the turn.
#[test]
fn lateness_is_how_long_after_its_deadline_a_timer_fires() {
    crate::common::paused().block_on(async {
        let timer = Timer::builder().build().unwrap();
        let mut sleeps: Vec<_> = (0..10).map(|_| timer.sleep(ms(10))).collect();
        assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
        // The driver sleeps until then, and the clock goes further in one leap.
        tokio::task::yield_now().await;
        tokio::time::advance(ms(30)).await;
        assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_ready()));

        let metrics = timer.metrics();
        let lateness = metrics.lateness();
        assert_eq!((lateness.count(), metrics.fired(), lateness.max()), (10, 10, ms(20)));
        for share in [0.0, 0.1, 0.5, 0.99, 1.0] {
            assert_eq!(lateness.quantile(share), ms(20), "{share}: {lateness:?}");
        }
    });
}

#[test]
fn a_new_timer_in_the_place_of_another_begins_at_zero() {
    must_end(|| {
        current_thread().block_on(async {
            for _ in 0..3 {
                let timer = Timer::builder().shards(7).build().unwrap();
                let metrics = timer.metrics();
                assert_eq!((metrics.registered(), metrics.fired()), (0, 0));
                // The alarm thread looks after a driver that does not come for a millisecond.
                assert!(metrics.turns() < 5, "{} turns of the timer before", metrics.turns());
                assert_eq!((metrics.lateness().count(), metrics.lateness().max()), (0, Duration::ZERO));
                assert_eq!(metrics.next_deadline(), None);
                assert!(poll(&mut timer.sleep(HOUR)).is_pending());
                assert_eq!(timer.metrics().registered(), 1);
                while timer.metrics().turns() < 10 || timer.metrics().fired() == 0 {
                    timer.sleep(ms(1)).await;
                }
            }
        });
    });
}

/// What dashboards show: which slots of each level are occupied.
#[test]
fn occupancy_shows_each_entry_in_the_slot_of_its_level() {
    let (timer, _driver) = Timer::builder().shards(2).build_with_driver().unwrap();
    assert!(timer.metrics().occupancy().iter().all(|&slots| slots == 0));
    let mut sleeps: Vec<_> = [1, 2, 3, 50].map(|hours| timer.sleep(hours * HOUR)).into_iter().collect();
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
    let slots = || timer.metrics().occupancy().iter().map(|slots| slots.count_ones()).sum::<u32>();
    assert!((1..=4).contains(&slots()), "several may share a slot");
    let occupied = timer.metrics().occupancy().to_vec();
    // 64^6 ns are 69 s, so none is further down than level 6.
    assert!(occupied[..6].iter().all(|&slots| slots == 0), "{occupied:?}");
    sleeps.clear();
    assert_eq!(slots(), 0);
}

#[test]
fn the_next_deadline_is_the_earliest_that_waits() {
    let (timer, _driver) = Timer::builder().shards(1).build_with_driver().unwrap();
    assert_eq!(timer.metrics().next_deadline(), None);
    let mut late = timer.sleep(5 * HOUR);
    assert!(poll(&mut late).is_pending());
    assert_eq!(timer.metrics().next_deadline(), Some(late.deadline()));
    let mut early = timer.sleep(3 * HOUR);
    assert!(poll(&mut early).is_pending());
    assert_eq!(timer.metrics().next_deadline(), Some(early.deadline()));
    // After a cancellation it may lie before the earliest, never after it.
    drop(early);
    assert!(timer.metrics().next_deadline().is_some_and(|next| next <= late.deadline() && next > Instant::now()));
    drop(late);
    assert_eq!(timer.metrics().next_deadline(), None);
}

/// A handle on a runtime's timer outlives the timer, and the next timer reuses the memory of the counts.
#[test]
fn a_timer_that_has_gone_never_tells_anothers_counts() {
    must_end(|| {
        let sleeps = |count| async move {
            for _ in 0..count {
                hairspring::sleep(Duration::from_micros(50)).await;
            }
            Timer::current()
        };
        let old = current_thread().block_on(sleeps(3));
        let counts = || {
            let metrics = old.metrics();
            ([metrics.registered(), metrics.fired(), metrics.lateness().count()], metrics.turns())
        };
        let (last, last_turns) = counts();
        for _ in 0..5 {
            current_thread().block_on(async {
                let new = sleeps(20).await;
                assert_ne!(new, old);
                let (now, turns) = counts();
                assert!(now == last || now == [0; 3], "{last:?} became {now:?}");
                // One of the alarm thread's may have been on.
                assert!(turns < last_turns + 5, "{last_turns} turns became {turns}");
            });
        }
    });
}
