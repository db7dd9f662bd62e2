//! What happens with many workers and many timers: see "Many workers" in `docs/performance.md`.

mod population;
mod steps;

use std::env;

const HELP: &str = "Usage: scale turns CONTENDER WORKERS | pending CONTENDER SIZE (hairspring or tokio)";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match *arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["turns", contender, workers] => steps::run(contender == "hairspring", workers.parse().expect(HELP)),
        ["marks"] => println!("{}", steps::MARKS.0.as_ptr().addr()),
        ["pending", "hairspring", size] => population::run(size, |at| hairspring::sleep_until(at.into())),
        ["pending", "tokio", size] => population::run(size, |at| Box::pin(tokio::time::sleep_until(at.into()))),
        _ => println!("{HELP}"),
    }
}
