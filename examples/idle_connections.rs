//! A TCP server that closes connections when they fall silent, and thousands of clients for it in the same process.
//!
//! The server reads from a `TimeoutStream`, for which a heartbeat does not touch the timer. The clients send a
//! heartbeat about three times in the time that they may be silent; one in ten stops doing so. Exits with 1 if not just
//! these were closed.
//!
//! ```text
//! cargo run --release --example idle_connections
//! cargo run --release --example idle_connections -- --connections 500
//! ```

use std::net::{Ipv4Addr, SocketAddr, TcpListener as Socket};
use std::process::ExitCode;
use std::{env, io};

use hairspring::{Duration, Instant, Timer, interval, io::TimeoutStream, timeout_at};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const HELP: &str = "Usage: idle_connections [OPTIONS]

  --connections N   how many clients connect, 1 to 10000 (default 2000); each takes two open files
  --help            prints this
";

/// How long a connection may be silent, and how long a client stays.
const IDLE: Duration = Duration::from_secs(2);
const STAY: Duration = Duration::from_secs(8);

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let arguments: Vec<_> = env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let allowed = "allowed: a whole number from 1 to 10000";
    let problem = match arguments[..] {
        [] => return run(2_000).await,
        ["--help"] => {
            print!("{HELP}");
            return Ok(ExitCode::SUCCESS);
        }
        ["--connections", count] => match count.parse() {
            Ok(number @ 1..=10_000) => return run(number).await,
            _ => format!("--connections cannot be `{count}`; {allowed}"),
        },
        ["--connections"] => format!("--connections has no value; {allowed}"),
        [other, ..] => format!("there is no option `{other}`; allowed: --connections, --help"),
    };
    eprintln!("error: {problem}");
    Ok(ExitCode::from(2))
}

async fn run(wanted: usize) -> io::Result<ExitCode> {
    let connections = wanted.min(open_files(2 * wanted + 16)?.saturating_sub(16) / 2);
    if connections < wanted {
        println!("this process may not open the files for {wanted}: `ulimit -n {}` allows it", 2 * wanted + 32);
    }
    println!("{connections} connections for {STAY:?}, closed after {IDLE:?} of silence");
    let progress = tokio::spawn(show_progress());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let (late, outcomes) = tokio::try_join!(serve(listener, connections), clients(address, connections))?;
    progress.abort();

    let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    let (missed, wronged, silent) = (count((true, false)), count((false, true)), count((true, true)));
    println!("{} of {connections} clients fell silent, and {silent} of these were closed", silent + missed);
    println!("late by {:.1?} at most", late.iter().max().copied().unwrap_or_default());
    if missed + wronged == 0 && late.len() == silent {
        println!("good: each silent connection was closed, and no other");
        Ok(ExitCode::SUCCESS)
    } else {
        println!("BAD: {missed} silent ones not closed, {wronged} live ones closed");
        Ok(ExitCode::FAILURE)
    }
}

/// Returns how late each connection was closed that fell silent.
async fn serve(listener: TcpListener, connections: usize) -> io::Result<Vec<Duration>> {
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (stream, _) = listener.accept().await?;
        tasks.spawn(hold(TimeoutStream::new(stream).with_read_timeout(IDLE)));
    }
    Ok(tasks.join_all().await.into_iter().flatten().collect())
}

/// Reads until the client leaves, or is silent for too long: then returns how much later than `IDLE` that was noticed.
async fn hold(mut stream: TimeoutStream<TcpStream>) -> Option<Duration> {
    let mut last_byte = Instant::now();
    let error = loop {
        match stream.read(&mut [0; 64]).await {
            Ok(0) => return None,
            Ok(_) => last_byte = Instant::now(),
            Err(error) => break error,
        }
    };
    let is_silent = error.kind() == io::ErrorKind::TimedOut;
    is_silent.then(|| last_byte.elapsed().checked_sub(IDLE).expect("never early"))
}

/// Whether each client fell silent, and whether it was closed.
async fn clients(address: SocketAddr, connections: usize) -> io::Result<Vec<(bool, bool)>> {
    let mut tasks = JoinSet::new();
    for number in 0..u32::try_from(connections).expect("10,000 at most") {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        tasks.spawn(stay(stream, number));
    }
    Ok(tasks.join_all().await)
}

/// Sends heartbeats until it is time to leave or the server closes the connection.
async fn stay(mut stream: TcpStream, number: u32) -> (bool, bool) {
    let leave = Instant::now() + STAY;
    let fell_silent = number % 10 == 0;
    let silent_from = if fell_silent { leave - STAY / 200 * (100 + number % 100) } else { leave };
    let was_closed = loop {
        let beat = Instant::now() + IDLE / 4 + Duration::from_millis((number % 300).into());
        let wake = if beat < silent_from { beat } else { leave };
        // The server sends nothing: this read ends only when it closes the connection.
        if timeout_at(wake, stream.read(&mut [0])).await.is_ok() {
            break true;
        }
        if wake == leave {
            break false;
        }
        let _ = stream.write_all(&[0]).await; // An error is found by the read, too.
    };
    (fell_silent, was_closed)
}

/// Prints a line each second, from what the timer counts by itself.
async fn show_progress() {
    let mut seconds = interval(Duration::from_secs(1));
    for second in 0.. {
        seconds.tick().await;
        let counts = Timer::current().metrics();
        let [armed, cancelled, fired, wait] =
            [counts.registered(), counts.cancelled(), counts.fired(), counts.pending()];
        println!("{second:>3} s: {armed} timers armed, {cancelled} cancelled, {fired} fired, {wait} wait");
    }
}

/// How many files can be opened, `enough` at most: found by trying, as to ask takes unsafe code.
fn open_files(enough: usize) -> io::Result<usize> {
    let socket = Socket::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok((0..enough).map_while(|_| socket.try_clone().ok()).collect::<Vec<_>>().len())
}
