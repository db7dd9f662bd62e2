//! Operations that read the clock in one order and have the lock in another; and clocks that are behind.

use std::sync::Barrier;
use std::thread;

use crate::common::{HOUR, ms, must_end, paused, rounds};
use hairspring::{DeadlineMap, Duration, Expirations, Instant, sleep};

const MINUTE: Duration = Duration::from_secs(60);

type Map = DeadlineMap<u32, u32>;

// Overtaken

/// Another thread calls `older`, reads the clock and waits for the lock for 20 ms. When the lock is free, this thread
/// most likely has it again before the other one wakes, for a call of `newer`. Returns when that began, and both
/// results.
fn overtaken<T: Send, U>(map: &Map, older: fn(&Map) -> T, newer: fn(&Map) -> U) -> (Instant, T, U) {
    let begins = Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            begins.wait();
            older(map)
        });
        map.update(&1, |_| {
            begins.wait();
            thread::sleep(ms(20));
        });
        let now = Instant::now();
        let newer = newer(map);
        (now, other.join().unwrap(), newer)
    })
}

/// A bug that this crate had, and tikv pd 10744 and moka 322
#[test]
fn an_older_call_does_not_undo_a_newer_one() {
    must_end(|| {
        let older: [fn(&Map); 3] =
            [|map| assert!(map.touch(&1, HOUR)), |map| assert!(map.renew(&1)), |map| _ = map.insert(1, 1, HOUR)];
        for older in older {
            for _ in rounds(5) {
                let map = Map::without_expirations();
                map.insert(1, 0, HOUR);
                let (now, (), touched) = overtaken(&map, older, |map| map.touch(&1, HOUR));
                assert!(touched);
                let left = map.remaining(&1).unwrap();
                assert!(Instant::now() + left >= now + HOUR, "the deadline went back");
            }
        }
    });
}

/// A bug that this crate had: it read the time from before it waited.
#[test]
fn a_call_that_was_overtaken_reads_the_present() {
    must_end(|| {
        for _ in rounds(5) {
            let map = Map::without_expirations();
            map.insert(1, 0, HOUR);
            let (_, left, _) = overtaken(&map, |map| map.remaining(&1), |map| map.touch(&1, HOUR));
            assert!(left <= Some(HOUR), "{left:?} left, although nobody asked for more than an hour");
        }
    });
}

#[test]
fn a_touch_may_shorten() {
    let map = Map::without_expirations();
    map.insert(1, 0, HOUR);
    assert!(map.touch(&1, MINUTE) && map.remaining(&1) <= Some(MINUTE));
}

// A clock that is behind

/// The keys that come out in the next `duration` on a paused clock, and when.
async fn take_for(stream: &mut Expirations<u32, u32>, duration: Duration) -> Vec<(u32, Duration)> {
    let (start, mut end, mut taken) = (Instant::now(), sleep(duration), Vec::new());
    loop {
        tokio::select! {
            Some((key, _)) = stream.recv() => taken.push((key, start.elapsed())),
            () = &mut end => break,
        }
    }
    taken.sort_unstable();
    taken
}

/// Few entries have no wheel, many have one.
const COUNTS: [u32; 2] = [10, 10_000];

/// A bug that this crate had: it came out at once.
#[test]
fn what_is_inserted_on_a_clock_that_is_behind_waits_for_that_clock() {
    for count in COUNTS {
        for (ends, polls_first) in [(true, false), (true, true), (false, false), (false, true)] {
            let (map, mut stream) = Map::new();
            let ahead = paused();
            ahead.block_on(async {
                map.insert(u32::MAX, 0, 1_000 * HOUR);
                (0..count).for_each(|key| _ = map.insert(key, 0, HOUR));
                assert_eq!(take_for(&mut stream, 2 * HOUR).await.len(), count as usize);
            });
            let _alive = if ends { None } else { Some(ahead) };
            paused().block_on(async {
                let life = |key| MINUTE * (1 + key % 3);
                let inserts = async {
                    for key in 0..count {
                        map.insert(key, 0, life(key));
                        assert_eq!((map.get(&key), map.remaining(&key)), (Some(0), Some(life(key))));
                    }
                };
                let take = take_for(&mut stream, HOUR);
                let taken = if polls_first { tokio::join!(take, inserts).0 } else { tokio::join!(inserts, take).1 };
                assert!(taken == (0..count).map(|key| (key, life(key))).collect::<Vec<_>>(), "{:?}", taken.first());
            });
        }
    }
}

/// A bug that this crate had: it came out at once, while `get` still returned it.
#[test]
fn what_was_due_and_not_taken_waits_again_on_a_clock_that_is_behind() {
    for count in COUNTS {
        let (map, mut stream) = Map::new();
        paused().block_on(async {
            (0..count).for_each(|key| _ = map.insert(key, 0, HOUR * (1 + key % 3)));
            assert!(stream.recv().await.is_some());
            sleep(5 * HOUR).await;
            assert!(stream.recv().await.is_some());
            assert_eq!(map.get(&1), None);
        });
        paused().block_on(async {
            let mut left = Vec::new();
            map.for_each(|&key, _, remaining| left.push((key, remaining)));
            assert_eq!(left.len(), count as usize - 2);
            left.sort_unstable();
            let taken = take_for(&mut stream, 5 * HOUR).await;
            assert_eq!(taken.len(), left.len());
            for ((key, due), (taken, at)) in left.into_iter().zip(taken) {
                assert!(key == taken && (due..due + ms(1)).contains(&at), "{key} is due in {due:?} and came at {at:?}");
            }
        });
    }
}

/// A bug that this crate had: what had expired stayed until the clock had come to where the other one was.
#[test]
fn a_map_without_its_stream_drops_nothing_early_on_a_clock_that_is_behind() {
    let map = Map::without_expirations();
    paused().block_on(async {
        (0..10_000).for_each(|key| _ = map.insert(key, 0, MINUTE));
        tokio::time::advance(HOUR).await;
        (10_000..20_000).for_each(|key| _ = map.insert(key, 0, MINUTE));
        assert_eq!(map.len(), 10_000);
    });
    paused().block_on(async {
        (0..10_000).for_each(|key| _ = map.insert(key, 0, MINUTE));
        assert!((0..10_000).all(|key| map.remaining(&key) == Some(MINUTE)));
        tokio::time::advance(MINUTE).await;
        assert_eq!((map.len(), map.get(&0)), (20_000, None));
        (20_000..30_000).for_each(|key| _ = map.insert(key, 0, MINUTE));
        assert_eq!(map.len(), 20_000, "those that have expired were dropped");
    });
}
