//! hairspring beside the other timers of its kind, in one run. See README.md.

mod arm_cancel;
mod cell;
mod contenders;
mod crowd;
mod firing;
mod floor;
mod late;
mod memory;
mod price;
mod record;
mod rival;
mod rivals;
mod server;
mod service;
mod tasks;
mod verdict;
mod worlds;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use tools::machine;

use record::Record;
use rival::Rival;
use rivals::Hairspring;

/// hairspring beside the other timers of its kind, in one run.
#[derive(Debug, Parser)]
#[command(name = "benches/rivals/run", args_conflicts_with_subcommands = true)]
struct Options {
    /// A smoke run of some seconds; its figures are worth little
    #[arg(long)]
    quick: bool,
    /// Arming and cancelling only, by hairspring and by the rivals whose name has this in it
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    #[command(subcommand)]
    other: Option<Other>,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// How late sleeps end, beside tokio and async-io, and nothing else
    Late(late::Options),
    /// What a timer costs that fires, beside all others and a kernel timer for each, and nothing else
    Price(price::Options),
    /// A million sleeps due in no order, beside others that must not wait for them, and nothing else
    Crowd(crowd::Options),
    /// What limits cost a service: actors, a TCP echo, an HTTP server and a pool of connections, and nothing else
    Service(service::Options),
    /// A server whose handler sleeps 10 ms, and clients that ask again at once, and nothing else
    Server(server::Options),
    /// hairspring and tokio beside the timers of other worlds, as `benches/worlds/run` calls it, and nothing else
    Worlds(worlds::Options),
    #[command(hide = true)]
    Memory(memory::Child),
    #[command(hide = true)]
    Cell(cell::Cell),
    #[command(hide = true)]
    CrowdChild(crowd::Child),
    #[command(hide = true)]
    Serving(server::Serving),
    #[command(hide = true)]
    World(worlds::World),
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options::parse();
    match options.other.take() {
        None => return all(&options),
        Some(Other::Late(options)) => return late::run(&options),
        Some(Other::Price(options)) => return price::run(&options),
        Some(Other::Crowd(options)) => return crowd::run(&options),
        Some(Other::Service(options)) => return service::run(&options),
        Some(Other::Server(options)) => return server::run(&options),
        Some(Other::Serving(serving)) => return serving.run(),
        Some(Other::Worlds(options)) => return worlds::run(&options),
        Some(Other::Memory(child)) => child.run(),
        Some(Other::Cell(cell)) => cell.run(),
        Some(Other::CrowdChild(child)) => child.run(),
        Some(Other::World(world)) => world.run(),
    }
    Ok(())
}

fn all(options: &Options) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    println!("{}\n", machine_line());
    if !cfg!(tokio_unstable) {
        println!("built without `--cfg tokio_unstable`: tokio's alternative timer is left out; `run` sets it\n");
    }
    let mut record = Record::default();
    arm_cancel::run(options, &mut record);
    if options.only.is_empty() {
        firing::run(options, &mut record);
        tasks::run(options, &mut record);
        memory::run(options, &mut record);
    }
    verdict::print(options, &record);
    // Only a whole run is worth keeping.
    let name = if options.quick || !options.only.is_empty() { "quick" } else { "rivals" };
    record.save(&results(name))?;
    println!("\nresults/{name}.csv written, after {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// A file of results, without its extension.
fn results(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(name)
}

/// Writes a table, with a line on the machine in front.
fn save(name: &str, columns: &[&str], rows: &[Vec<String>]) -> Result<(), Box<dyn Error>> {
    save_from(&machine_line(), name, columns, rows)
}

fn save_from(machine: &str, name: &str, columns: &[&str], rows: &[Vec<String>]) -> Result<(), Box<dyn Error>> {
    let mut csv = csv::Writer::from_writer(format!("# {machine}\n").into_bytes());
    csv.write_record(columns)?;
    rows.iter().try_for_each(|row| csv.write_record(row))?;
    fs::write(results(name).with_extension("csv"), csv.into_inner()?)?;
    println!("\nresults/{name}.csv written");
    Ok(())
}

/// Where a run is made, with what, and when.
fn machine_line() -> String {
    format!("{}; {}; {}", machine::system(), versions(), machine::today())
}

fn versions() -> String {
    machine::versions(&[
        "hairspring",
        "tokio",
        "pingora-timeout",
        "async-io",
        "futures-timer",
        "tokio-util",
        "tick",
        "tokio-hrtime",
        "tokio-timerd",
        "hyper",
    ])
}

/// Microseconds up to a millisecond, and milliseconds from there on.
fn in_words(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..9.95 => format!("{micros:.1} µs"),
        ..999.5 => format!("{micros:.0} µs"),
        _ => format!("{:.1} ms", micros / 1e3),
    }
}

/// How much is measured.
impl Options {
    /// hairspring always takes part: all figures are ratios to its own.
    fn takes<R: Rival>(&self) -> bool {
        let named = |part: &String| R::NAME.to_lowercase().contains(&part.to_lowercase());
        self.only.is_empty() || R::NAME == Hairspring::NAME || self.only.iter().any(named)
    }

    fn populations(&self) -> &'static [usize] {
        if self.quick { &[0, 10_000] } else { &[0, 10_000, 1_000_000] }
    }

    fn rounds(&self) -> usize {
        if self.quick { 3 } else { 15 }
    }

    fn round_length(&self) -> Duration {
        Duration::from_millis(if self.quick { 5 } else { 40 })
    }

    /// How many timers fire at once.
    fn firing(&self) -> usize {
        if self.quick { 100_000 } else { 1_000_000 }
    }

    fn firing_rounds(&self) -> usize {
        if self.quick { 1 } else { 5 }
    }

    /// How many timers are pending while memory is measured.
    fn memory(&self) -> &'static [usize] {
        if self.quick { &[100_000] } else { &[1_000_000, 10_000_000] }
    }
}
