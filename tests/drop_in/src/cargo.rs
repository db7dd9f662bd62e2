//! Runs cargo with a time limit.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `timeout` leaves the terminal's process group, so this passes Ctrl-C on.
const TIMEOUT: &str = r#"trap 'kill $!; exit 130' INT TERM HUP; timeout --kill-after=5 "$@" & wait $!"#;

/// How cargo is run.
pub(crate) struct Cargo {
    /// The folder of hairspring.
    pub(crate) root: PathBuf,
    /// Everything else is written below this folder.
    pub(crate) out: PathBuf,
    /// Where it builds.
    pub(crate) target: PathBuf,
    /// For the compiler.
    pub(crate) flags: &'static str,
}

/// The result of a run.
pub(crate) struct Ran {
    /// Its output, as a terminal would show it.
    pub(crate) printed: String,
    code: Option<i32>,
}

impl Ran {
    /// Whether a package in this folder was compiled, and not only found.
    fn has_compiled(&self, folder: &Path) -> bool {
        let end = format!("({})", folder.display());
        self.printed.lines().any(|line| line.trim_start().starts_with("Compiling ") && line.ends_with(&end))
    }

    pub(crate) fn was_stopped(&self) -> bool {
        matches!(self.code, Some(124 | 137))
    }

    /// # Errors
    /// The end of its output, if it failed.
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
    /// Runs a command that builds the package in a folder, all of whose files are new.
    ///
    /// All copies of a crate have the same file names in the target folder. If cargo takes one for another, this fails.
    pub(crate) fn build(&self, folder: &Path, arguments: &[&str], seconds: u32) -> Result<Ran, String> {
        let built = self.run(folder, arguments, seconds)?;
        if built.code == Some(0) && !built.has_compiled(folder) {
            return Err(format!("cargo took what it had built of another copy for {}", folder.display()));
        }
        Ok(built)
    }

    /// Runs cargo in a folder, for at most some seconds. Its child processes end with it.
    pub(crate) fn run(&self, folder: &Path, arguments: &[&str], seconds: u32) -> Result<Ran, String> {
        let log = self.out.join("log");
        let run = || {
            let file = File::create(&log)?;
            Command::new("bash")
                .args(["-c", TIMEOUT, "bash", &seconds.to_string(), "cargo"])
                .args(arguments)
                .current_dir(folder)
                .env("CARGO_TARGET_DIR", &self.target)
                .env("CARGO_INCREMENTAL", "0")
                .env("CARGO_PROFILE_DEV_DEBUG", "0")
                .env("CARGO_TERM_COLOR", "never")
                .env("RUSTFLAGS", self.flags)
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

    #[test]
    fn a_package_that_is_only_found_was_not_compiled() {
        let printed =
            "   Compiling bytes v1.10.0\n   Compiling bb8 v0.9.1 (/out/bb8/after)\n    Finished `test` profile\n";
        let ran = Ran { printed: printed.to_owned(), code: Some(0) };
        assert!(ran.has_compiled(Path::new("/out/bb8/after")));
        assert!(!ran.has_compiled(Path::new("/out/bb8")) && !ran.has_compiled(Path::new("/out/bb8/before")));
    }
}
