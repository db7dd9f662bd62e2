//! Tests of `Wheel` as a user sees it, and a check of its internals. Issue numbers and commits name bugs that other
//! timers had.

mod crowds;
mod memory;
mod operations;

use super::slots::LEVELS;
use super::{Key, Step, Tick, Ticks, Wheel};

/// How many a test takes of what it takes many of. Under Miri few, as it is hundreds of times slower.
pub(super) const fn many(count: u64) -> u64 {
    if cfg!(miri) { count.div_ceil(100) } else { count }
}

impl<T> Wheel<T> {
    /// Panics if an invariant of the wheel fails. Takes time in proportion to [`len`](Wheel::len), too much under Miri.
    pub(crate) fn check(&self) {
        if cfg!(miri) {
            return;
        }
        let mut count = 0;
        let mut earliest: Option<Tick> = None;
        for (row, occupied) in self.occupied.iter().enumerate() {
            assert_eq!(*occupied != 0, self.rows_occupied & (1 << row) != 0, "row {row}'s bit");
        }
        for place in self.lists.places() {
            let spread = self.spread_of(place);
            assert_eq!(
                !self.lists.is_empty(place) || spread.is_some(),
                self.is_occupied(place),
                "the bit of {place:?}"
            );
            assert!(spread.is_none() || !self.is_sorted(place), "{place:?} is spread");
            let is_current = place.row() < LEVELS && place == self.current_of(place.row());
            assert!(
                !is_current || !self.is_occupied(place) || self.entered & (1 << place.row()) != 0,
                "{place:?} was not entered"
            );
            assert!(
                !is_current || !self.is_occupied(place) || self.is_sorted(place) || self.cascading == Some(place),
                "{place:?} is in no order"
            );
            let mut before = Tick::ZERO;
            for deadline in self.lists.iter(place).map(|index| self.cells[index].deadline) {
                assert!(!self.is_sorted(place) || before <= deadline, "{place:?} is out of order");
                if is_current {
                    assert!(deadline <= self.last_of(place), "{deadline:?} is behind {place:?}");
                } else {
                    let first = self.place_of(deadline);
                    let mut way = std::iter::successors(Some(first), |&place| self.ahead_of(place, deadline));
                    assert!(way.any(|slot| slot == place), "{deadline:?} is in {place:?} at {:?}", self.elapsed);
                }
                count += 1;
                before = deadline;
                earliest = Some(earliest.map_or(deadline, |seen| seen.min(deadline)));
            }
        }
        assert_eq!(count, self.len, "every entry is in one list");
        self.cells.check(self.len);
        self.lists.check(&self.cells);
        assert!(
            self.cascading.is_none_or(|place| self.is_occupied(place)),
            "a slot cascades as long as it has entries"
        );
        match (self.next_expiration(), earliest) {
            (None, None) => {}
            (Some(next), Some(earliest)) => {
                assert!(next <= earliest.max(self.elapsed), "{next:?} is after {earliest:?}");
            }
            (next, earliest) => panic!("next expiration {next:?}, earliest deadline {earliest:?}"),
        }
    }
}

/// The span of each level but the last, in ticks.
fn spans() -> impl Iterator<Item = u64> {
    (1..=10).map(|level| 64_u64.pow(level))
}

pub(super) fn drain<T>(wheel: &mut Wheel<T>, now: Tick) -> Vec<T> {
    std::iter::from_fn(|| wheel.pop(now)).collect()
}

/// Asserts that the next entries come out at `deadline` and not a tick before.
fn assert_next_at(wheel: &mut Wheel<Tick>, deadline: Tick) {
    if deadline > wheel.elapsed() {
        assert_eq!(wheel.pop(Tick(deadline.0 - 1)), None, "at the tick before {deadline:?}");
    }
    assert_eq!(wheel.next_expiration(), Some(deadline));
    assert_eq!(wheel.pop(deadline), Some(deadline));
    wheel.check();
}

fn assert_all_on_their_tick(mut wheel: Wheel<Tick>, mut deadlines: Vec<Tick>) {
    for &deadline in &deadlines {
        wheel.insert(deadline, deadline);
        wheel.check();
    }
    deadlines.sort_unstable();
    for deadline in deadlines {
        assert_next_at(&mut wheel, deadline);
    }
    assert!(wheel.is_empty());
}

