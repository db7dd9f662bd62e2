//! What limits cost a service.

use super::{HAIRSPRING, TOKIO};
use crate::figures::{about, captioned, whole};
use crate::results::{Results, SERVICE, Table};

const ACTORS: &str = "actors, a limit on each answer";
const WORKERS: [&str; 2] = ["2 workers", "1 worker"];

const CONTENDERS: [(&str, &str); 4] = [
    ("no timeouts", "no limits"),
    ("hairspring", HAIRSPRING),
    ("`tokio::time`", TOKIO),
    ("tokio's alternative timer", "tokio, alternative"),
];

const SERVICES: [(&str, &str); 4] = [
    ("actors, a timeout on each answer", ACTORS),
    ("TCP echo, four timeouts per request", "TCP echo, four limits"),
    ("HTTP server, one timeout for the header and one for the request", "HTTP, header and request limit"),
    ("connection pool, a timeout on each acquisition", "pool, a limit on each acquisition"),
];

/// A figure in the middle of all rounds, and its quartiles.
fn figure(results: &Table, service: &str, workers: &str, contender: &str, what: &str) -> Result<[f64; 3], String> {
    let row = [("service", service), ("workers", workers), ("contender", contender)];
    let [middle, p25, p75] = ["", " p25", " p75"].map(|which| results.number(&row, &format!("{what}{which}")));
    Ok([middle?, p25?, p75?])
}

/// The actors in full.
pub(super) fn actors(results: &Results) -> Result<String, String> {
    let (stored, machine) = (results.table(SERVICE)?, results.machine(SERVICE)?);
    let mut actors = Vec::new();
    for (label, contender) in CONTENDERS {
        let mut row = vec![label.to_owned()];
        for workers in WORKERS {
            let of = |what| figure(&stored, ACTORS, workers, contender, what);
            let [share, share25, share75] = of("percent of none")?.map(whole);
            let [nanos, p25, p75] = of("processor ns a request")?.map(whole);
            let is_all = contender == CONTENDERS[0].1;
            row.push(about(of("requests a second")?[0]));
            row.push(if is_all { String::new() } else { format!("{share} % ({share25} to {share75})") });
            row.push(format!("{nanos} ns ({p25} to {p75})"));
        }
        actors.push(row);
    }
    let sentence = format!(
        "256 clients call eight actors, each call under a timeout of 30 s, with all workers of the runtime busy: answers \
         per second, their share of the rate without timeouts, and processor time per answer; medians, with quartiles in \
         brackets ({}, {}; {}; repeat it with `benches/report/run service`):",
        machine.system(),
        machine.versions(&["tokio"])?,
        machine.date
    );
    let heads = ["", "2 workers: answers", "share", "processor", "1 worker: answers", "share", "processor"];
    Ok(captioned(&sentence, &heads, &actors))
}

/// Of all services, what hairspring takes beside tokio.
pub(super) fn services(results: &Results) -> Result<String, String> {
    let (stored, machine) = (results.table(SERVICE)?, results.machine(SERVICE)?);
    let mut services = Vec::new();
    for (label, service) in SERVICES {
        let mut row = vec![label.to_owned()];
        for workers in WORKERS {
            for what in ["requests times tokio's", "processor times tokio's"] {
                let [times, p25, p75] = figure(&stored, service, workers, HAIRSPRING, what)?;
                let spread = format!("({p25:.2} to {p75:.2})");
                let is_like = p25 <= 1.0 && 1.0 <= p75;
                row.push(if is_like { format!("no difference {spread}") } else { format!("{times:.2} {spread}") });
            }
        }
        services.push(row);
    }
    let beside = format!(
        "Requests per second, and processor time per request, as a multiple of the same service's with tokio's timers: \
         medians, with quartiles in brackets; \"no difference\" if 1 is within the quartiles ({}; {}; repeat it with \
         `benches/report/run service`):",
        machine.system(),
        machine.date
    );
    let ratios = ["", "2 workers: requests", "processor", "1 worker: requests", "processor"];
    Ok(captioned(&beside, &ratios, &services))
}
