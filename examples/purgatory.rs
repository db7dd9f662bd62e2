//! A purgatory, as Kafka has one: requests that cannot be answered yet wait in it under several keys, until an event on
//! one of these satisfies them or their time is up, whichever is first.
//!
//! A fetch of a Kafka broker waits until enough bytes have come on any of its partitions, for half a second at most. So
//! an operation is in a watch list for each of its keys, and in a [`DelayQueue`] for its deadline. Each has to be
//! completed exactly once, and then to vanish from all of these, or the lists of quiet keys grow without end. Exits
//! with 1 if that went wrong.
//!
//! ```text
//! cargo run --release --example purgatory
//! ```

use std::collections::{HashMap, HashSet};
use std::process::ExitCode;

use hairspring::delay_queue::{Expired, Key};
use hairspring::{DelayQueue, Duration, Instant, interval, sleep_until};
use tokio_stream::StreamExt;

const PARTITIONS: u64 = 50;
const OPERATIONS: u32 = 20_000;
const RUN: Duration = Duration::from_millis(1_500);

type Partition = u64;
type Id = u64;

/// A fetch: it wants `needed` bytes from any of its partitions together.
struct Fetch {
    partitions: Vec<Partition>,
    needed: u64,
    deadline: Key,
}

#[derive(Default)]
struct Purgatory {
    fetches: HashMap<Id, Fetch>,
    /// Who waits for a partition. One that nobody waits for has no list.
    watched: HashMap<Partition, HashSet<Id>>,
    deadlines: DelayQueue<Id>,
}

impl Purgatory {
    fn watch(&mut self, id: Id, partitions: Vec<Partition>, needed: u64, wait: Duration) {
        for &partition in &partitions {
            self.watched.entry(partition).or_default().insert(id);
        }
        let deadline = self.deadlines.insert(id, wait);
        self.fetches.insert(id, Fetch { partitions, needed, deadline });
    }

    /// Bytes have come: returns the fetches that this satisfies.
    fn produced(&mut self, partition: Partition, bytes: u64) -> Vec<Id> {
        let watchers: Vec<Id> = self.watched.get(&partition).into_iter().flatten().copied().collect();
        let satisfied = |id: &Id| {
            let fetch = self.fetches.get_mut(id).expect("who watches is waiting");
            fetch.needed = fetch.needed.saturating_sub(bytes);
            fetch.needed == 0
        };
        let done: Vec<Id> = watchers.into_iter().filter(satisfied).collect();
        for &id in &done {
            let fetch = self.forget(id);
            // It may be due this very moment, but it has not been handed out: the entry is ours to take.
            self.deadlines.remove(&fetch.deadline);
        }
        done
    }

    /// Waits for the next fetch whose time is up. For ever if there is none: something may be inserted.
    async fn expired(&mut self) -> Id {
        let Some(expired) = self.deadlines.next().await else { return std::future::pending().await };
        self.forget(*expired.get_ref());
        expired.into_inner()
    }

    /// Takes a fetch out of all watch lists, whether it was satisfied or has expired.
    fn forget(&mut self, id: Id) -> Fetch {
        let fetch = self.fetches.remove(&id).expect("each is completed once");
        for partition in &fetch.partitions {
            let watchers = self.watched.get_mut(partition).expect("a watched partition has a list");
            watchers.remove(&id);
            if watchers.is_empty() {
                self.watched.remove(partition);
            }
        }
        fetch
    }

    /// Ends: what is left is answered with what there is.
    fn stop(&mut self) -> Vec<Id> {
        let left: Vec<Id> = self.deadlines.drain().map(Expired::into_inner).collect();
        for &id in &left {
            self.forget(id);
        }
        left
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let start = Instant::now();
    let mut purgatory = Purgatory::default();
    let (mut satisfied, mut expired) = (Vec::new(), Vec::new());
    let (mut arrivals, mut next_id) = (interval(Duration::from_millis(1)), 0_u32);
    let mut end_of_run = sleep_until(start + RUN);
    loop {
        tokio::select! {
            _ = arrivals.tick() => {
                let so_far = start.elapsed().div_duration_f64(RUN).min(1.0);
                while f64::from(next_id) < so_far * f64::from(OPERATIONS) {
                    arrive(&mut purgatory, next_id.into());
                    next_id += 1;
                }
                satisfied.extend(purgatory.produced(mixed(next_id.into()) % PARTITIONS, 40));
            }
            // The future is dropped whenever another branch is taken. Nothing is lost with it.
            id = purgatory.expired() => expired.push(id),
            () = &mut end_of_run => break,
        }
    }
    let left = purgatory.stop();
    println!("{next_id} operations came, each under 1 to 4 of {PARTITIONS} partitions:");
    println!("{:>7} were satisfied in time", satisfied.len());
    println!("{:>7} expired first", expired.len());
    println!("{:>7} still waited when the purgatory was stopped", left.len());

    let mut all = [&satisfied[..], &expired, &left].concat();
    all.sort_unstable();
    let once = all.into_iter().eq(0..next_id.into());
    let is_empty = purgatory.fetches.is_empty() && purgatory.watched.is_empty() && purgatory.deadlines.is_empty();
    let is_good = once && is_empty && !satisfied.is_empty() && !expired.is_empty();
    println!("{}", if is_good { "good: each was completed once, no watch list is left" } else { "BAD" });
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A fetch of 1 to 4 partitions, of which some are quiet; it waits for 50 to 250 ms.
fn arrive(purgatory: &mut Purgatory, id: Id) {
    let partitions: HashSet<Partition> = (0..=id % 4).map(|n| mixed(id * 4 + n) % PARTITIONS).collect();
    let wait = Duration::from_millis(50 + mixed(id) % 200);
    purgatory.watch(id, partitions.into_iter().collect(), 40 * (1 + id % 8), wait);
}

/// Looks random, and is the same in every run.
fn mixed(n: u64) -> u64 {
    let mixed = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20
}
