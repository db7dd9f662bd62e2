//! What is printed: a line at each point where all stand still, and the report.

use std::fmt::{self, Display};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hairspring::timer::{Lateness, Metrics};

use crate::awaiters::Awaited;
use crate::ledger::{Counts, Ledger};
use crate::memory::Resident;
use crate::options::Options;
use crate::set::Done;

/// What did not hold, in the order in which it was found.
#[derive(Debug, Default, Clone)]
pub(crate) struct Faults(Arc<Mutex<Vec<String>>>);

/// Past this many, only the first are of use.
const MOST_FAULTS: usize = 20;

impl Faults {
    pub(crate) fn add(&self, fault: String) {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.len() < MOST_FAULTS {
            println!("BAD: {fault}");
            faults.push(fault);
        }
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Resident memory in the course of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) start: Resident,
    /// After the first three waves.
    pub(crate) warm: Resident,
    pub(crate) peak: Resident,
    pub(crate) end: Resident,
}

pub(crate) struct Report {
    pub(crate) options: Options,
    pub(crate) took: Duration,
    pub(crate) waves: usize,
    /// How often all stood still and the counts were compared.
    pub(crate) stops: usize,
    pub(crate) peak: u64,
    pub(crate) done: Done,
    pub(crate) awaited: Arc<Awaited>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) metrics: Metrics,
    /// How long threads waited for a processor; `None` where it is not known.
    pub(crate) waited: Option<Duration>,
    /// `None` on systems that do not tell.
    pub(crate) memory: Option<Memory>,
    pub(crate) faults: Faults,
}

impl Report {
    pub(crate) fn is_good(&self) -> bool {
        self.faults.count() == 0
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Done { armed, fired, reset, cancelled, polled } = self.done;
        let [sleeps, timeouts, dropped] =
            [&self.awaited.sleeps, &self.awaited.timeouts, &self.awaited.dropped].map(|count| count.load(Relaxed));
        writeln!(f, "\n{} waves in {:.0?}, {} stops; {}", self.waves, self.took, self.stops, self.options)?;
        writeln!(f, "polled by hand  {armed} armed, {reset} reset, {cancelled} cancelled, {fired} fired")?;
        writeln!(f, "                {polled} polled at random, {} pending at most", self.peak)?;
        writeln!(f, "in tasks        {sleeps} sleeps and {timeouts} timeouts ended, {dropped} dropped")?;
        writeln!(f, "the ledger      {}", self.ledger.count())?;
        writeln!(f, "the metrics     {}", Counts::of(&self.metrics))?;
        writeln!(f, "                {} turns, {} cascaded", self.metrics.turns(), self.metrics.cascaded())?;
        writeln!(f, "early           {}, woken twice {}", self.ledger.early(), self.ledger.woken_twice())?;
        writeln!(f, "late            {}", in_words(self.metrics.lateness()))?;
        if let Some(waited) = self.waited {
            writeln!(f, "                threads waited {waited:.1?} for a processor, all together")?;
        }
        if let Some(Memory { start, warm, peak, end }) = self.memory {
            let most = warm.most_at_end();
            writeln!(f, "memory          {start} at the start, {warm} after three waves, {peak} at most,")?;
            writeln!(f, "                {end} at the end; allowed {most}")?;
        }
        match self.faults.count() {
            0 => writeln!(f, "good: all counts agreed, none was early, none was later than the bound"),
            count => writeln!(f, "BAD: {count} did not hold, see above"),
        }
    }
}

pub(crate) fn in_words(lateness: &Lateness) -> String {
    let [p50, p99] = [0.5, 0.99].map(|share| lateness.quantile(share));
    format!("p50 {p50:.0?}, p99 {p99:.1?}, max {:.1?}", lateness.max())
}
