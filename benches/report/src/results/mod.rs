//! What the measurements have stored, as figures.

mod csv;
mod late;
mod machine;
mod rivals;
mod soak;
mod stored;

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use late::{Late, Row};
pub(crate) use machine::Machine;
pub(crate) use rivals::{Place, Rivals};
pub(crate) use soak::Soak;

pub(crate) const RIVALS: &str = "benches/rivals/results/rivals.csv";
pub(crate) const LATE: &str = "benches/rivals/results/late.txt";
const LATE_CHART: &str = "benches/rivals/results/late.svg";
pub(crate) const SCHEMES: &str = "benches/schemes/results/report.txt";
pub(crate) const SOAK: &str = "docs/soak.txt";

/// The stored results, each of which is read when it is asked for.
pub(crate) struct Results {
    root: PathBuf,
}

impl Results {
    pub(crate) fn new(root: &Path) -> Self {
        Results { root: root.to_path_buf() }
    }

    pub(crate) fn rivals(&self) -> Result<Rivals, String> {
        self.read(RIVALS, Rivals::parse)
    }

    pub(crate) fn late(&self) -> Result<Late, String> {
        self.read(LATE, Late::parse)
    }

    pub(crate) fn late_chart(&self) -> Result<String, String> {
        self.read(LATE_CHART, |chart| Ok(chart.to_owned()))
    }

    pub(crate) fn soak(&self) -> Result<Soak, String> {
        self.read(SOAK, Soak::parse)
    }

    /// The machine that the first line of a result names.
    pub(crate) fn machine(&self, file: &str) -> Result<Machine, String> {
        self.read(file, |text| Machine::parse(text.lines().next().unwrap_or_default()))
    }

    fn read<T>(&self, file: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
        let text = fs::read_to_string(self.root.join(file)).map_err(|error| format!("{file}: {error}"))?;
        parse(&text).map_err(|problem| format!("{file}: {problem}"))
    }
}

fn number(cell: &str) -> Result<f64, String> {
    cell.parse().map_err(|_| format!("`{cell}` is no number"))
}
