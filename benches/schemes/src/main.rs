//! The seven timer schemes of Varghese and Lauck and this crate's wheel, measured side by side. See the README.

mod curves;
mod population;
mod schemes;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use clap::Parser;
use tools::machine;

/// Measures the seven timer schemes of Varghese and Lauck and this crate's wheel side by side.
#[derive(Parser)]
struct Options {
    /// Measures roughly, in a few seconds, and stores nothing
    #[arg(long)]
    quick: bool,
}

fn main() -> io::Result<()> {
    let Options { quick } = Options::parse();
    let (sizes, passes, millis) = if quick { (3, 1, 20) } else { (5, 3, 150) };
    let sizes = &[10, 100, 1_000, 10_000, 100_000][..sizes];
    let machine = machine::system();
    let curves = curves::measure(sizes, passes, Duration::from_millis(millis));
    let report = format!("{machine}\n{}", curves::tables(&curves, sizes));
    print!("{report}");
    let chart = curves::draw(&curves, sizes, &format!("{machine}; {}", machine::today()));
    if !quick {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        fs::write(results.join("report.txt"), report)?;
        fs::write(results.join("schemes.svg"), chart)?;
        println!("\nwrote report.txt and schemes.svg to {}", results.display());
    }
    Ok(())
}
