//! Retransmission over UDP: every datagram has a timer, which its acknowledgement takes away, and which sends it again
//! when it expires.
//!
//! All timers stand in one [`DelayQueue`], by sequence number. A timer that has expired doubles its timeout. One whose
//! datagram may be on its way still is put off when an acknowledgement shows that the path is alive (`reset`). The
//! network is loopback, with losses made by the receiver: it ignores some datagrams, and keeps some acknowledgements to
//! itself. Exits with 1 where something did not arrive, or arrived twice.
//!
//! ```text
//! cargo run --release --example retransmit
//! cargo run --release --example retransmit -- --loss 50
//! cargo run --release --example retransmit -- --help
//! ```

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::Ipv4Addr;
use std::process::ExitCode;

use futures::StreamExt;
use hairspring::delay_queue::Key;
use hairspring::{DelayQueue, Duration, FutureExt, Instant};
use tokio::net::UdpSocket;

use arguments::number;

#[path = "shared/arguments.rs"]
mod arguments;

const HELP: &str = "\
Sends datagrams over a network that loses some, each again until it is acknowledged.

Usage: retransmit [OPTIONS]

Options:
  --loss N   how much is lost each way, in per cent, 0 to 90 (default 20)
  --help     prints this

Exits with 0 if all arrived, with 1 if not, with 2 on bad options.
";

const DATAGRAMS: u32 = 2_000;
/// How many may be unacknowledged at a time.
const WINDOW: usize = 64;
const FIRST_TIMEOUT: Duration = Duration::from_millis(20);
const LONGEST_TIMEOUT: Duration = Duration::from_millis(320);
/// Long after which the run counts as hung.
const GIVE_UP: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let loss = arguments::read(HELP, parse);
    let receiving = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let sending = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    sending.connect(receiving.local_addr()?).await?;
    receiving.connect(sending.local_addr()?).await?;

    let receiver = tokio::spawn(receive(receiving, loss));
    let start = Instant::now();
    let here = Sender::new(sending).run().timeout(GIVE_UP).await??;
    let there = receiver.timeout(GIVE_UP).await???;

    println!("{DATAGRAMS} datagrams with {loss}% lost each way, in {:.1?}:", start.elapsed());
    println!("{:>7} sent, of which {} again after their timer had expired", here.datagrams, here.expired);
    println!("{:>7} timers were taken away by an acknowledgement", here.cancelled);
    println!("{:>7} times a timer was put off by an acknowledgement of another datagram", here.put_off);
    println!("{:>7} lost on the way there, {} on the way back", there.lost, there.acks_lost);
    println!("{:>7} arrived, {} of them more than once", there.arrived, there.twice);

    let is_good = there.arrived == DATAGRAMS
        && here.datagrams == u64::from(DATAGRAMS) + here.expired
        && here.cancelled == u64::from(DATAGRAMS)
        // Nothing that was lost could be made good but by a timer.
        && here.expired >= there.lost;
    println!("{}", if is_good { "good: all arrived, and no timer is left" } else { "BAD: it does not add up" });
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A datagram that has not been acknowledged.
struct InFlight {
    timer: Key,
    timeout: Duration,
}

#[derive(Default)]
struct Sent {
    datagrams: u64,
    expired: u64,
    cancelled: u64,
    put_off: u64,
}

struct Sender {
    socket: UdpSocket,
    in_flight: HashMap<u32, InFlight>,
    timers: DelayQueue<u32>,
    next: u32,
    counts: Sent,
}

impl Sender {
    fn new(socket: UdpSocket) -> Sender {
        let timers = DelayQueue::with_capacity(WINDOW);
        Sender { socket, in_flight: HashMap::new(), timers, next: 0, counts: Sent::default() }
    }

    async fn run(mut self) -> io::Result<Sent> {
        let mut ack = [0; 4];
        loop {
            while self.in_flight.len() < WINDOW && self.next < DATAGRAMS {
                self.send(self.next, FIRST_TIMEOUT).await?;
                self.next += 1;
            }
            if self.in_flight.is_empty() {
                assert!(self.timers.is_empty(), "no timer without its datagram");
                self.socket.send(b"end").await?;
                return Ok(self.counts);
            }
            tokio::select! {
                length = self.socket.recv(&mut ack) => {
                    if length? == ack.len() {
                        self.acknowledged(u32::from_be_bytes(ack));
                    }
                }
                // There is one, as something is in flight.
                Some(expired) = self.timers.next() => {
                    let sequence = expired.into_inner();
                    let before = self.in_flight.remove(&sequence).expect("an expired timer has its datagram");
                    self.counts.expired += 1;
                    self.send(sequence, (before.timeout * 2).min(LONGEST_TIMEOUT)).await?;
                }
            }
        }
    }

    async fn send(&mut self, sequence: u32, timeout: Duration) -> io::Result<()> {
        self.socket.send(&sequence.to_be_bytes()).await?;
        self.counts.datagrams += 1;
        let timer = self.timers.insert(sequence, timeout);
        self.in_flight.insert(sequence, InFlight { timer, timeout });
        Ok(())
    }

    fn acknowledged(&mut self, sequence: u32) {
        // An acknowledgement may come twice, as the datagram did.
        let Some(acknowledged) = self.in_flight.remove(&sequence) else { return };
        self.timers.remove(&acknowledged.timer);
        self.counts.cancelled += 1;
        // The path is alive, so what was sent after this one is given its full time from now.
        for later in sequence + 1..sequence + 4 {
            if let Some(InFlight { timer, timeout }) = self.in_flight.get(&later) {
                self.timers.reset(timer, *timeout);
                self.counts.put_off += 1;
            }
        }
    }
}

#[derive(Default)]
struct Received {
    arrived: u32,
    twice: u64,
    lost: u64,
    acks_lost: u64,
}

/// Takes datagrams until the sender says that it has all its acknowledgements.
async fn receive(socket: UdpSocket, loss: u64) -> io::Result<Received> {
    let mut counts = Received::default();
    let mut arrived = HashSet::new();
    let mut datagram = [0; 4];
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut is_lost = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % 100 < loss
    };
    loop {
        if socket.recv(&mut datagram).await? != datagram.len() {
            return Ok(counts);
        }
        if is_lost() {
            counts.lost += 1;
            continue;
        }
        if arrived.insert(datagram) {
            counts.arrived += 1;
        } else {
            counts.twice += 1;
        }
        if is_lost() {
            counts.acks_lost += 1;
            continue;
        }
        socket.send(&datagram).await?;
    }
}

/// How much is lost, in per cent of the datagrams and of the acknowledgements.
fn parse(mut arguments: impl Iterator<Item = String>) -> Result<u64, String> {
    let mut loss = 20;
    while let Some(name) = arguments.next() {
        match name.as_str() {
            // With more it would take too long.
            "--loss" => loss = number(&name, arguments.next(), &(0..=90))?,
            _ => return Err(format!("there is no option `{name}`; allowed: --loss, --help")),
        }
    }
    Ok(loss)
}
