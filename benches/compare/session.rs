//! Both sides in alternation, and the table.

use std::{env, fs, thread};

use crate::figures::{heading, row};
use crate::options::Options;

pub(crate) struct Session {
    pub(crate) options: Options,
    group: &'static str,
    /// Whether the group's name is above its rows already.
    is_titled: bool,
    /// The rows' full names, measured or not.
    names: Vec<String>,
    printed: usize,
}

impl Session {
    pub(crate) fn new(options: Options) -> Self {
        Session { options, group: "", is_titled: false, names: Vec::new(), printed: 0 }
    }

    /// Begins a group of rows.
    pub(crate) fn group(&mut self, name: &'static str) {
        (self.group, self.is_titled) = (name, false);
    }

    /// Measures some rows in alternation, and prints them. `set_up` makes both sides: a call is a turn, and returns a
    /// figure for each row.
    pub(crate) fn compare<A, B>(&mut self, rows: &[String], set_up: impl FnOnce() -> (A, B))
    where
        A: FnMut() -> Vec<f64>,
        B: FnMut() -> Vec<f64>,
    {
        let names: Vec<_> = rows.iter().map(|row| format!("{}: {row}", self.group)).collect();
        let wanted: Vec<_> = names.iter().map(|name| self.wants(name)).collect();
        self.names.extend(names);
        if !wanted.contains(&true) {
            return;
        }
        let (mut ours, mut theirs) = set_up();
        if !self.options.is_test {
            // A warm-up.
            ours();
            theirs();
        }
        let mut rounds = Vec::new();
        for round in 0..self.options.rounds {
            // Each side is the first in every other round.
            rounds.push(if round % 2 == 0 {
                let first = ours();
                (first, theirs())
            } else {
                let first = theirs();
                (ours(), first)
            });
        }
        for (place, name) in rows.iter().enumerate().filter(|(place, _)| wanted[*place]) {
            let (ours, theirs): (Vec<_>, Vec<_>) =
                rounds.iter().map(|(ours, theirs)| (ours[place], theirs[place])).unzip();
            self.print(&row(name, &ours, &theirs));
        }
    }

    /// Fails if no row has a name that is asked for.
    pub(crate) fn end(self) -> Result<(), String> {
        if self.printed > 0 {
            return Ok(());
        }
        let words = self.options.words.join("`, `");
        Err(format!("no row contains `{words}`. The rows:\n  {}", self.names.join("\n  ")))
    }

    fn wants(&self, name: &str) -> bool {
        let (name, words) = (name.to_lowercase(), &self.options.words);
        words.is_empty() || words.iter().any(|word| name.contains(word))
    }

    fn print(&mut self, row: &str) {
        self.printed += 1;
        if self.options.is_test {
            return;
        }
        if self.printed == 1 {
            let rounds = self.options.rounds;
            println!("{}", machine());
            println!(
                "Medians of {rounds} rounds, in which both sides take turns. Below a ratio of 1 hairspring takes less."
            );
            println!("\n{}", heading());
        }
        if !self.is_titled {
            println!("{}", self.group);
            self.is_titled = true;
        }
        println!("{row}");
    }
}

/// Such as `2 cores, Intel Xeon, linux x86_64, load 0.1`.
fn machine() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let mut facts = vec![format!("{cores} cores")];
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    facts.extend(processor.map(|(_, name)| name.trim().to_owned()));
    facts.push(format!("{} {}", env::consts::OS, env::consts::ARCH));
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    facts.extend(load.split_whitespace().next().map(|load| format!("load {load}")));
    facts.join(", ")
}