// Far away

/// folly `c53bda788`
#[test]
fn a_timer_nearly_one_rotation_away_waits_though_the_wheel_lags_behind() {
    for span in spans() {
        for start in [0, 1, span - 1, 3 * span + span / 64] {
            for lag in [0, 1, 63, 64, span / 64, span - 1] {
                let now = Tick(start) + Ticks(lag);
                let mut wheel = Wheel::starting_at(Tick(start));
                // One of three is handed out, so the last round is not over either.
                for _ in 0..3 {
                    wheel.insert(now, now);
                }
                assert_eq!(wheel.pop(now), Some(now));
                for away in [span - 1, span, span + 1] {
                    wheel.insert(now + Ticks(away), now + Ticks(away));
                }
                assert_eq!(drain(&mut wheel, now), [now, now]);
                for away in [span - 1, span, span + 1] {
                    assert_next_at(&mut wheel, now + Ticks(away));
                }
            }
        }
    }
}

/// tokio 8334, pgdog 1017
#[test]
fn far_timers_in_the_current_slots_hide_no_short_timer() {
    for uptime in [0, 5, (1 << 30) + 77, (1 << 36) - 3, 0x0123_4567_89ab_cdef] {
        let mut wheel = Wheel::starting_at(Tick(uptime));
        let far: Vec<Tick> = spans().map(|span| Tick(uptime) + Ticks(span)).collect();
        for &deadline in &far {
            wheel.insert(deadline, deadline);
        }
        // The nearest is 64 ticks away, so all of them stay.
        for _ in 0..60 {
            let deadline = wheel.elapsed() + Ticks(1);
            wheel.insert(deadline, deadline);
            assert_next_at(&mut wheel, deadline);
        }
        for deadline in far {
            assert_next_at(&mut wheel, deadline);
        }
    }
}

/// tokio 8334
#[test]
fn short_timers_go_on_as_time_passes_every_power_of_64() {
    for power in spans() {
        let mut wheel = Wheel::starting_at(Tick(power - 5));
        for span in spans() {
            let far = Tick(power) + Ticks(span);
            wheel.insert(far, far);
        }
        for tick in power - 4..power + 5 {
            wheel.insert(Tick(tick), Tick(tick));
            assert_next_at(&mut wheel, Tick(tick));
        }
    }
}

/// caffeine `7cc9f1f41`
#[test]
fn the_next_expiration_is_never_later_than_the_earliest_timer() {
    for start in [0, 63, (1 << 24) - 1, (1 << 36) + 12_345] {
        for span in spans() {
            let mut wheel = Wheel::starting_at(Tick(start));
            // The latest first, in slots that the earliest may share; in the end more than one slot is searched.
            for away in (1..=100).rev() {
                let deadline = Tick(start) + Ticks(span) + Ticks(away * (span / 1_024).max(1));
                wheel.insert(deadline, deadline);
                let next = wheel.next_expiration().unwrap();
                assert!(Tick(start) < next && next <= deadline, "{next:?} for {deadline:?} at {start}");
            }
            let near = Tick(start) + Ticks(span);
            wheel.insert(near, near);
            assert!(wheel.next_expiration().unwrap() <= near);
            wheel.insert(Tick(start + 1), Tick(start + 1));
            assert_eq!(wheel.next_expiration(), Some(Tick(start + 1)));
        }
    }
}

/// tokio 5536, tikv 11940, and for the counter's end akka 20424, node 22149
#[test]
fn timers_work_across_2_to_the_36_and_42_and_at_the_end_of_all_ticks() {
    for near in [1 << 36, 1 << 42, 1 << 60, u64::MAX] {
        for before in (0..66).chain([126, 127, 128, 129]) {
            let start = Tick(near - before);
            let aways = [1, 2, 63, 64, 65, 4_095, 4_096, 1 << 36, u64::MAX];
            assert_all_on_their_tick(Wheel::starting_at(start), aways.map(|away| start + Ticks(away)).into());
        }
    }
}

