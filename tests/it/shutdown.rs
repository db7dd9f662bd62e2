//! How timers end. Each sleep fires, is cancelled, or reports the shutdown. The next timer reuses the memory, and is
//! not affected.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;

use crate::common::{
    HOUR, OnDrop, Random, beside, both_flavours, current_thread, inside, ms, multi_thread, must_end, on_both_flavours,
    on_wake, poll, poll_with, polled, undriven, until, wait_until, watched,
};
use futures::executor::block_on;
use hairspring::error::Error;
use hairspring::{Duration, Instant, Timer, TrySleep, sleep, timeout};
use tokio::runtime::Handle;

fn is_refused(sleep: &mut TrySleep) -> bool {
    matches!(poll(sleep), Poll::Ready(Err(error)) if error.is_shutdown())
}

/// netty 14081, folly 3a06d042d: some timers were neither fired nor cancelled.
#[test]
fn each_sleep_ends_once_in_a_concurrent_shutdown() {
    /// Registers sleeps, and drops some, until the timer refuses one. Returns how many it registered, and how many of
    /// the rest reported the shutdown.
    fn register(timer: &Timer, seed: u64, polled: &AtomicUsize) -> [usize; 2] {
        let mut random = Random::new(seed);
        let (mut sleeps, mut registered) = (Vec::new(), 0);
        loop {
            let mut sleep = timer.try_sleep(Duration::from_micros(10 + random.below(3_000)));
            match poll(&mut sleep) {
                Poll::Pending => {
                    registered += 1;
                    sleeps.push(sleep);
                }
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    assert!(error.is_shutdown());
                    break;
                }
            }
            polled.fetch_add(1, SeqCst);
            if random.below(3) == 0 {
                sleeps.pop();
            }
        }
        let is_told = |mut sleep: TrySleep| match block_on(&mut sleep) {
            Ok(()) => {
                assert!(timer.now() >= sleep.deadline(), "early");
                false
            }
            Err(error) => {
                assert!(error.is_shutdown(), "{error}");
                true
            }
        };
        [registered, sleeps.into_iter().map(is_told).filter(|told| *told).count()]
    }

    must_end(|| {
        let runtime = multi_thread(2);
        for round in 0..20 {
            let timer = inside(&runtime, || Timer::builder().shards(2).build().unwrap());
            let polled = AtomicUsize::new(0);
            let (ended, counts) = thread::scope(|scope| {
                let (timer, polled) = (&timer, &polled);
                let threads = [1, 2].map(|seed| scope.spawn(move || register(timer, seed + 10 * round, polled)));
                wait_until(|| polled.load(SeqCst) >= 500);
                (timer.shutdown(), threads.map(|thread| thread.join().unwrap()))
            });
            let [registered, told] = [0, 1].map(|count| counts[0][count] + counts[1][count]);
            // A sleep that the shutdown found waiting may be past its deadline when it is polled.
            assert!(told <= ended, "{told} of {ended}");
            let metrics = timer.metrics();
            assert_eq!((metrics.registered(), metrics.pending()), (registered as u64, 0));
            assert_eq!(metrics.registered(), metrics.fired() + metrics.cancelled());
        }
    });
}

/// tokio 2789: a panic if a timer was registered during shutdown. This crate had that bug too.
#[test]
fn registering_while_the_runtime_shuts_down_does_not_panic() {
    must_end(|| {
        let panics = Arc::new(AtomicUsize::new(0));
        for round in 0..40 {
            let runtime = if round % 4 == 0 { current_thread() } else { multi_thread(2) };
            for seed in 0..20 {
                let panics = panics.clone();
                runtime.spawn(async move {
                    let _counts = OnDrop(|| {
                        panics.fetch_add(usize::from(thread::panicking()), SeqCst);
                        // The driver has been dropped, or soon will be.
                        let mut late = sleep(HOUR);
                        let _ = catch_unwind(AssertUnwindSafe(|| poll(&mut late)));
                        late.reset_at(Instant::now() + HOUR);
                    });
                    let mut random = Random::new(seed);
                    loop {
                        sleep(random.duration(ms(1) / 10)).await;
                        let _ = timeout(random.duration(ms(1)), tokio::task::yield_now()).await;
                    }
                });
            }
            runtime.block_on(sleep(Random::new(round).duration(ms(3))));
        }
        assert_eq!(panics.load(SeqCst), 0);
    });
}

