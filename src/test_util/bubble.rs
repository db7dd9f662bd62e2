//! [`bubble`]: a test in a world of its own, with its own runtime and clock, that must come to an end.
//
// Invariants
// 1. A bubble ends in one of three ways: its future and all its tasks have ended, it panics, or it is given up.
// 2. Time stands still once the bubble's own future has ended.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::core::registry;
use crate::test_util::chance::Random;
use crate::test_util::deadlock;
use crate::test_util::idle::{OwnRuntime, OwnThreads, Want, Watch};
use crate::test_util::lock;
use crate::test_util::pause::{self, pause_with_grace};
use crate::test_util::settle::settle_for_a_while;
use crate::util::panics;

/// The environment variable with the seed of all bubbles.
const SEED: &str = "HAIRSPRING_SEED";

/// How long a bubble stays quiet until it is given up.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same if blocking work is not seen, which may be what the bubble waits for.
const PATIENCE_IN_THE_DARK: Duration = Duration::from_secs(30);

/// After how many tasks tokio looks for timers and sockets, and polls the root future. Its own choice is 61.
const EVENT_INTERVALS: [u32; 6] = [1, 2, 3, 7, 19, 61];

/// Runs a test in a bubble: on a runtime of its own, whose clock is paused, and which must come to an end.
///
/// The same as [`Bubble::new().run(code)`](Bubble::run), which says more. The name is that of Go's `testing/synctest`,
/// which does the same.
///
/// # Panics
/// If the bubble's future can never end, if it leaves tasks, or if it panics; see [`Bubble::run`].
///
/// ```
/// use hairspring::{Duration, Instant, sleep, test_util::bubble};
///
/// let passed = bubble(|| async {
///     let start = Instant::now();
///     sleep(Duration::from_secs(86_400)).await; // returns at once
///     start.elapsed()
/// });
/// assert_eq!(passed, Duration::from_secs(86_400));
/// ```
///
/// A future that waits for what never comes makes the bubble fail, and does not hang:
///
/// ```should_panic
/// hairspring::test_util::bubble(|| async {
///     let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
///     receiver.await.unwrap(); // deadlock: nothing can wake the bubble's future
///     drop(sender);
/// });
/// ```
#[track_caller]
pub fn bubble<F: Future>(code: impl FnOnce() -> F) -> F::Output {
    Bubble::new().run(code)
}

/// The settings of a bubble, for [`run`](Bubble::run).
///
/// ```
/// use hairspring::{Duration, sleep, test_util::Bubble};
///
/// for seed in 0..100 {
///     Bubble::new().seed(seed).run(|| async {
///         let both = ["a", "b"].map(|name| tokio::spawn(async move {
///             sleep(Duration::from_secs(1)).await;
///             name // in one order or in the other
///         }));
///         for task in both {
///             task.await.unwrap();
///         }
///     });
/// }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "it does nothing until it runs something"]
pub struct Bubble {
    seed: Option<u64>,
    patience: Option<Duration>,
    workers: Option<usize>,
}

impl Bubble {
    /// A bubble with a random seed.
    ///
    /// ```
    /// let sum = hairspring::test_util::Bubble::new().run(|| async { 1 + 1 });
    /// assert_eq!(sum, 2);
    /// ```
    pub fn new() -> Bubble {
        Bubble::default()
    }

    /// Sets the seed of all order that is left to chance, in place of a random one. `HAIRSPRING_SEED` in the environment
    /// has precedence.
    ///
    /// ```
    /// # use hairspring::test_util::Bubble;
    /// Bubble::new().seed(7).run(|| async {});
    /// ```
    pub fn seed(mut self, seed: u64) -> Bubble {
        self.seed = Some(seed);
        self
    }

    /// Sets how long nothing may run in the bubble, in real time, until it is given up because nothing could ever run
    /// again. One second by default; half a minute with [`run_on`](Bubble::run_on), which does not see blocking work.
    ///
    /// Raise it if the bubble waits for something outside: a thread of your own, another process, a server. Or hold the
    /// clock meanwhile with [`hold`](crate::test_util::hold()): a bubble whose clock is held is not given up.
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

    /// Runs the bubble on a multi-thread runtime with so many workers, in place of a current-thread runtime.
    ///
    /// The seed then decides only the order of timers that are due at the same instant: the tasks that they wake run in
    /// parallel. Tokio cannot pause the clock of such a runtime, so a sleep of tokio's own takes real time there, and
    /// counts as something outside, which needs [`patience`](Bubble::patience).
    ///
    /// # Panics
    /// [`run`](Bubble::run) panics if `workers` is zero.
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
    pub fn workers(mut self, workers: usize) -> Bubble {
        self.workers = Some(workers);
        self
    }

