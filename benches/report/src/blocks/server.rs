//! What a request costs a server whose handler sleeps.

use super::{CONTENDERS, HAIRSPRING, TOKIO};
use crate::figures::{captioned, fill, two_digits};
use crate::results::{Results, SERVER};

const CONNECTIONS: [&str; 4] = ["4", "16", "64", "256"];
const CPU: &str = "CPU times tokio's";

/// Of each contender that has stored results.
pub(super) fn table(results: &Results) -> Result<String, String> {
    let (stored, machine) = (results.table(SERVER)?, results.machine(SERVER)?);
    let mut rows = Vec::new();
    for (label, contender) in &CONTENDERS[..3] {
        let mut row = vec![(*label).to_owned()];
        for connections in CONNECTIONS {
            let of = [("connections", connections), ("contender", contender)];
            let [times, p25, p75] = [CPU, "p25", "p75"].map(|column| stored.number(&of, column));
            let cpu = if *contender == TOKIO {
                format!("{} us", two_digits(stored.number(&of, "CPU ns a request")? / 1e3))
            } else {
                format!("{:.2}x ({:.2} to {:.2})", times?, p25?, p75?)
            };
            row.push(format!("{cpu}; {} / {}", stored.cell(&of, "p50")?, stored.cell(&of, "p99")?));
        }
        rows.push(row);
    }
    let caption = format!(
        "A TCP server with two workers, in a process of its own, sleeps 10 ms before it answers, and its clients ask again \
         at once: the server's CPU time per request, as a multiple of the time with tokio's timers, medians with quartiles \
         in brackets; and the median and 99th percentile of the time to the answer ({}, {}; {}; repeat it with \
         `benches/report/run server`):",
        machine.system(),
        machine.versions(&["tokio"])?,
        machine.date
    );
    let heads = CONNECTIONS.map(|connections| format!("{connections} connections"));
    Ok(captioned(&caption, &[&[""], &heads.each_ref().map(String::as_str)[..]].concat(), &rows))
}

/// The same in a sentence.
pub(super) fn price(results: &Results) -> Result<String, String> {
    let stored = results.table(SERVER)?;
    let [mut times, mut ours, mut tokios] = [const { Vec::<String>::new() }; 3];
    for connections in CONNECTIONS {
        let of = |contender| [("connections", connections), ("contender", contender)];
        times.push(format!("{:.2}", stored.number(&of(HAIRSPRING), CPU)?));
        ours.push(stored.cell(&of(HAIRSPRING), "p50")?.to_owned());
        tokios.push(stored.cell(&of(TOKIO), "p50")?.to_owned());
    }
    let between = |mut times: Vec<String>| {
        times.sort_unstable_by_key(|time| (time.len(), time.clone()));
        format!("{} to {}", times[0], times[times.len() - 1])
    };
    Ok(fill(&format!(
        "A request to a server whose handler sleeps 10 ms takes {} times the CPU time that it takes with tokio's timers, \
         with {} connections, and is answered within {} instead of {} (medians).",
        and(&times),
        and(&CONNECTIONS),
        between(ours),
        between(tokios),
    )))
}

/// `4, 16 and 64`
fn and(words: &[impl AsRef<str>]) -> String {
    let (last, others) = words.split_last().expect("there are some");
    let others: Vec<_> = others.iter().map(AsRef::as_ref).collect();
    format!("{} and {}", others.join(", "), last.as_ref())
}
