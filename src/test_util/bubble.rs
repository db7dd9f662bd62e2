//! [`bubble`]: a test with its own runtime and clock that must come to an end.
//
// Invariants
// 1. A bubble ends in one of three ways: its future and all its tasks have ended, it panics, or it is given up.
// 2. The clock does not move once the bubble's own future has ended.
// 3. A bubble is given up once its limit has passed. Otherwise only if nothing ran for its patience, and it was then
//    found idle while its clock did not move and was not held. On tokio's clock, checking makes tokio move time if a
//    timer is left.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{self, Builder, Handle, Runtime, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task;

use crate::clock::source::LAST;
use crate::clock::{self, Hooks, instant};
use crate::core::registry;
use crate::core::tasks::TaskHooks;
use crate::test_util::chance::{self, Random};
use crate::test_util::clock_thread::{self, End, Limits};
use crate::test_util::keeper::{FAILED, Keeper};
use crate::test_util::manual::ManualClock;
use crate::test_util::own_runtime::{OwnRuntime, OwnThreads};
use crate::test_util::settle::settle_for_a_while;
use crate::test_util::{lock, pending};
use crate::wheel::Tick;

const SEED: &str = "HAIRSPRING_SEED";

/// How long nothing may run in a bubble until it is given up.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of tasks between tokio's checks of timers, sockets and the root future. The default is 61.
const EVENT_INTERVALS: [u32; 6] = [1, 2, 3, 7, 19, 61];

/// Runs a test in a bubble: on its own runtime, with a paused clock, until it ends or deadlocks.
///
/// ```
/// use hairspring::{Duration, Instant, sleep, test_util::bubble};
///
/// let passed = bubble(|| async {
///     let start = Instant::now();
///     sleep(Duration::from_secs(86_400)).await; // returns immediately
///     start.elapsed()
/// });
/// assert_eq!(passed, Duration::from_secs(86_400));
/// ```
///
/// A future that waits for something that never happens fails instead of hanging:
/// ```should_panic
/// hairspring::test_util::bubble(|| async {
///     let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
///     receiver.await.unwrap(); // deadlock: no task is left to send
///     drop(sender);
/// });
/// ```
///
/// This is [`Bubble::new().run(code)`](Bubble::run), which has the details; [`#[hairspring::test]`](macro@crate::test)
/// does the same to an `async fn`. Go's `testing/synctest` uses the same name
/// for the same idea.
///
/// # Panics
///
/// Panics if the future panics, deadlocks, or leaves tasks behind: see [`Bubble::run`].
#[doc(alias = "synctest")]
#[doc(alias = "fake clock")]
#[track_caller]
pub fn bubble<F: Future>(code: impl FnOnce() -> F) -> F::Output {
    Bubble::new().run(code)
}

/// Configures a bubble, for [`run`](Bubble::run).
///
/// # Examples
///
/// Two timers due at the same instant fire in either order. A hundred seeds try both:
/// ```
/// use hairspring::{Duration, sleep, test_util::Bubble};
///
/// for seed in 0..100 {
///     Bubble::new().seed(seed).run(|| async {
///         let both = ["a", "b"].map(|name| tokio::spawn(async move {
///             sleep(Duration::from_secs(1)).await;
///             name // fires first or second
///         }));
///         for task in both {
///             task.await.unwrap();
///         }
///     });
/// }
/// ```
#[derive(Debug, Default)]
#[must_use = "it does nothing until it runs something"]
pub struct Bubble {
    /// For messages.
    name: Option<&'static str>,
    seed: Option<u64>,
    patience: Option<Duration>,
    limit: Option<Duration>,
    grace: Duration,
    workers: Option<usize>,
    runtime: Option<Builder>,
}

impl Bubble {
    /// Creates a bubble with a random seed.
    ///
    /// # Examples
    ///
    /// ```
    /// let sum = hairspring::test_util::Bubble::new().run(|| async { 1 + 1 });
    /// assert_eq!(sum, 2);
    /// ```
    pub fn new() -> Bubble {
        Bubble::default()
    }

    /// Sets the test's name, for messages. `path` begins with the crate, which the names that `cargo test` shows leave
    /// out. For `#[hairspring::test]`.
    #[doc(hidden)]
    pub fn named(mut self, path: &'static str) -> Bubble {
        self.name = Some(path.split_once("::").map_or(path, |(_, name)| name));
        self
    }

