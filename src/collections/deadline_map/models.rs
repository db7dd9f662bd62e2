//! Models of the map's handshake with its consumer. See [`crate::core::models`].

use std::sync::Arc;
use std::task::Poll;

use super::state::{Expiry, Insert, Lookup};
use super::{DeadlineMap, Expirations};
use crate::core::alarm::Alarm;
use crate::core::driver::Driver;
use crate::core::memory::TimerLease;
use crate::core::models::{Woken, check, far, near, poll, race, race_three, using};
use crate::core::settings::Settings;
use crate::timer::Timer;
use crate::wheel::Tick;

type Map = DeadlineMap<u64, ()>;

/// A map of two shards with its own timer, and its consumer.
fn map() -> (Map, Task) {
    let timer = TimerLease::open(false, &Settings::with_shards(1));
    let (timer, driver) = (Timer::built(timer), Driver::new(timer, Alarm::Auto));
    timer.lease.engine().reach(near(1_000));
    let (map, expirations) = DeadlineMap::builder().shards(2).timer(&timer).build().unwrap();
    (map, Task { expirations, woken: Woken::new(), taken: Vec::new(), done: false, _driver: driver })
}

/// The same, as on a paused clock.
fn map_on_a_paused_clock() -> (Map, Task) {
    let (map, task) = map();
    map.timer().publish_removals();
    map.shared.be_exact();
    (map, task)
}

impl Map {
    fn timer(&self) -> TimerLease {
        self.shared.timer.as_ref().expect("it was built on one").lease
    }

    /// The consumer waits, exactly until `deadline`.
    fn assert_waits_until(&self, deadline: Tick) {
        assert_eq!((self.shared.consumer.next_wake(), self.timer().earliest()), (deadline, deadline));
    }

    fn keys(&self, shard: usize) -> impl Iterator<Item = u64> {
        (0..1000).filter(move |key| self.shared.number_of(self.hash(key)) == shard)
    }

    fn key(&self, shard: usize) -> u64 {
        self.keys(shard).next().expect("one in two keys does")
    }

    /// `insert` with a deadline that does not come from a clock.
    fn insert_until(&self, key: u64, deadline: Tick) {
        self.replace(key, deadline);
    }

    /// The same. Returns whether it got an entry of that key.
    fn replace(&self, key: u64, deadline: Tick) -> bool {
        let new = Insert { hash: self.hash(&key), key, value: (), expires: Expiry::At(deadline), now: Tick::ZERO };
        let Ok(replaced) = self.shared.insert(new) else { panic!("this map has no limit") };
        replaced.is_some()
    }

    /// `insert_if_absent`. Returns whether it inserted.
    fn insert_absent(&self, key: u64, deadline: Tick) -> bool {
        let new = Insert { hash: self.hash(&key), key, value: (), expires: Expiry::At(deadline), now: Tick::ZERO };
        self.shared.insert_if_absent(new).is_ok()
    }

    fn touch_until(&self, key: u64, deadline: Tick) {
        assert!(self.touch_early(key, deadline));
    }

    /// `touch` by a thread that read the clock before any deadline. Returns whether the entry was there.
    fn touch_early(&self, key: u64, deadline: Tick) -> bool {
        let lookup = Lookup { hash: self.hash(&key), key: &key, now: Tick::ZERO };
        self.shared.visit(lookup, |_, _| Some(deadline), |_, _| ()).is_some()
    }

    /// `remove` by such a thread. Returns whether it got the entry.
    fn remove_early(&self, key: u64) -> bool {
        self.shared.remove_if(Lookup { hash: self.hash(&key), key: &key, now: Tick::ZERO }, |()| true).is_some()
    }
}

struct Task {
    expirations: Expirations<u64, ()>,
    woken: Arc<Woken>,
    taken: Vec<u64>,
    done: bool,
    _driver: Driver,
}

impl Task {
    /// Polls until it is pending and was not woken.
    #[must_use]
    fn run(mut self) -> Task {
        loop {
            let polled = poll(&mut Box::pin(self.expirations.recv()), &self.woken);
            match polled {
                Poll::Ready(Some((key, ()))) => self.taken.push(key),
                Poll::Ready(None) => {
                    self.done = true;
                    return self;
                }
                Poll::Pending if self.woken.take() > 0 => {}
                Poll::Pending => return self,
            }
        }
    }

    #[must_use]
    fn go_on(self) -> Task {
        if self.woken.take() > 0 { self.run() } else { self }
    }
}

#[test]
fn insert_against_waiting() {
    check("map: insert against waiting", || {
        let (map, task) = map();
        let key = map.key(0);
        let (task, _map) = race(move || task.run(), using(map, move |map| map.insert_until(key, near(1))));
        assert_eq!(task.go_on().taken, [key]);
    });
}

/// Two threads insert a key each, drop their handles, and the consumer goes to wait.
fn insert_both_against_waiting(map: Map, task: Task, one: u64, other: u64) {
    let second = map.clone();
    let (task, (), ()) = race_three(
        move || task.run(),
        move || second.insert_until(other, near(2)),
        move || map.insert_until(one, near(1)),
    );
    let mut taken = task.go_on().taken;
    taken.sort_unstable();
    let mut both = [one, other];
    both.sort_unstable();
    assert_eq!(taken, both);
}

