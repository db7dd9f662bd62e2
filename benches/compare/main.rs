//! hairspring beside tokio and tokio-util, as one table: run `cargo bench` at the top of the repository.
//!
//! benches/README.md says what each row measures. Without `--bench`, which `cargo bench` passes, each row runs once.

// Counts and nanoseconds become `f64` to be divided; they are far below what it holds exactly.
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]

mod arm;
mod figures;
mod fired;
#[allow(unreachable_pub)]
#[path = "../tools/src/gate.rs"]
mod gate;
mod map;
mod options;
mod queue;
mod session;

use std::future::Future;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use options::{HELP, Options};
use session::Session;

/// The sleeps of both sides.
trait Time: 'static {
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send + 'static;
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send + 'static;
}

struct Hairspring;
struct Tokio;

macro_rules! time {
    ($side:ty, $($path:ident)::+) => {
        impl Time for $side {
            fn sleep(duration: Duration) -> impl Future<Output = ()> + Send + 'static {
                $($path)::+::sleep(duration)
            }

            fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send + 'static {
                $($path)::+::sleep_until(deadline.into())
            }
        }
    };
}

time!(Hairspring, hairspring);
time!(Tokio, tokio::time);

/// The same for both sides.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("the system has threads")
}

/// A number that looks random.
fn mixed(i: u64) -> u64 {
    let mixed = (i ^ (i >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("error: {wrong}; `cargo bench -- --help` lists what is allowed");
            return ExitCode::from(2);
        }
    };
    let mut session = Session::new(options);
    arm::run(&mut session);
    fired::run(&mut session);
    queue::run(&mut session);
    map::run(&mut session);
    match session.end() {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            ExitCode::from(2)
        }
    }
}
