//! A server whose sessions expire when their clients fall silent: sliding expiry, over a `DeadlineMap`.
//!
//! A client logs in, sends heartbeats and logs out; every third falls silent instead. The server keeps each session in a
//! map with a deadline, which each heartbeat puts off. Sessions that nobody kept alive come out of the map's stream, and
//! their clients are told. All of it runs in this process, over TCP on loopback.
//!
//! Prints what became of the sessions, and exits with 1 where that does not add up.
//!
//! ```text
//! cargo run --release --example sessions
//! cargo run --release --example sessions -- --clients 400 --beats 20 --idle-ms 200
//! cargo run --release --example sessions -- --help
//! ```

use std::fmt::{self, Display};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hairspring::{DeadlineMap, Duration, Expirations, Instant, sleep};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use arguments::number;

#[path = "shared/arguments.rs"]
mod arguments;

const HELP: &str = "\
Expires the sessions of clients that fall silent.

Usage: sessions [OPTIONS]

Options:
  --clients N   how many clients there are, 1 to 5000 (default 200); each takes two open files
  --beats N     how many heartbeats each sends, 1 to 1000 (default 6), four in the time that a session may be idle
  --idle-ms N   how long a session lives without a heartbeat, in milliseconds, 20 to 60000 (default 400)
  --help        prints this

Exits with 0 if all sessions ended as they should, with 1 if not, with 2 on bad options.
";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Options {
    clients: u64,
    beats: u64,
    idle: Duration,
}

/// What the server keeps of a client. Whoever takes it out of the map, and nobody else, has the last word to the client.
struct Session {
    client: OwnedWriteHalf,
}

type Sessions = DeadlineMap<u64, Session>;

