//! Which tasks a `DelayQueue` wakes, and which it does not. If a test names an issue, it is for a bug in another queue
//! or timer.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::common::{HOUR, Wakes, ms, paused, settle};
use futures::StreamExt;
use hairspring::delay_queue::{Expired, Key};
use hairspring::{DelayQueue, Duration, Instant};

fn poll_with<T>(queue: &mut DelayQueue<T>, waker: &Waker) -> Poll<Option<Expired<T>>> {
    queue.poll_expired(&mut Context::from_waker(waker))
}

fn poll<T>(queue: &mut DelayQueue<T>) -> Poll<Option<T>> {
    poll_with(queue, Waker::noop()).map(|expired| expired.map(Expired::into_inner))
}

/// Runs on a runtime whose clock moves only when every task waits.
fn on_paused_time(test: impl Future<Output = ()>) {
    paused().block_on(test);
}

/// A queue with an entry an hour ahead, whose last poll was pending.
fn waiting() -> (DelayQueue<u8>, Key, Arc<Wakes>) {
    let mut queue = DelayQueue::new();
    let key = queue.insert(1, HOUR);
    let (woken, waker) = Wakes::new();
    assert!(poll_with(&mut queue, &waker).is_pending());
    assert_eq!(woken.count(), 0);
    (queue, key, woken)
}

/// tokio 8274, 2217
#[test]
fn a_reset_to_sooner_or_into_the_past_wakes_the_poller() {
    on_paused_time(async {
        for sooner in [ms(10), Duration::ZERO] {
            let (mut queue, key, wakes) = waiting();
            queue.reset(&key, sooner);
            assert_eq!(wakes.count(), 1);
        }
        let (mut queue, key, wakes) = waiting();
        queue.reset_at(&key, Instant::now() - ms(5));
        assert_eq!(wakes.count(), 1);
        assert_eq!(poll(&mut queue), Poll::Ready(Some(1)));
    });
}

/// tokio 6751
#[test]
fn removing_the_last_entry_wakes_the_poller_who_learns_that_it_is_empty() {
    on_paused_time(async {
        let (mut queue, key, wakes) = waiting();
        let other = queue.insert(2, 2 * HOUR);
        queue.remove(&key);
        assert_eq!(wakes.count(), 0, "there is one left to wait for");
        queue.remove(&other);
        assert_eq!(wakes.count(), 1);
        assert_eq!(poll(&mut queue), Poll::Ready(None));
    });
}

/// tokio 8320
#[test]
fn clearing_and_draining_wake_the_poller() {
    on_paused_time(async {
        let (mut queue, _, wakes) = waiting();
        queue.clear();
        assert_eq!(wakes.count(), 1);
        assert_eq!(poll(&mut queue), Poll::Ready(None));
        let (mut queue, _, wakes) = waiting();
        assert_eq!(queue.drain().len(), 1);
        assert_eq!(wakes.count(), 1);
        assert_eq!(poll(&mut queue), Poll::Ready(None));
    });
}

/// tokio 1700
#[test]
fn inserting_after_something_came_does_not_put_off_what_was_there() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        for second in 1..=5 {
            queue.insert(second, Duration::from_secs(second));
        }
        for second in 1..=5 {
            assert_eq!(queue.next().await.unwrap().into_inner(), second);
            assert_eq!(start.elapsed(), Duration::from_secs(second));
            queue.insert(100, Duration::from_secs(100));
        }
    });
}

#[test]
fn inserting_in_front_or_into_an_empty_queue_wakes_the_poller_once() {
    on_paused_time(async {
        let (mut queue, _, woken) = waiting();
        queue.insert(2, 2 * HOUR);
        assert_eq!(woken.count(), 0, "it would wait as long as before");
        queue.insert(3, ms(5));
        queue.insert(4, ms(4));
        assert_eq!(woken.count(), 1, "once is enough");

        let mut queue = DelayQueue::new();
        let (told, waker) = Wakes::new();
        assert!(matches!(poll_with(&mut queue, &waker), Poll::Ready(None)));
        queue.insert(1, Duration::MAX);
        assert_eq!(told.count(), 1);
    });
}

#[test]
fn the_last_waker_is_the_one_that_is_woken() {
    on_paused_time(async {
        let (mut queue, key, first) = waiting();
        let (second, waker) = Wakes::new();
        assert!(poll_with(&mut queue, &waker).is_pending());
        tokio::time::advance(HOUR).await;
        settle().await;
        assert_eq!((first.count(), second.count()), (0, 1));
        queue.remove(&key);
        assert_eq!(first.count(), 0);
    });
}

/// tokio 849, 868, go 47329, 47762
#[test]
fn of_many_resets_the_last_one_counts() {
    on_paused_time(async {
        let mut random = crate::common::Random::new(1);
        let (mut queue, key, _) = waiting();
        let start = Instant::now();
        for _ in 0..1_000 {
            queue.reset_at(&key, start + random.duration(2 * HOUR));
            if random.below(3) == 0 {
                assert!(poll(&mut queue).is_pending());
            }
        }
        queue.reset_at(&key, start + ms(77));
        assert_eq!(queue.next().await.unwrap().into_inner(), 1);
        assert_eq!(start.elapsed(), ms(77));
    });
}

#[test]
fn touching_one_of_several_entries_wakes_nobody() {
    on_paused_time(async {
        let (mut queue, key, wakes) = waiting();
        queue.insert(2, 2 * HOUR);
        queue.reset(&key, 3 * HOUR);
        assert_eq!(wakes.count(), 0);
        assert_eq!(queue.next().await.unwrap().into_inner(), 2);
    });
}

/// netty 1246
#[test]
fn a_far_entry_costs_no_wake_up_before_its_time() {
    on_paused_time(async {
        let (mut queue, _, wakes) = waiting();
        queue.insert(2, 10 * HOUR);
        tokio::time::advance(HOUR.saturating_sub(ms(1))).await;
        settle().await;
        assert_eq!(wakes.count(), 0);
        tokio::time::advance(ms(1)).await;
        settle().await;
        assert_eq!(wakes.count(), 1);
        assert_eq!(poll(&mut queue), Poll::Ready(Some(1)));
    });
}