/// akka 20424, node 22149
#[test]
fn at_the_last_tick_timers_still_fire_and_nothing_panics() {
    let mut wheel = Wheel::starting_at(Tick(u64::MAX - 1));
    let key = wheel.insert(Tick::MAX, "last");
    assert_eq!(wheel.step(Tick(u64::MAX - 1)), Step::Done);
    assert_eq!(wheel.step(Tick::MAX), Step::Fired { key, deadline: Tick::MAX, value: "last" });
    for deadline in [Tick::MAX, Tick(u64::MAX - 1), Tick::ZERO] {
        wheel.insert(deadline, "later still");
        assert_eq!(wheel.next_expiration(), Some(Tick::MAX));
        assert_eq!(wheel.pop(Tick::MAX), Some("later still"));
    }
}

/// netty 7760
#[test]
fn the_largest_delay_saturates_and_does_not_fire_at_once() {
    let now = Tick(123_456_789);
    let mut wheel = Wheel::starting_at(now);
    wheel.insert(now + Ticks(u64::MAX), "never");
    assert_eq!(wheel.pop(Tick(u64::MAX - 1)), None);
    assert_eq!(wheel.pop(Tick::MAX), Some("never"));
}

// The clock

/// Linux `a683f390b93f`
#[test]
fn short_timers_are_exact_and_cheap_after_an_hour_of_idling() {
    // In nanoseconds; for an hour, the nearest power of two.
    let (hour, millisecond) = (1 << 42, 1_000_000);
    // With and without the wheel knowing that the hour has passed.
    for elapsed in [0, hour] {
        let mut wheel = Wheel::new();
        assert_eq!(wheel.step(Tick(elapsed)), Step::Done);
        let armed: Vec<Tick> = (0..20).map(|n| Tick(hour + millisecond + n)).collect();
        for &deadline in &armed {
            wheel.insert(deadline, deadline);
        }
        if elapsed == hour {
            assert!(
                wheel.occupied[4..LEVELS].iter().all(|&slots| slots == 0),
                "levels above 3 hold entries more than 64^4 ticks away"
            );
        }
        let (mut fired, mut wakes) = (Vec::new(), 0);
        while let Some(next) = wheel.next_expiration() {
            wakes += 1;
            assert!(wakes <= 20 + 11, "more than a wake-up for each timer and level");
            let due = drain(&mut wheel, next);
            assert!(due.iter().all(|&deadline| deadline == next), "late: {due:?} at {next:?}");
            fired.extend(due);
        }
        assert_eq!(fired, armed);
    }
}

/// netty 1246
#[test]
fn an_idle_wheel_asks_for_nothing_and_a_lone_timer_for_one_wake_up() {
    let mut wheel = Wheel::new();
    assert_eq!(wheel.next_expiration(), None);
    for away in spans().chain([1, 36_000_000_000_000, u64::MAX / 2]) {
        let deadline = wheel.elapsed() + Ticks(away);
        let key = wheel.insert(deadline, ());
        assert_eq!(wheel.next_expiration(), Some(deadline));
        assert_eq!(wheel.step(deadline), Step::Fired { key, deadline, value: () });
        assert_eq!((wheel.step(deadline), wheel.next_expiration()), (Step::Done, None));
    }
}

// Many at once

/// libuv 4245, akka 32271
#[test]
fn an_entry_that_is_armed_again_as_it_fires_holds_up_no_other() {
    let now = Tick(1_000);
    let mut wheel = Wheel::new();
    wheel.insert(Tick(0), "again");
    for deadline in [1, 70, 999, 1_000] {
        wheel.insert(Tick(deadline), "other");
    }
    let (mut again, mut others) = (0, 0);
    for _ in 0..100 {
        match wheel.step(now) {
            Step::Fired { value: "again", .. } => {
                again += 1;
                wheel.insert(now, "again");
                if again == 50 {
                    // The tick never becomes empty; another entry for it must still get its turn.
                    wheel.insert(now, "other");
                }
            }
            Step::Fired { .. } => others += 1,
            Step::Cascaded => {}
            Step::Done => panic!("the slot is never empty"),
        }
    }
    assert!(again > 50 && others == 5, "{again} and {others}");
}

