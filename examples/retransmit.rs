//! Retransmission over UDP: every datagram has a timer. An acknowledgement cancels it; if it expires, the datagram is
//! sent again.
//!
//! All timers are in one [`DelayQueue`], by sequence number. An expired timer doubles its timeout. An acknowledgement
//! postpones the timers of the next datagrams, because it shows that the path is alive. The receiver simulates losses
//! on loopback by ignoring some datagrams and withholding some acknowledgements. Exits with 1 if a datagram did not
//! arrive.
//!
//! ```text
//! cargo run --release --example retransmit
//! ```

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::Ipv4Addr;
use std::process::ExitCode;

use hairspring::delay_queue::Key;
use hairspring::{DelayQueue, Duration, FutureExt};
use tokio::net::UdpSocket;

const DATAGRAMS: u32 = 2_000;
/// The share that is lost each way, in percent.
const LOSS: u64 = 20;
/// How many datagrams may be in flight.
const WINDOW: usize = 64;
const FIRST_TIMEOUT: Duration = Duration::from_millis(20);
const LONGEST_TIMEOUT: Duration = Duration::from_millis(320);
/// A run that takes longer has hung.
const GIVE_UP: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let receiving = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    socket.connect(receiving.local_addr()?).await?;
    receiving.connect(socket.local_addr()?).await?;

    let receiver = tokio::spawn(receive(receiving));
    let mut sender = Sender { socket, in_flight: HashMap::new(), timers: DelayQueue::new() };
    sender.run().timeout(GIVE_UP).await??;
    let (arrived, lost) = receiver.timeout(GIVE_UP).await???;

    let timers = sender.timers.metrics();
    println!("{DATAGRAMS} datagrams with {LOSS}% lost each way:");
    println!("{:>7} timers expired, and their datagrams were sent again", timers.expired());
    println!("{:>7} timers were cancelled by an acknowledgement", timers.removed());
    println!("{arrived:>7} datagrams arrived, {lost} were lost on the way");
    let datagrams = u64::from(DATAGRAMS);
    let is_good = arrived == datagrams && timers.removed() == datagrams && timers.expired() >= lost;
    println!("{}", if is_good { "good: all arrived, and no timer is left" } else { "BAD: it does not add up" });
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Sender {
    socket: UdpSocket,
    /// The timer and the timeout of each datagram that is not acknowledged.
    in_flight: HashMap<u32, (Key, Duration)>,
    timers: DelayQueue<u32>,
}

impl Sender {
    async fn run(&mut self) -> io::Result<()> {
        let (mut next, mut ack) = (0, [0; 4]);
        loop {
            while self.in_flight.len() < WINDOW && next < DATAGRAMS {
                self.send(next, FIRST_TIMEOUT).await?;
                next += 1;
            }
            if self.in_flight.is_empty() {
                self.socket.send(b"end").await?;
                return Ok(());
            }
            tokio::select! {
                length = self.socket.recv(&mut ack) => {
                    length?;
                    self.acknowledged(u32::from_be_bytes(ack));
                }
                Some(expired) = self.timers.recv() => {
                    let sequence = expired.into_inner();
                    let (_, timeout) = self.in_flight.remove(&sequence).expect("a timer has its datagram");
                    self.send(sequence, (timeout * 2).min(LONGEST_TIMEOUT)).await?;
                }
            }
        }
    }

    async fn send(&mut self, sequence: u32, timeout: Duration) -> io::Result<()> {
        self.socket.send(&sequence.to_be_bytes()).await?;
        let timer = self.timers.insert(sequence, timeout);
        self.in_flight.insert(sequence, (timer, timeout));
        Ok(())
    }

    fn acknowledged(&mut self, sequence: u32) {
        let Some((timer, _)) = self.in_flight.remove(&sequence) else { return };
        self.timers.remove(&timer);
        for later in sequence + 1..sequence + 4 {
            if let Some((timer, timeout)) = self.in_flight.get(&later) {
                self.timers.reset(timer, *timeout);
            }
        }
    }
}

/// Receives until the sender has all acknowledgements. Returns how many datagrams arrived and how many were lost.
async fn receive(socket: UdpSocket) -> io::Result<(u64, u64)> {
    let (mut arrived, mut lost) = (HashSet::new(), 0);
    let mut datagram = [0; 4];
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut is_lost = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 32) % 100 < LOSS
    };
    while socket.recv(&mut datagram).await? == datagram.len() {
        if is_lost() {
            lost += 1;
            continue;
        }
        arrived.insert(datagram);
        if !is_lost() {
            socket.send(&datagram).await?;
        }
    }
    Ok((arrived.len() as u64, lost))
}
