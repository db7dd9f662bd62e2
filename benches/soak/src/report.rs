//! What is printed: a line at each point where all stand still, and the report.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hairspring::timer::Lateness;
use tools::machine::waited;

use crate::ledger::Counts;
use crate::memory::{ALLOWED, Memory};
use crate::set::Done;
use crate::waves::Soak;

/// How much did not hold.
#[derive(Debug, Default, Clone)]
pub(crate) struct Faults(Arc<AtomicUsize>);

impl Faults {
    pub(crate) fn add(&self, fault: &str) {
        // Past this many, only the first are of use.
        if self.0.fetch_add(1, Relaxed) < 20 {
            println!("BAD: {fault}");
        }
    }

    fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", (bytes + (1 << 19)) >> 20)
}

impl Soak {
    pub(crate) fn is_good(&self) -> bool {
        self.faults.count() == 0
    }
}

impl Display for Soak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Done) -> u64| self.sets.iter().map(|set| of(&set.done)).sum::<u64>();
        let (armed, reset, cancelled) = (sum(|done| done.armed), sum(|done| done.reset), sum(|done| done.cancelled));
        let (fired, polled) = (sum(|done| done.fired), sum(|done| done.polled));
        let metrics = self.timer.metrics();
        let [sleeps, timeouts, dropped] =
            [&self.awaited.sleeps, &self.awaited.timeouts, &self.awaited.dropped].map(|count| count.load(Relaxed));
        writeln!(f, "\n{} waves in {:.0?}, {} stops; {}", self.waves, self.start.elapsed(), self.stops, self.options)?;
        writeln!(f, "polled by hand  {armed} armed, {reset} reset, {cancelled} cancelled, {fired} fired")?;
        writeln!(f, "                {polled} polled at random, {} pending at most", self.peak)?;
        writeln!(f, "in tasks        {sleeps} sleeps and {timeouts} timeouts ended, {dropped} dropped")?;
        writeln!(f, "the ledger      {}", self.ledger.count())?;
        writeln!(f, "the metrics     {}", Counts::of(&metrics))?;
        writeln!(f, "                {} turns, {} cascaded", metrics.turns(), metrics.cascaded())?;
        writeln!(
            f,
            "early           {}, woken twice {}",
            self.ledger.early.load(Relaxed),
            self.ledger.woken_twice.load(Relaxed)
        )?;
        writeln!(f, "late            {}", in_words(metrics.lateness()))?;
        if let Some(waited) = waited() {
            writeln!(f, "                threads waited {waited:.1?} for a processor, all together")?;
        }
        let Memory { held, left, resident } = self.memory;
        let [held, left, allowed, resident] = [held, left, ALLOWED, resident].map(mebibytes);
        writeln!(f, "memory          {held} held at most, {left} while none was pending; allowed {allowed}")?;
        writeln!(f, "                {resident} resident at most")?;
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
