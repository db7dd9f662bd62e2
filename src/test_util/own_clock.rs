//! The clocks of bubbles that are this crate's.

use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::runtime::{self, Handle};

use crate::test_util::manual::ManualClock;
use crate::util::sync::unpoisoned;

static CLOCKS: RwLock<Vec<(runtime::Id, ManualClock)>> = RwLock::new(Vec::new());

/// How many there are. Without any, nobody looks for one.
static COUNT: AtomicUsize = AtomicUsize::new(0);

pub(super) fn add(runtime: runtime::Id, clock: ManualClock) {
    unpoisoned(CLOCKS.write()).push((runtime, clock));
    COUNT.fetch_add(1, SeqCst);
}

pub(super) fn remove(runtime: runtime::Id) {
    let mut clocks = unpoisoned(CLOCKS.write());
    let gone = clocks.iter().position(|(of, _)| *of == runtime).map(|at| clocks.swap_remove(at));
    COUNT.fetch_sub(usize::from(gone.is_some()), SeqCst);
    drop(clocks);
    // The clock ends its timers, which wakes tasks.
    drop(gone);
}

/// The current runtime's clock, if that is ours.
#[inline]
pub(super) fn here() -> Option<ManualClock> {
    if COUNT.load(SeqCst) == 0 { None } else { find() }
}

#[cold]
fn find() -> Option<ManualClock> {
    let here = Handle::try_current().ok()?.id();
    unpoisoned(CLOCKS.read()).iter().find(|(of, _)| *of == here).map(|(_, clock)| clock.clone())
}
