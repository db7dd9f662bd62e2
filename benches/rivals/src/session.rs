//! Shared by all measurements: their options, the order of turns, tables and stored results.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use tools::{machine, progress, quantiles, table};

/// How much is measured. With any of these options the results go to `quick.csv`.
#[derive(Debug, Args)]
pub struct Scope {
    /// Only contenders (services, for `service`) whose names contain this; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How many turns each contender takes
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,
    /// How long each turn is
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, Box<dyn Error + Send + Sync>> {
    Ok(Duration::try_from_secs_f64(text.parse()?)?)
}

impl Scope {
    pub fn rounds(&self, default: u32) -> u32 {
        self.rounds.unwrap_or(default)
    }

    pub fn turn(&self, default: Duration) -> Duration {
        self.seconds.unwrap_or(default)
    }

    /// Applies `--only`. Fails if nothing is left.
    pub fn choose<T>(&self, mut all: Vec<T>, name: impl Fn(&T) -> &str) -> Result<Vec<T>, String> {
        let names = all.iter().map(|each| name(each).to_owned()).collect::<Vec<_>>().join("; ");
        all.retain(|each| contains(&self.only, name(each)));
        if all.is_empty() { Err(format!("no name contains {:?}; the names: {names}", self.only)) } else { Ok(all) }
    }

    /// The file for the results: only a complete run is worth keeping.
    pub fn file<'a>(&self, complete: &'a str) -> &'a str {
        if self.only.is_empty() && self.rounds.is_none() && self.seconds.is_none() { complete } else { "quick" }
    }
}

/// Whether a name contains one of the parts. Without parts, every name does.
pub fn contains(parts: &[String], name: &str) -> bool {
    parts.is_empty() || parts.iter().any(|part| name.to_lowercase().contains(&part.to_lowercase()))
}

/// Measures each of so many contenders once per round. A different one begins each round, which spreads other load on
/// the machine over all of them. Returns the results by contender.
pub fn take_turns<T>(
    what: &str,
    rounds: u32,
    contenders: usize,
    mut measure: impl FnMut(usize, u32) -> T,
) -> Vec<Vec<T>> {
    let mut results: Vec<_> = (0..contenders).map(|_| Vec::new()).collect();
    let bar = progress(what, u64::from(rounds) * contenders as u64);
    for round in 0..rounds {
        for place in (0..contenders).map(|offset| (round as usize + offset) % contenders) {
            results[place].push(measure(place, round));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    results
}

/// A results file.
pub struct Sheet {
    machine: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    /// Prints the machine and the versions. `others` are versions of programs that are not in the lock file. A `|`
    /// separates columns.
    pub fn new(others: &[String], columns: &str) -> Self {
        let crates =
            "hairspring tokio pingora-timeout async-io futures-timer tokio-util tick tokio-hrtime tokio-timerd hyper";
        let versions = machine::versions(&crates.split(' ').collect::<Vec<_>>());
        let versions = [&[versions], others].concat().join(", ");
        let machine = format!("{}; {versions}; {}", machine::system(), machine::today());
        println!("{machine}");
        Sheet { machine, columns: columns.split('|').map(str::to_owned).collect(), rows: Vec::new() }
    }

    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Adds rows that begin with the same `keys`, and prints them without these.
    pub fn add(&mut self, title: &str, keys: &[&str], rows: Vec<Vec<String>>) {
        println!("\n{title}\n{}", table(&self.columns[keys.len()..], &rows));
        let keys = keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        self.rows.extend(rows.into_iter().map(|row| [keys.clone(), row].concat()));
    }

    pub fn save(&self, name: &str) -> Result<(), Box<dyn Error>> {
        let mut csv = csv::Writer::from_writer(format!("# {}\n", self.machine).into_bytes());
        csv.write_record(&self.columns)?;
        self.rows.iter().try_for_each(|row| csv.write_record(row))?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        fs::write(folder.join(name).with_extension("csv"), csv.into_inner()?)?;
        println!("\nresults/{name}.csv written");
        Ok(())
    }
}

/// Compares what was measured with a promise.
pub fn verdict(holds: bool, what: &str) {
    println!("  {}  {what}", if holds { "PASS " } else { "short" });
}

/// The median and the quartiles.
pub fn quartiles(figures: Vec<f64>) -> [f64; 3] {
    quantiles(figures, [0.5, 0.25, 0.75])
}

/// The median, the minimum and the maximum.
pub fn range(figures: Vec<f64>) -> [f64; 3] {
    quantiles(figures, [0.5, 0.0, 1.0])
}

/// A ratio, or a dash if there is nothing to compare with.
pub fn ratio(times: Option<f64>, decimals: usize) -> String {
    times.map_or("-".to_owned(), |times| format!("{times:.decimals$}"))
}

/// A figure with its quartiles or its range.
pub fn with_range([middle, low, high]: [f64; 3], decimals: usize) -> String {
    format!("{middle:.decimals$} ({low:.decimals$}..{high:.decimals$})")
}

pub fn in_words(nanos: f64) -> String {
    match nanos / 1e3 {
        micros @ ..9.95 => format!("{micros:.1} µs"),
        micros @ ..999.5 => format!("{micros:.0} µs"),
        micros => format!("{:.1} ms", micros / 1e3),
    }
}
