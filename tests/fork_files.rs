//! A forked process has its parent's open files. An alarm of the parent's is not the child's to set.
#![cfg(target_os = "linux")]

mod common;

use std::thread;

use common::{HOUR, inside, ms, multi_thread, must_end, poll};
use fork::{Fork, fork, waitpid};
use futures::executor::block_on;
use hairspring::Timer;
use hairspring::timer::Alarm;
use rustix::process::{Signal, getpid, kill_process};

/// A bug that this crate had: a child of a fork that registered with its parent's timer moved the parent's alarm: a
/// `timerfd` is one file in both.
#[test]
fn a_child_that_registers_does_not_move_the_alarm_of_its_parent() {
    must_end(|| {
        let runtime = multi_thread(1);
        let timer = inside(&runtime, || Timer::builder().alarm(Alarm::Timerfd).build().unwrap());
        block_on(timer.sleep(ms(2)));
        let mut far = timer.sleep(HOUR);
        assert!(poll(&mut far).is_pending());
        let turns = || timer.metrics().turns();
        // Nothing is due any more.
        while {
            let before = turns();
            thread::sleep(ms(50));
            turns() != before
        } {}
        let before = turns();
        match fork().unwrap() {
            Fork::Child => {
                block_on(timer.sleep(ms(2)));
                timer.shutdown();
                // Ends without taking a lock of the parent's.
                kill_process(getpid(), Signal::KILL).unwrap();
            }
            Fork::Parent(child) => assert_eq!(waitpid(child).unwrap(), Signal::KILL.as_raw()),
        }
        thread::sleep(ms(50));
        assert_eq!(turns(), before, "the parent's alarm went off");
        assert!(poll(&mut far).is_pending());
        block_on(timer.sleep(ms(2)));
        assert!(turns() > before);
    });
}
