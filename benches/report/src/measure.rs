//! The programs that measure, and where what they find is stored.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::results;

#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) takes: &'static str,
    steps: &'static [Step],
}

/// One program, which is run at the top of the repository.
#[derive(Debug)]
struct Step {
    command: &'static str,
    /// Where what it prints is stored, if it does not store its results by itself.
    keep: Option<&'static str>,
}

pub(crate) const ALL: [Measurement; 5] = [
    Measurement {
        name: "arm",
        what: "arming and cancelling, firing and memory, beside the rivals",
        takes: "4 minutes",
        steps: &[Step { command: "benches/rivals/run", keep: None }],
    },
    Measurement {
        name: "late",
        what: "how late sleeps end, beside the rivals",
        takes: "2 minutes",
        steps: &[Step { command: "benches/rivals/run late", keep: None }],
    },
    Measurement {
        name: "schemes",
        what: "the wheel beside the schemes of the literature",
        takes: "2 minutes",
        steps: &[Step {
            command: "cargo run --release --quiet --manifest-path benches/schemes/Cargo.toml",
            keep: None,
        }],
    },
    Measurement {
        name: "soak",
        what: "a million sleeps up and down",
        takes: "10 minutes",
        steps: &[Step {
            command: "cargo run --release --quiet --example soak -- --minutes 10",
            keep: Some(results::SOAK),
        }],
    },
    Measurement {
        name: "dashboard",
        what: "the picture of the dashboard",
        takes: "seconds",
        steps: &[Step {
            command: "cargo run --release --quiet --manifest-path examples/dashboard/Cargo.toml -- \
                      --svg docs/dashboard.svg",
            keep: None,
        }],
    },
];

/// All of them, for a message.
pub(crate) fn names() -> String {
    ALL.each_ref().map(|measurement| measurement.name).join(", ")
}

/// How many programs wanted a processor in the last minute, where others than this one did.
pub(crate) fn load() -> Option<f64> {
    let all = fs::read_to_string("/proc/loadavg").ok()?;
    all.split(' ').next()?.parse().ok().filter(|load| *load > 0.5)
}

impl Measurement {
    /// Runs its programs at `root`. What one that fails has printed is not stored.
    pub(crate) fn run(&self, root: &Path, machine: &str) -> Result<(), String> {
        for step in self.steps {
            println!("\n== {}: {} ({})", self.name, step.command, self.takes);
            step.run(root, machine).map_err(|problem| format!("{}: {problem}", step.command))?;
        }
        Ok(())
    }
}

impl Step {
    fn run(&self, root: &Path, machine: &str) -> Result<(), String> {
        let mut words = self.command.split_whitespace();
        let program = words.next().ok_or("no program")?;
        // A script is named from the top of the repository, wherever this program was started.
        let program = if program.contains('/') { root.join(program) } else { program.into() };
        let mut child = Command::new(program)
            .args(words)
            .current_dir(root)
            .stdout(if self.keep.is_some() { Stdio::piped() } else { Stdio::inherit() })
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut output = String::new();
        for line in child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
            let line = line.map_err(|error| error.to_string())?;
            println!("{line}");
            output.push_str(&line);
            output.push('\n');
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("{status}"));
        }
        if let Some(keep) = self.keep {
            let text = format!("{machine}\n{}\n\n{}", self.command, output.trim_start_matches('\n'));
            fs::write(root.join(keep), text).map_err(|error| format!("{keep}: {error}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(command: &'static str) -> Step {
        Step { command, keep: Some("kept.txt") }
    }

    #[test]
    fn what_was_printed_is_stored_with_the_machine_and_the_command_but_not_where_it_failed() {
        let folder = std::env::temp_dir().join(format!("report-measure-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(step("echo one  two").run(&folder, "a machine"), Ok(()));
        let problem = step("ls no-such-file").run(&folder, "a machine").unwrap_err();
        assert!(problem.contains("exit"), "{problem}");
        let stored = fs::read_to_string(folder.join("kept.txt")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(stored, "a machine\necho one  two\n\none two\n");
    }

    #[test]
    fn the_scripts_that_are_run_exist() {
        for step in ALL.iter().flat_map(|measurement| measurement.steps) {
            for word in step.command.split_whitespace().filter(|word| word.starts_with("benches/")) {
                assert!(crate::root().join(word).exists(), "{word}");
            }
        }
    }
}
