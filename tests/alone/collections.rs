//! Queues and maps in a process that has never paused a clock. Only there does moving a deadline leave the timer alone
//! for as long as possible.

use crate::alone;
use crate::common::{HOUR, Wakes, ms, multi_thread, poll, poll_with};
use futures::StreamExt as _;
use hairspring::{DeadlineMap, DelayQueue, Instant, Timer};

#[test]
fn each_earlier_deadline_wakes_the_poller() {
    alone(|| {
        multi_thread(1).block_on(async {
            let mut queue = DelayQueue::new();
            let keys = [0, 1, 2].map(|n| queue.insert(n, HOUR * (n + 1)));
            let (woken, waker) = Wakes::new();
            assert!(poll_with(&mut queue.next(), &waker).is_pending());
            queue.reset(&keys[1], HOUR / 2);
            assert_eq!(woken.count(), 1, "it is now due before the entry that the poller waits for");
            queue.reset(&keys[2], ms(5));
            queue.remove(&keys[0]);
            assert_eq!(queue.next().await.unwrap().into_inner(), 2);
            // A shard stores a few entries differently from many.
            for others in [0, 100] {
                let (map, mut expirations) = DeadlineMap::builder().shards(1).build().unwrap();
                (0..others).for_each(|other| assert_eq!(map.insert(10 + other, (), 9 * HOUR), None));
                (0..3).for_each(|n| assert_eq!(map.insert(n, (), HOUR * (n + 1)), None));
                assert!(poll_with(&mut expirations.next(), &waker).is_pending());
                let before = woken.count();
                map.touch(&1, HOUR / 2);
                assert_eq!(woken.count(), before + 1, "it is now due before the entry that the consumer waits for");
                let start = Instant::now();
                map.insert(3, (), ms(1));
                assert!(map.touch(&3, ms(20)) || start.elapsed() >= ms(1));
                map.touch(&2, ms(5));
                map.remove(&0);
                assert!(expirations.next().await.is_some() && expirations.next().await.is_some());
                assert_eq!((map.len(), map.contains_key(&1)), (others as usize + 1, true));
            }
            // The stream still has an expired entry if its key was inserted again, and then removed.
            let (map, mut expirations) = DeadlineMap::builder().shards(1).build().unwrap();
            map.insert(0, "expired", ms(0));
            map.insert(0, "removed", HOUR);
            assert_eq!(map.remove(&0), Some("removed"));
            assert!(!map.is_empty());
            assert_eq!(expirations.next().await, Some((0, "expired")));
        });
    });
}

/// A bug that this crate had: the stream of a map kept its timer.
#[test]
fn what_has_ended_keeps_no_timer() {
    alone(|| {
        multi_thread(1).block_on(async {
            let mut queue = DelayQueue::new();
            let key = queue.insert(1, HOUR);
            assert!(poll(&mut queue.next()).is_pending());
            queue.remove(&key);
            assert!(queue.next().await.is_none());
            let (map, mut expirations) = DeadlineMap::new();
            map.insert(1, (), HOUR);
            assert!(poll(&mut expirations.next()).is_pending());
            map.remove(&1);
            drop(map);
            assert!(expirations.next().await.is_none());
            assert_eq!(Timer::current().metrics().pending(), 0);
        });
    });
}
