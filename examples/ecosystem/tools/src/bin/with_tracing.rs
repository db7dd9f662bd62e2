//! A subscriber of `tracing` that prints what sleeps wait for, and where they were made.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hairspring::sleep;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{self, MakeWriter, format::FmtSpan};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What was printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Printed {
    type Writer = Printed;

    fn make_writer(&'a self) -> Printed {
        self.clone()
    }
}

#[tokio::main]
async fn main() {
    let printed = Printed::default();
    let lines = fmt::layer().with_ansi(false).with_span_events(FmtSpan::CLOSE).with_writer(printed.clone());
    let only_timers = Targets::new().with_target("hairspring", LevelFilter::TRACE);
    tracing_subscriber::registry().with(lines).with(only_timers).init();

    let line = line!() + 1;
    sleep(Duration::from_millis(20)).await;

    let printed = printed.0.lock().unwrap_or_else(PoisonError::into_inner);
    let printed = String::from_utf8_lossy(&printed);
    let resource = printed.lines().find(|line| line.contains("concrete_type=\"Sleep\"")).expect("a span of the sleep");
    assert!(resource.contains(&format!("loc.file={:?} loc.line={line} ", file!())), "{printed}");
    println!("{printed}good: the sleep's span names {} and line {line}", file!());
}
