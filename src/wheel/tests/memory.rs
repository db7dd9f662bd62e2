//! The memory of a wheel: an entry that is gone leaves none behind.

use std::rc::Rc;

use super::{Key, Tick, Wheel, drain, many};

/// netty 2541, Java's `setRemoveOnCancelPolicy`, go 75935
#[test]
fn what_a_cancelled_entry_held_is_given_back_at_once() {
    for deadline in [0, 9, 5_000, 1 << 40, u64::MAX] {
        let (mut wheel, payload) = (Wheel::new(), Rc::new("payload"));
        let keys = [(); 3].map(|()| wheel.insert(Tick(deadline), Rc::clone(&payload)));
        for key in keys {
            let held = Rc::strong_count(&payload);
            drop(wheel.remove(key));
            assert_eq!(Rc::strong_count(&payload), held - 1);
        }
        wheel.insert(Tick(deadline), Rc::clone(&payload));
        drop(wheel.pop(Tick::MAX));
        let weak = Rc::downgrade(&payload);
        drop(payload);
        assert!(weak.upgrade().is_none(), "nothing stays in the wheel, fired or cancelled");
    }
}

/// netty 2541, go 75935
#[test]
fn ten_million_far_timers_armed_and_cancelled_leave_no_memory_behind() {
    let mut wheel = Wheel::new();
    wheel.insert(Tick(1), 0);
    let before = wheel.cells.capacity();
    assert_eq!(wheel.pop(Tick(1)), Some(0));
    for n in 0..many(10_000_000) {
        let key = wheel.insert(Tick(3_600_000 + n), n);
        assert_eq!(wheel.remove(key), Some(n));
    }
    assert_eq!((wheel.len(), wheel.cells.capacity()), (0, before));
}

#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn memory_is_given_back_after_a_peak() {
    let mut wheel = Wheel::new();
    let keys: Vec<Key> = (0..100_000).map(|n| wheel.insert(Tick(n), n)).collect();
    for key in &keys[1_000..60_000] {
        wheel.remove(*key);
    }
    assert_eq!(wheel.len(), 41_000);
    assert!(wheel.cells.capacity() <= 42_000, "room for {} after cancelling", wheel.cells.capacity());
    assert_eq!(drain(&mut wheel, Tick::MAX).len(), 41_000);
    wheel.check();
    assert!(wheel.cells.capacity() <= 1_000, "room for {} after firing", wheel.cells.capacity());
}

#[test]
fn an_empty_wheel_takes_about_7_kilobytes() {
    let size = size_of::<Wheel<u64>>();
    assert!((6_000..7_500).contains(&size), "{size}");
}
