//! How late sleeps end: `benches/rivals/results/late.txt`.

use super::machine::Machine;
use super::number;
use super::stored::Stored;

pub(crate) struct Late {
    pub(crate) machine: Machine,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    scenario: String,
    contender: String,
    /// With their units.
    pub(crate) p50: String,
    pub(crate) p99: String,
    processor_percent: String,
    sleeps_a_second: String,
    times_processor: String,
}

const COLUMNS: [&str; 8] = ["p50", "p99", "of a core", "a sleep", "a second", "early", "p99", "processor"];
/// Those that the chart shows.
const CHARTED: [&str; 2] = ["hairspring", "tokio::time"];
/// Widths, in characters.
const MARGIN: usize = 2;
const CONTENDER: usize = 26;
const CELL: usize = 11;

impl Late {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Stored { machine, output } = Stored::parse(text)?;
        let mut lines = output.lines().skip(1);
        let (_, names) = lines.next().and_then(cells).ok_or("there are no names of columns")?;
        if names != COLUMNS {
            return Err(format!("the columns are {names:?}, not {COLUMNS:?}"));
        }
        let mut rows = Vec::new();
        let mut scenario = "";
        for line in lines.filter(|line| !line.is_empty()) {
            if line.starts_with(' ') {
                let (contender, cells) = cells(line).ok_or_else(|| format!("this is no row: {line}"))?;
                let [p50, p99, processor_percent, _, sleeps_a_second, _, _, times_processor] = cells;
                let scenario = scenario.to_owned();
                rows.push(Row { scenario, contender, p50, p99, processor_percent, sleeps_a_second, times_processor });
            } else {
                scenario = line;
            }
        }
        Ok(Late { machine, rows })
    }

    /// Whether a chart shows the figures of this run.
    pub(crate) fn is_drawn_in(&self, chart: &str) -> bool {
        self.rows.iter().filter(|row| CHARTED.contains(&row.contender.as_str())).all(|row| {
            // A panel begins with its scenario, and a line of figures for each.
            let panel = chart.split_once(&format!(">{}</text>", row.scenario)).map_or("", |(_, panel)| panel);
            let figures = format!("p50 {} · p99 {} ·", row.p50, row.p99);
            panel.lines().skip(1).take(CHARTED.len()).any(|line| line.contains(&figures))
        })
    }

    pub(crate) fn row(&self, scenario: &str, contender: &str) -> Result<&Row, String> {
        let found = self.rows.iter().find(|row| row.scenario == scenario && row.contender == contender);
        found.ok_or_else(|| format!("there is no row for `{contender}` in `{scenario}`"))
    }
}

impl Row {
    /// In per cent of one core.
    pub(crate) fn processor_percent(&self) -> Result<f64, String> {
        number(self.processor_percent.trim_end_matches(" %"))
    }

    pub(crate) fn sleeps_a_second(&self) -> Result<f64, String> {
        number(&self.sleeps_a_second)
    }

    /// Processor time as a ratio to tokio's.
    pub(crate) fn times_processor(&self) -> Result<f64, String> {
        number(&self.times_processor)
    }
}

/// The first cell of a line, and the others; `None` where they are not as many as they have to be.
fn cells(line: &str) -> Option<(String, [String; 8])> {
    let characters: Vec<char> = line.chars().collect();
    let (first, others) = characters.split_at_checked(MARGIN + CONTENDER)?;
    let text = |characters: &[char]| characters.iter().collect::<String>().trim().to_owned();
    let cells: Vec<String> = others.chunks(CELL).map(text).collect();
    Some((text(first), cells.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
A chip, 2 cores, Linux 6.18, rustc 1.95.0; tokio 1.54.1
benches/rivals/run late --seconds 5

                                           late by        processor time                sleeps         times tokio's
                                    p50        p99  of a core    a sleep   a second      early        p99  processor
1 task, 2 workers
  hairspring                      48 µs     128 µs      0.7 %   38068 ns        176          0      0.066       2.26
  hairspring, timerfd, 10 µs      47 µs     171 µs      0.7 %   39802 ns        175          0      0.088       2.36
50 tasks, 2 workers
  tokio::time                    1.1 ms     2.1 ms      3.7 %    4932 ns       7489          0      1.000       1.00
";

    #[test]
    fn rows_are_found_by_scenario_and_contender() {
        let late = Late::parse(TEXT).unwrap();
        let row = late.row("1 task, 2 workers", "hairspring").unwrap();
        assert_eq!((row.p50.as_str(), row.p99.as_str()), ("48 µs", "128 µs"));
        let figures = [row.processor_percent(), row.sleeps_a_second(), row.times_processor()];
        assert_eq!(figures.map(|figure| figure.unwrap().to_string()), ["0.7", "176", "2.26"]);
        assert_eq!(late.row("1 task, 2 workers", "hairspring, timerfd, 10 µs").unwrap().p50, "47 µs");
        assert_eq!(late.row("50 tasks, 2 workers", "tokio::time").unwrap().p99, "2.1 ms");
        assert_eq!(late.machine.versions(&["tokio"]), Ok("tokio 1.54.1".to_owned()));
        let problem = late.row("50 tasks, 2 workers", "hairspring").unwrap_err();
        assert_eq!(problem, "there is no row for `hairspring` in `50 tasks, 2 workers`");
    }

    #[test]
    fn a_chart_of_another_run_is_recognised() {
        let late = Late::parse(TEXT).unwrap();
        let chart = "\
<text>1 task, 2 workers</text>
<text>p50 48 µs · p99 128 µs · processor 0.7 %</text>
<text>50 tasks, 2 workers</text>
<text>p50 58 µs · p99 489 µs · processor 38.8 %</text>
<text>p50 1.1 ms · p99 2.1 ms · processor 3.7 %</text>
";
        assert!(late.is_drawn_in(chart));
        assert!(!late.is_drawn_in(&chart.replace("128 µs", "326 µs")));
        assert!(!late.is_drawn_in(&chart.replace("1 task", "2 tasks")));
    }

    #[test]
    fn another_table_is_refused() {
        let problem = |text: &str| Late::parse(text).err().unwrap();
        assert!(problem(&TEXT.replace("a second", "a minute")).contains("a minute"));
        assert!(problem(&TEXT.replace("       2.26", "")).contains("no row:   hairspring"));
        assert!(problem("A chip, 2 cores, Linux 6.18, rustc 1.95.0\n").contains("nothing"));
    }
}
