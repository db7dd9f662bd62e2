//! Moving from `tokio::time` to `hairspring`: one program, compiled on each, with one `use` line differing.
//!
//! The program is `program.rs`, next to this file. What it does has to come out the same on both; how long it took is
//! printed side by side. Exits with 1 where the two disagree.
//!
//! ```text
//! cargo run --release --example migrate
//! ```

mod on_tokio {
    use tokio::time;

    include!("program.rs");
}

mod on_hairspring {
    use hairspring as time;

    include!("program.rs");
}

use std::process::ExitCode;
use std::time::Duration;

/// What one step of the program did, and how long it took.
struct Step {
    name: &'static str,
    result: String,
    took: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    // One after the other: neither is to be in the other's way.
    let before = on_tokio::run().await;
    let after = on_hairspring::run().await;
    print_side_by_side(&before, &after);

    let agree = before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| a.result == b.result);
    println!("{}", if agree { "\nthe same results on both" } else { "\nBAD: the results differ" });
    if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_side_by_side(before: &[Step], after: &[Step]) {
    println!("{:28} {:32} {:32}", "", "tokio::time", "hairspring");
    for (a, b) in before.iter().zip(after) {
        let [left, right] = [a, b].map(|step| format!("{} in {:.1?}", step.result, step.took));
        println!("{:28} {left:32} {right:32}", a.name);
    }
}
