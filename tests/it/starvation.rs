//! Starvation and lost wake-ups. No task may keep the timers of others from firing.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;

use crate::alarms::{alarms, alarms_and_runtimes};
use crate::common::{
    HOUR, HUNG, Random, Wakes, both_flavours, current_thread, inside, ms, multi_thread, must_end, must_end_on, on_wake,
    poll_with, polled, rounds, watched,
};
use futures::future::join_all;
use hairspring::timer::Alarm;
use hairspring::{Duration, Instant, Timer, sleep, timeout};

/// tokio 3069, 3190: sleeps of 1 ms hung until a far sleep ended.
#[test]
fn short_sleeps_do_not_wait_for_a_long_one() {
    async fn naps(seed: u64) {
        let mut random = Random::new(seed);
        for _ in 0..100 {
            let length = random.pick(&[ms(1), ms(1) / 20]);
            let (start, mut nap) = (std::time::Instant::now(), sleep(random.duration(length)));
            if random.one_in(4) {
                let sooner = std::mem::replace(&mut nap, polled(sleep(HOUR))).deadline();
                nap.reset_at(sooner);
            }
            nap.await;
            assert!(start.elapsed() < HUNG / 2, "a lost wake-up");
            for _ in 0..random.below(4) {
                tokio::task::yield_now().await;
            }
        }
    }
    for (alarm, runtime) in alarms_and_runtimes().chain(both_flavours().map(|runtime| (Alarm::Auto, runtime))) {
        must_end(move || {
            inside(&runtime, || Timer::builder().alarm(alarm).install().unwrap());
            runtime.spawn(sleep(10 * HUNG));
            // Sleep in tasks, and on threads that are not workers.
            let tasks: Vec<_> = (0..4).map(|seed| runtime.spawn(naps(seed))).collect();
            thread::scope(|scope| {
                for seed in 4..7 {
                    let runtime = &runtime;
                    scope.spawn(move || (0..3).for_each(|_| runtime.block_on(naps(seed))));
                }
            });
            assert!(runtime.block_on(join_all(tasks)).iter().all(Result::is_ok));
        });
    }
}

/// tokio 6682, 6683: the driver stored its next wake-up only after it had released the locks. Here another thread
/// registers the next sleep just as the turn that fired the previous one ends, and nothing else makes the driver run.
#[test]
fn a_sleep_registered_at_a_turns_end_fires() {
    must_end(|| {
        let runtime = multi_thread(1);
        let timer = inside(&runtime, Timer::current);
        let mut random = Random::new(6682);
        let mut nap = timer.sleep(Duration::ZERO);
        let mut registered = 0;
        let (woken, waker) = Wakes::new();
        for round in rounds(6_000) {
            let mut start = None;
            while woken.count() < registered {
                spin_loop();
                let start = *start.get_or_insert_with(std::time::Instant::now);
                assert!(start.elapsed() < HUNG / 2, "a lost wake-up");
            }
            // Register soon after the wake-up, or when the driver goes to sleep with nothing to wait for.
            (0..random.below(if round % 2 == 0 { 60 } else { 300 })).for_each(|_| spin_loop());
            let after = Duration::from_micros(5 + random.below(10));
            if round % 4 < 2 {
                nap.reset_at(Instant::now() + after);
            } else {
                nap = timer.sleep(after);
            }
            registered += usize::from(poll_with(&mut nap, &waker).is_pending());
        }
    });
}

/// tokio 4730: a blocked worker held the driver, and delayed the timers of all other tasks.
#[test]
fn a_blocked_worker_does_not_delay_the_others() {
    for round in 0..4 {
        must_end(move || {
            let runtime = multi_thread(2);
            // Vary which worker ran the driver last.
            for _ in 0..round {
                runtime.block_on(runtime.spawn(sleep(ms(1)))).unwrap();
            }
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
            drop(done);
            assert_eq!(all_done.iter().count(), 4);
            drop(unblock);
        });
    }
}

/// As with tokio's: nobody looks at the sockets meanwhile.
#[test]
fn nothing_fires_while_every_worker_is_blocked() {
    for alarm in alarms() {
        must_end(move || {
            let runtime = multi_thread(2);
            inside(&runtime, || Timer::builder().alarm(alarm).install().unwrap());
            runtime.block_on(sleep(ms(5)));
            let (mut nap, woken) = inside(&runtime, || watched(sleep(HOUR)));
            let (blocks, are_blocked) = mpsc::channel();
            let unblock = [(); 2].map(|()| {
                let (unblock, blocked) = mpsc::channel::<()>();
                let blocks = blocks.clone();
                runtime.spawn(async move {
                    blocks.send(()).unwrap();
                    let _ = blocked.recv();
                });
                unblock
            });
            (0..2).for_each(|_| are_blocked.recv().unwrap());
            nap.reset_at(Instant::now() + ms(5));
            thread::sleep(ms(30));
            assert_eq!(woken.count(), 0);
            drop(unblock);
            woken.wait();
            assert_eq!(woken.count(), 1);
        });
    }
}

/// caffeine 3cf6d2937, agrona 8d05ce12: a mass expiry stalled everything else, because nothing bounded one round of it.
#[test]
fn other_tasks_run_during_a_mass_expiry() {
    const SLEEPS: usize = 20_000;
    must_end_on(current_thread(), async || {
        let turns = Arc::new(AtomicUsize::new(0));
        let count = turns.clone();
        tokio::spawn(poll_fn(move |cx| {
            count.fetch_add(1, SeqCst);
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        let fired = Arc::new(Mutex::new((0, BTreeSet::new())));
        let note = fired.clone();
        let waker = on_wake(move || {
            let mut fired = note.lock().unwrap();
            fired.0 += 1;
            fired.1.insert(turns.load(SeqCst));
        });
        // The driver fires them all once its runtime is no longer blocked.
        let timer = Timer::builder().alarm(Alarm::Tokio).build().unwrap();
        tokio::task::yield_now().await;
        let mut ahead = ms(100);
        let _sleeps = loop {
            let deadline = Instant::now() + ahead;
            let mut sleeps: Vec<_> = (0..SLEEPS).map(|_| timer.sleep_until(deadline)).collect();
            if sleeps.iter_mut().all(|sleep| poll_with(sleep, &waker).is_pending()) {
                break sleeps;
            }
            ahead *= 2; // The machine is slow.
        };
        thread::sleep(ahead);
        while fired.lock().unwrap().0 < SLEEPS {
            sleep(ms(1)).await;
        }
        sleep(ms(2)).await;
        let fired = fired.lock().unwrap();
        assert_eq!(fired.0, SLEEPS, "each fires once");
        assert!(fired.1.len() >= 5, "the other task ran {} times", fired.1.len());
    });
}
