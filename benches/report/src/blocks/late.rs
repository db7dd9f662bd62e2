//! How late sleeps end, and what processor time that takes beside tokio's.

use super::table;
use crate::figures::{about, two_digits};
use crate::fill::fill;
use crate::results::{Late, Results, Row};

/// The heads of the columns, and what they are called in the results.
const SCENARIOS: [(&str, &str); 4] = [
    ("1 task", "1 task, 2 workers"),
    ("50 tasks", "50 tasks, 2 workers"),
    ("1000 tasks", "1000 tasks, 2 workers"),
    ("50 on 4 workers, one blocked half the time", "50 tasks, 4 workers, one blocked 20 ms in every 40"),
];

const CONTENDERS: [(&str, &str); 4] = [
    ("hairspring", "hairspring"),
    ("with `Alarm::Timerfd`", "hairspring, timerfd"),
    ("`tokio::time`", BASE),
    ("async-io", "async-io"),
];

/// Ratios are to this one.
const BASE: &str = "tokio::time";

/// Timers that are too few to be gathered.
const SPARSE: &str = SCENARIOS[1].1;

pub(super) fn text(results: &Results) -> Result<String, String> {
    let late = results.late()?;
    let mut rows = Vec::new();
    for (label, contender) in CONTENDERS {
        let mut cells = vec![label.to_owned()];
        for (_, scenario) in SCENARIOS {
            cells.push(cell(late.row(scenario, contender)?, contender != BASE)?);
        }
        rows.push(cells);
    }
    let [one, two, three, four] = SCENARIOS.map(|(head, _)| head);
    let table = table(&["", one, two, three, four], &rows);
    Ok(format!("{}\n\n{table}\n\n{}", fill(&what(results, &late)?), fill(&price(&late)?)))
}

fn what(results: &Results, late: &Late) -> Result<String, String> {
    let machine = &late.machine;
    let place = match results.rivals() {
        Ok(rivals) if rivals.machine == *machine => "on the same machine".to_owned(),
        _ => format!("{}, {}", machine.system(), machine.versions(&["tokio", "async-io"])?),
    };
    let run = if late.is_drawn_in(&results.late_chart()?) { "the same run" } else { "another run" };
    Ok(format!(
        "How late sleeps of 1 to 10 ms end, in the middle and at the 99th percentile, and what processor time that \
         takes, beside tokio's ({place}; the chart below is of {run}; repeat both with `benches/report/run late`):"
    ))
}

fn price(late: &Late) -> Result<String, String> {
    let ours = late.row(SPARSE, "hairspring")?;
    let processor = |contender: &str| late.row(SPARSE, contender)?.processor_percent().map(two_digits);
    Ok(format!(
        "Precision has its price: a wake-up for each of {} timers a second is {} % of a core, or {} % with \
         `Alarm::Timerfd`, where tokio, which gathers them by the millisecond, takes {} %.",
        about(ours.sleeps_a_second()?),
        two_digits(ours.processor_percent()?),
        processor("hairspring, timerfd")?,
        processor(BASE)?,
    ))
}

/// `48 / 128 us, 2.3x`
fn cell(row: &Row, has_ratio: bool) -> Result<String, String> {
    let [p50, p99] = [&row.p50, &row.p99].map(|time| time.replace('µ', "u"));
    let times = match (p50.split_once(' '), p99.split_once(' ')) {
        (Some((p50, unit)), Some((p99, same))) if unit == same => format!("{p50} / {p99} {unit}"),
        _ => format!("{p50} / {p99}"),
    };
    Ok(if has_ratio { format!("{times}, {}x", two_digits(row.times_processor()?)) } else { times })
}
