//! A live view of the timing wheel: which slots of which level are occupied, where the hands stand, what is fired and
//! how late, under a load that is changed by keys.
//!
//! ```text
//! cargo run --release --manifest-path benches/Cargo.toml -p dashboard
//! cargo run --release --manifest-path benches/Cargo.toml -p dashboard -- --svg frame.svg
//! ```

mod frame;
mod levels;
mod load;
mod readings;
mod settings;
mod svg;

use std::error::Error;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use crate::load::Load;
use crate::readings::Readings;

const FRAME: Duration = Duration::from_millis(50);

/// A picture has fewer, to be small.
const PICTURE_FRAME: Duration = Duration::from_millis(200);

/// Shows hairspring's timing wheel at work, in the terminal. The keys are on the screen.
#[derive(Debug, Parser)]
struct Options {
    /// Ends by itself after that time
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Draws 4 seconds, or what --seconds says, as a moving picture into a file; needs no terminal
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if options.svg.is_none() && !io::stdout().is_terminal() {
        return Err("standard output is no terminal: run it in one, or draw a frame with `--svg FILE`".into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    // The view has a thread of its own, this one, so that it goes on however busy the runtime is.
    let load = Load::start(&runtime);
    let length = options.seconds.map(Duration::from_secs);
    if let Some(path) = &options.svg {
        draw(&load, length.unwrap_or(Duration::from_secs(4)), path)?;
    } else {
        // Its panic hook restores the terminal, too.
        let shown = show(ratatui::try_init()?, &load, length);
        ratatui::restore();
        shown?;
    }
    // The tasks are dropped with all that they hold; nobody has to wait for that.
    runtime.shutdown_background();
    Ok(())
}

/// Lets the load run, and draws what the terminal would show.
fn draw(load: &Load, length: Duration, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut readings = Readings::new(load.metrics());
    let mut frames = Vec::new();
    // The first second is left out: at first the wheel is empty.
    let warm_up = Duration::from_secs(1);
    let start = Instant::now();
    let count = usize::try_from(length.as_nanos() / PICTURE_FRAME.as_nanos())?;
    while frames.len() < count {
        thread::sleep(FRAME);
        load.check()?;
        readings.add(load.metrics());
        if start.elapsed() >= warm_up + PICTURE_FRAME * u32::try_from(frames.len())? {
            frames.push(frame::draw_in(frame::WIDTH, frame::HEIGHT, &readings, &load.settings()));
        }
    }
    let shown = path.display();
    fs::write(path, svg::of(&frames, PICTURE_FRAME)).map_err(|error| format!("--svg cannot be `{shown}`: {error}"))?;
    println!("{} frames are in {shown}.", frames.len());
    Ok(())
}

/// Shows the load until the viewer quits, or for so long.
fn show(mut terminal: DefaultTerminal, load: &Load, length: Option<Duration>) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut readings = Readings::new(load.metrics());
    while length.is_none_or(|length| start.elapsed() < length) {
        load.check()?;
        readings.add(load.metrics());
        terminal.draw(|frame| frame::draw(frame, &readings, &load.settings()))?;
        let next = Instant::now() + FRAME;
        while event::poll(next.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()?
                && load.press(key)
            {
                return Ok(());
            }
        }
    }
    Ok(())
}
