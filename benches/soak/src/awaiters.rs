//! Tasks that await sleeps and timeouts, one after the other.

use std::future::{Future, Pending, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hairspring::{Instant, Sleep, Timeout, sleep, timeout};
use tokio::task::{JoinSet, coop};
use tools::{Rng, between};

use crate::ledger::{Ledger, Token};

const TASKS: usize = 200;
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(50);

/// Tasks that go on until they are told to stop.
pub(crate) struct Awaiters {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
}

/// What the tasks have done so far.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    pub(crate) sleeps: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    /// Of those, the ones that were dropped as something else came first.
    pub(crate) dropped: AtomicU64,
}

impl Awaiters {
    pub(crate) fn start(ledger: &Arc<Ledger>, awaited: &Arc<Awaited>, random: &mut Rng) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let task = work(Arc::clone(ledger), Arc::clone(awaited), random.fork(), Arc::clone(&stop));
            // A poll that finds no budget left is pending without being registered, which the ledger cannot see.
            tasks.spawn(coop::unconstrained(task));
        }
        Awaiters { tasks, stop }
    }

    pub(crate) async fn stop(self) {
        self.stop.store(true, Relaxed);
        self.tasks.join_all().await;
    }
}

async fn work(ledger: Arc<Ledger>, awaited: Arc<Awaited>, mut random: Rng, stop: Arc<AtomicBool>) {
    while !stop.load(Relaxed) {
        let length = between(&mut random, SHORTEST, LONGEST);
        match random.u8(..3) {
            0 => {
                Watched::sleep(&ledger, length).await;
                awaited.sleeps.fetch_add(1, Relaxed);
            }
            1 => {
                Watched::timeout(&ledger, length).await;
                awaited.timeouts.fetch_add(1, Relaxed);
            }
            _ => {
                // The shorter of the two ends, and the other is dropped.
                let limit = between(&mut random, SHORTEST, LONGEST);
                tokio::select! {
                    () = Watched::sleep(&ledger, length) => awaited.sleeps.fetch_add(1, Relaxed),
                    () = Watched::timeout(&ledger, limit) => awaited.timeouts.fetch_add(1, Relaxed),
                };
                awaited.dropped.fetch_add(1, Relaxed);
            }
        }
    }
}

/// A future that waits for one timer and nothing else, with that timer in the ledger.
pub(crate) struct Watched<F> {
    future: F,
    deadline: Instant,
    ledger: Arc<Ledger>,
    /// From the first poll that was pending until the end.
    token: Option<Arc<Token>>,
}

impl Watched<Sleep> {
    pub(crate) fn sleep(ledger: &Arc<Ledger>, length: Duration) -> Self {
        let future = sleep(length);
        Watched { deadline: future.deadline(), future, ledger: Arc::clone(ledger), token: None }
    }
}

impl Watched<Timeout<Pending<()>>> {
    fn timeout(ledger: &Arc<Ledger>, length: Duration) -> Self {
        let future = timeout(length, pending());
        Watched { deadline: future.deadline(), future, ledger: Arc::clone(ledger), token: None }
    }
}

impl<F: Future + Unpin> Future for Watched<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let token = this.token.clone().unwrap_or_else(|| Token::of_task(&this.ledger, cx.waker().clone()));
        let waker = Waker::from(Arc::clone(&token));
        if Pin::new(&mut this.future).poll(&mut Context::from_waker(&waker)).is_pending() {
            if this.token.is_none() {
                this.ledger.registered_one();
                this.token = Some(token);
            }
            return Poll::Pending;
        }
        this.ledger.check_not_early(this.deadline);
        if let Some(token) = this.token.take() {
            token.end();
        }
        Poll::Ready(())
    }
}

impl<F> Drop for Watched<F> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            token.end();
        }
    }
}
