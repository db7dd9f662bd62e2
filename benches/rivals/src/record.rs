//! The figures of a run without a subcommand.

use std::error::Error;

use tools::{median, table};

use crate::session::{Sheet, quartiles, with_range};

pub const WORKERS: &str = "2 workers";
pub const CURRENT_THREAD: &str = "current thread";

const COLUMNS: &str = "workload|rival|runtime|tasks|earlier timer|population|unit|median|p25|p75|rounds";

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    pub workload: &'static str,
    pub runtime: &'static str,
    pub tasks: usize,
    /// Whether an earlier timer was pending, if that matters.
    pub earlier: &'static str,
    /// How many timers are pending, or fire.
    pub population: usize,
}

impl Case {
    pub fn of(workload: &'static str, population: usize) -> Case {
        Case { workload, runtime: WORKERS, tasks: 1, earlier: "", population }
    }
}

pub struct Record {
    sheet: Sheet,
    figures: Vec<(Case, &'static str, Vec<f64>)>,
}

impl Record {
    pub fn new() -> Self {
        Record { sheet: Sheet::new(&[], COLUMNS), figures: Vec::new() }
    }

    pub fn add(&mut self, case: Case, rival: &'static str, unit: &str, figures: Vec<f64>) {
        let Case { workload, runtime, tasks, earlier, population } = case;
        let [median, p25, p75] = quartiles(figures.clone()).map(|figure| format!("{figure:.2}"));
        let [tasks, population, rounds] = [tasks, population, figures.len()].map(|number| number.to_string());
        let row = [workload, rival, runtime, &tasks, earlier, &population, unit, &median, &p25, &p75, &rounds];
        self.sheet.push(row.map(str::to_owned).to_vec());
        self.figures.push((case, rival, figures));
    }

    fn figures(&self, case: Case, rival: &str) -> Option<Vec<f64>> {
        self.figures.iter().find(|row| row.0 == case && row.1 == rival).map(|row| row.2.clone())
    }

    pub fn median(&self, case: Case, rival: &str) -> Option<f64> {
        self.figures(case, rival).map(median)
    }

    /// Prints a line per rival and a column per case, with ratios to the first rival.
    pub fn print(&self, title: &str, columns: &[&str], cases: &[Case]) {
        let mut rivals: Vec<&str> = Vec::new();
        for (_, rival, _) in self.figures.iter().filter(|row| cases.contains(&row.0)) {
            if !rivals.contains(rival) {
                rivals.push(rival);
            }
        }
        let cell = |case: Case, rival: &str| {
            let Some(figures) = self.figures(case, rival) else { return "-".to_owned() };
            let times = self.median(case, rivals[0]).map_or(f64::NAN, |base| median(figures.clone()) / base);
            format!("{} {times:.2}x", with_range(quartiles(figures), 0))
        };
        let line = |rival: &&str| {
            let cells = cases.iter().map(|case| cell(*case, rival));
            [(*rival).to_owned()].into_iter().chain(cells).collect::<Vec<_>>()
        };
        let rows: Vec<_> = rivals.iter().map(line).collect();
        println!("\n{title}; quartiles, ratio to the first line\n{}", table(&[&[""], columns].concat(), &rows));
    }

    pub fn save(&self, name: &str) -> Result<(), Box<dyn Error>> {
        self.sheet.save(name)
    }
}
