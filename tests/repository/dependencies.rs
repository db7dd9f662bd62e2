//! The packages that a program depends on through this crate.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The packages in the lock file of a program that depends only on this crate, without features, for all systems.
const PACKAGES: &str = "bitflags errno forkguard futures-core hairspring hashbrown libc linux-raw-sys mio pin-project \
    pin-project-internal pin-project-lite portable-atomic proc-macro2 quote rustix slab socket2 syn tokio unicode-ident \
    wasi windows-link windows-sys";

/// The lock file of a program `user`, with the versions of this crate's lock file.
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

/// A bug that this crate had: a user's lock file got thirty packages that only the models need.
#[test]
fn users_get_no_other_packages() {
    let lock_file = lock_file_of_a_user();
    let names: Vec<&str> =
        lock_file.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).collect();
    assert!(names.contains(&"hairspring") && names.contains(&"tokio"), "{lock_file}");
    let is_listed = |name: &&&str| **name == "user" || PACKAGES.split(' ').any(|listed| listed == **name);
    let others: Vec<_> = names.iter().filter(|name| !is_listed(name)).collect();
    assert!(others.is_empty(), "{others:?} are new in the lock file of a user:\n{lock_file}");
}
