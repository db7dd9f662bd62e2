//! `--manifests` on one package: what is added, and where.

use crate::common::{folder, read, run};

const HEAD: &str = "[package]\nname = \"a\"\nedition = \"2024\"\n\n";
const SLEEPS: &str = "pub async fn f() { tokio::time::sleep(d).await }\n";
const PAUSES: &str = "pub fn f() { tokio::time::pause() }\n";

/// A package with this in its manifest, and this source, gets this manifest. A second run has nothing to do.
fn gets(name: &str, source: &str, manifest: &str, expected: &str) {
    let manifest = format!("{HEAD}{manifest}");
    let folder = folder(name, &[("Cargo.toml", manifest.as_bytes()), ("src/lib.rs", source.as_bytes())]);
    let (code, printed) = run(&folder, &["--manifests", "."]);
    assert_eq!(code, 0, "{printed}");
    let expected = expected.replace("VERSION", env!("CARGO_PKG_VERSION"));
    let new = read(&folder, "Cargo.toml");
    assert_eq!(new.strip_prefix(HEAD), Some(&*expected), "{name}");
    let (code, printed) = run(&folder, &["--manifests", "--check", "."]);
    assert!(code == 0 && printed.contains("0 of 1 files to change"), "{name}: {printed}");
}

#[test]
fn a_dependency_comes_beside_tokio() {
    gets(
        "sorted",
        SLEEPS,
        "[dependencies]\nanyhow = \"1\" # errors\n\n# the runtime\ntokio = \"1\"\n\n[workspace]\n",
        "[dependencies]\nanyhow = \"1\" # errors\nhairspring = \"VERSION\"\n\n# the runtime\ntokio = \"1\"\n\n[workspace]\n",
    );
    gets(
        "unsorted",
        SLEEPS,
        "[dependencies]\ntokio.workspace = true\n# errors\nanyhow = \"1\"\n\n[workspace.dependencies]\n\
         # the runtime\ntokio = \"1\"\n\n# errors\nanyhow = \"1\"\n",
        "[dependencies]\ntokio.workspace = true\nhairspring.workspace = true\n# errors\nanyhow = \"1\"\n\n\
         [workspace.dependencies]\n# the runtime\ntokio = \"1\"\nhairspring = \"VERSION\"\n\n# errors\nanyhow = \"1\"\n",
    );
    gets(
        "table",
        SLEEPS,
        "[dependencies.tokio]\nversion = \"1\"\n\n[workspace]\n",
        "[dependencies]\nhairspring = \"VERSION\"\n\n[dependencies.tokio]\nversion = \"1\"\n\n[workspace]\n",
    );
    gets(
        "platform",
        SLEEPS,
        "[target.'cfg(unix)'.dependencies]\ntokio = \"1\"\n\n[workspace]\n",
        "[target.'cfg(unix)'.dependencies]\nhairspring = \"VERSION\"\ntokio = \"1\"\n\n[workspace]\n",
    );
    gets("none", SLEEPS, "[workspace]\n", "[workspace]\n\n[dependencies]\nhairspring = \"VERSION\"\n");
    gets("nothing", "", "[workspace]\n", "[workspace]\n");
}

#[test]
fn test_util_is_where_tokios_is() {
    gets(
        "for-tests",
        PAUSES,
        "[dependencies]\ntokio = \"1\"\n\n[workspace]\n",
        "[dependencies]\nhairspring = \"VERSION\"\ntokio = \"1\"\n\n[workspace]\n\n[dev-dependencies]\n\
         hairspring = { version = \"VERSION\", features = [\"test-util\"] }\n",
    );
    gets(
        "for-all",
        PAUSES,
        "[dependencies]\ntokio = { version = \"1\", features = [\"test-util\"] }\n\n[workspace]\n",
        "[dependencies]\nhairspring = { version = \"VERSION\", features = [\"test-util\"] }\n\
         tokio = { version = \"1\", features = [\"test-util\"] }\n\n[workspace]\n",
    );
    gets(
        "by-feature",
        PAUSES,
        "[dependencies]\ntokio = \"1\"\n\n[features]\nclock = [\n    \"tokio/test-util\",\n]\n\n[workspace]\n",
        "[dependencies]\nhairspring = \"VERSION\"\ntokio = \"1\"\n\n[features]\nclock = [\n    \"tokio/test-util\",\n    \
         \"hairspring/test-util\",\n]\n\n[workspace]\n\n[dev-dependencies]\n\
         hairspring = { version = \"VERSION\", features = [\"test-util\"] }\n",
    );
}

#[test]
fn an_optional_tokio_brings_hairspring_with_it() {
    gets(
        "optional",
        SLEEPS,
        "[dependencies]\ntokio = { version = \"1\", optional = true }\n\n[features]\nrt = [\"dep:tokio\", \"tokio/rt\"]\n\n\
         [workspace]\n",
        "[dependencies]\nhairspring = { version = \"VERSION\", optional = true }\n\
         tokio = { version = \"1\", optional = true }\n\n[features]\nrt = [\"dep:tokio\", \"tokio/rt\", \"dep:hairspring\"]\n\n\
         [workspace]\n",
    );
    gets(
        "implied",
        SLEEPS,
        "[dependencies]\nt = { package = \"tokio\", version = \"1\", optional = true }\n\n[workspace]\n",
        "[dependencies]\nhairspring = { version = \"VERSION\", optional = true }\n\
         t = { package = \"tokio\", version = \"1\", optional = true }\n\n[workspace]\n\n[features]\n\
         t = [\"dep:t\", \"dep:hairspring\"]\n",
    );
}

#[test]
fn a_dependency_that_is_there_gets_the_features_that_it_lacks() {
    let cancels = format!("use hairspring::FutureExt;\nfn g() {{ h.with_cancellation_token(&t) }}\n{SLEEPS}");
    for (name, has, gets_it) in [
        ("text", "\"0.1\"", "{ version = \"0.1\", features = [\"tokio-util\"] }"),
        ("inline", "{ version = \"0.1\" }", "{ version = \"0.1\", features = [\"tokio-util\"] }"),
        (
            "with-others",
            "{ version = \"0.1\", features = [\"hyper\"] }",
            "{ version = \"0.1\", features = [\"hyper\", \"tokio-util\"] }",
        ),
        (
            "complete",
            "{ version = \"0.1\", features = [\"tokio-util\"] }",
            "{ version = \"0.1\", features = [\"tokio-util\"] }",
        ),
    ] {
        let manifest = |it| format!("[workspace]\n[dependencies]\nhairspring = {it}\n");
        gets(name, &cancels, &manifest(has), &manifest(gets_it));
    }
}
