//! Resets and drops: at every point of a sleep's life, to every deadline, and compared with a model.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Waker;

use crate::common::{
    HOUR, Random, Wakes, both_flavours, current_thread, inside, ms, multi_thread, must_end, on_wake, paused, poll,
    poll_with, settle,
};
use hairspring::{Duration, Instant, Sleep, sleep, sleep_until};

#[tokio::test(start_paused = true)]
async fn a_waiting_sleep_wakes_at_its_new_deadline_without_another_poll() {
    let start = Instant::now();
    for (first, second) in [(ms(1_000), ms(100)), (ms(100), ms(1_000)), (ms(100), ms(100)), (10 * HOUR, ms(1))] {
        let (woken, waker) = Wakes::new();
        let now = Instant::now();
        let mut sleep = sleep(first);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        Pin::new(&mut sleep).reset(now + second);
        assert_eq!(sleep.deadline(), now + second);
        settle().await;
        tokio::time::advance(second.saturating_sub(Duration::from_nanos(1))).await;
        settle().await;
        assert_eq!(woken.count(), 0, "{first:?} to {second:?}, a nanosecond before");
        tokio::time::advance(ms(1)).await;
        settle().await;
        assert_eq!(woken.count(), 1, "{first:?} to {second:?}");
        assert!(poll(&mut sleep).is_ready());
        tokio::time::advance(20 * HOUR).await;
        settle().await;
        assert_eq!(woken.count(), 1, "the first deadline is forgotten");
    }
    assert!(start.elapsed() > HOUR);
}

/// tokio 2290: a reset into the past did not wake the task.
#[tokio::test(start_paused = true)]
async fn a_reset_to_the_past_or_the_present_wakes_at_once() {
    tokio::time::advance(HOUR).await;
    let now = Instant::now();
    for deadline in [now, now - Duration::from_nanos(1), now - ms(1), now - HOUR, now - Duration::MAX] {
        let (woken, waker) = Wakes::new();
        let mut sleep = sleep(ms(50));
        assert!(poll_with(&mut sleep, &waker).is_pending());
        settle().await;
        sleep.reset_at(deadline);
        settle().await;
        assert_eq!(woken.count(), 1, "{:?} ago", now - deadline);
        assert_eq!(Instant::now(), now);
        assert!(poll(&mut sleep).is_ready());
    }
}

/// As above with the system's clock: another thread resets while the runtime sleeps.
#[test]
fn a_reset_to_the_past_wakes_a_sleeping_runtime() {
    for runtime in both_flavours() {
        must_end(move || {
            let (woken, waker) = Wakes::new();
            let guard = runtime.enter();
            let mut sleep = sleep(HOUR);
            assert!(poll_with(&mut sleep, &waker).is_pending());
            drop(guard);
            let watcher = std::thread::spawn(move || {
                std::thread::sleep(ms(5));
                sleep.reset_at(Instant::now() - HOUR);
                sleep
            });
            runtime.block_on(async {
                while woken.count() == 0 {
                    hairspring::sleep(ms(1)).await;
                }
            });
            assert_eq!(woken.count(), 1);
            assert!(poll(&mut watcher.join().unwrap()).is_ready());
        });
    }
}

/// tokio 8169: a reset inside another runtime moved the timer there.
#[test]
fn a_reset_inside_another_runtime_leaves_it_where_it_waits() {
    for other in both_flavours() {
        must_end(move || {
            let home = multi_thread(1);
            let (woken, waker) = Wakes::new();
            let mut sleep = sleep(HOUR);
            inside(&home, || assert!(poll_with(&mut sleep, &waker).is_pending()));
            other.block_on(async { sleep.reset_at(Instant::now() + ms(20)) });
            drop(other);
            woken.wait();
            assert!(home.block_on(async { poll(&mut sleep).is_ready() }));
            assert_eq!(woken.count(), 1);
        });
    }
}

/// The same, but the runtime that the sleep waits on ends first.
#[test]
fn made_in_one_runtime_and_reset_in_another_it_outlives_the_first() {
    for home in both_flavours() {
        must_end(move || {
            let other = current_thread();
            let mut sleep = sleep(HOUR);
            inside(&home, || assert!(poll(&mut sleep).is_pending()));
            let deadline = Instant::now() + ms(10);
            other.block_on(async { sleep.reset_at(deadline) });
            drop(home);
            other.block_on(&mut sleep);
            assert!(Instant::now() >= deadline);
        });
    }
}

