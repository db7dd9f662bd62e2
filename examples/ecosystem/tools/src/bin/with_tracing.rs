//! A `tracing` subscriber that prints the span of each sleep, with the line that created it.

use std::time::Duration;

use hairspring::sleep;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{self, format::FmtSpan};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[tokio::main]
async fn main() {
    let lines = fmt::layer().with_ansi(false).with_span_events(FmtSpan::CLOSE);
    let only_timers = Targets::new().with_target("hairspring", LevelFilter::TRACE);
    tracing_subscriber::registry().with(lines).with(only_timers).init();
    sleep(Duration::from_millis(20)).await;
}
