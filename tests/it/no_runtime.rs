//! Code outside a tokio runtime: on plain threads, on other executors, in wakers that other threads call.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use crate::common::{HOUR, Wakes, current_thread, inside, ms, multi_thread, must_end, poll, poll_with};
use futures::executor::{LocalPool, ThreadPool, block_on};
use futures::future::{join_all, pending};
use futures::task::{LocalSpawnExt, SpawnExt};
use futures::{FutureExt, StreamExt};
use hairspring::{
    DeadlineMap, DelayQueue, Duration, Instant, Timer, interval, interval_at, sleep, sleep_until, timeout, timeout_at,
};

/// A bug that this crate had: sleeps panicked outside a runtime.
#[test]
fn everything_that_waits_waits_and_fires_on_a_plain_thread() {
    must_end(|| {
        let start = Instant::now();
        block_on(async {
            sleep(ms(2)).await;
            sleep_until(start + ms(4)).await;
            assert!(start.elapsed() >= ms(4));
            assert!(timeout(ms(2), pending::<()>()).await.is_err());
            assert!(timeout_at(start + ms(7), pending::<()>()).await.is_err());
            assert_eq!(timeout(HOUR, sleep(ms(1))).await, Ok(()));
            assert!(start.elapsed() >= ms(7));
            let mut ticks = interval(ms(2));
            let first = ticks.tick().await;
            assert_eq!(ticks.tick().await, first + ms(2));
            let at = Instant::now() + ms(2);
            assert_eq!(interval_at(at, HOUR).tick().await, at);
        });
    });
}

#[test]
fn queues_and_maps_hand_out_what_is_due_on_a_plain_thread() {
    must_end(|| {
        let mut queue = DelayQueue::new();
        queue.insert('b', ms(4));
        queue.insert('a', ms(2));
        let (map, mut expirations) = DeadlineMap::new();
        map.insert(2, 'b', ms(4));
        map.insert(1, 'a', ms(2));
        drop(map);
        block_on(async {
            // More than 2 ms may have passed between the inserts, so either order is right.
            let mut due = [queue.next().await, queue.next().await].map(|due| due.unwrap().into_inner());
            due.sort_unstable();
            assert_eq!(due, ['a', 'b']);
            let mut due = [expirations.recv().await, expirations.recv().await].map(Option::unwrap);
            due.sort_unstable();
            assert_eq!((due, expirations.recv().await), ([(1, 'a'), (2, 'b')], None));
        });
    });
}

#[test]
fn other_executors_run_thousands_of_sleeps_at_a_time() {
    const SLEEPS: u64 = 2_000;
    fn naps() -> impl Future<Output = ()> + Send + 'static {
        join_all((0..SLEEPS).map(|number| async move {
            let start = Instant::now();
            let length = Duration::from_micros(number * 7 % 5_000);
            sleep(length).await;
            assert!(start.elapsed() >= length);
        }))
        .map(drop)
    }
    must_end(|| {
        let pool = ThreadPool::builder().pool_size(3).create().unwrap();
        let handles: Vec<_> = (0..3).map(|_| pool.spawn_with_handle(naps()).unwrap()).collect();
        let mut local = LocalPool::new();
        local.spawner().spawn_local(naps()).unwrap();
        local.run();
        block_on(join_all(handles));
    });
}

/// Polls its future again on the thread that wakes it.
struct PollsOnWake<F>(std::sync::Mutex<F>, std::sync::mpsc::Sender<thread::ThreadId>);

impl<F: Future<Output = ()> + Unpin + Send + 'static> PollsOnWake<F> {
    fn poll(self: &Arc<Self>) {
        let mut future = self.0.lock().unwrap();
        if future.poll_unpin(&mut Context::from_waker(&Waker::from(self.clone()))).is_ready() {
            self.1.send(thread::current().id()).unwrap();
        }
    }
}

