//! [`Hooks`]: what implements the traits through which tests reach into this crate.
//!
//! Code that a test may reach into declares such a trait, whose functions do nothing by default. With the feature
//! `test-util`, the module `test_util` implements them all. Nothing below it knows it.

pub(crate) struct Hooks;

/// Whether tests can control clocks. If so, one may pause the clock of a current-thread runtime at any time.
pub(crate) const TESTS_MAY_PAUSE: bool = cfg!(feature = "test-util");
