//! Promises of the repository beside its code: documents, examples, dependencies, architecture.

#[path = "../common/mod.rs"]
mod common;

mod abort;
mod architecture;
mod dependencies;
mod docs;
mod ecosystem;
mod examples;
#[cfg(feature = "test-util")]
mod readme;
