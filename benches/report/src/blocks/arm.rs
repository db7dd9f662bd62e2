//! Nanoseconds to arm a timer and cancel it, by rival and runtime.

use super::table;
use crate::figures::whole;
use crate::fill::fill;
use crate::results::{Place, Results};

pub(super) const HAIRSPRING: &str = "hairspring";

const CURRENT_THREAD: Place = Place { runtime: "current thread", tasks: "1" };
pub(super) const COLUMNS: [(&str, Place); 3] = [
    ("1 task", Place { runtime: "2 workers", tasks: "1" }),
    ("2 tasks at once", Place { runtime: "2 workers", tasks: "2" }),
    ("current-thread runtime", CURRENT_THREAD),
];

struct Row {
    label: &'static str,
    rival: &'static str,
    has_current_thread: bool,
}

const fn row(label: &'static str, rival: &'static str) -> Row {
    Row { label, rival, has_current_thread: true }
}

const ROWS: [Row; 6] = [
    row("hairspring", HAIRSPRING),
    row("`tokio::time`", "tokio::time"),
    Row { label: "tokio's alternative timer", rival: "tokio, alternative", has_current_thread: false },
    row("pingora-timeout", "pingora-timeout"),
    row("async-io", "async-io"),
    row("floor: the clock read, 2 locks, a waker's clone", "floor: clock, 2 locks, waker"),
];

pub(super) fn text(results: &Results) -> Result<String, String> {
    let rivals = results.rivals()?;
    let mut rows = Vec::new();
    for Row { label, rival, has_current_thread } in ROWS {
        let mut row = vec![label.to_owned()];
        for (_, place) in COLUMNS {
            let is_empty = !has_current_thread && place.runtime == CURRENT_THREAD.runtime;
            row.push(if is_empty { String::new() } else { whole(rivals.arm(rival, place, "0")?) });
        }
        rows.push(row);
    }
    let [one, two, three] = COLUMNS.map(|(name, _)| name);
    let sentence = format!(
        "Nanoseconds to arm a timer of 30 to 40 s and cancel it, in the tasks of a runtime with 2 workers, with an \
         earlier timer standing as on any busy server; medians of {} rounds ({}, {}; repeat it with \
         `benches/report/run arm`):",
        rivals.rounds(HAIRSPRING, COLUMNS[0].1)?,
        rivals.machine.system(),
        rivals.machine.versions(&["tokio", "pingora-timeout", "async-io"])?
    );
    Ok(format!("{}\n\n{}", fill(&sentence), table(&["", one, two, three], &rows)))
}
