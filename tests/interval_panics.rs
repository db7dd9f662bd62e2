//! The panic of an interval with a zero period is reported at the caller's line. This test has a process of its own,
//! because a panic hook belongs to the whole process.

use std::panic::{self, Location};
use std::sync::{Arc, Mutex};

use hairspring::{Duration, Instant, Timer, boot, interval, interval_at, wall};

#[track_caller]
fn here() -> u32 {
    Location::caller().line()
}

type Call = fn(&Timer, Instant) -> (u32, bool);

fn panics<T>(call: impl FnOnce() -> T) -> bool {
    panic::catch_unwind(panic::AssertUnwindSafe(call)).is_err()
}

#[test]
fn an_interval_without_period_panics_at_its_callers_line() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _guard = runtime.enter();
    let timer = Timer::current();
    let start = Instant::now();
    let reported = Arc::new(Mutex::new(None));
    let report = reported.clone();
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload().downcast_ref::<&str>().copied().unwrap_or_default().to_owned();
        let place = info.location().map(|location| (location.file().to_owned(), location.line()));
        *report.lock().unwrap() = Some((message, place));
    }));
    let calls: [Call; 6] = [
        |_, _| (here(), panics(|| interval(Duration::ZERO))),
        |_, start| (here(), panics(|| interval_at(start, Duration::ZERO))),
        |timer, _| (here(), panics(|| timer.interval(Duration::ZERO))),
        |timer, start| (here(), panics(|| timer.interval_at(start, Duration::ZERO))),
        |_, _| (here(), panics(|| boot::interval(Duration::ZERO))),
        |_, _| (here(), panics(|| wall::interval_aligned(Duration::ZERO))),
    ];
    let outcomes = calls.map(|call| (call(&timer, start), reported.lock().unwrap().take()));
    panic::set_hook(before);
    for ((line, panicked), report) in outcomes {
        assert!(panicked);
        let expected = ("`period` must be non-zero.".to_owned(), Some((file!().to_owned(), line)));
        assert_eq!(report, Some(expected));
    }
}
