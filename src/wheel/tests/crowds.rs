//! Many entries at a time: they come out in order, and each step moves a bounded number of them.

use super::{Key, Step, Tick, Wheel, drain, many};

/// caffeine `3cf6d2937`, agrona `8d05ce12`
#[test]
fn a_million_entries_of_a_tick_or_two_come_in_order_and_can_be_interrupted_anywhere() {
    const MANY: u64 = many(1_000_000);
    const LATE: u64 = many(1_500);
    for second in [100, 101] {
        let mut wheel = Wheel::new();
        for n in 0..MANY {
            wheel.insert(Tick(if n % 2 == 0 { 100 } else { second }), n);
        }
        let (mut fired, mut armed, mut steps) = (Vec::new(), MANY, 0);
        loop {
            let (len, cascaded) = (wheel.len(), wheel.cascaded());
            match wheel.step(Tick(second)) {
                Step::Fired { value, .. } => fired.push(value),
                Step::Cascaded => {}
                Step::Done => break,
            }
            let touched = (len - wheel.len()) as u64 + (wheel.cascaded() - cascaded);
            assert!(touched <= 1_024, "one step touched {touched} entries");
            steps += 1;
            if steps % 500 == 0 && armed < MANY + LATE {
                wheel.insert(Tick(second), armed);
                armed += 1;
                let key = wheel.insert(Tick(100 + steps % 77), u64::MAX);
                assert_eq!(wheel.remove(key), Some(u64::MAX));
            }
        }
        let mut expected: Vec<u64> = (0..MANY + LATE).collect();
        expected.sort_by_key(|&n| if n < MANY && n % 2 == 0 { 100 } else { second });
        assert!(fired == expected && wheel.is_empty());
    }
}

/// A burst of unordered entries is spread before it is due. Otherwise time would reach a slot that contains all of it.
#[test]
fn between_two_that_fire_a_bounded_number_moves_once_time_goes_on() {
    const MILLISECOND: u64 = 1_000_000;
    const COUNT: u64 = many(200_000);
    // Just before time reaches slots of levels 5, 6 and 7 together, which span a second, a minute and an hour.
    for (power, before) in [(30, 200), (36, 500), (42, 900), (42, 1_800)] {
        let start = (5 << power) - before * MILLISECOND;
        let mut wheel = Wheel::starting_at(Tick(start));
        for n in 0..COUNT {
            wheel.insert(Tick((5 << power) + n * 7_919 % COUNT * 10_000), n);
        }
        let (mut now, mut fired, mut most) = (start, Vec::new(), 0);
        while (fired.len() as u64) < COUNT {
            now += MILLISECOND;
            let mut cascaded = wheel.cascaded();
            while let Some(value) = wheel.pop(Tick(now)) {
                fired.push(Tick((5 << power) + value * 7_919 % COUNT * 10_000));
                most = most.max(wheel.cascaded() - cascaded);
                cascaded = wheel.cascaded();
            }
        }
        assert!(fired.is_sorted());
        assert!(most <= 4_096, "{most} moved before one of {COUNT} fired");
    }
}

/// Two threads that process a wheel alternately read the clock at different times.
#[test]
fn two_that_turn_at_different_times_move_a_bounded_number_of_a_crowd() {
    const COUNT: u64 = many(200_000);
    let start = 5 << 30;
    let mut wheel = Wheel::starting_at(Tick(start - 1));
    for n in 0..COUNT {
        wheel.insert(Tick(start + n * 7_919 % COUNT * 20_000), n);
    }
    while wheel.pop(Tick(start)).is_some() {}
    let before = wheel.cascaded();
    for _ in 0..COUNT {
        for now in [start + 2, start + 1] {
            let step = wheel.step(Tick(now));
            assert!(!matches!(step, Step::Fired { .. }), "nothing is due");
        }
    }
    let moved = wheel.cascaded() - before;
    assert!(moved <= 2 * 4_096, "{moved} of {COUNT}");
}

