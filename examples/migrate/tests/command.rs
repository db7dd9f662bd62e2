//! The command: the files it changes, its output and its exit code.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Creates a folder with these files.
fn folder(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Runs the command. Returns its exit code and what it printed.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hairspring-migrate"));
    let output = command.current_dir(folder).args(arguments).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn check_prints_what_would_change_and_changes_nothing() {
    let folder = folder("check", &[("src/a.rs", b"use tokio::time;\n"), ("src/b.rs", b"fn b() {}\n")]);
    assert_eq!(run(&folder, &["--check", "src"]), (1, "src/a.rs: 1 path\n1 of 2 files to change\n".to_owned()));
    assert_eq!(read(&folder, "src/a.rs"), "use tokio::time;\n");

    assert_eq!(run(&folder, &["src"]), (0, "src/a.rs: 1 path\n1 of 2 files changed\n".to_owned()));
    assert_eq!(read(&folder, "src/a.rs"), "use hairspring as time;\n");
    assert_eq!(run(&folder, &["--check", "src"]), (0, "0 of 2 files to change\n".to_owned()));
}

#[test]
fn only_sources_are_changed() {
    let old: &[u8] = b"use tokio::time;\nfn pause() { clock.advance(d); player::resume() }\n";
    let names = ["a.rs", "deep/er/b.rs", "target/c.rs", ".hidden/d.rs", "e.txt"];
    let folder = folder("only", &names.map(|name| (name, old)));
    let (code, printed) = run(&folder, &["."]);
    assert_eq!((code, printed.lines().last()), (0, Some("2 of 2 files changed")));
    let changed = names.map(|name| read(&folder, name).contains("hairspring"));
    assert_eq!(changed, [true, true, false, false, false]);
}

#[test]
fn what_the_manifest_needs_is_printed_once() {
    let (a, b) = (b"use tokio::time;\nfn a() { time::pause() }\n", b"fn b() { tokio::time::resume() }\n");
    let folder = folder("manifest", &[("a.rs", a), ("b.rs", b)]);
    let lines = "[dev-dependencies]\nhairspring = { path = \"../hairspring\", features = [\"test-util\"] }\n";
    let (code, printed) = run(&folder, &["."]);
    assert!(code == 0 && printed.ends_with(lines) && printed.matches("test-util").count() == 1, "{printed}");
}

#[test]
fn a_folder_that_does_not_exist_is_skipped() {
    let folder = folder("skipped", &[("src/a.rs", b"")]);
    let (code, printed) = run(&folder, &["src", "tests"]);
    assert!(code == 0 && printed.contains("tests: skipped: there is no such folder"), "{printed}");
    let (code, printed) = run(&folder, &["tests"]);
    assert!(code == 2 && printed.contains("error: name files or folders that exist"), "{printed}");
}

#[test]
fn an_unreadable_file_is_left_alone_and_named() {
    let files: [(&str, &[u8]); 3] =
        [("a.rs", b"use tokio::time;\n"), ("bad.rs", b"use tokio::time;\nfn f( {\n"), ("binary.rs", b"\xff\xfe")];
    let folder = folder("bad", &files);
    let (code, printed) = run(&folder, &[".", "missing.rs"]);
    assert_eq!(code, 2, "{printed}");
    for part in ["bad.rs: left alone: not Rust from line 2 on", "binary.rs: left alone: ", "missing.rs: left alone: "] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
    assert_eq!(read(&folder, "bad.rs"), "use tokio::time;\nfn f( {\n");
    assert_eq!(read(&folder, "a.rs"), "use hairspring as time;\n", "the others are changed");
}

#[test]
fn bad_arguments_are_named_with_what_is_allowed() {
    let folder = folder("arguments", &[("a.rs", b"")]);
    for (arguments, part) in [
        (&["--chek", "a.rs"][..], "there is no option `--chek`; allowed: --check, --help"),
        (&["--check"], "name files or folders"),
    ] {
        let (code, printed) = run(&folder, arguments);
        assert!(code == 2 && printed.contains(part), "{code}: {printed}");
    }
    let (code, printed) = run(&folder, &["--help"]);
    assert!(code == 0 && printed.starts_with("Usage: hairspring-migrate [--check] PATH.."), "{printed}");
}
