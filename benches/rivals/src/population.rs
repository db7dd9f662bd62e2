//! Many pending timers whose wakers only count.

use std::future::{self, Future};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task;
use tools::Gate;
use tools::machine::resident;

use crate::rival::{Until, poll_once};

/// What is armed, and a count of what has fired.
pub struct Population<F> {
    _timers: Vec<Vec<F>>,
    before: u64,
    pub count: Arc<Count>,
}

impl<F: Future + Unpin + Send + 'static> Population<F> {
    /// Arms one half on each of two workers. `None` if that lasted until the first deadline, `due`.
    pub fn arm<U: Until>(
        runtime: &Runtime,
        size: usize,
        due: Instant,
        deadline: impl Fn(usize) -> Instant + Copy + Send + 'static,
        sleep_until: fn(Instant) -> F,
    ) -> Option<Self> {
        for task in [(); 2].map(|()| runtime.spawn(warm_up::<U>())) {
            runtime.block_on(task).expect("nothing panics");
        }
        let before = resident();
        let (count, gate) = (Arc::new(Count::new(size)), Arc::new(Gate::new(2)));
        let tasks = [0..size / 2, size / 2..size].map(|numbers| {
            let (gate, waker) = (Arc::clone(&gate), Waker::from(Arc::clone(&count)));
            runtime.spawn(async move {
                warm_up::<U>().await;
                gate.meet().await;
                let mut cx = Context::from_waker(&waker);
                let mut timers = Vec::with_capacity(numbers.len());
                for number in numbers {
                    let mut sleep = sleep_until(deadline(number));
                    let _ = Pin::new(&mut sleep).poll(&mut cx);
                    timers.push(sleep);
                }
                timers
            })
        });
        let timers = tasks.into_iter().map(|task| runtime.block_on(task).expect("nothing panics")).collect();
        (Instant::now() + Duration::from_millis(20) < due).then_some(Population { _timers: timers, before, count })
    }

    /// Bytes that are resident since the timers were armed.
    pub fn resident(&self) -> u64 {
        resident().saturating_sub(self.before)
    }

    /// Cancels what is pending, and returns the bytes that stay resident.
    pub fn end(self) -> u64 {
        let before = self.before;
        drop(self);
        thread::sleep(Duration::from_millis(100));
        resident().saturating_sub(before)
    }
}

/// Deadlines in order, from `due` on for as long as `over`.
pub fn evenly(due: Instant, over: Duration, size: usize) -> impl Fn(usize) -> Instant + Copy + Send + 'static {
    move |number| due + over.mul_f64(number as f64 / size as f64)
}

/// On a thread's first timers, a library may have to set up its state there.
async fn warm_up<U: Until>() {
    for _ in 0..16 {
        arm_cancel::<U>().await;
        task::yield_now().await;
    }
}

/// Returns how long it took, in nanoseconds.
pub async fn arm_cancel<U: Until>() -> u64 {
    let start = Instant::now();
    future::poll_fn(|cx| {
        poll_once(U::sleep_until(Instant::now() + Duration::from_mins(1)), cx);
        Poll::Ready(())
    })
    .await;
    start.elapsed().as_nanos() as u64
}

/// A waker that counts its calls and notes the time of the last.
pub struct Count {
    expected: usize,
    woken: AtomicUsize,
    created: Instant,
    /// Nanoseconds since creation; 0 until then.
    completed: AtomicU64,
}

impl Count {
    fn new(expected: usize) -> Self {
        Count { expected, woken: AtomicUsize::new(0), created: Instant::now(), completed: AtomicU64::new(0) }
    }

    pub fn has_started(&self) -> bool {
        self.woken.load(SeqCst) > 0
    }

    pub fn is_complete(&self) -> bool {
        self.completed.load(SeqCst) > 0
    }

    /// How long after `due` the last waker was called.
    pub fn completed_after(&self, due: Instant) -> Duration {
        let completed = self.created + Duration::from_nanos(self.completed.load(SeqCst));
        completed.saturating_duration_since(due)
    }

    /// Sleeps in a loop until all have fired. Returns how late this thread woke at most.
    pub fn wait(&self, pause: Duration, mut then: impl FnMut()) -> Duration {
        let mut stalled = Duration::ZERO;
        while !self.is_complete() {
            let start = Instant::now();
            thread::sleep(pause);
            stalled = stalled.max(start.elapsed().saturating_sub(pause));
            then();
            assert!(self.created.elapsed() < Duration::from_mins(15), "some timers do not fire");
        }
        stalled
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.woken.fetch_add(1, SeqCst) + 1 == self.expected {
            self.completed.store(self.created.elapsed().as_nanos() as u64, SeqCst);
        }
    }
}