    /// Sets the seed of the bubble's random choices. `HAIRSPRING_SEED` in the environment takes precedence. See
    /// "Random order" at [`run`](Bubble::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::test_util::Bubble;
    /// Bubble::new().seed(7).run(|| async {});
    /// ```
    #[doc(alias = "HAIRSPRING_SEED")]
    #[doc(alias = "shuffle")]
    pub fn seed(mut self, seed: u64) -> Bubble {
        self.seed = Some(seed);
        self
    }

    /// Sets the real time without activity after which the bubble counts as deadlocked. The default is one second,
    /// after the [`grace`](Bubble::grace) if there is one; the least is 20 ms.
    ///
    /// Raise it if the bubble waits for something outside: one of your threads, another process, a server.
    /// Alternatively, [`hold`](crate::test_util::hold()) the clock: a bubble is not given up while its clock is held.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, test_util::Bubble};
    /// let output = Bubble::new().patience(Duration::from_secs(60)).run(|| async {
    ///     tokio::process::Command::new("whoami").output().await
    /// });
    /// assert!(output.is_ok());
    /// ```
    pub fn patience(mut self, patience: Duration) -> Bubble {
        self.patience = Some(patience);
        self
    }

    /// Fails the test if it has not ended when more than `limit` has passed on the bubble's clock, counted from its
    /// start.
    ///
    /// ```should_panic
    /// use hairspring::{Duration, interval, test_util::Bubble};
    ///
    /// Bubble::new().limit(Duration::from_secs(3_600)).run(|| async {
    ///     tokio::spawn(async {
    ///         let mut heartbeats = interval(Duration::from_secs(1));
    ///         loop {
    ///             heartbeats.tick().await;
    ///         }
    ///     });
    ///     std::future::pending::<()>().await; // fails after an hour of the bubble's time
    /// });
    /// ```
    ///
    /// A bubble is no deadlock while timers are left. So a test that waits for something that never happens, beside a
    /// task that sleeps again and again, runs forever without a limit. There is none by default.
    ///
    /// With workers or a grace, the clock stops at the last deadline within the limit. tokio's clock moves on until the
    /// bubble notices, for about a millisecond of real time.
    pub fn limit(mut self, limit: Duration) -> Bubble {
        self.limit = Some(limit);
        self
    }

    /// Runs the bubble on a multi-thread runtime with `workers` workers, instead of a current-thread runtime.
    ///
    /// ```
    /// use hairspring::{Duration, Instant, sleep, test_util::Bubble};
    ///
    /// Bubble::new().workers(4).run(|| async {
    ///     let start = Instant::now();
    ///     let tasks: Vec<_> = (0..100).map(|_| tokio::spawn(sleep(Duration::from_secs(60)))).collect();
    ///     for task in tasks {
    ///         task.await.unwrap();
    ///     }
    ///     assert_eq!(start.elapsed(), Duration::from_secs(60));
    /// });
    /// ```
    ///
    /// The seed then decides only the order of timers that are due at the same instant: the tasks they wake run in
    /// parallel. tokio cannot pause the clock of such a runtime, so tokio's own sleeps take real time, and count as
    /// something outside that needs [`patience`](Bubble::patience).
    ///
    /// # Panics
    ///
    /// [`run`](Bubble::run) panics if `workers` is zero.
    pub fn workers(mut self, workers: usize) -> Bubble {
        (self.workers, self.runtime) = (Some(workers), None);
        self
    }

    /// Runs the bubble on a runtime that this builder makes, for settings that a bubble does not have.
    ///
    /// ```
    /// use hairspring::{Duration, Instant, sleep, test_util::Bubble};
    /// use tokio::runtime::Builder;
    ///
    /// let mut builder = Builder::new_multi_thread();
    /// builder.worker_threads(2).max_blocking_threads(4).enable_all();
    /// Bubble::new().runtime(builder).run(|| async {
    ///     let start = Instant::now();
    ///     sleep(Duration::from_secs(60)).await;
    ///     assert_eq!(start.elapsed(), Duration::from_secs(60));
    /// });
    /// ```
    ///
    /// The bubble replaces the builder's hooks `on_thread_start` and `on_thread_stop` and its `thread_keep_alive`: they
    /// tell it when blocking work runs. With `--cfg tokio_unstable` it also replaces `on_task_spawn` and
    /// `on_task_terminate`. The clock of a current-thread runtime starts paused, also if the builder does not say so. On
    /// a multi-thread runtime, tokio's own sleeps take real time, as with [`workers`](Bubble::workers). The seed decides
    /// only the order of timers that are due at the same instant.
    ///
    /// # Panics
    ///
    /// For a current-thread runtime, [`run`](Bubble::run) panics without `enable_time`, as tokio's timers do: nothing
    /// would move its clock. Without a [`grace`](Bubble::grace), it also panics with `max_blocking_threads(1)`: a clock
    /// that is held occupies one of these threads.
    pub fn runtime(mut self, builder: Builder) -> Bubble {
        (self.workers, self.runtime) = (None, Some(builder));
        self
    }

