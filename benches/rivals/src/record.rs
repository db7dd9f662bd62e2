//! All figures of a run, and how they are kept as CSV.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use crate::machine;
use crate::spread::Spread;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// Multi-thread, two workers.
    Workers,
    CurrentThread,
}

impl RuntimeKind {
    pub fn most_tasks(self) -> usize {
        match self {
            RuntimeKind::Workers => 2,
            RuntimeKind::CurrentThread => 1,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            RuntimeKind::Workers => "2 workers",
            RuntimeKind::CurrentThread => "current thread",
        }
    }
}

/// What was measured, whoever did it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    pub workload: &'static str,
    pub runtime: RuntimeKind,
    pub tasks: usize,
    /// Whether an earlier timer stood; `None` where that makes no difference.
    pub standing: Option<bool>,
    /// Timers that stand, or that fire.
    pub population: usize,
}

pub struct Row {
    pub case: Case,
    pub rival: &'static str,
    pub unit: &'static str,
    pub spread: Spread,
}

#[derive(Default)]
pub struct Record {
    pub rows: Vec<Row>,
}

impl Record {
    pub fn add(&mut self, case: Case, rival: &'static str, unit: &'static str, figures: Vec<f64>) {
        self.rows.push(Row { case, rival, unit, spread: Spread::of(figures) });
    }

    pub fn get(&self, case: Case, rival: &str) -> Option<Spread> {
        self.rows.iter().find(|row| row.case == case && row.rival == rival).map(|row| row.spread)
    }

    pub fn median(&self, case: Case, rival: &str) -> Option<f64> {
        self.get(case, rival).map(|spread| spread.median)
    }

    /// Writes everything, with a line on the machine in front.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut csv = format!("# {}\n", machine::line());
        csv.push_str("workload,rival,runtime,tasks,earlier timer,population,unit,median,p25,p75,rounds\n");
        for Row { case, rival, unit, spread } in &self.rows {
            let standing = match case.standing {
                None => "",
                Some(true) => "standing",
                Some(false) => "none",
            };
            let _ = writeln!(
                csv,
                "{},\"{rival}\",{},{},{standing},{},{unit},{:.2},{:.2},{:.2},{}",
                case.workload,
                case.runtime.name(),
                case.tasks,
                case.population,
                spread.median,
                spread.p25,
                spread.p75,
                spread.rounds,
            );
        }
        fs::write(path, csv)
    }
}
