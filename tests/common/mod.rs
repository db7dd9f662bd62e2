//! Helpers that several test files share:
//!
//! - runtimes: `current_thread`, `multi_thread`, `with_workers`, `paused`, `both_flavours`, `bare`, `inside`, `undriven`
//! - tests that might hang: `must_end`, `must_end_on`, `on_both_flavours`, `in_virtual_time`, `step`
//! - polls: `poll`, `poll_with`, `polled`, `polled_with`, `spend_the_budget`
//! - wakers: `Wakes` counts, `watched` polls with one; `on_wake`, `holding`, `blocking`
//! - panics: `panicked_with`, `panic_message`, `panicked`; `OnDrop` runs code in a drop
//! - waiting: `settle`, `pass`, `until`, `wait_until`, `joined`
//! - other threads: `beside`, `spin`, `block_a_worker`, `word_from_another_thread`
//! - random rounds: `Random`, `for_seeds`, `rounds`
//! - connections: `connection`, `poll_read`; `limits` has reads with limits of every kind

#![allow(dead_code)] // No test program uses all of it.

#[cfg(not(target_family = "wasm"))]
pub(crate) mod limits;
mod random;

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use hairspring::io::TimeoutStream;
use hairspring::{Timer, timer};
use tokio::io::{AsyncRead, DuplexStream, ReadBuf, duplex};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, coop};

#[allow(unused_imports)]
pub(crate) use self::random::Random;

/// A step that takes longer counts as hung. On an idle machine, steps are hundreds of times shorter.
pub(crate) const HUNG: Duration = Duration::from_secs(300);

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const YEAR: Duration = Duration::from_secs(365 * 86_400);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The longest possible durations.
pub(crate) fn longest() -> [Duration; 3] {
    [0, 1, 2].map(|less| Duration::MAX.saturating_sub(Duration::from_nanos(less)))
}

/// With tokio's own timers and I/O.
pub(crate) fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// With tokio's own timers and I/O.
pub(crate) fn multi_thread(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

/// A runtime with so many workers. Zero stands for a current-thread runtime.
pub(crate) fn with_workers(workers: usize) -> Runtime {
    if workers == 0 { current_thread() } else { multi_thread(workers) }
}

/// A current-thread runtime whose clock moves only when every task waits.
pub(crate) fn paused() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// A current-thread and a multi-thread runtime.
pub(crate) fn both_flavours() -> [Runtime; 2] {
    [current_thread(), multi_thread(2)]
}

/// A runtime of each flavour without `enable_time` and `enable_io`.
pub(crate) fn bare() -> [Runtime; 2] {
    [Builder::new_current_thread().build().unwrap(), Builder::new_multi_thread().worker_threads(2).build().unwrap()]
}

/// Calls `code` inside the runtime, in a future that it drives.
pub(crate) fn inside<T>(runtime: &Runtime, code: impl FnOnce() -> T) -> T {
    runtime.block_on(async { code() })
}

/// Builds a timer on a runtime of its own, which nobody drives.
pub(crate) fn undriven(builder: timer::Builder) -> (Timer, Runtime) {
    let runtime = current_thread();
    (inside(&runtime, || builder.build().unwrap()), runtime)
}

/// How many steps all tests of this process have made.
static STEPS: AtomicUsize = AtomicUsize::new(0);

/// Reports that a test has made progress: see [`must_end`].
pub(crate) fn step() {
    STEPS.fetch_add(1, Ordering::SeqCst);
}

/// Runs `test` on a separate thread, and fails if a step of it hangs. A test is one step unless it calls [`step`],
/// which tests that pass thousands of items between threads do.
pub(crate) fn must_end<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        let result = test();
        let _ = sender.send(());
        result
    });
    let mut before = STEPS.load(Ordering::SeqCst);
    while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(HUNG) {
        let now = STEPS.load(Ordering::SeqCst);
        assert!(now > before, "the test hangs{}", again());
        before = now;
    }
    thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// Runs `test` on a runtime, and fails if it hangs.
pub(crate) fn must_end_on<T: Send + 'static>(runtime: Runtime, test: impl AsyncFnOnce() -> T + Send + 'static) -> T {
    must_end(move || runtime.block_on(test()))
}

