//! What a program gets that depends on this crate.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The packages in the lock file of a program that uses only this crate, without features: those for other systems, too.
const PACKAGES: [&str; 24] = [
    "bitflags",
    "errno",
    "forkguard",
    "futures-core",
    "hairspring",
    "hashbrown",
    "libc",
    "linux-raw-sys",
    "mio",
    "pin-project",
    "pin-project-internal",
    "pin-project-lite",
    "portable-atomic",
    "proc-macro2",
    "quote",
    "rustix",
    "slab",
    "socket2",
    "syn",
    "tokio",
    "unicode-ident",
    "wasi",
    "windows-link",
    "windows-sys",
];

/// The lock file of a program `user`, with the versions that this crate's own has.
fn lock_file_of_a_user() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let user = Path::new(env!("CARGO_TARGET_TMPDIR")).join("user");
    let manifest = user.join("Cargo.toml");
    fs::create_dir_all(user.join("src")).unwrap();
    fs::write(user.join("src/lib.rs"), "").unwrap();
    let package = "[package]\nname = \"user\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n";
    fs::write(&manifest, format!("{package}hairspring = {{ path = '{}' }}\n", root.display())).unwrap();
    fs::copy(root.join("Cargo.lock"), user.join("Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    let locked = cargo.args(["update", "--workspace", "--offline", "--manifest-path"]).arg(&manifest).output().unwrap();
    assert!(locked.status.success(), "{}", String::from_utf8_lossy(&locked.stderr));
    fs::read_to_string(user.join("Cargo.lock")).unwrap()
}

/// What only tests and models need is no dependency of users. It was once: thirty packages, for a flag that no user sets.
#[test]
fn a_user_gets_no_packages_but_these() {
    let lock_file = lock_file_of_a_user();
    let names: Vec<&str> =
        lock_file.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).collect();
    assert!(names.contains(&"hairspring") && names.contains(&"tokio"), "{lock_file}");
    let others: Vec<_> = names.iter().filter(|name| **name != "user" && !PACKAGES.contains(name)).collect();
    assert!(others.is_empty(), "{others:?} are new in the lock file of a user:\n{lock_file}");
}
