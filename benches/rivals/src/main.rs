//! hairspring beside the other timers of its kind, in one run. See README.md.

mod arm_cancel;
mod chart;
mod firing;
mod gate;
mod late;
mod machine;
mod memory;
mod now;
mod record;
mod rival;
mod rivals;
mod spread;
mod tasks;
mod terminal;
mod verdict;

use std::env;
use std::path::Path;
use std::process::{self, ExitCode};
use std::time::{Duration, Instant};

use record::Record;
use rival::Rival;
use rivals::Hairspring;

const USAGE: &str = "\
usage: run [--quick] [--only NAME]...
       run late [--seconds N]
       run now
  --quick       a smoke run of some seconds; its figures are worth little
  --only NAME   arming and cancelling only, by hairspring and by the rivals whose name has NAME in it
  late          how late sleeps end, beside tokio and async-io, and nothing else
  now           what reading the time costs, beside std and tokio, and nothing else
  --seconds N   how many turns of a second each of them has in each scenario, 1 to 60 (default 5)";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some((memory::CHILD, rest)) => memory::child(rest),
        Some((late::COMMAND, rest)) => return late::run(rest),
        Some((now::COMMAND, [])) => {
            now::run();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let options = Options::parse(arguments);
    let begun = Instant::now();
    println!("{}\n", machine::line());
    if !cfg!(tokio_unstable) {
        println!("built without `--cfg tokio_unstable`: tokio's alternative timer is left out; `run` sets it\n");
    }
    let mut record = Record::default();
    arm_cancel::run(&options, &mut record);
    if options.only.is_empty() {
        firing::run(&options, &mut record);
        tasks::run(&options, &mut record);
        memory::run(&options, &mut record);
    }
    verdict::print(&options, &record);
    // Only a whole run is worth keeping.
    let name = if options.quick || !options.only.is_empty() { "quick" } else { "rivals" };
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    record.save(&results.join(name).with_extension("csv")).expect("results can be written");
    chart::save(&record, &results.join(name).with_extension("svg")).expect("results can be written");
    println!("\nresults/{name}.csv and .svg written, after {:.0} s", begun.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

fn usage() -> ! {
    eprintln!("{USAGE}");
    process::exit(2);
}

/// How much is measured.
pub struct Options {
    quick: bool,
    /// Parts of names; empty for all.
    only: Vec<String>,
}

impl Options {
    fn parse(arguments: Vec<String>) -> Options {
        let mut options = Options { quick: false, only: Vec::new() };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match (argument.as_str(), &mut arguments) {
                ("--quick", _) => options.quick = true,
                ("--only", rest) => options.only.extend(rest.next()),
                _ => usage(),
            }
        }
        options
    }

    /// hairspring always takes part: all is told as a ratio to it.
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