/// agrona 346, chronos 342
#[test]
fn entries_come_with_their_own_key_and_deadline_in_order_after_rotation() {
    let mut wheel = Wheel::starting_at(Tick(50));
    // From slot 50 on round the end of the level, and twice over.
    let mut expected: Vec<(Tick, Key, u64)> =
        (0..200).map(|n| (Tick(51 + n * 37 % 100), n)).map(|(tick, n)| (tick, wheel.insert(tick, n), n)).collect();
    expected.sort_by_key(|&(tick, _, _)| tick);
    let mut fired = Vec::new();
    loop {
        match wheel.step(Tick(151)) {
            Step::Fired { key, deadline, value } => fired.push((deadline, key, value)),
            Step::Cascaded => {}
            Step::Done => break,
        }
    }
    assert_eq!(fired, expected);
}

/// Found here: entries inserted into a cascading slot were added at its end, which postponed that end forever.
#[test]
fn what_is_due_fires_though_each_step_is_followed_by_an_insert_into_the_same_slot() {
    let mut wheel = Wheel::new();
    wheel.insert(Tick(70), "due");
    wheel.insert(Tick(71), "due");
    let fired = (0..10).any(|_| {
        let fired = matches!(wheel.step(Tick(71)), Step::Fired { value: "due", .. });
        wheel.insert(Tick(100), "not due yet, but in the slot that moves down");
        fired
    });
    assert!(fired);
}

/// If a wheel's time ran ahead to a slot, an entry inserted for an earlier tick would be taken for due, and come out
/// late.
#[test]
fn time_stands_at_what_was_handed_out_though_slots_below_come_soon() {
    let mut wheel = Wheel::new();
    wheel.insert(Tick(65), 65);
    wheel.insert(Tick(74), 74);
    assert_eq!(wheel.pop(Tick(65)), Some(65));
    wheel.insert(Tick(100), 100); // at the end of the slot that is being handed out
    wheel.insert(Tick(90), 90); // below it
    assert_eq!((wheel.pop(Tick(95)), wheel.elapsed()), (Some(74), Tick(74)));
    wheel.insert(Tick(80), 80);
    let rest: Vec<_> = std::iter::from_fn(|| wheel.pop(Tick(100))).collect();
    assert_eq!(rest, [80, 90, 100]);
}

#[test]
fn of_one_tick_the_first_comes_first_though_the_slot_that_is_handed_out_has_room_behind() {
    let mut wheel = Wheel::new();
    for tick in [65, 74] {
        wheel.insert(Tick(tick), "before");
    }
    let last = wheel.insert(Tick(100), "removed");
    assert_eq!(wheel.pop(Tick(65)), Some("before"));
    wheel.insert(Tick(90), "first"); // before the slot's last: below it
    wheel.remove(last);
    wheel.insert(Tick(90), "second"); // behind the slot's last by now
    let rest: Vec<_> = std::iter::from_fn(|| wheel.pop(Tick(90))).collect();
    assert_eq!(rest, ["before", "first", "second"]);
}

/// A list that repeatedly grows one entry beyond the capacity of its blocks.
#[test]
fn entries_come_in_order_whichever_of_them_are_removed() {
    for count in [1, 2, 31, 32, 33, 64, 65, 100] {
        for (every, of) in [(1, 1), (1, 2), (1, 33), (32, 33), (63, 64)] {
            let mut wheel = Wheel::new();
            let keys: Vec<Key> = (0..count).map(|n| wheel.insert(Tick(70 + n / 3), n)).collect();
            let is_removed = |n: &u64| n % of < every;
            for n in (0..count).rev().filter(is_removed) {
                assert_eq!(wheel.remove(keys[usize::try_from(n).unwrap()]), Some(n));
                wheel.check();
            }
            for n in count..count + 3 {
                wheel.insert(Tick(70 + n / 3), n);
                wheel.check();
            }
            let expected: Vec<u64> = (0..count).filter(|n| !is_removed(n)).chain(count..count + 3).collect();
            assert_eq!(drain(&mut wheel, Tick(127)), expected);
        }
    }
}
