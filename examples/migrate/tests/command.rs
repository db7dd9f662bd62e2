//! The command: which files it changes, what it prints, and how it exits.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs, process};

/// A folder of files, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &[u8])]) -> Folder {
        let folder = Folder(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", process::id())));
        for (name, text) in files {
            let path = folder.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Runs the command. Returns its exit code and what it printed.
fn run(folder: &Folder, arguments: &[&str]) -> (i32, String) {
    let command =
        Command::new(env!("CARGO_BIN_EXE_hairspring-migrate")).current_dir(&folder.0).args(arguments).output();
    let Output { status, stdout, stderr } = command.unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    (status.code().unwrap(), stdout + &stderr)
}

#[test]
fn check_says_what_would_change_and_changes_nothing() {
    let folder = Folder::new("check", &[("src/a.rs", b"use tokio::time;\n"), ("src/b.rs", b"fn b() {}\n")]);
    assert_eq!(run(&folder, &["--check", "src"]), (1, "src/a.rs: 1 path\n1 of 2 files to change\n".to_owned()));
    assert_eq!(folder.read("src/a.rs"), "use tokio::time;\n");

    assert_eq!(run(&folder, &["src"]), (0, "src/a.rs: 1 path\n1 of 2 files changed\n".to_owned()));
    assert_eq!(folder.read("src/a.rs"), "use hairspring as time;\n");
    assert_eq!(run(&folder, &["--check", "src"]), (0, "0 of 2 files to change\n".to_owned()));
}

#[test]
fn only_sources_are_changed() {
    let old: &[u8] = b"use tokio::time;\n";
    let names = ["a.rs", "deep/er/b.rs", "target/c.rs", ".hidden/d.rs", "e.txt"];
    let folder = Folder::new("only", &names.map(|name| (name, old)));
    let (code, printed) = run(&folder, &["."]);
    assert_eq!((code, printed.lines().last()), (0, Some("2 of 2 files changed")));
    let changed = names.map(|name| folder.read(name).contains("hairspring"));
    assert_eq!(changed, [true, true, false, false, false]);
}

#[test]
fn what_cannot_be_read_is_left_alone_and_named() {
    let files: [(&str, &[u8]); 3] =
        [("a.rs", b"use tokio::time;\n"), ("bad.rs", b"use tokio::time;\nfn f( {\n"), ("binary.rs", b"\xff\xfe")];
    let folder = Folder::new("bad", &files);
    let (code, printed) = run(&folder, &[".", "missing.rs"]);
    assert_eq!(code, 2, "{printed}");
    for part in ["bad.rs: left alone: not Rust from line 2 on", "binary.rs: left alone: ", "missing.rs: left alone: "] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
    assert_eq!(folder.read("bad.rs"), "use tokio::time;\nfn f( {\n");
    assert_eq!(folder.read("a.rs"), "use hairspring as time;\n", "the others are changed");
}

#[test]
fn bad_arguments_are_named_with_what_is_allowed() {
    let folder = Folder::new("arguments", &[("a.rs", b"")]);
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
