//! What the measurements have stored, as figures.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const RIVALS: &str = "benches/rivals/results/rivals.csv";
pub(crate) const LATE: &str = "benches/rivals/results/late.csv";
pub(crate) const LATE_CHART: &str = "benches/rivals/results/late.svg";
pub(crate) const PRICE: &str = "benches/rivals/results/price.csv";
pub(crate) const CROWD: &str = "benches/rivals/results/crowd.csv";
pub(crate) const SERVER: &str = "benches/rivals/results/server.csv";
pub(crate) const SERVICE: &str = "benches/rivals/results/service.csv";
pub(crate) const WORLDS: &str = "benches/rivals/results/worlds.csv";
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

    pub(crate) fn text(&self, file: &str) -> Result<String, String> {
        fs::read_to_string(self.root.join(file)).map_err(|error| format!("{file}: {error}"))
    }

    /// The machine that the first line of a result names.
    pub(crate) fn machine(&self, file: &str) -> Result<Machine, String> {
        let text = self.text(file)?;
        Machine::parse(text.lines().next().unwrap_or_default()).map_err(|problem| format!("{file}: {problem}"))
    }

    pub(crate) fn table(&self, file: &'static str) -> Result<Table, String> {
        Table::parse(file, &self.text(file)?).map_err(|error| format!("{file}: {error}"))
    }
}

/// A result as CSV, below a comment that names the machine.
pub(crate) struct Table {
    file: &'static str,
    rows: Vec<HashMap<String, String>>,
}

impl Table {
    fn parse(file: &'static str, text: &str) -> Result<Self, csv::Error> {
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        Ok(Table { file, rows: reader.deserialize().collect::<Result<_, _>>()? })
    }

    /// The cell `wanted` of the row that has these cells, of which each is a name and a value.
    pub(crate) fn cell(&self, row: &[(&str, &str)], wanted: &str) -> Result<&str, String> {
        let is_it = |cells: &&HashMap<String, String>| {
            row.iter().all(|(name, value)| cells.get(*name).is_some_and(|cell| cell == value))
        };
        let found = self.rows.iter().find(is_it).and_then(|cells| cells.get(wanted));
        found.map(String::as_str).ok_or_else(|| format!("{}: there is no `{wanted}` of {row:?}", self.file))
    }

    pub(crate) fn number(&self, row: &[(&str, &str)], wanted: &str) -> Result<f64, String> {
        let cell = self.cell(row, wanted)?;
        cell.parse().map_err(|_| format!("{}: `{cell}` is no number", self.file))
    }
}

/// `processor, 2 cores, Linux 6.18.44, rustc 1.95.0; tokio 1.54.1, tick 0.8.0; 2026-11-22`.
pub(crate) struct Machine {
    /// Processor, cores, kernel and compiler.
    system: Vec<String>,
    versions: Vec<String>,
    /// When it was measured; empty in results that do not say.
    pub(crate) date: String,
}

impl Machine {
    fn parse(line: &str) -> Result<Self, String> {
        let line = line.trim_start_matches("# ");
        let [system, versions, date] = [0, 1, 2].map(|part| line.split("; ").nth(part).unwrap_or_default());
        // The name of a processor may have a comma in it.
        let mut system: Vec<String> = system.rsplitn(4, ", ").map(str::to_owned).collect();
        system.reverse();
        let versions = versions.split(", ").map(str::to_owned).collect();
        match system.as_slice() {
            [_, cores, kernel, compiler]
                if cores.ends_with("cores") && kernel.starts_with("Linux") && compiler.starts_with("rustc") =>
            {
                Ok(Machine { system, versions, date: date.to_owned() })
            }
            _ => Err(format!("the first line names no machine: {line}")),
        }
    }

    /// As much of it as a reader wants: `Intel Xeon, 2 cores, Linux 6.18, rustc 1.95`.
    pub(crate) fn system(&self) -> String {
        let name = self.system[0].replace("(R)", "").replace("(TM)", "");
        let name = name.split(" @").next().unwrap_or_default();
        let words = name.split_whitespace().filter(|word| !["CPU", "Processor"].contains(word));
        let two_places = |text: &str| text.splitn(3, ['.', '-']).take(2).collect::<Vec<_>>().join(".");
        let [kernel, compiler] = [2, 3].map(|place| two_places(&self.system[place]));
        format!("{}, {}, {kernel}, {compiler}", words.collect::<Vec<_>>().join(" "), self.system[1])
    }

    /// Whether it is the other machine, with the same programs.
    pub(crate) fn is_like(&self, other: &Machine) -> bool {
        self.system == other.system && self.versions == other.versions
    }

    /// The versions of some, as `tokio 1.54.1, tick 0.8.0`.
    pub(crate) fn versions(&self, names: &[&str]) -> Result<String, String> {
        let version = |name: &&str| {
            let found = self.versions.iter().find(|version| version.starts_with(&format!("{name} ")));
            found.cloned().ok_or_else(|| format!("no version of {name}"))
        };
        names.iter().map(version).collect::<Result<Vec<_>, _>>().map(|versions| versions.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_what_matters_of_a_machine() {
        for (line, system) in [
            (
                "Intel(R) Xeon(R) Processor, 2 cores, Linux 6.18.44-a, rustc 1.95.0; tokio-util 0.7.20, tokio 1.54.1",
                "Intel Xeon, 2 cores, Linux 6.18, rustc 1.95",
            ),
            (
                "# Chip, Inc. i7-9750H CPU @ 2.60GHz, 12 cores, Linux 6.1.0, rustc 1.95.0 (59807616e 2026-04-14)",
                "Chip, Inc. i7-9750H, 12 cores, Linux 6.1, rustc 1.95",
            ),
        ] {
            assert_eq!(Machine::parse(line).ok().unwrap().system(), system);
        }
        let line = "a, 2 cores, Linux 6, rustc 1; tokio-util 0.7.20, tokio 1.54.1";
        let [machine, later] = [line, &format!("{line}; 2026-11-22")].map(|line| Machine::parse(line).ok().unwrap());
        assert!(later.is_like(&machine) && later.date == "2026-11-22");
        assert_eq!(machine.versions(&["tokio"]), Ok("tokio 1.54.1".to_owned()));
        assert_eq!(machine.versions(&["tick"]), Err("no version of tick".to_owned()));
        assert!(Machine::parse("2 cores, Linux 6.18, rustc 1.95").err().unwrap().contains("no machine"));
    }

    #[test]
    fn a_cell_is_found_by_the_others_of_its_row_and_what_is_missing_is_named() {
        let table =
            Table::parse("a file", "# a machine\nwhat,who,median\narm,\"one, two\",1.5\narm,three,many\n").unwrap();
        assert_eq!(table.cell(&[("what", "arm"), ("who", "one, two")], "median"), Ok("1.5"));
        let problem = table.number(&[("who", "three")], "median").unwrap_err();
        assert_eq!(problem, "a file: `many` is no number");
        let problem = table.cell(&[("who", "nobody")], "median").unwrap_err();
        assert!(problem.contains("`median`") && problem.contains("nobody"), "{problem}");
        assert!(Table::parse("a file", "a,b\n1,2,3\n").is_err());
    }
}