    /// Lets time move only after nothing in the bubble has run for `grace` of real time.
    ///
    /// ```
    /// use hairspring::{Duration, Instant, test_util::Bubble, timeout};
    ///
    /// Bubble::new().grace(Duration::from_secs(5)).run(|| async {
    ///     let start = Instant::now();
    ///     // The clock does not see the other process.
    ///     let answer = tokio::process::Command::new("whoami").output();
    ///     assert!(timeout(Duration::from_secs(60), answer).await.is_ok());
    ///     assert_eq!(start.elapsed(), Duration::ZERO);
    /// });
    /// ```
    ///
    /// Use it if something may arrive at an unknown time from another process, a server or one of your threads. Each
    /// move of the clock takes at least the grace, so use it in tests with few timers. Holding the clock while you
    /// wait, with [`hold`](crate::test_util::hold()), is faster and needs no guess. tokio's own timers then take real
    /// time.
    ///
    /// # Panics
    ///
    /// [`run`](Bubble::run) panics if the builder given to [`runtime`](Bubble::runtime) starts the clock paused.
    pub fn grace(mut self, grace: Duration) -> Bubble {
        self.grace = grace;
        self
    }

    /// Runs `code` and the future it returns, and returns the output.
    ///
    /// ```
    /// use hairspring::{Duration, test_util::Bubble, timeout};
    ///
    /// let answer = Bubble::new().run(|| timeout(Duration::from_secs(30), std::future::pending::<()>()));
    /// assert!(answer.is_err());
    /// ```
    ///
    /// The bubble builds a current-thread runtime whose clock, which is tokio's, is paused from the start. Everything
    /// in that runtime holds the clock, on every system: tasks, sockets, the future itself, and blocking work such as
    /// `spawn_blocking` and `tokio::fs`.
    ///
    /// After the future has ended, the clock no longer moves. Remaining tasks must end within five seconds of real
    /// time: abort tasks that would continue. The bubble waits for remaining blocking work, as any runtime does, and
    /// says so on standard error if that takes seconds. What the test returns, such as a sleep or a queue, can be used
    /// afterwards: a deadline stays the same instant, perhaps hours ahead of the system's clock, and a
    /// [`Timer`](crate::Timer) has ended.
    ///
    /// # Random order
    ///
    /// A bubble varies the orders that a program must not rely on, so a test that relies on one eventually fails. Each
    /// run uses a new seed, and prints it if the bubble fails:
    ///
    /// ```text
    /// hairspring: to repeat this bubble's random choices, set HAIRSPRING_SEED=3141592653
    /// ```
    ///
    /// With that variable set, all bubbles repeat their choices. The seed decides
    ///
    /// - the order of timers due at the same instant on the runtime's own timer, up to 64 at a time;
    /// - how often tokio, between tasks, polls the bubble's own future, checks sockets, and continues tasks that yield;
    /// - which branch `tokio::select!` polls first, if tokio is built with `--cfg tokio_unstable`. Otherwise write
    ///   `biased;`.
    ///
    /// It does not decide the order of threads, sockets or `HashMap`, nor, without `--cfg tokio_unstable`, the order in
    /// which tokio's `watch` and `Barrier` wake those that wait.
    ///
    /// # Panics
    ///
    /// - Panics if the bubble deadlocks: every task waits, nothing is left to wake one, and that lasts for its
    ///   [`patience`](Bubble::patience). The message counts the tasks, lists the timers as
    ///   [`pending`](crate::test_util::pending()) does, and with `--cfg tokio_unstable` says where each task was
    ///   spawned.
    /// - Panics if tasks are left after the future has ended, or if its [`limit`](Bubble::limit) has passed. The
    ///   message is the same.
    /// - Panics if the future panics. A panic in a task counts only if something awaits the task and passes it on,
    ///   because tokio catches it and tells nobody else.
    /// - Panics inside another runtime: call it from a plain `#[test]`.
    /// - Panics if no thread can be started, or if `HAIRSPRING_SEED` is not a whole number from 0 to
    ///   18446744073709551615.
    #[track_caller]
    pub fn run<F: Future>(mut self, code: impl FnOnce() -> F) -> F::Output {
        assert!(
            Handle::try_current().is_err(),
            "a bubble builds its own runtime and cannot run inside another: use a plain `#[test]`"
        );
        let seed = self.chosen_seed();
        let mut builder = self.runtime.take().unwrap_or_else(|| self.builder(seed));
        let threads = OwnThreads::of(&mut builder);
        let mut runtime = build(&mut builder);
        if runtime.handle().runtime_flavor() == RuntimeFlavor::CurrentThread && !self.is_usable(&builder, &runtime) {
            // If tokio's clock is paused later, it stands between two of its milliseconds, and sleeps take up to one
            // more.
            runtime = build(builder.start_paused(true));
        }
        self.run_seeded(seed, runtime, threads, code)
    }

