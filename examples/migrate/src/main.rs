//! Rewrites the paths of programs from `tokio::time` to hairspring: see `--help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use hairspring_migrate::{Rewritten, rewrite};

const HELP: &str = "\
Usage: hairspring-migrate [--check] PATH..

Rewrites paths and imports of tokio::time (also as re-exported by actix, Rocket and n0-future), tokio_util::time,
tokio_util::future::FutureExt and tokio-stream's IntervalStream. PATH is a file, or a folder with .rs files; folders
called `target`, hidden ones and those that do not exist are skipped. Strings, comments and formatting stay as they
are. Prints what may be another timer of tokio's, with line numbers of the old file. Look at the diff afterwards, and
run cargo fmt.

  --check   change nothing; print what would change
  --help    print this help

Exits with 1 if --check finds something to change, with 2 on bad arguments or if it left a file alone.
";

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
    let is_there = |path: &PathBuf| path.extension().is_some() || path.try_exists().unwrap_or(true);
    let (paths, missing): (Vec<_>, Vec<_>) = paths.into_iter().partition(is_there);
    for path in missing {
        eprintln!("{}: skipped: there is no such folder", path.display());
    }
    if paths.is_empty() {
        eprintln!("error: name files or folders that exist, such as `src`; see --help");
        return ExitCode::from(2);
    }
    let (mut files, mut changed, mut left_alone, mut needs_test_util) = (Vec::new(), 0, 0, false);
    let mut leave_alone = |path: &Path, error: io::Error| {
        eprintln!("{}: left alone: {error}", path.display());
        left_alone += 1;
    };
    for path in &paths {
        find_sources(path, &mut files).unwrap_or_else(|error| leave_alone(path, error));
    }
    for file in &files {
        match rewrite_file(file, check) {
            Ok(new) => {
                changed += u32::from(new.paths > 0);
                needs_test_util |= new.needs_test_util;
            }
            Err(error) => leave_alone(file, error),
        }
    }
    println!("{changed} of {} files {}", files.len(), if check { "to change" } else { "changed" });
    if needs_test_util {
        println!("`pause`, `resume` and `advance` need these lines in Cargo.toml:\n[dev-dependencies]");
        println!(r#"hairspring = {{ path = "../hairspring", features = ["test-util"] }}"#);
    }
    ExitCode::from(if left_alone > 0 { 2 } else { u8::from(check && changed > 0) })
}

fn find_sources(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_skipped = entry.file_name().to_str().is_some_and(|name| name == "target" || name.starts_with('.'));
        let is_source = path.extension().is_some_and(|extension| extension == "rs") && path.is_file();
        // Does not follow links to folders, because they may form a cycle.
        if !is_skipped && (is_source || entry.file_type()?.is_dir()) {
            find_sources(&path, files)?;
        }
    }
    Ok(())
}

/// Rewrites a file, or only checks it.
fn rewrite_file(file: &Path, check: bool) -> io::Result<Rewritten> {
    let new = rewrite(&fs::read_to_string(file)?).map_err(io::Error::other)?;
    for (line, note) in &new.notes {
        println!("{}:{line}: {note}", file.display());
    }
    if new.paths > 0 {
        println!("{}: {} {}", file.display(), new.paths, if new.paths == 1 { "path" } else { "paths" });
    }
    if new.paths > 0 && !check {
        fs::write(file, &new.source)?;
    }
    Ok(new)
}