/// Runs `test` on a runtime of each flavour, and fails if it hangs.
pub(crate) fn on_both_flavours<F: Future<Output = ()> + 'static>(test: fn() -> F) {
    for runtime in both_flavours() {
        must_end_on(runtime, test);
    }
}

/// Runs `test` on a paused runtime, and in a bubble with workers.
#[cfg(feature = "test-util")]
pub(crate) fn in_virtual_time<F: Future<Output = ()> + Send + 'static>(test: fn() -> F) {
    must_end(move || {
        paused().block_on(test());
        hairspring::test_util::Bubble::new().workers(2).run(|| async { tokio::spawn(test()).await.unwrap() });
    });
}

/// The rounds of a test for a rare failure, each of them a step. There are fewer on a slow machine.
pub(crate) fn rounds(most: u32) -> impl Iterator<Item = u32> {
    let enough = Instant::now() + ms(2_000);
    (0..most).take_while(move |_| Instant::now() < enough).inspect(|_| step())
}

/// Calls `code`, and returns its message if it panics.
pub(crate) fn panicked_with<T>(code: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| panic_message_of(&*payload))
}

/// Spends the budget of the task that calls this.
pub(crate) fn spend_the_budget() {
    while coop::has_budget_remaining() {
        assert!(poll(&mut pin!(coop::consume_budget())).is_ready());
    }
}

/// The message with which `code` panics.
pub(crate) fn panic_message<T>(code: impl FnOnce() -> T) -> String {
    panicked_with(code).err().expect("this did not panic")
}

thread_local! {
    /// The file and the line of this thread's last panic.
    static PANICKED: RefCell<(String, u32)> = RefCell::default();
}

/// The message, the file and the line of the panic of `code`.
pub(crate) fn panicked<T>(code: impl FnOnce() -> T) -> (String, String, u32) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let at = panic.location().map(|at| (at.file().to_owned(), at.line()));
            PANICKED.set(at.unwrap_or_default());
            before(panic);
        }));
    });
    let message = panic_message(code);
    let (file, line) = PANICKED.take();
    (message, file, line)
}

pub(crate) fn panic_message_of(payload: &(dyn Any + Send)) -> String {
    let owned = payload.downcast_ref::<String>().cloned();
    owned.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

/// Polls once, with the given waker.
pub(crate) fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// The future, polled once. It has to wait.
#[track_caller]
pub(crate) fn polled<F: Future + Unpin>(future: F) -> F {
    polled_with(future, Waker::noop())
}

/// The future, polled once with the given waker. It has to wait.
#[track_caller]
pub(crate) fn polled_with<F: Future + Unpin>(mut future: F, waker: &Waker) -> F {
    assert!(poll_with(&mut future, waker).is_pending());
    future
}

/// The future, polled once, and how often it has woken its task since. It has to wait.
#[track_caller]
pub(crate) fn watched<F: Future + Unpin>(future: F) -> (F, Arc<Wakes>) {
    let (woken, waker) = Wakes::new();
    (polled_with(future, &waker), woken)
}

/// A connection whose buffers hold 4 bytes in each direction, and its peer.
pub(crate) fn connection() -> (TimeoutStream<DuplexStream>, DuplexStream) {
    let (ours, peers) = duplex(4);
    (TimeoutStream::new(ours), peers)
}

pub(crate) fn poll_read<S: AsyncRead + Unpin>(stream: &mut TimeoutStream<S>, waker: &Waker) -> Poll<io::Result<()>> {
    Pin::new(stream).poll_read(&mut Context::from_waker(waker), &mut ReadBuf::new(&mut [0]))
}

/// Lets the other tasks of this runtime run until they wait. The clock of a paused runtime does not move.
pub(crate) async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Moves a paused clock, and lets the tasks run.
pub(crate) async fn pass(time: Duration) {
    tokio::time::advance(time).await;
    settle().await;
}

/// Lets the other tasks of this runtime run until `holds`.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

/// Waits in real time until `holds`.
pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < HUNG, "this never happens");
        thread::sleep(ms(1));
    }
}