#[derive(Default)]
struct Tally {
    logins: AtomicU64,
    heartbeats: AtomicU64,
    logouts: AtomicU64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = arguments::read(HELP, parse);
    match run(options).await {
        Ok(summary) => {
            print!("{summary}");
            if summary.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> io::Result<Summary> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let tally = Arc::new(Tally::default());

    let (sessions, expirations) = DeadlineMap::new();
    let expired = tokio::spawn(tell_expired(expirations));
    let server = tokio::spawn(serve(listener, options, sessions, Arc::clone(&tally)));

    let mut clients = JoinSet::new();
    for number in 0..options.clients {
        clients.spawn(client(address, number, options));
    }
    let mut outcomes = Vec::new();
    while let Some(outcome) = clients.join_next().await {
        outcomes.push(outcome??);
    }
    server.await??;
    // The stream has ended: the last connection was closed, its handle on the map dropped, and no session was left.
    Ok(Summary { expired: expired.await??, tally, outcomes })
}

// The server.

/// Accepts all clients. Each connection has a handle on the sessions, which goes with it.
async fn serve(listener: TcpListener, options: Options, sessions: Sessions, tally: Arc<Tally>) -> io::Result<()> {
    for id in 0..options.clients {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(attend(stream, id, options.idle, sessions.clone(), Arc::clone(&tally)));
    }
    Ok(())
}

/// Reads what a client sends. The session itself is in the map: this task has only its number.
async fn attend(stream: TcpStream, id: u64, idle: Duration, sessions: Sessions, tally: Arc<Tally>) -> io::Result<()> {
    let (reader, mut client) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        match line.as_str() {
            "login" => {
                client.write_all(b"welcome\n").await?;
                tally.logins.fetch_add(1, Relaxed);
                sessions.insert(id, Session { client }, idle);
                break;
            }
            _ => client.write_all(b"log in first\n").await?,
        }
    }
    while let Some(line) = lines.next_line().await? {
        match line.as_str() {
            // The heartbeat: no timer is cancelled, none is made. `false` where the session has expired.
            "beat" if sessions.touch(&id, idle) => {
                tally.heartbeats.fetch_add(1, Relaxed);
            }
            "logout" => {
                // `None` where the session has expired just now: then its client is told that, and not this.
                if let Some(mut session) = sessions.remove(&id) {
                    tally.logouts.fetch_add(1, Relaxed);
                    session.client.write_all(b"bye\n").await?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Tells the clients whose sessions have expired, and counts them.
async fn tell_expired(mut expirations: Expirations<u64, Session>) -> io::Result<u64> {
    let mut count = 0;
    while let Some((_id, mut session)) = expirations.recv().await {
        count += 1;
        session.client.write_all(b"expired\n").await?;
    }
    Ok(count)
}

// The clients.

struct Outcome {
    fell_silent: bool,
    /// How long after the last heartbeat it was told that its session had expired; `None` where it could log out.
    expired_after: Option<Duration>,
}

async fn client(address: SocketAddr, number: u64, options: Options) -> io::Result<Outcome> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (reader, mut server) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();

    server.write_all(b"login\n").await?;
    expect(&mut lines, &["welcome"]).await?;
    let mut last_beat = Instant::now();
    for _ in 0..options.beats {
        sleep(options.idle / 4).await;
        last_beat = Instant::now();
        server.write_all(b"beat\n").await?;
    }
    let fell_silent = number % 3 == 0;
    if !fell_silent {
        server.write_all(b"logout\n").await?;
    }
    let answer = expect(&mut lines, &["bye", "expired"]).await?;
    Ok(Outcome { fell_silent, expired_after: (answer == "expired").then(|| last_beat.elapsed()) })
}

async fn expect(lines: &mut Lines<BufReader<OwnedReadHalf>>, allowed: &[&str]) -> io::Result<String> {
    let line = lines.next_line().await?.unwrap_or_default();
    if allowed.contains(&line.as_str()) {
        return Ok(line);
    }
    Err(io::Error::other(format!("the server said `{line}`; expected one of {allowed:?}")))
}

// The summary.

struct Summary {
    expired: u64,
    tally: Arc<Tally>,
    outcomes: Vec<Outcome>,
}

impl Summary {
    fn silent(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.fell_silent).count()
    }

    /// How long silent clients had been silent when they were told, shortest first.
    fn silences(&self) -> Vec<Duration> {
        let silent = self.outcomes.iter().filter(|outcome| outcome.fell_silent);
        let mut silences: Vec<_> = silent.filter_map(|outcome| outcome.expired_after).collect();
        silences.sort_unstable();
        silences
    }

    /// Clients whose heartbeats came too late, as they can where the machine is busy.
    fn unlucky(&self) -> usize {
        self.outcomes.iter().filter(|outcome| !outcome.fell_silent && outcome.expired_after.is_some()).count()
    }

    fn is_good(&self) -> bool {
        let Tally { logins, logouts, .. } = &*self.tally;
        let told = self.silences().len() + self.unlucky();
        logins.load(Relaxed) == logouts.load(Relaxed) + self.expired
            && self.silences().len() == self.silent()
            && u64::try_from(told) == Ok(self.expired)
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { logins, heartbeats, logouts } = &*self.tally;
        let silences = self.silences();
        writeln!(f, "sessions opened      {:>8}", logins.load(Relaxed))?;
        writeln!(f, "heartbeats           {:>8}", heartbeats.load(Relaxed))?;
        writeln!(f, "logged out           {:>8}", logouts.load(Relaxed))?;
        writeln!(f, "expired              {:>8}", self.expired)?;
        writeln!(f, "  clients silent     {:>8}", self.silent())?;
        writeln!(f, "  heartbeats late    {:>8}", self.unlucky())?;
        if let (Some(shortest), Some(longest)) = (silences.first(), silences.last()) {
            writeln!(f, "silent when told     {shortest:.1?} to {longest:.1?}")?;
        }
        let verdict = if self.is_good() { "good: each session ended once, each silent one expired" } else { "BAD" };
        writeln!(f, "{verdict}")
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { clients: 200, beats: 6, idle: Duration::from_millis(400) };
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--clients" => options.clients = number(&name, arguments.next(), &(1..=5_000))?,
            "--beats" => options.beats = number(&name, arguments.next(), &(1..=1_000))?,
            "--idle-ms" => options.idle = Duration::from_millis(number(&name, arguments.next(), &(20..=60_000))?),
            _ => return Err(format!("there is no option `{name}`; allowed: --clients, --beats, --idle-ms, --help")),
        }
    }
    Ok(options)
}
