//! Writes the figures that the measurements have stored into the documents, or checks them. See README.md.

mod blocks;
mod documents;
mod figures;
mod results;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser};

/// Writes the figures that the measurements have stored into the documents; `run` does the measurements.
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    what: What,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct What {
    /// Writes what is stored into the documents
    #[arg(long)]
    write: bool,
    /// Fails if a document differs from what is stored, and says where
    #[arg(long)]
    check: bool,
    /// Prints what machine this is
    #[arg(long)]
    machine: bool,
}

fn main() -> ExitCode {
    let Options { what } = Options::parse();
    if what.machine {
        println!("{}", tools::machine::system());
        return ExitCode::SUCCESS;
    }
    let done = if what.check { documents::check(&root()) } else { documents::write(&root()).map(|()| true) };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(2)
        }
    }
}

/// The top of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
