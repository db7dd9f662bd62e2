//! A soak test in real time: waves of up to a million sleeps that are armed, reset, cancelled and fired at random.
//!
//! Tasks hold most of the sleeps in vectors and poll them by hand, as a server does with its connections. Other tasks
//! await sleeps and timeouts. No sleep may end early, or later than a bound. At the end of each wave no sleep is
//! pending, the counts must balance, and the memory must be free.
//!
//! The fuzzer checks each firing on a virtual clock. This one has threads and a real clock.

mod holder;

use std::alloc::System;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use clap::Parser;
use hairspring::{Instant, Timer, sleep, timeout};
use stats_alloc::StatsAlloc;
use tokio::task::{JoinSet, unconstrained};
use tools::{Rng, between};

use holder::{End, Holder};

#[global_allocator]
static ALLOCATOR: StatsAlloc<System> = StatsAlloc::system();

const HOLDERS: usize = 4;
const AWAITERS: usize = 200;
/// How many bytes may stay allocated while no sleep is pending. If one sleep in a hundred leaked, six waves of a
/// million would exceed this.
const ALLOWED: usize = 8 << 20;

/// Arms, resets, cancels and fires sleeps at random, and checks that none is early, late, lost or leaked.
///
/// The exit status is 0 if all checks pass, 1 if one fails, and 2 if an option is invalid.
#[derive(Debug, Clone, Copy, Parser)]
struct Options {
    /// The duration in seconds; the last wave is completed
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// The duration in minutes
    #[arg(long, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: Option<u64>,
    /// How many sleeps a wave reaches
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    peak: u32,
    /// How late a sleep may fire, in milliseconds; a busy machine needs more
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    bound_ms: u64,
    /// The seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The number of faults, and of operations.
#[derive(Debug, Default)]
struct Tally {
    faults: AtomicU64,
    armed: AtomicU64,
    reset: AtomicU64,
    fired: AtomicU64,
    awaited: AtomicU64,
}

impl Tally {
    fn fault(&self, what: &str) {
        // The first few are enough.
        if self.faults.fetch_add(1, Relaxed) < 20 {
            println!("BAD: {what}");
        }
    }

    /// Checks a sleep that has just ended.
    fn check_not_early(&self, deadline: Instant) {
        let now = Instant::now();
        if now < deadline {
            self.fault(&format!("a sleep ended {:?} early", deadline - now));
        }
    }
}

fn main() -> std::io::Result<ExitCode> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let tally = runtime.block_on(run(options));
    let [faults, armed, reset, fired, awaited] =
        [&tally.faults, &tally.armed, &tally.reset, &tally.fired, &tally.awaited].map(|count| count.load(Relaxed));
    println!("polled by hand: {armed} armed, {reset} reset, {fired} fired; awaited: {awaited}");
    println!(
        "{}",
        if faults == 0 { "good: nothing early, late, lost or leaked".into() } else { format!("BAD: {faults} faults") }
    );
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run(options: Options) -> Arc<Tally> {
    let (tally, timer, start) = (Arc::<Tally>::default(), Timer::current(), Instant::now());
    let length = Duration::from_secs(options.minutes.map_or(options.seconds, |minutes| 60 * minutes));
    let churn = (length / 10).min(Duration::from_secs(10));
    let mut random = Rng::with_seed(options.seed);
    for (wave, end) in (1..).zip([End::Cancel, End::Fire].into_iter().cycle()) {
        let stop = Arc::new(AtomicBool::new(false));
        let mut awaiters = JoinSet::new();
        for _ in 0..AWAITERS {
            awaiters.spawn(wait_repeatedly(tally.clone(), stop.clone(), random.fork()));
        }
        let mut holders = JoinSet::new();
        for _ in 0..HOLDERS {
            let bound = Duration::from_millis(options.bound_ms);
            let holder = Holder::new(tally.clone(), random.fork(), options.peak as usize / HOLDERS, bound);
            // A holder's polls are those of many connections, not of one task that has a budget.
            holders.spawn(unconstrained(holder.live(Instant::now() + churn, end)));
        }
        holders.join_all().await;
        stop.store(true, Relaxed);
        awaiters.join_all().await;
        check_empty(&timer, &options, &tally, wave, start);
        if wave >= 2 && start.elapsed() >= length {
            break;
        }
    }
    tally
}

/// Checks the counts and the memory while nothing is pending.
fn check_empty(timer: &Timer, options: &Options, tally: &Tally, wave: usize, start: Instant) {
    let (metrics, stats) = (timer.metrics(), ALLOCATOR.stats());
    let held = stats.bytes_allocated.saturating_sub(stats.bytes_deallocated);
    let latest = metrics.lateness().max();
    println!(
        "{:.0?}, wave {wave}: {} registered, {} fired, {} cancelled; at most {latest:.1?} late; {} KiB allocated",
        start.elapsed(),
        metrics.registered(),
        metrics.fired(),
        metrics.cancelled(),
        held >> 10
    );
    if metrics.pending() != 0 || metrics.registered() != metrics.fired() + metrics.cancelled() {
        tally.fault(&format!("the counts do not balance: {metrics:?}"));
    }
    if held > ALLOWED {
        tally.fault(&format!("{held} bytes are still allocated, at most {ALLOWED} are allowed"));
    }
    if latest > Duration::from_millis(options.bound_ms) {
        tally.fault(&format!("a sleep was {latest:?} late, at most {} ms are allowed", options.bound_ms));
    }
}

/// Awaits sleeps with timeouts, some of which drop the sleep while it waits.
async fn wait_repeatedly(tally: Arc<Tally>, stop: Arc<AtomicBool>, mut random: Rng) {
    let mut length = || between(&mut random, Duration::from_micros(100), Duration::from_millis(50));
    while !stop.load(Relaxed) {
        let sleep = sleep(length());
        let (deadline, limit) = (sleep.deadline(), length());
        let limit_ends = Instant::now() + limit;
        match timeout(limit, sleep).await {
            Ok(()) => tally.check_not_early(deadline),
            Err(_) => tally.check_not_early(limit_ends),
        }
        tally.awaited.fetch_add(1, Relaxed);
    }
}
