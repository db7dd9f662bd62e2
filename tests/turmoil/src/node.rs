// A node of a cluster. This file is compiled twice, with `time` as tokio's and as hairspring.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turmoil::net::{TcpListener, TcpStream, UdpSocket};

use crate::{NODES, Trace, What};

const BEATS: u16 = 9_000;
const PINGS: u16 = 9_001;

/// How often a node sends a heartbeat, and how long others wait for one before they consider it dead.
const BEAT: Duration = Duration::from_millis(100);
const SILENCE: Duration = Duration::from_millis(350);
/// How often a node asks the next one, and how long it waits for the answer.
const PING: Duration = Duration::from_millis(430);
const ANSWER: Duration = Duration::from_millis(120);

pub(crate) async fn run(me: usize, trace: Trace) -> turmoil::Result {
    let all = (Ipv4Addr::UNSPECIFIED, BEATS);
    let beats = std::rc::Rc::new(UdpSocket::bind(all).await?);
    tokio::task::spawn_local(beat(me, beats.clone()));
    tokio::task::spawn_local(answer());
    tokio::task::spawn_local(ping(me, trace.clone()));
    watch(me, beats, trace).await
}

fn others(me: usize) -> impl Iterator<Item = usize> {
    (0..NODES).filter(move |&node| node != me)
}

async fn beat(me: usize, beats: std::rc::Rc<UdpSocket>) {
    let mut every = time::interval(BEAT);
    loop {
        every.tick().await;
        for other in others(me) {
            // A node that is down or cut off does not receive it.
            let _ = beats.send_to(b"alive", (crate::name(other), BEATS)).await;
        }
    }
}

/// Waits for heartbeats, and reports nodes that fall silent and come back.
async fn watch(me: usize, beats: std::rc::Rc<UdpSocket>, trace: Trace) -> turmoil::Result {
    let mut seen = [time::Instant::now(); NODES];
    let mut lives = [true; NODES];
    loop {
        let next = others(me).filter(|&node| lives[node]).map(|node| seen[node] + SILENCE).min();
        let next = next.unwrap_or_else(|| time::Instant::now() + SILENCE);
        let mut word = [0; 8];
        match time::timeout_at(next, beats.recv_from(&mut word)).await {
            Ok(beat) => {
                let from = crate::node_at(beat?.1.ip());
                seen[from] = time::Instant::now();
                if !std::mem::replace(&mut lives[from], true) {
                    trace.add(me, What::Back(from));
                }
            }
            Err(_) => {
                for node in others(me).filter(|&node| seen[node] + SILENCE <= time::Instant::now()) {
                    if std::mem::replace(&mut lives[node], false) {
                        trace.add(me, What::Silent(node));
                    }
                }
            }
        }
    }
}

async fn answer() {
    let pings = TcpListener::bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), PINGS)).await.unwrap();
    while let Ok((mut asked, _)) = pings.accept().await {
        tokio::task::spawn_local(async move {
            let number = asked.read_u8().await?;
            // Some answers come in time, others do not.
            time::sleep(Duration::from_millis(u64::from(number) % 16 * 10)).await;
            asked.write_u8(number).await
        });
    }
}

async fn ping(me: usize, trace: Trace) {
    let next = (me + 1) % NODES;
    let mut every = time::interval_at(time::Instant::now() + PING, PING);
    every.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    for number in 0.. {
        every.tick().await;
        let ping = async {
            let mut asked = TcpStream::connect((crate::name(next), PINGS)).await?;
            asked.write_u8(number).await?;
            asked.read_u8().await
        };
        trace.add(
            me,
            match time::timeout(ANSWER, ping).await {
                Ok(Ok(number)) => What::Answered(number),
                Ok(Err(error)) => What::Failed(error.kind()),
                Err(_) => What::TimedOut(number),
            },
        );
    }
}
