//! Several runtimes on one thread, and a driver by hand, in a process that has never paused a clock: only there does a
//! thread remember a timer, and only the driver's own timer wakes it.

use crate::alone;
use crate::common::{HOUR, blocking, current_thread, inside, ms, multi_thread, poll, poll_with, polled};
use hairspring::{Timer, sleep};

#[test]
fn each_runtime_has_its_own_sleeps() {
    alone(|| {
        let register = || assert!(poll(&mut sleep(HOUR)).is_pending());
        let runtimes = [current_thread(), multi_thread(1), current_thread()];
        for round in 1..=3 {
            for runtime in &runtimes {
                inside(runtime, register);
                runtime.block_on(runtime.spawn(async move { register() })).unwrap();
                let registered = inside(runtime, || Timer::current().metrics().registered());
                assert_eq!(registered, 2 * round, "by the thread and by tasks");
            }
            register();
            assert_eq!(Timer::current().metrics().registered(), round, "outside runtimes");
        }
    });
}

/// If a user's executor runs the driver, the driver's waker is user code too. The paused clock of another test might call
/// it during the first poll.
#[test]
fn a_driver_with_a_blocking_waker_delays_no_other() {
    alone(|| {
        let (timer, mut driver) = Timer::builder().build_with_driver().unwrap();
        let (starts, waker, _unblock) = blocking();
        // Poll the driver first, because it must be waiting when the sleep is due.
        assert!(poll_with(&mut driver, &waker).is_pending());
        let _nap = polled(timer.sleep(ms(50)));
        starts.recv().unwrap();
        multi_thread(2).block_on(sleep(ms(5)));
    });
}
