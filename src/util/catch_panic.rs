//! Runs code that is not ours and may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `code` and catches its panic: one bad waker must not keep others from being woken. The panic hook has already
/// reported the panic; this drops only its payload.
pub(crate) fn catch_panic(code: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        // Dropping the payload can panic too. Then that payload leaks.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(payload);
        }
    }
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
