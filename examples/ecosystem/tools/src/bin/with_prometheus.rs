//! A program that a Prometheus server scrapes. Sends the server each query in the comments of `prometheus/alarms.yml`,
//! and checks the answers.
//!
//! Needs `promtool`, and a server with `prometheus/prometheus.yml` on port 9465, as `run` starts it.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{mem, thread};

use hairspring::timer::Reporter;
use hairspring::{DeadlineMap, Timer, sleep, timeout};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::runtime;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long a query may take to give the expected answer.
const HUNG: Duration = Duration::from_mins(2);
const REPORTS: Duration = Duration::from_millis(100);

const ALARMS: &str = include_str!("../../../prometheus/alarms.yml");

fn main() -> Result<()> {
    let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, 9464));
    PrometheusBuilder::new()
        .with_http_listener(metrics)
        .set_buckets_for_metric(Matcher::Full(Reporter::LATENESS.into()), Reporter::LATENESS_BUCKETS)?
        .install()?;
    let main = runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    main.spawn(work());
    let stuck = runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    stuck.spawn(async {
        tokio::spawn(Timer::current().reporter("stuck").run(REPORTS));
        sleep(10 * REPORTS).await;
        thread::sleep(HUNG); // blocks the only worker
    });
    mem::forget(stuck); // dropping it would wait for the task

    wait_for("up == 1")?;
    wait_for("hairspring_entries_inserted_total > 100")?;
    // The counts of the stuck runtime no longer change, so they must balance.
    wait_for(
        r#"hairspring_sleeps_registered_total{name="stuck"} - hairspring_sleeps_fired_total
            - hairspring_sleeps_cancelled_total - hairspring_sleeps_pending == 0"#,
    )?;
    wait_for(r#"count({__name__=~"hairspring_.*", name="main"}) == 27"#)?;
    let expected = [
        ("On time", "<= 1"),
        ("Quantile", "> 0"),
        ("Waiting", ">= 50"),
        ("Refused", "== 0"),
        ("Fired", "< 1"),
        ("Turns", "> 0"),
        ("Entries", ">= 100"),
        ("Expired", "> 0"),
        ("Stuck", "== 1"),
    ];
    let queries = queries();
    assert!(queries.iter().map(|(name, _)| name).eq(expected.iter().map(|(name, _)| name)), "{queries:?}");
    for ((name, query), (_, condition)) in queries.iter().zip(expected) {
        println!("{name}: {}", wait_for(&format!("({query}) {condition}"))?);
    }
    println!("good: Prometheus answers as expected");
    Ok(())
}

/// Timeouts that never expire, 50 sleeps that keep waiting, and sessions: 100 that stay, and others that expire.
async fn work() {
    tokio::spawn(Timer::current().reporter("main").run(REPORTS));
    let (sessions, mut expirations) = DeadlineMap::new();
    for session in 0..100 {
        sessions.insert(session, (), 10 * HUNG);
    }
    tokio::spawn(sessions.reporter("sessions").run(REPORTS));
    tokio::spawn(async move { while expirations.recv().await.is_some() {} });
    for _ in 0..50 {
        tokio::spawn(sleep(10 * HUNG));
    }
    for session in 100.. {
        sessions.insert(session, (), REPORTS);
        sleep(Duration::from_millis(5)).await;
        for _ in 0..10 {
            // The first poll is pending, which registers the timer.
            let _ = timeout(HUNG, tokio::task::yield_now()).await;
        }
    }
}

/// The queries in the comments, each with its name: what comes before the first colon of its paragraph.
fn queries() -> Vec<(&'static str, String)> {
    let paragraphs = ALARMS.split("\n#\n").skip(1);
    let found = paragraphs.filter_map(|paragraph| {
        let (name, _) = paragraph.strip_prefix("# ")?.split_once(':')?;
        let query: Vec<&str> = paragraph.lines().filter_map(|line| line.strip_prefix("#     ")).collect();
        Some((name, query.join("\n")))
    });
    found.collect()
}

/// Repeats a query until the answer is one number.
fn wait_for(query: &str) -> Result<String> {
    let start = Instant::now();
    while start.elapsed() < HUNG {
        let answer = Command::new("promtool").args(["query", "instant", "http://127.0.0.1:9465", query]).output()?;
        // A line for each series, such as `{name="main"} => 50 @[1700000000]`.
        let answer = String::from_utf8(answer.stdout)?;
        if let [_, value] = answer.trim().split(" => ").collect::<Vec<_>>()[..] {
            return Ok(value.split(' ').take(1).collect());
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(format!("`{query}` has no answer").into())
}
