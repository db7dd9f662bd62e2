//! The timers of all runtimes: finds a runtime's timer, or begins one there.
//!
//! Outside a runtime, the process's own timer serves. A runtime has ended if it drops a driver that was spawned just
//! now; nothing else proves it.
//
// Invariants
// 1. A runtime has one timer at a time, which is found by the runtime's id until its driver is dropped.
//
// It holds because timers are listed and removed under one lock, and a driver's task that is dropped removes no
// other's.

use std::collections::HashMap;
use std::sync::{Arc, RwLock, RwLockWriteGuard};
use std::thread;

use tokio::runtime::{self, Handle};
use tokio::task::JoinHandle;

use crate::core::alarm::has_threads;
use crate::core::driver::Driver;
use crate::core::memory::{Owner, TimerLease};
use crate::core::settings::Settings;
use crate::core::tasks::{spawn_driver, was_dropped};
use crate::util::error::Error;
use crate::util::sync::{PerProcess, unpoisoned};

/// The timers of all runtimes. A forked process starts with none: its parent's belong to the parent's threads.
static TIMERS: PerProcess<RwLock<Timers>> = PerProcess::new();

type Timers = HashMap<runtime::Id, Arc<Owner>>;

static GLOBAL: PerProcess<Arc<Owner>> = PerProcess::new();

/// The current runtime's timer. Fails outside a runtime, and in one that has ended.
pub(crate) fn owner() -> Result<Arc<Owner>, Error> {
    owner_of(&Handle::try_current().map_err(|_| Error::no_runtime())?)
}

/// The process's own timer, for use outside any runtime.
/// Panics if this is the first timer of the process and no thread can be started.
pub(crate) fn global() -> &'static Arc<Owner> {
    assert!(has_threads(), "this platform has no threads: timers need a tokio runtime");
    GLOBAL.get(|_| {
        let shards = thread::available_parallelism().map_or(1, usize::from);
        Owner::new(TimerLease::open(true, &Settings::with_shards(shards)), true)
    })
}

/// The timer of a runtime that already has one. Threads that ask do not wait for each other.
pub(crate) fn existing(runtime: runtime::Id) -> Option<Arc<Owner>> {
    let timers = unpoisoned(timers().read());
    live(&timers, runtime)
}

fn timers() -> &'static RwLock<Timers> {
    TIMERS.get(|_| RwLock::default())
}

fn timers_to_change() -> RwLockWriteGuard<'static, Timers> {
    unpoisoned(timers().write())
}

fn live(timers: &Timers, runtime: runtime::Id) -> Option<Arc<Owner>> {
    timers.get(&runtime).filter(|owner| owner.timer().is_open()).cloned()
}

/// Finds a runtime's timer, or creates one and spawns its driver there. Another thread may end the timer at any moment.
/// Fails if the runtime has ended.
pub(crate) fn owner_of(runtime: &Handle) -> Result<Arc<Owner>, Error> {
    let id = runtime.id();
    loop {
        if let Some(owner) = existing(id) {
            return Ok(owner);
        }
        let timers = timers_to_change();
        if let Some(owner) = live(&timers, id) {
            return Ok(owner);
        }
        let settings = Settings::for_runtime(runtime);
        let timer = TimerLease::open(false, &settings);
        let driver = Driver::new(timer, settings.alarm);
        let owner = Owner::new(timer, true);
        let driver = adopt(timers, runtime, owner.clone(), driver);
        if timer.is_open() {
            return Ok(owner);
        }
        if was_dropped(driver) {
            return Err(Error::runtime_ended());
        }
    }
}

pub(crate) fn install(runtime: &Handle, timer: Arc<Owner>, driver: Driver) -> JoinHandle<()> {
    adopt(timers_to_change(), runtime, timer, driver)
}

/// Spawns the driver, and lists its timer as the runtime's while the driver lives. The previous timer ends once nothing
/// waits on it.
fn adopt(
    mut timers: RwLockWriteGuard<'_, Timers>,
    runtime: &Handle,
    owner: Arc<Owner>,
    driver: Driver,
) -> JoinHandle<()> {
    let timer = owner.timer();
    let id = runtime.id();
    let disown = Disown(id, timer);
    let replaced = timers.insert(id, owner);
    if let Some(replaced) = &replaced {
        replaced.timer().replace();
    }
    // Unlock first: a runtime that is shutting down drops the task immediately, which locks the list, and dropping the
    // last owner of a timer ends it, which wakes tasks.
    drop(timers);
    drop(replaced);
    let driver = driver.in_a_task_of(runtime);
    spawn_driver(runtime, async move {
        let _disown = disown;
        driver.await;
    })
}

struct Disown(runtime::Id, TimerLease);

impl Drop for Disown {
    fn drop(&mut self) {
        let Disown(runtime, gone) = self;
        let mut timers = timers_to_change();
        if timers.get(runtime).is_some_and(|owner| owner.timer() == *gone) {
            let owner = timers.remove(runtime);
            drop(timers);
            drop(owner);
        }
    }
}
