//! A frame of the dashboard.

use std::time::Duration;

use hairspring::Instant;
use hairspring::timer::Lateness;
use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline};
use tools::thousands;

use crate::levels::{self, HAND, LATELY, LIT, OCCUPIED, in_words};
use crate::readings::Readings;
use crate::settings::{BURST, Settings};

/// What a frame needs, and what one in a file has.
pub(crate) const WIDTH: u16 = 80;
pub(crate) const HEIGHT: u16 = 24;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().fg(Color::DarkGray);
const TITLE: Style = Style::new().fg(Color::Green);

const COUNTS_WIDTH: u16 = 38;
const COUNTS_HEIGHT: u16 = 9;

/// The histogram goes from 1 µs to 1 s, in so many columns for each power of ten.
const DECADES: u16 = 6;
const PER_DECADE: u16 = 6;
const COLUMNS: u16 = DECADES * PER_DECADE;

/// A frame that is on no screen.
pub(crate) fn draw_in(width: u16, height: u16, readings: &Readings, settings: &Settings) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("what is in memory only cannot fail");
    let drawn = terminal.draw(|frame| draw(frame, readings, settings));
    drawn.expect("what is in memory only cannot fail").buffer.clone()
}

pub(crate) fn draw(frame: &mut Frame, readings: &Readings, settings: &Settings) {
    let area = frame.area();
    if area.width < WIDTH || area.height < HEIGHT {
        let wish = format!("The dashboard needs {WIDTH} by {HEIGHT} characters.");
        frame.render_widget(Paragraph::new(wish), area);
        return;
    }
    let levels = levels::lines(readings, settings);
    let levels_height = u16::try_from(levels.len()).unwrap_or(u16::MAX).saturating_add(3);
    let [wheel, below, load, _] = Layout::vertical([
        Constraint::Length(levels_height),
        Constraint::Length(COUNTS_HEIGHT),
        Constraint::Length(4),
        Constraint::Fill(1),
    ])
    .areas(area);
    let [left, right] =
        Layout::horizontal([Constraint::Length(COUNTS_WIDTH), Constraint::Fill(1)]).spacing(2).areas(below);

    frame.render_widget(Paragraph::new(with_legend(levels)).block(titled("the wheel")), wheel);
    frame.render_widget(Paragraph::new(counts(readings)).block(titled("timers")), left);
    draw_lateness(frame, right, readings.latest().lateness());
    let state = if settings.is_paused { "load, paused" } else { "load" };
    frame.render_widget(Paragraph::new(keys(settings)).block(titled(state)), load);
}

fn titled(title: &'static str) -> Block<'static> {
    Block::new().borders(Borders::TOP).border_style(DIM).title(Span::styled(format!(" {title} "), TITLE))
}

fn with_legend(levels: Vec<Line<'static>>) -> Vec<Line<'static>> {
    let mark = |style| Span::styled(LIT, style);
    let legend = Line::from(vec![
        Span::styled(" level   a slot ", DIM),
        mark(HAND),
        Span::styled("the hand   ", DIM),
        mark(OCCUPIED),
        Span::styled("occupied   ", DIM),
        mark(LATELY),
        Span::styled("emptied just now", DIM),
    ]);
    [legend].into_iter().chain(levels).collect()
}

fn counts(readings: &Readings) -> Vec<Line<'static>> {
    let metrics = readings.latest();
    let total = |name: &str, total| {
        vec![Span::raw(format!(" {name:<11}")), Span::styled(format!("{:>13}", thousands(total)), BOLD)]
    };
    let mut lines = vec![Line::from(total("pending", metrics.pending()))];
    for (name, count, rate) in readings.counts() {
        let mut line = total(name, count);
        line.push(Span::styled(format!("{:>11}/s", thousands(rate)), DIM));
        lines.push(Line::from(line));
    }
    let next = metrics.next_deadline().map_or_else(
        || "none".to_owned(),
        // A busy machine is behind.
        |next| {
            next.checked_duration_since(Instant::now())
                .map_or_else(|| "now".to_owned(), |left| format!("in {}", in_words(left)))
        },
    );
    lines.push(Line::from(vec![Span::raw(" next       "), Span::styled(format!("{next:>13}"), BOLD)]));
    lines
}

fn draw_lateness(frame: &mut Frame, area: Rect, lateness: &Lateness) {
    let block = titled("lateness, since the start");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [above, bars, below] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)]).areas(inner);
    let figure = |name, time| [Span::raw(name), Span::styled(in_words(time).replace(' ', ""), BOLD)];
    let quantiles = [(" p50 ", 0.5), ("  p99 ", 0.99), ("  p99.9 ", 0.999)];
    let quantiles: Vec<_> = quantiles.map(|(name, share)| figure(name, lateness.quantile(share))).concat();
    let lines = vec![Line::from(quantiles), Line::from(figure(" max ", lateness.max()).to_vec())];
    frame.render_widget(Paragraph::new(lines), above);
    if lateness.count() > 0 {
        let shares = histogram(lateness).into_iter().map(|share| (share * 1e6).round() as u64);
        let bars = Rect { x: bars.x + 1, width: bars.width - 1, ..bars };
        frame.render_widget(Sparkline::default().data(shares.collect::<Vec<_>>()).style(OCCUPIED), bars);
    }
    let edges = ["1 µs", "100 µs", "10 ms"].map(|edge| format!("{edge:<width$}", width = usize::from(2 * PER_DECADE)));
    frame.render_widget(Line::styled(format!(" {}1 s", edges.concat()), DIM), below);
}

