//! An idle program does nothing. The test watches the workers, and the process's only alarm thread.

use crate::common::{HOUR, HUNG, ms, multi_thread};
use crate::{alone, threads_named};
use hairspring::{Instant, Sleep, sleep};

/// Counts activity: parks of the workers, and context switches of the alarm thread.
fn activity(runtime: &tokio::runtime::Runtime) -> Vec<u64> {
    let metrics = runtime.metrics();
    let parks = (0..metrics.num_workers()).map(|worker| metrics.worker_park_unpark_count(worker));
    parks.chain(alarm_thread_switches()).collect()
}

/// How often the alarm thread has gone to sleep, if the system tells.
fn alarm_thread_switches() -> Option<u64> {
    let status = std::fs::read_to_string(threads_named("hairspring").pop()?.join("status")).ok()?;
    let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
    switches.map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum()
}

/// Waits until nothing has happened for a while. Fails if the program never becomes idle.
fn wait_until_idle(runtime: &tokio::runtime::Runtime) {
    let start = std::time::Instant::now();
    let parked = |activity: &[u64]| activity[..2].iter().all(|parks| parks % 2 == 1);
    while start.elapsed() < HUNG {
        let before = activity(runtime);
        std::thread::sleep(ms(150));
        if parked(&before) && activity(runtime) == before {
            return;
        }
    }
    panic!("the program never becomes idle");
}

/// netty 1246: an idle program kept a core busy, because the computed wait was zero.
#[test]
fn nothing_runs_while_no_timer_is_near() {
    alone(|| {
        let runtime = multi_thread(2);
        runtime.block_on(sleep(ms(1)));
        wait_until_idle(&runtime);
        let mut far: Vec<Sleep> = (10..200).map(|hours| sleep(hours * HOUR)).collect();
        runtime.block_on(async {
            for sleep in &mut far {
                assert!(futures::poll!(sleep).is_pending());
            }
        });
        wait_until_idle(&runtime);
        for sleep in &mut far {
            sleep.reset_at(Instant::now() + hairspring::Duration::MAX);
        }
        wait_until_idle(&runtime);
        drop(far);
        runtime.block_on(sleep(ms(1)));
        wait_until_idle(&runtime);
    });
}
