//! Each behaviour of `StreamExt` and its streams.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll};

use crate::common::{HOUR, both_flavours, longest, ms, must_end, panic_message};
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use hairspring::error::Elapsed;
use hairspring::stream::{self as ours, IntervalStream};
use hairspring::{Duration, Instant, StreamExt, Timer, interval, interval_at, sleep};
use tokio::sync::mpsc;
use tokio::time::advance;
use tokio_test::{assert_pending, assert_ready, assert_ready_eq, task};

/// Items of a channel.
struct Items<T>(mpsc::UnboundedReceiver<T>);

impl<T> Stream for Items<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(cx)
    }
}

fn channel<T>() -> (mpsc::UnboundedSender<T>, Items<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Items(receiver))
}

/// Panics if it is polled after its end.
struct Once(bool);

impl Stream for Once {
    type Item = u8;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u8>> {
        assert!(!std::mem::replace(&mut self.0, true), "polled after its end");
        Poll::Ready(None)
    }
}

/// 1, 2, 3, .. of which every second takes 200 ms.
fn every_second_is_slow(last: u32) -> impl Stream<Item = u32> {
    stream::iter(1..=last).then(|number| async move {
        if number % 2 == 0 {
            sleep(ms(200)).await;
        }
        number
    })
}

#[tokio::test(start_paused = true)]
async fn a_timeout_gives_an_error_before_each_item_that_is_late() {
    let items: Vec<_> = every_second_is_slow(4).timeout(ms(100)).collect().await;
    let late = || Err(Elapsed::new());
    assert_eq!(items, [Ok(1), late(), Ok(2), Ok(3), late(), Ok(4)]);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_counts_from_its_making_and_then_from_each_item() {
    let (sender, items) = channel();
    let mut items = task::spawn(items.timeout(ms(100)));
    advance(ms(60)).await;
    assert_pending!(items.poll_next());
    advance(ms(39)).await;
    assert_pending!(items.poll_next());
    advance(ms(1)).await;
    assert!(items.is_woken());
    assert_ready_eq!(items.poll_next(), Some(Err(Elapsed::new())));
    // Once for each silence.
    advance(HOUR).await;
    assert_pending!(items.poll_next());
    sender.send(1).unwrap();
    assert_ready_eq!(items.poll_next(), Some(Ok(1)));
    assert_pending!(items.poll_next());
    for _ in 0..10 {
        advance(ms(99)).await;
        assert_pending!(items.poll_next());
        sender.send(2).unwrap();
        assert_ready_eq!(items.poll_next(), Some(Ok(2)));
        assert_pending!(items.poll_next());
    }
    advance(ms(99)).await;
    assert_pending!(items.poll_next());
    advance(ms(1)).await;
    assert_ready_eq!(items.poll_next(), Some(Err(Elapsed::new())));
    drop(sender);
    assert_ready_eq!(items.poll_next(), None);
    assert_ready_eq!(items.poll_next(), None);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_there_wins_however_late_the_task_is() {
    let (sender, items) = channel();
    let mut items = task::spawn(items.timeout(ms(100)));
    assert_pending!(items.poll_next());
    sender.send(1).unwrap();
    advance(HOUR).await;
    assert_ready_eq!(items.poll_next(), Some(Ok(1)));
    assert_pending!(items.poll_next());
}

/// On every runtime and on none, where the timer is not called for each item.
#[test]
fn a_timeout_is_never_early() {
    async fn silent() {
        let start = Instant::now();
        let (sender, items) = channel();
        let mut items = pin!(items.timeout(ms(20)));
        for number in 0..5 {
            sleep(ms(5)).await;
            sender.send(number).unwrap();
            assert_eq!(items.next().await, Some(Ok(number)));
        }
        // The last item came 25 ms after the start at the earliest.
        assert_eq!(items.next().await, Some(Err(Elapsed::new())));
        assert!(start.elapsed() >= ms(45));
    }
    must_end(|| {
        for runtime in both_flavours() {
            runtime.block_on(silent());
        }
        futures::executor::block_on(silent());
    });
}

#[tokio::test(start_paused = true)]
async fn limits_may_be_zero_or_endless() {
    let (sender, items) = channel();
    let mut at_once = task::spawn(items.timeout(Duration::ZERO));
    assert_ready_eq!(at_once.poll_next(), Some(Err(Elapsed::new())));
    assert_pending!(at_once.poll_next());
    sender.send(1).unwrap();
    assert_ready_eq!(at_once.poll_next(), Some(Ok(1)));
    assert_ready_eq!(at_once.poll_next(), Some(Err(Elapsed::new())));
    for duration in longest() {
        let slow = || stream::once(async { sleep(HOUR).await }).chain(stream::iter([()]));
        assert_eq!(slow().timeout(duration).collect::<Vec<_>>().await, [Ok(()), Ok(())]);
        assert_eq!(slow().chunks_timeout(9, duration).collect::<Vec<_>>().await, [vec![(); 2]]);
        assert_eq!(slow().debounce(duration).count().await, 1);
        let mut throttled = task::spawn(stream::iter([1, 2]).throttle(duration));
        assert_ready_eq!(throttled.poll_next(), Some(1));
        assert_pending!(throttled.poll_next());
        assert_eq!(stream::iter([1, 2]).throttle(duration).into_inner().count().await, 2);
    }
    let start = Instant::now();
    assert_eq!(stream::iter(0..9).throttle(Duration::ZERO).count().await, 9);
    assert_eq!(stream::iter(0..9).chunks_timeout(4, Duration::ZERO).count().await, 3);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[test]
fn a_stream_is_not_polled_after_its_end() {
    let mut ended = task::spawn(Once(false).timeout(HOUR));
    assert_eq!((assert_ready!(ended.poll_next()), assert_ready!(ended.poll_next())), (None, None));
    let mut ended = task::spawn(Once(false).timeout_repeating(interval(HOUR)));
    assert_eq!((assert_ready!(ended.poll_next()), assert_ready!(ended.poll_next())), (None, None));
    let mut ended = task::spawn(Once(false).chunks_timeout(3, HOUR));
    assert_eq!((assert_ready!(ended.poll_next()), assert_ready!(ended.poll_next())), (None, None));
    let mut ended = task::spawn(Once(false).debounce(HOUR));
    assert_eq!((assert_ready!(ended.poll_next()), assert_ready!(ended.poll_next())), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_repeating_timeout_gives_an_error_each_tick_until_an_item_comes() {
    let (sender, items) = channel();
    let mut items = task::spawn(items.timeout_repeating(interval_at(Instant::now() + ms(100), ms(100))));
    assert_pending!(items.poll_next());
    for _ in 0..3 {
        advance(ms(100)).await;
        assert_ready_eq!(items.poll_next(), Some(Err(Elapsed::new())));
        assert_pending!(items.poll_next());
    }
    advance(ms(50)).await;
    sender.send(1).unwrap();
    assert_ready_eq!(items.poll_next(), Some(Ok(1)));
    advance(ms(99)).await;
    assert_pending!(items.poll_next());
    advance(ms(1)).await;
    assert_ready_eq!(items.poll_next(), Some(Err(Elapsed::new())));
    drop(sender);
    assert_ready_eq!(items.poll_next(), None);
    // An interval ticks at once.
    let mut silent = task::spawn(stream::pending::<()>().timeout_repeating(interval(HOUR)));
    assert_ready_eq!(silent.poll_next(), Some(Err(Elapsed::new())));
    assert_pending!(silent.poll_next());
}

#[tokio::test(start_paused = true)]
async fn a_throttle_keeps_items_apart() {
    let mut items = task::spawn(stream::repeat(()).throttle(ms(100)));
    assert_ready!(items.poll_next());
    assert_pending!(items.poll_next());
    advance(ms(99)).await;
    assert_pending!(items.poll_next());
    advance(ms(1)).await;
    assert!(items.is_woken());
    assert_ready!(items.poll_next());
    assert_pending!(items.poll_next());
    // Counted from when the item was taken, not from when it could have been.
    advance(ms(500)).await;
    assert_ready!(items.poll_next());
    assert_pending!(items.poll_next());
    let start = Instant::now();
    assert_eq!(stream::iter(0..4).throttle(ms(100)).count().await, 4);
    // Item by item, and then the end, which is known only then.
    assert_eq!(start.elapsed(), ms(400));
}

#[tokio::test(start_paused = true)]
async fn a_throttled_stream_is_polled_only_when_its_time_has_come() {
    let (sender, items) = channel();
    let mut items = task::spawn(items.throttle(ms(100)));
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    assert_ready_eq!(items.poll_next(), Some(1));
    assert_pending!(items.poll_next());
    assert_eq!(items.get_ref().0.len(), 1, "it waits in the channel");
    assert_eq!(items.get_mut().0.try_recv(), Ok(2));
    // The time passes once, not again for an item that comes later.
    advance(ms(100)).await;
    assert_pending!(items.poll_next());
    sender.send(3).unwrap();
    assert_ready_eq!(items.poll_next(), Some(3));
}

#[tokio::test(start_paused = true)]
async fn chunks_come_when_they_are_full_or_old_or_the_last() {
    let (sender, items) = channel();
    let send = |numbers: &[u32]| numbers.iter().for_each(|number| sender.send(*number).unwrap());
    let mut chunks = task::spawn(items.chunks_timeout(3, ms(100)));
    assert_pending!(chunks.poll_next());
    send(&[1, 2, 3, 4]);
    assert_ready_eq!(chunks.poll_next(), Some(vec![1, 2, 3]));
    assert_pending!(chunks.poll_next());
    // The time counts from the first item of a chunk.
    advance(ms(60)).await;
    send(&[5]);
    assert_pending!(chunks.poll_next());
    advance(ms(40)).await;
    assert!(chunks.is_woken());
    assert_ready_eq!(chunks.poll_next(), Some(vec![4, 5]));
    advance(HOUR).await;
    assert_pending!(chunks.poll_next());
    send(&[6]);
    assert_pending!(chunks.poll_next());
    drop(sender);
    assert_ready_eq!(chunks.poll_next(), Some(vec![6]));
    assert_ready_eq!(chunks.poll_next(), None);
}

#[tokio::test(start_paused = true)]
async fn what_was_gathered_can_be_taken_back() {
    let (sender, mut items) = channel();
    let mut chunks = task::spawn((&mut items).chunks_timeout(10, ms(100)));
    for number in 1..=4 {
        sender.send(number).unwrap();
    }
    assert_pending!(chunks.poll_next());
    assert_eq!(chunks.enter(|_, chunks| chunks.into_remainder()), [1, 2, 3, 4]);
    drop(chunks);
    sender.send(5).unwrap();
    assert_eq!(items.next().await, Some(5));
}

#[test]
fn chunks_of_none_are_refused_and_those_of_any_size_take_no_room_before() {
    let said = panic_message(|| stream::iter([1]).chunks_timeout(0, HOUR));
    assert_eq!(said, "`max_size` must be non-zero.");
    let mut chunks = task::spawn(stream::iter([1, 2]).chunks_timeout(usize::MAX, HOUR));
    assert_ready_eq!(chunks.poll_next(), Some(vec![1, 2]));
}

#[tokio::test(start_paused = true)]
async fn a_debounce_gives_the_last_item_before_each_silence() {
    let (sender, items) = channel();
    let mut items = task::spawn(items.debounce(ms(100)));
    assert_pending!(items.poll_next());
    advance(HOUR).await;
    assert_pending!(items.poll_next());
    for number in 1..=5 {
        sender.send(number).unwrap();
        assert_pending!(items.poll_next());
        advance(ms(99)).await;
        assert_pending!(items.poll_next());
    }
    advance(ms(1)).await;
    assert!(items.is_woken());
    assert_ready_eq!(items.poll_next(), Some(5));
    advance(HOUR).await;
    assert_pending!(items.poll_next());
    sender.send(6).unwrap();
    sender.send(7).unwrap();
    assert_pending!(items.poll_next());
    drop(sender);
    assert_ready_eq!(items.poll_next(), Some(7));
    assert_ready_eq!(items.poll_next(), None);
}

#[tokio::test(start_paused = true)]
async fn a_debounce_of_zero_gives_what_came_together_once() {
    let (sender, items) = channel();
    let mut items = task::spawn(items.debounce(Duration::ZERO));
    for number in 1..=3 {
        sender.send(number).unwrap();
    }
    assert_ready_eq!(items.poll_next(), Some(3));
    assert_pending!(items.poll_next());
}

#[tokio::test(start_paused = true)]
async fn a_debounce_with_a_longest_wait_gives_the_latest_item_though_there_is_no_silence() {
    let (sender, items) = channel();
    let mut items = task::spawn(items.debounce(ms(100)).max_wait(ms(250)));
    // The wait counts from the first item that is held back, each time.
    for first in [10_u64, 20] {
        advance(HOUR).await;
        for number in first..first + 5 {
            sender.send(number).unwrap();
            assert_pending!(items.poll_next());
            advance(ms(50)).await;
        }
        assert!(items.is_woken());
        sender.send(first + 5).unwrap();
        assert_ready_eq!(items.poll_next(), Some(first + 5), "what has just come is the latest");
        assert_pending!(items.poll_next());
    }
    // Silence still ends a wait before that. The task is woken without another item.
    for pauses in [&[99][..], &[99, 99, 51]] {
        for pause in pauses {
            sender.send(*pause).unwrap();
            assert_pending!(items.poll_next());
            advance(ms(*pause)).await;
        }
        assert_pending!(items.poll_next());
        advance(ms(1)).await;
        assert!(items.is_woken());
        assert_ready_eq!(items.poll_next(), pauses.last().copied());
    }
    // Zero holds nothing back that need not wait for another item, and no wait is too long.
    for (longest, given) in [(Duration::ZERO, Poll::Ready(Some(3))), (Duration::MAX, Poll::Pending)] {
        let together = stream::iter([1, 2, 3]).chain(stream::pending());
        let mut items = task::spawn(together.debounce(HOUR).max_wait(longest));
        assert_eq!(items.poll_next(), given);
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttle_for_the_latest_gives_the_first_at_once_and_then_one_each_period() {
    let (sender, items) = channel();
    let mut items = task::spawn(items.throttle_latest(ms(100)));
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    assert_ready_eq!(items.poll_next(), Some(1));
    assert_pending!(items.poll_next());
    advance(ms(99)).await;
    sender.send(3).unwrap();
    assert_pending!(items.poll_next());
    advance(ms(1)).await;
    assert!(items.is_woken());
    assert_ready_eq!(items.poll_next(), Some(3));
    // After a longer rest an item need not wait.
    advance(ms(101)).await;
    assert_pending!(items.poll_next());
    sender.send(4).unwrap();
    assert_ready_eq!(items.poll_next(), Some(4));
    // A task that is late gets the latest, not what has waited longest.
    (5..=7).for_each(|number| sender.send(number).unwrap());
    advance(HOUR).await;
    assert_ready_eq!(items.poll_next(), Some(7));
    // The last one comes, too, and no earlier than others.
    sender.send(8).unwrap();
    drop(sender);
    assert_pending!(items.poll_next());
    advance(ms(99)).await;
    assert_pending!(items.poll_next());
    advance(ms(1)).await;
    assert!(items.is_woken());
    assert_ready_eq!(items.poll_next(), Some(8));
    assert_ready_eq!(items.poll_next(), None);

    let mut of_zero = task::spawn(stream::iter(1..=3).chain(stream::pending()).throttle_latest(Duration::ZERO));
    assert_ready_eq!(of_zero.poll_next(), Some(3));
    let mut of_ages = task::spawn(stream::iter(1..=3).throttle_latest(Duration::MAX));
    assert_ready_eq!(of_ages.poll_next(), Some(1));
    assert_pending!(of_ages.poll_next());
    assert_eq!(stream::empty::<u8>().throttle_latest(HOUR).next().await, None);
}

/// Each item takes a millisecond, in which the stream does not wait.
#[tokio::test(start_paused = true)]
async fn no_item_is_held_for_long_though_others_are_always_ready() {
    let busy = || stream::iter(0..1_000_000).inspect(|_| assert!(advance(ms(1)).now_or_never().is_none()));
    let (mut saved, mut shown) = (busy().debounce(HOUR).max_wait(ms(1_000)), busy().throttle_latest(ms(1_000)));
    for (items, before) in [(&mut saved, None), (&mut shown, Some(0))] {
        assert_eq!(items.next().now_or_never().flatten(), before);
        for _ in 0..2 {
            let start = Instant::now();
            assert!(items.next().await.is_some());
            assert!((800..=1_128).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
        }
    }
}

/// What `debounce` with `max_wait`, or `throttle_latest`, yields and when, in units of time: looks at every instant.
#[cfg(feature = "test-util")]
fn held_back(arrivals: &[u64], end: u64, rule: Rule) -> Vec<(u64, usize)> {
    let mut yielded: Vec<(u64, usize)> = Vec::new();
    let mut held: Option<(u64, u64, usize)> = None;
    for now in 0.. {
        for (item, &at) in arrivals.iter().enumerate().filter(|(_, at)| **at == now) {
            if matches!(rule, Rule::ThrottleLatest(_)) && yielded.is_empty() {
                yielded.push((now, item));
            } else {
                held = Some((held.map_or(now, |(first, ..)| first), at, item));
            }
        }
        if now >= end && held.is_none() {
            break;
        }
        let is_due = |(first, last, _): &(u64, u64, usize)| match rule {
            Rule::Debounce(quiet, longest) => now >= last + quiet || now >= first + longest || now >= end,
            Rule::ThrottleLatest(period) => yielded.last().is_none_or(|(before, _)| now >= before + period),
        };
        if let Some((_, _, item)) = held.take_if(|held| is_due(held)) {
            yielded.push((now, item));
        }
    }
    yielded
}

#[cfg(feature = "test-util")]
#[derive(Debug, Clone, Copy)]
enum Rule {
    Debounce(u64, u64),
    ThrottleLatest(u64),
}

#[cfg(feature = "test-util")]
#[test]
fn what_is_held_back_comes_when_a_simple_model_says_to_the_nanosecond() {
    const UNIT: Duration = Duration::from_nanos(1_234_567);
    crate::common::for_seeds(300, |seed| {
        let mut random = crate::common::Random::new(seed);
        let mut now = 0;
        let arrivals: Vec<u64> = (0..random.below(30))
            .map(|_| {
                now += random.below(2) * random.below(12);
                now
            })
            .collect();
        let end = now + random.below(12);
        let rule = if random.below(2) == 0 {
            Rule::Debounce(random.below(12), random.below(40))
        } else {
            Rule::ThrottleLatest(1 + random.below(12))
        };
        crate::common::paused().block_on(async {
            let start = Instant::now();
            let after = |units| start + UNIT * u32::try_from(units).unwrap();
            let times = arrivals.iter().copied().chain([end]).enumerate();
            let count = arrivals.len();
            let items = stream::iter(times).then(|(item, at)| async move {
                hairspring::sleep_until(after(at)).await;
                item
            });
            let items = Box::pin(items.take_while(|item| std::future::ready(*item < count)));
            let items = match rule {
                Rule::Debounce(quiet, longest) => {
                    items.debounce(UNIT * quiet.try_into().unwrap()).max_wait(UNIT * longest.try_into().unwrap())
                }
                // A longest wait changes nothing here.
                Rule::ThrottleLatest(period) => {
                    items.throttle_latest(UNIT * period.try_into().unwrap()).max_wait(random.duration(50 * UNIT))
                }
            };
            let yielded: Vec<_> = items.map(|item| (Instant::now(), item)).collect().await;
            let model = held_back(&arrivals, end, rule);
            let model: Vec<_> = model.into_iter().map(|(at, item)| (after(at), item)).collect();
            assert_eq!(yielded, model, "{rule:?} {arrivals:?} {end}");
        });
    });
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_go_by_a_timer_of_ones_own() {
    let timer = Timer::builder().build().unwrap();
    let items = || stream::iter([1, 2]).chain(stream::pending());
    let start = Instant::now();
    let mut late = ours::Timeout::with_timer(stream::pending::<()>(), ms(100), &timer);
    assert_eq!(late.next().await, Some(Err(Elapsed::new())));
    let apart = ours::Throttle::with_timer(items(), ms(100), &timer);
    assert_eq!(apart.take(2).collect::<Vec<_>>().await, [1, 2]);
    assert_eq!(ours::ChunksTimeout::with_timer(items(), 3, ms(100), &timer).next().await, Some(vec![1, 2]));
    assert_eq!(ours::Debounce::with_timer(items(), ms(100), &timer).next().await, Some(2));
    let mut repeating = stream::pending::<()>().timeout_repeating(timer.interval(ms(100)));
    assert_eq!(repeating.next().await, Some(Err(Elapsed::new())));
    assert_eq!(repeating.next().await, Some(Err(Elapsed::new())));
    assert_eq!(start.elapsed(), ms(500));
    assert_eq!((timer.metrics().fired(), Timer::current().metrics().registered()), (5, 0));
    let said = panic_message(|| ours::ChunksTimeout::with_timer(stream::iter([1]), 0, HOUR, &timer));
    assert_eq!(said, "`max_size` must be non-zero.");
    let coarse = Timer::builder().resolution(ms(1_000)).build().unwrap();
    let mut ended = task::spawn(ours::Debounce::with_timer(stream::iter([1, 2]), ms(100), &coarse));
    assert_ready_eq!(ended.poll_next(), Some(2), "at the end, whatever the timer's resolution");
}

/// A poll takes some of these items. That its timer fires later than they may wait does not keep it from the others.
#[tokio::test(start_paused = true)]
async fn items_that_are_ready_do_not_wait_for_a_timer_with_a_resolution() {
    let coarse = Timer::builder().resolution(ms(1_000)).build().unwrap();
    let start = Instant::now();
    let burst = stream::iter(0..1_000).chain(stream::pending());
    let mut saves = ours::Debounce::with_timer(burst, HOUR, &coarse).max_wait(Duration::ZERO);
    assert_eq!(saves.next().await, Some(999));
    assert!(start.elapsed() <= ms(1_000));
}

/// A stream of items that are ready, until another task has run.
fn ready_until_another_task_runs() -> impl Stream<Item = ()> + Unpin {
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    tokio::spawn(async move { stops.store(true, SeqCst) });
    stream::poll_fn(move |_| Poll::Ready((!stop.load(SeqCst)).then_some(())))
}

/// A bug that this crate had: `chunks_timeout` over a stream that is always ready never yielded and never timed out.
#[test]
fn items_that_are_always_ready_let_other_tasks_run() {
    must_end(|| {
        both_flavours()[0].block_on(async {
            assert_eq!(ready_until_another_task_runs().debounce(HOUR).next().await, Some(()));
            let chunk = ready_until_another_task_runs().chunks_timeout(1_000_000, HOUR).next().await;
            assert!(chunk.is_some_and(|chunk| chunk.len() < 1_000_000));
        });
    });
}

/// Each item takes a millisecond, in which the stream does not wait.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_chunk_counts_though_items_are_always_ready() {
    let busy = stream::iter(0..1_000_000).inspect(|_| assert!(advance(ms(1)).now_or_never().is_none()));
    let mut chunks = busy.chunks_timeout(usize::MAX, ms(1_000));
    for _ in 0..2 {
        let start = Instant::now();
        let chunk = chunks.next().await.unwrap();
        assert!((1_000..1_128).contains(&chunk.len()), "{}", chunk.len());
        assert_eq!(start.elapsed().as_millis(), chunk.len() as u128);
    }
    // What is ready before the time has passed is one chunk, however much it is.
    let mut together = pin!(stream::iter(0..1_000).chain(stream::pending()).chunks_timeout(2_000, HOUR));
    assert_eq!(together.next().await.map(|chunk| chunk.len()), Some(1_000));
}

#[test]
fn the_streams_say_how_many_items_to_expect() {
    let three = || stream::iter([1, 2, 3]);
    assert_eq!(three().timeout(HOUR).size_hint(), (3, Some(7)));
    assert_eq!(three().timeout_repeating(interval(HOUR)).size_hint(), (3, None));
    assert_eq!(three().throttle(HOUR).size_hint(), (3, Some(3)));
    assert_eq!(three().chunks_timeout(2, HOUR).size_hint(), (1, Some(3)));
    assert_eq!(three().debounce(HOUR).size_hint(), (1, Some(3)));
    assert_eq!(three().throttle_latest(HOUR).size_hint(), (1, Some(3)));
    let endless = || stream::repeat(1);
    assert_eq!(endless().timeout(HOUR).size_hint(), (usize::MAX, None));
    assert_eq!(endless().debounce(HOUR).size_hint(), (1, None));
    let mut begun = task::spawn(three().chain(stream::pending()).chunks_timeout(4, HOUR));
    assert_pending!(begun.poll_next());
    assert_eq!(begun.size_hint(), (1, Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_wrapped_interval_is_an_interval() {
    let start = Instant::now() + ms(5);
    let mut ticks = IntervalStream::new(interval_at(start, ms(10)));
    assert_eq!(ticks.next().await, Some(start));
    assert_eq!(ticks.next().await, Some(start + ms(10)));
    assert_eq!(ticks.size_hint(), (usize::MAX, None));
    ticks.as_mut().reset_after(ms(1));
    assert_eq!(ticks.next().await, Some(start + ms(11)));
    assert_eq!((ticks.as_ref().period(), ticks.into_inner().tick().await), (ms(10), start + ms(21)));
}

/// A paused clock stops for nothing that was put off.
#[tokio::test(start_paused = true)]
async fn an_item_moves_the_clock_to_no_earlier_limit() {
    let (sender, items) = channel();
    let seen = tokio::spawn(async move {
        let mut items = pin!(items.timeout(ms(100)));
        assert_eq!(items.next().await, Some(Ok(1)));
        assert_eq!(items.next().await, Some(Err(Elapsed::new())));
        Instant::now()
    });
    let start = Instant::now();
    sleep(ms(50)).await;
    sender.send(1).unwrap();
    assert_eq!(seen.await.unwrap() - start, ms(150));
}
