//! A live view of the timing wheel: which slots of which level are occupied, where the hands stand, what is fired and
//! how late, under a load that is changed by keys.
//!
//! ```text
//! cargo run --release --manifest-path examples/dashboard/Cargo.toml
//! cargo run --release --manifest-path examples/dashboard/Cargo.toml -- --svg frame.svg
//! cargo run --release --manifest-path examples/dashboard/Cargo.toml -- --help
//! ```

mod frame;
mod levels;
mod load;
mod options;
mod random;
mod readings;
mod settings;
mod svg;
mod terminal;
mod words;

use std::error::Error;
use std::fs;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use crate::load::Load;
use crate::options::Options;
use crate::readings::Readings;

/// How long the load runs before a frame is drawn into a file.
const BEFORE_SVG: Duration = Duration::from_secs(2);
const FRAME: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let options = options::read();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    if options.svg.is_none() && !io::stdout().is_terminal() {
        return Err("standard output is no terminal: run it in one, or draw a frame with `--svg FILE`".into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    // The view has a thread of its own, this one, so that it goes on however busy the runtime is.
    let load = Load::start(&runtime);
    match &options.svg {
        Some(path) => draw(&load, options.seconds.unwrap_or(BEFORE_SVG), path)?,
        None => terminal::show(&load, options.seconds)?,
    }
    // The tasks are dropped with all that they hold; nobody has to wait for that.
    runtime.shutdown_background();
    Ok(())
}

/// Lets the load run, and draws what the terminal would show then.
fn draw(load: &Load, after: Duration, path: &str) -> Result<(), Box<dyn Error>> {
    let mut readings = Readings::new(load.metrics());
    for _ in 0..after.as_millis() / FRAME.as_millis() {
        thread::sleep(FRAME);
        load.check()?;
        readings.add(load.metrics());
    }
    let buffer = frame::draw_once(&readings, &load.settings());
    fs::write(path, svg::of(&buffer)).map_err(|error| format!("--svg cannot be `{path}`: {error}"))?;
    println!("The frame is in {path}.");
    Ok(())
}
