//! The test clock: pauses, bubbles, manual clocks, `boot` and `wall`.
#![cfg(feature = "test-util")]

#[path = "../common/mod.rs"]
mod common;
mod kinds;

mod blocking;
mod boot;
mod bubble;
mod holds;
mod like_tokio;
mod manual_clock;
mod pause_grace;
mod paused;
mod pending;
mod programs;
mod settle;
mod stuck;
mod threads;
mod wall;