impl<F: Future<Output = ()> + Unpin + Send + 'static> Wake for PollsOnWake<F> {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

#[test]
fn a_waker_may_poll_where_it_is_called_even_on_a_thread_of_the_timers() {
    must_end(|| {
        let (ready, readies) = std::sync::mpsc::channel();
        let twice = Box::pin(async {
            sleep(ms(2)).await;
            sleep(ms(2)).await;
        });
        Arc::new(PollsOnWake(twice.into(), ready)).poll();
        assert_ne!(readies.recv().unwrap(), thread::current().id());
    });
}

#[test]
fn made_in_a_runtime_that_has_gone_it_waits_and_fires_all_the_same() {
    must_end(|| {
        let mut naps = Vec::new();
        for runtime in [current_thread(), multi_thread(2)] {
            let mut waiting = sleep(HOUR);
            inside(&runtime, || assert!(poll(&mut waiting).is_pending()));
            waiting.reset_at(Instant::now() + ms(3));
            naps.extend([waiting, inside(&runtime, || sleep(ms(3)))]);
        }
        block_on(join_all(naps));
    });
}

#[test]
fn a_sleep_may_go_from_no_runtime_into_one_and_back() {
    must_end(|| {
        let mut nap = sleep(HOUR);
        let (woken, waker) = Wakes::new();
        assert!(poll_with(&mut nap, &waker).is_pending());
        let runtime = multi_thread(1);
        inside(&runtime, || assert!(poll_with(&mut nap, &waker).is_pending()));
        nap.reset_at(Instant::now() + ms(2));
        drop(runtime);
        block_on(&mut nap);
        assert!(nap.is_elapsed() && woken.count() <= 2);
    });
}

#[test]
fn the_latest_waker_is_the_one_that_is_woken_and_once() {
    must_end(|| {
        let mut nap = sleep(ms(5));
        let ((first, first_waker), (last, last_waker)) = (Wakes::new(), Wakes::new());
        assert!(poll_with(&mut nap, &first_waker).is_pending());
        if poll_with(&mut nap, &last_waker).is_pending() {
            while last.count() == 0 {
                thread::yield_now();
            }
            assert_eq!(poll(&mut nap), Poll::Ready(()));
        }
        assert!(first.count() == 0 && last.count() <= 1);
    });
}

#[test]
fn the_process_has_one_timer_of_its_own_which_nobody_ends() {
    must_end(|| {
        let timer = Timer::current();
        assert_eq!(timer, thread::spawn(Timer::current).join().unwrap());
        assert_eq!(timer.shutdown(), 0);
        block_on(timer.sleep(ms(1)));
        block_on(timer.timeout(ms(1), pending::<()>())).unwrap_err();
        assert!(timer.metrics().fired() >= 2);
        let runtime = multi_thread(1);
        assert_ne!(inside(&runtime, Timer::current), timer);
        runtime.block_on(runtime.spawn(async move { timer.sleep(ms(1)).await })).unwrap();
    });
}

/// Blocks the thread that wakes it.
struct Blocks(std::sync::Mutex<std::sync::mpsc::Receiver<()>>, AtomicUsize);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, SeqCst);
        let _ = self.0.lock().unwrap().recv();
    }
}

#[test]
fn a_waker_that_blocks_holds_up_the_timers_of_no_runtime() {
    must_end(|| {
        let (open, closed) = std::sync::mpsc::channel();
        let blocks = Arc::new(Blocks(closed.into(), AtomicUsize::new(0)));
        let mut nap = pin!(sleep(ms(1)));
        let waker = Waker::from(blocks.clone());
        if nap.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            while blocks.1.load(SeqCst) == 0 {
                thread::yield_now();
            }
        }
        for runtime in [current_thread(), multi_thread(2)] {
            runtime.block_on(sleep(ms(5)));
        }
        assert!(poll(&mut nap).is_ready());
        drop(open);
    });
}