/// tokio 849, 868 and go 47329, 47762: missed wake-ups after resets, and ignored resets to an earlier deadline.
#[tokio::test(start_paused = true)]
async fn random_resets_agree_with_a_model() {
    struct Modelled {
        sleep: Sleep,
        woken: Arc<Wakes>,
        waker: Waker,
        /// How many wake-ups there must be: one for each time it became due while waiting.
        expected: usize,
        waiting: bool,
    }
    let mut random = Random::new(849);
    let mut all: Vec<Modelled> = Vec::new();
    for _ in 0..48 {
        let (woken, waker) = Wakes::new();
        all.push(Modelled { sleep: sleep(HOUR), woken, waker, expected: 0, waiting: false });
    }
    for round in 0..4_000 {
        let now = Instant::now();
        for _ in 0..random.below(6) {
            let one = usize::try_from(random.below(48)).unwrap();
            let one = &mut all[one];
            match random.below(8) {
                0..=2 => {
                    let was_due = one.sleep.deadline() <= now;
                    assert_eq!(poll_with(&mut one.sleep, &one.waker).is_ready(), was_due);
                    one.waiting = !was_due;
                }
                3 => {
                    one.sleep = sleep(ms(random.below(200)));
                    one.waiting = false;
                }
                4 => one.sleep.reset_at(now - random.duration(ms(100))),
                5 => one.sleep.reset_at(now + ms(random.below(2_000))),
                6 => one.sleep.reset_at(now + ms(random.below(64))),
                _ => one.sleep.reset_at(now + ms(random.below(150))),
            }
            // Into the past: whether it is woken in the reset or soon after, it is once.
            if one.waiting && one.sleep.deadline() <= now && one.woken.count() > one.expected {
                one.waiting = false;
                one.expected += 1;
            }
        }
        if random.below(3) == 0 {
            settle().await;
        }
        // Whole milliseconds: tokio looks at a paused clock's timers only then.
        tokio::time::advance(ms(random.below(20))).await;
        settle().await;
        let now = Instant::now();
        for (index, one) in all.iter_mut().enumerate() {
            if one.waiting && one.sleep.deadline() <= now {
                one.waiting = false;
                one.expected += 1;
            }
            assert_eq!(one.woken.count(), one.expected, "round {round}, sleep {index}");
        }
    }
    let total: usize = all.iter().map(|one| one.expected).sum();
    assert!(total > 500, "the storm was a calm: {total}");
}

