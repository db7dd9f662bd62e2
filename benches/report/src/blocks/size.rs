//! Bytes that a `Sleep` takes.

use super::arm::HAIRSPRING;
use crate::figures::whole;
use crate::results::{Results, Rivals};

pub(super) fn ours(results: &Results) -> Result<String, String> {
    of(&results.rivals()?, HAIRSPRING)
}

pub(super) fn tokio(results: &Results) -> Result<String, String> {
    of(&results.rivals()?, "tokio::time")
}

pub(super) fn of(rivals: &Rivals, whose: &str) -> Result<String, String> {
    rivals.median("memory: the sleep itself", whose, "1").map(whole)
}
