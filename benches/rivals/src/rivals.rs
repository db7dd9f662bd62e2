//! The timers.

use std::future::Future;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio_util::time::delay_queue::{DelayQueue, Key};

use crate::rival::{Kept, Rival, Until, keep, poll_once};

/// A rival whose timers are futures, each made from a duration.
macro_rules! sleeps {
    ($(#[$about:meta])* $name:ident($($field:ty)?), $shown:literal, new: $new:expr,
     sleep: |$rival:ident, $duration:ident| $sleep:expr $(, until: |$deadline:ident| $until:expr)? $(; $more:item)*) => {
        $(#[$about])*
        pub struct $name($($field)?);

        impl Rival for $name {
            const NAME: &str = $shown;
            type Armed = Kept;
            $($more)*

            fn new() -> Self {
                $new
            }

            fn arm(&mut self, $duration: Duration, cx: &mut Context<'_>) -> Kept {
                let $rival = self;
                keep($sleep, cx)
            }

            #[inline]
            fn arm_cancel(&mut self, $duration: Duration, cx: &mut Context<'_>) {
                let $rival = self;
                poll_once($sleep, cx);
            }
        }

        $(impl Until for $name {
            fn sleep_until($deadline: Instant) -> impl Future<Output = ()> + Send + 'static {
                $until
            }
        })?
    };
}

sleeps! {
    /// This crate's free functions.
    Hairspring(), "hairspring", new: Hairspring(), sleep: |_rival, duration| hairspring::sleep(duration),
    until: |deadline| hairspring::sleep_until(deadline.into())
}

sleeps! {
    /// This crate through a `Timer` that is held, which need not be found first.
    Handle(hairspring::Timer), "hairspring, handle", new: Handle(hairspring::Timer::current()),
    sleep: |rival, duration| rival.0.sleep(duration)
}

sleeps! {
    /// One wheel for each runtime, behind a lock.
    Tokio(), "tokio::time", new: Tokio(), sleep: |_rival, duration| tokio::time::sleep(duration),
    until: |deadline| tokio::time::sleep_until(deadline.into())
}

#[cfg(tokio_unstable)]
sleeps! {
    /// Tokio's alternative timer, an unstable option of its runtime: a wheel for each worker thread.
    TokioAlt(), "tokio, alternative", new: TokioAlt(), sleep: |_rival, duration| tokio::time::sleep(duration),
    until: |deadline| tokio::time::sleep_until(deadline.into());
    // The option has no effect there.
    const ON_CURRENT_THREAD: bool = false;;
    fn configure(runtime: &mut tokio::runtime::Builder) {
        runtime.enable_alt_timer();
    }
}

sleeps! {
    /// The fast timers: ticks of 10 ms, a tree of ticks for each thread; what is dropped stays until its tick.
    Pingora(), "pingora-timeout", new: Pingora(),
    sleep: |_rival, duration| pingora_timeout::fast_timeout::fast_sleep(duration)
}

sleeps! {
    /// One binary tree of timers for the process, behind a lock, and a queue of operations in front of it.
    AsyncIo(), "async-io", new: AsyncIo(), sleep: |_rival, duration| async_io::Timer::after(duration),
    until: |deadline| async move { async_io::Timer::at(deadline).await; }
}

sleeps! {
    /// A `timerfd` for each sleep.
    TokioHrtime(), "tokio-hrtime", new: TokioHrtime(), sleep: |_rival, duration| tokio_hrtime::sleep(duration),
    until: |deadline| tokio_hrtime::sleep_until(deadline)
}

sleeps! {
    /// The same, with other calls.
    TokioTimerd(), "tokio-timerd", new: TokioTimerd(), sleep: |_rival, duration| tokio_timerd::sleep(duration),
    until: |deadline| async move {
        let sleep = tokio_timerd::Delay::new(deadline).expect("the system has one more");
        sleep.await.expect("it can be read");
    }
}

sleeps! {
    /// One heap of timers for the process, kept by a thread that hears of each change.
    FuturesTimer(), "futures-timer", new: FuturesTimer(), sleep: |_rival, duration| futures_timer::Delay::new(duration)
}

sleeps! {
    /// Microsoft's: one binary tree of timers for each clock, behind a lock, driven by a tokio task. Its storage for
    /// each thread is for runtimes that pin tasks to threads. On tokio, as here, a clock is shared.
    Tick(tick::Clock), "tick", new: Tick(tick::Clock::new_tokio()), sleep: |rival, duration| rival.0.delay(duration);
    fn for_another_task(&self) -> Self {
        Tick(self.0.clone())
    }
}

/// A wheel of the caller's own, not shared with any other task, and one tokio `Sleep` for the earliest of what is in
/// it. Each task has one.
pub struct Queue(DelayQueue<()>);

impl Rival for Queue {
    const NAME: &str = "tokio-util DelayQueue";
    const SHARED: bool = false;
    type Armed = Key;

    fn new() -> Self {
        Queue(DelayQueue::new())
    }

    fn arm(&mut self, duration: Duration, cx: &mut Context<'_>) -> Key {
        let key = self.0.insert((), duration);
        // Has the queue's own sleep registered.
        assert!(!matches!(self.0.poll_expired(cx), Poll::Ready(Some(_))), "its deadline is far away");
        key
    }

    fn cancel(&mut self, key: Key) {
        self.0.remove(&key);
    }

    /// Without a poll between the two: a queue is polled once for many changes.
    #[inline]
    fn arm_cancel(&mut self, duration: Duration, _cx: &mut Context<'_>) {
        let key = self.0.insert((), duration);
        self.0.remove(&key);
    }
}

/// What arming and cancelling cannot do without, as long as timers have a lock and a deadline counts from now: one
/// reading of the clock, two uncontended pairs of lock and unlock, one clone and drop of the waker.
pub struct Floor {
    // On cache lines of its own, as the timers of one thread ought to be.
    lock: Box<Padded>,
}

#[repr(align(128))]
struct Padded(Mutex<u64>);

impl Floor {
    #[inline]
    fn lock_unlock(&self) {
        *black_box(&self.lock.0).lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

impl Rival for Floor {
    const NAME: &str = "floor: clock, 2 locks, waker";
    type Armed = ();

    fn new() -> Self {
        Floor { lock: Box::new(Padded(Mutex::new(0))) }
    }

    fn arm(&mut self, _duration: Duration, _cx: &mut Context<'_>) {}

    #[inline]
    fn arm_cancel(&mut self, duration: Duration, cx: &mut Context<'_>) {
        black_box(Instant::now() + duration);
        self.lock_unlock();
        black_box(cx.waker().clone());
        self.lock_unlock();
    }
}

/// This crate's wheel alone: no clock, no lock, no waker.
pub struct BareWheel(Box<hairspring::wheel::Wheel<u64>>);

impl Rival for BareWheel {
    const NAME: &str = "floor: bare wheel";
    type Armed = hairspring::wheel::Key;

    fn new() -> Self {
        BareWheel(Box::default())
    }

    #[inline]
    fn arm(&mut self, duration: Duration, _cx: &mut Context<'_>) -> Self::Armed {
        // Without the 128 bits of `as_nanos`.
        let nanos = duration.as_secs() * 1_000_000_000 + u64::from(duration.subsec_nanos());
        self.0.insert(hairspring::wheel::Tick(nanos), nanos)
    }

    #[inline]
    fn cancel(&mut self, key: Self::Armed) {
        black_box(self.0.remove(key));
    }
}
