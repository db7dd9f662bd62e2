//! A workspace of three packages: one has the workspace's tokio, one gives it another name, and one has timers only in
//! its tests and in its build script.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{folder, read, run};

const ROOT: &str = r#"[workspace]
members = ["crates/*"]
resolver = "3"

[workspace.dependencies]
# The runtime.
tokio = { version = "1.51", features = ["full"] }
tokio-util = "0.7.17"
"#;

const SERVER: &str = r#"[package]
name = "server"
edition = "2024"

[dependencies]
tokio.workspace = true # all of it

[dev-dependencies]
tokio = { workspace = true, features = ["test-util"] }
"#;

const CLIENT: &str = r#"[package]
name = "client"
edition = "2024"

[dependencies]
tokio_crate = { package = "tokio", version = "1.51", features = ["full"] }
tokio-util = { version = "0.7.17" }
"#;

const JOBS: &str = r#"[package]
name = "jobs"
edition = "2024"

[dev-dependencies]
tokio = { version = "1.51", features = ["full", "test-util"] }

[build-dependencies]
tokio = { version = "1.51", features = ["full"] }
"#;

const SERVER_MAIN: &str = "use tokio::{runtime::Runtime, time::{self, Duration}};
#[cfg(test)]
mod tests;
fn main() {
    Runtime::new().unwrap().block_on(async { time::sleep(Duration::from_millis(1)).await });
}
";

const SERVER_TESTS: &str = "use tokio::time;
#[tokio::test]
async fn waits() {
    time::pause();
    time::sleep(time::Duration::from_secs(1)).await;
}
";

const CLIENT_LIB: &str = "use tokio_crate::{sync::oneshot, time::sleep};
use tokio_util::future::FutureExt;
use tokio_util::sync::CancellationToken;
pub async fn call(answer: oneshot::Receiver<()>, token: CancellationToken) {
    tokio_crate::select! {
        _ = answer.with_cancellation_token(&token) => {}
        () = sleep(tokio_crate::time::Duration::ZERO) => {}
    }
}
";

const JOBS_TEST: &str = "#[tokio::test(start_paused = true)]
async fn a_job() {
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
}
";

const JOBS_BUILD: &str = "fn main() {
    let _ = tokio::time::Instant::now();
}
";

/// The workspace, with paths to this repository's hairspring.
fn workspace(name: &str) -> (PathBuf, String) {
    let files = [
        ("Cargo.toml", ROOT),
        ("crates/server/Cargo.toml", SERVER),
        ("crates/server/src/main.rs", SERVER_MAIN),
        ("crates/server/src/tests.rs", SERVER_TESTS),
        ("crates/client/Cargo.toml", CLIENT),
        ("crates/client/src/lib.rs", CLIENT_LIB),
        ("crates/jobs/Cargo.toml", JOBS),
        ("crates/jobs/build.rs", JOBS_BUILD),
        ("crates/jobs/src/lib.rs", ""),
        ("crates/jobs/tests/job.rs", JOBS_TEST),
        ("fuzz/Cargo.toml", "[workspace]\n"),
        ("fuzz/a.rs", "use tokio::time;\n"),
        ("hairspring/Cargo.toml", "[package]\nname = \"hairspring\"\n"),
    ];
    let folder = folder(name, &files.map(|(name, text)| (name, text.as_bytes())));
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    (folder, checkout.to_str().unwrap().to_owned())
}

const MANIFESTS: [&str; 4] =
    ["Cargo.toml", "crates/client/Cargo.toml", "crates/jobs/Cargo.toml", "crates/server/Cargo.toml"];

#[test]
fn each_member_is_rewritten_and_what_its_manifest_needs_is_printed() {
    let (folder, _) = workspace("printed");
    let (code, printed) = run(&folder, &["--path", "hairspring", "."]);
    let expected = r#"./fuzz: left out, as it is outside of the packages named: name it, too
./hairspring: left out, as it is outside of the packages named: name it, too
./crates/client/src/lib.rs: 3 paths
./crates/jobs/build.rs: 1 path
./crates/jobs/tests/job.rs: 1 path
./crates/server/src/main.rs: 1 path
./crates/server/src/tests.rs: 1 path
5 of 6 files changed

./Cargo.toml needs:
[workspace]
exclude = ["hairspring"]

[workspace.dependencies]
hairspring = { path = "hairspring" }

./crates/client/Cargo.toml needs:
[dependencies]
hairspring = { path = "../../hairspring", features = ["tokio-util"] }

./crates/jobs/Cargo.toml needs:
[dev-dependencies]
hairspring = { path = "../../hairspring", features = ["test-util"] }

[build-dependencies]
hairspring = { path = "../../hairspring" }

./crates/server/Cargo.toml needs:
[dependencies]
hairspring.workspace = true

[dev-dependencies]
hairspring = { workspace = true, features = ["test-util"] }
"#;
    assert_eq!((code, &*printed), (0, expected));
    assert_eq!(MANIFESTS.map(|path| read(&folder, path)), [ROOT, CLIENT, JOBS, SERVER]);
}