/// The shares of the timers that were late by what each column stands for. The first and the last have all beyond them.
fn histogram(lateness: &Lateness) -> Vec<f64> {
    let mut below = 0.0;
    let mut shares = Vec::new();
    for column in 1..=COLUMNS {
        let edge = Duration::from_secs_f64(1e-6 * 10_f64.powf(f64::from(column) / f64::from(PER_DECADE)));
        let within = if column == COLUMNS { 1.0 } else { share_within(lateness, edge) };
        shares.push(within - below);
        below = within;
    }
    shares
}

/// The share of the timers that were late by `limit` at most.
fn share_within(lateness: &Lateness, limit: Duration) -> f64 {
    if lateness.max() <= limit {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..12 {
        let middle = f64::midpoint(low, high);
        if lateness.quantile(middle) <= limit {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn keys(settings: &Settings) -> Vec<Line<'static>> {
    let key = |keys, what: String| [Span::styled(keys, HAND), Span::raw(what)];
    let line = |parts: Vec<[Span<'static>; 2]>| Line::from(parts.concat());
    let population = thousands(settings.population() as u64);
    let lengths = [settings.shortest(), settings.longest()].map(in_words).join(" to ");
    vec![
        line(vec![
            key(" ↑ ↓ ", format!("{:<18}", format!("{population} sleeps"))),
            key(" ← → ", format!("{:<20}", format!("of {lengths}"))),
            key(" c C ", format!("{} % cancelled", settings.cancelled())),
        ]),
        line(vec![
            key(" b ", format!("burst of {}  ", thousands(BURST as u64))),
            key(" r ", "reset all  ".to_owned()),
            key(" p ", if settings.is_paused { "go on  " } else { "pause  " }.to_owned()),
            key(" q ", "quit".to_owned()),
        ]),
    ]
}

#[cfg(test)]
mod tests {
    use hairspring::Timer;

    use super::*;

    fn frame(width: u16, height: u16) -> String {
        let (timer, _driver) = Timer::builder().build_with_driver().unwrap();
        let readings = Readings::new(timer.metrics());
        let buffer = draw_in(width, height, &readings, &Settings::default());
        buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn a_frame_of_a_timer_that_has_done_nothing_has_all_its_parts() {
        let text = frame(WIDTH, HEIGHT);
        for part in ["the wheel", "16.8 ms", "pending", "p99.9", "10,000", "1 s to 100 s", "quit"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("NaN"), "{text}");
    }

    #[test]
    fn a_terminal_that_is_too_small_is_told_so() {
        assert!(frame(60, 10).contains("needs 80 by 24"));
    }
}
