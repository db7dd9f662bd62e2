//! A worker: prints the jobs of a queue at their deadlines, until Ctrl-C or `SIGTERM`.
//!
//! ```text
//! cargo run -- redis://127.0.0.1:6379 mails
//! ```

use std::env;
use std::error::Error;
use std::time::Duration;

use shared_deadlines::{Job, Queue, Worker};
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, name] = &arguments[..] else { return Err("usage: shared_deadlines URL QUEUE".into()) };
    let queue = Queue::open(url, name, Duration::from_secs(10))?;
    let worker = Worker { queue, window: Duration::from_secs(60), batch: 10, held: 10_000 };
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async {
        tokio::select! {
            _ = ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    worker.run(handle, stop).await;
    Ok(())
}

async fn handle(job: Job) {
    println!("{job:?}");
}
