//! Measures a cell, one contender after the other, each in a process of its own.

use crate::cell::Cell;
use crate::contender::Contender;
use crate::outcome::{Outcome, child};
use crate::rival::Rival;
use crate::rivals::Tokio;
use crate::session::{Sheet, in_words, range, ratio, take_turns};

impl Cell {
    /// Measures each contender in turn, in child processes.
    pub fn measure(&self, what: &str, contenders: &[&'static Contender], rounds: u32) -> Vec<Row> {
        Row::measure(what, contenders, rounds, |contender, round| {
            let cell = Cell { contender: contender.name.to_owned(), seed: u64::from(round), ..self.clone() };
            let arguments = cell.arguments();
            Outcome::of(&child(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
        })
    }

    /// Measures the contenders that can have so many tasks, and adds them to the sheet.
    pub fn compare(&self, contenders: &[&'static Contender], rounds: u32, sheet: &mut Sheet) -> Vec<Row> {
        let is_able =
            |other: &&Contender| self.tasks <= other.most_tasks && (self.workers > 0 || other.on_current_thread);
        let able: Vec<_> = contenders.iter().copied().filter(is_able).collect();
        let rows = self.measure(&self.to_string(), &able, rounds);
        let base = find(&rows, Tokio::NAME);
        let title = self.to_string();
        sheet.add(&title, &[&title], rows.iter().map(|row| row.cells(base)).collect());
        rows
    }
}

/// The columns of [`Cell::compare`]. Ratios are to tokio's medians.
pub const COLUMNS: &str = "scenario|contender|sleeps a second|processor percent|least percent|most percent|processor times tokio's|\
    ns a sleep|least ns|most ns|ns times tokio's|p50|p50 times tokio's|p99|p99 times tokio's|turns a second|early";

/// The outcomes of one contender.
pub struct Row {
    pub who: &'static Contender,
    pub rounds: Vec<Outcome>,
    pub all: Outcome,
}

pub fn find<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.who.name == name)
}

impl Row {
    pub fn measure(
        what: &str,
        contenders: &[&'static Contender],
        rounds: u32,
        measure: impl Fn(&Contender, u32) -> Outcome,
    ) -> Vec<Row> {
        let turns = take_turns(what, rounds, contenders.len(), |place, round| measure(contenders[place], round));
        let row = |(who, rounds): (&&'static Contender, Vec<Outcome>)| {
            let mut all = Outcome::default();
            for outcome in &rounds {
                all.add(outcome);
            }
            Row { who, rounds, all }
        };
        contenders.iter().zip(turns).map(row).collect()
    }

    /// Median, minimum and maximum.
    pub fn range(&self, figure: impl Fn(&Outcome) -> f64) -> [f64; 3] {
        range(self.rounds.iter().map(figure).collect())
    }

    /// How often tokio's median this is.
    pub fn times(&self, base: Option<&Row>, figure: impl Fn(&Outcome) -> f64) -> Option<f64> {
        base.map(|base| self.range(&figure)[0] / base.range(&figure)[0])
    }

    fn cells(&self, base: Option<&Row>) -> Vec<String> {
        let all = &self.all;
        let mut cells = vec![self.who.name.to_owned(), format!("{:.0}", all.per_second(all.sleeps()))];
        cells.extend(self.range(Outcome::cpu_percent).map(|percent| format!("{percent:.1}")));
        cells.push(ratio(self.times(base, Outcome::cpu_percent), 3));
        cells.extend(self.range(Outcome::price).map(|nanos| format!("{nanos:.0}")));
        cells.push(ratio(self.times(base, Outcome::price), 3));
        for percent in [50.0, 99.0] {
            let late = all.percentile(percent);
            cells.extend([in_words(late), ratio(base.map(|base| late / base.all.percentile(percent)), 3)]);
        }
        cells.push(ratio((all.turns > 0).then(|| all.per_second(all.turns as f64)), 0));
        cells.push(all.early.to_string());
        cells
    }
}
