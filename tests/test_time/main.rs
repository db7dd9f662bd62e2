//! The test clock: pauses, bubbles, manual clocks, `boot` and `wall`.
#![cfg(feature = "test-util")]

#[path = "../common/mod.rs"]
mod common;
mod kinds;

mod attribute;
mod blocking;
mod boot;
mod bubble;
mod holds;
mod manual_clock;
mod pause_grace;
mod paused;
mod pending;
mod settle;
mod stuck;
mod wall;

/// A process that runs an ignored test of this program, and nothing else.
fn alone(test: &str) -> std::process::Command {
    let mut run = std::process::Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", test, "--ignored", "--nocapture"]);
    run
}