/// If the wheel's time is far behind, a whole burst is on one of the outermost levels, and no step is made while it
/// arrives.
#[test]
fn before_the_first_of_a_crowd_fires_a_bounded_number_moves_however_far_the_time_of_the_wheel_is_behind() {
    const COUNT: u64 = many(100_000);
    // Fifty years of nanoseconds, as on a real clock.
    const DUE: u64 = 1_576_800_000_000_000_000;
    for behind in [DUE, 1 << 52, 1 << 46, 1 << 40, 1 << 34] {
        // Over 50 ms, a second, five seconds, and a minute and a half.
        for apart in [500, 10_000, 50_000, 900_000] {
            let mut wheel = Wheel::starting_at(Tick(DUE - behind));
            for n in 0..COUNT {
                wheel.insert(Tick(DUE + n * 7_919 % COUNT * apart), n);
            }
            let before = wheel.cascaded();
            assert_eq!(wheel.pop(Tick::MAX), Some(0));
            let moved = wheel.cascaded() - before;
            assert!(moved <= 4_096, "{moved} of {COUNT}, {apart} apart and {behind} ahead");
        }
    }
}

/// Half of a burst is cancelled while it is being spread, and other entries arrive.
#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn a_crowd_that_is_being_spread_can_be_cancelled_and_added_to() {
    const EDGE: u64 = 1 << 36;
    const ROUNDS: u64 = many(1_000);
    let mut wheel = Wheel::starting_at(Tick(EDGE - ROUNDS));
    let deadline = |n: u64| Tick(EDGE + n * 7_919 % 10_007 * 1_000_000);
    let mut keys: Vec<(Key, Tick)> = (0..10_000).map(|n| (wheel.insert(deadline(n), n), deadline(n))).collect();
    let mut removed = 0;
    for now in EDGE - ROUNDS..EDGE {
        assert_eq!(wheel.pop(Tick(now)), None);
        if now % 97 == 0 {
            wheel.check();
        }
        let n = wheel.inserted();
        keys.push((wheel.insert(deadline(n), n), deadline(n)));
        for _ in 0..5 {
            let (key, _) = keys.swap_remove(usize::try_from(now * 31 % keys.len() as u64).unwrap());
            removed += u64::from(wheel.remove(key).is_some());
        }
        let first = keys.iter().map(|&(_, deadline)| deadline).min();
        assert_eq!(wheel.first().and_then(|key| wheel.deadline(key)), first);
    }
    assert_eq!((removed, wheel.len() as u64), (5 * ROUNDS, 10_000 - 4 * ROUNDS));
    let left = wheel.len();
    let fired: Vec<Tick> = drain(&mut wheel, Tick::MAX).into_iter().map(deadline).collect();
    assert!(fired.is_sorted() && fired.len() == left);
    wheel.check();
}

#[test]
fn one_short_timer_does_not_have_a_slot_in_order_cascade() {
    let mut wheel = Wheel::new();
    for tick in 64..128 {
        wheel.insert(Tick(tick | 1), tick);
    }
    assert_eq!(wheel.pop(Tick(65)), Some(64));
    wheel.insert(Tick(67), 67);
    let rest: Vec<_> = std::iter::from_fn(|| wheel.pop(Tick(127))).collect();
    assert!(rest.is_sorted() && rest.len() == 64);
    assert_eq!(wheel.cascaded(), 0);
}

#[test]
fn what_was_inserted_and_what_was_moved_is_counted() {
    let mut wheel = Wheel::new();
    assert_eq!((wheel.inserted(), wheel.cascaded()), (0, 0));
    let removed = wheel.insert(Tick(5), ());
    wheel.insert(Tick(71), ());
    wheel.insert(Tick(70), ()); // out of order: both move down a level
    wheel.remove(removed);
    assert_eq!((wheel.inserted(), wheel.cascaded()), (3, 0));
    while wheel.pop(Tick(100)).is_some() {}
    assert_eq!((wheel.inserted(), wheel.cascaded()), (3, 2));
}
