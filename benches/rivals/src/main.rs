//! hairspring and other Rust timers under the same workloads. See README.md.

mod arm_cancel;
mod cell;
mod contender;
mod contenders;
mod crowd;
mod firing;
mod floor;
mod late;
mod memory;
mod outcome;
mod population;
mod price;
mod reads;
mod record;
mod rival;
mod rivals;
mod row;
mod server;
mod service;
mod session;
mod verdict;
mod worlds;

use std::error::Error;
use std::time::Duration;

use clap::{Parser, Subcommand};

use record::Record;
use session::Scope;

/// Compares hairspring with other Rust timers: arm and cancel, firing, memory.
#[derive(Debug, Parser)]
#[command(name = "benches/rivals/run", args_conflicts_with_subcommands = true)]
struct Options {
    /// A smoke test of a few seconds; its figures mean little
    #[arg(long)]
    quick: bool,
    /// Only arm and cancel, with hairspring and the rivals whose names contain this; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures how late sleeps end
    Late(Scope),
    /// Measures the CPU time of a timer that fires, on workers and on current-thread runtimes
    Price(price::Options),
    /// Measures a million sleeps due at random, and how they affect other tasks
    Crowd(Scope),
    /// Measures the cost of timeouts in a service: actors, TCP echo, HTTP server, connection pool
    Service(Scope),
    /// Counts reads that a limit cuts although their data came before it
    Reads(Scope),
    /// Measures a server whose handler sleeps 10 ms
    Server(Scope),
    /// Compares with timers of other languages; called by `benches/worlds/run`
    Worlds(worlds::Options),
    #[command(hide = true)]
    Peer(reads::Peer),
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
    match options.command.take() {
        None => return all(&options),
        Some(Command::Late(scope)) => return late::run(&scope),
        Some(Command::Price(options)) => return price::run(&options),
        Some(Command::Crowd(scope)) => return crowd::run(&scope),
        Some(Command::Service(scope)) => return service::run(&scope),
        Some(Command::Reads(scope)) => return reads::run(&scope),
        Some(Command::Server(scope)) => return server::run(&scope),
        Some(Command::Worlds(options)) => return worlds::run(&options),
        Some(Command::Serving(serving)) => serving.run(),
        Some(Command::Peer(peer)) => peer.run(),
        Some(Command::Memory(child)) => child.run(),
        Some(Command::Cell(cell)) => outcome::report(&contenders::run(&cell).numbers()),
        Some(Command::CrowdChild(child)) => child.run(),
        Some(Command::World(world)) => world.run(),
    }
    Ok(())
}

fn all(options: &Options) -> Result<(), Box<dyn Error>> {
    let mut record = Record::new();
    if !cfg!(tokio_unstable) {
        println!("left out: tokio's alternative timer, which needs `--cfg tokio_unstable`");
    }
    arm_cancel::run(options, &mut record);
    if options.only.is_empty() {
        firing::run(options, &mut record);
        memory::run(options, &mut record);
    }
    verdict::print(options, &record);
    record.save(if options.quick || !options.only.is_empty() { "quick" } else { "rivals" })
}

/// How much is measured.
impl Options {
    fn populations(&self) -> &'static [usize] {
        if self.quick { &[0, 10_000] } else { &[0, 10_000, 1_000_000] }
    }

    fn rounds(&self) -> u32 {
        if self.quick { 3 } else { 15 }
    }

    fn round_length(&self) -> Duration {
        Duration::from_millis(if self.quick { 5 } else { 40 })
    }

    /// How many timers fire.
    fn firing(&self) -> usize {
        if self.quick { 100_000 } else { 1_000_000 }
    }

    fn firing_rounds(&self) -> u32 {
        if self.quick { 1 } else { 5 }
    }

    /// How many timers are pending while memory is measured.
    fn memory(&self) -> &'static [usize] {
        if self.quick { &[100_000] } else { &[1_000, 1_000_000, 10_000_000] }
    }
}
