//! What this crate takes for granted about tokio, and tokio's documentation does not promise. True of tokio 1.51 to
//! 1.54. If an update fails one of these, the place that it names needs another answer.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::{self, yield_now};
use tokio::time;

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Polls a yield once. Returns whether its waker was called at once.
fn a_yield_wakes_at_once() -> bool {
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(woken.clone());
    assert!(pin!(yield_now()).poll(&mut Context::from_waker(&waker)).is_pending());
    woken.0.load(SeqCst)
}

/// `core/driver.rs`: where there is no I/O driver, a turn comes in the driver's first poll after a pass.
#[test]
fn a_yield_waits_for_the_end_of_the_pass_on_a_worker_and_for_nothing_elsewhere() {
    assert!(a_yield_wakes_at_once());
    let runtime = current_thread();
    assert!(!runtime.block_on(async { a_yield_wakes_at_once() }));
    let blocked = runtime.spawn_blocking(a_yield_wakes_at_once);
    assert!(runtime.block_on(blocked).unwrap());
}

/// `core/alarm/timerfd.rs`: by the time that the alarm is reported, what came before it has been reported. And
/// `core/driver.rs`: a turn runs right there, so nothing of tokio's may be borrowed or locked.
#[cfg(target_os = "linux")]
#[test]
fn the_io_driver_reports_files_in_the_order_in_which_they_became_ready() {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;

    /// Notes its number, and uses the runtime as any task does.
    struct Notes(usize, Arc<Mutex<Vec<usize>>>);
    impl Wake for Notes {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
            assert!(!a_yield_wakes_at_once());
            task::spawn(async {});
            drop(tokio::net::UnixStream::pair().unwrap());
        }
    }
    const FILES: usize = 16;
    for runtime in [current_thread(), Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()] {
        let order = Arc::new(Mutex::new(Vec::new()));
        let files = async move {
            let (mut files, mut peers) = (Vec::new(), Vec::new());
            for number in 0..FILES {
                let (ours, peer) = UnixStream::pair().unwrap();
                ours.set_nonblocking(true).unwrap();
                let ours = tokio::net::UnixStream::from_std(ours).unwrap();
                let waker = Waker::from(Arc::new(Notes(number, Arc::clone(&order))));
                assert!(ours.poll_read_ready(&mut Context::from_waker(&waker)).is_pending());
                files.push(ours);
                peers.push(peer);
            }
            // That they can be written to has been reported then.
            yield_now().await;
            // The worker takes no event meanwhile.
            let ready: Vec<usize> = (0..FILES).map(|n| n * 7 % FILES).collect();
            for &number in &ready {
                peers[number].write_all(b"x").unwrap();
            }
            while order.lock().unwrap().len() < FILES {
                yield_now().await;
            }
            assert_eq!(*order.lock().unwrap(), ready);
        };
        runtime.block_on(runtime.spawn(files)).unwrap();
    }
}

/// `core/driver.rs`: what a turn fires has seen the sockets, and tokio's own timers have fired before.
#[cfg(unix)]
#[test]
fn a_pass_looks_at_sockets_then_at_timers_then_wakes_what_has_yielded() {
    use std::sync::Mutex;

    struct Notes(&'static str, Arc<Mutex<Vec<&'static str>>>);
    impl Wake for Notes {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let order = Arc::default();
    let waker = |name| Waker::from(Arc::new(Notes(name, Arc::clone(&order))));
    current_thread().block_on(async {
        // What is written to such a socket is there at once.
        let (mut stream, other) = tokio::net::UnixStream::pair().unwrap();
        other.writable().await.unwrap();
        let mut sleep = Box::pin(time::sleep(Duration::from_millis(1)));
        assert!(stream.poll_read_ready(&mut Context::from_waker(&waker("socket"))).is_pending());
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker("timer"))).is_pending());
        std::thread::sleep(Duration::from_millis(5));
        other.try_write(b"x").unwrap();
        let _ = pin!(yield_now()).poll(&mut Context::from_waker(&waker("yield")));
        while order.lock().unwrap().len() < 3 {
            yield_now().await;
        }
        let _ = tokio::io::AsyncReadExt::read_u8(&mut stream).await;
    });
    assert_eq!(*order.lock().unwrap(), ["socket", "timer", "yield"]);
}

