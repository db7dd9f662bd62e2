//! [`Call`]: asks a thread of the pool, or a runtime's workers, for their thread numbers.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Instant;

use tokio::runtime::Handle;

use super::lock;
use crate::test_util::idle::LONGEST_LOOK;
use crate::test_util::idle::system;

/// A task on the pool that sends the number of its thread, and waits there for the gate.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) answer: Receiver<u32>,
    pub(super) gate: Arc<Gate>,
    pub(super) since: Instant,
}

/// What the task of a call waits for, in `block_on`.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<(bool, Option<Waker>)>);

impl Call {
    /// Returns `None` if the pool refuses it.
    pub(super) fn new(runtime: &Handle) -> Option<Call> {
        let (answers, answer) = channel();
        let gate = Arc::<Gate>::default();
        let (waits, on) = (gate.clone(), runtime.clone());
        let task = move || {
            let _ = answers.send(system::current_number());
            on.block_on(waits.opened());
        };
        // It panics if the system refuses the pool's first thread.
        catch_unwind(AssertUnwindSafe(|| drop(runtime.spawn_blocking(task)))).ok()?;
        Some(Call { answer, gate, since: Instant::now() })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.gate.open();
    }
}

impl Gate {
    async fn opened(&self) {
        poll_fn(|cx| {
            let mut gate = lock(&self.0);
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    pub(super) fn open(&self) {
        let mut gate = lock(&self.0);
        gate.0 = true;
        let waker = gate.1.take();
        drop(gate);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The threads that are a runtime's workers at present, as far as they answer in time.
pub(super) fn workers(runtime: &Handle) -> Vec<u32> {
    let count = runtime.metrics().num_workers();
    let met = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    // Each task blocks its worker until there is one on every worker.
    for _ in 0..count {
        let met = met.clone();
        runtime.spawn(async move {
            lock(&met.0).push(system::current_number());
            met.1.notify_all();
            wait_for_all(&met, count);
        });
    }
    wait_for_all(&met, count)
}

fn wait_for_all((met, comes): &(Mutex<Vec<u32>>, Condvar), count: usize) -> Vec<u32> {
    let too_few = |met: &mut Vec<u32>| met.len() < count;
    let met = comes.wait_timeout_while(lock(met), LONGEST_LOOK, too_few);
    met.unwrap_or_else(PoisonError::into_inner).0.clone()
}
