//! Wakers that tell the model of each wake-up, and then perform an operation.
//!
//! Wakers panic on purpose without a message. A panic with a message is a failed check. It is recorded, because the
//! timer catches panics of wakers, and found after the operation.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread;

use super::{Do, Slot, act, model};
use crate::common::panic_message_of;

/// How deep operations may be nested.
const DEEPEST: u32 = 6;

struct Thrown;

pub(super) enum Caught {
    /// A waker panicked on purpose.
    Thrown,
    Message(String),
}

pub(super) fn throw() {
    // This skips the panic hook.
    panic::resume_unwind(Box::new(Thrown));
}

pub(super) fn caught<R>(code: impl FnOnce() -> R) -> Result<R, Caught> {
    panic::catch_unwind(AssertUnwindSafe(code)).map_err(|payload| {
        if payload.is::<Thrown>() { Caught::Thrown } else { Caught::Message(panic_message_of(&*payload)) }
    })
}

pub(super) struct Probe {
    slot: Slot,
    /// Identifies the waker.
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
        if model::is_there() {
            noting(|| {
                model::with(|model| model.woken(self.slot, self.token));
                react(self.on_wake);
            });
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if model::is_there() && !thread::panicking() {
            noting(|| react(self.on_drop));
        }
    }
}

/// Records a failed check, and passes on a panic that is on purpose.
fn noting(code: impl FnOnce()) {
    match caught(code) {
        Ok(()) => {}
        Err(Caught::Thrown) => throw(),
        Err(Caught::Message(message)) => model::with(|model| _ = model.failure.get_or_insert(message)),
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
        let acted = panic::catch_unwind(|| act(what));
        model::with(|model| model.depth -= 1);
        acted.unwrap_or_else(|payload| panic::resume_unwind(payload));
    }
}