/// go 47329 with the system's clock: tasks on several threads reset back and forth, and end with a short duration.
#[test]
fn a_storm_of_resets_ends_with_every_sleep_awake() {
    must_end(|| {
        multi_thread(3).block_on(async {
            let tasks = (0..64).map(|seed| {
                tokio::spawn(async move {
                    let mut random = Random::new(seed);
                    let mut sleep = sleep(HOUR);
                    for _ in 0..20 {
                        for _ in 0..20 {
                            let after = if random.below(2) == 0 { HOUR } else { ms(2) };
                            sleep.reset_at(Instant::now() + random.duration(after));
                            if random.below(3) == 0 {
                                let _ = futures::poll!(&mut sleep);
                            }
                        }
                        let deadline = Instant::now() + random.duration(ms(2));
                        sleep.reset_at(deadline);
                        (&mut sleep).await;
                        assert!(Instant::now() >= deadline);
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        });
    });
}

type Operation = fn(&mut Sleep, &Waker);

/// Brings a new sleep into each of its possible states.
const STATES: [(&str, Operation); 2] = [
    ("fresh", |_, _| {}),
    ("waiting", |sleep, waker| {
        let _ = poll_with(sleep, waker);
    }),
];

const OPERATIONS: [(&str, Operation); 8] = [
    ("poll", |sleep, waker| {
        let _ = poll_with(sleep, waker);
    }),
    ("reset to the past", |sleep, _| sleep.reset_at(Instant::now() - HOUR)),
    ("reset to now", |sleep, _| sleep.reset_at(Instant::now())),
    ("reset to the same", |sleep, _| sleep.reset_at(sleep.deadline())),
    ("reset to sooner", |sleep, _| sleep.reset_at(Instant::now() + ms(1))),
    ("reset to later", |sleep, _| sleep.reset_at(Instant::now() + HOUR)),
    ("reset to the end of time", |sleep, _| sleep.reset_at(Instant::now() + Duration::MAX)),
    ("look", |sleep, _| {
        let _ = (sleep.is_elapsed(), sleep.deadline(), format!("{sleep:?}"));
    }),
];

/// tokio 2473, 3270: a panic on resetting a sleep that had expired but was not polled. Here every three operations in
/// every state.
#[tokio::test(start_paused = true)]
async fn every_operation_works_in_every_state() {
    for (state, prepare) in STATES {
        for expired in [false, true] {
            for completed in [false, true] {
                for which in 0..8 * 8 * 8 {
                    let operations = [which / 64, which / 8 % 8, which % 8].map(|index| OPERATIONS[index]);
                    let names = operations.map(|(name, _)| name);
                    let (woken, waker) = Wakes::new();
                    let mut sleep = sleep(ms(2));
                    prepare(&mut sleep, &waker);
                    if expired {
                        tokio::time::advance(ms(3)).await;
                    }
                    if completed {
                        (&mut sleep).await;
                    }
                    for (_, operation) in operations {
                        operation(&mut sleep, &waker);
                    }
                    let told = format!("{state}, expired {expired}, completed {completed}, then {names:?}");
                    let due = sleep.deadline() <= Instant::now();
                    let before = woken.count();
                    assert_eq!(poll_with(&mut sleep, &waker).is_ready(), due, "{told}");
                    assert_eq!(sleep.is_elapsed(), due, "{told}");
                    sleep.reset_at(Instant::now() + ms(5));
                    assert!(poll_with(&mut sleep, &waker).is_pending(), "{told}");
                    tokio::time::advance(ms(5)).await;
                    settle().await;
                    assert!(woken.count() > before, "{told}");
                    assert!(poll(&mut sleep).is_ready(), "{told}");
                }
            }
        }
    }
}

/// The same after the sleep's runtime has ended: only a poll panics, and a new runtime can take the sleep over.
#[test]
fn every_operation_works_after_its_runtime_has_gone() {
    for (state, prepare) in STATES {
        for (name, operation) in &OPERATIONS[1..] {
            let home = current_thread();
            let mut sleep = inside(&home, || sleep(HOUR));
            inside(&home, || prepare(&mut sleep, Waker::noop()));
            drop(home);
            operation(&mut sleep, Waker::noop());
            let due = sleep.deadline() <= Instant::now();
            current_thread().block_on(async {
                assert!(!due || poll(&mut sleep).is_ready(), "{state}, then {name}");
                sleep.reset_at(Instant::now() + ms(1));
                assert!(!sleep.is_elapsed());
                (&mut sleep).await;
            });
        }
    }
}

/// tokio 3229: a panic when a sleep was dropped in the millisecond in which it was due. Here it is reset and dropped
/// within microseconds of firing.
#[test]
fn dropped_or_reset_about_its_deadline_it_wakes_at_most_once() {
    must_end(|| {
        let runtime = multi_thread(2);
        let _guard = runtime.enter();
        let mut random = Random::new(3229);
        let late = Arc::new(AtomicUsize::new(0));
        for round in 0..400 {
            let sleeps: Vec<_> = (0..20)
                .map(|_| {
                    let (woken, waker) = Wakes::new();
                    let mut sleep = sleep(random.duration(ms(1)));
                    let _ = poll_with(&mut sleep, &waker);
                    (sleep, woken)
                })
                .collect();
            std::thread::sleep(random.duration(ms(1)));
            for (mut sleep, woken) in sleeps {
                if round % 2 == 0 {
                    let far = Instant::now() + HOUR;
                    sleep.reset_at(far);
                    let late = late.clone();
                    let waker = on_wake(move || {
                        late.fetch_add(1, SeqCst);
                    });
                    assert!(poll_with(&mut sleep, &waker).is_pending(), "cancelled, and yet it has fired");
                    assert_eq!(sleep.deadline(), far);
                }
                drop(sleep);
                assert!(woken.count() <= 1);
            }
        }
        assert_eq!(late.load(SeqCst), 0, "go 37196: both cancelled and fired");
    });
}

#[test]
fn a_reset_from_a_thread_without_runtime_counts() {
    must_end(|| {
        let runtime = multi_thread(1);
        let (woken, waker) = Wakes::new();
        let mut sleep = inside(&runtime, || sleep(HOUR));
        inside(&runtime, || assert!(poll_with(&mut sleep, &waker).is_pending()));
        sleep.reset_at(Instant::now() + ms(1));
        woken.wait();
    });
}

#[test]
fn a_completed_sleep_is_used_again_and_again() {
    paused().block_on(async {
        let start = Instant::now();
        let mut sleep = sleep_until(start);
        for round in 0..1_000 {
            (&mut sleep).await;
            assert_eq!(start.elapsed(), round * ms(10));
            let next = sleep.deadline() + ms(10);
            sleep.reset_at(next);
        }
    });
}