/// `core/alarm/driver_sleep.rs`: whether tokio's timers have processed a time of a paused clock.
#[tokio::test(start_paused = true)]
async fn a_sleep_is_ready_at_its_first_poll_only_if_a_pass_has_processed_its_time() {
    let at = time::Instant::now() + Duration::from_millis(5);
    let is_ready = || pin!(time::sleep_until(at)).poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(pin!(time::advance(Duration::from_millis(5))).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(time::Instant::now() >= at && !is_ready(), "the clock has moved, and no pass has come");
    yield_now().await;
    assert!(is_ready());
}

/// `test_util`: a hold of a paused clock is blocking work.
#[tokio::test(start_paused = true)]
async fn blocking_work_holds_a_paused_clock() {
    let start = time::Instant::now();
    let sleeper = tokio::spawn(time::sleep(Duration::from_secs(1)));
    task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(20))).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    sleeper.await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

/// `core/registry.rs`: nothing else says that a runtime was shut down.
#[test]
fn a_task_spawned_on_a_runtime_that_was_shut_down_is_cancelled_at_once() {
    let runtime = current_thread();
    let handle = runtime.handle().clone();
    drop(runtime);
    let mut task = handle.spawn(async {});
    let polled = Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Err(error)) if error.is_cancelled()));
}

/// `core/thread_shards.rs`: a thread remembers its shard for the current task.
#[test]
fn a_task_has_an_id_of_its_own_and_block_on_has_none() {
    let runtime = current_thread();
    runtime.block_on(async {
        assert_eq!(task::try_id(), None);
        let [one, other] = [0, 1].map(|_| tokio::spawn(async { task::try_id().unwrap() }));
        assert_ne!(one.await.unwrap(), other.await.unwrap());
    });
}

/// `util/waits.rs`, and what decides whether a runtime is idle.
#[cfg(target_has_atomic = "64")]
#[test]
fn a_workers_count_of_parks_is_odd_while_it_is_parked() {
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let parks = || runtime.metrics().worker_park_unpark_count(0);
    for _ in 0..3 {
        let inside = runtime.block_on(runtime.spawn({
            let metrics = runtime.metrics();
            async move { metrics.worker_park_unpark_count(0) }
        }));
        assert_eq!(inside.unwrap() % 2, 0);
        while parks() % 2 == 0 {
            std::thread::yield_now();
        }
    }
}

/// `test_util/idle.rs` counts what runs beside a call of all workers.
#[cfg(target_has_atomic = "64")]
#[test]
fn a_worker_that_finds_a_task_wakes_another_to_look_for_more() {
    let runtime = Builder::new_multi_thread().worker_threads(3).build().unwrap();
    let parks = || (0..3).map(|worker| runtime.metrics().worker_park_unpark_count(worker)).sum::<u64>();
    let until = |count| {
        while parks() < count {
            std::thread::yield_now();
        }
    };
    until(3);
    // The worker unparks, and the other unparks and parks again.
    let first = crate::common::block_a_worker(runtime.handle());
    until(6);
    let second = crate::common::block_a_worker(runtime.handle());
    until(9);
    // None is left to wake.
    let third = crate::common::block_a_worker(runtime.handle());
    until(10);
    drop((first, second, third));
    until(13);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(parks(), 13);
}

/// `test_util/own_runtime.rs`: if our own work runs on the only thread, all earlier work has ended.
#[test]
fn blocking_work_begins_in_order_and_an_idle_thread_ends_at_once() {
    let threads = Arc::<AtomicUsize>::default();
    let (begins, ends) = (threads.clone(), threads.clone());
    let runtime = Builder::new_current_thread()
        .max_blocking_threads(1)
        .thread_keep_alive(Duration::ZERO)
        .on_thread_start(move || _ = begins.fetch_add(1, SeqCst))
        .on_thread_stop(move || _ = ends.fetch_sub(1, SeqCst))
        .build()
        .unwrap();
    let (sender, order) = std::sync::mpsc::channel();
    for number in 0..5 {
        let sender = sender.clone();
        runtime.spawn_blocking(move || sender.send(number).unwrap());
    }
    drop(sender);
    assert!(order.iter().eq(0..5));
    while threads.load(SeqCst) > 0 {
        std::thread::yield_now();
    }
}
