//! hairspring and tokio beside the timers of other worlds: the JVM's, Netty's, Kafka's and Go's.
//!
//! Each figure comes from a program that is started anew, here or in `benches/worlds`; they take turns, and another one
//! begins each time.

use std::env;
use std::error::Error;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use tools::machine::{Meter, system, today};
use tools::{median, progress, table, thousands};

use crate::arm_cancel::Site;
use crate::cell::Cell;
use crate::contenders::sleep_on;
use crate::record::RuntimeKind;
use crate::rival::{Rival, Until};
use crate::rivals::{Hairspring, Tokio};
use crate::{in_words, save_from, versions};

const POPULATIONS: [usize; 3] = [0, 1_000, 1_000_000];
/// How often a program that was started arms and cancels, on one thread and on two, and for how many milliseconds.
const ROUNDS: usize = 3;
const ROUND: u64 = 40;
/// How many sleep 1 to 10 ms again and again, and for how many milliseconds.
const SLEEPERS: u32 = 50;
const FIRING: u64 = 400;

#[derive(Debug, Args)]
pub struct Options {
    /// Another world: its name, and the program that measures it with the first of its arguments, split at spaces
    #[arg(long = "world", value_name = "NAME=COMMAND")]
    worlds: Vec<String>,
    /// How often each takes its turn
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Versions of the other worlds
    #[arg(long, default_value = "no others")]
    versions: String,
}

/// Measures in a process of its own, as the programs of the other worlds do.
#[derive(Debug, Args)]
pub struct World {
    name: String,
    population: usize,
    rounds: usize,
    round: u64,
    sleepers: u32,
    firing: u64,
}

/// What programs have printed of a world in one population.
#[derive(Default)]
struct Figures {
    /// On one thread and on two: nanoseconds of the thread, and of processor time.
    armed: [[Vec<f64>; 2]; 2],
    /// Nanoseconds: lateness in the middle, at the 99th percentile, and processor time for each that fired.
    fired: [Vec<f64>; 3],
}

const COLUMNS: [&str; 9] = [
    "timers pending",
    "world",
    "1 thread, ns",
    "processor ns",
    "2 threads, ns",
    "processor ns, 2 threads",
    "late p50",
    "late p99",
    "processor ns, fired",
];

/// Measures, prints tables, and keeps them.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let machine = format!("{}; {}, {}; {}", system(), versions(), options.versions, today());
    println!("{machine}");
    let own = env::current_exe()?;
    let mut worlds = Vec::new();
    for name in [Hairspring::NAME, Tokio::NAME] {
        worlds.push((name, vec![own.to_str().ok_or("the path is no text")?, "world", name]));
    }
    for world in &options.worlds {
        let (name, command) = world.split_once('=').ok_or_else(|| format!("`{world}` is not NAME=COMMAND"))?;
        worlds.push((name, command.split(' ').collect()));
    }
    let mut lines = Vec::new();
    for population in POPULATIONS {
        let mut figures: Vec<_> = worlds.iter().map(|_| Figures::default()).collect();
        let what = format!("{} pending", thousands(population as u64));
        for turn in progress(&what, options.turns as u64).wrap_iter(0..options.turns) {
            let first = turn % worlds.len();
            for place in (first..worlds.len()).chain(0..first) {
                figures[place].add(&printed(&worlds[place].1, population)?)?;
            }
        }
        let rows: Vec<_> =
            worlds.iter().zip(&figures).map(|((name, _), figures)| figures.row(population, name)).collect();
        println!("\n{}", table(&COLUMNS[1..], &rows.iter().map(|row| row[1..].to_vec()).collect::<Vec<_>>()));
        lines.extend(rows);
    }
    save_from(&machine, if options.turns < 3 { "quick" } else { "worlds" }, &COLUMNS, &lines)
}

/// What a program prints of its world.
fn printed(command: &[&str], population: usize) -> Result<String, Box<dyn Error>> {
    let numbers = [population as u64, ROUNDS as u64, ROUND, u64::from(SLEEPERS), FIRING].map(|n| n.to_string());
    let output = Command::new(command[0]).args(&command[1..]).args(numbers).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

impl Figures {
    /// `arm THREADS NS PROCESSOR-NS` and `fire P50-NS P99-NS PROCESSOR-NS COUNT`.
    fn add(&mut self, printed: &str) -> Result<(), Box<dyn Error>> {
        for line in printed.lines() {
            let (what, numbers) = line.split_once(' ').ok_or_else(|| format!("what is `{line}`?"))?;
            let numbers: Vec<f64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
            match (what, numbers.as_slice()) {
                ("arm", &[threads, nanos, processor]) => {
                    let [own, all] = &mut self.armed[threads as usize - 1];
                    own.push(nanos);
                    all.push(processor);
                }
                ("fire", [figures @ .., _count]) => {
                    self.fired.iter_mut().zip(figures).for_each(|(all, figure)| all.push(*figure));
                }
                _ => return Err(format!("what is `{line}`?").into()),
            }
        }
        Ok(())
    }

    fn row(&self, population: usize, name: &str) -> Vec<String> {
        let middle = |figures: &Vec<f64>| format!("{:.0}", median(figures.clone()));
        let [p50, p99] = [0, 1].map(|place| in_words(Duration::from_nanos(median(self.fired[place].clone()) as u64)));
        let armed = self.armed.iter().flatten().map(middle);
        let front = [population.to_string(), name.to_owned()].into_iter().chain(armed);
        front.chain([p50, p99, middle(&self.fired[2])]).collect()
    }
}

impl World {
    pub fn run(&self) {
        if self.name == Hairspring::NAME { self.measure::<Hairspring>() } else { self.measure::<Tokio>() }
    }

    fn measure<U: Until>(&self) {
        let mut site = Site::<U>::new(RuntimeKind::Workers, self.population);
        let length = Duration::from_millis(self.round);
        for threads in 1..=2 {
            site.round(threads, true, length);
            for _ in 0..self.rounds {
                let meter = Meter::start().expect("Linux tells of a process's threads");
                let nanos = site.round(threads, true, length);
                let used = meter.used().expect("Linux tells of a process's threads");
                let operations = threads as f64 * length.as_nanos() as f64 / nanos;
                println!("arm {threads} {nanos} {}", used.as_nanos() as f64 / operations);
            }
        }
        let cell = Cell { tasks: self.sleepers, millis: self.firing, ..Cell::default() };
        let outcome = sleep_on::<U>(&site.runtime, &cell, || 0);
        let [p50, p99] = [50.0, 99.0].map(|percent| outcome.percentile(percent).as_nanos());
        println!("fire {p50} {p99} {} {}", outcome.price(), outcome.sleeps());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_print_becomes_a_row_and_what_they_must_not_print_is_named() {
        let mut figures = Figures::default();
        figures.add("arm 1 100.5 90\narm 2 210 200\nfire 1500 2000000 9000.4 77\n").unwrap();
        figures.add("arm 1 104.5 90\narm 1 110 95\n").unwrap();
        let row = figures.row(1_000, "go");
        assert_eq!(row, ["1000", "go", "104", "90", "210", "200", "1.5 µs", "2.0 ms", "9000"]);
        for line in ["late", "arm 1 2", "arm one 2 3"] {
            assert!(Figures::default().add(line).is_err(), "{line}");
        }
    }
}
