//! Runs cargo, with a limit on how long it takes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
            Command::new("timeout")
                .args(["--kill-after=5", &seconds.to_string(), "cargo"])
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
        let status = run().map_err(|error| format!("timeout cargo: {error}"))?;
        let printed = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        Ok(Ran { printed: String::from_utf8_lossy(&printed).into_owned(), code: status.code() })
    }
}
