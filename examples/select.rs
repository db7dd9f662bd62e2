//! A sleep in `tokio::select!`, awaited again and again as `&mut sleep`, without pinning, and moved on activity.
//!
//! A worker takes messages until none has come for a while. The sleep is made once: each message moves it. Exits with 1
//! if a message was lost or the worker gave up too early.
//!
//! ```text
//! cargo run --release --example select
//! ```

use std::process::ExitCode;

use hairspring::{Duration, Instant, sleep};
use tokio::sync::mpsc::{Receiver, Sender, channel};

const MESSAGES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(100);
const QUIET_LIMIT: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    let (sender, receiver) = channel(8);
    let sending = tokio::spawn(send_then_fall_quiet(sender));
    let work = work_until_quiet(receiver).await;
    sending.abort();

    println!("{} messages, then quiet for {:.1?}", work.messages, work.quiet);
    let is_good = work.messages == MESSAGES && work.quiet >= QUIET_LIMIT;
    println!("{}", if is_good { "good: all were taken, and the limit was kept" } else { "BAD: gave up too early" });
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Work {
    messages: u32,
    /// How long it was quiet in the end.
    quiet: Duration,
}

async fn work_until_quiet(mut receiver: Receiver<u32>) -> Work {
    let start = Instant::now();
    let mut last = start;
    let mut messages = 0;
    let mut quiet = sleep(QUIET_LIMIT);
    loop {
        tokio::select! {
            // In this order: a message that has come counts, even if the limit has passed as well.
            biased;
            Some(message) = receiver.recv() => {
                last = Instant::now();
                messages += 1;
                println!("{:>4} ms: message {message}", (last - start).as_millis());
                // One sleep for the whole loop. There is no new one to be made, and none to be pinned.
                quiet.reset_at(last + QUIET_LIMIT);
            }
            () = &mut quiet => {
                println!("{:>4} ms: quiet", start.elapsed().as_millis());
                return Work { messages, quiet: last.elapsed() };
            }
        }
    }
}

/// Keeps the channel open at the end, so that only the limit can end the work.
async fn send_then_fall_quiet(sender: Sender<u32>) {
    for message in 1..=MESSAGES {
        sleep(PAUSE).await;
        if sender.send(message).await.is_err() {
            return;
        }
    }
    std::future::pending::<()>().await;
}
