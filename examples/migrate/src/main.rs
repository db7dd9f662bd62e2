//! Rewrites the paths of programs from `tokio::time` to hairspring: see `--help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use hairspring_migrate::rewrite;

const HELP: &str = "\
Usage: hairspring-migrate [--check] PATH..

Rewrites paths and imports of tokio::time, also where actix and Rocket re-export it, of tokio_util::time and
tokio_util::future::FutureExt, and of tokio-stream's IntervalStream, in files or in all .rs files of folders (but for
those called `target`, and hidden ones). Strings, comments and formatting stay as they are: look at the diff, and run
cargo fmt. Prints what else may be a timer of tokio's. Numbers of lines are those before.

  --check   changes nothing; says what it would change
  --help    prints this

Exits with 1 if --check finds something to change, with 2 on bad arguments or if a file was left alone.
";

/// What came of all files.
#[derive(Default)]
struct Sum {
    files: usize,
    changed: usize,
    left_alone: usize,
}

fn main() -> ExitCode {
    let mut check = false;
    let mut paths = Vec::new();
    for argument in env::args_os().skip(1) {
        match argument.to_str() {
            Some("--help" | "-h") => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            Some("--check") => check = true,
            Some(option) if option.starts_with('-') => {
                eprintln!("error: there is no option `{option}`; allowed: --check, --help");
                return ExitCode::from(2);
            }
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    if paths.is_empty() {
        eprintln!("error: name files or folders, as `src`; see --help");
        return ExitCode::from(2);
    }
    let mut sum = Sum::default();
    for path in paths {
        sum.visit(&path, check);
    }
    let Sum { files, changed, left_alone } = sum;
    println!("{changed} of {files} files {}", if check { "to change" } else { "changed" });
    match (left_alone, check && changed > 0) {
        (1.., _) => ExitCode::from(2),
        (0, true) => ExitCode::FAILURE,
        (0, false) => ExitCode::SUCCESS,
    }
}

impl Sum {
    fn visit(&mut self, path: &Path, check: bool) {
        let done = if path.is_dir() { self.folder(path, check) } else { self.file(path, check) };
        if let Err(error) = done {
            eprintln!("{}: left alone: {error}", path.display());
            self.left_alone += 1;
        }
    }

    fn folder(&mut self, folder: &Path, check: bool) -> io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let is_apart = entry.file_name().to_str().is_some_and(|name| name == "target" || name.starts_with('.'));
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            // Links to folders are not followed: they may lead round in a circle.
            if !is_apart && (entry.file_type()?.is_dir() || is_source && path.is_file()) {
                self.visit(&path, check);
            }
        }
        Ok(())
    }

    fn file(&mut self, file: &Path, check: bool) -> io::Result<()> {
        self.files += 1;
        let old = fs::read_to_string(file)?;
        let new = rewrite(&old).map_err(io::Error::other)?;
        for note in &new.notes {
            println!("{}:{}: {}", file.display(), note.line, note.text);
        }
        if new.paths > 0 {
            self.changed += 1;
            println!("{}: {} {}", file.display(), new.paths, if new.paths == 1 { "path" } else { "paths" });
            if !check {
                fs::write(file, new.source)?;
            }
        }
        Ok(())
    }
}
