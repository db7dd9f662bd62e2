//! Intervals: when they tick and which instant they return, what they do about missed ticks, and resets.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use crate::common::{HOUR, Wakes, YEAR, both_flavours, longest, ms, must_end, paused, settle};
use futures::{Stream, StreamExt};
use hairspring::MissedTickBehavior::{self, Burst, Delay, Skip};
use hairspring::{Duration, Instant, Interval, Timer, interval, interval_at, sleep, timeout};

/// Polls for one tick, with a waker that does nothing.
fn poll(interval: &mut Interval) -> Poll<Instant> {
    interval.poll_tick(&mut Context::from_waker(Waker::noop()))
}

fn with(behavior: MissedTickBehavior, mut interval: Interval) -> Interval {
    interval.set_missed_tick_behavior(behavior);
    interval
}

#[tokio::test(start_paused = true)]
async fn it_ticks_at_once_and_then_every_period_with_the_scheduled_instant() {
    let start = Instant::now();
    let mut ticks = interval(ms(300));
    for round in 0..10 {
        assert_eq!(ticks.tick().await, start + round * ms(300));
        assert_eq!(start.elapsed(), round * ms(300));
    }
}

#[tokio::test(start_paused = true)]
async fn interval_at_ticks_first_at_its_start() {
    let start = Instant::now() + ms(70);
    let mut ticks = interval_at(start, ms(10));
    assert!(poll(&mut ticks).is_pending());
    for round in 0..5 {
        assert_eq!(ticks.tick().await, start + round * ms(10));
        assert_eq!(Instant::now(), start + round * ms(10));
    }
    let past = Instant::now() - ms(25);
    let mut ticks = interval_at(past, ms(10));
    for round in 0..4 {
        assert_eq!(ticks.tick().await, past + round * ms(10), "a start in the past is caught up with");
    }
}

#[test]
fn by_the_systems_clock_no_tick_is_early() {
    for runtime in both_flavours() {
        must_end(move || {
            runtime.block_on(async {
                let start = std::time::Instant::now();
                let mut ticks = interval(Duration::from_micros(1_300));
                let first = ticks.tick().await;
                assert!(first.into_std() >= start);
                for round in 1..20 {
                    let tick = ticks.tick().await;
                    assert_eq!(tick, first + round * Duration::from_micros(1_300));
                    assert!(std::time::Instant::now() >= tick.into_std());
                }
            });
        });
    }
}

/// Drives an interval of 10 ms with a task that is busy for the given time after each tick. Returns when each tick came
/// and when it was scheduled, in milliseconds after the start.
async fn drift(behavior: MissedTickBehavior, busy: [u64; 6]) -> Vec<(u128, u128)> {
    let start = Instant::now();
    let mut ticks = with(behavior, interval(ms(10)));
    let mut came = Vec::new();
    for busy in busy {
        let scheduled = ticks.tick().await;
        came.push((start.elapsed().as_millis(), (scheduled - start).as_millis()));
        tokio::time::advance(ms(busy)).await;
    }
    came
}

