//! The dashboard on the terminal, and the keys.

use std::error::Error;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::load::Load;
use crate::readings::Readings;
use crate::settings::Change;
use crate::{FRAME, frame};

/// Shows the load until the viewer quits, or for so long.
pub(crate) fn show(load: &Load, length: Option<Duration>) -> Result<(), Box<dyn Error>> {
    // Its panic hook restores the terminal, too.
    let terminal = ratatui::try_init()?;
    let shown = show_in(terminal, load, length);
    ratatui::restore();
    shown
}

fn show_in(mut terminal: DefaultTerminal, load: &Load, length: Option<Duration>) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut readings = Readings::new(load.metrics());
    while length.is_none_or(|length| start.elapsed() < length) {
        load.check()?;
        readings.add(load.metrics());
        terminal.draw(|frame| frame::draw(frame, &readings, &load.settings()))?;
        let next = Instant::now() + FRAME;
        while event::poll(next.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()? {
                match asked_for(key) {
                    Some(Asked::Quit) => return Ok(()),
                    Some(Asked::Change(change)) => load.change(change),
                    None => {}
                }
            }
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Quit,
    Change(Change),
}

fn asked_for(key: KeyEvent) -> Option<Asked> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let change = match key.code {
        // The terminal does not turn it into a signal while keys are read one by one.
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Some(Asked::Quit),
        KeyCode::Char('q') | KeyCode::Esc => return Some(Asked::Quit),
        KeyCode::Up => Change::More,
        KeyCode::Down => Change::Fewer,
        KeyCode::Right => Change::Longer,
        KeyCode::Left => Change::Shorter,
        KeyCode::Char('c') => Change::CancelMore,
        KeyCode::Char('C') => Change::CancelLess,
        KeyCode::Char('b') => Change::Burst,
        KeyCode::Char('r') => Change::ResetAll,
        KeyCode::Char('p' | ' ') => Change::Pause,
        _ => return None,
    };
    Some(Asked::Change(change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_c_quits_and_c_cancels_more() {
        let key = |modifiers| asked_for(KeyEvent::new(KeyCode::Char('c'), modifiers));
        assert_eq!(key(KeyModifiers::CONTROL), Some(Asked::Quit));
        assert_eq!(key(KeyModifiers::NONE), Some(Asked::Change(Change::CancelMore)));
    }
}
