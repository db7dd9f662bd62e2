//! Tokio's paused clock, on a current-thread runtime: every deadline is hit to the nanosecond, and nothing else moves
//! time.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{HOUR, Random, World, current_thread, in_worlds, ms, must_end, paused};
use hairspring::test_util::{self, settle};
use hairspring::{Duration, Instant, sleep, sleep_until, timeout};
use tokio::runtime::{Builder, Runtime};

const MICRO: Duration = Duration::from_micros(1);

fn no_sockets() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

const WORLDS: [World; 4] =
    [(paused, || ()), (no_sockets, || ()), (current_thread, hairspring::pause), (current_thread, tokio::time::pause)];

/// Runs `test` on each kind of paused current-thread runtime, and fails if it hangs.
fn on_tokios_clock<F: Future<Output = ()> + 'static>(test: fn() -> F) {
    in_worlds(&WORLDS, test);
}

/// A bug that this crate had: timers one millisecond apart fell together on a clock paused in mid-run: tokio moves it
/// by whole milliseconds from a time with a fraction.
#[test]
fn tasks_that_sleep_1_2_and_3_milliseconds_end_apart() {
    on_tokios_clock(|| async {
        let start = Instant::now();
        let sleeps = |n| async move {
            sleep(ms(n)).await;
            start.elapsed()
        };
        let tasks = [1, 2, 3].map(|n| (n, tokio::spawn(sleeps(n))));
        for (n, task) in tasks {
            assert_eq!(task.await.unwrap(), ms(n));
        }
    });
}

