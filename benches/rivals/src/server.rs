//! A server whose handler sleeps, with clients that ask again immediately.
//!
//! Unlike in `price`, requests follow the timers. Timers that fire together share wake-ups, system calls and context
//! switches, and so do their responses and the next requests. The server runs in a separate process, because its CPU
//! time is measured without the clients'.

use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{self, Runtime};
use tokio::task::JoinSet;
use tools::machine::{Meter, switches};
use tools::{Histogram, median};

use crate::contender::Contender;
use crate::contenders::{TIMERFD, choose, named};
use crate::rival::{Rival, Until, build, workers};
use crate::rivals::{Hairspring, Tokio};
use crate::service::{connect, listen};
use crate::session::{Scope, Sheet, in_words, quartiles, take_turns};

const CONNECTIONS: [u32; 4] = [4, 16, 64, 256];
const WARM_UP: Duration = Duration::from_millis(300);
/// How long the handler sleeps.
const SLEEP: Duration = Duration::from_millis(10);
const MESSAGE: usize = 64;

/// Serves in the child process.
#[derive(Debug, Args)]
pub struct Serving {
    contender: String,
}

struct Turn {
    per_second: f64,
    /// Nanoseconds of the server's CPU time per request.
    cpu: f64,
    /// Context switches of the server per request.
    switches: f64,
    /// Of the clients, in nanoseconds.
    latency: Histogram<u64>,
}

const COLUMNS: &str = "connections|contender|requests a second|CPU ns a request|CPU times tokio's|p25|p75|context switches a request|\
    p50|p99";

pub fn run(scope: &Scope) -> Result<(), Box<dyn Error>> {
    let mut sheet = Sheet::new(&[], COLUMNS);
    let chosen = choose(scope, &[Hairspring::NAME, TIMERFD, Tokio::NAME])?;
    let length = scope.turn(Duration::from_secs(1));
    for connections in CONNECTIONS {
        let title = format!("{connections} connections");
        let turns = take_turns(&title, scope.rounds(15), chosen.len(), |place, _| {
            turn(chosen[place], connections, length).expect("client and server answer each other")
        });
        let tokio = chosen.iter().position(|contender| contender.name == Tokio::NAME).map(|place| &turns[place]);
        let rows = chosen.iter().zip(&turns).map(|(contender, turns)| row(contender.name, turns, tokio)).collect();
        sheet.add(&title, &[&connections.to_string()], rows);
    }
    sheet.save(scope.file("server"))
}

/// The ratios are those within a round.
fn row(name: &str, turns: &[Turn], tokio: Option<&Vec<Turn>>) -> Vec<String> {
    let middle = |of: fn(&Turn) -> f64| median(turns.iter().map(of).collect());
    let times =
        |tokio: &Vec<Turn>| quartiles(turns.iter().zip(tokio).map(|(turn, tokio)| turn.cpu / tokio.cpu).collect());
    let times = tokio.map_or(["-"; 3].map(str::to_owned), |tokio| times(tokio).map(|times| format!("{times:.3}")));
    let mut latency = Histogram::new(3).expect("three digits are allowed");
    for turn in turns {
        latency += &turn.latency;
    }
    let percentiles = [0.5, 0.99].map(|share| in_words(latency.value_at_quantile(share) as f64));
    let requests = [middle(|turn| turn.per_second), middle(|turn| turn.cpu)].map(|figure| format!("{figure:.0}"));
    let switches = format!("{:.2}", middle(|turn| turn.switches));
    [vec![name.to_owned()], requests.into(), times.into(), vec![switches], percentiles.into()].concat()
}

/// Starts a server and asks it in a loop.
fn turn(contender: &Contender, connections: u32, length: Duration) -> Result<Turn, Box<dyn Error>> {
    let server = Server::start(contender.name)?;
    let clients = build(&mut runtime::Builder::new_current_thread(), |_| {});
    let begin = Instant::now() + WARM_UP;
    let (process, end) = (server.child.id(), begin + length);
    let asked = clients.spawn(async move {
        let mut clients: JoinSet<_> = (0..connections).map(|_| ask(server.address, begin, end)).collect();
        tokio::time::sleep_until(begin.into()).await;
        let (meter, switched) = (Meter::of(process), switches(process));
        tokio::time::sleep_until(end.into()).await;
        let used = [meter.used().as_nanos() as u64, switches(process).saturating_sub(switched)];
        let mut latency = Histogram::<u64>::new(3).expect("three digits are allowed");
        while let Some(client) = clients.join_next().await {
            client.expect("no client panics")?.into_iter().for_each(|nanos| latency += nanos);
        }
        io::Result::Ok((used, latency))
    });
    let (used, latency) = clients.block_on(asked)??;
    let requests = latency.len() as f64;
    let [cpu, switches] = used.map(|used| used as f64 / requests);
    Ok(Turn { per_second: requests / length.as_secs_f64(), cpu, switches, latency })
}

/// Asks in a loop. Returns how long each answer in the window took.
async fn ask(server: SocketAddr, begin: Instant, end: Instant) -> io::Result<Vec<u64>> {
    let mut stream = connect(server).await;
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

/// The process that serves.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(contender: &str) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(env::current_exe()?);
        let mut child = command.args(["serving", contender]).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut address)?;
        Ok(Server { child, address: address.trim().parse()? })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    pub fn run(&self) {
        let (contender, runtime) = (named(&self.contender), workers(2, |_| {}));
        let _turns = contender.set_up(&runtime);
        let address =
            if contender.name == Tokio::NAME { serve::<Tokio>(&runtime) } else { serve::<Hairspring>(&runtime) };
        println!("{address}");
        // Until it is killed.
        loop {
            thread::park();
        }
    }
}

fn serve<U: Until>(runtime: &Runtime) -> SocketAddr {
    runtime.block_on(listen(|mut stream| async move {
        let mut message = [0; MESSAGE];
        while stream.read_exact(&mut message).await.is_ok() {
            U::sleep_until(Instant::now() + SLEEP).await;
            if stream.write_all(&message).await.is_err() {
                break;
            }
        }
    }))
}
