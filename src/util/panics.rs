//! Runs code that may panic: that of others, and calls that need `enable_io` or `enable_time` on the current runtime.
//!
//! Tokio does not say whether a runtime has them: a call that needs one panics if it is missing. That panic is caught
//! here, but it prints a message, and it ends a program that aborts on panics. So there is no call if the answer is
//! known: outside any runtime, and without an epoll instance in the process.
//
// Invariants
// 1. A call that may panic for want of a driver is made only if the user has said that the runtime has what it needs, if
//    `may_guess` says that a panic does no harm, or for a clock that a test pauses.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use tokio::runtime::Handle;

use crate::seam;

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

/// Makes something that registers with the I/O driver of the current runtime.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))] // Elsewhere only tests need it.
pub(crate) fn with_io<T>(make: impl FnOnce() -> T) -> io::Result<T> {
    if has_no_epoll() { Err(lacking()) } else { if_enabled(make) }
}

/// Makes something that registers with a driver of the current runtime. If that lacks it, or if there is no runtime, the
/// error is of the kind `Unsupported`.
pub(crate) fn if_enabled<T>(make: impl FnOnce() -> T) -> io::Result<T> {
    Handle::try_current().map_err(|_| lacking())?;
    catch_unwind(AssertUnwindSafe(make)).map_err(|_| lacking())
}

fn lacking() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// Whether a wrong guess does no harm: in a build for tests the panic is caught, and [`silently`] hides it.
pub(crate) fn may_guess() -> bool {
    seam::IS_ON && cfg!(panic = "unwind") && !std::thread::panicking()
}

/// Calls `code` without printing its panic, if it [may guess](may_guess). `code` catches the panic. Only the process's
/// panic hook can keep a panic from being printed.
pub(crate) fn silently<T>(code: impl FnOnce() -> T) -> T {
    thread_local! {
        static IS_SILENT: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();

    if !may_guess() {
        return code();
    }
    HOOK.call_once(|| {
        let hook = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_SILENT.get() {
                hook(panic);
            }
        }));
    });
    IS_SILENT.set(true);
    let made = code();
    IS_SILENT.set(false);
    made
}

/// Whether no runtime of this process can have an I/O driver, as each has an epoll instance. `false` if the system does
/// not say.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))] // Elsewhere only tests need it.
fn has_no_epoll() -> bool {
    use std::fs::{read_dir, read_link};

    if !cfg!(target_os = "linux") {
        return false;
    }
    // Those of this thread: `/proc/self` shows the main thread's, which may have ended.
    let Ok(mut files) = read_dir("/proc/thread-self/fd") else { return false };
    files.all(|file| match file.and_then(|file| read_link(file.path())) {
        Ok(what) => !what.to_string_lossy().contains("eventpoll"),
        // The file was closed meanwhile, so no runtime in use has it.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    })
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

    /// `tests/alone/silence.rs` checks a process without an I/O driver.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_runtime_with_an_io_driver_is_never_taken_to_have_none() {
        let _runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        assert!(!has_no_epoll());
        assert!(std::thread::spawn(|| !has_no_epoll()).join().unwrap());
    }
}