#[test]
fn a_driver_ends_without_handles_and_pending_sleeps() {
    on_both_flavours(|| async {
        // The runtime's own has a driver, too.
        let default = Timer::current();
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        let timer = Timer::builder().build().unwrap();
        let has_ended = || tasks() == before;
        let ((mut waits, woken), mut unpolled) = (watched(timer.try_sleep(HOUR)), timer.try_sleep(HOUR));
        let other = timer.clone();
        drop(timer);
        other.sleep(ms(2)).await;
        assert!(!has_ended(), "a handle is left");
        drop(other);
        unpolled.reset_at(Instant::now() + ms(2));
        assert_eq!((&mut unpolled).await, Ok(()), "an unpolled sleep works without a handle");
        drop(unpolled);
        assert!(!has_ended() && woken.count() == 0, "a sleep still waits");
        for _ in 0..2 {
            waits.reset_at(Instant::now() + ms(2));
            assert_eq!((&mut waits).await, Ok(()), "a sleep can be reset and awaited again");
        }
        assert!(!has_ended());
        drop(waits);
        while !has_ended() {
            default.sleep(ms(1)).await;
        }
    });
}

#[test]
fn a_waker_may_drop_the_last_handle_and_sleep() {
    for runtime in both_flavours() {
        must_end(move || {
            let timer = inside(&runtime, || Timer::builder().build().unwrap());
            let mut sleep = timer.try_sleep(HOUR);
            let held = Arc::new(Mutex::new(None));
            let drops = held.clone();
            let waker = on_wake(move || drop(drops.lock().unwrap().take()));
            assert!(poll_with(&mut sleep, &waker).is_pending());
            let mut slot = held.lock().unwrap();
            sleep.reset_at(timer.now() + ms(5));
            *slot = Some((timer, sleep));
            drop(slot);
            runtime.block_on(until(|| Handle::current().metrics().num_alive_tasks() == 0));
            assert!(held.lock().unwrap().is_none());
        });
    }
}

/// Any dependency can get a handle to the default timer of the runtime or of the process, so it must not be able to end
/// that timer.
/// A bug that this crate had: it returned a timer that had ended.
#[test]
fn no_timer_is_built_on_a_runtime_that_was_shut_down() {
    for runtime in both_flavours() {
        let handle = runtime.handle().clone();
        drop(runtime);
        let _entered = handle.enter();
        for built in [Timer::builder().build(), Timer::builder().install()] {
            assert!(built.unwrap_err().to_string().contains("shut down"));
        }
    }
}

#[test]
fn a_default_timer_cannot_be_shut_down() {
    let outside = Timer::current();
    assert_eq!(outside, thread::spawn(Timer::current).join().unwrap());
    for runtime in both_flavours() {
        let outside = outside.clone();
        must_end(move || {
            runtime.block_on(async {
                let _waits = polled(sleep(HOUR));
                let timer = Timer::current();
                assert_ne!(timer, outside);
                assert_eq!((timer.shutdown(), outside.shutdown()), (0, 0));
                assert_eq!((timer.metrics().pending(), &timer), (1, &Timer::current()));
                // A default timer works without a handle, even if it was installed.
                drop(timer);
                tokio::spawn(sleep(ms(1))).await.unwrap();
                drop(Timer::builder().install().unwrap());
                tokio::spawn(sleep(ms(1))).await.unwrap();
            });
            block_on(outside.sleep(ms(1)));
            assert!(outside.metrics().fired() >= 1);
        });
    }
}

