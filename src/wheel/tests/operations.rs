//! Random operations, after each of which the wheel's invariants must hold, and cancelling and resetting at every point
//! of an entry's life. `tests/it/fuzz` compares the wheel with a model.

use super::{Key, Step, Tick, Ticks, Wheel, drain, many};

#[test]
fn the_invariants_hold_after_every_operation() {
    for seed in 0..many(42) {
        let mut state = seed;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) % bound
        };
        let near = [0, 1 << 12, 1 << 30, 1 << 36, 1 << 42, 1 << 60, u64::MAX][(seed % 7) as usize];
        let reach = [7, 10, 14, 20, 38, 60][(seed % 6) as usize];
        let mut wheel = Wheel::starting_at(Tick(near.saturating_sub(below(200))));
        let (mut keys, mut armed) = (Vec::new(), 0);
        for _ in 0..150 {
            let (elapsed, any) = (wheel.elapsed(), usize::try_from(below(1_000)).unwrap() % keys.len().max(1));
            let distance = (below(1 << 32) << 32 | below(1 << 32)) >> (64 - 1 - below(reach));
            let tick = match below(8) {
                0 => Tick(elapsed.0.saturating_sub(distance)),
                1 => Tick(u64::MAX - below(3)),
                2 => Tick((elapsed + Ticks(distance)).0 | 63) + Ticks(below(2)),
                _ => elapsed + Ticks(distance),
            };
            match below(12) {
                0 if wheel.len() < 50 => keys.extend((0..below(64)).map(|n| wheel.insert(tick + Ticks(n / 3), n))),
                0..=3 => keys.push(wheel.insert(tick, 0)),
                4 | 5 => _ = keys.get(any).and_then(|&key| wheel.remove(key)),
                6 | 7 => _ = keys.get(any).map(|&key| wheel.reset(key, tick)),
                8 => (0..below(6)).for_each(|_| _ = wheel.step(tick.min(elapsed + Ticks(1 << reach)))),
                9 | 10 => while wheel.pop(tick.min(elapsed + Ticks(1 << reach))).is_some() {},
                _ if below(8) == 0 => {
                    let before = (wheel.elapsed(), wheel.cascaded());
                    wheel.clear();
                    assert_eq!((wheel.elapsed(), wheel.cascaded()), before, "neither goes back");
                    let new = wheel.insert(tick, 0);
                    assert!(!keys.contains(&new), "a key is used once");
                    keys.push(new);
                }
                _ => wheel = wheel.clone(),
            }
            wheel.check();
            armed += 64;
            assert!(wheel.cascaded() <= 10 * armed, "an entry moves down at most once per level");
            assert_eq!(wheel.first(), first_out(wheel.clone()));
        }
    }
}

fn first_out(mut wheel: Wheel<u64>) -> Option<Key> {
    loop {
        match wheel.step(Tick::MAX) {
            Step::Fired { key, .. } => return Some(key),
            Step::Cascaded => {}
            Step::Done => return None,
        }
    }
}

/// Calls `check` with the wheel, its keys and the fired entries, for five entries in each pattern of deadlines and
/// after every number of steps. So each entry is far, near, cascading, due, and gone.
fn at_every_point(mut check: impl FnMut(Wheel<usize>, &[Key], Vec<usize>)) {
    let together = [0, 9, 70, 5_000, 1 << 40].map(|deadline| [deadline; 5]);
    let mixed = [[70, 71, 72, 64, 70], [9, 70, 5_000, 1 << 40, u64::MAX], [4_999, 4_096, 4_097, 4_096, 0]];
    for deadlines in together.into_iter().chain(mixed) {
        let mut wheel = Wheel::new();
        let keys: Vec<Key> = (0..5).map(|entry| wheel.insert(Tick(deadlines[entry]), entry)).collect();
        let mut fired = Vec::new();
        loop {
            check(wheel.clone(), &keys, fired.clone());
            match wheel.step(Tick(5_000)) {
                Step::Fired { value, .. } => fired.push(value),
                Step::Cascaded => {}
                Step::Done => break,
            }
        }
    }
}