    /// Whether the clock of a current-thread runtime is as a bubble needs it. Panics if that cannot be.
    #[track_caller]
    fn is_usable(&self, builder: &Builder, runtime: &Runtime) -> bool {
        let _entered = runtime.enter();
        // Panics without `enable_time`: nothing would move the clock.
        drop(tokio::time::sleep(Duration::ZERO));
        if !self.grace.is_zero() {
            let why = "a bubble with a grace needs a clock that is not paused: leave out `start_paused`";
            assert!(!instant::is_paused(), "{why}");
            return true;
        }
        // tokio tells this in no other way.
        assert!(
            !format!("{builder:?}").contains("max_blocking_threads: 1,"),
            "a bubble on tokio's clock needs `max_blocking_threads` of at least 2: to hold the clock takes one of them"
        );
        instant::is_paused()
    }

    /// What builds a bubble's runtime unless the test gives another.
    #[track_caller]
    fn builder(&self, seed: u64) -> Builder {
        let mut builder = match self.workers {
            None => Builder::new_current_thread(),
            Some(0) => panic!("`workers` is 0, but a bubble needs at least one"),
            Some(_) => Builder::new_multi_thread(),
        };
        if let Some(workers) = self.workers {
            builder.worker_threads(workers);
        } else {
            builder.start_paused(self.grace.is_zero());
        }
        builder.enable_all().event_interval(Random::new(seed).pick(&EVENT_INTERVALS));
        #[cfg(tokio_unstable)]
        builder.rng_seed(runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
        builder
    }

    #[track_caller]
    fn run_seeded<F: Future>(
        self,
        seed: u64,
        runtime: Runtime,
        threads: OwnThreads,
        code: impl FnOnce() -> F,
    ) -> F::Output {
        let (ended, ends) = mpsc::channel();
        let label = self.label();
        let end = catch_unwind(AssertUnwindSafe(|| runtime.block_on(self.live(seed, threads, ends, code))));
        if matches!(end, Ok(Ok(_))) {
            drop(runtime);
        } else {
            eprintln!("hairspring: {label}to repeat this bubble's random choices, set {SEED}={seed}");
            // Blocking work that never ends would hang the drop.
            runtime.shutdown_background();
        }
        drop(ended);
        match end {
            Ok(Ok(output)) => output,
            Ok(Err(message)) => panic!("{label}{message}"),
            Err(payload) => resume_unwind(payload),
        }
    }

    /// What messages begin with.
    fn label(&self) -> String {
        self.name.map_or(String::new(), |name| format!("test `{name}`: "))
    }

    /// The seed from the environment, or else from the settings, or else a new one.
    #[track_caller]
    fn chosen_seed(&self) -> u64 {
        let Some(given) = std::env::var_os(SEED) else { return self.seed.unwrap_or_else(new_seed) };
        let given = given.to_string_lossy();
        let Ok(seed) = given.parse() else {
            panic!("{SEED} is `{given}`, but must be a whole number from 0 to {}", u64::MAX);
        };
        seed
    }

    /// The whole life of a bubble, from inside. If it fails, returns why.
    async fn live<F: Future>(
        self,
        seed: u64,
        threads: OwnThreads,
        ends: mpsc::Receiver<()>,
        code: impl FnOnce() -> F,
    ) -> Result<F::Output, String> {
        let own = poll_fn(|cx| Poll::Ready(Arc::new(OwnRuntime::new(cx.waker().clone(), threads.clone())))).await;
        let runtime = Handle::current();
        let is_tokios = runtime.runtime_flavor() == RuntimeFlavor::CurrentThread && self.grace.is_zero();
        let clock = (!is_tokios).then(ManualClock::new);
        let keeper = Keeper::open(&runtime, Some(own.clone()), clock);
        if let Ok(owner) = registry::owner() {
            chance::leave_order_to_chance(owner.timer(), seed);
        }
        let patience = self.grace.saturating_add(self.patience.unwrap_or(PATIENCE));
        let limit = self.limit.map_or(LAST, clock::after).min(LAST);
        let (sender, given_up) = oneshot::channel();
        let limits = Limits { label: self.label(), grace: self.grace, patience, limit, give_up: sender, ends };
        clock_thread::start(&keeper, Some(limits));
        let output = unless_given_up(&keeper, &own, code(), limit, given_up).await;
        // No clock has moved since the future ended, and from now on none will.
        let _still = keeper.keep_still(None);
        own.end();
        let output = output?;
        let mut left = waiting(&own);
        if left.0 > 0 {
            settle_for_a_while().await;
            left = waiting(&own);
        }
        match left {
            (0, _) => Ok(output),
            (_, waiting) => Err(format!("the bubble's future has ended, and left tasks behind\n{waiting}")),
        }
    }
}

/// Returns the output of a future. If the bubble is given up first, or its limit passes, returns why, with a
/// description of everything that waits, taken before the future is dropped.
async fn unless_given_up<F: Future>(
    keeper: &Arc<Keeper>,
    own: &Arc<OwnRuntime>,
    future: F,
    limit: Tick,
    given_up: oneshot::Receiver<End>,
) -> Result<F::Output, String> {
    let (mut future, mut given_up) = (pin!(future), pin!(given_up));
    let ended = poll_fn(|cx| match own.poll(future.as_mut()) {
        _ if clock::now() > limit => Poll::Ready(Err(Ok(End::Limit))),
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => given_up.as_mut().poll(cx).map(Err),
    })
    .await;
    let why = match ended {
        Ok(output) => return Ok(output),
        Err(Ok(End::Deadlock)) => "deadlock: nothing is left to wake the bubble's own future",
        Err(Ok(End::Limit)) => {
            let _still = keeper.keep_still(None);
            own.end();
            // A task may be about to sleep again.
            settle_for_a_while().await;
            "the bubble's limit has passed, and its own future had not ended"
        }
        Err(Err(_)) => return Err(FAILED.into()),
    };
    Err(format!("{why}\n{}", waiting(own).1))
}

#[track_caller]
fn build(builder: &mut Builder) -> Runtime {
    match builder.build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("tokio failed to build the bubble's runtime: {error}"),
    }
}