/// tokio 6029: `Delay` drifted, because every slightly late tick postponed all that followed.
#[tokio::test(start_paused = true)]
async fn what_each_behaviour_makes_of_a_late_task() {
    type Row = (MissedTickBehavior, [u64; 6], [(u128, u128); 6]);
    let table: [Row; 9] = [
        // In time: no behaviour makes a difference.
        (Burst, [3; 6], [(0, 0), (10, 10), (20, 20), (30, 30), (40, 40), (50, 50)]),
        (Delay, [3; 6], [(0, 0), (10, 10), (20, 20), (30, 30), (40, 40), (50, 50)]),
        (Skip, [3; 6], [(0, 0), (10, 10), (20, 20), (30, 30), (40, 40), (50, 50)]),
        // 5 ms late at most is not late: the schedule stays.
        (Burst, [15, 0, 14, 0, 0, 0], [(0, 0), (15, 10), (20, 20), (34, 30), (40, 40), (50, 50)]),
        (Delay, [15, 0, 14, 0, 0, 0], [(0, 0), (15, 10), (20, 20), (34, 30), (40, 40), (50, 50)]),
        (Skip, [15, 0, 14, 0, 0, 0], [(0, 0), (15, 10), (20, 20), (34, 30), (40, 40), (50, 50)]),
        // More is.
        (Burst, [25, 0, 0, 0, 0, 0], [(0, 0), (25, 10), (25, 20), (30, 30), (40, 40), (50, 50)]),
        (Delay, [25, 0, 17, 0, 0, 0], [(0, 0), (25, 10), (35, 35), (52, 45), (62, 62), (72, 72)]),
        (Skip, [25, 0, 16, 0, 0, 0], [(0, 0), (25, 10), (30, 30), (46, 40), (50, 50), (60, 60)]),
    ];
    for (behavior, busy, expected) in table {
        assert_eq!(drift(behavior, busy).await, expected, "{behavior:?}, busy for {busy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn late_means_more_than_5_ms_to_the_nanosecond() {
    for (late, is_late) in [(ms(5), false), (ms(5) + Duration::from_nanos(1), true)] {
        for behavior in [Delay, Skip] {
            let start = Instant::now();
            let mut ticks = with(behavior, interval(ms(10)));
            ticks.tick().await;
            tokio::time::advance(ms(20) + late).await;
            assert_eq!(poll(&mut ticks), Poll::Ready(start + ms(10)), "late in any case, by 10 ms more");
            let now = Instant::now();
            let next = if behavior == Delay { now + ms(10) } else { start + ms(30) };
            assert_eq!(ticks.tick().await, next);

            tokio::time::advance(next + ms(10) + late - Instant::now()).await;
            assert_eq!(poll(&mut ticks), Poll::Ready(next + ms(10)));
            let after = match (is_late, behavior) {
                (true, Delay) => next + ms(20) + late,
                _ => next + ms(20),
            };
            assert_eq!(ticks.tick().await, after, "{behavior:?}, {late:?} late");
        }
    }
}

/// tokio 3721: a storm of ticks after six hours asleep. Only `Burst` makes one.
#[tokio::test(start_paused = true)]
async fn after_six_hours_asleep() {
    for (behavior, at_once) in [(Burst, 6 * 3_600), (Delay, 1), (Skip, 1)] {
        let start = Instant::now();
        let mut ticks = with(behavior, interval(ms(1_000)));
        assert_eq!(ticks.tick().await, start);
        tokio::time::advance(6 * HOUR + ms(999)).await;
        let mut came = 0;
        while let Ok(tick) = timeout(Duration::ZERO, tokio::task::coop::unconstrained(ticks.tick())).await {
            came += 1;
            assert_eq!(tick, start + came * ms(1_000));
        }
        assert_eq!(came, at_once, "{behavior:?}");
        let next = match behavior {
            Delay => start + 6 * HOUR + ms(1_999),
            Burst | Skip => start + 6 * HOUR + ms(1_000),
        };
        assert_eq!(ticks.tick().await, next, "{behavior:?}");
        assert_eq!(Instant::now(), next);
    }
}

/// The storm must let other tasks run: each tick spends budget.
#[test]
fn a_burst_lets_others_progress() {
    must_end(|| {
        let runtime = paused();
        runtime.block_on(async {
            let ticked = Arc::new(AtomicUsize::new(0));
            let count = ticked.clone();
            tokio::time::advance(HOUR).await;
            let mut ticks = interval_at(Instant::now() - HOUR, ms(1));
            tokio::spawn(async move {
                loop {
                    ticks.tick().await;
                    count.fetch_add(1, SeqCst);
                }
            });
            let mut before = 0;
            for _ in 0..100 {
                tokio::task::yield_now().await;
                let now = ticked.load(SeqCst);
                assert!(now - before < 10_000, "{} ticks in one go", now - before);
                before = now;
            }
            assert!(before > 0);
        });
    });
}

/// tokio 5553: the interval was armed again as soon as a tick had come, and woke a task that had not asked for the
/// next.
#[tokio::test(start_paused = true)]
async fn no_task_is_woken_that_has_not_polled_for_a_tick() {
    let (woken, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    let mut ticks = interval(ms(10));
    assert!(ticks.poll_tick(&mut cx).is_ready());
    tokio::time::advance(ms(500)).await;
    settle().await;
    assert_eq!(woken.count(), 0, "after a tick that was ready at once");
    while ticks.poll_tick(&mut cx).is_ready() {}
    tokio::time::advance(ms(10)).await;
    settle().await;
    assert_eq!(woken.count(), 1, "it did ask now");
    assert!(ticks.poll_tick(&mut cx).is_ready());
    tokio::time::advance(ms(500)).await;
    settle().await;
    assert_eq!(woken.count(), 1, "after a tick that it waited for");
}

#[tokio::test(start_paused = true)]
async fn resets_put_the_next_tick_where_they_say() {
    let mut ticks = interval(ms(100));
    let start = ticks.tick().await;
    tokio::time::advance(ms(30)).await;
    ticks.reset();
    assert_eq!(ticks.tick().await, start + ms(130), "one period from then");
    ticks.reset_immediately();
    assert_eq!(ticks.tick().await, start + ms(130));
    assert_eq!(ticks.tick().await, start + ms(230));
    ticks.reset_after(ms(7));
    assert_eq!(ticks.tick().await, start + ms(237));
    assert_eq!(ticks.tick().await, start + ms(337));
    ticks.reset_at(start + ms(1_000));
    assert_eq!(ticks.tick().await, start + ms(1_000));
    assert_eq!(ticks.tick().await, start + ms(1_100), "and every period from there");
    ticks.reset_at(start + ms(1_095));
    assert_eq!(ticks.tick().await, start + ms(1_095), "in the past");
    assert_eq!(ticks.period(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_before_a_reset_is_forgotten() {
    let mut ticks = interval(ms(10));
    ticks.tick().await;
    tokio::time::advance(HOUR).await;
    ticks.reset();
    let now = Instant::now();
    assert_eq!(ticks.tick().await, now + ms(10));
    assert_eq!(ticks.tick().await, now + ms(20));
}

#[tokio::test(start_paused = true)]
async fn a_reset_wakes_a_task_that_waits_without_another_poll() {
    type Reset = fn(&mut Interval);
    let resets: [(Reset, Duration); 4] = [
        (Interval::reset_immediately, ms(0)),
        (|ticks| ticks.reset_after(ms(20)), ms(20)),
        (|ticks| ticks.reset_at(Instant::now() + ms(30)), ms(30)),
        (Interval::reset, HOUR),
    ];
    for (reset, after) in resets {
        let (woken, waker) = Wakes::new();
        let mut cx = Context::from_waker(&waker);
        let mut ticks = interval(HOUR);
        assert!(ticks.poll_tick(&mut cx).is_ready() && ticks.poll_tick(&mut cx).is_pending());
        tokio::time::advance(ms(5)).await;
        reset(&mut ticks);
        settle().await;
        if after > ms(0) {
            tokio::time::advance(after.saturating_sub(ms(1))).await;
            settle().await;
            assert_eq!(woken.count(), 0);
            tokio::time::advance(ms(1)).await;
            settle().await;
        }
        assert_eq!(woken.count(), 1, "reset to {after:?} later");
        assert!(poll(&mut ticks).is_ready());
    }
}

#[tokio::test(start_paused = true)]
async fn a_tick_whose_future_was_dropped_is_not_lost() {
    let start = Instant::now();
    let mut ticks = interval(ms(10));
    ticks.tick().await;
    for _ in 0..3 {
        assert!(timeout(ms(2), ticks.tick()).await.is_err());
        drop(ticks.tick());
    }
    assert_eq!(ticks.tick().await, start + ms(10));
    assert_eq!(start.elapsed(), ms(10));
}

/// tokio 5183, 2667, 4495, 6634: the longest periods and resets panicked.
#[tokio::test(start_paused = true)]
async fn the_longest_periods_tick_once() {
    for behavior in [Burst, Delay, Skip] {
        for long in longest().into_iter().chain([Duration::from_nanos(u64::MAX), Duration::from_secs(1 << 40)]) {
            let now = Instant::now();
            let mut ticks = with(behavior, interval(long));
            assert_eq!(poll(&mut ticks), Poll::Ready(now));
            assert!(poll(&mut ticks).is_pending());
            let mut late = with(behavior, interval_at(now - HOUR, long));
            assert_eq!(poll(&mut late), Poll::Ready(now - HOUR), "{behavior:?}, an hour late");
            let mut far = with(behavior, interval_at(now + long, long));
            let mut reset = with(behavior, interval(ms(1)));
            reset.reset_after(long);
            let mut reset_at = with(behavior, interval(long));
            reset_at.reset();
            let all = [&mut ticks, &mut late, &mut far, &mut reset, &mut reset_at];
            assert!(all.into_iter().all(|ticks| poll(ticks).is_pending()));
            sleep(YEAR).await;
            let all = [ticks, late, far, reset, reset_at];
            assert!(all.into_iter().all(|mut ticks| poll(&mut ticks).is_pending()), "{behavior:?}, {long:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_shortest_period_ticks_at_every_nanosecond() {
    let start = Instant::now();
    let mut ticks = interval(Duration::from_nanos(1));
    ticks.tick().await;
    tokio::time::advance(Duration::from_nanos(50)).await;
    for nanos in 1..=50 {
        assert_eq!(poll(&mut ticks), Poll::Ready(start + Duration::from_nanos(nanos)));
    }
    assert!(poll(&mut ticks).is_pending());
}

#[tokio::test(start_paused = true)]
async fn it_is_a_stream_that_never_ends() {
    let start = Instant::now();
    let mut ticks = interval(ms(5));
    assert_eq!(Stream::size_hint(&ticks), (usize::MAX, None));
    let first: Vec<_> = (&mut ticks).take(4).collect().await;
    assert_eq!(first, [0, 5, 10, 15].map(|at| start + ms(at)));
    assert_eq!(ticks.tick().await, start + ms(20), "it goes on where the stream was left");
    assert_eq!(ticks.next().await, Some(start + ms(25)));
    assert!(Pin::new(&mut ticks).poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[tokio::test(start_paused = true)]
async fn its_settings_can_be_read_and_set() {
    let mut ticks = interval(ms(30));
    assert_eq!(ticks.period(), ms(30));
    assert_eq!(ticks.missed_tick_behavior(), Burst);
    assert_eq!(MissedTickBehavior::default(), Burst);
    for behavior in [Skip, Delay, Burst] {
        ticks.set_missed_tick_behavior(behavior);
        assert_eq!(ticks.missed_tick_behavior(), behavior);
    }
    has_all(&ticks);
    has_all(&Burst);
}

fn has_all<T: Send + Sync + Unpin + Debug>(_: &T) {}

#[test]
fn an_interval_goes_on_when_its_runtime_has_gone() {
    for runtime in both_flavours() {
        must_end(move || {
            let mut ticks = interval(ms(10));
            let first = runtime.block_on(ticks.tick());
            runtime.block_on(async { assert!(poll(&mut ticks).is_pending() || Instant::now() >= first + ms(10)) });
            drop(runtime);
            let next = crate::common::current_thread();
            let second = next.block_on(ticks.tick());
            assert!(second >= first + ms(10) && Instant::now() >= second);
            next.block_on(ticks.tick());
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_timers_own_intervals_are_the_same() {
    let timer = Timer::current();
    let start = timer.now();
    let mut ticks = timer.interval(ms(10));
    assert_eq!(ticks.tick().await, start);
    assert_eq!(ticks.tick().await, start + ms(10));
    assert_eq!(timer.interval_at(start + ms(15), ms(1)).tick().await, start + ms(15));
    assert_eq!(start.elapsed(), ms(15));
}
