// The program that `main.rs` compiles twice. It says `time` for whichever of the two it is compiled on.

use std::pin::pin;

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
