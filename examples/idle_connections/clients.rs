//! The clients: each sends heartbeats, and some stop before they leave.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hairspring::{Duration, Instant, timeout_at};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::jitter::Jitter;
use crate::options::Options;
use crate::tally::Tally;

/// One client in so many falls silent.
const SILENT_ONE_IN: u64 = 10;

/// What a client saw.
pub(crate) struct Outcome {
    pub(crate) fell_silent: bool,
    pub(crate) was_closed: bool,
}

/// Connects all clients, and returns when the last has left.
pub(crate) async fn run(address: SocketAddr, options: Options, tally: &Arc<Tally>) -> io::Result<Vec<Outcome>> {
    let mut clients = JoinSet::new();
    for number in 0..options.connections {
        let mut stream = TcpStream::connect(address).await?;
        // The next connects when this one was accepted. The queue of a listener is short, and what finds it full tries
        // again only after a second.
        let _greeting = stream.read_u8().await?;
        // A heartbeat of one byte is not to wait for more to send.
        stream.set_nodelay(true)?;
        clients.spawn(stay(stream, number, options, Arc::clone(tally)));
    }
    Ok(clients.join_all().await)
}

/// Sends heartbeats on a connection until it is time to leave or the server closes it.
async fn stay(mut stream: TcpStream, number: u64, options: Options, tally: Arc<Tally>) -> Outcome {
    let mut jitter = Jitter::seeded(number);
    let start = Instant::now();
    let leave = start + options.stay;
    let fell_silent = number % SILENT_ONE_IN == 0;
    let last_beat = if fell_silent { start + jitter.within(options.last_silence()) } else { leave };

    let was_closed = loop {
        let beat = Instant::now() + heartbeat_pause(options.idle, &mut jitter);
        let wake = if beat < last_beat { beat } else { leave };
        // The server sends no more: this read ends only when the server closes the connection.
        if tally.beats.count(timeout_at(wake, stream.read(&mut [0]))).await.is_ok() {
            break true;
        }
        if wake == leave {
            break false;
        }
        if stream.write_all(&[0]).await.is_err() {
            break true;
        }
    };
    Outcome { fell_silent, was_closed }
}

/// About a third of the idle limit: a client may be late with one heartbeat and still be heard in time.
fn heartbeat_pause(idle: Duration, jitter: &mut Jitter) -> Duration {
    jitter.around(idle / 3)
}
