//! Runs code that is not ours and may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `code` and stops a panic of it here: one bad waker must not keep the others from being woken.
///
/// The panic was reported by the panic hook when it began; what is thrown here is only its payload.
pub(crate) fn catch_panic(code: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        // A payload's drop can panic too. Then it leaks.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_a_payload_that_panics_is_contained() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("on purpose, while being dropped");
            }
        }
        catch_panic(|| std::panic::panic_any(Bomb));
    }
}
