//! Memory taken by maps, queues, wheels and timers, measured at the allocator. A program must be able to afford a map, a
//! queue and a wheel per peer.

use std::alloc::System;

use crate::alone;
use crate::common::current_thread;
use hairspring::wheel::{Tick, Wheel};
use hairspring::{DeadlineMap, DelayQueue, Duration, Expirations, Timer};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LIFE: Duration = Duration::from_secs(30);

type Halves = (DeadlineMap<u64, u64>, Expirations<u64, u64>);

/// The value that `make` returns, and its size plus all bytes that any thread allocates during the call and keeps.
fn bytes<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(COUNTED);
    let value = make();
    let change = region.change();
    (value, (change.bytes_allocated + size_of::<T>()).saturating_sub(change.bytes_deallocated))
}

fn of_shards(shards: usize) -> Halves {
    DeadlineMap::builder().shards(shards).build().unwrap()
}

fn with_entries(shards: usize, count: u64) -> usize {
    let fill = || {
        let halves = of_shards(shards);
        for key in 0..count {
            halves.0.insert(key, key, LIFE);
        }
        halves
    };
    bytes(fill).1
}

/// A bug that this crate had: an empty `DeadlineMap` took 94 kB on 2 CPUs, because it allocated each shard in full.
#[test]
fn small_collections_take_little_memory() {
    alone(|| {
        // Get the allocations that a process makes once out of the way. The alarm thread takes a moment to start.
        let _ = with_entries(2, 1);
        std::thread::sleep(Duration::from_millis(200));

        // With 2 CPUs a map has 8 shards, and with 16 it has 64.
        let (_empty, here) = bytes(DeadlineMap::<u64, u64>::new);
        assert!(here <= 4_096, "an empty map takes {here} bytes on this machine");
        for (shards, most) in [(1, 512), (8, 1_024), (64, 2_048)] {
            let (halves, empty) = bytes(|| of_shards(shards));
            assert!(empty <= most, "an empty map of {shards} shards takes {empty} bytes");
            let ((), used) = bytes(|| {
                assert!(!halves.0.touch(&1, LIFE) && halves.0.remove(&1).is_none() && halves.0.remaining(&1).is_none());
                assert!(halves.0.is_empty());
                halves.0.clear();
            });
            assert_eq!(used, 0, "reading an empty map of {shards} shards takes {used} bytes");
        }

        for (shards, entries, most) in
            [(1, 1, 1_024), (64, 1, 2_560), (1, 20, 16_384), (8, 20, 8_192), (64, 20, 12_288)]
        {
            let full = with_entries(shards, entries);
            assert!(full <= most, "a map of {shards} shards takes {full} bytes with {entries} entries");
        }

        let (halves, empty) = bytes(|| of_shards(8));
        let ((), kept) = bytes(|| {
            for key in 0..10_000 {
                halves.0.insert(key, key, LIFE);
            }
            halves.0.clear();
        });
        assert!(empty + kept <= 4_096, "a map that was cleared takes {} bytes", empty + kept);

        // A maximum lifetime takes no memory, and a map with one shrinks as others do.
        let limited = || DeadlineMap::<u64, u64>::builder().shards(1).max_lifetime(LIFE).build().unwrap();
        let (halves, kept) = bytes(|| {
            let halves = limited();
            (0..10_000).for_each(|key| assert_eq!(halves.0.insert(key, key, LIFE), None));
            halves.0.retain(|key, _| *key < 10);
            halves
        });
        assert!(kept <= 32_768, "a map that has shrunk takes {kept} bytes");
        let fill = |halves: Halves| {
            (0..10_000).for_each(|key| assert_eq!(halves.0.insert(key, key, LIFE), None));
            halves
        };
        let ((_limited, with), (_unlimited, without)) = (bytes(|| fill(limited())), bytes(|| fill(of_shards(1))));
        // Eight bytes an entry would be 80,000. How many blocks of the wheel are in use depends on the time.
        assert!(with <= without + 16_384, "a maximum lifetime takes {} bytes", with - without);
        drop(halves);

        let (wheel, empty) = bytes(|| Box::new(Wheel::<u64>::new()));
        assert!(empty <= 7_168, "an empty wheel takes {empty} bytes");
        drop(wheel);
        let mut wheel = Wheel::new();
        let (_, first) = bytes(|| wheel.insert(Tick::from(5), 5_u64));
        assert!(first <= 6_144, "the first entry of a wheel takes {first} bytes");

        let (_queue, empty) = bytes(DelayQueue::<u64>::new);
        assert!(empty <= 7_424, "an empty queue takes {empty} bytes");
    });
}

/// A bug that this crate had: timers with different numbers of shards leaked their memory.
#[test]
fn timers_of_all_sizes_share_their_memory() {
    alone(|| {
        let build = async {
            for shards in 1..300 {
                drop(Timer::builder().shards(shards).build().unwrap());
                // Its driver ends.
                tokio::task::yield_now().await;
            }
        };
        let ((), kept) = bytes(|| current_thread().block_on(build));
        // One timer of each size would take 500 MB, and 1024 shards take 12 MB.
        assert!(kept < 25_000_000, "{kept} bytes");
    });
}

/// A bug that this crate had: the clock kept timers that had ended until it was next used.
#[cfg(feature = "test-util")]
#[test]
fn a_manual_clock_keeps_few_timers_that_have_ended() {
    alone(|| {
        let clock = hairspring::test_util::ManualClock::new();
        let build = || Timer::builder().clock(&clock).build().unwrap();
        let live: Vec<_> = (0..7).map(|_| build()).collect();
        let ((), kept) = bytes(|| (0..1_000).for_each(|_| drop(build())));
        assert!(kept < 1_000_000, "{kept} bytes");
        drop(live);
    });
}
