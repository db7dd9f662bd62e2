//! tokio only panics if a runtime lacks `enable_io` or `enable_time`, and nobody sees that panic.
//!
//! These tests have a program of their own, because they check the whole process: its output, its panic hook and its
//! open files.

mod common;

use std::panic;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use common::{bare, ms};
use hairspring::timer::Alarm;
use hairspring::{Timer, interval, sleep, timeout};

/// Set in the copy of this program that runs a test.
const IN_COPY: &str = "HAIRSPRING_COPY";

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Runs `test` in a copy of this program. That copy must print no error, and its panic hook must be called the given
/// number of times.
fn in_copy(name: &str, panics: usize, test: impl FnOnce()) {
    if std::env::var_os(IN_COPY).is_some() {
        panic::set_hook(Box::new(|panic| {
            PANICS.fetch_add(1, SeqCst);
            if panic.payload().downcast_ref() != Some(&"on purpose") {
                eprintln!("{panic}");
            }
        }));
        test();
        assert_eq!(PANICS.load(SeqCst), panics);
        return;
    }
    let mut copy = Command::new(std::env::current_exe().unwrap());
    let copy = copy.args(["--exact", name, "--nocapture"]).env(IN_COPY, "1").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&copy.stderr), "");
    assert!(copy.status.success());
    assert!(String::from_utf8_lossy(&copy.stdout).contains("1 passed"), "there is no test {name}");
}

async fn use_timers() {
    sleep(ms(1)).await;
    assert!(timeout(ms(1), std::future::pending::<()>()).await.is_err());
    let mut ticks = interval(ms(1));
    ticks.tick().await;
    ticks.tick().await;
    tokio::spawn(sleep(ms(1))).await.unwrap();
}

/// A bug that this crate had: on such a runtime, the message of a caught panic was printed.
#[test]
fn plain_timers_on_a_runtime_without_enable_time() {
    in_copy("plain_timers_on_a_runtime_without_enable_time", 0, || {
        for runtime in bare() {
            runtime.block_on(use_timers());
        }
    });
}

/// The guide's way to use a `timerfd` if there is one.
#[test]
fn a_timerfd_or_else_the_default() {
    in_copy("a_timerfd_or_else_the_default", 0, || {
        for runtime in bare() {
            runtime.block_on(async {
                let timer = Timer::builder();
                let refused = timer.clone().alarm(Alarm::Timerfd).install().unwrap_err();
                assert!(refused.to_string().contains("enable_io"), "{refused}");
                timer.install().unwrap();
                use_timers().await;
            });
        }
    });
}

#[test]
fn a_driver_that_is_polled_outside_of_every_runtime() {
    in_copy("a_driver_that_is_polled_outside_of_every_runtime", 0, || {
        for alarm in [Alarm::Thread, Alarm::Timerfd, Alarm::Tokio] {
            let Ok((timer, driver)) = Timer::builder().alarm(alarm).build_with_driver() else { continue };
            let nap = async {
                timer.sleep(ms(1)).await;
                timer.shutdown();
            };
            futures::executor::block_on(futures::future::join(driver, nap));
        }
    });
}

#[cfg(feature = "test-util")]
mod test_util {
    use super::*;
    use common::{HOUR, both_flavours};
    use hairspring::Instant;

    #[test]
    fn a_paused_clock_without_sockets() {
        in_copy("test_util::a_paused_clock_without_sockets", 0, || {
            let [_, runtime] = bare();
            for _ in 0..2 {
                runtime.block_on(async {
                    hairspring::pause();
                    let start = Instant::now();
                    sleep(HOUR).await;
                    assert_eq!(start.elapsed(), HOUR);
                    hairspring::resume();
                });
                // Again, beside one that has some.
                both_flavours().into_iter().for_each(std::mem::forget);
            }
        });
    }

    #[test]
    fn other_panics_are_told_of_before_and_after() {
        fn panic_on_purpose() {
            assert!(panic::catch_unwind(|| panic!("on purpose")).is_err());
        }
        in_copy("test_util::other_panics_are_told_of_before_and_after", 3, || {
            panic_on_purpose();
            for runtime in bare() {
                runtime.block_on(use_timers());
                panic_on_purpose();
            }
        });
    }
}
