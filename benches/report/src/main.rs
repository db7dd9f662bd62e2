//! Repeats the measurements whose figures stand in the documents, and writes the figures there. See README.md.

mod block;
mod blocks;
mod documents;
mod figures;
mod fill;
// As the schemes have it.
#[path = "../../schemes/src/machine.rs"]
mod machine;
mod measure;
mod options;
mod results;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::documents::{Documents, Written};
use crate::measure::Measurement;
use crate::options::Command;
use crate::results::Results;

fn main() -> ExitCode {
    // Not `args`, which panics where an argument is not valid Unicode.
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let done = match options::parse(arguments) {
        Ok(Command::Measure(measurements)) => measure(&measurements),
        Ok(Command::Write) => write(),
        Ok(Command::Check) => check(),
        Ok(Command::Help) => {
            print!("{}", options::help());
            Ok(ExitCode::SUCCESS)
        }
        Err(problem) => Err(format!("{problem}\nSee `--help`.")),
    };
    done.unwrap_or_else(|problem| {
        eprintln!("error: {problem}");
        ExitCode::from(2)
    })
}

/// The top of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

fn measure(measurements: &[&Measurement]) -> Result<ExitCode, String> {
    // Found out now, rather than after half an hour.
    Documents::read(&root())?;
    if let Some(load) = measure::load() {
        println!(
            "the machine is NOT quiet, its load is {load} (the build of this program counts): what is \
             measured now may not be worth keeping"
        );
    }
    for measurement in measurements {
        measurement.run(&root(), &machine::describe())?;
    }
    write()
}

fn write() -> Result<ExitCode, String> {
    let written = Documents::read(&root())?.rewrite(&Results::new(&root()))?;
    for document in written.iter().filter(|document| !document.changes.is_empty()) {
        document.save(&root())?;
        let names: Vec<&str> = document.changes.iter().map(|change| change.name.as_str()).collect();
        println!("{}: {}", document.name, names.join(", "));
    }
    println!("{}, {} rewritten", counted(&written), changed(&written));
    Ok(ExitCode::SUCCESS)
}

fn check() -> Result<ExitCode, String> {
    let written = Documents::read(&root())?.rewrite(&Results::new(&root()))?;
    for document in &written {
        for change in &document.changes {
            println!("{}:{}: {change}", document.name, change.line);
        }
    }
    let changed = changed(&written);
    println!("{}, {changed} other than the stored results", counted(&written));
    if changed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    println!("`benches/report/run --write` writes what is stored");
    Ok(ExitCode::FAILURE)
}

fn counted(written: &[Written]) -> String {
    let blocks: usize = written.iter().map(|document| document.blocks).sum();
    let files = written.iter().filter(|document| document.blocks > 0).count();
    format!("{blocks} blocks in {files} files")
}

fn changed(written: &[Written]) -> usize {
    written.iter().map(|document| document.changes.len()).sum()
}
