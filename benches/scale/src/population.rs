//! Timers among many others.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tools::machine::{Meter, resident};
use tools::{Rng, between, median};

pub fn run<S: Future + Unpin + Send + 'static>(size: &str, sleep_until: fn(Instant) -> S) {
    let count: u32 = size.parse().expect("a number of timers");
    let (mut random, before) = (Rng::with_seed(7), resident() as f64);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("the system has threads");
    let meter = Meter::start();
    let due = Instant::now() + Duration::from_secs(1) + Duration::from_nanos(2_500) * count;
    let task = runtime.spawn(async move {
        let mut arm = |begin: Instant, span: Duration| {
            let mut sleep = sleep_until(begin + between(&mut random, Duration::ZERO, span));
            let polled = Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending(), "armed in time");
            sleep
        };
        let sleeps: Vec<S> = (0..count).map(|_| arm(due, Duration::from_nanos(500) * count)).collect();
        let (armed, bytes) = (meter.used(), resident() as f64 - before);
        let batch = |_| {
            let (start, minute) = (Instant::now(), Duration::from_mins(1));
            (0..1_000).for_each(|_| drop(arm(start + 9 * minute, minute)));
            start.elapsed().as_nanos() as f64 / 1e3
        };
        let (others, meter) = (median((0..300).map(batch).collect()), Meter::start());
        for sleep in sleeps {
            sleep.await;
        }
        let [arm, fire] = [armed, meter.used()].map(|used| used.as_nanos() as f64 / f64::from(count));
        let bytes = bytes / f64::from(count);
        println!("{count}: {bytes:.0} bytes; CPU ns: arm {arm:.0}, fire {fire:.0}, arm and cancel another {others:.0}");
    });
    runtime.block_on(task).expect("nothing panics");
}
