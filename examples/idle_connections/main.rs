//! A server that holds many connections and closes those that fall silent.
//!
//! Every read on the server is under a `hairspring::timeout`. The clients, in the same process, send heartbeats; every
//! tenth falls silent at a random moment, and the server has to close it once the idle limit has passed: that one, not
//! before, and no other. The program prints a line each second and a report, and exits with 1 where a silent connection
//! was missed or a live one was closed.
//!
//! ```text
//! cargo run --release --example idle_connections
//! cargo run --release --example idle_connections -- --connections 200 --seconds 2 --idle-ms 300
//! cargo run --release --example idle_connections -- --help
//! ```

mod clients;
mod jitter;
mod open_files;
mod options;
mod report;
mod server;
mod tally;

use std::io;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::options::Options;
use crate::report::Report;
use crate::tally::Tally;

#[tokio::main]
async fn main() -> ExitCode {
    let options = options::read();
    match run(options).await {
        Ok(report) => {
            print!("{report}");
            if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}{}", open_files::advice_on(&error));
            ExitCode::FAILURE
        }
    }
}

/// Runs the server and its clients until the last client is done.
async fn run(options: Options) -> io::Result<Report> {
    let options = open_files::fit(options)?;
    println!("{options}");

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let tally = Arc::new(Tally::default());
    let progress = tokio::spawn(report::show_progress(Arc::clone(&tally)));
    // Whichever fails first ends both: a server that cannot accept would leave its clients waiting.
    let (endings, outcomes) =
        tokio::try_join!(server::serve(&listener, options, &tally), clients::run(address, options, &tally))?;
    progress.abort();
    Ok(Report::new(&endings, &outcomes, &tally))
}