/// Waits for tasks, all of which must end well.
pub(crate) async fn joined<T>(tasks: impl IntoIterator<Item = JoinHandle<T>>) {
    for task in tasks.into_iter().collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

/// Waits for a thread that the clock does not see, which takes so long.
pub(crate) async fn word_from_another_thread(after: Duration) {
    let (sender, word) = oneshot::channel();
    thread::spawn(move || {
        thread::sleep(after);
        sender.send(()).unwrap();
    });
    word.await.unwrap();
}

/// Sleeps, times out and ticks for 1 ms each.
pub(crate) async fn use_time() {
    step();
    let start = Instant::now();
    hairspring::sleep(ms(1)).await;
    assert!(start.elapsed() >= ms(1));
    assert!(hairspring::timeout(ms(1), std::future::pending::<()>()).await.is_err());
    assert!(start.elapsed() >= ms(2));
    let mut ticks = hairspring::interval(ms(1));
    ticks.tick().await;
    ticks.tick().await;
    assert!(start.elapsed() >= ms(3));
}

/// Counts how often it was woken.
#[derive(Debug, Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn new() -> (Arc<Wakes>, Waker) {
        let woken = Arc::new(Wakes::default());
        let waker = Waker::from(woken.clone());
        (woken, waker)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits in real time for a wake-up.
    pub(crate) fn wait(&self) {
        wait_until(|| self.count() > 0);
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A waker that runs `code` each time it is woken.
pub(crate) fn on_wake(code: impl Fn() + Send + Sync + 'static) -> Waker {
    struct Calls<F>(F);
    impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }
    Waker::from(Arc::new(Calls(code)))
}

/// A waker that does nothing when woken, and drops `held` with its last clone.
pub(crate) fn holding<T: Send + Sync + 'static>(held: T) -> Waker {
    struct Holds<T>(T);
    impl<T: Send + Sync + 'static> Wake for Holds<T> {
        fn wake(self: Arc<Self>) {}
    }
    Waker::from(Arc::new(Holds(held)))
}

/// A waker that reports when it is woken, then blocks until the last channel end is dropped.
pub(crate) fn blocking() -> (mpsc::Receiver<()>, Waker, mpsc::Sender<()>) {
    let (started, starts) = mpsc::channel();
    let (unblock, blocked) = mpsc::channel();
    let ends = Mutex::new((started, blocked));
    let waker = on_wake(move || {
        let ends = ends.lock().unwrap();
        let _ = (ends.0.send(()), ends.1.recv());
    });
    (starts, waker, unblock)
}

/// Runs a closure when it is dropped.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs `code` beside threads that do `work`, which has to end when its flag is set.
pub(crate) fn beside<T>(threads: usize, work: impl Fn(&AtomicBool) + Sync, code: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = OnDrop(|| over.store(true, Ordering::SeqCst));
        (0..threads).for_each(|_| drop(scope.spawn(|| work(&over))));
        code()
    })
}

/// Takes a CPU until `over`.
pub(crate) fn spin(over: &AtomicBool) {
    while !over.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
}

/// Makes a task block a worker until the returned sender is dropped.
pub(crate) fn block_a_worker(runtime: &Handle) -> mpsc::Sender<()> {
    let ((begins, begun), (release, released)) = (mpsc::channel(), mpsc::channel());
    runtime.spawn(async move {
        begins.send(()).unwrap();
        let _ = released.recv();
    });
    begun.recv().unwrap();
    release
}

/// The seed of the latest round.
static SEED: Mutex<Option<u64>> = Mutex::new(None);

/// How to run the latest round again, if there was one.
fn again() -> String {
    let again = |seed| format!("; HAIRSPRING_SEED={seed} runs the latest round again");
    SEED.lock().unwrap().map(again).unwrap_or_default()
}

/// Runs `round` with the seeds from 0 to `rounds`. `HAIRSPRING_ROUNDS` replaces the number, and `HAIRSPRING_SEED` the
/// first seed; without the number, it runs only that seed. A round that panics or hangs prints its seed.
pub(crate) fn for_seeds(rounds: u64, mut round: impl FnMut(u64)) {
    let number = |name| std::env::var(name).ok().map(|value| value.parse().expect("a whole number"));
    let first = number("HAIRSPRING_SEED");
    let rounds = number("HAIRSPRING_ROUNDS").unwrap_or(if first.is_some() { 1 } else { rounds });
    let first = first.unwrap_or(0);
    for seed in first..first.saturating_add(rounds) {
        *SEED.lock().unwrap() = Some(seed);
        let _named = OnDrop(|| {
            if thread::panicking() {
                eprintln!("HAIRSPRING_SEED={seed} runs the failing round again");
            }
        });
        round(seed);
    }
}
