//! A worker: handles the jobs of a queue until Ctrl-C or `SIGTERM`. For each it prints a line with the job, its token, its
//! deadline and when the work began, and then works for a while.
//!
//! ```text
//! cargo run -- redis://127.0.0.1:6379 mails
//! ```

use std::env;
use std::error::Error;
use std::future::Future;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hairspring::sleep;
use shared_deadlines::{Job, Queue, Worker};
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "Usage: shared_deadlines URL QUEUE [LEASE [WORK]]

  URL     of the Redis server, such as redis://127.0.0.1:6379
  QUEUE   the name of the queue
  LEASE   how long a worker that Redis does not hear from keeps its jobs, in milliseconds; 10000 by default
  WORK    how long the work for a job takes, in milliseconds; 0 by default";

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (Some([url, name]), Some(numbers), true) = (arguments.get(..2), arguments.get(2..), arguments.len() <= 4)
    else {
        eprintln!("{USAGE}");
        return Ok(ExitCode::from(2));
    };
    let mut numbers = numbers.iter().map(|number| number.parse().map(Duration::from_millis));
    let lease = numbers.next().unwrap_or(Ok(Duration::from_secs(10)))?;
    let work = numbers.next().unwrap_or(Ok(Duration::ZERO))?;

    let queue = Queue::open(url, name, lease)?;
    let worker = Worker { queue, window: Duration::from_secs(60), batch: 10, held: 10_000 };
    worker.run(move |job| handle(job, work), stopped()?).await;
    Ok(ExitCode::SUCCESS)
}

async fn handle(job: Job, work: Duration) {
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    println!("{} {} {} {begun}", job.name, job.token, job.deadline);
    sleep(work).await;
}

fn stopped() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    })
}
