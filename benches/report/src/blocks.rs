//! The texts that are put into the documents, each from the results that are stored.

mod server;
mod service;

use crate::figures::{about, captioned, fill, two_digits, whole};
use crate::results::{CROWD, LATE, LATE_CHART, PRICE, RIVALS, Results, SCHEMES, SOAK, Table, WORLDS};

/// The text of the block with that name.
pub(crate) fn text(name: &str, results: &Results) -> Result<String, String> {
    match name {
        "arm" => arm(results),
        "population" => population(results),
        "late" => late(results),
        "price" => price(results),
        "crowd" => crowd(results),
        "service" => service::actors(results),
        "services" => service::services(results),
        "server" => server::table(results),
        "server-price" => server::price(results),
        "worlds" => worlds(results),
        "size" => results.table(RIVALS)?.number(&size(HAIRSPRING), "median").map(whole),
        "soak" => soak(results),
        "soak-stops" => soak_stops(results),
        "machine-schemes" => results.machine(SCHEMES).map(|machine| machine.system()),
        _ => Err("there is no such block; there are service, services, server, server-price, arm, population, late, \
                  price, crowd, worlds, size, soak, soak-stops, machine-schemes"
            .to_owned()),
    }
}

const HAIRSPRING: &str = "hairspring";
const TIMERFD: &str = "hairspring, timerfd";
const TOKIO: &str = "tokio::time";
const MILLION: &str = "1000000";

/// Where timers are armed and cancelled: a name for readers, the runtime, the number of tasks.
const PLACES: [(&str, &str, &str); 3] = [
    ("1 task", "2 workers", "1"),
    ("2 tasks at once", "2 workers", "2"),
    ("current-thread runtime", "current thread", "1"),
];

const RIVALS_SHOWN: [(&str, &str); 6] = [
    ("hairspring", HAIRSPRING),
    ("`tokio::time`", TOKIO),
    ("tokio's alternative timer", "tokio, alternative"),
    ("pingora-timeout", "pingora-timeout"),
    ("async-io", "async-io"),
    ("floor: the clock read, 2 locks, a waker's clone", "floor: clock, 2 locks, waker"),
];

fn arming<'a>(rival: &'a str, place: usize, population: &'a str) -> [(&'static str, &'a str); 6] {
    let (_, runtime, tasks) = PLACES[place];
    [
        ("workload", "arm+cancel"),
        ("rival", rival),
        ("runtime", runtime),
        ("tasks", tasks),
        ("earlier timer", "standing"),
        ("population", population),
    ]
}

fn arm(results: &Results) -> Result<String, String> {
    let (rivals, machine) = (results.table(RIVALS)?, results.machine(RIVALS)?);
    let mut rows = Vec::new();
    for (label, rival) in RIVALS_SHOWN {
        let mut row = vec![label.to_owned()];
        for place in 0..PLACES.len() {
            // It has none on a current-thread runtime.
            let is_empty = rival == "tokio, alternative" && place == 2;
            let figure = if is_empty { None } else { Some(rivals.number(&arming(rival, place, "0"), "median")?) };
            row.push(figure.map_or_else(String::new, whole));
        }
        rows.push(row);
    }
    let sentence = format!(
        "Nanoseconds to arm a timer of 30 to 40 s and cancel it, in tasks of a runtime with 2 workers, while an earlier \
         timer is pending, as on any busy server; medians of {} rounds ({}, {}; repeat it with \
         `benches/report/run arm`):",
        rivals.cell(&arming(HAIRSPRING, 0, "0"), "rounds")?,
        machine.system(),
        machine.versions(&["tokio", "pingora-timeout", "async-io"])?
    );
    let [one, two, three] = PLACES.map(|(name, ..)| name);
    Ok(captioned(&sentence, &["", one, two, three], &rows))
}

