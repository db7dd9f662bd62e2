//! Retransmission over UDP: every datagram has a timer, which its acknowledgement takes away, and which sends it again
//! when it expires.
//!
//! All timers are in one [`DelayQueue`], by sequence number. A timer that has expired doubles its timeout. One whose
//! datagram may be on its way still is put off when an acknowledgement shows that the path is alive (`reset`). The
//! network is loopback, with losses made by the receiver: it ignores some datagrams, and keeps some acknowledgements to
//! itself. Exits with 1 if something did not arrive.
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
use tokio_stream::StreamExt;

const DATAGRAMS: u32 = 2_000;
/// How much is lost each way, in per cent.
const LOSS: u64 = 20;
/// How many may be unacknowledged at a time.
const WINDOW: usize = 64;
const FIRST_TIMEOUT: Duration = Duration::from_millis(20);
const LONGEST_TIMEOUT: Duration = Duration::from_millis(320);
/// Long after which the run counts as hung.
const GIVE_UP: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let receiving = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let sending = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    sending.connect(receiving.local_addr()?).await?;
    receiving.connect(sending.local_addr()?).await?;

    let receiver = tokio::spawn(receive(receiving));
    let (timers, counts) = (DelayQueue::new(), Sent::default());
    let sender = Sender { socket: sending, in_flight: HashMap::new(), timers, next: 0, counts };
    let sent = sender.run().timeout(GIVE_UP).await??;
    let (arrived, lost) = receiver.timeout(GIVE_UP).await???;

    println!("{DATAGRAMS} datagrams with {LOSS}% lost each way:");
    println!("{:>7} were sent again as their timer had expired", sent.expired);
    println!("{:>7} timers were taken away by an acknowledgement, {} put off", sent.cancelled, sent.put_off);
    println!("{arrived:>7} arrived, {lost} were lost on the way there");

    // Nothing that was lost could be made good but by a timer.
    let is_good = arrived == DATAGRAMS && sent.cancelled == DATAGRAMS && sent.expired >= lost;
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
    expired: u32,
    cancelled: u32,
    put_off: u32,
}

struct Sender {
    socket: UdpSocket,
    in_flight: HashMap<u32, InFlight>,
    timers: DelayQueue<u32>,
    next: u32,
    counts: Sent,
}

impl Sender {
    async fn run(mut self) -> io::Result<Sent> {
        let mut ack = [0; 4];
        loop {
            while self.in_flight.len() < WINDOW && self.next < DATAGRAMS {
                self.send(self.next, FIRST_TIMEOUT).await?;
                self.next += 1;
            }
            if self.in_flight.is_empty() {
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
        let timer = self.timers.insert(sequence, timeout);
        self.in_flight.insert(sequence, InFlight { timer, timeout });
        Ok(())
    }

    fn acknowledged(&mut self, sequence: u32) {
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

/// Takes datagrams until the sender has all its acknowledgements. Returns how many arrived, and how many were lost.
async fn receive(socket: UdpSocket) -> io::Result<(u32, u32)> {
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
        // The acknowledgement may be lost, too.
        if !is_lost() {
            socket.send(&datagram).await?;
        }
    }
    Ok((u32::try_from(arrived.len()).expect("not that many"), lost))
}