#[test]
fn random_deadlines_are_hit_to_the_nanosecond_and_in_order() {
    on_tokios_clock(|| async {
        let start = Instant::now();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tasks = (0..50).map(|seed| {
            let (seen, mut random) = (seen.clone(), Random::new(seed));
            tokio::spawn(async move {
                for _ in 0..20 {
                    let longest = random.pick(&[MICRO, ms(1), ms(10), HOUR]);
                    let (before, duration) = (Instant::now(), random.duration(longest));
                    sleep(duration).await;
                    assert_eq!(before.elapsed(), duration);
                    seen.lock().unwrap().push(start.elapsed());
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert!(seen.lock().unwrap().is_sorted());
    });
}

/// More than a slot of the wheel keeps in order.
#[test]
fn crowds_in_one_millisecond_are_hit_to_the_nanosecond() {
    on_tokios_clock(|| async {
        let start = Instant::now();
        let ends = (0..100).map(|n| start + HOUR + n * 7_919 % 1_000 * MICRO);
        let sleeps = ends.map(|end| async move {
            sleep_until(end).await;
            assert_eq!(Instant::now(), end);
        });
        for task in sleeps.map(tokio::spawn).collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
}

#[test]
fn cancelled_timers_move_no_time() {
    on_tokios_clock(|| async {
        let (start, mut random) = (Instant::now(), Random::new(1));
        for _ in 0..100 {
            let tasks = [ms(1), ms(3), HOUR].map(|longest| tokio::spawn(sleep(random.duration(longest))));
            tokio::task::yield_now().await;
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
            for task in tasks {
                let _ = task.await;
            }
            settle().await;
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
        let end = 5 * MICRO;
        sleep(end).await;
        assert_eq!(start.elapsed(), end);
    });
}

/// Tokio's end up to two milliseconds late, as they do without this crate. Those that tokio rounds to an earlier
/// millisecond come first.
#[test]
fn tokios_own_timers_fire_in_between_in_order() {
    on_tokios_clock(|| async {
        let start = tokio::time::Instant::now();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tasks = (0..40).map(|seed| {
            let (seen, mut random) = (seen.clone(), Random::new(seed));
            tokio::spawn(async move {
                for _ in 0..20 {
                    let longest = random.pick(&[ms(1), ms(20), HOUR]);
                    let end = tokio::time::Instant::now() + random.duration(longest);
                    let late = if seed % 2 == 0 {
                        sleep_until(end.into()).await;
                        Duration::ZERO
                    } else {
                        tokio::time::sleep_until(end).await;
                        ms(2)
                    };
                    let now = tokio::time::Instant::now();
                    assert!((end..=end + late).contains(&now), "{:?} late", now - end);
                    seen.lock().unwrap().push((now, end - start));
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let seen = seen.lock().unwrap();
        assert!(seen.is_sorted_by_key(|(now, _)| now));
        assert!(seen.is_sorted_by(|(_, before), (_, after)| *before <= *after + ms(2)));
    });
}

/// Whole milliseconds are the usual case, in which both crates agree.
#[test]
fn the_sleeps_of_both_crates_end_together() {
    on_tokios_clock(|| async {
        for n in 1..50 {
            let start = Instant::now();
            let (tokios, ours) = (tokio::spawn(tokio::time::sleep(ms(n))), tokio::spawn(sleep(ms(n))));
            ours.await.unwrap();
            assert_eq!(start.elapsed(), ms(n));
            tokios.await.unwrap();
            assert!(start.elapsed() <= ms(n + 1), "{:?}", start.elapsed());
        }
    });
}

#[test]
fn a_clock_moved_by_hand_is_exact_afterwards() {
    on_tokios_clock(|| async {
        let start = Instant::now();
        let waits = tokio::spawn(async move {
            sleep(ms(50)).await;
            start.elapsed()
        });
        tokio::task::yield_now().await;
        hairspring::advance(Duration::from_nanos(1_234_567)).await;
        assert_eq!(start.elapsed(), Duration::from_nanos(1_234_567));
        assert_eq!(waits.await.unwrap(), ms(50));
    });
}

/// Steps of less than a millisecond are not tokio's, so what holds its clock has to hold them too.
#[test]
fn a_hold_keeps_the_smallest_step() {
    on_tokios_clock(|| async {
        let start = Instant::now();
        let (hold, is_over) = (test_util::hold(), Arc::new(AtomicBool::new(false)));
        let ends = is_over.clone();
        thread::spawn(move || {
            thread::sleep(ms(30));
            ends.store(true, SeqCst);
            drop(hold);
        });
        sleep(MICRO).await;
        assert!(is_over.load(SeqCst), "it waits for the hold");
        assert_eq!(start.elapsed(), MICRO);
    });
}

#[test]
fn blocking_work_that_lets_itself_be_seen_keeps_the_smallest_step() {
    on_tokios_clock(|| async {
        for _ in 0..5 {
            let start = Instant::now();
            let work = test_util::spawn_blocking(|| thread::sleep(ms(10)));
            timeout(MICRO, work).await.expect("no time passes").unwrap();
            assert_eq!(start.elapsed(), Duration::ZERO);
            sleep(MICRO).await;
            assert_eq!(start.elapsed(), MICRO);
        }
    });
}

#[test]
fn a_runtime_may_end_or_stop_before_the_smallest_step() {
    on_tokios_clock(|| async {
        tokio::spawn(sleep(MICRO));
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    });
    must_end(|| {
        let runtime = paused();
        let task = runtime.spawn(sleep(MICRO));
        runtime.block_on(tokio::task::yield_now());
        thread::sleep(ms(5));
        runtime.block_on(task).unwrap();
    });
}

#[test]
fn a_clock_that_runs_again_is_left_alone() {
    on_tokios_clock(|| async {
        sleep(HOUR).await;
        let real = std::time::Instant::now();
        let waits = tokio::spawn(sleep(Duration::from_micros(2_500)));
        tokio::task::yield_now().await;
        tokio::time::resume();
        waits.await.unwrap();
        sleep(Duration::from_micros(700)).await;
        assert!(real.elapsed() >= Duration::from_micros(3_200), "time is real again");
    });
}

/// The allowance of turns had gone, and what was registered next waited for company, though no time passed.
#[test]
fn sleeps_before_the_pause_were_dense_and_those_after_it_are_exact() {
    for _ in 0..20 {
        must_end(|| {
            current_thread().block_on(async {
                let start = std::time::Instant::now();
                while start.elapsed() < ms(10) {
                    sleep(20 * MICRO).await;
                }
                tokio::time::pause();
                let now = Instant::now();
                let later = tokio::spawn(sleep_until(now + 500 * MICRO));
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                sleep_until(now + 100 * MICRO).await;
                assert_eq!(now.elapsed(), 100 * MICRO);
                later.await.unwrap();
            });
        });
    }
}
