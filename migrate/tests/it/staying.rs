//! The configuration of clippy in docs/migrating.md finds all timers that a program may go back to, and no others.

use std::process::Command;

use crate::common::folder;

const MANIFEST: &str = r#"[package]
name = "staying"
edition = "2024"

[dependencies]
tokio = { version = "1.51", features = ["full"] }
tokio-stream = { version = "0.1", features = ["time"] }
tokio-util = { version = "0.7.17", features = ["time"] }

[workspace]
"#;

const SOURCE: &str = "#![allow(unused)]
use tokio::time::{Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, error::Elapsed};
use tokio_stream::{Stream, StreamExt as _, wrappers::IntervalStream};
use tokio_util::{future::FutureExt as _, time::DelayQueue};
async fn nothing() {}
async fn functions(d: Duration) {
    tokio::time::sleep(d).await;
    tokio::time::sleep_until(Instant::now()).await;
    tokio::time::timeout(d, nothing()).await;
    tokio::time::timeout_at(Instant::now(), nothing()).await;
    tokio::time::interval(d).tick().await;
    tokio::time::interval_at(Instant::now(), d).tick().await;
    nothing().timeout(d).await;
    nothing().timeout_at(Instant::now()).await;
}
fn methods(d: Duration, s: impl Stream<Item = u8> + Clone, i: Interval) {
    s.clone().timeout(d);
    s.clone().throttle(d);
    s.clone().chunks_timeout(1, d);
    s.timeout_repeating(i);
}
";

/// Needs the registry, unless cargo has the dependencies.
#[test]
fn clippy_finds_each_timer() {
    let document = include_str!("../../../docs/migrating.md");
    let (_, configuration) = document.split_once("```toml\ndisallowed-methods").expect("the block");
    let configuration = format!("disallowed-methods{}", configuration.split("```").next().unwrap());
    let files = [("Cargo.toml", MANIFEST), ("src/lib.rs", SOURCE), ("clippy.toml", &configuration)];
    let folder = folder("staying", &files.map(|(name, text)| (name, text.as_bytes())));
    let mut clippy = Command::new(env!("CARGO"));
    clippy.args(["clippy", "--quiet"]).current_dir(&folder).env("CARGO_TARGET_DIR", folder.with_file_name("built"));
    let output = clippy.output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{printed}");
    let paths: Vec<&str> = configuration.split("path = \"").skip(1).map(|it| it.split('"').next().unwrap()).collect();
    assert_eq!(paths.len(), 20, "{paths:?}");
    for path in paths {
        assert!(
            printed.contains(&format!("of a disallowed method `{path}`"))
                || printed.contains(&format!("type `{path}`")),
            "{path}: {printed}"
        );
    }
}
