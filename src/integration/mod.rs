//! For other crates: each with a feature of its own.

#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
#[cfg(feature = "tower")]
pub mod tower;
