//! The test clock.
#![cfg(feature = "test-util")]

#[path = "../common/mod.rs"]
mod common;

mod boot;
mod bubble;
mod bubble_blocking;
mod determinism;
mod end_of_time;
mod exact;
mod holds;
mod kinds;
mod like_tokio;
mod manual_clock;
mod pause_grace;
mod paused;
mod paused_blocking;
mod paused_many;
mod pending;
mod programs;
mod settle;
mod skewed_clocks;
mod stuck;
mod threads;
mod wall;
