//! What it costs that there are many timers.

use super::arm::{COLUMNS, HAIRSPRING};
use super::size;
use crate::figures::whole;
use crate::fill::fill;
use crate::results::{Results, Rivals};

const MILLION: &str = "1000000";
const TOKIO: &str = "tokio::time";

pub(super) fn text(results: &Results) -> Result<String, String> {
    let rivals = results.rivals()?;
    let memory = |who: &str| rivals.median("memory: pending", who, MILLION).map(whole);
    let fire = |workload: &str, who: &str| rivals.median(workload, who, MILLION).map(whole);
    let [tick, spread] = ["fire in one tick", "fire over 50 ms"];
    Ok(fill(&format!(
        "With 1,000,000 other timers pending it is the same within {} %. A pending timer takes {} bytes, the `Sleep` \
         of {} included (tokio's, boxed: {}, of which {}). Firing a million costs {} ns each in one tick and {} ns over \
         50 ms (tokio: {} and {}).",
        within(&rivals)?,
        memory("hairspring, in a Vec")?,
        size::of(&rivals, HAIRSPRING)?,
        memory("tokio::time, boxed")?,
        size::of(&rivals, TOKIO)?,
        fire(tick, HAIRSPRING)?,
        fire(spread, HAIRSPRING)?,
        fire(tick, TOKIO)?,
        fire(spread, TOKIO)?,
    )))
}

/// By how many per cent a million timers change what it takes to arm one and cancel it, where that is the most.
fn within(rivals: &Rivals) -> Result<String, String> {
    let mut most = 0_f64;
    for (_, place) in COLUMNS {
        let [many, none] = [rivals.arm(HAIRSPRING, place, MILLION)?, rivals.arm(HAIRSPRING, place, "0")?];
        most = most.max((many / none - 1.0).abs());
    }
    Ok(whole((100.0 * most).ceil()))
}
