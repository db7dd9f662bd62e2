//! A limit on a request, to a server that is sometimes slow.
//!
//! The server is a task here, on loopback. It answers at once, except for each third request. The client gives every
//! request two seconds. Exits with 1 if an answer came that should have been too late, or the reverse.
//!
//! ```text
//! cargo run --release --example timeout
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use hairspring::{Duration, Instant, sleep, timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const REQUESTS: u8 = 6;
const LIMIT: Duration = Duration::from_secs(2);
const SLOW: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(serve(listener));

    let mut all_good = true;
    for number in 1..=REQUESTS {
        all_good &= show_request(address, number).await;
    }
    server.abort();
    println!("{}", if all_good { "good: the slow ones were given up, the others answered" } else { "BAD: see above" });
    Ok(if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes a request, prints how it went, and says whether that is how it should go.
async fn show_request(address: SocketAddr, number: u8) -> bool {
    let start = Instant::now();
    let result = request_in_time(address, number).await;
    let took = start.elapsed();
    match result {
        Ok(answer) => {
            println!("request {number}: answered {answer} in {took:.1?}");
            !is_slow(number) && answer == answer_to(number)
        }
        Err(error) => {
            println!("request {number}: {error} after {took:.1?}");
            is_slow(number) && error.kind() == io::ErrorKind::TimedOut && took >= LIMIT
        }
    }
}

/// The limit is on all of it: to connect, to ask and to be answered. What is not done by then is dropped, and that
/// closes the connection.
async fn request_in_time(address: SocketAddr, number: u8) -> io::Result<u8> {
    // `Elapsed` turns into an `io::Error` of the kind `TimedOut`: the first `?` is for it, the second for the request.
    let answer = timeout(LIMIT, request(address, number)).await??;
    Ok(answer)
}

async fn request(address: SocketAddr, number: u8) -> io::Result<u8> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_u8(number).await?;
    stream.read_u8().await
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let number = stream.read_u8().await?;
    if is_slow(number) {
        sleep(SLOW).await;
    }
    stream.write_u8(answer_to(number)).await
}

fn is_slow(number: u8) -> bool {
    number % 3 == 0
}

fn answer_to(number: u8) -> u8 {
    number * number
}
