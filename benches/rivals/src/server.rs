//! A server whose handler sleeps, and clients that ask again at once: what a request costs the server.
//!
//! Unlike in the price of a timer, requests follow the timers here. So it matters which timers fire together: their
//! responses and the requests that follow them share wake-ups, system calls and context switches.
//!
//! The server is a process of its own, so that its CPU time is measured alone. The contenders take turns, and
//! another one begins each time.

use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::task::JoinSet;
use tools::machine::Meter;
use tools::{Histogram, median, progress, table};

use crate::contenders::{Contender, TIMERFD, chosen, named};
use crate::rival::{Rival, Until};
use crate::rivals::{Hairspring, Tokio};
use crate::{in_words, machine_line, save};

const CONNECTIONS: [u32; 4] = [4, 16, 64, 256];
const WHOLE_RUN: u32 = 15;
const WARM_UP: Duration = Duration::from_millis(300);
/// How long the handler sleeps.
const SLEEP: Duration = Duration::from_millis(10);
const MESSAGE: usize = 64;

#[derive(Debug, Args)]
pub struct Options {
    /// How many clients ask again as soon as they are answered, one table for each
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_values_t = CONNECTIONS)]
    connections: Vec<u32>,
    /// Only the contender of that name, or, if there is none, those that have it in their names; by default three
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How often each takes its turn
    #[arg(long, default_value_t = WHOLE_RUN, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long a turn is
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

/// Serves in a process of its own.
#[derive(Debug, Args)]
pub struct Serving {
    contender: String,
}

/// What came of a turn.
struct Turn {
    a_second: f64,
    /// Nanoseconds of the server's CPU time for a request.
    cpu: f64,
    /// How often a thread of the server began to wait, for a request.
    switches: f64,
    /// Of the clients, in nanoseconds.
    latency: Histogram<u64>,
}

const COLUMNS: [&str; 9] = [
    "contender",
    "requests a second",
    "CPU ns a request",
    "CPU times tokio's",
    "p25",
    "p75",
    "context switches a request",
    "p50",
    "p99",
];

pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    println!("{}", machine_line());
    let usual = || [Hairspring::NAME, TIMERFD, Tokio::NAME].map(str::to_owned).to_vec();
    let chosen = chosen(&if options.only.is_empty() { usual() } else { options.only.clone() })?;
    let mut lines = Vec::new();
    for &connections in &options.connections {
        let mut turns: Vec<Vec<Turn>> = chosen.iter().map(|_| Vec::new()).collect();
        let bar = progress(&format!("{connections} connections"), u64::from(options.rounds) * chosen.len() as u64);
        for round in 0..options.rounds as usize {
            for place in (0..chosen.len()).map(|place| (place + round) % chosen.len()) {
                turns[place].push(turn(chosen[place], connections, Duration::from_secs_f64(options.seconds))?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let tokio = chosen.iter().position(|contender| contender.name == Tokio::NAME).map(|place| &turns[place]);
        let rows: Vec<_> =
            chosen.iter().zip(&turns).map(|(contender, turns)| row(contender.name, turns, tokio)).collect();
        println!("\n{connections} connections\n{}", table(&COLUMNS, &rows));
        lines.extend(rows.into_iter().map(|row| [vec![connections.to_string()], row].concat()));
    }
    let is_whole = options.only.is_empty() && options.rounds >= WHOLE_RUN && options.connections == CONNECTIONS;
    save(if is_whole { "server" } else { "quick" }, &[&["connections"], &COLUMNS[..]].concat(), &lines)
}

/// Ratios are those of a round.
fn row(name: &str, turns: &[Turn], tokio: Option<&Vec<Turn>>) -> Vec<String> {
    let middle = |of: fn(&Turn) -> f64| median(turns.iter().map(of).collect());
    let mut times: Vec<f64> =
        tokio.map_or(&[][..], |tokio| tokio).iter().zip(turns).map(|(tokio, turn)| turn.cpu / tokio.cpu).collect();
    times.sort_by(f64::total_cmp);
    let share =
        |share| if times.is_empty() { "-".to_owned() } else { format!("{:.3}", tools::quantile(&times, share)) };
    let mut latency = Histogram::new(3).expect("three digits are allowed");
    for turn in turns {
        latency += &turn.latency;
    }
    let percentile = |share| in_words(Duration::from_nanos(latency.value_at_quantile(share)));
    vec![
        name.to_owned(),
        format!("{:.0}", middle(|turn| turn.a_second)),
        format!("{:.0}", middle(|turn| turn.cpu)),
        share(0.5),
        share(0.25),
        share(0.75),
        format!("{:.2}", middle(|turn| turn.switches)),
        percentile(0.5),
        percentile(0.99),
    ]
}

/// Lets clients ask a new server, again and again.
fn turn(contender: &Contender, connections: u32, length: Duration) -> Result<Turn, Box<dyn Error>> {
    let mut server = Server::start(contender.name)?;
    let clients = runtime::Builder::new_current_thread().enable_all().build()?;
    let begin = Instant::now() + WARM_UP;
    let end = begin + length;
    let asked = clients.spawn(async move {
        let mut clients: JoinSet<_> = (0..connections).map(|_| ask(server.address, begin, end)).collect();
        let mut latency = Histogram::<u64>::new(3).expect("three digits are allowed");
        tokio::time::sleep_until(begin.into()).await;
        server.ask("begin")?;
        tokio::time::sleep_until(end.into()).await;
        let used = server.ask("end")?;
        while let Some(client) = clients.join_next().await {
            for nanos in client?? {
                latency += nanos;
            }
        }
        Ok::<_, Box<dyn Error + Send + Sync>>((used, latency))
    });
    let (used, latency) = clients.block_on(asked)?.map_err(|error| error.to_string())?;
    let requests = latency.len() as f64;
    let [cpu, switches] = used[..] else { return Err(format!("a server printed {used:?}").into()) };
    Ok(Turn { a_second: requests / length.as_secs_f64(), cpu: cpu / requests, switches: switches / requests, latency })
}

/// How long each answer took that came in the window.
async fn ask(server: SocketAddr, begin: Instant, end: Instant) -> io::Result<Vec<u64>> {
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let (mut message, mut took) = ([7; MESSAGE], Vec::new());
    loop {
        let asked = Instant::now();
        stream.write_all(&message).await?;
        stream.read_exact(&mut message).await?;
        let now = Instant::now();
        if now >= end {
            return Ok(took);
        }
        if now >= begin {
            took.push((now - asked).as_nanos() as u64);
        }
    }
}

/// The process that serves. It answers each line with numbers, and ends with its input.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Server {
    fn start(contender: &str) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(env::current_exe()?)
            .args(["serving", contender])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (child.stdin.take().expect("it is piped"), child.stdout.take().expect("it is piped"));
        let mut output = BufReader::new(output);
        let mut address = String::new();
        output.read_line(&mut address)?;
        Ok(Server { child, input, output, address: address.trim().parse()? })
    }

    fn ask(&mut self, line: &str) -> io::Result<Vec<f64>> {
        writeln!(self.input, "{line}")?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        Ok(answer.split_whitespace().map(|word| word.parse().expect("a number")).collect())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its work is done, and it may be in the middle of a sleep.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        let contender = named(&self.contender);
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        if contender.name == Tokio::NAME {
            serve::<Tokio>(contender, &runtime)
        } else {
            serve::<Hairspring>(contender, &runtime)
        }
    }
}

fn serve<U: Until>(contender: &Contender, runtime: &Runtime) -> Result<(), Box<dyn Error>> {
    let listener = runtime.block_on(async {
        (contender.set_up)();
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await
    })?;
    println!("{}", listener.local_addr()?);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer::<U>(stream));
        }
    });
    // The client says when it begins to measure, and when it ends.
    let (mut lines, unknown) = (io::stdin().lines(), "this system does not report CPU time per thread");
    while let Some(begin) = lines.next() {
        begin?;
        let (meter, switched) = (Meter::start().ok_or(unknown)?, switches()?);
        println!();
        lines.next().ok_or("the client has gone")??;
        println!("{} {}", meter.used().ok_or(unknown)?.as_nanos(), switches()?.saturating_sub(switched));
    }
    Ok(())
}

async fn answer<U: Until>(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0; MESSAGE];
    loop {
        stream.read_exact(&mut message).await?;
        U::sleep_until(Instant::now() + SLEEP).await;
        stream.write_all(&message).await?;
    }
}

/// How often the threads of this process have begun to wait.
fn switches() -> Result<u64, Box<dyn Error>> {
    let mut all = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        // It may have ended meanwhile.
        let Ok(status) = std::fs::read_to_string(thread?.path().join("status")) else { continue };
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        all += count.and_then(|count| count.trim().parse::<u64>().ok()).ok_or("Linux counts them")?;
    }
    Ok(all)
}