#[test]
fn with_manifests_it_is_written_and_the_rest_of_each_manifest_stays() {
    let (folder, _) = workspace("written");
    let before = MANIFESTS.map(|path| read(&folder, path));
    let (code, printed) = run(&folder, &["--check", "--manifests", "."]);
    assert!(code == 1 && printed.contains("5 of 6 files to change"), "{printed}");
    assert_eq!(
        (MANIFESTS.map(|path| read(&folder, path)), &*read(&folder, "crates/server/src/main.rs")),
        (before, SERVER_MAIN)
    );

    let (code, printed) = run(&folder, &["--manifests", "."]);
    assert!(code == 0 && printed.contains("./crates/server/Cargo.toml now has:"), "{printed}");
    let expected = [
        ROOT.replace("# The runtime.", "hairspring = \"0.1.0\"\n# The runtime."),
        // It was not sorted.
        CLIENT.to_owned() + "hairspring = { version = \"0.1.0\", features = [\"tokio-util\"] }\n",
        JOBS.replace(
            "[dev-dependencies]\n",
            "[dev-dependencies]\nhairspring = { version = \"0.1.0\", features = [\"test-util\"] }\n",
        )
        .replace("[build-dependencies]\n", "[build-dependencies]\nhairspring = \"0.1.0\"\n"),
        SERVER.replace("tokio.w", "hairspring.workspace = true\ntokio.w").replace(
            "[dev-dependencies]\n",
            "[dev-dependencies]\nhairspring = { workspace = true, features = [\"test-util\"] }\n",
        ),
    ];
    for (path, expected) in MANIFESTS.iter().zip(expected) {
        assert_eq!(read(&folder, path), expected, "{path}");
    }
    let (code, printed) = run(&folder, &["--check", "--manifests", "."]);
    assert!(code == 0 && printed.ends_with("0 of 6 files to change\n"), "a second run has nothing to do: {printed}");
}

#[test]
fn of_one_member_only_that_is_rewritten() {
    let (folder, _) = workspace("one");
    let (code, printed) = run(&folder, &["--path", "hairspring", "crates/server"]);
    assert!(code == 0 && printed.contains("2 of 2 files changed"), "{printed}");
    assert!(printed.contains("crates/server/../../Cargo.toml needs:"), "{printed}");
    assert_eq!(read(&folder, "crates/client/src/lib.rs"), CLIENT_LIB);
}

/// Needs the registry, unless cargo has the dependencies.
#[test]
fn the_result_compiles() {
    let (folder, checkout) = workspace("compiles");
    let (code, printed) = run(&folder, &["--manifests", "--path", &checkout, "."]);
    assert_eq!(code, 0, "{printed}");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["check", "--quiet", "--workspace", "--all-targets"]).current_dir(&folder);
    let output = cargo.env("CARGO_TARGET_DIR", folder.with_file_name("built")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn of_public_items_those_of_published_libraries_are_noted() {
    let manifest = |rest| format!("[package]\nname = \"a\"\nversion = \"1.0.0\"\n{rest}\n[workspace]\n");
    let (published, private) = (manifest(""), manifest("publish = false"));
    let source: &[u8] = b"pub fn f() -> tokio::time::Sleep {}\n";
    for (name, manifest, file, is_noted) in [
        ("library", &published, "src/lib.rs", true),
        ("private", &private, "src/lib.rs", false),
        ("binary", &published, "src/main.rs", false),
    ] {
        let folder = folder(name, &[("Cargo.toml", manifest.as_bytes()), (file, source)]);
        let printed = run(&folder, &["."]).1;
        assert_eq!(printed.contains("`Sleep` in what may be public"), is_noted, "{name}: {printed}");
    }
}

#[test]
fn a_target_outside_of_its_package_is_named() {
    let manifest = b"[package]\nname = \"a\"\n[lib]\npath = \"../b/lib.rs\"\n[workspace]\n";
    let folder = folder("outside", &[("a/Cargo.toml", manifest), ("b/lib.rs", b"")]);
    let printed = run(&folder, &["a"]).1;
    assert!(printed.contains("a/../b/lib.rs: left out, as it is outside of the packages named"), "{printed}");
}
