//! [`PerProcess`]: a static that has a value of its own in each forked process.
//!
//! A forked process has the memory of its parent, but only one of its threads. The other threads do not run in it, and
//! a lock that one of them held stays locked. So it needs values of its own.

use std::sync::OnceLock;

/// The number of this process. There are no others on WebAssembly, and no numbers.
pub(crate) fn number() -> u32 {
    if cfg!(target_family = "wasm") { 0 } else { std::process::id() }
}

pub(crate) struct PerProcess<T: 'static> {
    first: OnceLock<Of<T>>,
}

struct Of<T: 'static> {
    process: u32,
    value: T,
    child: OnceLock<&'static Of<T>>,
}

impl<T> Of<T> {
    fn new(process: u32, value: T) -> Self {
        Of { process, value, child: OnceLock::new() }
    }
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        PerProcess { first: OnceLock::new() }
    }

    /// The value of this process. The first call makes it, from the parent's if there is one.
    pub(crate) fn get(&'static self, make: impl Fn(Option<&'static T>) -> T) -> &'static T {
        let process = number();
        let mut of = self.first.get_or_init(|| Of::new(process, make(None)));
        while of.process != process {
            of = of.child.get_or_init(|| Box::leak(Box::new(Of::new(process, make(Some(&of.value))))));
        }
        &of.value
    }
}
