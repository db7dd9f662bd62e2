//! A server whose sessions expire unless their clients send heartbeats: sliding expiry with a `DeadlineMap`.
//!
//! Clients connect, send heartbeats and log out. Every third client falls silent instead. The server keeps the sessions
//! in a map, and each heartbeat moves a deadline. Expired sessions come out of the map's stream, and the server
//! notifies their clients. Exits with 1 if a session ends twice or not at all.
//!
//! ```text
//! cargo run --release --example sessions
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use hairspring::{DeadlineMap, Duration, Expirations, Instant, sleep};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const CLIENTS: u64 = 200;
const HEARTBEATS: u64 = 6;
/// How long a session lasts after the last heartbeat. Clients send four heartbeats in that time.
const IDLE: Duration = Duration::from_millis(400);

/// The connection to the client. The task that takes the session out of the map sends the last message.
struct Session(OwnedWriteHalf);

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let (sessions, expirations) = DeadlineMap::new();
    let expired = tokio::spawn(tell_expired(expirations));
    let server = tokio::spawn(serve(listener, sessions));

    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client(address, number % 3 == 0));
    }
    let silences = clients.join_all().await.into_iter().collect::<io::Result<Vec<_>>>()?;
    let logouts = server.await??;
    // The stream ends because the last handle on the map was dropped, and no session is left.
    let expired = expired.await??;

    println!("{CLIENTS} sessions: {logouts} logged out, {expired} expired");
    let silences: Vec<Duration> = silences.into_iter().flatten().collect();
    let [shortest, longest] = [silences.iter().min(), silences.iter().max()].map(|silence| *silence.unwrap_or(&IDLE));
    println!("clients were told after {shortest:.1?} to {longest:.1?} of silence");
    // On a busy machine heartbeats may be late, and more sessions expire.
    let is_good = logouts + expired == CLIENTS && expired >= CLIENTS.div_ceil(3) && shortest >= IDLE;
    println!("{}", if is_good { "good: each session ended once, each silent one expired" } else { "BAD" });
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Accepts all clients. Returns how many have logged out.
async fn serve(listener: TcpListener, sessions: DeadlineMap<u64, Session>) -> io::Result<u64> {
    let mut connections = JoinSet::new();
    for id in 0..CLIENTS {
        let (stream, _) = listener.accept().await?;
        connections.spawn(attend(stream, id, sessions.clone()));
    }
    drop(sessions);
    connections.join_all().await.into_iter().sum()
}

/// Reads what a client sends. Returns 1 if it logs out, 0 if its session expires first.
async fn attend(stream: TcpStream, id: u64, sessions: DeadlineMap<u64, Session>) -> io::Result<u64> {
    let (reader, client) = stream.into_split();
    sessions.insert(id, Session(client), IDLE);
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        if line == "beat" {
            // This cancels and registers no timer. It returns `false` if the session has expired.
            sessions.touch(&id, IDLE);
        } else if let Some(Session(mut client)) = sessions.remove(&id) {
            client.write_all(b"bye\n").await?;
            return Ok(1);
        }
    }
    Ok(0)
}

/// Tells the clients whose sessions have expired, and counts them.
async fn tell_expired(mut expirations: Expirations<u64, Session>) -> io::Result<u64> {
    let mut count = 0;
    while let Some((_id, Session(mut client))) = expirations.recv().await {
        count += 1;
        client.write_all(b"expired\n").await?;
    }
    Ok(count)
}

/// Returns how long after its last heartbeat the client was told that its session had expired, if it was.
async fn client(address: SocketAddr, falls_silent: bool) -> io::Result<Option<Duration>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut last_beat = Instant::now();
    for _ in 0..HEARTBEATS {
        sleep(IDLE / 4).await;
        last_beat = Instant::now();
        stream.write_all(b"beat\n").await?;
    }
    if !falls_silent {
        stream.write_all(b"logout\n").await?;
    }
    let answer = BufReader::new(stream).lines().next_line().await?;
    Ok((answer.as_deref() == Some("expired")).then(|| last_beat.elapsed()))
}
