//! A client with retries, a limit for each attempt and a deadline for each request, run over a day in an instant.
//!
//! A server refuses one request in four, and hangs in every eighth hour. The client gives each attempt a limit, tries
//! again after a pause that doubles, and gives the whole request a deadline. All of it is ordinary code with `sleep`,
//! `timeout` and `Instant`; nothing in it knows that the clock is paused. Two runs leave the same trace, to the
//! nanosecond, on one worker and on four; exits with 1 if they do not.
//!
//! ```text
//! cargo run --release --features test-util --example retry_with_backoff
//! ```

use std::process::ExitCode;

use hairspring::{Duration, Instant, sleep, timeout};
use tokio::runtime::Builder;

const DAY: Duration = Duration::from_secs(86_400);
/// How long the client pauses between requests.
const PAUSE: Duration = Duration::from_secs(600);
/// How long a request may take, with all its attempts.
const DEADLINE: Duration = Duration::from_secs(15);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(2);
/// The first pause before another attempt. Each one after it is twice as long, up to the longest.
const FIRST_BACKOFF: Duration = Duration::from_millis(400);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let (one, four) = (run(1), run(4));
    for (at, what) in one.iter().take(12) {
        println!("{:>6} s  {what:?}", at.as_secs());
    }
    let count = |wanted| one.iter().filter(|(_, what)| *what == wanted).count();
    println!("... {} events in a day", one.len());
    println!("{} answers, {} refusals, {} attempts timed out", count(Answered), count(Refused), count(TimedOut));
    println!("{} requests missed their deadline", count(DeadlineMissed));
    let is_good = one == four && count(Answered) > 0 && count(DeadlineMissed) > 0;
    println!("{}", if is_good { "good: two runs, and one trace" } else { "BAD: the traces differ" });
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

use What::{Answered, DeadlineMissed, Refused, TimedOut};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Answered,
    Refused,
    TimedOut,
    DeadlineMissed,
}

/// What happened, and when, counted from the start.
type Trace = Vec<(Duration, What)>;

/// Runs a day on a runtime of its own, whose clock is paused: time jumps ahead whenever all tasks wait.
fn run(workers: usize) -> Trace {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        hairspring::pause();
        let client = Client { start: Instant::now(), asked: 0, trace: Trace::new() };
        tokio::spawn(client.work()).await.expect("the client does not panic")
    })
}

struct Client {
    start: Instant,
    asked: u32,
    trace: Trace,
}

impl Client {
    async fn work(mut self) -> Trace {
        while self.start.elapsed() < DAY {
            sleep(PAUSE).await;
            // What is still under way at the deadline is dropped: the attempt, or the pause before the next.
            if timeout(DEADLINE, self.request()).await.is_err() {
                self.trace.push((self.start.elapsed(), DeadlineMissed));
            }
        }
        self.trace
    }

    /// Tries until there is an answer.
    async fn request(&mut self) {
        let mut backoff = FIRST_BACKOFF;
        loop {
            self.asked += 1;
            let outcome = timeout(ATTEMPT, server(self.start.elapsed(), self.asked)).await.unwrap_or(TimedOut);
            self.trace.push((self.start.elapsed(), outcome));
            if outcome == Answered {
                return;
            }
            sleep(backoff).await;
            backoff = (backoff * 2).min(LONGEST_BACKOFF);
        }
    }
}

/// What becomes of a request that is sent at this time.
async fn server(time: Duration, number: u32) -> What {
    sleep(Duration::from_millis(5 + u64::from(number) * 37 % 300)).await;
    if time.as_secs() / 3_600 % 8 == 7 {
        std::future::pending::<()>().await;
    }
    if number % 4 == 0 { Refused } else { Answered }
}
