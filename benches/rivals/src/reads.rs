//! Reads that a limit cuts although their data came before it.
//!
//! The peer is another process, so that it can write while this one is stopped. Both read one clock of the system, and
//! a round counts only if everything was written before the first limit ended.

use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::AsyncReadExt;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use crate::session::{Scope, Sheet};

const WORKERS: [usize; 4] = [1, 2, 4, 8];
/// Connections of a round.
const READS: usize = 50;
const LIMIT: Duration = Duration::from_millis(100);
/// When the peer writes: shortly before the limits end, or after it has stopped this process.
const LATE: Duration = Duration::from_millis(80);
const EARLY: Duration = Duration::from_millis(20);

/// What else the process does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Beside {
    /// Each worker runs a task that computes for 0.2 ms and yields.
    Busy,
    /// It is stopped before the data comes, and goes on after the limits.
    Stopped,
}

/// Writes to the connections of the parent.
#[derive(Debug, Args)]
pub struct Peer {
    address: SocketAddr,
    /// The process to stop.
    #[arg(long)]
    stops: Option<i32>,
}

type Timeout = fn(TcpStream) -> BoxFuture<'static, bool>;

async fn read(socket: TcpStream) -> bool {
    let mut socket = tokio::net::TcpStream::from_std(socket).expect("it does not block");
    socket.read_u8().await.is_ok()
}

/// Its name, its timeout and its sleep.
type Contender = (&'static str, Timeout, fn(Duration) -> BoxFuture<'static, ()>);

const CONTENDERS: [Contender; 2] = [
    (
        "hairspring",
        |socket| hairspring::timeout(LIMIT, read(socket)).map(|got| got == Ok(true)).boxed(),
        |time| hairspring::sleep(time).boxed(),
    ),
    (
        "tokio::time",
        |socket| tokio::time::timeout(LIMIT, read(socket)).map(|got| got == Ok(true)).boxed(),
        |time| tokio::time::sleep(time).boxed(),
    ),
];

pub fn run(scope: &Scope) -> Result<(), Box<dyn Error>> {
    let mut sheet = Sheet::new(&[], "beside|workers|contender|reads|cut though their data had come");
    for beside in [Beside::Busy, Beside::Stopped] {
        let title = match beside {
            Beside::Busy => "busy workers",
            Beside::Stopped => "a stopped process",
        };
        let mut rows = Vec::new();
        for workers in WORKERS {
            for (name, timeout, sleep) in CONTENDERS {
                let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
                // hairspring finds the I/O driver of a runtime that is in use.
                runtime.block_on(async { join_all((0..600).map(|time| sleep(Duration::from_millis(time)))).await });
                let mut cut = 0;
                let rounds = scope.rounds(20);
                for _ in 0..rounds {
                    cut += round(&runtime, workers, beside, timeout)?;
                }
                let reads = rounds as usize * READS;
                rows.push([workers.to_string(), name.into(), reads.to_string(), cut.to_string()].to_vec());
            }
        }
        sheet.add(title, &[title], rows);
    }
    sheet.save(scope.file("reads"))
}

/// How many reads were cut. Repeats a round in which the machine was too slow.
fn round(runtime: &Runtime, workers: usize, beside: Beside, timeout: Timeout) -> Result<usize, Box<dyn Error>> {
    let stops = beside == Beside::Stopped;
    loop {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut peer = start(listener.local_addr()?, stops)?;
        let sockets = (0..READS).map(|_| listener.accept().map(|(socket, _)| socket)).collect::<Result<Vec<_>, _>>()?;
        sockets.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
        let (entered, over) = (runtime.enter(), now() + LIMIT);
        let reads: Vec<_> = sockets.into_iter().map(|socket| runtime.spawn(timeout(socket))).collect();
        drop(entered);
        let busy: Vec<_> = (0..if stops { 0 } else { workers }).map(|_| runtime.spawn(computes())).collect();
        peer.stdin.take().expect("it is piped").write_all(b"go\n")?;
        let got = runtime.block_on(join_all(reads));
        for task in &busy {
            task.abort();
        }
        let mut written = String::new();
        BufReader::new(peer.stdout.take().expect("it is piped")).read_line(&mut written)?;
        peer.wait()?;
        if Duration::from_nanos(written.trim().parse()?) < over {
            return Ok(got.into_iter().filter(|got| !matches!(got, Ok(true))).count());
        }
    }
}

async fn computes() {
    loop {
        let until = now() + Duration::from_micros(200);
        while now() < until {}
        yield_now().await;
    }
}

fn start(address: SocketAddr, stops: bool) -> Result<Child, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["peer", &address.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    if stops {
        command.args(["--stops", &std::process::id().to_string()]);
    }
    Ok(command.spawn()?)
}

/// A clock that both processes read.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).expect("it is less than a second"))
}

impl Peer {
    pub fn run(&self) {
        let connect = || TcpStream::connect(self.address).expect("the parent listens");
        let mut sockets: Vec<_> = (0..READS).map(|_| connect()).collect();
        std::io::stdin().read_line(&mut String::new()).expect("the parent says when");
        let stops = self.stops.map(|parent| Pid::from_raw(parent).expect("it is not zero"));
        let signal = |signal| stops.map(|parent| kill_process(parent, signal).expect("the parent lives"));
        thread::sleep(if stops.is_some() { EARLY } else { LATE });
        signal(Signal::STOP);
        for socket in &mut sockets {
            socket.write_all(b"x").expect("the parent has not closed it");
        }
        println!("{}", now().as_nanos());
        if stops.is_some() {
            thread::sleep(LIMIT);
        }
        signal(Signal::CONT);
    }
}
