//! Calls code when a runtime ends.

use tokio::runtime::Handle;

use crate::core::task;

/// Calls `code` when a runtime is shut down.
pub(crate) fn at_end_of(runtime: &Handle, code: impl FnOnce() + Send + 'static) {
    struct AtEnd<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for AtEnd<F> {
        fn drop(&mut self) {
            self.0.take().into_iter().for_each(|code| code());
        }
    }
    let at_end = AtEnd(Some(code));
    task::spawn(runtime, "hairspring clock", async move {
        let _at_end = at_end;
        std::future::pending::<()>().await;
    });
}
