//! A live view of a timer: what waits, what fires and how late, under a load that keys change.
//!
//! ```text
//! cargo run --release --manifest-path benches/Cargo.toml -p dashboard
//! ```

mod frame;
mod lateness;
mod load;
mod readings;

use std::error::Error;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::frame::View;
use crate::load::Load;

const FRAME: Duration = Duration::from_millis(50);

fn main() -> Result<(), Box<dyn Error>> {
    if !io::stdout().is_terminal() {
        return Err("standard output is no terminal: run it in one".into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    // The view runs on this thread, so a busy runtime does not delay it.
    let mut view = View::new(Load::start(&runtime));
    let shown = show(ratatui::try_init()?, &mut view);
    ratatui::restore();
    shown?;
    runtime.shutdown_background();
    Ok(())
}

/// Shows the load until the viewer quits.
fn show(mut terminal: DefaultTerminal, view: &mut View) -> io::Result<()> {
    loop {
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
