//! Wakers that tell the model of each wake, and do what they were made to do.
//!
//! A panic of a waker's own is thrown without a message. One with a message is a check that has failed: the timer
//! contains panics of wakers, so it is noted down and found after the operation.
//!
//! Must not know: what is expected.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread;

use super::{Do, Slot, act, model};
use crate::run;

/// How deep operations within operations go.
const DEEPEST: u32 = 6;

/// What a waker throws that is made to panic.
struct Thrown;

/// A panic.
pub(super) enum Caught {
    /// A waker's, on purpose.
    OnPurpose,
    /// With what it said.
    Saying(String),
}

pub(super) fn throw() {
    // Past the panic hook, which has nothing to say about it.
    panic::resume_unwind(Box::new(Thrown));
}

pub(super) fn caught<R>(code: impl FnOnce() -> R) -> Result<R, Caught> {
    panic::catch_unwind(AssertUnwindSafe(code))
        .map_err(|payload| if payload.is::<Thrown>() { Caught::OnPurpose } else { Caught::Saying(run::said()) })
}

pub(super) struct Probe {
    slot: Slot,
    /// Which waker this is.
    token: u64,
    on_wake: Option<Do>,
    on_drop: Option<Do>,
}

impl Probe {
    pub(super) fn waker(slot: Slot, on_wake: Option<Do>, on_drop: Option<Do>) -> (Waker, u64) {
        let token = model::with(|model| {
            model.tokens += 1;
            model.tokens
        });
        (Waker::from(Arc::new(Probe { slot, token, on_wake, on_drop })), token)
    }
}

impl Wake for Probe {
    fn wake(self: Arc<Self>) {
        noting(|| {
            if model::is_there() {
                model::with(|model| model.woken(self.slot, self.token));
                react(self.on_wake);
            }
        });
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if model::is_there() && !thread::panicking() {
            noting(|| react(self.on_drop));
        }
    }
}

/// Notes a failed check down, and lets through what is thrown on purpose.
fn noting(code: impl FnOnce()) {
    match caught(code) {
        Ok(()) => {}
        Err(Caught::OnPurpose) => throw(),
        Err(Caught::Saying(said)) => model::with(|model| model.failed(said)),
    }
}

fn react(what: Option<Do>) {
    let Some(what) = what else { return };
    let enter = model::with(|model| {
        let enter = model.depth < DEEPEST && (!model.closing || matches!(what, Do::Panic));
        model.depth += u32::from(enter);
        enter
    });
    if enter {
        let acted = caught(|| act(what));
        model::with(|model| model.depth -= 1);
        match acted {
            Ok(()) => {}
            Err(Caught::OnPurpose) => throw(),
            Err(Caught::Saying(said)) => panic!("{said}"),
        }
    }
}
