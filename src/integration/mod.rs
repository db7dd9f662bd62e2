//! Integrations with other crates, each behind a feature.

#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
#[cfg(feature = "tower")]
pub mod tower;
