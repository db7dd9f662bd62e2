//! `StreamExt` and its streams.

use std::fmt::Debug;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll};

use crate::common::{HOUR, ms, must_end_on, panic_message, poll};
use futures::stream::BoxStream;
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use hairspring::stream::IntervalStream;
use hairspring::{Duration, Instant, StreamExt, Timer, interval, interval_at, wall};
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

#[test]
fn a_stream_is_not_polled_after_its_end() {
    /// Panics if it is polled after its end.
    fn once() -> impl Stream<Item = u8> + Unpin {
        let mut has_ended = false;
        stream::poll_fn(move |_| {
            assert!(!std::mem::replace(&mut has_ended, true), "polled after its end");
            Poll::Ready(None)
        })
    }
    fn ends<T>(name: &str, stream: impl Stream<Item = T>) {
        let mut stream = task::spawn(stream);
        assert!((0..2).all(|_| assert_ready!(stream.poll_next()).is_none()), "{name}");
    }
    ends("timeout", once().timeout(HOUR));
    ends("timeout_repeating", once().timeout_repeating(interval(HOUR)));
    ends("chunks_timeout", once().chunks_timeout(3, HOUR));
    ends("debounce", once().debounce(HOUR));
    ends("throttle_latest", once().throttle_latest(HOUR));
}

