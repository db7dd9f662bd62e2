//! A program that a Prometheus server scrapes. Sends the server each query of docs/operating.md, and checks the answers.
//!
//! Needs the programs `prometheus` and `promtool`, both in Debian's package `prometheus`.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, mem, process, thread};

use hairspring::timer::Reporter;
use hairspring::{DeadlineMap, Timer, sleep, timeout};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::runtime;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long a query may take to give the expected answer.
const HUNG: Duration = Duration::from_mins(2);
const REPORTS: Duration = Duration::from_millis(100);
/// Sleeps that wait as long as the program runs.
const KEPT: u64 = 50;
/// Sessions that do not expire.
const SESSIONS: u64 = 100;

const PAGE: &str = include_str!("../../../../../docs/operating.md");

fn main() -> Result<()> {
    let metrics = free_address()?;
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
        thread::sleep(HUNG); // as no task should
    });
    mem::forget(stuck); // dropping it would wait for the task

    let server = Server::start(metrics)?;
    server.wait_for("up == 1")?;
    server.wait_for(&format!("hairspring_entries_inserted_total > {SESSIONS}"))?;
    // The counts of the stuck runtime stand still, so they must balance.
    server.wait_for(
        r#"hairspring_registered_total{timer="stuck"} - hairspring_fired_total - hairspring_cancelled_total
            - hairspring_pending == 0"#,
    )?;
    server.wait_for(r#"count({__name__=~"hairspring_.*", timer="main"}) == 27"#)?;
    let expected = [
        ("On time", "<= 1".to_owned()),
        ("Quantile", "> 0".to_owned()),
        ("Waiting", format!(">= {KEPT}")),
        ("Refused", "== 0".to_owned()),
        ("Fired", "< 1".to_owned()),
        ("Turns", "> 0".to_owned()),
        ("Entries", format!(">= {SESSIONS}")),
        ("Expired", "> 0".to_owned()),
        ("Stuck", "== 1".to_owned()),
    ];
    let queries = queries();
    assert!(queries.iter().map(|(name, _)| name).eq(expected.iter().map(|(name, _)| name)), "{queries:?}");
    for ((name, query), (_, condition)) in queries.iter().zip(expected) {
        println!("{name}: {}", server.wait_for(&format!("({query}) {condition}"))?);
    }
    println!("good: Prometheus answers as expected");
    Ok(())
}

/// Timeouts that never expire, sleeps that keep waiting, and sessions, some of which expire.
async fn work() {
    tokio::spawn(Timer::current().reporter("main").run(REPORTS));
    let (sessions, mut expirations) = DeadlineMap::builder().name("sessions").build().expect("the defaults");
    for session in 0..SESSIONS {
        sessions.insert(session, (), 10 * HUNG);
    }
    tokio::spawn(sessions.reporter("").run(REPORTS));
    tokio::spawn(async move { while expirations.recv().await.is_some() {} });
    for _ in 0..KEPT {
        tokio::spawn(sleep(10 * HUNG));
    }
    for session in SESSIONS.. {
        sessions.insert(session, (), REPORTS);
        sleep(Duration::from_millis(5)).await;
        for _ in 0..10 {
            // The first poll is pending, which registers the timer.
            let _ = timeout(HUNG, tokio::task::yield_now()).await;
        }
    }
}

/// The page's queries, each with its heading.
fn queries() -> Vec<(&'static str, &'static str)> {
    let sections = PAGE.split("\n### ").skip(1);
    let found = sections.filter_map(|section| {
        let (name, rest) = section.split_once('\n')?;
        let (_, rest) = rest.split_once("```promql\n")?;
        Some((name, rest.split_once("\n```")?.0))
    });
    found.collect()
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// A Prometheus server with its own folder.
struct Server {
    process: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl Server {
    fn start(target: SocketAddr) -> Result<Server> {
        let folder = env::temp_dir().join(format!("hairspring-prometheus-{}", process::id()));
        fs::create_dir(&folder)?;
        let alarms = concat!(env!("CARGO_MANIFEST_DIR"), "/../prometheus/alarms.yml");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{alarms}']\n\
             scrape_configs: [{{job_name: hairspring, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        fs::write(folder.join("prometheus.yml"), config)?;
        let address = free_address()?;
        let process = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Server { process, address, folder })
    }

    /// Repeats a query until the answer is one number.
    fn wait_for(&self, query: &str) -> Result<String> {
        let start = Instant::now();
        let url = format!("http://{}", self.address);
        while start.elapsed() < HUNG {
            let answer = Command::new("promtool").args(["query", "instant", &url, query]).output()?.stdout;
            // As `{timer="main"} => 50 @[1700000000]`, a line for each series.
            let answer = String::from_utf8(answer)?;
            if let [_, value] = answer.trim().split(" => ").collect::<Vec<_>>()[..] {
                return Ok(value.split(' ').take(1).collect());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Err(format!("`{query}` has no answer").into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