/// 32 bits: short to print and to type.
fn new_seed() -> u64 {
    let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), ());
    random >> 32
}

/// The number of tasks of a bubble, without this crate's own, and a description of everything that waits in it:
/// `waiting: 2 tasks, 1 timer`, and a line for each whose place is known.
fn waiting(own: &OwnRuntime) -> (usize, String) {
    let runtime = Handle::current();
    let ours: HashSet<_> = lock(&OURS).iter().filter(|(on, _)| *on == runtime.id()).map(|(_, task)| *task).collect();
    let tasks = runtime.metrics().num_alive_tasks().saturating_sub(ours.len());
    let mut places = own.spawned(|task| !ours.contains(&task));
    places.sort_unstable_by_key(|place| (place.file(), place.line(), place.column()));
    let timers = pending();
    let count = |count: usize, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut text = format!("waiting: {}, {}\n", count(tasks, "task"), count(timers.len(), "timer"));
    for place in places {
        let _ = writeln!(text, "  Task spawned at {place}");
    }
    (tasks, text + &pending::list(&timers))
}

/// This crate's own live tasks, each with its runtime.
static OURS: LazyLock<Mutex<HashSet<(runtime::Id, task::Id)>>> = LazyLock::new(Mutex::default);

impl TaskHooks for Hooks {
    /// Lists the task, to tell it from a test's.
    async fn own_task(runtime: runtime::Id, task: impl Future<Output = ()> + Send) {
        struct Listed(runtime::Id, task::Id);
        impl Drop for Listed {
            fn drop(&mut self) {
                lock(&OURS).remove(&(self.0, self.1));
            }
        }
        let listed = Listed(runtime, task::id());
        lock(&OURS).insert((listed.0, listed.1));
        task.await;
    }
}
