//! The server: holds each connection as long as it is heard from.

use std::io;
use std::sync::Arc;

use hairspring::{Duration, Instant, timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::options::Options;
use crate::tally::Tally;

/// What the server sends to each client once it has accepted it, and all that it ever sends.
const GREETING: u8 = b'!';

/// How a connection came to its end.
pub(crate) enum Ending {
    /// The client closed it, or it broke.
    ByClient,
    /// It was silent for too long: it was due to be closed at the one instant and was closed at the other.
    Silent { due: Instant, closed: Instant },
}

/// Accepts as many connections as there are clients, and returns when all of them have ended.
pub(crate) async fn serve(listener: &TcpListener, options: Options, tally: &Arc<Tally>) -> io::Result<Vec<Ending>> {
    let mut connections = JoinSet::new();
    for _ in 0..options.connections {
        let (stream, _) = listener.accept().await?;
        tally.accepted.add(1);
        connections.spawn(hold(stream, options.idle, Arc::clone(tally)));
    }
    Ok(connections.join_all().await)
}

/// Greets the client, and reads from its connection until it leaves or is silent for longer than `idle`.
async fn hold(mut stream: TcpStream, idle: Duration, tally: Arc<Tally>) -> Ending {
    let ending = match stream.write_u8(GREETING).await {
        Ok(()) => read_until_silent(stream, idle, &tally).await,
        Err(_) => Ending::ByClient,
    };
    tally.ended.add(1);
    ending
}

async fn read_until_silent(mut stream: TcpStream, idle: Duration, tally: &Tally) -> Ending {
    let mut buffer = [0; 64];
    let mut last_byte = Instant::now();
    loop {
        match tally.reads.count(timeout(idle, stream.read(&mut buffer))).await {
            Ok(Ok(0) | Err(_)) => return Ending::ByClient,
            Ok(Ok(bytes)) => {
                last_byte = Instant::now();
                // A heartbeat is one byte.
                tally.heartbeats.add(u64::try_from(bytes).unwrap_or(0));
            }
            Err(_elapsed) => {
                drop(stream);
                tally.closed_as_silent.add(1);
                return Ending::Silent { due: last_byte + idle, closed: Instant::now() };
            }
        }
    }
}
