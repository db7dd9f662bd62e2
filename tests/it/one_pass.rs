//! Time is seen where the runtime sees it: no limit passes before the runtime has looked at its sockets, and what is
//! due already lets other tasks run first.

use std::future::pending;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::common::limits::{Read, connected, kinds};
use crate::common::{HOUR, current_thread, ms, multi_thread, must_end, must_end_on, poll};
use futures::{FutureExt as _, StreamExt as _, stream};
use hairspring::timer::{self, Alarm};
use hairspring::{Instant, Timer, interval, sleep, timeout_at};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, yield_now};

const LIMIT: Duration = Duration::from_millis(20);

/// Sends a byte to a read, then keeps the thread busy until the limit is over. Returns whether the read got it, or
/// `None` if the machine was so slow that the byte came too late.
async fn a_byte_before_the_limit(kind: Read, is_local: bool) -> Option<bool> {
    let (ours, mut peer) = connected();
    let begun = Arc::new(AtomicBool::new(false));
    let begins = begun.clone();
    let start = Instant::now();
    let reads = async move {
        let mut read = kind(ours, LIMIT);
        assert!(poll(&mut read).is_pending());
        begins.store(true, SeqCst);
        read.await
    };
    let reads = if is_local { tokio::task::spawn_local(reads) } else { tokio::spawn(reads) };
    let busy = async move {
        while !begun.load(SeqCst) {
            yield_now().await;
        }
        let waits_until = Instant::now() + LIMIT;
        // The driver, too, waits by now.
        yield_now().await;
        yield_now().await;
        peer.write_all(b"x").unwrap();
        let in_time = start.elapsed() < LIMIT * 3 / 4;
        while Instant::now() < waits_until + LIMIT {
            thread::sleep(ms(1));
        }
        in_time.then_some(peer)
    };
    let peer = if is_local { tokio::task::spawn_local(busy) } else { tokio::spawn(busy) };
    let in_time = peer.await.unwrap();
    let got = reads.await.unwrap();
    in_time.map(|_| got)
}

fn timers() -> Vec<(String, timer::Builder)> {
    let alarms = [Alarm::Thread, Alarm::Auto, Alarm::Tokio].into_iter();
    let alarms = alarms.chain(cfg!(target_os = "linux").then_some(Alarm::Timerfd));
    let mut timers: Vec<_> = alarms.map(|alarm| (format!("{alarm:?}"), Timer::builder().alarm(alarm))).collect();
    timers.push(("a resolution".into(), Timer::builder().resolution(ms(1))));
    timers
}

fn gets_the_byte(runtime: fn() -> Runtime, is_local: bool) {
    must_end(move || {
        for (name, timer) in timers() {
            for (kind, read) in kinds() {
                crate::common::step();
                let runtime = runtime();
                let test = async {
                    let timer = timer.clone().install().unwrap();
                    // The timer has waited before.
                    timer.sleep(ms(1)).await;
                    while let None | Some(false) = match a_byte_before_the_limit(read, is_local).await {
                        Some(false) => panic!("{kind}, {name}: cut although the data had come"),
                        got => got,
                    } {}
                };
                if is_local {
                    LocalSet::new().block_on(&runtime, test);
                } else {
                    runtime.block_on(test);
                }
            }
        }
    });
}

/// A bug that this crate had: the alarm thread, a helper and each poll's own look at the clock ended a limit while the
/// data still lay in the kernel. One read in ten got it.
#[test]
fn no_limit_of_a_busy_thread_cuts_what_had_come() {
    gets_the_byte(current_thread, false);
}

#[test]
fn no_limit_of_a_busy_worker_cuts_what_had_come() {
    gets_the_byte(|| multi_thread(1), false);
}

#[test]
fn no_limit_in_a_local_set_cuts_what_had_come() {
    gets_the_byte(current_thread, true);
}

/// vector's expiration map: an interval beside a stream that has items.
#[test]
fn items_that_are_ready_come_before_an_intervals_first_tick() {
    must_end_on(current_thread(), async || {
        for _ in 0..100 {
            let (mut ticks, mut items) = (interval(HOUR), stream::iter(1..=3).chain(stream::pending()));
            let mut seen = Vec::new();
            while seen.len() < 4 {
                tokio::select! {
                    _ = ticks.tick() => seen.push(0),
                    Some(item) = items.next() => seen.push(item),
                }
            }
            assert_eq!(seen, [1, 2, 3, 0]);
        }
    });
}

#[test]
fn what_is_due_already_lets_other_tasks_run_first() {
    for mut runtime in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        // Otherwise the runtime looks at its drivers now and then although a task is ready.
        let runtime = runtime.worker_threads(1).event_interval(u32::MAX).build().unwrap();
        must_end_on(runtime, async || {
            tokio::spawn(async {
                for _ in 0..10 {
                    let other = tokio::spawn(async {});
                    sleep(Duration::ZERO).await;
                    assert!(other.is_finished());
                    let other = tokio::spawn(async {});
                    assert!(timeout_at(Instant::now(), pending::<()>()).await.is_err() && other.is_finished());
                }
            })
            .await
            .unwrap();
        });
    }
}

/// Each tick that was missed would otherwise cost a turn.
#[test]
fn missed_ticks_that_a_turn_has_reached_are_ready_at_once() {
    must_end_on(current_thread(), async || {
        let mut ticks = interval(Duration::from_micros(10));
        ticks.tick().await;
        thread::sleep(ms(20));
        sleep(Duration::ZERO).await;
        let turns = Timer::current().metrics().turns();
        for _ in 0..1_000 {
            tokio::task::unconstrained(ticks.tick()).now_or_never().expect("it was due before the last turn");
        }
        assert_eq!(Timer::current().metrics().turns(), turns);
    });
}
