//! Moving from `tokio::time` to `hairspring`: one program, compiled on each, with one `use` line differing.
//!
//! What it does has to come out the same on both; how long it took is printed side by side. Exits with 1 if the two
//! disagree.
//!
//! ```text
//! cargo run --release --example migrate
//! ```

use std::process::ExitCode;
use std::time::Duration;

/// What one step of the program did, and how long it took.
struct Step {
    name: &'static str,
    result: String,
    took: Duration,
}

/// The program. It says `time` for whichever of the two it is compiled on.
macro_rules! program {
    ($($time:ident)::+) => {
        use std::pin::pin;

        use $($time)::+ as time;
        use time::{Duration, Instant, MissedTickBehavior, interval, sleep, timeout};

        use super::Step;

        pub(super) async fn run() -> Vec<Step> {
            vec![
                step("20 sleeps of 250 us", short_sleeps()).await,
                step("a call within its limit", call(Duration::from_millis(1))).await,
                step("a call beyond its limit", call(Duration::from_secs(60))).await,
                step("a sleep, moved nearer", moved_sleep()).await,
                step("5 ticks, 10 ms apart", ticks()).await,
            ]
        }

        async fn step(name: &'static str, work: impl Future<Output = String>) -> Step {
            let start = Instant::now();
            let result = work.await;
            Step { name, result, took: start.elapsed() }
        }

        async fn short_sleeps() -> String {
            for _ in 0..20 {
                sleep(Duration::from_micros(250)).await;
            }
            "done".to_string()
        }

        async fn call(takes: Duration) -> String {
            let service = async {
                sleep(takes).await;
                "answered"
            };
            match timeout(Duration::from_millis(300), service).await {
                Ok(answer) => answer.to_string(),
                Err(elapsed) => elapsed.to_string(),
            }
        }

        async fn moved_sleep() -> String {
            let mut sleep = pin!(sleep(Duration::from_secs(60)));
            sleep.as_mut().reset(Instant::now() + Duration::from_millis(20));
            sleep.as_mut().await;
            format!("elapsed: {}", sleep.is_elapsed())
        }

        async fn ticks() -> String {
            let mut interval = interval(Duration::from_millis(10));
            interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let first = interval.tick().await;
            let mut last = first;
            for _ in 0..5 {
                last = interval.tick().await;
            }
            // Not how far apart exactly: a machine that is busy may have had ticks skipped.
            format!("on time: {}", last - first >= Duration::from_millis(50))
        }
    };
}

mod on_tokio {
    program!(tokio::time);
}

mod on_hairspring {
    program!(hairspring);
}

#[tokio::main]
async fn main() -> ExitCode {
    // One after the other: neither is to be in the other's way.
    let before = on_tokio::run().await;
    let after = on_hairspring::run().await;
    println!("{:28} {:32} {:32}", "", "tokio::time", "hairspring");
    for (a, b) in before.iter().zip(&after) {
        let [left, right] = [a, b].map(|step| format!("{} in {:.1?}", step.result, step.took));
        println!("{:28} {left:32} {right:32}", a.name);
    }
    let agree = before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| a.result == b.result);
    println!("{}", if agree { "\ngood: the same results on both" } else { "\nBAD: the results differ" });
    if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