#[test]
fn chunks_may_have_any_size_but_zero() {
    let message = panic_message(|| stream::iter([1]).chunks_timeout(0, HOUR));
    assert_eq!(message, "`max_size` must be non-zero.");
    let mut chunks = task::spawn(stream::iter([1, 2]).chunks_timeout(usize::MAX, HOUR));
    assert_ready_eq!(chunks.poll_next(), Some(vec![1, 2]));
    let mut unfinished = task::spawn(stream::iter(1..=4).chain(stream::pending()).chunks_timeout(10, HOUR));
    assert_pending!(unfinished.poll_next());
    assert_eq!(unfinished.enter(|_, chunks| chunks.into_remainder()), [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_late_task_gets_its_items() {
    let (sender, items) = channel();
    let mut latest = task::spawn(items.throttle_latest(ms(100)));
    sender.send(1).unwrap();
    assert_ready_eq!(latest.poll_next(), Some(1));
    sender.send(2).unwrap();
    assert_pending!(latest.poll_next());
    (3..=5).for_each(|number| sender.send(number).unwrap());
    advance(HOUR).await;
    assert!(latest.is_woken());
    assert_ready_eq!(latest.poll_next(), Some(5));

    let (sender, items) = channel();
    let mut limited = task::spawn(items.timeout(ms(100)));
    assert_pending!(limited.poll_next());
    sender.send(1).unwrap();
    advance(HOUR).await;
    assert_ready_eq!(limited.poll_next(), Some(Ok(1)), "an item wins over a limit that has passed");

    let (sender, items) = channel();
    let mut saved = task::spawn(items.debounce(ms(100)).max_wait(ms(250)));
    sender.send(1).unwrap();
    assert_pending!(saved.poll_next());
    advance(HOUR).await;
    assert!(saved.is_woken());
    sender.send(2).unwrap();
    assert_ready_eq!(saved.poll_next(), Some(2));
}

/// Items that are ready each time they are polled. Each takes a millisecond.
fn busy() -> impl Stream<Item = usize> + Unpin {
    stream::iter(0..1_000_000).inspect(|_| assert!(advance(ms(1)).now_or_never().is_none()))
}

#[tokio::test(start_paused = true)]
async fn limits_hold_while_items_are_always_ready() {
    let saved = busy().debounce(HOUR).max_wait(ms(1_000)).boxed_local();
    let shown = busy().throttle_latest(ms(1_000)).boxed_local();
    for (mut items, before) in [(saved, None), (shown, Some(0))] {
        assert_eq!(items.next().now_or_never().flatten(), before);
        for _ in 0..2 {
            let start = Instant::now();
            assert!(items.next().await.is_some());
            assert!((800..=1_128).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
        }
    }
    let mut chunks = busy().chunks_timeout(usize::MAX, ms(1_000));
    for _ in 0..2 {
        let start = Instant::now();
        let chunk = chunks.next().await.unwrap();
        assert!((1_000..1_128).contains(&chunk.len()), "{}", chunk.len());
        assert_eq!(start.elapsed().as_millis(), chunk.len() as u128);
    }
    let mut together = pin!(stream::iter(0..1_000).chain(stream::pending()).chunks_timeout(2_000, HOUR));
    assert_eq!(together.next().await.map(|chunk| chunk.len()), Some(1_000), "all items that were ready in time");
}

/// A bug that this crate had: a stream that spent the task's budget in each poll, as a busy channel does, never met a limit.
#[tokio::test(start_paused = true)]
async fn limits_hold_while_the_stream_spends_the_tasks_budget() {
    /// Items of a busy channel. Each takes a millisecond.
    fn busy_channel() -> impl Stream<Item = usize> + Unpin {
        let (sender, items) = channel();
        (0..10_000).for_each(|item| sender.send(item).unwrap());
        items.inspect(|_| assert!(advance(ms(1)).now_or_never().is_none()))
    }
    async fn is_met_on_time<T>(name: &str, mut limited: impl Stream<Item = T> + Unpin) {
        let start = Instant::now();
        assert!(limited.next().await.is_some());
        let elapsed = start.elapsed().as_millis();
        assert!((1_000..=1_256).contains(&elapsed), "{name}: {elapsed}");
    }

    is_met_on_time("debounce", busy_channel().debounce(HOUR).max_wait(ms(1_000))).await;
    is_met_on_time("throttle_latest", busy_channel().throttle_latest(ms(1_000)).skip(1)).await;
    is_met_on_time("chunks_timeout", busy_channel().chunks_timeout(usize::MAX, ms(1_000))).await;
    let none = || busy_channel().filter(|_| std::future::ready(false));
    is_met_on_time("timeout", none().timeout(ms(1_000))).await;
    let ticks = interval_at(Instant::now() + ms(1_000), ms(1_000));
    is_met_on_time("timeout_repeating", none().timeout_repeating(ticks)).await;
}

/// A bug that this crate had: items that came before a panic were held for ever, or yielded too early.
#[tokio::test(start_paused = true)]
async fn limits_hold_after_the_inner_stream_panicked() {
    async fn is_held<S: Stream<Item: PartialEq + Debug> + Unpin>(
        limited: impl FnOnce(BoxStream<'static, u8>) -> S,
        [first, last]: [S::Item; 2],
    ) {
        let (sender, items) = channel();
        let mut limited = limited(items.inspect(|&item| assert_ne!(item, 0, "the inner stream panics")).boxed());
        sender.send(1).unwrap();
        assert_eq!(limited.next().await, Some(first));
        let start = Instant::now();
        sender.send(2).unwrap();
        sender.send(0).unwrap();
        panic_message(|| poll(&mut limited.next()));
        assert_eq!(limited.next().await, Some(last));
        assert_eq!(start.elapsed(), ms(100));
    }
    is_held(|items| items.chunks_timeout(2, ms(100)), [vec![1], vec![2]]).await;
    is_held(|items| items.debounce(ms(100)), [1, 2]).await;
    is_held(|items| items.throttle_latest(ms(100)), [1, 2]).await;
}

/// A bug that this crate had: `chunks_timeout` over a stream that is always ready never yielded and never timed out.
#[test]
fn items_that_are_always_ready_let_other_tasks_run() {
    /// A stream of items that are ready, until another task has run.
    fn until_another_task_runs() -> impl Stream<Item = ()> + Unpin {
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        tokio::spawn(async move { stops.store(true, SeqCst) });
        stream::poll_fn(move |_| Poll::Ready((!stop.load(SeqCst)).then_some(())))
    }

    must_end_on(crate::common::current_thread(), async || {
        assert_eq!(until_another_task_runs().debounce(HOUR).next().await, Some(()));
        let chunk = until_another_task_runs().chunks_timeout(1_000_000, HOUR).next().await;
        assert!(chunk.is_some_and(|chunk| chunk.len() < 1_000_000));
    });
}

#[cfg(feature = "test-util")]
#[derive(Debug, Clone, Copy)]
enum Rule {
    Timeout(u64),
    /// The first tick of the interval, and its period.
    Repeating(u64, u64),
    Throttle(u64),
    Chunks(usize, u64),
    /// With a longest wait, if there is one.
    Debounce(u64, Option<u64>),
    ThrottleLatest(u64),
}

/// A time, and what a stream yields then: items, or none for an error.
#[cfg(feature = "test-util")]
type Yielded = (u64, Vec<usize>);

/// A model of the streams that yield all items.
#[cfg(feature = "test-util")]
fn model_of_all(arrivals: &[u64], end: u64, rule: Rule) -> Vec<Yielded> {
    let mut yielded: Vec<Yielded> = Vec::new();
    let (mut before, mut chunk) = (0, Vec::new());
    for (item, &at) in arrivals.iter().chain([&end]).enumerate() {
        let is_item = item < arrivals.len();
        match rule {
            Rule::Timeout(limit) => {
                yielded.extend((at > before + limit).then(|| (before + limit, Vec::new())));
                yielded.extend(is_item.then(|| (at, vec![item])));
                before = at;
            }
            Rule::Repeating(first, period) => {
                let mut tick = if yielded.is_empty() { first } else { before + period };
                while tick < at {
                    yielded.push((tick, Vec::new()));
                    tick += period;
                }
                yielded.extend(is_item.then(|| (at, vec![item])));
                before = at;
            }
            Rule::Throttle(period) if is_item => {
                let after = yielded.last().map_or(0, |(before, _)| before + period);
                yielded.push((at.max(after), vec![item]));
            }
            Rule::Chunks(size, limit) => {
                if !chunk.is_empty() && (at > before + limit || !is_item) {
                    yielded.push((at.min(before + limit), std::mem::take(&mut chunk)));
                }
                before = if chunk.is_empty() { at } else { before };
                chunk.extend(is_item.then_some(item));
                yielded.extend((chunk.len() == size).then(|| (at, std::mem::take(&mut chunk))));
            }
            _ => {}
        }
    }
    yielded
}

/// A model of the streams that drop items, which checks every unit of time.
#[cfg(feature = "test-util")]
fn model_of_latest(arrivals: &[u64], end: u64, rule: Rule) -> Vec<Yielded> {
    let mut yielded: Vec<Yielded> = Vec::new();
    let mut held: Option<(u64, u64, usize)> = None;
    for now in 0.. {
        for (item, &at) in arrivals.iter().enumerate().filter(|(_, at)| **at == now) {
            if matches!(rule, Rule::ThrottleLatest(_)) && yielded.is_empty() {
                yielded.push((now, vec![item]));
            } else {
                held = Some((held.map_or(now, |(first, ..)| first), at, item));
            }
        }
        if now >= end && held.is_none() {
            break;
        }
        let is_due = |(first, last, _): &(u64, u64, usize)| match rule {
            Rule::Debounce(quiet, longest) => {
                now >= last + quiet || longest.is_some_and(|longest| now >= first + longest) || now >= end
            }
            Rule::ThrottleLatest(period) => yielded.last().is_none_or(|(before, _)| now >= before + period),
            _ => unreachable!("it drops no item"),
        };
        if let Some((_, _, item)) = held.take_if(|held| is_due(held)) {
            yielded.push((now, vec![item]));
        }
    }
    yielded
}

#[cfg(feature = "test-util")]
#[test]
fn streams_match_models() {
    const UNIT: Duration = Duration::from_nanos(1_234_567);
    let units = |count: u64| UNIT * u32::try_from(count).unwrap();
    crate::common::for_seeds(150, |seed| {
        let mut random = crate::common::Random::new(seed);
        let mut now = 0;
        let mut arrivals = Vec::new();
        for _ in 0..random.below(30) {
            now += random.below(2) * random.below(12);
            arrivals.push(now);
        }
        let end = now + random.below(12);
        let rule = match random.below(7) {
            0 => Rule::Timeout(random.below(12)),
            1 => Rule::Throttle(random.below(12)),
            2 => Rule::Chunks(1 + random.index(6), random.below(12)),
            3 => Rule::Debounce(random.below(12), None),
            4 => Rule::Debounce(random.below(12), Some(random.below(40))),
            5 => Rule::Repeating(random.below(12), 1 + random.below(12)),
            _ => Rule::ThrottleLatest(1 + random.below(12)),
        };
        crate::common::paused().block_on(async {
            let start = Instant::now();
            let count = arrivals.len();
            let times = arrivals.iter().copied().chain([end]).enumerate();
            let items = stream::iter(times).then(|(item, at)| async move {
                hairspring::sleep_until(start + units(at)).await;
                item
            });
            let items = Box::pin(items.take_while(|item| std::future::ready(*item < count)));
            let items = match rule {
                Rule::Timeout(limit) => items.timeout(units(limit)).map(|item| item.into_iter().collect()).boxed(),
                Rule::Repeating(first, period) => {
                    let ticks = interval_at(start + units(first), units(period));
                    items.timeout_repeating(ticks).map(|item| item.into_iter().collect()).boxed()
                }
                Rule::Throttle(period) => items.throttle(units(period)).map(|item| vec![item]).boxed(),
                Rule::Chunks(size, limit) => items.chunks_timeout(size, units(limit)).boxed(),
                Rule::Debounce(quiet, None) => items.debounce(units(quiet)).map(|item| vec![item]).boxed(),
                Rule::Debounce(quiet, Some(longest)) => {
                    items.debounce(units(quiet)).max_wait(units(longest)).map(|item| vec![item]).boxed()
                }
                Rule::ThrottleLatest(period) => items.throttle_latest(units(period)).map(|item| vec![item]).boxed(),
            };
            let yielded: Vec<_> = items.map(|items| (Instant::now(), items)).collect().await;
            let drops = matches!(rule, Rule::Debounce(..) | Rule::ThrottleLatest(_));
            let model = if drops { model_of_latest } else { model_of_all }(&arrivals, end, rule);
            let model = model.into_iter().map(|(at, items)| (start + units(at), items));
            assert_eq!(yielded, model.collect::<Vec<_>>(), "{rule:?} {arrivals:?} {end}");
        });
    });
}

#[cfg(feature = "test-util")]
#[tokio::test(start_paused = true)]
async fn a_limit_that_has_begun_counts_again_on_a_chosen_timer() {
    use hairspring::error::Elapsed;

    let clock = hairspring::test_util::ManualClock::new();
    let timer = Timer::builder().clock(&clock).build().unwrap();
    macro_rules! counts_again {
        ($made:expr, $first:expr, $then:expr) => {{
            let mut items = $made;
            for first in $first {
                assert_eq!(poll(&mut items.next()), Poll::Ready(Some(first)));
            }
            assert!(poll(&mut items.next()).is_pending());
            advance(ms(60)).await;
            let mut items = items.with_timer(&timer);
            advance(HOUR).await;
            for after in [0, 99] {
                clock.advance(ms(after));
                assert!(poll(&mut items.next()).is_pending(), "{items:?}");
            }
            clock.advance(ms(1));
            assert_eq!(poll(&mut items.next()), Poll::Ready(Some($then)));
        }};
    }
    let items = || stream::iter([1, 2]).chain(stream::pending());
    counts_again!(stream::pending::<u8>().timeout(ms(100)), [], Err(Elapsed::new()));
    counts_again!(items().throttle(ms(100)), [1], 2);
    counts_again!(items().chunks_timeout(9, ms(100)), [], vec![1, 2]);
    counts_again!(items().debounce(ms(100)), [], 2);
    counts_again!(items().debounce(HOUR).max_wait(ms(100)), [], 2);
    counts_again!(items().throttle_latest(ms(100)), [1], 2);
    assert_eq!((timer.metrics().fired(), Timer::current().metrics().pending()), (6, 0));

    let mut silent = stream::pending::<u8>().timeout(Duration::ZERO);
    assert_eq!(poll(&mut silent.next()), Poll::Ready(Some(Err(Elapsed::new()))));
    let mut silent = silent.with_timer(&timer);
    assert!(poll(&mut silent.next()).is_pending(), "one error for each silence");
}

/// A bug that this crate had: an item that was held back was not limited by a longest wait that was set then.
#[tokio::test(start_paused = true)]
async fn a_longest_wait_limits_the_item_that_is_held_back() {
    let start = Instant::now();
    let mut changes = interval(ms(100)).take(50).debounce(ms(300));
    assert_pending!(poll(&mut changes.next()));
    let mut saves = changes.max_wait(ms(1_000));
    assert_eq!(saves.next().await, Some(start + ms(1_000)));
    let mut saves = saves.max_wait(ms(500));
    assert_eq!(saves.next().await, Some(start + ms(1_600)), "held back since 1,100 ms");
}

#[test]
fn the_inner_stream_is_within_reach_after_its_end() {
    macro_rules! reaches {
        ($method:ident($($argument:expr),+)) => {{
            let mut ended = stream::empty::<u8>().$method($($argument),+);
            assert_eq!(ended.next().now_or_never(), Some(None));
            assert_eq!(ended.get_ref().size_hint(), (0, Some(0)));
        }};
    }
    reaches!(timeout(HOUR));
    reaches!(timeout_repeating(interval(HOUR)));
    reaches!(throttle(HOUR));
    reaches!(chunks_timeout(9, HOUR));
    reaches!(debounce(HOUR));
    reaches!(throttle_latest(HOUR));

    let mut held = stream::iter([1, 2]).chain(stream::pending()).debounce(HOUR);
    assert!(poll(&mut held.next()).is_pending());
    assert_eq!(poll(&mut held.into_inner().next()), Poll::Pending, "the item that was held back is lost");
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
    assert_eq!(three().throttle_latest(HOUR).size_hint(), (1, Some(3)));
    assert_eq!(interval(HOUR).size_hint(), (usize::MAX, None));
    assert_eq!(wall::interval_aligned(HOUR).size_hint(), (usize::MAX, None));
    assert_eq!(stream::repeat(1).timeout(HOUR).size_hint(), (usize::MAX, None));
    assert_eq!(stream::repeat(1).debounce(HOUR).size_hint(), (1, None));
    let mut begun = task::spawn(three().chain(stream::pending()).chunks_timeout(4, HOUR));
    assert_pending!(begun.poll_next());
    assert_eq!(begun.size_hint(), (1, Some(1)));
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

/// A bug that this crate had: a limit that no longer counted moved a paused clock.
#[cfg(feature = "test-util")]
#[tokio::test(start_paused = true)]
async fn a_limit_that_no_longer_counts_leaves_no_timer() {
    use hairspring::test_util::pending;
    fn at_the_end<S: Stream + Unpin>(limited: impl FnOnce(Items<u8>) -> S) {
        let (sender, items) = channel();
        let mut limited = limited(items);
        sender.send(1).unwrap();
        while poll(&mut limited.next()).is_ready() {}
        assert_eq!(pending().len(), 1, "it waits");
        drop(sender);
        while assert_ready!(poll(&mut limited.next())).is_some() {}
        assert_eq!(pending().len(), 0);
    }
    at_the_end(|items| items.timeout(HOUR));
    at_the_end(|items| items.timeout_repeating(interval(HOUR)));
    at_the_end(|items| items.chunks_timeout(9, HOUR));
    at_the_end(|items| items.debounce(HOUR));

    let (sender, items) = channel();
    let mut batches = items.chunks_timeout(2, HOUR);
    sender.send(1).unwrap();
    assert_pending!(poll(&mut batches.next()));
    sender.send(2).unwrap();
    assert_ready_eq!(poll(&mut batches.next()), Some(vec![1, 2]));
    assert_eq!(pending().len(), 0, "the batch is full");

    let mut batches = task::spawn(stream::iter([1]).chain(stream::pending()).chunks_timeout(2, HOUR));
    assert_pending!(batches.poll_next());
    assert_eq!(batches.enter(|_, batches| batches.into_remainder()), [1]);
    assert_eq!(pending().len(), 0, "the batch was taken");
}