#[test]
fn two_inserts_against_waiting() {
    check("map: two inserts against waiting", || {
        let (map, task) = map();
        let (one, other) = (map.key(0), map.key(1));
        insert_both_against_waiting(map, task, one, other);
    });
}

#[test]
fn two_first_inserts_in_one_shard_against_waiting() {
    check("map: two first inserts in one shard against waiting", || {
        let (map, task) = map();
        let both: Vec<u64> = map.keys(0).take(2).collect();
        insert_both_against_waiting(map, task, both[0], both[1]);
    });
}

#[test]
fn one_insert_after_the_other_against_waiting() {
    check("map: one insert after the other against waiting", || {
        let (map, task) = map();
        let (one, other) = (map.key(0), map.key(1));
        let (task, _map) = race(
            move || task.run(),
            using(map, move |map| {
                map.insert_until(one, near(1));
                map.insert_until(other, near(2));
            }),
        );
        assert_eq!(task.go_on().taken.len(), 2);
    });
}

#[test]
fn two_inserts_if_absent_against_waiting() {
    check("map: two inserts if absent against waiting", || {
        let (map, task) = map();
        let key = map.key(0);
        let second = map.clone();
        let (task, one, (other, map)) = race_three(
            move || task.run(),
            move || second.insert_absent(key, far(1)),
            move || (map.insert_absent(key, far(1)), map),
        );
        assert_ne!(one, other, "one of them inserts");
        let _task = task.go_on();
        map.assert_waits_until(far(1));
    });
}

#[test]
fn earlier_against_waiting() {
    check("map: earlier against waiting", || {
        let (map, task) = map();
        let (one, other) = (map.key(0), map.key(1));
        map.insert_until(one, far(4));
        let task = task.run();
        let toucher = map.clone();
        let (task, (), map) = race_three(
            move || task.run(),
            move || toucher.touch_until(one, far(1)),
            using(map, move |map| map.insert_until(other, far(3))),
        );
        let task = task.go_on();
        assert!(task.taken.is_empty() && !task.done);
        assert_eq!(map.shared.consumer.next_wake(), far(1), "it wakes by itself for the earliest");
        assert!(map.shared.timer.as_ref().is_some_and(|timer| timer.metrics().pending() == 1));
    });
}

/// A paused clock jumps to the tick that the consumer sleeps until.
#[test]
fn remove_against_waiting_on_a_paused_clock() {
    check("map: remove against waiting on a paused clock", || {
        let (map, task) = map_on_a_paused_clock();
        let (one, other) = (map.key(0), map.key(1));
        map.insert_until(one, far(1));
        map.insert_until(other, far(2));
        let (task, map) = race(move || task.run(), using(map, move |map| assert!(map.remove(&one).is_some())));
        let _task = task.go_on();
        map.assert_waits_until(far(2));
    });
}

#[test]
fn remove_against_insert_on_a_paused_clock() {
    check("map: remove against insert on a paused clock", || {
        let (map, task) = map_on_a_paused_clock();
        let (one, other) = (map.key(0), map.key(1));
        map.insert_until(one, far(1));
        let task = task.run();
        let inserter = map.clone();
        let (task, (), map) = race_three(
            move || task.go_on(),
            move || inserter.insert_until(other, far(2)),
            using(map, move |map| assert!(map.remove(&one).is_some())),
        );
        let _task = task.go_on();
        map.assert_waits_until(far(2));
    });
}

/// The consumer takes an entry that another thread changes. One of them gets it. `left` is how many entries are in the
/// map after that, if the consumer does and if the thread does.
fn against_taking(change: fn(&Map, u64) -> bool, left: [usize; 2]) {
    let (map, task) = map();
    let key = map.key(0);
    map.insert_until(key, near(1));
    let (task, (got, map)) = race(move || task.run(), move || (change(&map, key), map));
    let task = task.go_on();
    assert_eq!(task.taken.len() + usize::from(got), 1, "one of them gets it");
    assert_eq!(map.len(), left[usize::from(got)]);
}

#[test]
fn remove_against_taking() {
    check("map: remove against taking", || against_taking(Map::remove_early, [0, 0]));
}

#[test]
fn touch_against_taking() {
    check("map: touch against taking", || against_taking(|map, key| map.touch_early(key, far(1)), [0, 1]));
}

#[test]
fn replacing_against_taking() {
    check("map: replacing against taking", || against_taking(|map, key| map.replace(key, far(1)), [1, 1]));
}

#[test]
fn the_last_handle_against_waiting() {
    check("map: the last handle against waiting", || {
        let (map, task) = map();
        let key = map.key(0);
        let (task, ()) = race(
            move || task.run(),
            move || {
                map.insert_until(key, near(1));
                drop(map);
            },
        );
        let task = task.go_on();
        assert_eq!((&task.taken[..], task.done), (&[key][..], true));
        assert!(!task.woken.is_held(), "no waker is left");
    });
}

#[test]
fn insert_against_the_drop_of_the_stream() {
    check("map: insert against the drop of the stream", || {
        let (map, task) = map();
        let key = map.key(0);
        let task = task.run();
        let woken = task.woken.clone();
        let (_map, ()) = race(using(map, move |map| map.insert_until(key, near(1))), move || drop(task));
        assert!(woken.take() <= 1);
        assert!(!woken.is_held(), "no waker is left");
    });
}
