use std::sync::Arc;
use std::task::Wake;

use super::*;
use crate::core::statistics::Snapshot;

const EPOCH: Epoch = Epoch(7);

fn shard() -> ShardLease {
    let shard: &Shard = Box::leak(Box::new(Shard::new(Engine::new())));
    shard.open(EPOCH, Ticks::ONE, Tick::ZERO);
    ShardLease::new(shard, EPOCH)
}

fn insert(shard: ShardLease, deadline: u64) -> Result<Key, InsertError> {
    shard.insert(Tick(deadline), Waker::noop().clone())
}

/// Otherwise it would count as fired while it waits.
#[test]
fn a_deadline_that_the_wheel_has_gone_by_is_refused() {
    let shard = shard();
    assert_eq!(shard.shard().fire(Tick(100), Tick(100), &mut WakeList::default()), 0);
    for past in [0, 50, 100] {
        assert!(matches!(insert(shard, past), Err(InsertError::AlreadyDue)), "{past}");
    }
    insert(shard, 101).unwrap();
}

#[test]
fn whether_an_entry_has_fired_is_known_without_the_lock_for_its_own_timer() {
    let shard = shard();
    insert(shard, 50).unwrap();
    shard.shard().fire(Tick(100), Tick(100), &mut WakeList::default());
    let _locked = shard.shard().lock();
    assert!(shard.has_fired(Tick(50)) && shard.has_fired(Tick(100)));
    assert!(!shard.has_fired(Tick(101)) && !ShardLease::new(shard.shard(), Epoch(8)).has_fired(Tick(50)));
}

#[test]
fn a_hold_of_the_lock_takes_out_a_limited_number_of_wakers() {
    let shard = shard();
    for _ in 0..100 {
        insert(shard, 50).unwrap();
    }
    let mut list = WakeList::default();
    let taken = [0; 3].map(|_| shard.shard().fire(Tick(100), Tick(100), &mut list));
    assert_eq!(taken, [WAKES, 100 - WAKES, 0]);
}

struct FiresToo(ShardLease);

impl Wake for FiresToo {
    fn wake(self: Arc<Self>) {
        while self.0.shard().next() <= Tick(10) {
            self.0.shard().fire(Tick(10), Tick(10), &mut WakeList::default());
        }
    }
}

/// A driver may be in the middle of a turn while another thread shuts its timer down.
#[test]
fn a_turn_during_a_shutdown_fires_nothing_early() {
    let shard = shard();
    shard.insert(Tick(10), Waker::from(Arc::new(FiresToo(shard)))).unwrap();
    shard.insert(Tick(900), Waker::noop().clone()).unwrap();
    // More entries with one deadline than one lock hold takes out.
    for _ in 0..3 * WAKES {
        shard.insert(Tick(1_000), Waker::noop().clone()).unwrap();
    }
    assert_eq!(shard.shard().close(), 2 + 3 * WAKES, "each is shut down");
    assert!(!shard.has_fired(Tick(900)), "it was not due");
    let mut sum = Snapshot::default();
    shard.shard().add_to(&mut sum);
    assert_eq!((sum.lateness.count(), sum.pending), (0, 0));
}

/// Otherwise each would cascade through every level that the first shares with the others, while nothing fires.
#[test]
fn unordered_entries_after_a_long_rest_cascade_once() {
    const COUNT: u64 = 1_000;
    let shard = shard();
    let first = 1_576_800_000_123_456_789;
    for n in 0..COUNT {
        insert(shard, first + n * 7_919 % COUNT).unwrap();
    }
    let mut list = WakeList::default();
    while shard.shard().next() <= Tick(first) {
        shard.shard().fire(Tick(first), Tick(first), &mut list);
    }
    let mut sum = Snapshot::default();
    shard.shard().add_to(&mut sum);
    assert_eq!((sum.lateness.count(), sum.pending, sum.cascaded), (1, COUNT - 1, COUNT));
}

/// Cancelling reads it, and should not fetch a cache line for it. The layout differs on 32 bits.
#[cfg(all(not(hairspring_loom), target_pointer_width = "64"))]
#[test]
fn publishes_removals_is_on_a_cache_line_that_a_cancellation_reads() {
    let line = |offset| offset / 64;
    let beside = [std::mem::offset_of!(Shard, fired_through), std::mem::offset_of!(Shard, resolution)];
    assert!(
        beside.into_iter().any(|read| line(read) == line(std::mem::offset_of!(Shard, publishes_removals))),
        "{beside:?}"
    );
}
