//! What the soak came to.

use crate::results::Results;

/// The wave after which the allocator has what it keeps.
const SETTLED: usize = 7;

pub(super) fn text(results: &Results) -> Result<String, String> {
    let soak = results.soak()?;
    Ok(format!("```text\n{}\n```\n\n{}.", soak.report, soak.machine.system()))
}

pub(super) fn stops(results: &Results) -> Result<String, String> {
    results.soak()?.stops().map(str::to_owned)
}

pub(super) fn memory(results: &Results) -> Result<String, String> {
    results.soak()?.memory_from(SETTLED).map(|(least, most)| format!("{least} and {most} MiB"))
}
