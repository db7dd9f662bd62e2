//! Sleeps of 1 to 10 ms, at random, in the tasks of a runtime with two workers: how late they end, and their CPU time.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use crate::figures::percentile;
use crate::session::Session;
use crate::{Hairspring, Time, Tokio, mixed, runtime};

/// How long the tasks sleep before anything is counted.
const WARM_UP: Duration = Duration::from_millis(100);

pub(crate) fn run(session: &mut Session) {
    session.group("sleeps of 1 to 10 ms that end");
    let length = session.options.window;
    let mut rows = vec!["median lateness", "99th percentile of lateness"];
    rows.extend(cpu_time().map(|_| "CPU time per sleep"));
    for (tasks, named) in [(1, "1 task"), (50, "50 tasks"), (1_000, "1000 tasks")] {
        let rows: Vec<_> = rows.iter().map(|row| format!("{named}: {row}")).collect();
        session.compare(&rows, || (turns::<Hairspring>(tasks, length), turns::<Tokio>(tasks, length)));
    }
}

/// Each turn has a runtime of its own, so that only one side has threads and timers.
fn turns<T: Time>(tasks: u64, length: Duration) -> impl FnMut() -> Vec<f64> {
    let mut turn = 0_u64;
    move || {
        turn += 1;
        let runtime = runtime();
        let start = Instant::now() + WARM_UP;
        let window = start..start + length;
        let random = |task| (turn << 48) + (task << 32);
        let sleepers: Vec<_> =
            (0..tasks).map(|task| runtime.spawn(sleep_repeatedly::<T>(random(task), window.clone()))).collect();
        let cpu_times = [window.start, window.end].map(|time| {
            thread::sleep(time.saturating_duration_since(Instant::now()));
            cpu_time()
        });
        let late = sleepers.into_iter().flat_map(|task| runtime.block_on(task).expect("nothing panics"));
        let late: Vec<_> = late.map(|late| late.as_nanos() as f64).collect();
        let cpu_time = match cpu_times {
            [Some(before), Some(after)] => Some(after.saturating_sub(before).as_nanos() as f64 / late.len() as f64),
            _ => None,
        };
        [percentile(&late, 50), percentile(&late, 99)].into_iter().chain(cpu_time).collect()
    }
}

/// How late the sleeps were that ended in the window.
async fn sleep_repeatedly<T: Time>(random: u64, window: Range<Instant>) -> Vec<Duration> {
    let (mut lateness, mut now) = (Vec::new(), Instant::now());
    for number in 0.. {
        if now >= window.end {
            break;
        }
        let deadline = now + Duration::from_nanos(1_000_000 + mixed(random + number) % 9_000_000);
        T::sleep_until(deadline).await;
        now = Instant::now();
        let late = now.checked_duration_since(deadline).expect("no sleep ends early");
        if window.contains(&now) {
            lateness.push(late);
        }
    }
    lateness
}

/// That of all threads of this process so far. Not every system tells it.
#[cfg(target_os = "linux")]
fn cpu_time() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().ok()
}

#[cfg(not(target_os = "linux"))]
fn cpu_time() -> Option<Duration> {
    None
}
