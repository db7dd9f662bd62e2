//! Where a measurement was made.

use crate::results::{self, Results};

pub(super) fn rivals(results: &Results) -> Result<String, String> {
    let machine = results.rivals()?.machine;
    Ok(format!("{}, {}", machine.system(), machine.versions(&["tokio"])?))
}

pub(super) fn lateness(results: &Results) -> Result<String, String> {
    results.machine(results::LATE).map(|machine| machine.system())
}

pub(super) fn schemes(results: &Results) -> Result<String, String> {
    results.machine(results::SCHEMES).map(|machine| machine.system())
}

pub(super) fn soak(results: &Results) -> Result<String, String> {
    results.machine(results::SOAK).map(|machine| machine.system())
}
