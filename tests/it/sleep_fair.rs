//! Starvation and lost wake-ups: no task may keep the timers of others from firing.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::task::Poll;

use crate::common::{HOUR, HUNG, Wakes, both_flavours, current_thread, ms, multi_thread, must_end, poll_with};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hairspring::timer::Alarm;
use hairspring::{Duration, Instant, Timer, sleep, timeout};

/// tokio 3069, 3190: 1 ms sleeps hung for as long as a far sleep still had to wait.
#[test]
fn short_sleeps_do_not_wait_for_a_long_one() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.spawn(sleep(10 * HUNG));
            runtime.block_on(async {
                let tasks = (0..4).map(|task| {
                    tokio::spawn(async move {
                        for _ in 0..100 {
                            let start = std::time::Instant::now();
                            sleep(ms(1)).await;
                            assert!(start.elapsed() < HUNG / 2, "a lost wake-up");
                            for _ in 0..task {
                                tokio::task::yield_now().await;
                            }
                        }
                    })
                });
                for task in tasks.collect::<Vec<_>>() {
                    task.await.unwrap();
                }
            });
        });
    }
}

/// The same with almost no pause between registering and the driver going to sleep, from threads that are not workers.
#[test]
fn very_short_sleeps_registered_as_the_driver_goes_to_sleep_all_fire() {
    must_end(|| {
        let runtime = Arc::new(multi_thread(2));
        runtime.spawn(sleep(10 * HUNG));
        let threads = (0..3).map(|thread| {
            let runtime = runtime.clone();
            std::thread::spawn(move || {
                let mut random = crate::common::Random::new(thread);
                for _ in crate::common::rounds(1_500) {
                    runtime.block_on(sleep(random.duration(ms(1) / 20)));
                }
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().unwrap();
        }
    });
}

/// tokio 6682, 6683: the driver stored its next wake only after it had looked at the timers. Here one thread registers
/// the next sleep at about the moment when the driver ends the turn that fired the previous one, and nothing else makes
/// the driver look again.
#[test]
fn a_sleep_registered_as_a_turn_of_the_driver_ends_fires() {
    must_end(|| {
        let runtime = multi_thread(1);
        let timer = runtime.block_on(async { Timer::current() });
        let mut random = crate::common::Random::new(6682);
        let mut nap = timer.sleep(Duration::ZERO);
        let (woken, waker) = Wakes::new();
        let mut armed = 0;
        for _ in crate::common::rounds(15_000) {
            let (after, delay) = (Duration::from_micros(5 + random.below(10)), random.below(60));
            // As soon as it was woken, the driver's turn being hardly over.
            let mut start = None;
            while woken.count() < armed {
                std::hint::spin_loop();
                let start = *start.get_or_insert_with(std::time::Instant::now);
                assert!(start.elapsed() < HUNG / 2, "a lost wake-up");
            }
            for _ in 0..delay {
                std::hint::spin_loop();
            }
            nap.reset_at(Instant::now() + after);
            if poll_with(&mut nap, &waker).is_pending() {
                armed += 1;
            }
        }
    });
}

/// libuv 4245, akka 32271: a zero delay that was registered again as it fired never let anything else run.
#[test]
fn a_zero_sleep_registered_again_and_again_lets_others_progress() {
    for runtime in [current_thread(), multi_thread(1)] {
        must_end(move || {
            let rounds = Arc::new(AtomicUsize::new(0));
            let count = rounds.clone();
            let spinner = runtime.spawn(async move {
                loop {
                    sleep(Duration::ZERO).await;
                    count.fetch_add(1, SeqCst);
                }
            });
            runtime.block_on(async {
                for _ in 0..20 {
                    sleep(ms(1)).await;
                    tokio::task::yield_now().await;
                }
                while rounds.load(SeqCst) < 1_000 {
                    tokio::task::yield_now().await;
                }
            });
            spinner.abort();
        });
    }
}

fn arm(timer: &Timer, stop: &Arc<AtomicBool>) {
    let (for_later, stop_for_later) = (timer.clone(), stop.clone());
    let mut short = Duration::from_nanos(500);
    let mut next = timer.sleep(short);
    let waker = crate::common::on_wake(move || {
        if !stop_for_later.load(SeqCst) {
            arm(&for_later, &stop_for_later);
        }
    });
    // Ready at once if that has passed already: then another, longer one is registered, as the machine is slow.
    while poll_with(&mut next, &waker).is_ready() {
        short *= 2;
        next = timer.sleep(short);
    }
    std::mem::forget(next);
}

/// The same, but its own waker registers it, in the past, while the driver drains what is due.
#[test]
fn a_sleep_that_its_own_waker_resets_to_the_past_lets_others_progress() {
    must_end(|| {
        let runtime = current_thread();
        let timer = runtime.block_on(async { Timer::current() });
        let stop = Arc::new(AtomicBool::new(false));
        arm(&timer, &stop);
        runtime.block_on(async {
            for _ in 0..20 {
                sleep(ms(1)).await;
            }
        });
        stop.store(true, SeqCst);
        runtime.block_on(sleep(ms(2)));
    });
}

/// tokio 7883: a sleep never completed under a combinator that polls eagerly.
#[test]
fn an_eager_poller_sees_the_deadline_pass() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let mut nap = sleep(ms(5));
                poll_fn(|cx| {
                    // The task never yields: only the clock can tell.
                    while Pin::new(&mut nap).poll(cx).is_pending() {}
                    Poll::Ready(())
                })
                .await;
                let mut nap = sleep(ms(5));
                poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    Pin::new(&mut nap).poll(cx)
                })
                .await;
                let mut eager: FuturesUnordered<_> = (0..20).map(|index| sleep(ms(index))).collect();
                while eager.next().await.is_some() {}
            });
        });
    }
}

