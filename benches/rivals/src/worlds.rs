//! Compares hairspring and tokio with the timers of other languages. Each figure comes from a new process, of this
//! program or of one in `benches/worlds`.

use std::env;
use std::error::Error;
use std::mem;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use tools::machine::Meter;
use tools::{median, thousands};

use crate::arm_cancel::Site;
use crate::cell::Cell;
use crate::contenders::sleep_on;
use crate::rival::{Rival, Until};
use crate::rivals::{Hairspring, Tokio};
use crate::session::{Scope, Sheet, in_words, take_turns};

const POPULATIONS: [usize; 3] = [0, 1_000, 1_000_000];
/// How many rounds a process arms and cancels on one thread and on two, and their length in milliseconds.
const ROUNDS: usize = 3;
const ROUND: u64 = 40;
/// How many tasks sleep 1 to 10 ms in a loop, and for how many milliseconds.
const SLEEPERS: u32 = 50;
const FIRING: u64 = 400;

#[derive(Debug, Args)]
pub struct Options {
    /// Another world: its name, and a command that measures it, split at spaces; may be repeated
    #[arg(long = "world", value_name = "NAME=COMMAND")]
    worlds: Vec<String>,
    /// The versions of the other worlds
    #[arg(long, value_name = "VERSIONS")]
    versions: Vec<String>,
    #[command(flatten)]
    scope: Scope,
}

/// Runs in the child process, as the programs of the other worlds do.
#[derive(Debug, Args)]
pub struct World {
    name: String,
    population: usize,
    rounds: usize,
    round: u64,
    sleepers: u32,
    firing: u64,
}

/// The figures of one world and population: nanoseconds and CPU time per operation with one thread and with two; then
/// the median lateness, its 99th percentile, and the CPU time per timer fired.
type Figures = [Vec<f64>; 7];

const COLUMNS: &str = "timers pending|world|1 thread, ns|processor ns|2 threads, ns|processor ns, 2 threads|late p50|late p99|\
    processor ns, fired";

pub fn run(Options { scope, worlds: others, versions }: &Options) -> Result<(), Box<dyn Error>> {
    let own = env::current_exe()?;
    let own = own.to_str().ok_or("the program's path is not text")?;
    let mut worlds: Vec<_> = [Hairspring::NAME, Tokio::NAME].map(|name| (name, vec![own, "world", name])).into();
    for world in others {
        let (name, command) = world.split_once('=').ok_or_else(|| format!("`{world}` is not NAME=COMMAND"))?;
        worlds.push((name, command.split(' ').collect()));
    }
    let worlds = scope.choose(worlds, |world| world.0)?;
    let mut sheet = Sheet::new(versions, COLUMNS);
    for population in POPULATIONS {
        let title = format!("{} pending", thousands(population as u64));
        let turns = take_turns(&title, scope.rounds(3), worlds.len(), |place, _| printed(&worlds[place].1, population));
        let mut rows = Vec::new();
        for ((name, _), turns) in worlds.iter().zip(turns) {
            let mut figures = Figures::default();
            turns.into_iter().try_for_each(|printed| add(&mut figures, &printed?))?;
            rows.push(row(name, figures));
        }
        sheet.add(&title, &[&population.to_string()], rows);
    }
    sheet.save(scope.file("worlds"))
}

/// The output of a world's program.
fn printed(command: &[&str], population: usize) -> Result<String, Box<dyn Error>> {
    let numbers = [population as u64, ROUNDS as u64, ROUND, u64::from(SLEEPERS), FIRING].map(|n| n.to_string());
    let output = Command::new(command[0]).args(&command[1..]).args(numbers).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Parses `arm THREADS NS CPU-NS` and `fire P50-NS P99-NS CPU-NS COUNT`.
fn add(figures: &mut Figures, printed: &str) -> Result<(), Box<dyn Error>> {
    for line in printed.lines() {
        let unknown = || format!("a world printed `{line}`");
        let (what, numbers) = line.split_once(' ').ok_or_else(unknown)?;
        let numbers: Vec<f64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let (place, numbers) = match (what, numbers.as_slice()) {
            ("arm", [threads, numbers @ ..]) if numbers.len() == 2 => (2 * (*threads as usize - 1), numbers),
            ("fire", [numbers @ .., _count]) if numbers.len() == 3 => (4, numbers),
            _ => return Err(unknown().into()),
        };
        figures[place..].iter_mut().zip(numbers).for_each(|(all, number)| all.push(*number));
    }
    Ok(())
}

fn row(name: &str, figures: Figures) -> Vec<String> {
    let mut figures = figures.map(median).map(|figure| (format!("{figure:.0}"), in_words(figure)));
    // Lateness has a unit.
    figures[4..6].iter_mut().for_each(|(number, words)| mem::swap(number, words));
    [name.to_owned()].into_iter().chain(figures.map(|(shown, _)| shown)).collect()
}

impl World {
    pub fn run(&self) {
        if self.name == Hairspring::NAME { self.measure::<Hairspring>() } else { self.measure::<Tokio>() }
    }

    fn measure<U: Until>(&self) {
        let mut site = Site::<U>::new(2, self.population);
        let length = Duration::from_millis(self.round);
        for threads in 1..=2 {
            site.round(threads, true, length);
            for _ in 0..self.rounds {
                let meter = Meter::start();
                let nanos = site.round(threads, true, length);
                let used = meter.used();
                let operations = threads as f64 * length.as_nanos() as f64 / nanos;
                println!("arm {threads} {nanos} {}", used.as_nanos() as f64 / operations);
            }
        }
        let cell = Cell { tasks: self.sleepers, millis: self.firing, ..Cell::default() };
        let outcome = sleep_on::<U>(&site.runtime, &cell, || 0);
        let [p50, p99] = [50.0, 99.0].map(|percent| outcome.percentile(percent));
        println!("fire {p50} {p99} {} {}", outcome.price(), outcome.sleeps());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_becomes_a_row_and_unknown_output_is_refused() {
        let mut figures = Figures::default();
        add(&mut figures, "arm 1 100.5 90\narm 2 210 200\nfire 1500 2000000 9000.4 77\n").unwrap();
        add(&mut figures, "arm 1 104.5 90\narm 1 110 95\n").unwrap();
        assert_eq!(row("go", figures), ["go", "104", "90", "210", "200", "1.5 µs", "2.0 ms", "9000"]);
        for line in ["late", "arm 1 2", "arm one 2 3"] {
            assert!(add(&mut Figures::default(), line).is_err(), "{line}");
        }
    }
}
