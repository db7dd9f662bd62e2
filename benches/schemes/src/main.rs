//! The seven timer schemes of Varghese and Lauck, and this crate's wheel, measured side by side. See the README.

mod chart;
mod curves;
mod load;
#[cfg(test)]
mod model;
mod report;
mod rule;
mod schemes;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use curves::Effort;
use tools::machine;

/// The seven timer schemes of Varghese and Lauck, and this crate's wheel, measured side by side.
#[derive(Parser)]
struct Options {
    /// A rougher run of some seconds that leaves the record alone
    #[arg(long)]
    quick: bool,
}

const FULL: Effort = Effort {
    sizes: &[10, 100, 1_000, 10_000, 100_000],
    passes: 3,
    time: Duration::from_millis(150),
    longest_lists: [100_000, 10_000],
};

const QUICK: Effort = Effort {
    sizes: &[10, 100, 1_000, 10_000],
    passes: 1,
    time: Duration::from_millis(30),
    longest_lists: [10_000, 1_000],
};

fn main() -> Result<(), Box<dyn Error>> {
    let Options { quick } = Options::parse();
    let effort = if quick { QUICK } else { FULL };
    let machine = machine::system();
    let clock = load::clock_cost();
    println!("{machine}");

    let points = curves::measure(effort, clock);
    let table = report::curves_table(&points, effort.sizes);
    print!("{table}");

    let means: Vec<u32> = (4..=16).step_by(if quick { 2 } else { 1 }).map(|power| 1 << power).collect();
    let rule = rule::measure(&means, if quick { 1 } else { 5 }, effort.time / 2, clock);
    let check = report::rule_table(&rule);
    print!("{check}");

    // Also when it is not kept, so that a quick run shows that it can be drawn.
    let chart = chart::draw(&points, effort.sizes, &format!("{machine}; {}", machine::today()));
    if !quick {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        fs::create_dir_all(&results)?;
        fs::write(results.join("report.txt"), format!("{machine}\n{table}{check}"))?;
        fs::write(results.join("schemes.csv"), report::curves_csv(&points, &machine)?)?;
        fs::write(results.join("rule.csv"), report::rule_csv(&rule, &machine)?)?;
        fs::write(results.join("schemes.svg"), chart)?;
        println!("\nwrote report.txt, schemes.csv, rule.csv and schemes.svg to {}", results.display());
    }
    Ok(())
}
