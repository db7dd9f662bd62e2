//! A frame of the dashboard.

use std::time::Duration;

use hairspring::Instant;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline};
use tools::{Histogram, thousands};

use crate::lateness::Lateness;
use crate::load::{LONGEST, Load, SHORTEST};
use crate::readings::Readings;

/// The smallest terminal.
const WIDTH: u16 = 80;
const HEIGHT: u16 = 18;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().fg(Color::DarkGray);
const TITLE: Style = Style::new().fg(Color::Green);
const BAR: Style = Style::new().fg(Color::Cyan);
const KEY: Style = Style::new().fg(Color::Yellow);

const RATES_WIDTH: u16 = 30;

/// The columns of the histogram for each power of ten, from 1 µs to 1 s.
const PER_DECADE: usize = 7;
const COLUMNS: usize = 6 * PER_DECADE;

pub(crate) struct View {
    pub(crate) load: Load,
    readings: Readings,
    plain_thread: Lateness,
}

impl View {
    pub(crate) fn new(load: Load) -> Self {
        View { readings: Readings::new(load.metrics()), plain_thread: Lateness::of_a_plain_thread(), load }
    }

    pub(crate) fn read(&mut self) {
        self.readings.add(self.load.metrics());
    }

    pub(crate) fn draw(&self, frame: &mut Frame) {
        let area = frame.area();
        if area.width < WIDTH || area.height < HEIGHT {
            let wish = format!("The dashboard needs {WIDTH} by {HEIGHT} characters.");
            frame.render_widget(Paragraph::new(wish), area);
            return;
        }
        let [above, load] = Layout::vertical([Constraint::Fill(1), Constraint::Length(2)]).areas(area);
        let [rates, lateness] =
            Layout::horizontal([Constraint::Length(RATES_WIDTH), Constraint::Fill(1)]).spacing(2).areas(above);
        frame.render_widget(Paragraph::new(self.rates()).block(titled("timers")), rates);
        self.draw_lateness(frame, lateness);
        frame.render_widget(Paragraph::new(self.keys()).block(titled("load")), load);
    }

    fn rates(&self) -> Vec<Line<'static>> {
        let line = |name: &str, figure: String, unit| {
            let name = Span::raw(format!(" {name:<11}"));
            Line::from(vec![name, Span::styled(format!("{figure:>14}"), BOLD), Span::styled(unit, DIM)])
        };
        let metrics = self.readings.latest();
        let mut lines = vec![line("pending", thousands(metrics.pending()), "")];
        lines.extend(self.readings.rates().map(|(name, rate)| line(name, thousands(rate), " /s")));
        let next = metrics.next_deadline().map(|next| in_words(next.saturating_duration_since(Instant::now())));
        lines.push(line("next in", next.unwrap_or_default(), ""));
        lines
    }

    fn draw_lateness(&self, frame: &mut Frame, area: Rect) {
        let block = titled("lateness, last 5 s");
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let [above, bars, below] =
            Layout::vertical([Constraint::Length(3), Constraint::Fill(1), Constraint::Length(1)]).areas(inner);
        let timers = self.load.lateness.recent();
        let line = |name: &str, lateness: &Histogram<u64>| {
            let quantiles = [0.5, 0.99, 1.0].map(|share| Duration::from_nanos(lateness.value_at_quantile(share)));
            let figures = quantiles.map(|late| Span::styled(format!("{:>10}", in_words(late)), BOLD));
            Line::from([vec![Span::raw(format!(" {name:<14}"))], figures.to_vec()].concat())
        };
        let head = Line::styled(format!("{:>25}{:>10}{:>10}", "p50", "p99", "max"), DIM);
        let lines = vec![head, line("timers", &timers), line("a plain thread", &self.plain_thread.recent())];
        frame.render_widget(Paragraph::new(lines), above);
        let bars = Rect { x: bars.x + 1, width: bars.width - 1, ..bars };
        frame.render_widget(Sparkline::default().data(columns(&timers)).style(BAR), bars);
        let edges = ["1 µs", "100 µs", "10 ms"].map(|edge| format!("{edge:<width$}", width = 2 * PER_DECADE));
        frame.render_widget(Line::styled(format!(" {}1 s", edges.concat()), DIM), below);
    }

    fn keys(&self) -> Line<'static> {
        let population = thousands(*self.load.population.borrow() as u64);
        let lengths = [SHORTEST, LONGEST].map(in_words).join(" to ");
        let key = |keys, what: String| [Span::styled(keys, KEY), Span::raw(what)];
        let keys = [
            key(" ↑ ↓ ", format!("{population} sleeps of {lengths}, half of them cancelled  ")),
            key(" q ", "quit".to_owned()),
        ];
        Line::from(keys.concat())
    }
}

fn titled(title: &'static str) -> Block<'static> {
    Block::new().borders(Borders::TOP).border_style(DIM).title(Span::styled(format!(" {title} "), TITLE))
}

/// At most three digits, in the unit that fits.
pub(crate) fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let units = [(3_600.0, "h"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds >= 0.9995 * unit).unwrap_or((1e-9, "ns"));
    let number = seconds / unit;
    let decimals = usize::from(number < 99.95);
    format!("{} {name}", format!("{number:.decimals$}").trim_end_matches(".0"))
}

/// Counts timers by lateness, for each column. The outer columns include everything beyond them.
fn columns(lateness: &Histogram<u64>) -> [u64; COLUMNS] {
    let mut columns = [0; COLUMNS];
    for step in lateness.iter_recorded() {
        let decades = (step.value_iterated_to() as f64 / 1_000.0).log10().max(0.0);
        columns[((decades * PER_DECADE as f64) as usize).min(COLUMNS - 1)] += step.count_since_last_iteration();
    }
    columns
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn a_frame_of_a_load_that_has_just_begun_has_all_its_parts() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
        let view = View::new(Load::start(&runtime));
        let mut terminal = Terminal::new(TestBackend::new(WIDTH, HEIGHT)).unwrap();
        let frame = terminal.draw(|frame| view.draw(frame)).unwrap();
        let text: String = frame.buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
        for part in ["pending", "next in", "a plain thread", "1,000 sleeps of 10 ms to 100 s", "quit"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("NaN"), "{text}");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let times = [0, 64, 4_096, 16_777_216, 999_999_999, 100_000_000_000, 4_398_046_511_104];
        let words = ["0 ns", "64 ns", "4.1 µs", "16.8 ms", "1 s", "100 s", "1.2 h"];
        assert_eq!(times.map(|nanos| in_words(Duration::from_nanos(nanos))), words);
    }
}