/// tokio 4730: a blocked worker held the driver, and with it the timers of all other tasks.
#[test]
fn a_blocked_worker_does_not_hold_up_the_others() {
    for round in 0..10 {
        must_end(move || {
            let runtime = multi_thread(2);
            // So that either worker may be the one that last had the driver.
            runtime.block_on(async {
                for _ in 0..round {
                    tokio::spawn(sleep(ms(1))).await.unwrap();
                }
            });
            let (unblock, blocked) = mpsc::channel::<()>();
            let (started, is_blocked) = mpsc::channel();
            runtime.spawn(async move {
                sleep(ms(1)).await;
                started.send(()).unwrap();
                let _ = blocked.recv();
            });
            is_blocked.recv().unwrap();
            let (done, all_done) = mpsc::channel();
            for _ in 0..4 {
                let done = done.clone();
                runtime.spawn(async move {
                    for _ in 0..10 {
                        sleep(ms(1)).await;
                    }
                    assert!(timeout(ms(1), std::future::pending::<()>()).await.is_err());
                    done.send(()).unwrap();
                });
            }
            for _ in 0..4 {
                all_done.recv().unwrap();
            }
            unblock.send(()).unwrap();
        });
    }
}

fn block_a_worker(runtime: &tokio::runtime::Runtime) -> mpsc::Sender<()> {
    let (unblock, blocked) = mpsc::channel();
    runtime.spawn(async move {
        let _ = blocked.recv();
    });
    unblock
}

/// All workers are blocked, or the only one: the wakers of others are still woken, without the driver.
#[test]
fn wakers_elsewhere_are_woken_while_every_worker_is_blocked() {
    for runtime in [current_thread(), multi_thread(1), multi_thread(2)] {
        must_end(move || {
            runtime.block_on(sleep(ms(1)));
            let (woken, waker) = Wakes::new();
            let guard = runtime.enter();
            let mut nap = sleep(HOUR);
            assert!(poll_with(&mut nap, &waker).is_pending());
            drop(guard);
            let unblock: Vec<_> = (0..2).map(|_| block_a_worker(&runtime)).collect();
            nap.reset_at(Instant::now() + ms(5));
            woken.wait();
            drop(unblock);
            assert_eq!(woken.count(), 1);
        });
    }
}

/// Far more timers are due at once than the driver fires at a time.
#[test]
fn twenty_thousand_due_at_once_all_fire_once_and_others_progress() {
    for runtime in both_flavours() {
        must_end(move || {
            let (woken, waker) = Wakes::new();
            let deadline = Instant::now() + ms(300);
            // If the deadline passes meanwhile, the rest is ready at once, which a budget would not allow.
            let sleeps: Vec<_> = runtime.block_on(tokio::task::unconstrained(async {
                let all = (0..20_000).map(|_| {
                    let mut sleep = hairspring::sleep_until(deadline);
                    (poll_with(&mut sleep, &waker).is_pending(), sleep)
                });
                all.collect()
            }));
            let waiting = sleeps.iter().filter(|(waits, _)| *waits).count();
            runtime.block_on(async {
                while woken.count() < waiting {
                    sleep(ms(1)).await;
                }
                sleep(ms(2)).await;
            });
            assert_eq!(woken.count(), waiting);
            assert!(Instant::now() >= deadline);
        });
    }
}

