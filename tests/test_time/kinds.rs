//! The kinds of runtime whose clock a test can pause, and how to run a test on each.

use std::future::Future;

use crate::common::{HOUR, joined, ms, must_end, step};
use hairspring::test_util::Bubble;
use hairspring::{Duration, Instant, sleep, timeout};
use tokio::runtime::{Builder, Runtime};

pub(crate) const NANO: Duration = Duration::from_nanos(1);
pub(crate) const MICRO: Duration = Duration::from_micros(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A kind of runtime, and how its clock is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A current-thread runtime, paused from the start.
    StartPaused,
    /// A current-thread runtime without `enable_io`, paused from the start.
    NoSockets,
    /// A current-thread runtime, paused by `pause`.
    PausedLater,
    /// A current-thread runtime, paused by tokio's `pause`.
    PausedByTokio,
    Bubble,
    /// A bubble with so many workers.
    Workers(usize),
    /// A bubble on a runtime that the test builds.
    BubbleOn(&'static Kind),
}

/// Current-thread runtimes share tokio's clock.
pub(crate) const TOKIOS: [Kind; 4] = [Kind::StartPaused, Kind::NoSockets, Kind::PausedLater, Kind::PausedByTokio];
pub(crate) const WORKERS: [Kind; 3] = [Kind::Workers(1), Kind::Workers(2), Kind::Workers(4)];
/// Bubbles that build a runtime.
pub(crate) const BUBBLES: [Kind; 2] = [Kind::Bubble, Kind::Workers(2)];

impl Kind {
    pub(crate) fn make(self) -> Runtime {
        self.builder().build().unwrap()
    }

    fn builder(self) -> Builder {
        let mut current_thread = Builder::new_current_thread();
        match self {
            Kind::StartPaused => _ = current_thread.enable_all().start_paused(true),
            Kind::NoSockets => _ = current_thread.enable_time().start_paused(true),
            Kind::PausedLater | Kind::PausedByTokio | Kind::Bubble => _ = current_thread.enable_all(),
            Kind::Workers(workers) => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(workers).enable_all();
                return builder;
            }
            Kind::BubbleOn(kind) => return kind.builder(),
        }
        current_thread
    }

    /// Whether the clock is tokio's.
    pub(crate) fn is_tokios(self) -> bool {
        !matches!(self, Kind::Workers(_) | Kind::BubbleOn(Kind::Workers(_)))
    }

    /// Pauses the current runtime's clock, unless it started paused.
    pub(crate) fn pause(self) {
        match self {
            Kind::StartPaused | Kind::NoSockets => {}
            Kind::PausedByTokio => tokio::time::pause(),
            _ => hairspring::pause(),
        }
    }

    /// Runs code on a paused runtime of this kind.
    pub(crate) fn run<F: Future>(self, code: impl FnOnce() -> F) -> F::Output {
        self.run_in(Bubble::new(), code)
    }

    /// Runs code in this bubble, or on another kind of runtime.
    pub(crate) fn run_in<F: Future>(self, bubble: Bubble, code: impl FnOnce() -> F) -> F::Output {
        match self {
            Kind::Bubble => bubble.run(code),
            Kind::Workers(workers) => bubble.workers(workers).run(code),
            Kind::BubbleOn(kind) => bubble.runtime(kind.builder()).run(code),
            _ => self.make().block_on(async {
                self.pause();
                code().await
            }),
        }
    }
}

/// Awaits the future that `test` returns, in a task if asked to.
pub(crate) async fn maybe_in_a_task<F: Future<Output = ()> + Send + 'static>(in_task: bool, test: impl Fn() -> F) {
    if in_task {
        tokio::spawn(test()).await.unwrap();
    } else {
        test().await;
    }
}

/// Runs `test` on a paused runtime of each kind, and fails if it hangs.
pub(crate) fn on_each<F: Future<Output = ()> + Send + 'static>(
    kinds: &[Kind],
    test: impl Fn() -> F + Send + Clone + 'static,
) {
    for &kind in kinds {
        let test = test.clone();
        println!("on {kind:?}");
        must_end(move || kind.run(test));
    }
}

/// Runs `test` on each kind of runtime, both in `block_on` and in a task.
pub(crate) fn on_each_and_in_a_task<F: Future<Output = ()> + Send + 'static>(
    kinds: &[Kind],
    test: impl Fn() -> F + Send + Clone + 'static,
) {
    on_each(kinds, test.clone());
    on_each(kinds, move || maybe_in_a_task(true, test.clone()));
}

/// Waits for `work` while other timers are due soon. No time may pass until it ends. After that, an hour must pass;
/// tokio's clock rounds it up.
pub(crate) async fn no_time_passes_during<T>(work: impl Future<Output = T>) -> T {
    let before = Instant::now();
    let others = [NANO, MICRO, ms(1)].map(|soon| tokio::spawn(sleep(soon)));
    let done = timeout(MICRO, work).await.expect("time passed during the work");
    assert_eq!(before.elapsed(), Duration::ZERO, "time passed during the work");
    assert!(others.iter().all(|other| !other.is_finished()), "a timer fired during the work");
    sleep(HOUR).await;
    assert!((HOUR..=HOUR + ms(1)).contains(&before.elapsed()), "{:?}", before.elapsed());
    joined(others).await;
    step();
    done
}

/// Keeps its thread busy.
pub(crate) fn computes_for(length: Duration) {
    let start = std::time::Instant::now();
    while start.elapsed() < length {
        std::hint::spin_loop();
    }
}