    /// Runs `code` and the future that it returns, and returns the output. The bubble has a current-thread runtime of
    /// its own, whose clock, which is tokio's, is paused from the start. Everything in that runtime holds time, on every
    /// system: tasks, sockets, the future itself, and blocking work such as `spawn_blocking` and `tokio::fs`.
    ///
    /// When the future has ended, no more time passes. The tasks that are left must end without that, and within five
    /// seconds of real time: abort those that would go on. Blocking work that is left is waited for, as any runtime does.
    ///
    /// **Order.** A bubble leaves some order to chance, so a test that depends on it fails sooner or later. Each run has a
    /// new seed, and prints it if the bubble fails. With `HAIRSPRING_SEED` set to that seed, all bubbles repeat the
    /// order. The seed decides in which order timers of the runtime's own fire that are due at the same instant, up to
    /// 64 of them at a time; and how often tokio, between tasks, polls the bubble's own future, looks for sockets, and
    /// continues tasks that yield. It decides which branch `tokio::select!` polls first if tokio is built with `--cfg
    /// tokio_unstable`. It does not decide the order of threads, of sockets and of `HashMap`.
    ///
    /// # Panics
    /// - If every task of the bubble waits, nothing is left to wake one, and that has been so for its
    ///   [`patience`](Bubble::patience). The message has the number of tasks that wait, and with `--cfg tokio_unstable`
    ///   the place where each was spawned.
    /// - If tasks are left when the future has ended. The message has the same, and the timers that wait, as
    ///   [`pending`](crate::test_util::pending()) lists them.
    /// - With the panic of the future, if it panics. In each of these cases the seed is printed on standard error.
    /// - Inside another runtime (use a plain `#[test]`), if the system refuses a thread, or if `HAIRSPRING_SEED` is not
    ///   a whole number from 0 to 18446744073709551615.
    ///
    /// ```
    /// use hairspring::{Duration, test_util::Bubble, timeout};
    ///
    /// let answer = Bubble::new().run(|| timeout(Duration::from_secs(30), std::future::pending::<()>()));
    /// assert!(answer.is_err());
    /// ```
    #[track_caller]
    pub fn run<F: Future>(self, code: impl FnOnce() -> F) -> F::Output {
        let seed = self.chosen_seed();
        let mut builder = match self.workers {
            None => Builder::new_current_thread(),
            Some(0) => panic!("a bubble has one worker or more, not 0"),
            Some(_) => Builder::new_multi_thread(),
        };
        if let Some(workers) = self.workers {
            builder.worker_threads(workers);
        } else {
            builder.start_paused(true);
        }
        builder.enable_all().event_interval(Random::new(seed).pick(&EVENT_INTERVALS));
        #[cfg(tokio_unstable)]
        builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
        let threads = OwnThreads::of(&mut builder, self.workers.unwrap_or(0));
        match builder.build() {
            Ok(runtime) => self.run_seeded(seed, runtime, Some(threads), code),
            Err(error) => panic!("tokio could not build the runtime of the bubble: {error}"),
        }
    }

    /// The same as [`run`](Bubble::run) on a runtime that you made, for settings that a bubble does not have. The bubble
    /// pauses its clock, unless it is paused, and shuts the runtime down at the end.
    ///
    /// The seed decides only the order of timers that are due at the same instant. On a multi-thread runtime, blocking
    /// work does not hold time unless you start it with [`spawn_blocking`](crate::test_util::spawn_blocking()), and
    /// [`workers`](Bubble::workers) says more.
    ///
    /// # Panics
    /// As [`run`](Bubble::run) does, but never with the places of tasks, and if a current-thread runtime was built
    /// without `enable_time`.
    ///
    /// ```
    /// use hairspring::{Duration, Instant, sleep, test_util::Bubble};
    /// use tokio::runtime::Builder;
    ///
    /// let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    /// Bubble::new().run_on(runtime, || async {
    ///     let start = Instant::now();
    ///     let tasks: Vec<_> = (0..100).map(|_| tokio::spawn(sleep(Duration::from_secs(60)))).collect();
    ///     for task in tasks {
    ///         task.await.unwrap();
    ///     }
    ///     assert_eq!(start.elapsed(), Duration::from_secs(60));
    /// });
    /// ```
    #[track_caller]
    pub fn run_on<F: Future>(self, runtime: Runtime, code: impl FnOnce() -> F) -> F::Output {
        assert!(!lacks_time(&runtime), "the bubble's runtime was built without `enable_time`: nothing moves its clock");
        let seed = self.chosen_seed();
        self.run_seeded(seed, runtime, None, code)
    }