/// caffeine 3cf6d2937, agrona 8d05ce12: a mass expiry stalled everything else, because nothing bounded one round of it.
#[test]
fn others_have_their_turn_in_the_midst_of_a_mass_expiry() {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    must_end(|| {
        current_thread().block_on(async {
            let turns = Arc::new(AtomicUsize::new(0));
            let count = turns.clone();
            tokio::spawn(poll_fn(move |cx| {
                count.fetch_add(1, SeqCst);
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            }));
            let fired_in = Arc::new(Mutex::new(BTreeSet::new()));
            let note = fired_in.clone();
            let waker = crate::common::on_wake(move || {
                note.lock().unwrap().insert(turns.load(SeqCst));
            });
            // No helper thread turns for such an alarm, so the driver does, though the runtime is blocked for a while.
            let timer = Timer::builder().alarm(Alarm::Tokio).build().unwrap();
            tokio::task::yield_now().await;
            let mut sleeps: Vec<_> = (0..20_000).map(|_| timer.sleep(HOUR)).collect();
            let deadline = Instant::now() + ms(1);
            for sleep in &mut sleeps {
                assert!(poll_with(sleep, &waker).is_pending());
                sleep.reset_at(deadline);
            }
            std::thread::sleep(ms(2));
            sleep(ms(20)).await;
            assert!(fired_in.lock().unwrap().len() >= 5, "all at once, while the other task had to wait");
        });
    });
}

/// The whole program stalls: each timer that became due meanwhile fires once, and none is lost.
#[test]
fn after_a_stall_every_timer_fires() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let tasks: Vec<_> = (0..50).map(|index| tokio::spawn(sleep(ms(index)))).collect();
                tokio::task::yield_now().await;
                std::thread::sleep(ms(60));
                for task in tasks {
                    task.await.unwrap();
                }
            });
        });
    }
}

/// Linux a683f390b93f, neqo 319: after a long idle time, short timers were coarse, or an assertion failed.
#[tokio::test(start_paused = true)]
async fn after_idling_for_hours_short_sleeps_are_as_short_as_ever() {
    for idle in [HOUR, 13 * 24 * HOUR, 900 * 24 * HOUR] {
        tokio::time::advance(idle).await;
        let start = Instant::now();
        sleep(ms(1)).await;
        assert_eq!(start.elapsed(), ms(1));
        drop(sleep(idle));
        sleep(ms(63)).await;
        sleep(ms(64)).await;
        assert_eq!(start.elapsed(), ms(128));
    }
}

/// tokio 8334, pgdog 1017: a far entry hid nearer ones, and short timers froze after 12.4 days of uptime.
#[tokio::test(start_paused = true)]
async fn far_timers_do_not_hide_near_ones() {
    let mut random = crate::common::Random::new(8334);
    let mut standing = FuturesUnordered::new();
    for days in 0..60 {
        standing.push(sleep(days * 24 * HOUR));
        standing.push(sleep(days * 24 * HOUR + random.duration(HOUR)));
    }
    let start = Instant::now();
    while let Ok(Some(())) = tokio::time::timeout(HOUR, standing.next()).await {}
    for _ in 0..200 {
        let before = Instant::now();
        let asked = ms(1 + random.below(1_000));
        sleep(asked).await;
        assert_eq!(before.elapsed(), asked, "after {:?}", start.elapsed());
        tokio::time::advance(ms(random.below(12 * 3_600_000))).await;
    }
    while standing.next().await.is_some() {}
    assert!(start.elapsed() >= 59 * 24 * HOUR);
}

/// The alarm thread goes by the system's clock. If a test has paused the runtime's meanwhile, what is due by the system's
/// is not.
#[cfg(not(feature = "test-util"))] // There the driver follows the clock at once.
#[test]
fn what_is_due_by_the_systems_clock_is_not_early_by_one_that_was_paused_meanwhile() {
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
            // Nobody drives the runtime, so the alarm thread calls for somebody in the driver's place.
            std::thread::sleep(2 * LONG);
            assert_eq!(woken.count(), 0, "no time has passed by the runtime's clock");
            assert!(poll_with(&mut sleep, &waker).is_pending());
            tokio::time::advance(LONG).await;
            assert!(poll_with(&mut sleep, &waker).is_ready());
            true
        })
    };
    // Again if the machine was slow. A clock that was paused once is not the system's any more.
    while !in_time() {}
}
