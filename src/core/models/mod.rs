//! Models: small programs of two or three threads that use the same timer, on the code that ships.
//!
//! With `--cfg hairspring_loom`, loom runs each model in every order of its threads' steps, up to a number of
//! preemptions, and with every value that loads may see. Otherwise each model runs some hundred times on real threads.
//! CONTRIBUTING.md has the commands.
//!
//! Time does not pass in a model. A deadline is [`near`], and passed long ago, or [`far`]. A model fires far deadlines
//! by passing their tick, as a driver's own alarm does.

mod alarm;
mod parker;
mod pool;
mod timer;

use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize as PlainUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

#[cfg(hairspring_loom)]
use loom::thread;
#[cfg(not(hairspring_loom))]
use std::thread;

use crate::clock;
use crate::core::alarm::Alarm;
use crate::core::alarm::thread as alarm_thread;
use crate::core::driver::Driver;
use crate::core::engine::Engine;
use crate::core::memory::TimerLease;
use crate::core::shard::{InsertError, ShardLease};
use crate::future::Sleep;
use crate::util::error::Error;
#[cfg(hairspring_loom)]
use crate::util::sync;
use crate::util::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::wheel::{Tick, Ticks};

/// How long anything may take before it counts as hung.
#[cfg(not(hairspring_loom))]
const HUNG: Duration = Duration::from_secs(60);

const HOUR: Ticks = Ticks(3_600_000_000_000);

/// A deadline that passed long ago; greater numbers are later.
pub(crate) fn near(number: u64) -> Tick {
    Tick(1_000_000 + number)
}

/// A deadline that is years away; greater numbers are later.
pub(crate) fn far(number: u64) -> Tick {
    // The clock starts 50 years in the past.
    Tick(HOUR.0 * 24 * 365 * 100 + number * HOUR.0)
}

/// The stack size of a thread, in words. Loom's default is too small for a wheel.
#[cfg(hairspring_loom)]
const STACK: usize = 0x8000;

#[cfg(hairspring_loom)]
pub(crate) fn check(name: &str, model: fn()) {
    let mut builder = loom::model::Builder::new();
    let bound = *builder.preemption_bound.get_or_insert(2);
    builder.max_branches = 10_000;
    let (runs, start) = (Arc::new(PlainUsize::new(0)), Instant::now());
    let counted = runs.clone();
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        thread::Builder::new().stack_size(STACK).spawn(model).unwrap().join().unwrap();
    });
    let runs = runs.load(Relaxed);
    println!("{name}: {runs} interleavings with up to {bound} preemptions, in {:.1?}", start.elapsed());
}

#[cfg(not(hairspring_loom))]
pub(crate) fn check(name: &str, model: fn()) {
    const RUNS: usize = 300;
    (0..RUNS).for_each(|_| model());
    println!("{name}: {RUNS} runs on real threads");
}

pub(crate) fn race<A, B>(one: impl FnOnce() -> A + Send + 'static, other: impl FnOnce() -> B + Send + 'static) -> (A, B)
where
    A: Send + 'static,
    B: Send + 'static,
{
    let start = Start::together(2);
    let (one, other) = (start.spawn(one), start.spawn(other));
    (one.join().unwrap(), other.join().unwrap())
}

pub(crate) fn race_three<A, B, C>(
    first: impl FnOnce() -> A + Send + 'static,
    second: impl FnOnce() -> B + Send + 'static,
    third: impl FnOnce() -> C + Send + 'static,
) -> (A, B, C)
where
    A: Send + 'static,
    B: Send + 'static,
    C: Send + 'static,
{
    let start = Start::together(3);
    let (first, second, third) = (start.spawn(first), start.spawn(second), start.spawn(third));
    (first.join().unwrap(), second.join().unwrap(), third.join().unwrap())
}

/// A thread of a race that uses a value and returns it, so that it outlives the race.
pub(crate) fn using<T>(mut value: T, code: impl FnOnce(&mut T)) -> impl FnOnce() -> T {
    move || {
        code(&mut value);
        value
    }
}

/// How many threads have not started yet. Real threads take longer to start than to run their part.
struct Start(Arc<PlainUsize>);

impl Start {
    fn together(threads: usize) -> Start {
        Start(Arc::new(PlainUsize::new(threads)))
    }

    fn spawn<T: Send + 'static>(&self, side: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
        let missing = self.0.clone();
        let side = move || {
            missing.fetch_sub(1, Relaxed);
            while cfg!(not(hairspring_loom)) && missing.load(Relaxed) > 0 {
                thread::yield_now();
            }
            side()
        };
        #[cfg(hairspring_loom)]
        return thread::Builder::new().stack_size(STACK).spawn(side).unwrap();
        #[cfg(not(hairspring_loom))]
        thread::spawn(side)
    }
}

pub(crate) struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Woken {
    pub(crate) fn new() -> Arc<Woken> {
        Arc::new(Woken(AtomicUsize::new(0)))
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.0.load(SeqCst) > 0
    }

    /// How often it was woken since the last call.
    pub(crate) fn take(&self) -> usize {
        self.0.swap(0, SeqCst)
    }

    pub(crate) fn is_held(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }
}

/// Asserts `seen`. On real threads, waits for it: the alarm thread, which no model joins, may be at work.
pub(crate) fn wait_until(what: &str, mut seen: impl FnMut() -> bool) {
    #[cfg(hairspring_loom)]
    assert!(seen(), "{what}");
    #[cfg(not(hairspring_loom))]
    {
        let start = Instant::now();
        while !seen() {
            assert!(start.elapsed() < HUNG, "{what}");
            thread::yield_now();
        }
    }
}

