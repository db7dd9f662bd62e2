//! The rivals.

use std::future::Future;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio_util::time::delay_queue::{DelayQueue, Key};

use crate::rival::{Kept, Rival, Until, keep, poll_once};

/// A rival whose timers are futures, created from a duration.
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
    /// Our free functions.
    Hairspring(), "hairspring", new: Hairspring(), sleep: |_rival, duration| hairspring::sleep(duration),
    until: |deadline| hairspring::sleep_until(deadline.into())
}

sleeps! {
    /// Our `Timer`, a handle that saves the lookup.
    Handle(hairspring::Timer), "hairspring, handle", new: Handle(hairspring::Timer::current()),
    sleep: |rival, duration| rival.0.sleep(duration)
}

sleeps! {
    /// A wheel per runtime, behind a lock.
    Tokio(), "tokio::time", new: Tokio(), sleep: |_rival, duration| tokio::time::sleep(duration),
    until: |deadline| tokio::time::sleep_until(deadline.into())
}

#[cfg(tokio_unstable)]
sleeps! {
    /// An unstable option of tokio's runtime: a wheel per worker.
    TokioAlt(), "tokio, alternative", new: TokioAlt(), sleep: |_rival, duration| tokio::time::sleep(duration),
    until: |deadline| tokio::time::sleep_until(deadline.into());
    // It has no effect there.
    const ON_CURRENT_THREAD: bool = false;;
    fn configure(runtime: &mut tokio::runtime::Builder) {
        runtime.enable_alt_timer();
    }
}

sleeps! {
    /// A tree per thread, with ticks of 10 ms. A dropped timer stays until its tick.
    Pingora(), "pingora-timeout", new: Pingora(),
    sleep: |_rival, duration| pingora_timeout::fast_timeout::fast_sleep(duration)
}

sleeps! {
    /// A binary tree for the process, behind a queue of operations and a lock.
    AsyncIo(), "async-io", new: AsyncIo(), sleep: |_rival, duration| async_io::Timer::after(duration),
    until: |deadline| async move { async_io::Timer::at(deadline).await; }
}

sleeps! {
    /// A `timerfd` per sleep.
    TokioHrtime(), "tokio-hrtime", new: TokioHrtime(), sleep: |_rival, duration| tokio_hrtime::sleep(duration),
    until: |deadline| tokio_hrtime::sleep_until(deadline)
}

sleeps! {
    /// A `timerfd` per sleep.
    TokioTimerd(), "tokio-timerd", new: TokioTimerd(), sleep: |_rival, duration| tokio_timerd::sleep(duration),
    until: |deadline| async move {
        let sleep = tokio_timerd::Delay::new(deadline).expect("a file is left");
        sleep.await.expect("it can be read");
    }
}

sleeps! {
    /// A heap for the process, owned by a thread that is told of each change.
    FuturesTimer(), "futures-timer", new: FuturesTimer(), sleep: |_rival, duration| futures_timer::Delay::new(duration)
}

sleeps! {
    /// A binary tree per clock, behind a lock, driven by a tokio task. On tokio, threads share a clock.
    Tick(tick::Clock), "tick", new: Tick(tick::Clock::new_tokio()), sleep: |rival, duration| rival.0.delay(duration);
    fn for_another_task(&self) -> Self {
        Tick(self.0.clone())
    }
}

/// A wheel per task, with a tokio `Sleep` for its earliest entry.
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
        // Registers the queue's sleep.
        assert!(!matches!(self.0.poll_expired(cx), Poll::Ready(Some(_))), "its deadline is far away");
        key
    }

    fn cancel(&mut self, key: Key) {
        self.0.remove(&key);
    }

    /// Without a poll in between, because a queue is polled once for many changes.
    #[inline]
    fn arm_cancel(&mut self, duration: Duration, _cx: &mut Context<'_>) {
        let key = self.0.insert((), duration);
        self.0.remove(&key);
    }
}

/// What a timer with a lock cannot avoid: reading the clock, locking and unlocking twice without contention, cloning
/// and dropping the waker.
pub struct Floor {
    // No false sharing, as it should be with timers of one thread.
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

/// Our wheel alone, without clock, lock or waker.
pub struct BareWheel(Box<hairspring::wheel::Wheel<u64>>);

impl Rival for BareWheel {
    const NAME: &str = "floor: bare wheel";
    type Armed = hairspring::wheel::Key;

    fn new() -> Self {
        BareWheel(Box::default())
    }

    #[inline]
    fn arm(&mut self, duration: Duration, _cx: &mut Context<'_>) -> Self::Armed {
        // Not `as_nanos`, which has 128 bits.
        let nanos = duration.as_secs() * 1_000_000_000 + u64::from(duration.subsec_nanos());
        self.0.insert(nanos.into(), nanos)
    }

    #[inline]
    fn cancel(&mut self, key: Self::Armed) {
        black_box(self.0.remove(key));
    }
}
