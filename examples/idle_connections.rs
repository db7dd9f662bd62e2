//! A TCP server that drops idle connections, with thousands of clients in the same process.
//!
//! The server reads through `TimeoutStream`s. A heartbeat moves only the deadline. The timer stays in place, fires at
//! the old deadline and is armed again. One client in ten stops sending. Exits with 1 unless exactly those are dropped.
//!
//! Run it with `cargo run --release --example idle_connections -- --connections 500`.

use std::net::{Ipv4Addr, SocketAddr, TcpListener as Socket};
use std::{env, io, process::ExitCode, thread};

use hairspring::{Duration, Instant, Timer, io::TimeoutStream, timeout_at};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const HELP: &str = "Usage: idle_connections [OPTIONS]

  --connections N   number of clients, 1 to 10000 (default 2000); each needs two open files
  --help            print this help
";

/// The idle timeout, and how long a client stays connected.
const IDLE: Duration = Duration::from_secs(2);
const STAY: Duration = Duration::from_secs(8);

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let allowed = "allowed: a whole number from 1 to 10000";
    let problem = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => return run(2_000).await,
        ["--help"] => {
            print!("{HELP}");
            return Ok(ExitCode::SUCCESS);
        }
        ["--connections", ref count @ ..] => match count.concat().parse() {
            Ok(number @ 1..=10_000) => return run(number).await,
            _ => format!("--connections cannot be `{}`; {allowed}", count.join(" ")),
        },
        [other, ..] => format!("there is no option `{other}`; allowed: --connections, --help"),
    };
    eprintln!("error: {problem}");
    Ok(ExitCode::from(2))
}

async fn run(wanted: usize) -> io::Result<ExitCode> {
    let connections = wanted.min(open_files(2 * wanted + 16)?.saturating_sub(16) / 2);
    if connections < wanted {
        println!("too few open files for {wanted} connections: `ulimit -n {}` allows them", 2 * wanted + 32);
    }
    println!("{connections} connections for {STAY:?}; the server drops a connection after {IDLE:?} of silence");
    // The clients use the runtime's default timer. The server has another, so each side has separate counts.
    let timer = Timer::builder().name("server").build().map_err(io::Error::other)?;
    let timers = [timer.clone(), Timer::current()];
    thread::spawn(move || show_progress(&timers));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let (mut dropped, wrong) = tokio::try_join!(serve(listener, connections, &timer), clients(address, connections))?;
    let (silent, closed) = (connections.div_ceil(10), dropped.len());
    println!("\n{closed} connections were closed for being idle; {silent} clients had fallen silent\n");
    dropped.sort_unstable();
    let [p50, p99] = [50, 99].map(|percent| dropped.get(closed * percent / 100).copied().unwrap_or_default());
    println!("they were closed {p50:.1?} late at the median, {p99:.1?} at the 99th percentile");
    println!("note: by default, timers due close together share a wake-up, up to 1 ms later (`coalesce`)");
    if cfg!(debug_assertions) {
        println!("note: this is a debug build; add `--release` to measure lateness");
    }
    let is_good = wrong == 0 && closed == silent;
    println!("\n{}", if is_good { "good: the server dropped every silent connection and no other" } else { "BAD" });
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the lateness of each connection that was dropped.
async fn serve(listener: TcpListener, connections: usize, timer: &Timer) -> io::Result<Vec<Duration>> {
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (stream, _) = listener.accept().await?;
        tasks.spawn(hold(TimeoutStream::new(stream).with_timer(timer).with_read_timeout(IDLE)));
    }
    Ok(tasks.join_all().await.into_iter().flatten().collect())
}

/// Reads until the client leaves or the idle timeout ends. If it ends, returns how late the server noticed.
async fn hold(mut stream: TimeoutStream<TcpStream>) -> Option<Duration> {
    let mut last_byte = Instant::now();
    loop {
        match stream.read(&mut [0; 64]).await {
            Ok(1..) => last_byte = Instant::now(),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return last_byte.elapsed().checked_sub(IDLE),
            Ok(0) | Err(_) => return None,
        }
    }
}

/// Returns how many clients were dropped although they sent heartbeats, or kept although they were silent.
async fn clients(address: SocketAddr, connections: usize) -> io::Result<usize> {
    let mut tasks = JoinSet::new();
    for number in 0..u32::try_from(connections).expect("at most 10,000") {
        let stream = TcpStream::connect(address).await?;
        tasks.spawn(async move { stay(stream, number).await != (number % 10 == 0) });
    }
    Ok(tasks.join_all().await.into_iter().filter(|is_wrong| *is_wrong).count())
}

/// Sends heartbeats until it is time to leave or to fall silent. Returns whether the server closed the connection.
async fn stay(mut stream: TcpStream, number: u32) -> bool {
    let (start, leave) = (Instant::now(), Instant::now() + STAY);
    let silent_from = if number % 10 == 0 { start + STAY / 200 * (number / 10 % 100) } else { leave };
    loop {
        let beat = Instant::now() + IDLE / 4 + Duration::from_millis((number % 300).into());
        let wake = if beat < silent_from { beat } else { leave };
        // The server sends nothing, so this read ends only if the server closes the connection.
        match timeout_at(wake, stream.read(&mut [0])).await {
            Ok(_) => return true,
            Err(_) if wake == leave => return false,
            Err(_) => drop(stream.write_all(&[0]).await), // if this fails, so does the next read
        }
    }
}

fn show_progress(timers: &[Timer; 2]) {
    for second in 0..STAY.as_secs() {
        let [server, clients] = timers.each_ref().map(Timer::metrics);
        let (armed, waiting, beats) = (server.registered(), server.pending(), clients.fired());
        println!("{second:>3} s: server: {armed} timers armed, {waiting} waiting; clients: {beats} heartbeats");
        thread::sleep(Duration::from_secs(1));
    }
}

/// Counts how many files the process can open, up to `enough`. It tries, because asking for the limit takes unsafe
/// code.
fn open_files(enough: usize) -> io::Result<usize> {
    let socket = Socket::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok((0..enough).map_while(|_| socket.try_clone().ok()).collect::<Vec<_>>().len())
}
