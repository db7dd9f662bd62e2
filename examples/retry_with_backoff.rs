//! A client with retries, a limit for each attempt and a deadline for each request. A day of it runs in an instant.
//!
//! The server refuses one request in four, and hangs in every eighth hour. The client is ordinary code with `sleep` and
//! `timeout`, and does not know that the clock is paused. A run with one worker and a run with four leave the same
//! trace, to the nanosecond. Exits with 1 if they differ.
//!
//! ```text
//! cargo run --release --features test-util --example retry_with_backoff
//! ```

use std::process::ExitCode;

use hairspring::test_util::Bubble;
use hairspring::{Duration, Instant, sleep, timeout};

const DAY: Duration = Duration::from_secs(86_400);
/// The client's pause between requests.
const PAUSE: Duration = Duration::from_secs(600);
/// The limit for a request with all its attempts.
const DEADLINE: Duration = Duration::from_secs(15);
/// The limit for one attempt.
const ATTEMPT: Duration = Duration::from_secs(2);
/// The pause before the second attempt. It doubles with each further attempt, up to `LONGEST_BACKOFF`.
const FIRST_BACKOFF: Duration = Duration::from_millis(400);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let (one, four) = (run(1), run(4));
    for (at, event) in one.iter().take(12) {
        println!("{:>6} s  {event:?}", at.as_secs());
    }
    let count = |wanted| one.iter().filter(|(_, event)| *event == wanted).count();
    let counts = [Event::Answered, Event::Refused, Event::TimedOut, Event::DeadlineMissed].map(count);
    println!("... {} events in a day", one.len());
    println!("{} answers, {} refusals, {} timeouts, {} missed deadlines", counts[0], counts[1], counts[2], counts[3]);
    let is_good = one == four && !counts.contains(&0);
    println!("{}", if is_good { "good: both runs leave the same trace" } else { "BAD: the traces differ" });
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Answered,
    Refused,
    TimedOut,
    DeadlineMissed,
}

/// The events, each with its time from the start.
type Trace = Vec<(Duration, Event)>;

/// Runs a day in a bubble. Time jumps ahead whenever all tasks wait.
fn run(workers: usize) -> Trace {
    Bubble::new().workers(workers).run(|| async { tokio::spawn(client()).await.expect("the client does not panic") })
}

async fn client() -> Trace {
    let (start, mut attempts, mut trace) = (Instant::now(), 0, Trace::new());
    while start.elapsed() < DAY {
        sleep(PAUSE).await;
        // At the deadline, the current attempt or pause is dropped.
        if timeout(DEADLINE, request(start, &mut attempts, &mut trace)).await.is_err() {
            trace.push((start.elapsed(), Event::DeadlineMissed));
        }
    }
    trace
}

/// Tries until it gets an answer.
async fn request(start: Instant, attempts: &mut u64, trace: &mut Trace) {
    let mut backoff = FIRST_BACKOFF;
    loop {
        *attempts += 1;
        let event = timeout(ATTEMPT, server(start.elapsed(), *attempts)).await.unwrap_or(Event::TimedOut);
        trace.push((start.elapsed(), event));
        if event == Event::Answered {
            return;
        }
        sleep(backoff).await;
        backoff = (backoff * 2).min(LONGEST_BACKOFF);
    }
}

async fn server(time: Duration, number: u64) -> Event {
    sleep(Duration::from_millis(5 + number * 37 % 300)).await;
    if time.as_secs() / 3_600 % 8 == 7 {
        std::future::pending::<()>().await;
    }
    if number % 4 == 0 { Event::Refused } else { Event::Answered }
}
