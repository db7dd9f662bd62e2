//! A client with retries: the crate `backon` for the pauses, a limit for each attempt, and a deadline for the whole
//! call. A day of it runs in an instant.
//!
//! The server refuses one request in four, and hangs in every eighth hour. `fetch` is ordinary code, and does not know
//! that a bubble controls the clock. A run with one worker and a run with four leave the same trace, to the nanosecond.
//! Exits with 1 if they differ.
//!
//! ```text
//! cargo run --release --features test-util --example retry_with_backoff
//! ```

use std::future::pending;
use std::io::{self, ErrorKind};
use std::process::ExitCode;
use std::sync::Mutex;

use backon::{ExponentialBuilder, Retryable};
use hairspring::test_util::Bubble;
use hairspring::{Deadline, Duration, Instant, sleep};

const ATTEMPT: Duration = Duration::from_secs(2);
/// They double, and a random part of each is added.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(400))
    .with_max_delay(Duration::from_secs(5))
    .without_max_times()
    .with_jitter();

/// Tries until there is an answer, a lasting error, or no time left.
async fn fetch(server: &Server, deadline: Deadline, pauses: ExponentialBuilder) -> io::Result<()> {
    let attempt = async || Deadline::after(ATTEMPT).named("attempt").limit(server.get()).await?;
    let is_transient = |error: &io::Error| matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::ConnectionRefused);
    deadline.limit(attempt.retry(pauses).sleep(sleep).when(is_transient)).await?
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Answered,
    Refused,
    Hung,
    DeadlineMissed,
}

/// The events, each with its time from the start.
type Trace = Vec<(Duration, Event)>;

struct Server {
    start: Instant,
    trace: Mutex<Trace>,
}

impl Server {
    /// Adds an event at the current time.
    fn record(&self, event: Event) {
        self.trace.lock().expect("no panic").push((self.start.elapsed(), event));
    }

    async fn get(&self) -> io::Result<()> {
        let number = self.trace.lock().expect("no panic").len() as u64;
        sleep(Duration::from_millis(5 + number * 37 % 300)).await;
        if self.start.elapsed().as_secs() / 3_600 % 8 == 7 {
            self.record(Event::Hung);
            return pending().await;
        }
        if number % 4 == 3 {
            self.record(Event::Refused);
            return Err(ErrorKind::ConnectionRefused.into());
        }
        self.record(Event::Answered);
        Ok(())
    }
}

/// Calls the server every ten minutes for a day.
async fn client() -> Trace {
    let server = Server { start: Instant::now(), trace: Mutex::default() };
    for call in 0..24 * 6 {
        sleep(Duration::from_secs(600)).await;
        let deadline = Deadline::after(Duration::from_secs(15)).named("call");
        // With a seed, the random parts are the same in both runs.
        if let Err(error) = fetch(&server, deadline, PAUSES.with_jitter_seed(call)).await {
            assert_eq!(error.to_string(), "the deadline `call` has passed");
            server.record(Event::DeadlineMissed);
        }
    }
    server.trace.into_inner().expect("no panic")
}

/// Runs the client in a bubble. Time jumps ahead whenever all tasks wait.
fn run(workers: usize) -> Trace {
    Bubble::new().workers(workers).run(|| async { tokio::spawn(client()).await.expect("the client does not panic") })
}

fn main() -> ExitCode {
    let (one, four) = (run(1), run(4));
    for (at, event) in one.iter().take(12) {
        println!("{:>10.3} s  {event:?}", at.as_secs_f64());
    }
    let count = |wanted| one.iter().filter(|(_, event)| *event == wanted).count();
    let counts = [Event::Answered, Event::Refused, Event::Hung, Event::DeadlineMissed].map(count);
    println!("... {} events in a day", one.len());
    println!(
        "{} answers, {} refusals, {} hung requests, {} missed deadlines",
        counts[0], counts[1], counts[2], counts[3]
    );
    let is_good = one == four && !counts.contains(&0);
    println!("{}", if is_good { "good: both runs leave the same trace" } else { "BAD: the traces differ" });
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
