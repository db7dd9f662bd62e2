//! A million sleeps up and down: `docs/soak.txt`.

use super::machine::Machine;
use super::stored::Stored;

pub(crate) struct Soak {
    pub(crate) machine: Machine,
    /// The last part of what was printed.
    pub(crate) report: String,
    /// What was resident after each wave, in MiB; nothing where the system did not tell.
    memory: Vec<u32>,
}

/// What a line at the end of a wave says, of the ways to end it.
const ENDS: [&str; 3] = ["cancelled", "all fired", "dropped"];

impl Soak {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Stored { machine, output } = Stored::parse(text)?;
        let (lines, report) = output.trim_end().rsplit_once("\n\n").ok_or("there is no report")?;
        if !report.contains(" stops; ") {
            return Err("the last part is no report of the soak's".to_owned());
        }
        let memory = lines.lines().filter_map(memory_after_wave).collect();
        Ok(Soak { machine, report: report.to_owned(), memory })
    }

    /// At how many points the counts were compared.
    pub(crate) fn stops(&self) -> Result<&str, String> {
        let (before, _) = self.report.split_once(" stops; ").ok_or("the report names no stops")?;
        before.rsplit(' ').next().ok_or_else(|| "the report names no stops".to_owned())
    }

    /// The least and the most that was resident after a wave, from the wave `first` on, in MiB.
    pub(crate) fn memory_from(&self, first: usize) -> Result<(u32, u32), String> {
        let after = self.memory.iter().skip(first - 1);
        match (after.clone().min(), after.max()) {
            (Some(least), Some(most)) => Ok((*least, *most)),
            _ => Err(format!("no memory is told after {first} waves")),
        }
    }
}

/// Reads `149.8s wave 12  cancelled  21654992 registered, ...; late p50 205µs, p99 48.2ms, max 127.7ms; 167 MiB`.
fn memory_after_wave(line: &str) -> Option<u32> {
    let (_, after) = line.split_once(" wave ")?;
    let (_wave, what) = after.trim_start().split_once(' ')?;
    if !ENDS.iter().any(|end| what.trim_start().starts_with(end)) {
        return None;
    }
    line.strip_suffix(" MiB")?.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
A chip, 2 cores, Linux 6.18, rustc 1.95.0
cargo run --release --example soak

   5.0s wave 0   churn      9 registered, 1 fired, 2 cancelled, 6 pending; late p50 1µs, p99 2.0µs, max 3.0µs; 80 MiB
   9.0s wave 0   all fired  9 registered, 7 fired, 2 cancelled, 0 pending; late p50 1µs, p99 2.0µs, max 3.0µs; 70 MiB
  14.0s wave 1   churn      9 registered, 7 fired, 2 cancelled, 0 pending; late p50 1µs, p99 2.0µs, max 3.0µs; 99 MiB
  14.1s wave 1   dropped    9 registered, 7 fired, 2 cancelled, 0 pending; late p50 1µs, p99 2.0µs, max 3.0µs; 60 MiB
  19.9s wave 2   cancelled  9 registered, 7 fired, 2 cancelled, 0 pending; late p50 1µs, p99 2.0µs, max 3.0µs; 65 MiB

3 waves in 20s, 9 stops; waves of up to 1000 sleeps for 20s, none to be 1s late; seed 1
good: all counts agreed, none was early, none was later than the bound
";

    #[test]
    fn the_report_and_what_the_lines_before_it_say() {
        let soak = Soak::parse(TEXT).unwrap();
        assert!(soak.report.starts_with("3 waves in 20s") && soak.report.ends_with("the bound"), "{}", soak.report);
        assert_eq!(soak.stops(), Ok("9"));
        assert_eq!([1, 2, 3].map(|first| soak.memory_from(first).unwrap()), [(60, 70), (60, 65), (65, 65)]);
        assert_eq!(soak.memory_from(4).unwrap_err(), "no memory is told after 4 waves");
    }

    #[test]
    fn a_run_that_was_cut_off_is_refused() {
        let cut = TEXT.split("\n3 waves").next().unwrap();
        assert_eq!(Soak::parse(cut).err().unwrap(), "there is no report");
        assert!(Soak::parse(&format!("{cut}\nsomething else\n")).err().unwrap().contains("no report of the soak's"));
    }
}
