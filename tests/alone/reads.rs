//! Reads with limits at random, beside the same with tokio's timers in one process: what came before its limit is read,
//! on any number of workers, whatever else the process does. So nothing is lost more often than with tokio.

use std::io::Write;
use std::net;
use std::os::unix;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::alone;
use crate::common::limits::{Read, connected, kinds, read, read_until};
use crate::common::{OnDrop, Random, for_seeds, ms, on_wake, step, wait_until, with_workers};
use crate::limits::{WORKERS, read_until_found, runtimes_files, stand_still, timers, watched_socket};
use futures::FutureExt as _;
use futures::future::join_all;
use hairspring::Instant;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio::task::{block_in_place, yield_now};

/// Limits last from the first to the second.
const LIMITS: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(300)];

/// The reads of a runtime in a round.
const READS: usize = 30;

/// What else happens in a round.
#[derive(Debug, Clone, Copy)]
enum Beside {
    /// The process is stopped, and all bytes come meanwhile.
    Stops,
    /// Tasks compute and yield.
    Computes,
    /// Tasks block their workers, some of them in place.
    Blocks,
    /// Sockets whose wakers are slow keep the I/O driver from reporting others.
    SlowWakers,
}

/// A runtime with timers of one crate, and the reads of a round, with their limits.
struct Contender {
    name: String,
    is_ours: bool,
    workers: usize,
    runtime: Runtime,
    reads: Vec<(&'static str, Read, Duration)>,
}

/// The other end of a read's connection.
struct Peer {
    socket: net::TcpStream,
    limit: Instant,
}

/// How many reads had their bytes in time, and which of them were cut.
#[derive(Default)]
struct Tally {
    in_time: usize,
    cut: Vec<String>,
}

fn tokios_kinds() -> Vec<(&'static str, Read)> {
    vec![
        ("timeout", |socket, limit| tokio::time::timeout(limit, read(socket)).map(|got| got == Ok(true)).boxed()),
        ("sleep", |socket, limit| read_until(socket, tokio::time::sleep(limit)).boxed()),
    ]
}

fn between(random: &mut Random, [from, to]: [Duration; 2]) -> Duration {
    from + random.duration(to.saturating_sub(from))
}

/// A runtime with each number of workers for each crate.
fn contenders(random: &mut Random) -> Vec<Contender> {
    // The files of the runtimes before are closed by then, and are not taken for these.
    wait_until(|| runtimes_files() == 0);
    let contender = |(workers, is_ours)| {
        let runtime = with_workers(workers);
        let (timer, kinds) = if is_ours {
            let mut timers = Vec::from(timers());
            let (name, timer) = timers.swap_remove(random.index(timers.len()));
            read_until_found(&runtime, timer);
            (name, kinds())
        } else {
            ("tokio::time", tokios_kinds())
        };
        let read = |_| {
            let (kind, read) = random.pick(&kinds);
            (kind, read, between(random, LIMITS))
        };
        let reads = (0..READS).map(read).collect();
        Contender { name: format!("{timer}, {workers} workers"), is_ours, workers, runtime, reads }
    };
    WORKERS.into_iter().flat_map(|workers| [(workers, true), (workers, false)]).map(contender).collect()
}

/// A connection for each read. All are made before the first read begins, because that takes longer than the shortest
/// limits on a busy machine.
fn connections(contender: &Contender) -> Vec<(TcpStream, net::TcpStream)> {
    let _inside = contender.runtime.enter();
    contender.reads.iter().map(|_| connected()).collect()
}

/// Starts the reads. Returns what waits for them on a thread, and says which got their bytes; and the other ends.
fn start(contender: &Contender, sockets: Vec<(TcpStream, net::TcpStream)>) -> (impl FnOnce() -> Vec<bool>, Vec<Peer>) {
    let begun = Instant::now();
    let start = |(&(_, read, limit), (ours, socket)): (&(_, Read, Duration), _)| {
        let read = contender.runtime.spawn(async move { read(ours, limit).await });
        (read, Peer { socket, limit: begun + limit })
    };
    let (reads, peers): (Vec<_>, _) = contender.reads.iter().zip(sockets).map(start).unzip();
    let wait = move || contender.runtime.block_on(join_all(reads)).into_iter().map(Result::unwrap).collect();
    (wait, peers)
}

/// Makes a task for each worker do something again and again, until the round is over.
fn keep_busy(contender: &Contender, over: &Arc<AtomicBool>, random: &mut Random, busy: fn(&mut Random, bool)) {
    for _ in 0..contender.workers.max(1) {
        let (over, mut random, has_workers) = (over.clone(), Random::new(random.next()), contender.workers > 0);
        contender.runtime.spawn(async move {
            while !over.load(SeqCst) {
                busy(&mut random, has_workers);
                yield_now().await;
            }
        });
    }
}

fn compute(random: &mut Random, _: bool) {
    let until = Instant::now() + random.duration(ms(1));
    while Instant::now() < until {}
}

fn block(random: &mut Random, has_workers: bool) {
    let time = random.duration(ms(20));
    if has_workers && random.one_in(2) {
        block_in_place(|| thread::sleep(time));
    } else {
        thread::sleep(time);
    }
}

/// Sockets whose wakers block the thread with the I/O driver, and their other ends.
fn slow_sockets(contender: &Contender, random: &mut Random) -> (Vec<UnixStream>, Vec<unix::net::UnixStream>) {
    let _inside = contender.runtime.enter();
    let slow = |_| {
        let time = random.duration(ms(80));
        watched_socket(&on_wake(move || thread::sleep(time)))
    };
    (0..4).map(slow).unzip()
}

/// Writes a byte to each peer shortly before its limit. Returns which came in time.
fn write_late(peers: &[Peer], random: &mut Random) -> Vec<bool> {
    let mut order: Vec<_> =
        peers.iter().enumerate().map(|(n, peer)| (peer.limit - random.duration(ms(15)), n)).collect();
    order.sort_unstable();
    let mut in_time = vec![false; peers.len()];
    for (at, number) in order {
        let peer = &peers[number];
        thread::sleep(at.saturating_duration_since(Instant::now()));
        let _ = (&peer.socket).write_all(b"x");
        in_time[number] = Instant::now() < peer.limit;
    }
    in_time
}

/// Stops the process for up to a second, in which bytes come to all. Returns which came in time.
fn write_while_stopped(peers: Vec<Peer>, random: &mut Random) -> Vec<bool> {
    thread::sleep(random.duration(LIMITS[0]));
    let first = peers.iter().map(|peer| peer.limit).min().unwrap();
    let time = between(random, [LIMITS[0], ms(1_200)]);
    let count = peers.len();
    let in_time = stand_still(peers.into_iter().map(|peer| peer.socket).collect(), first, time);
    vec![in_time(); count]
}

/// Adds the round of a seed to the tallies of tokio and of this crate.
fn round(seed: u64, tallies: &mut [Tally; 2]) {
    let mut random = Random::new(seed);
    let besides = [Beside::Stops, Beside::Computes, Beside::Blocks, Beside::SlowWakers];
    // Some rounds in a row have all.
    let beside = besides[usize::try_from(seed % 4).unwrap()];
    let contenders = contenders(&mut random);
    let sockets: Vec<_> = contenders.iter().map(connections).collect();
    let over = Arc::new(AtomicBool::new(false));
    let mut slow = Vec::new();
    let (got, in_time): (Vec<_>, _) = thread::scope(|scope| {
        let _over = OnDrop(|| over.store(true, SeqCst));
        for contender in &contenders {
            match beside {
                Beside::Stops => {}
                Beside::Computes => keep_busy(contender, &over, &mut random, compute),
                Beside::Blocks => keep_busy(contender, &over, &mut random, block),
                Beside::SlowWakers => slow.push(slow_sockets(contender, &mut random)),
            }
        }
        let (mut waits, mut peers) = (Vec::new(), Vec::new());
        for (contender, sockets) in contenders.iter().zip(sockets) {
            let (wait, others) = start(contender, sockets);
            waits.push(scope.spawn(wait));
            peers.extend(others);
        }
        let mut wakes: Vec<_> =
            slow.iter().flat_map(|(_, peers)| peers).map(|peer| (random.duration(LIMITS[1]), peer)).collect();
        wakes.sort_unstable_by_key(|&(after, _)| after);
        let begun = Instant::now();
        scope.spawn(move || {
            for (after, mut peer) in wakes {
                thread::sleep(after.saturating_sub(begun.elapsed()));
                peer.write_all(b"x").unwrap();
            }
        });
        let in_time = match beside {
            Beside::Stops => write_while_stopped(peers, &mut random),
            _ => write_late(&peers, &mut random),
        };
        (waits.into_iter().flat_map(|wait| wait.join().unwrap()).collect(), in_time)
    });
    let reads = contenders.iter().flat_map(|contender| contender.reads.iter().map(move |read| (contender, read)));
    for ((contender, (kind, ..)), (got, in_time)) in reads.zip(got.into_iter().zip(in_time)) {
        let tally = &mut tallies[usize::from(contender.is_ours)];
        tally.in_time += usize::from(in_time);
        if in_time && !got {
            tally.cut.push(format!("{beside:?}, {}, {kind}", contender.name));
        }
    }
}

#[test]
fn what_came_before_a_limit_is_read_and_nothing_is_lost_more_often_than_with_tokio() {
    let printed = alone(|| {
        let mut tallies = [Tally::default(), Tally::default()];
        // On a machine that is busy enough, nothing comes in time at first.
        for _ in 0..20 {
            for_seeds(12, |seed| {
                round(seed, &mut tallies);
                step();
                let [_, ours] = &tallies;
                assert!(ours.cut.is_empty(), "cut: {:?}", ours.cut);
            });
            if tallies.iter().all(|tally| tally.in_time > 0) {
                break;
            }
        }
        let [tokios, ours] = tallies;
        assert!(ours.in_time > 0);
        eprintln!(
            "of reads whose bytes came in time, tokio cut {} of {}, hairspring none of {}",
            tokios.cut.len(),
            tokios.in_time,
            ours.in_time
        );
    });
    // For a long run.
    eprint!("{printed}");
}
