//! Runs cargo, with a limit on how long it takes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `timeout` leaves the process group of the terminal. This ends it on what the terminal sends, such as Ctrl-C.
const TIMEOUT: &str = r#"trap 'kill $!; exit 130' INT TERM HUP; timeout --kill-after=5 "$@" & wait $!"#;

/// How cargo is run.
pub(crate) struct Cargo {
    /// The folder of hairspring.
    pub(crate) root: PathBuf,
    /// All that is written is below this.
    pub(crate) out: PathBuf,
}

/// What a run came to.
pub(crate) struct Ran {
    /// What it printed, as it would be seen in a terminal.
    pub(crate) printed: String,
    code: Option<i32>,
}

impl Ran {
    pub(crate) fn was_stopped(&self) -> bool {
        matches!(self.code, Some(124 | 137))
    }

    /// # Errors
    /// The end of what it printed, if it failed.
    pub(crate) fn succeeded(&self) -> Result<(), String> {
        if self.code == Some(0) {
            return Ok(());
        }
        let lines: Vec<&str> = self.printed.lines().collect();
        let end = lines[lines.len().saturating_sub(40)..].join("\n");
        Err(format!("{end}\ncargo {}", if self.was_stopped() { "took too long" } else { "failed" }))
    }
}

impl Cargo {
    /// Runs cargo in a folder for some seconds at most. All that it has started ends with it.
    pub(crate) fn run(&self, folder: &Path, arguments: &[&str], seconds: u32) -> Result<Ran, String> {
        let log = self.out.join("log");
        let run = || {
            let file = File::create(&log)?;
            Command::new("bash")
                .args(["-c", TIMEOUT, "bash", &seconds.to_string(), "cargo"])
                .args(arguments)
                .current_dir(folder)
                .env("CARGO_TARGET_DIR", self.out.join("build"))
                .env("CARGO_INCREMENTAL", "0")
                .env("CARGO_PROFILE_DEV_DEBUG", "0")
                .env("CARGO_TERM_COLOR", "never")
                // A newer compiler may warn of what their authors had denied.
                .env("RUSTFLAGS", "--cap-lints=allow")
                .env_remove("RUST_BACKTRACE")
                .stdin(Stdio::null())
                .stdout(file.try_clone()?)
                .stderr(file)
                .status()
        };
        let status = run().map_err(|error| format!("bash: {error}"))?;
        let printed = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        Ok(Ran { printed: String::from_utf8_lossy(&printed).into_owned(), code: status.code() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::process::CommandExt;

    #[test]
    fn what_is_running_ends_with_its_process_group() {
        let mut bash = Command::new("bash")
            .args(["-c", TIMEOUT, "bash", "60", "bash", "-c", "echo begun; sleep 20; echo slept"])
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(bash.stdout.take().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
        Command::new("kill").args(["--", &format!("-{}", bash.id())]).status().unwrap();
        // The pipe ends with the last that could write to it.
        assert_eq!(printed.read_to_string(&mut line).unwrap(), 0);
        assert_eq!(bash.wait().unwrap().code(), Some(130));
    }
}
