//! A timer with `max_pending` refuses sleeps exactly when it is full. The fuzzer's target `timer` compares random programs
//! on full timers with a model.

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;

use crate::common::{
    HOUR, Random, current_thread, inside, multi_thread, must_end, must_end_on, panic_message, poll, polled,
};
use hairspring::{Duration, Timer};

#[test]
fn a_panic_names_line_limit_and_fallible_form() {
    must_end_on(current_thread(), async || {
        let timer = Timer::builder().max_pending(1).name("requests").build().unwrap();
        let mut ticks = timer.interval(HOUR);
        let of_ticks = line!() - 1;
        let long_ago = ticks.tick().await;
        let mut first = pin!(timer.timeout(HOUR, pending::<()>()));
        let of_first = format!("{}:{}:", file!(), line!() - 1);
        assert!(poll(&mut first).is_pending());
        let said = |message: String, line: u32| {
            assert!(message.starts_with("the timer `requests` is full: 1 pending"), "{message}");
            assert!(message.contains(&format!("{}:{line}:", file!())), "{message}");
            assert!(message.contains("use `fallible`"), "{message}");
        };
        said(panic_message(|| poll(&mut timer.sleep(HOUR))), line!());
        said(panic_message(|| poll(&mut timer.timeout(HOUR, pending::<()>()))), line!());
        said(panic_message(|| poll(&mut pin!(ticks.tick()))), of_ticks);
        // These need no room: a turn has reached them.
        timer.sleep_until(long_ago).await;
        assert_eq!(timer.timeout(HOUR, std::future::ready(5)).await, Ok(5));
        timer.interval_at(long_ago, HOUR).tick().await;

        timer.shutdown();
        let message = panic_message(|| poll(&mut first));
        assert!(message.contains("shut down") && message.contains("use `fallible`"), "{message}");
        assert!(message.contains(&of_first), "{message}");
    });
}

/// A bug that this crate had: a timeout of `Duration::MAX`, which sets no limit, took the place of one that does.
#[test]
fn what_sets_no_limit_takes_no_room() {
    current_thread().block_on(async {
        let timer = Timer::builder().max_pending(1).build().unwrap();
        let never = || timer.timeout(Duration::MAX, pending::<()>());
        let mut nevers = [(); 3].map(|()| polled(never()));
        let limit = polled(timer.try_sleep(HOUR));
        assert!(poll(&mut timer.try_sleep(HOUR)).is_ready(), "that takes the room");
        drop(limit);
        // One that becomes a limit takes room, and gives it back.
        nevers[0].reset_at(timer.now() + HOUR);
        assert!(poll(&mut timer.try_sleep(HOUR)).is_ready());
        nevers[0].reset_at(timer.now() + Duration::MAX);
        drop(polled(timer.try_sleep(HOUR)));
        // Two of three may take more room than there is, and a fourth that sets no limit still takes none.
        nevers[..2].iter_mut().for_each(|never| never.reset_at(timer.now() + HOUR));
        drop(polled(never()));
        drop(nevers);
        drop(polled(timer.try_sleep(HOUR)));
        let _limit = polled(timer.try_sleep(HOUR));
        assert!(poll(&mut timer.try_sleep(HOUR)).is_ready());
    });
}

/// netty 14959, 6947: a timer reported that it was full, but it was not.
#[test]
fn threads_that_compete_for_room_leave_the_count_right() {
    // So small that a single thread reaches it.
    const MAX_PENDING: usize = 20;
    must_end(|| {
        let runtime = multi_thread(2);
        let timer = inside(&runtime, || Timer::builder().shards(2).max_pending(MAX_PENDING).build().unwrap());
        let refusals = AtomicUsize::new(0);
        let compete = |seed| {
            let mut random = Random::new(seed);
            let mut sleeps = Vec::new();
            for _ in 0..10_000 {
                let length = random.pick(&[Duration::from_micros(50), HOUR, HOUR, HOUR]);
                let mut sleep = timer.try_sleep(length);
                match poll(&mut sleep) {
                    Poll::Pending => sleeps.push(sleep),
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => {
                        assert!(error.is_at_capacity());
                        refusals.fetch_add(1, SeqCst);
                    }
                }
                if sleeps.len() > 40 || random.below(8) == 0 {
                    sleeps.clear();
                }
            }
        };
        thread::scope(|scope| {
            for seed in 1..=3 {
                scope.spawn(move || compete(seed));
            }
        });
        assert!(refusals.load(SeqCst) > 0, "the threads never reached the maximum");
        assert_eq!(timer.metrics().pending(), 0);
        let _all = [(); MAX_PENDING].map(|()| polled(timer.try_sleep(HOUR)));
        assert!(poll(&mut timer.try_sleep(HOUR)).is_ready(), "the maximum has not changed");
    });
}
