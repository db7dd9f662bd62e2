//! `StreamExt` and its streams.

use std::pin::pin;

use crate::common::{HOUR, YEAR, ms, panic_message};
use futures::stream::{self, FusedStream};
use futures::{FutureExt as _, Stream, StreamExt as _};
use hairspring::stream::IntervalStream;
use hairspring::{DeadlineMap, DelayQueue, Duration, Instant, StreamExt, Timer, interval, interval_at, wall};
use tokio::time::advance;
use tokio_test::{assert_pending, assert_ready_eq, task};

#[test]
fn chunks_may_have_any_size_but_zero() {
    let message = panic_message(|| stream::iter([1]).chunks_timeout(0, HOUR));
    assert_eq!(message, "`max_size` must be non-zero.");
    let mut chunks = task::spawn(stream::iter([1, 2]).chunks_timeout(usize::MAX, HOUR));
    assert_ready_eq!(chunks.poll_next(), Some(vec![1, 2]));
}

/// Items that are ready each time they are polled. Each takes a millisecond.
fn busy() -> impl Stream<Item = usize> + Unpin {
    stream::iter(0..1_000_000).inspect(|_| assert!(advance(ms(1)).now_or_never().is_none()))
}

#[tokio::test(start_paused = true)]
async fn limits_hold_while_items_are_always_ready() {
    let mut saved = busy().debounce(HOUR).max_wait(ms(1_000));
    assert_eq!(saved.next().now_or_never(), None);
    for _ in 0..2 {
        let start = Instant::now();
        assert!(saved.next().await.is_some());
        assert!((800..=1_256).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }
    let mut chunks = busy().chunks_timeout(usize::MAX, ms(1_000));
    for _ in 0..2 {
        let start = Instant::now();
        let chunk = chunks.next().await.unwrap();
        assert!((1_000..1_256).contains(&chunk.len()), "{}", chunk.len());
        assert_eq!(start.elapsed().as_millis(), chunk.len() as u128);
    }
    let mut together = pin!(stream::iter(0..1_000).chain(stream::pending()).chunks_timeout(2_000, HOUR));
    assert_eq!(together.next().await.map(|chunk| chunk.len()), Some(1_000), "all items that were ready in time");
}

#[tokio::test(start_paused = true)]
async fn ready_items_do_not_wait_for_a_coarse_timer() {
    let coarse = Timer::builder().resolution(ms(1_000)).build().unwrap();
    let mut ended = task::spawn(stream::iter([1, 2]).debounce(ms(100)).with_timer(&coarse));
    assert_ready_eq!(ended.poll_next(), Some(2), "at the end");
    let start = Instant::now();
    let burst = stream::iter(0..1_000).chain(stream::pending());
    let mut saves = burst.debounce(HOUR).with_timer(&coarse).max_wait(Duration::ZERO);
    assert_eq!(saves.next().await, Some(999));
    assert!(start.elapsed() <= ms(1_000));
}

#[test]
fn size_hints() {
    let three = || stream::iter([1, 2, 3]);
    assert_eq!(three().timeout(HOUR).size_hint(), (3, Some(7)));
    assert_eq!(three().timeout_repeating(interval(HOUR)).size_hint(), (3, None));
    assert_eq!(three().throttle(HOUR).size_hint(), (3, Some(3)));
    assert_eq!(three().chunks_timeout(2, HOUR).size_hint(), (1, Some(3)));
    assert_eq!(three().debounce(HOUR).size_hint(), (1, Some(3)));
    assert_eq!(interval(HOUR).size_hint(), (usize::MAX, None));
    assert_eq!(wall::interval_aligned(HOUR).size_hint(), (usize::MAX, None));
    assert_eq!(stream::repeat(1).timeout(HOUR).size_hint(), (usize::MAX, None));
    assert_eq!(stream::repeat(1).debounce(HOUR).size_hint(), (1, None));
    let mut begun = task::spawn(three().chain(stream::pending()).chunks_timeout(4, HOUR));
    assert_pending!(begun.poll_next());
    assert_eq!(begun.size_hint(), (1, Some(1)));
}

/// Its branches need streams that say whether they have ended.
#[tokio::test(start_paused = true)]
async fn the_select_of_futures_takes_what_comes_and_knows_the_end() {
    let (map, mut expirations) = DeadlineMap::new();
    map.insert("expires", (), ms(30));
    let mut queue = DelayQueue::new();
    queue.insert("queued", ms(20));
    let (mut ticks, mut millennia) = (interval_at(Instant::now() + ms(10), HOUR), wall::interval_aligned(1_000 * YEAR));
    drop(map);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        futures::select! {
            _ = ticks.select_next_some() => seen.push("tick"),
            due = queue.select_next_some() => seen.push(due.into_inner()),
            (key, ()) = expirations.select_next_some() => seen.push(key),
            _ = millennia.select_next_some() => unreachable!("it is in the year 2970"),
        }
    }
    assert_eq!(seen, ["tick", "queued", "expires"]);
    futures::select! {
        _ = queue.select_next_some() => unreachable!("it is empty"),
        _ = expirations.select_next_some() => unreachable!("nothing can be inserted"),
        complete => {}
    }
    queue.insert("again", ms(1));
    assert!(!queue.is_terminated());
}

#[tokio::test(start_paused = true)]
async fn a_wrapped_interval_is_an_interval() {
    let start = Instant::now() + ms(5);
    let mut ticks = IntervalStream::new(interval_at(start, ms(10)));
    assert_eq!(ticks.next().await, Some(start));
    assert_eq!(ticks.size_hint(), (usize::MAX, None));
    ticks.as_mut().reset_after(ms(1));
    assert_eq!(ticks.next().await, Some(start + ms(1)));
    assert_eq!((ticks.as_ref().period(), ticks.into_inner().tick().await), (ms(10), start + ms(11)));
}
