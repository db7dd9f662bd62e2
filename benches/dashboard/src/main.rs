//! A live view of a timer: what waits, what fires and how late, under a load that keys change.
//!
//! ```text
//! cargo run --release --manifest-path benches/Cargo.toml -p dashboard
//! cargo run --release --manifest-path benches/Cargo.toml -p dashboard -- --svg dashboard.svg
//! ```

mod frame;
mod lateness;
mod load;
mod readings;
mod svg;

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use clap::Parser;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::frame::View;
use crate::load::Load;

const FRAME: Duration = Duration::from_millis(50);
/// Fewer frames keep the picture small.
const PICTURE_FRAME: Duration = Duration::from_millis(200);

/// Shows a timer of hairspring at work, in the terminal. The keys are on the screen.
#[derive(Debug, Parser)]
struct Options {
    /// End after this many seconds
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Write an animated picture of 4 or --seconds seconds instead; needs no terminal
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if options.svg.is_none() && !io::stdout().is_terminal() {
        return Err("standard output is no terminal: run it in one, or draw a picture with `--svg FILE`".into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    // The view runs on this thread, so a busy runtime does not delay it.
    let mut view = View::new(Load::start(&runtime));
    let length = options.seconds.map(Duration::from_secs);
    if let Some(path) = &options.svg {
        draw(&mut view, length.unwrap_or(Duration::from_secs(4)), path)?;
    } else {
        let shown = show(ratatui::try_init()?, &mut view, length);
        ratatui::restore();
        shown?;
    }
    runtime.shutdown_background();
    Ok(())
}

/// Draws what the terminal would show, after a second in which the timer fills.
fn draw(view: &mut View, length: Duration, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut frames = Vec::new();
    let start = Instant::now() + Duration::from_secs(1);
    while start.elapsed() < length {
        thread::sleep(FRAME);
        view.read();
        if Instant::now() >= start + PICTURE_FRAME * u32::try_from(frames.len())? {
            frames.push(view.in_memory());
        }
    }
    fs::write(path, svg::of(&frames, PICTURE_FRAME)).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{} frames are in {}.", frames.len(), path.display());
    Ok(())
}

/// Shows the load until the viewer quits, or for the given time.
fn show(mut terminal: DefaultTerminal, view: &mut View, length: Option<Duration>) -> io::Result<()> {
    let start = Instant::now();
    while length.is_none_or(|length| start.elapsed() < length) {
        view.read();
        terminal.draw(|frame| view.draw(frame))?;
        let next = Instant::now() + FRAME;
        while event::poll(next.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()?
                && press(&view.load, key)
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Handles a key. Returns whether to quit.
fn press(load: &Load, key: KeyEvent) -> bool {
    let mut quits = false;
    load.population.send_modify(|population| match key.code {
        _ if key.kind == KeyEventKind::Release => {}
        // In raw mode, Ctrl-C arrives as a key.
        KeyCode::Char('c') => quits = key.modifiers.contains(KeyModifiers::CONTROL),
        KeyCode::Char('q') | KeyCode::Esc => quits = true,
        KeyCode::Up => *population = (*population * 10).min(1_000_000),
        KeyCode::Down => *population = (*population / 10).max(1),
        _ => {}
    });
    quits
}
