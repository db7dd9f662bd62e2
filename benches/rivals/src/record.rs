//! All figures of a run, and how they are shown and kept.

use std::error::Error;
use std::fs;
use std::path::Path;

use tools::{quantile, table};

use crate::machine_line;
use crate::rival::Rival;
use crate::rivals::{Hairspring, Tokio};

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
    /// Whether an earlier timer was pending; `None` if that makes no difference.
    pub standing: Option<bool>,
    /// Timers that are pending, or that fire.
    pub population: usize,
}

impl Case {
    /// One that is the same whether an earlier timer is pending or not.
    pub fn of(workload: &'static str, population: usize) -> Case {
        Case { workload, runtime: RuntimeKind::Workers, tasks: 1, standing: None, population }
    }
}

struct Row {
    case: Case,
    rival: &'static str,
    unit: &'static str,
    /// In order.
    figures: Vec<f64>,
}

#[derive(Default)]
pub struct Record {
    rows: Vec<Row>,
}

impl Record {
    pub fn add(&mut self, case: Case, rival: &'static str, unit: &'static str, mut figures: Vec<f64>) {
        figures.sort_by(f64::total_cmp);
        self.rows.push(Row { case, rival, unit, figures });
    }

    pub fn median(&self, case: Case, rival: &str) -> Option<f64> {
        self.row(case, rival).map(|row| quantile(&row.figures, 0.5))
    }

    fn row(&self, case: Case, rival: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.rival == rival)
    }

    /// Prints a table with a line for each rival that took part and a column for each case.
    pub fn print(&self, what: &str, names: &[String], cases: &[Case]) {
        println!("{what}; p25..p75, times hairspring");
        let head: Vec<String> = [String::new()].into_iter().chain(names.iter().cloned()).collect();
        let line = |rival: &&str| {
            let cells = cases.iter().map(|case| self.cell(*case, rival));
            [(*rival).to_owned()].into_iter().chain(cells).collect::<Vec<_>>()
        };
        println!("{}\n", table(&head, &self.rivals(cases).iter().map(line).collect::<Vec<_>>()));
    }

    /// The same with a line for each case and a column for tokio.
    pub fn print_beside_tokio(&self, what: &str, cases: &[Case]) {
        println!("{what}; p25..p75, times hairspring");
        let line = |case: &Case| {
            let unit = self.rows.iter().find(|row| row.case == *case).map_or("", |row| row.unit);
            let [ours, theirs] = [Hairspring::NAME, Tokio::NAME].map(|rival| self.cell(*case, rival));
            [case.workload.to_owned(), unit.to_owned(), ours, theirs].to_vec()
        };
        let rows: Vec<_> = cases.iter().map(line).collect();
        println!("{}\n", table(&["", "unit", Hairspring::NAME, Tokio::NAME], &rows));
    }

    fn rivals(&self, cases: &[Case]) -> Vec<&'static str> {
        let mut rivals = Vec::new();
        for row in self.rows.iter().filter(|row| cases.contains(&row.case)) {
            if !rivals.contains(&row.rival) {
                rivals.push(row.rival);
            }
        }
        rivals
    }

    fn cell(&self, case: Case, rival: &str) -> String {
        let (Some(row), Some(ours)) = (self.row(case, rival), self.median(case, Hairspring::NAME)) else {
            return "-".to_owned();
        };
        let [p25, median, p75] = [0.25, 0.5, 0.75].map(|share| quantile(&row.figures, share));
        format!("{median:.0} ({p25:.0}..{p75:.0}) {:.2}x", median / ours)
    }

    /// Writes everything as CSV, below a line on the machine.
    pub fn save(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        let mut csv = csv::Writer::from_writer(format!("# {}\n", machine_line()).into_bytes());
        let names = ["workload", "rival", "runtime", "tasks", "earlier timer", "population"];
        csv.write_record(names.into_iter().chain(["unit", "median", "p25", "p75", "rounds"]))?;
        for Row { case, rival, unit, figures } in &self.rows {
            let standing = case.standing.map_or("", |stands| if stands { "standing" } else { "none" });
            let [median, p25, p75] = [0.5, 0.25, 0.75].map(|share| format!("{:.2}", quantile(figures, share)));
            let [tasks, population, rounds] = [case.tasks, case.population, figures.len()].map(|n| n.to_string());
            let runtime = case.runtime.name();
            let cells = [case.workload, rival, runtime, &tasks, standing, &population];
            csv.write_record(cells.into_iter().chain([*unit, &median, &p25, &p75, &rounds]))?;
        }
        fs::write(path.with_extension("csv"), csv.into_inner()?)?;
        Ok(())
    }
}
