//! A server whose sessions expire when their clients fall silent: sliding expiry, over a `DeadlineMap`.
//!
//! A client logs in, sends heartbeats and logs out; every third falls silent instead. The server keeps each session in a
//! map with a deadline, which each heartbeat puts off. Sessions that nobody kept alive come out of the map's stream, and
//! their clients are told. All of it runs in this process, over TCP on loopback. Exits with 1 if it does not add up.
//!
//! ```text
//! cargo run --release --example sessions
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use hairspring::{DeadlineMap, Duration, Expirations, Instant, sleep};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const CLIENTS: u64 = 200;
/// How many each client sends, four in the time that a session may be idle.
const HEARTBEATS: u64 = 6;
const IDLE: Duration = Duration::from_millis(400);

/// What the server keeps of a client. Whoever takes it out of the map, and nobody else, has the last word to the client.
struct Session {
    client: OwnedWriteHalf,
}

type Sessions = DeadlineMap<u64, Session>;

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let (sessions, expirations) = DeadlineMap::new();
    let expired = tokio::spawn(tell_expired(expirations));
    let server = tokio::spawn(serve(listener, sessions));

    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client(address, number));
    }
    let outcomes = clients.join_all().await.into_iter().collect::<io::Result<Vec<Outcome>>>()?;
    let logouts = server.await??;
    // The stream has ended: the last connection was closed, its handle on the map dropped, and no session was left.
    let expired = expired.await??;

    let silent = outcomes.iter().filter(|outcome| outcome.fell_silent).count();
    let missed = outcomes.iter().filter(|outcome| outcome.fell_silent && outcome.expired_after.is_none()).count();
    let silences: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.expired_after).collect();
    println!("{CLIENTS} sessions, {silent} of them of clients that fell silent");
    println!("{logouts} logged out, {expired} expired");
    let [shortest, longest] = [silences.iter().min(), silences.iter().max()].map(|silence| *silence.unwrap_or(&IDLE));
    println!("told after {shortest:.1?} to {longest:.1?} of silence");
    // On a busy machine a heartbeat may be late, so that more expire than fell silent.
    let is_good = logouts + expired == CLIENTS
        && u64::try_from(silences.len()) == Ok(expired)
        && missed == 0
        && silences.iter().all(|silence| *silence >= IDLE);
    println!("{}", if is_good { "good: each session ended once, each silent one expired" } else { "BAD" });
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Accepts all clients, and returns how many have logged out. Each connection has a handle on the sessions.
async fn serve(listener: TcpListener, sessions: Sessions) -> io::Result<u64> {
    let mut connections = JoinSet::new();
    for id in 0..CLIENTS {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        connections.spawn(attend(stream, id, sessions.clone()));
    }
    drop(sessions);
    connections.join_all().await.into_iter().sum()
}

/// Reads what a client sends. The session itself is in the map: this task has only its number.
async fn attend(stream: TcpStream, id: u64, sessions: Sessions) -> io::Result<u64> {
    let (reader, mut client) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    expect(&mut lines, &["login"]).await?;
    client.write_all(b"welcome\n").await?;
    sessions.insert(id, Session { client }, IDLE);
    while let Some(line) = lines.next_line().await? {
        if line == "beat" {
            // No timer is cancelled, none is made. `false` if the session has expired.
            sessions.touch(&id, IDLE);
        } else if let Some(mut session) = sessions.remove(&id) {
            session.client.write_all(b"bye\n").await?;
            return Ok(1);
        }
    }
    Ok(0)
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

struct Outcome {
    fell_silent: bool,
    /// How long after the last heartbeat it was told that its session had expired; `None` if it could log out.
    expired_after: Option<Duration>,
}

async fn client(address: SocketAddr, number: u64) -> io::Result<Outcome> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (reader, mut server) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();

    let mut last_beat = Instant::now();
    server.write_all(b"login\n").await?;
    expect(&mut lines, &["welcome"]).await?;
    for _ in 0..HEARTBEATS {
        sleep(IDLE / 4).await;
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
    Err(io::Error::other(format!("the other side said `{line}`; expected one of {allowed:?}")))
}
