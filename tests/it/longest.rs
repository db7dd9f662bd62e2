//! The longest durations and the latest instants: nothing panics, wraps or ends early.

use std::future::pending;

use crate::common::{HOUR, YEAR, longest, ms, must_end_on, paused, poll, polled, watched, word_from_another_thread};
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use hairspring::MissedTickBehavior::{Burst, Delay, Skip};
use hairspring::io::TimeoutStream;
use hairspring::{
    Deadline, DeadlineMap, DelayQueue, Duration, Instant, StreamExt, Timer, boot, interval, interval_at, sleep,
    sleep_until, timeout, timeout_at, wall,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

/// Futures by name.
macro_rules! futures {
    ($($future:expr),* $(,)?) => { vec![$((stringify!($future), $future.map(|_| ()).boxed_local())),*] };
}

type Named = (&'static str, LocalBoxFuture<'static, ()>);

/// Futures with a limit that is too long to end, as a duration or as an instant.
fn endless(long: Duration, far: Instant) -> Vec<Named> {
    let one = || stream::iter([()]).chain(stream::pending());
    // A connection would end if its peer were dropped.
    let (ours, peer) = duplex(4);
    let (mut reader, mut writer) = tokio::io::split(
        TimeoutStream::new(ours)
            .with_read_timeout(long)
            .with_write_timeout(long)
            .with_idle_timeout(long)
            .with_deadline(far),
    );
    let [mut unpolled, mut waiting] = [sleep(ms(1)), sleep(ms(1))];
    unpolled.reset_at(far);
    assert!(poll(&mut waiting).is_pending());
    waiting.reset_at(far);
    assert!([&unpolled, &waiting, &sleep(long)].iter().all(|sleep| sleep.deadline() > Instant::now() + 100 * YEAR));
    #[cfg_attr(not(feature = "hyper"), allow(unused_mut))]
    let mut all = futures![
        sleep_until(far),
        boot::sleep_until(boot::Instant::now() + long),
        unpolled,
        waiting,
        timeout(long, pending::<()>()),
        timeout_at(far, pending::<()>()),
        Timer::current().timeout(long, pending::<()>()).fallible(),
        boot::timeout(long, pending::<()>()),
        async move {
            let mut reset = timeout(ms(1), pending::<()>());
            reset.reset_at(far);
            reset.await
        },
        Deadline::after(long).limit(pending::<()>()),
        Deadline::at(far).limit(pending::<()>()),
        (Deadline::after(ms(1)) + long).limit(pending::<()>()),
        async move { reader.read_u8().await },
        async move { (writer.write_all(b"12345").await, drop(peer)) },
        async move { stream::pending::<()>().timeout(long).next().await },
        async move { stream::iter([(), ()]).throttle(long).count().await },
        async move { one().chunks_timeout(9, long).next().await },
        async move { one().debounce(long).next().await },
        async move { one().debounce(long).max_wait(long).next().await },
        async move {
            let mut queue = DelayQueue::new();
            let keys = [queue.insert((), long), queue.insert_at((), far), queue.insert((), ms(1))];
            queue.reset(&keys[2], long);
            queue.reset_at(&keys[0], far);
            queue.next().await
        },
        async move {
            let (map, mut expirations) = DeadlineMap::new();
            map.insert(1, (), long);
            map.insert_at(2, (), far);
            map.insert(3, (), ms(1));
            assert!(map.touch(&3, long) && map.touch_at(&1, far) && map.remaining(&3) > Some(100 * YEAR));
            expirations.next().await
        },
    ];
    #[cfg(feature = "hyper")]
    all.extend(futures![hyper::rt::Timer::sleep(&hairspring::hyper::HyperTimer::new(), long)]);
    all
}

/// Intervals whose second tick is too far away to come.
fn endless_intervals(long: Duration) -> Vec<Named> {
    let far = Instant::now() + long;
    let mut all = futures![async move {
        let mut ticks = boot::interval(long);
        ticks.tick().await;
        ticks.tick().await;
    }];
    for behavior in [Burst, Delay, Skip] {
        let tick_twice = move |mut ticks: hairspring::Interval| async move {
            ticks.set_missed_tick_behavior(behavior);
            ticks.tick().await;
            ticks.tick().await;
        };
        all.extend(futures![
            tick_twice(interval(long)),
            tick_twice(interval_at(Instant::now() - HOUR, long)),
            tick_twice(interval_at(far, long)),
            async move {
                let mut reset = interval(ms(1));
                reset.reset_after(long);
                reset.tick().await
            },
        ]);
    }
    all
}

/// All of these futures and intervals.
fn all_endless(long: Duration) -> Vec<Named> {
    let mut all = endless(long, Instant::now() + long);
    all.extend(endless(long, Instant::from(Deadline::NEVER)));
    all.extend(endless_intervals(long));
    all
}

fn too_long() -> impl Iterator<Item = Duration> {
    longest().into_iter().chain([Duration::from_nanos(u64::MAX), Duration::from_secs(1 << 40)])
}

/// tokio 5183, 2667, 4495, 6634: `Duration::MAX` panicked. netty 7760: the largest delay fired immediately.
#[tokio::test(start_paused = true)]
async fn no_future_with_the_longest_limit_ends() {
    for long in too_long() {
        let far = Instant::now() + long;
        assert_eq!(TimeoutStream::new(duplex(4).0).with_read_timeout(long).read_timeout(), Some(long));
        let mut all = all_endless(long);
        for _ in 0..2 {
            for (name, future) in &mut all {
                assert!(poll(future).is_pending(), "{name} ended, with {long:?}");
            }
            sleep(35 * YEAR).await;
        }
        let mut reset = polled(sleep(long));
        reset.reset_at(Instant::now());
        assert!(poll(&mut reset).is_ready(), "after a reset from the end of time to now");
        let mut past = polled(boot::sleep(long));
        past.reset_at(boot::Instant::now() - long);
        assert!(poll(&mut past).is_ready(), "an instant before the machine started has passed");
        assert!(Deadline::at(far).remaining() > 100 * YEAR && !Deadline::after(long).has_passed());
    }
}

/// As with tokio, whose longest sleeps end after 30 years. A bug that this crate had: such a test did not end.
#[test]
fn the_longest_sleep_ends_after_500_years() {
    for long in too_long() {
        must_end_on(paused(), async move || {
            let start = Instant::now();
            let mut naps = [sleep(long).boxed_local(), Timer::current().sleep(long).boxed_local()];
            let mut nap_with_suspensions = boot::sleep(long);
            sleep(400 * YEAR).await;
            assert!(naps.iter_mut().all(|nap| poll(nap).is_pending()) && poll(&mut nap_with_suspensions).is_pending());
            for nap in naps {
                nap.await;
            }
            nap_with_suspensions.await;
            assert_eq!(start.elapsed().as_secs(), 500 * YEAR.as_secs());
        });
    }
}

/// A bug that this crate had: a clock that advances by itself moved by 500 years while `timeout(Duration::MAX, ..)`
/// waited for a thread or a socket. With tokio, such a timeout has no timer.
#[tokio::test(start_paused = true)]
async fn a_limit_that_stands_for_none_does_not_move_a_paused_clock() {
    let years = 501 * YEAR;
    let mut reset = interval(ms(1));
    reset.reset_after(years);
    let mut all = futures![
        timeout(years, pending::<()>()),
        boot::timeout(years, pending::<()>()),
        async move { reset.tick().await },
        async move { interval(years).skip(1).next().await },
        async move { boot::interval(years).skip(1).next().await },
        Deadline::after(years).limit(pending::<()>()),
        (Deadline::after(ms(1)) + years).limit(pending::<()>()),
    ];
    all.extend(too_long().flat_map(all_endless));
    for (name, mut future) in all {
        let start = Instant::now();
        assert!(poll(&mut future).is_pending());
        word_from_another_thread(ms(1)).await;
        assert_eq!(start.elapsed(), Duration::ZERO, "{name}");
    }
}

/// A bug that this crate had: the clocks that jump took a deadline that is 501 years ahead for one that never comes.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_comes_is_met_however_late() {
    let far = 501 * YEAR;
    let naps = [
        boot::sleep_until(boot::Instant::now() + far).boxed_local(),
        wall::sleep_until(wall::now() + far).boxed_local(),
        sleep_until(Instant::now() + far).boxed_local(),
    ];
    let mut naps = naps.map(watched);
    for _ in 0..2 {
        tokio::time::advance(251 * YEAR).await;
    }
    sleep(ms(1)).await;
    for (nap, woken) in &mut naps {
        assert!(woken.count() > 0 && poll(nap).is_ready());
    }
}

/// A bug that this crate had: at the last tick, which is also "never", a turn took each empty shard for one that is
/// due, and did not end.
#[tokio::test(start_paused = true)]
async fn a_clock_that_tokio_moves_beyond_the_last_tick_goes_on() {
    let [ours, tokios] = [tokio::spawn(sleep(HOUR)), tokio::spawn(async { tokio::time::sleep(HOUR).await })];
    tokio::task::yield_now().await;
    tokio::time::advance(560 * YEAR).await;
    ours.await.unwrap();
    tokios.await.unwrap();
    // tokio advances the clock once nothing runs.
    tokio::time::sleep(ms(1)).await;
    sleep(ms(1)).await;
    // Those of the clocks that jump, which do not pass that tick without a jump, were polled for ever.
    assert!(poll(&mut boot::sleep(HOUR)).is_pending());
    assert!(poll(&mut wall::sleep_until(wall::now() + HOUR)).is_pending());
}
