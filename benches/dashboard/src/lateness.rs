//! Lateness in the last few seconds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tools::Histogram;

use crate::readings::WINDOW;

/// One histogram of nanoseconds for each of the last few seconds.
#[derive(Clone, Default)]
pub(crate) struct Lateness(Arc<Mutex<Seconds>>);

type Seconds = VecDeque<(Instant, Histogram<u64>)>;

impl Lateness {
    /// The baseline: a plain thread that sleeps again and again.
    pub(crate) fn of_a_plain_thread() -> Self {
        let lateness = Lateness::default();
        let record = lateness.clone();
        thread::spawn(move || {
            loop {
                let (start, time) = (Instant::now(), Duration::from_millis(5));
                thread::sleep(time);
                record.record([start.elapsed().saturating_sub(time)]);
            }
        });
        lateness
    }

    pub(crate) fn record(&self, late: impl IntoIterator<Item = Duration>) {
        let mut seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seconds.back().is_none_or(|(start, _)| start.elapsed().as_secs() > 0) {
            seconds.push_back((Instant::now(), histogram()));
        }
        let (_, latest) = seconds.back_mut().expect("one was added");
        late.into_iter().for_each(|late| latest.saturating_record(late.as_nanos() as u64));
    }

    pub(crate) fn recent(&self) -> Histogram<u64> {
        let mut seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seconds.retain(|(start, _)| start.elapsed() < WINDOW);
        let mut sum = histogram();
        seconds.iter().for_each(|(_, second)| sum.add(second).expect("they have the same bounds"));
        sum
    }
}

/// From a nanosecond to a minute, with two significant digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are valid")
}