/// Registers in a shard. Returns the waker's count.
pub(crate) fn register(timer: TimerLease, shard: usize, deadline: Tick) -> Arc<Woken> {
    let woken = Woken::new();
    let waker = Waker::from(woken.clone());
    match timer.shard(shard).insert(deadline, waker.clone()) {
        Ok(_) => {}
        // A turn has reached it, so it is ready immediately.
        Err(InsertError::AlreadyDue) => waker.wake(),
        Err(refused) => panic!("{refused:?}"),
    }
    woken
}

#[derive(Clone, Copy)]
pub(crate) struct World {
    pub(crate) timer: TimerLease,
    pub(crate) lease: ShardLease,
}

impl Engine {
    /// When the alarm thread calls.
    pub(crate) fn booked(&self) -> Option<Instant> {
        alarm_thread::modelled::booked(self.id)
    }
}

impl World {
    /// For models in which everything is far.
    pub(crate) fn new() -> World {
        World::make(true)
    }

    /// For models in which the alarm thread calls. Under loom, the model makes the calls.
    pub(crate) fn with_alarm() -> World {
        World::make(false)
    }

    fn make(ignores_alarm: bool) -> World {
        let timer = TimerLease::of_a_model(ignores_alarm);
        World { timer, lease: timer.shard(0) }
    }

    pub(crate) fn sleeping(self, deadline: Tick) -> (Sleep, Arc<Woken>) {
        let mut sleep = Sleep::on(self.lease, deadline, Location::caller());
        let woken = Woken::new();
        assert!(poll(&mut sleep, &woken).is_pending());
        (sleep, woken)
    }

    pub(crate) fn register(self, deadline: Tick) -> Arc<Woken> {
        self.register_in(0, deadline)
    }

    /// Registers in a shard. Returns the waker's count.
    pub(crate) fn register_in(self, shard: usize, deadline: Tick) -> Arc<Woken> {
        register(self.timer, shard, deadline)
    }

    /// The turns so far came before any deadline.
    pub(crate) fn has_reached_nothing(self) {
        self.timer.engine().reached.store(0, SeqCst);
    }

    /// Fires the entries due at `now`, as a driver's own alarm does. Returns how many tasks it woke.
    pub(crate) fn fire(self, now: Tick) -> usize {
        self.timer.fire_at(now)
    }

    /// Asserts that the driver sleeps until `deadline` at most, and has a booking for that.
    pub(crate) fn assert_sleeps_until(self, deadline: Tick) {
        let by = clock::instant_of(deadline).into_std();
        let engine = self.timer.engine();
        wait_until(&format!("the driver sleeps until {deadline:?} at most, and something wakes it by then"), || {
            engine.next_wake() <= deadline && engine.booked().is_some_and(|at| at <= by)
        });
    }
}

pub(crate) struct Task {
    driver: Driver,
    woken: Arc<Woken>,
    pub(crate) done: bool,
}

impl Task {
    pub(crate) fn new(world: World) -> Task {
        let driver = Driver::new(world.timer, Alarm::Thread);
        let task = Task { driver, woken: Woken::new(), done: false };
        task.wake();
        task
    }

    pub(crate) fn wake(&self) {
        self.woken.wake_by_ref();
    }

    /// The driver was polled, and its runtime's pass is still to come.
    pub(crate) fn waits_for_its_pass(&self, world: World) {
        self.woken.take();
        world.timer.engine().driver_came(Waker::from(self.woken.clone()));
    }

    #[must_use = "dropped, the driver ends the timer"]
    pub(crate) fn run(mut self) -> Task {
        self.run_in_place();
        self
    }

    fn run_in_place(&mut self) {
        while self.woken.take() > 0 {
            self.done |= poll(&mut self.driver, &self.woken).is_ready();
        }
    }

    /// Polls the driver as long as it is woken. Returns whether it has completed.
    pub(crate) fn completes(&mut self) -> bool {
        self.run_in_place();
        self.done
    }

    /// Lets everything due happen: the alarm thread calls, and the driver is polled if it is woken.
    #[cfg(hairspring_loom)]
    #[must_use = "dropped, the driver ends the timer"]
    pub(crate) fn settle(mut self, _: impl Fn() -> bool) -> Task {
        loop {
            self = self.run();
            // Longer than the alarm thread waits for a driver, and shorter than anything far.
            sync::pass(Duration::from_secs(1));
            if !alarm_thread::modelled::call_due() {
                return self;
            }
        }
    }

    #[cfg(not(hairspring_loom))]
    #[must_use = "dropped, the driver ends the timer"]
    pub(crate) fn settle(mut self, seen: impl Fn() -> bool) -> Task {
        alarm_thread::start().unwrap();
        wait_until("due events happen", || {
            self.run_in_place();
            seen()
        });
        self.run()
    }
}

pub(crate) fn poll_elapsed(sleep: &mut Sleep, woken: &Arc<Woken>) -> Poll<Result<(), Error>> {
    sleep.poll_elapsed(&mut Context::from_waker(&Waker::from(woken.clone())), false)
}

pub(crate) fn poll<F: Future + Unpin>(future: &mut F, woken: &Arc<Woken>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(woken.clone())))
}