/// go 37196, netty 14081, tokio 2473, 3229, 3270
#[test]
fn an_entry_is_cancelled_or_fires_at_every_point() {
    at_every_point(|wheel, keys, fired| {
        for (mine, &key) in keys.iter().enumerate() {
            let (mut wheel, mut ended) = (wheel.clone(), fired.clone());
            let cancelled = wheel.remove(key);
            assert_eq!(cancelled, (!fired.contains(&mine)).then_some(mine));
            assert_eq!(wheel.remove(key), None);
            wheel.check();
            ended.extend(cancelled);
            ended.extend(drain(&mut wheel, Tick::MAX));
            ended.sort_unstable();
            assert_eq!(ended, [0, 1, 2, 3, 4], "each ends once");
        }
    });
}

/// tokio 849, 868, 2473
#[test]
fn a_reset_counts_at_every_point() {
    at_every_point(|wheel, keys, fired| {
        for (mine, &key) in keys.iter().enumerate() {
            for deadline in [0, 9, 70, 71, 4_097, 5_001, 1 << 40, u64::MAX].map(Tick) {
                let mut wheel = wheel.clone();
                assert_eq!(wheel.reset(key, deadline), !fired.contains(&mine));
                wheel.check();
                if fired.contains(&mine) {
                    continue;
                }
                if deadline > wheel.elapsed() {
                    assert!(!drain(&mut wheel, Tick(deadline.0 - 1)).contains(&mine), "early");
                }
                assert!(drain(&mut wheel, deadline).contains(&mine), "late");
                assert!(!drain(&mut wheel, Tick::MAX).contains(&mine), "twice");
            }
        }
    });
}

#[test]
fn time_that_goes_back_leaves_the_keys_and_the_order_at_every_point() {
    at_every_point(|wheel, keys, fired| {
        let order = drain(&mut wheel.clone(), Tick::MAX);
        for back in [0, 8, 64, 70, 4_096, 5_000, 1 << 41].map(Tick) {
            let mut wheel = wheel.clone();
            let elapsed = wheel.elapsed();
            wheel.set_back(back);
            wheel.check();
            assert_eq!(wheel.elapsed(), back.min(elapsed));
            for (mine, &key) in keys.iter().enumerate() {
                assert_eq!(wheel.get(key), (!fired.contains(&mine)).then_some(&mine));
            }
            let deadlines = [8, 64, 4_999, 5_000, u64::MAX].map(Tick).into_iter().filter(|&tick| tick >= back);
            let mut again = Vec::new();
            for now in deadlines {
                again.extend(std::iter::from_fn(|| match wheel.first().and_then(|key| wheel.deadline(key)) {
                    Some(deadline) if deadline <= now => wheel.pop(now),
                    Some(_) => wheel.pop(now).inspect(|_| panic!("early")),
                    None => None,
                }));
                wheel.check();
            }
            assert_eq!(again, order);
        }
    });
}

/// More than are sorted at once, of which some are spread and others due.
#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn time_that_goes_back_leaves_many_entries_in_order() {
    const COUNT: u64 = 20_000;
    let deadline = |n: u64| Tick((1 << 40) + (n * 7_919 % COUNT / 3) * 1_000_000);
    let mut wheel = Wheel::starting_at(Tick(1 << 40));
    let keys: Vec<Key> = (0..COUNT).map(|n| wheel.insert(deadline(n), n)).collect();
    let now = deadline(COUNT / 2);
    let fired: Vec<u64> = (0..COUNT / 4).filter_map(|_| wheel.pop(now)).collect();
    wheel.set_back(Tick(1 << 39));
    wheel.check();
    assert_eq!(wheel.pop(Tick((1 << 40) - 1)), None, "early");
    let mut left: Vec<u64> = (0..COUNT).filter(|n| !fired.contains(n)).collect();
    assert!((0..).zip(&keys).all(|(n, &key)| wheel.get(key) == (!fired.contains(&n)).then_some(&n)));
    left.sort_by_key(|&n| deadline(n));
    assert!(drain(&mut wheel, Tick::MAX) == left);
}
