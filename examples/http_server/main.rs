//! An HTTP server that cuts off slow and silent clients, on hyper with hairspring's timer.
//!
//! hyper's `header_read_timeout` limits how long a client may take for a request's header and how long it may be silent
//! between requests; each handler is under a `hairspring::timeout`. The clients, in the same process, are of three kinds:
//! well-behaved ones send thousands of requests over connections that they keep, slow ones send their header a byte at
//! a time, silent ones say nothing, or nothing more after a request. The program prints a report, and exits with 1 where
//! a well-behaved client was cut off or a slow or silent one was not.
//!
//! ```text
//! cargo run --release --features hyper --example http_server
//! cargo run --release --features hyper --example http_server -- --clients 50 --seconds 2 --limit-ms 300
//! cargo run --release --features hyper --example http_server -- --help
//! ```

mod clients;
mod options;
mod report;
mod server;

use std::io;
use std::net::Ipv4Addr;
use std::process::ExitCode;

use tokio::net::TcpListener;

use crate::options::Options;
use crate::report::Report;

#[tokio::main]
async fn main() -> ExitCode {
    let options = options::read();
    match run(options).await {
        Ok(report) => {
            print!("{report}");
            if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}\nWhere that is the limit on open files: each client takes two.");
            ExitCode::FAILURE
        }
    }
}

/// Runs the server and its clients until the last connection has ended.
async fn run(options: Options) -> io::Result<Report> {
    println!("{options}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    // Whichever fails first ends both: a server that cannot accept would leave its clients waiting.
    let (endings, outcomes) = tokio::try_join!(server::serve(&listener, options), clients::run(address, options))?;
    Ok(Report::new(options, &endings, &outcomes))
}