#[test]
fn a_fallible_sleep_fails_when_its_timers_runtime_ends() {
    let timers: [fn() -> Timer; 3] =
        [Timer::current, || Timer::builder().build().unwrap(), || Timer::builder().install().unwrap()];
    for create in timers {
        for home in both_flavours() {
            must_end(move || {
                let timer = inside(&home, create);
                let handle = home.handle().clone();
                let [here, elsewhere, there] = [(); 3].map(|()| timer.try_sleep(HOUR));
                let another = multi_thread(1);
                let elsewhere = another.spawn(elsewhere);
                let threads = [thread::spawn(|| block_on(here)), thread::spawn(|| current_thread().block_on(there))];
                wait_until(|| timer.metrics().pending() == 3);
                drop(home);
                let told = threads.map(|thread| thread.join().unwrap());
                assert!(told.iter().all(|told| told.as_ref().is_err_and(Error::is_shutdown)));
                assert!(another.block_on(elsewhere).unwrap().is_err_and(|error| error.is_shutdown()));
                let _entered = handle.enter();
                assert!(is_refused(&mut timer.try_sleep(HOUR)));
                assert_eq!(timer.shutdown(), 0);
            });
        }
    }
}

/// A bug that this crate had: the sleep had not fired any more, and panicked.
#[test]
fn a_sleep_that_has_fired_is_over_though_its_timer_has_ended_and_the_next_uses_its_memory() {
    must_end(|| {
        let runtime = current_thread();
        let built = || inside(&runtime, || Timer::builder().build().unwrap());
        let timer = built();
        let (mut fired, woken) = watched(timer.sleep(ms(1)));
        runtime.block_on(until(|| woken.count() > 0));
        timer.shutdown();
        drop(timer);
        runtime.block_on(until(|| Handle::current().metrics().num_alive_tasks() == 0));
        let _next = built();
        assert!(fired.is_elapsed() && poll(&mut fired).is_ready());
    });
}

/// Creates timers on new runtimes. If two shared memory, they would count and end each other's sleeps.
fn assert_apart() {
    let runtimes = [(); 6].map(|()| current_thread());
    let timers = runtimes.each_ref().map(|runtime| inside(runtime, || Timer::builder().install().unwrap()));
    let _naps = timers.each_ref().map(|timer| polled(timer.sleep(HOUR)));
    assert!(timers.iter().all(|timer| timer.metrics().pending() == 1));
    assert!(timers.iter().all(|timer| timer.shutdown() == 1));
}

/// A bug that this crate had: creating a reporter for a timer that had ended returned the timer's memory to the pool a
/// second time, so two runtimes shared one timer.
#[test]
fn old_handles_do_not_affect_the_next_timer() {
    must_end(|| {
        let mut ended = Vec::new();
        for sleeps in 0..12 {
            let default = current_thread().block_on(async {
                for _ in 0..sleeps {
                    sleep(Duration::from_micros(50)).await;
                }
                Timer::current()
            });
            ended.push((default, sleeps));
            let (built, _runtime) = undriven(Timer::builder().shards(1));
            built.shutdown();
            ended.push((built, 0));
            for (timer, most) in &ended {
                let metrics = timer.metrics();
                assert!(timer.is_shutdown());
                assert_eq!((timer.shutdown(), metrics.pending()), (0, 0));
                let counts = [metrics.registered(), metrics.fired(), metrics.lateness().count()];
                assert!(counts.iter().all(|count| count <= most), "{counts:?} of another timer");
                assert!(is_refused(&mut timer.try_sleep(HOUR)));
                #[cfg(feature = "metrics")]
                timer.reporter("x").publish();
            }
            assert_apart();
        }
    });
}

/// A bug that this crate had: the next timer got the memory of one that was still shutting down.
#[test]
fn a_shutdown_affects_no_other_timer() {
    must_end(|| {
        let runtime = multi_thread(2);
        let others = |over: &AtomicBool| {
            let _entered = runtime.enter();
            while !over.load(SeqCst) {
                let timer = Timer::builder().shards(3).build().unwrap();
                block_on(timer.sleep(Duration::from_micros(300)));
                timer.shutdown();
            }
        };
        beside(1, others, || {
            let _entered = runtime.enter();
            for _ in 0..8 {
                let timer = Timer::builder().shards(3).build().unwrap();
                let _sleeps: Vec<_> = (0..5_000).map(|_| polled(timer.sleep(HOUR))).collect();
                assert_eq!(timer.shutdown(), 5_000);
            }
        });
    });
}
