//! Operations between marks, for `count`, and the time of turns. Each worker of a runtime runs a task that blocks, so
//! it keeps to its thread, and one of them runs at a time.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use std::{array, fs, future, process};

use hairspring::Timer;
use hairspring::timer::Alarm;
use tokio::{runtime::Builder, task, time};
use tools::median;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// On pages of its own.
#[repr(align(4096))]
pub struct Alone<T>(pub T);

/// Two for each kind of operation, 16 for each worker.
pub static MARKS: Alone<[AtomicU8; 1 << 12]> = Alone([const { AtomicU8::new(0) }; 1 << 12]);
static SHARED: Alone<Mutex<u64>> = Alone(Mutex::new(0));
static DEADLINE: Mutex<Option<Instant>> = Mutex::new(None);
static WORKERS: Mutex<BTreeMap<usize, Thread>> = Mutex::new(BTreeMap::new());
static STEP: AtomicUsize = AtomicUsize::new(0);

fn mark(worker: usize, kind: usize, end: usize) {
    compiler_fence(SeqCst);
    MARKS.0[worker * 16 + kind * 2 + end].store(1, Relaxed);
    compiler_fence(SeqCst);
}

pub fn run(is_ours: bool, workers: usize) {
    let mut builder = Builder::new_multi_thread();
    // After each task, a worker looks for sockets and timers.
    builder.worker_threads(workers).event_interval(1).enable_io();
    let runtime = if is_ours { &mut builder } else { builder.enable_time() }.build().expect("enough threads");
    let _inside = runtime.enter();
    let timer = is_ours.then(|| Timer::builder().alarm(Alarm::Timerfd).install().expect("there is an I/O driver"));
    // Until the driver waits.
    thread::sleep(Duration::from_secs(1));
    print!("{}", fs::read_to_string("/proc/self/maps").expect("Linux lists mappings"));
    let barrier = Arc::new(Barrier::new(workers));
    (0..workers).for_each(|worker| drop(runtime.spawn(work(worker, timer.clone(), workers, barrier.clone()))));
    runtime.block_on(future::pending::<()>());
}

async fn work(worker: usize, timer: Option<Timer>, workers: usize, barrier: Arc<Barrier>) {
    println!("stack {}", std::ptr::from_ref(&array::from_fn::<u8, 8, _>(|_| 0)).addr());
    WORKERS.lock().expect("nothing panics").insert(worker, thread::current());
    barrier.wait();
    let (mut step, is_ours, hour, mut taken) =
        (worker, timer.is_some(), Duration::from_hours(1), [const { Vec::new() }; 4]);
    begin(step);
    let _standing: Vec<_> = (0..8).map(|_| arm(is_ours, worker, 1, Instant::now() + hour)).collect();
    (0..20).for_each(|_| arm_and_cancel(is_ours, worker, Instant::now() + 2 * hour));
    end(&mut step, workers);
    for (kind, due) in [(3, 0), (4, 1), (5, 17), (6, workers as u64)].repeat(8) {
        begin(step);
        let soon = Instant::now() + Duration::from_millis(1_000 + 10 * workers as u64);
        // All take the first worker's.
        let deadline = *DEADLINE.lock().expect("nothing panics").get_or_insert(soon);
        let count = [0, usize::from(worker == 1), 17 * usize::from(worker == 1), 1][kind - 3];
        let kept: Vec<_> = (0..count).map(|_| arm(is_ours, worker, 7, deadline)).collect();
        end(&mut step, workers);
        begin(step);
        if worker == 0 {
            *DEADLINE.lock().expect("nothing panics") = None;
            // tokio rounds up by a millisecond. After 6 ms a helper thread fires our timers.
            thread::sleep(deadline + Duration::from_micros(1_500) - Instant::now());
            let fired = || timer.as_ref().map_or(0, |timer| timer.metrics().fired());
            let (before, start) = (fired(), Instant::now());
            mark(worker, kind, 0);
            task::yield_now().await;
            mark(worker, kind, 1);
            taken[kind - 3].push(start.elapsed().as_nanos() as f64);
            println!("turn {kind} {}", !is_ours || fired() - before == due);
        }
        drop(kept);
        end(&mut step, workers);
    }
    if worker == 0 {
        println!("ns with nothing due, 1, 17 of one worker, 1 of each: {:.0?}", taken.map(median));
        process::exit(0);
    }
}

fn begin(step: usize) {
    while STEP.load(SeqCst) != step {
        thread::park();
    }
}

fn end(step: &mut usize, workers: usize) {
    STEP.store(*step + 1, SeqCst);
    WORKERS.lock().expect("nothing panics")[&((*step + 1) % workers)].unpark();
    *step += workers;
}

/// With nobody's waker: what is counted is the timer's.
fn arm(is_ours: bool, worker: usize, kind: usize, at: Instant) -> Sleep {
    mark(worker, kind, 0);
    let mut sleep: Sleep =
        if is_ours { Box::pin(hairspring::sleep_until(at.into())) } else { Box::pin(time::sleep_until(at.into())) };
    let polled = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    mark(worker, kind, 1);
    if polled.is_ready() {
        println!("not armed in time");
        process::exit(1);
    }
    sleep
}

fn arm_and_cancel(is_ours: bool, worker: usize, at: Instant) {
    // A known case: one line, locked and unlocked.
    mark(worker, 0, 0);
    *SHARED.0.lock().expect("nothing panics") += 1;
    mark(worker, 0, 1);
    let sleep = arm(is_ours, worker, 1, at);
    mark(worker, 2, 0);
    drop(sleep);
    mark(worker, 2, 1);
}
