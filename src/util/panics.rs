//! Runs code that may panic: user code, and calls that need `enable_io` or `enable_time` on the current runtime.
//!
//! tokio does not say whether a runtime has these, and panics if the one needed is missing. The panic is caught here,
//! but it prints a message, and it ends a program that aborts on panics.
//
// Invariants
// 1. A call that panics without a driver is made only if the user has chosen an alarm that needs that driver, if the
//    driver was found, or if the clock is paused.

use std::io;
use std::mem::{forget, needs_drop};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Calls `code` and catches its panic: one bad waker must not keep others from being woken. The panic hook has already
/// reported it.
pub(crate) fn catch_panic(code: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        // Dropping the payload may panic too. Leak the second payload.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            forget(payload);
        }
    }
}

/// Drops all values, even if the drops of some panic. Then passes the first panic on.
pub(crate) fn drop_all<T>(values: impl IntoIterator<Item = T>) {
    // The loop would move each value.
    let count = if needs_drop::<T>() { usize::MAX } else { 0 };
    let mut first = Ok(());
    for value in values.into_iter().take(count) {
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(value)));
        if first.is_ok() {
            first = dropped;
        } else {
            catch_panic(|| drop(dropped));
        }
    }
    first.unwrap_or_else(|payload| resume_unwind(payload));
}

/// Creates something that registers with a driver of the current runtime. If the driver is missing, the error is of the
/// kind `Unsupported`.
pub(crate) fn if_enabled<T>(make: impl FnOnce() -> T) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(make)).map_err(|_| io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_panics_is_caught_too() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("on purpose, while being dropped");
            }
        }
        catch_panic(|| std::panic::panic_any(Bomb));
    }
}