/// Bytes that a sleep takes.
fn size(whose: &str) -> [(&'static str, &str); 2] {
    [("workload", "memory: the sleep itself"), ("rival", whose)]
}

fn population(results: &Results) -> Result<String, String> {
    let rivals = results.table(RIVALS)?;
    let among_a_million = |workload: &str, rival: &str| {
        rivals.number(&[("workload", workload), ("rival", rival), ("population", MILLION)], "median").map(whole)
    };
    // By how many per cent a million timers change what it takes to arm one, at most.
    let mut most = 0_f64;
    for place in 0..PLACES.len() {
        let many = rivals.number(&arming(HAIRSPRING, place, MILLION), "median")?;
        most = most.max((many / rivals.number(&arming(HAIRSPRING, place, "0"), "median")? - 1.0).abs());
    }
    Ok(fill(&format!(
        "With 1,000,000 other timers pending these figures change by {} % at most. A pending timer takes {} bytes, of \
         which {} are the `Sleep` (tokio's, boxed: {}, of which {}). Firing a million takes {} ns each if all are due in \
         one tick, and {} ns if they are due over 50 ms (tokio: {} and {}).",
        whole((100.0 * most).ceil()),
        among_a_million("memory: pending", "hairspring, in a Vec")?,
        rivals.number(&size(HAIRSPRING), "median").map(whole)?,
        among_a_million("memory: pending", "tokio::time, boxed")?,
        rivals.number(&size(TOKIO), "median").map(whole)?,
        among_a_million("fire in one tick", HAIRSPRING)?,
        among_a_million("fire over 50 ms", HAIRSPRING)?,
        among_a_million("fire in one tick", TOKIO)?,
        among_a_million("fire over 50 ms", TOKIO)?,
    )))
}

/// The heads of the columns, and what they are called in the results.
const SCENARIOS: [(&str, &str); 4] = [
    ("1 task", "1 task, 2 workers"),
    ("50 tasks", "50 tasks, 2 workers"),
    ("1000 tasks", "1000 tasks, 2 workers"),
    ("50 on 4 workers, one blocked half the time", "50 tasks, 4 workers, one blocked 20 ms in every 40"),
];

const CONTENDERS: [(&str, &str); 4] = [
    ("hairspring", HAIRSPRING),
    ("with `Alarm::Timerfd`", TIMERFD),
    ("`tokio::time`", TOKIO),
    ("async-io", "async-io"),
];

fn lateness(scenario: usize, contender: &str) -> [(&'static str, &str); 2] {
    [("scenario", SCENARIOS[scenario].1), ("contender", contender)]
}

fn late(results: &Results) -> Result<String, String> {
    let (late, machine) = (results.table(LATE)?, results.machine(LATE)?);
    let mut rows = Vec::new();
    for (label, contender) in CONTENDERS {
        let cells = (0..SCENARIOS.len()).map(|scenario| late_cell(&late, scenario, contender));
        rows.push([Ok(label.to_owned())].into_iter().chain(cells).collect::<Result<Vec<_>, _>>()?);
    }
    let place = if results.machine(RIVALS).is_ok_and(|other| other.is_like(&machine)) {
        "on the same machine".to_owned()
    } else {
        format!("{}, {}", machine.system(), machine.versions(&["tokio", "async-io"])?)
    };
    let chart = results.text(LATE_CHART)?;
    let mut is_drawn = true;
    for scenario in 0..SCENARIOS.len() {
        for contender in [HAIRSPRING, TOKIO] {
            let [p50, p99] = ["p50", "p99"].map(|name| late.cell(&lateness(scenario, contender), name));
            is_drawn &= chart.contains(&format!("p50 {} · p99 {} ·", p50?, p99?));
        }
    }
    let what = format!(
        "How late sleeps of 1 to 10 ms end (median / 99th percentile), and the processor time that they take, as a \
         multiple of tokio's ({place}; the chart below is of {} run; repeat both with `benches/report/run late`):",
        if is_drawn { "the same" } else { "another" }
    );
    let processor = |who| late.number(&lateness(1, who), "processor percent").map(two_digits);
    let price = format!(
        "{} timers a second take {} % of a core, or {} % with `Alarm::Timerfd`; tokio takes {} %. From some 1,000 a \
         second on, timers share turns, for which they wait 1 ms at most: `Builder::coalesce` sets how long.",
        about(late.number(&lateness(1, HAIRSPRING), "sleeps a second")?),
        processor(HAIRSPRING)?,
        processor(TIMERFD)?,
        processor(TOKIO)?,
    );
    let [one, two, three, four] = SCENARIOS.map(|(head, _)| head);
    Ok(format!("{}\n\n{}", captioned(&what, &["", one, two, three, four], &rows), fill(&price)))
}

/// `48 / 128 us, 2.3x`
fn late_cell(late: &Table, scenario: usize, contender: &str) -> Result<String, String> {
    let row = lateness(scenario, contender);
    let [p50, p99] = [late.cell(&row, "p50")?, late.cell(&row, "p99")?].map(|time| time.replace('µ', "u"));
    let times = match (p50.split_once(' '), p99.split_once(' ')) {
        (Some((p50, unit)), Some((p99, same))) if unit == same => format!("{p50} / {p99} {unit}"),
        _ => format!("{p50} / {p99}"),
    };
    if contender == TOKIO {
        return Ok(times);
    }
    Ok(format!("{times}, {}x", two_digits(late.number(&row, "processor times tokio's")?)))
}

/// How many tasks sleep, and how many timers that is a second.
const DENSITIES: [&str; 7] = ["1", "5", "20", "50", "150", "500", "2000"];

fn price(results: &Results) -> Result<String, String> {
    let (price, machine) = (results.table(PRICE)?, results.machine(PRICE)?);
    let scenarios =
        DENSITIES.map(|tasks| format!("{tasks} {}, 2 workers", if tasks == "1" { "task" } else { "tasks" }));
    let of = |scenario: usize, contender: &str, column: &str| {
        price.number(&[("scenario", &scenarios[scenario]), ("contender", contender)], column)
    };
    let row = |label: &str, cell: &dyn Fn(usize) -> Result<String, String>| {
        [Ok(label.to_owned())].into_iter().chain((0..DENSITIES.len()).map(cell)).collect::<Result<Vec<_>, _>>()
    };
    let mut rows = vec![row("timers a second", &|scenario| of(scenario, TOKIO, "sleeps a second").map(about))?];
    for (label, contender) in &CONTENDERS {
        let cell = |scenario| match *contender {
            TOKIO => Ok(format!("{} ns", about(of(scenario, TOKIO, "ns a sleep")?))),
            contender => Ok(format!("{:.2}x", of(scenario, contender, "ns times tokio's")?)),
        };
        rows.push(row(label, &cell)?);
    }
    for (label, column) in [("hairspring's p50", "p50 times tokio's"), ("hairspring's p99", "p99 times tokio's")] {
        rows.push(row(label, &|scenario| Ok(format!("{:.2}x", of(scenario, HAIRSPRING, column)?)))?);
    }
    let sentence = format!(
        "Tasks sleep 1 to 10 ms again and again: processor time per timer that fires, and the median and 99th \
         percentile of hairspring's lateness. A figure with x is a multiple of tokio's ({}, {}; repeat it with \
         `benches/report/run price`):",
        machine.system(),
        machine.versions(&["tokio", "async-io"])?
    );
    let heads: Vec<_> = DENSITIES.iter().map(|tasks| format!("{tasks} tasks").replace("1 tasks", "1 task")).collect();
    let heads: Vec<_> = [""].into_iter().chain(heads.iter().map(String::as_str)).collect();
    Ok(captioned(&sentence, &heads, &rows))
}

/// Names for readers, and what the results call them.
const CROWD_SHOWN: [(&str, &str); 7] = [
    ("processor time, s", "processor s"),
    ("bystander late, p50, ms", "late p50 ms"),
    ("bystander late, p99, ms", "late p99 ms"),
    ("bystander late, most, ms", "late most ms"),
    ("slowest arm and cancel, ms", "slowest arm+cancel ms"),
    ("thread without timers late, most, ms", "thread late most ms"),
    ("bytes per pending timer", "bytes each"),
];

fn crowd(results: &Results) -> Result<String, String> {
    let (crowd, machine) = (results.table(CROWD)?, results.machine(CROWD)?);
    let rows = CROWD_SHOWN.map(|(label, column)| {
        let spread = |contender| Ok(crowd.cell(&[("contender", contender)], column)?.replace("..", " to "));
        let cells = [HAIRSPRING, TIMERFD, TOKIO].map(spread).into_iter().collect::<Result<Vec<_>, String>>()?;
        Ok([vec![label.to_owned()], cells].concat())
    });
    let rows = rows.into_iter().collect::<Result<Vec<_>, String>>()?;
    let sentence = format!(
        "1,000,000 sleeps on 2 workers, due at random over 5 s. Beside them are a bystander, which sleeps 1 ms again and \
         again; each millisecond a task that arms and cancels; and a thread that sleeps without timers, to show how late \
         the machine makes anybody. Medians of 5 rounds, with the least and the most in brackets ({}, {}; repeat it with \
         `benches/report/run crowd`):",
        machine.system(),
        machine.versions(&["tokio"])?
    );
    let heads = ["", "hairspring", "with `Alarm::Timerfd`", "`tokio::time`"];
    Ok(captioned(&sentence, &heads, &rows))
}

const WORLDS_SHOWN: [(&str, &str); 6] = [
    ("hairspring", HAIRSPRING),
    ("`tokio::time`", TOKIO),
    ("Netty's `HashedWheelTimer`, ticks of 1 ms", "Netty, 1 ms"),
    ("the JDK's `ScheduledThreadPoolExecutor`, 1 thread", "JDK, pool of 1"),
    ("Kafka's `SystemTimer`, ticks of 1 ms", "Kafka, 1 ms"),
    ("Go's runtime", "Go"),
];

/// hairspring and tokio beside the timers of other worlds; each cell has a figure for each population.
fn worlds(results: &Results) -> Result<String, String> {
    let (worlds, machine) = (results.table(WORLDS)?, results.machine(WORLDS)?);
    let columns = [
        ("1 thread, ns", "1 thread, ns"),
        ("processor, ns", "processor ns"),
        ("2 threads, ns", "2 threads, ns"),
        ("processor, ns", "processor ns, 2 threads"),
        ("late, p50", "late p50"),
        ("late, p99", "late p99"),
        ("processor per timer fired, us", "processor ns, fired"),
    ];
    let mut rows = Vec::new();
    // A machine may not have all.
    let is_there = |(_, world): &(&str, &str)| worlds.cell(&[("world", world)], "late p50").is_ok();
    for (label, world) in WORLDS_SHOWN.into_iter().filter(is_there) {
        let mut row = vec![label.to_owned()];
        for (_, column) in columns {
            let cell = |population| {
                let cell = worlds.cell(&[("world", world), ("timers pending", population)], column)?;
                let micros =
                    column.ends_with("fired").then(|| cell.parse::<f64>().map(|nanos| two_digits(nanos / 1e3)));
                Ok(micros.and_then(Result::ok).unwrap_or_else(|| cell.replace('µ', "u")))
            };
            row.push(["0", "1000", MILLION].map(cell).into_iter().collect::<Result<Vec<_>, String>>()?.join(" / "));
        }
        rows.push(row);
    }
    let heads: Vec<_> = [""].into_iter().chain(columns.map(|(head, _)| head)).collect();
    let version = |name: &&str| machine.versions(&[name]).ok();
    let versions: Vec<_> = ["tokio", "OpenJDK", "Netty", "Kafka", "Go"].iter().filter_map(version).collect();
    let (system, versions, date) = (machine.system(), versions.join(", "), machine.date);
    let place = format!(
        "Each cell has the figures with 0 / 1,000 / 1,000,000 other timers pending ({system}, {versions}; {date}; repeat \
         it with `benches/worlds/run`):"
    );
    Ok(captioned(&place, &heads, &rows))
}

/// What the soak printed, and the last part of it, which is its report.
fn soak_parts(results: &Results) -> Result<(String, String), String> {
    let text = results.text(SOAK)?;
    match text.trim_end().rsplit_once("\n\n") {
        Some((lines, report)) if report.contains(" stops; ") => Ok((lines.to_owned(), report.to_owned())),
        _ => Err(format!("{SOAK}: there is no report")),
    }
}

fn soak(results: &Results) -> Result<String, String> {
    let (_, report) = soak_parts(results)?;
    Ok(format!("```text\n{report}\n```\n\n{}.", results.machine(SOAK)?.system()))
}

/// At how many points the counts were compared.
fn soak_stops(results: &Results) -> Result<String, String> {
    let (_, report) = soak_parts(results)?;
    let stops = report.split(" stops; ").next().and_then(|before| before.rsplit(' ').next());
    Ok(stops.unwrap_or_default().to_owned())
}