    #[track_caller]
    fn run_seeded<F: Future>(
        self,
        seed: u64,
        runtime: Runtime,
        threads: Option<OwnThreads>,
        code: impl FnOnce() -> F,
    ) -> F::Output {
        assert!(
            Handle::try_current().is_err(),
            "a bubble has a runtime of its own, so it cannot be inside another: use a plain `#[test]`"
        );
        let end = catch_unwind(AssertUnwindSafe(|| runtime.block_on(self.live(seed, threads, code))));
        if !matches!(end, Ok(Ok(_))) {
            eprintln!("hairspring: to repeat what this bubble left to chance, set {SEED}={seed}");
            // Work that blocks for ever would keep it.
            runtime.shutdown_background();
        }
        match end {
            Ok(Ok(output)) => output,
            Ok(Err(message)) => panic!("{message}"),
            Err(payload) => resume_unwind(payload),
        }
    }

    /// The seed from the environment, or that of the settings, or a new one.
    #[track_caller]
    fn chosen_seed(&self) -> u64 {
        let Some(given) = std::env::var_os(SEED) else { return self.seed.unwrap_or_else(new_seed) };
        let given = given.to_string_lossy();
        let Ok(seed) = given.parse() else {
            panic!("{SEED} is `{given}`, but a seed is a whole number from 0 to {}", u64::MAX);
        };
        seed
    }

    /// The whole life of a bubble, from inside. If it fails, returns why.
    async fn live<F: Future>(
        self,
        seed: u64,
        threads: Option<OwnThreads>,
        code: impl FnOnce() -> F,
    ) -> Result<F::Output, String> {
        let runtime = Handle::current();
        let watch = Watch::of(&runtime);
        let default = if threads.is_some() { PATIENCE } else { PATIENCE_IN_THE_DARK };
        let own = poll_fn(|cx| Poll::Ready(OwnRuntime::new(cx.waker().clone(), threads.clone()))).await;
        let own = Arc::new(own);
        *lock(&watch.own) = Some(own.clone());
        if !pause::is_paused() {
            pause_with_grace(Duration::ZERO);
        }
        registry::timer_of(&runtime).leave_order_to_chance(seed);
        let (looks, given_up) = deadlock::give_up_after(self.patience.unwrap_or(default));
        let output = unless_given_up(&own, code(), given_up).await;
        // No clock has moved since the future ended, and from now on none does.
        let _still = watch.want(Want::Settle);
        looks.thread().unpark();
        let _ = looks.join();
        let output = output.map_err(|waiting| format!("deadlock: nothing is left to wake the bubble\n{waiting}"))?;
        let mut left = deadlock::waiting(&own);
        if left.0 > 0 {
            settle_for_a_while().await;
            left = deadlock::waiting(&own);
        }
        match left {
            (0, _) => Ok(output),
            (_, waiting) => Err(format!("the bubble's future has ended, and left tasks behind\n{waiting}")),
        }
    }
}

/// The output of a future, or if it was given up first, what waited then: to drop the future may end that.
async fn unless_given_up<F: Future>(
    own: &Arc<OwnRuntime>,
    future: F,
    given_up: oneshot::Receiver<()>,
) -> Result<F::Output, String> {
    let (mut future, mut given_up) = (pin!(future), pin!(given_up));
    poll_fn(|cx| match own.poll(future.as_mut()) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => given_up.as_mut().poll(cx).map(|_| Err(deadlock::waiting(own).1)),
    })
    .await
}

/// Whether this is a runtime whose clock only tokio's timers move, and which has none.
fn lacks_time(runtime: &Runtime) -> bool {
    let _inside = runtime.enter();
    let is_tokios = pause::here().is_none() && panics::may_guess();
    is_tokios && panics::silently(|| panics::if_enabled(|| tokio::time::sleep(Duration::ZERO))).is_err()
}

/// In 32 bits: short to print and to type.
fn new_seed() -> u64 {
    let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), ());
    random >> 32
}
