//! Several runtimes on one thread, in a process that has never paused a clock: only there does a thread remember a timer.

use crate::alone;
use crate::common::{HOUR, current_thread, inside, multi_thread, poll};
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
