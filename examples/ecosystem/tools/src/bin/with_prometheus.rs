//! A program that Prometheus's server scrapes. Asks the server what docs/operating.md says one should ask, and compares
//! the answers with what the program did.
//!
//! Needs the program `prometheus`, from Debian's package of that name.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::mem::ManuallyDrop;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use hairspring::timer::Reporter;
use hairspring::{DeadlineMap, Timer, sleep, timeout};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// After this, it fails.
const HUNG: Duration = Duration::from_mins(2);
const REPORTS: Duration = Duration::from_millis(100);
/// Sleeps that stay for as long as the program runs.
const KEPT: u64 = 50;
/// Sessions that do not expire.
const SESSIONS: u64 = 100;

/// What the page says to ask.
const PAGE: &str = include_str!("../../../../../docs/operating.md");

fn main() {
    let code = match check() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("error: {error}");
            1
        }
    };
    process::exit(code); // one runtime is stuck, and would be waited for
}

fn check() -> Result<()> {
    let metrics = free_address()?;
    PrometheusBuilder::new()
        .with_http_listener(metrics)
        .set_buckets_for_metric(Matcher::Full(Reporter::LATENESS.into()), Reporter::LATENESS_BUCKETS)?
        .install()?;
    let main = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    main.spawn(work());
    let stuck = ManuallyDrop::new(tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?);
    stuck.spawn(async {
        let reports = tokio::spawn(Timer::current().reporter("stuck").run(REPORTS));
        sleep(10 * REPORTS).await;
        thread::sleep(HUNG); // as no task should
        reports.await
    });

    let server = Server::start(metrics)?;
    server.wait_for("up == 1")?;
    server.wait_for(&format!("hairspring_entries_inserted_total > {SESSIONS}"))?;
    // Its counts do not change any more, so they balance.
    server.wait_for(
        r#"hairspring_registered_total{timer="stuck"} - hairspring_fired_total - hairspring_cancelled_total
            - hairspring_pending == 0"#,
    )?;
    server.wait_for(r#"count({__name__=~"hairspring_.*", timer="main"}) == 27"#)?;

    // Each with what the answer has to be.
    let checks = [
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
    assert!(queries.iter().map(|(name, _)| name).eq(checks.iter().map(|(name, _)| name)), "{queries:?}");
    for ((name, query), (_, condition)) in queries.iter().zip(checks) {
        println!("{name}: {}", server.wait_for(&format!("({query}) {condition}"))?);
    }

    // A process that is stopped is late with its timers, and the histogram shows how many and how late.
    let late = r#"sum(hairspring_lateness_seconds_count) - sum(hairspring_lateness_seconds_bucket{le="0.5"})"#;
    let before = server.wait_for(late)?;
    let stop = format!("kill -STOP {0}; sleep 1; kill -CONT {0}", process::id());
    Command::new("sh").args(["-c", &stop]).status()?;
    let after = server.wait_for(&format!("{late} > {before}"))?;
    println!("good: Prometheus answers; {before} timers were late, and {after} after the process was stopped");
    Ok(())
}

/// Sleeps, timeouts that are in time, sleeps that stay, and sessions some of which expire.
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
            // Polled twice, so that the timer is registered, and is in time.
            let _ = timeout(HUNG, tokio::task::yield_now()).await;
        }
    }
}

/// The page's queries, each after a heading such as `### Waiting`.
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

/// Prometheus's server, with a folder of its own.
struct Server {
    process: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl Server {
    fn start(target: SocketAddr) -> Result<Server> {
        let folder = env::temp_dir().join(format!("hairspring-prometheus-{}", process::id()));
        fs::create_dir(&folder)?;
        let config = folder.join("prometheus.yml");
        let alarms = concat!(env!("CARGO_MANIFEST_DIR"), "/../prometheus/alarms.yml");
        let scrapes = format!("{{job_name: hairspring, static_configs: [{{targets: ['{target}']}}]}}");
        let global = "global: {scrape_interval: 1s, evaluation_interval: 1s}";
        fs::write(&config, format!("{global}\nrule_files: ['{alarms}']\nscrape_configs: [{scrapes}]\n"))?;
        let address = free_address()?;
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--log.level=warn"])
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Server { process, address, folder })
    }

    /// Repeats a query until the answer is one number.
    fn wait_for(&self, query: &str) -> Result<String> {
        let start = Instant::now();
        loop {
            let answer = self.ask(query);
            if answer.is_ok() {
                return answer;
            }
            if start.elapsed() > HUNG {
                return Err(format!("`{query}` is {answer:?}").into());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn ask(&self, query: &str) -> Result<String> {
        let mut encoded = String::new();
        for byte in query.bytes() {
            write!(encoded, "%{byte:02x}")?;
        }
        let mut stream = TcpStream::connect(self.address)?;
        write!(stream, "GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        let body: Value = serde_json::from_str(body)?;
        let results = body["data"]["result"].as_array().ok_or_else(|| body.to_string())?;
        let [result] = &results[..] else { return Err(format!("{} results", results.len()).into()) };
        Ok(result["value"][1].as_str().ok_or("no value")?.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
