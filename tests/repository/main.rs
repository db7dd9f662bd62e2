//! Promises about the repository rather than the code: documents, examples, dependencies and architecture.

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
mod rendered;
