//! The command: the files it changes, its output and its exit code.

use crate::common::{folder, read, run};

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
fn what_a_manifest_needs_for_some_functions_is_printed_once() {
    let (a, b) = (b"use tokio::time;\nfn a() { time::pause() }\n", b"fn b() { tokio::time::resume() }\n");
    let c = b"use tokio_util::time::FutureExt;\nfn c() { f.with_cancellation_token(&t) }\n";
    let checkout = b"[package]\nname = \"hairspring\"\n";
    let folder = folder("needs", &[("a.rs", a), ("b.rs", b), ("c.rs", c), ("hairspring/Cargo.toml", checkout)]);
    for (files, lines) in [
        (
            &["a.rs", "b.rs"][..],
            "[dev-dependencies]\nhairspring = { path = \"hairspring\", features = [\"test-util\"] }\n",
        ),
        (&["c.rs"], "[dependencies]\nhairspring = { path = \"hairspring\", features = [\"tokio-util\"] }\n"),
    ] {
        let (code, printed) = run(&folder, &[&["--path", "hairspring"], files].concat());
        assert!(code == 0 && printed.ends_with(lines), "{printed}");
        assert_eq!(printed.matches("features").count(), 1, "{printed}");
    }
    let (_, printed) = run(&folder, &["a.rs"]);
    assert!(printed.contains("hairspring = { version = \"0.1.0\", features = [\"test-util\"] }"), "{printed}");
}

#[test]
fn comments_take_one_line_in_all() {
    let source: &[u8] = b"//! Like tokio::time.\n// And tokio::time::sleep.\nuse tokio::time::sleep;\n";
    let folder = folder("comments", &[("a.rs", source), ("b.rs", source)]);
    let printed = run(&folder, &["."]).1;
    let line = "4 lines have comments that name what was moved, left as it is: ./a.rs:1, ./a.rs:2, ./b.rs:1, ..\n";
    assert_eq!(printed, format!("./a.rs: 1 path\n./b.rs: 1 path\n2 of 2 files changed\n{line}"));
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
    let manifest = |name| format!("[package]\nname = \"{name}\"\n[workspace]\n");
    let (other, broken) = (manifest("other"), manifest("not a name"));
    let files = [("other/Cargo.toml", other.as_bytes()), ("broken/Cargo.toml", broken.as_bytes())];
    let folder = folder("arguments", &[files[0], files[1], ("a.rs", b"use tokio::time;\n")]);
    let options = "--check, --manifests, --path CHECKOUT, --help";
    for (arguments, part) in [
        (&["--chek", "a.rs"][..], &*format!("there is no option `--chek`; allowed: {options}")),
        (&["--check"], "name files or folders"),
        (&["a.rs", "--path"], "`--path` needs the folder of a checkout of hairspring"),
        (
            &["a.rs", "--path", "other"],
            "`other` is no checkout of hairspring; allowed is a folder whose Cargo.toml has",
        ),
        (&["a.rs", "--path=nowhere"], "`nowhere` is no checkout of hairspring"),
        (&["--manifests", "a.rs"], "`a.rs` has no Cargo.toml; with --manifests, name the folder of a workspace or"),
        (&["broken"], "broken: error: invalid character ` ` in package name"),
    ] {
        let (code, printed) = run(&folder, arguments);
        assert!(code == 2 && printed.contains(part), "{code}: {printed}");
        assert_eq!(read(&folder, "a.rs"), "use tokio::time;\n", "nothing is changed");
    }
    let (code, printed) = run(&folder, &["--help"]);
    assert!(code == 0 && printed.starts_with("Usage: hairspring-migrate [--check] [--manifests]"), "{printed}");
}

/// It writes its own version into manifests.
#[test]
fn the_version_is_that_of_hairspring() {
    let manifest = include_str!("../../../Cargo.toml");
    let version = format!("\nversion = \"{}\"\n", env!("CARGO_PKG_VERSION"));
    assert!(manifest.contains(&version), "hairspring has another version than {version}");
}
