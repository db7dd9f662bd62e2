//! [`Shared`]: what the handles of a map and its stream share. `operations.rs` has what they do with it.

use std::panic::Location;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use super::builder::Config;
use super::consumer::Consumer;
use super::reentry::{Inside, is_inside};
use super::state::Made;
use crate::core::capacity::Capacity;
use crate::core::parker::Next;
use crate::future::{ItemKind, LazySleep, now_on, sleep_made_at};
use crate::timer::Timer;
use crate::util::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::wheel::Tick;

/// A shard that never had an entry takes 24 bytes.
pub(super) struct Shared<K, V> {
    /// The tick at which each shard next has work; `Tick::MAX` if it has no entries.
    // Separate from the data that each operation reads: the consumer reads few cache lines.
    pub(super) next: Box<[Next]>,
    /// `None` if there never was an entry.
    pub(super) states: Box<[Made<K, V>]>,
    pub(super) capacity: Capacity,
    pub(super) max_lifetime: Option<Duration>,
    pub(super) consumer: Consumer,
    pub(super) name: Option<&'static str>,
    /// The stream waits on it, and the map reads its clock.
    pub(super) timer: Option<Timer>,
    made: &'static Location<'static>,
    /// The number of handles. Without any, the stream ends once it is empty.
    pub(super) handles: AtomicUsize,
}

impl<K, V> Shared<K, V> {
    /// A map with one handle. The number of shards is a power of two.
    #[track_caller]
    pub(super) fn new(config: Config) -> Self {
        let Config { shards, max_entries: most, max_lifetime, timer, name } = config;
        let capacity = Capacity::new();
        capacity.open(most);
        let map = Shared {
            next: (0..shards).map(|_| Next::never()).collect(),
            states: (0..shards).map(|_| OnceLock::new()).collect(),
            capacity,
            max_lifetime,
            consumer: Consumer::new(),
            name,
            timer,
            made: Location::caller(),
            handles: AtomicUsize::new(1),
        };
        // Created now: if a test has paused the clock here, the sleep stays on that clock.
        map.consumer.stop_waiting(Some(map.endless_sleep()));
        map
    }

    pub(super) fn endless_sleep(&self) -> LazySleep {
        let sleep = sleep_made_at(self.timer.as_ref(), Tick::MAX, self.made);
        LazySleep::new(sleep.part_of(ItemKind::DeadlineMap))
    }

    #[inline]
    pub(super) fn now(&self) -> Tick {
        now_on(self.timer.as_ref())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.handles.load(SeqCst) == 0
    }

    /// Identifies this map: not zero.
    #[inline]
    fn id(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Panics if this thread runs a closure for this map.
    #[inline]
    pub(super) fn check(&self) {
        if is_inside(self.id()) {
            self.refuse();
        }
    }

    #[cold]
    fn refuse(&self) -> ! {
        let name = self.name.map(|name| format!("`{name}`, ")).unwrap_or_default();
        panic!(
            "a closure for the `DeadlineMap` {name}created at {}, or `Clone` of its value, used the same map, which is \
             locked",
            self.made
        )
    }

    /// Runs `code` of the user under the lock of one of the map's shards.
    #[inline]
    pub(super) fn inside<R>(&self, code: impl FnOnce() -> R) -> R {
        let _inside = Inside::enter(self.id());
        code()
    }

    /// Entries were removed or postponed. A paused clock must not jump to their old deadlines.
    pub(super) fn postponed(&self) {
        if self.consumer.is_exact() {
            self.consumer.postponed(self.next.iter().map(Next::get).min().unwrap_or(Tick::MAX));
        }
    }
}
