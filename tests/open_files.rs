//! A process that can open no more files. These tests have a process of their own, because they use up all of its
//! files.

#![cfg(target_os = "linux")] // No other system's alarms take a file.

mod common;

use std::fs::File;
use std::process::Command;

use common::{HOUR, bare, current_thread, ms, multi_thread, poll};
use hairspring::Timer;
use hairspring::timer::Alarm;

/// Set in the copy of this program that runs a test.
const IN_COPY: &str = "HAIRSPRING_FEW_FILES";

/// Runs `test` in a copy of this program that may open only 64 files.
fn with_few_files(name: &str, test: impl FnOnce()) {
    if std::env::var_os(IN_COPY).is_some() {
        return test();
    }
    let copy = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(IN_COPY, "1")
        .output()
        .unwrap();
    assert!(copy.status.success(), "{}", String::from_utf8_lossy(&copy.stderr));
    assert!(String::from_utf8_lossy(&copy.stdout).contains("1 passed"), "there is no test {name}");
}

/// Opens files until the system refuses.
fn use_up() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// The error blamed the runtime, as if it lacked `enable_io`.
#[test]
fn a_builder_says_that_files_are_used_up() {
    with_few_files("a_builder_says_that_files_are_used_up", || {
        current_thread().block_on(async {
            let builder = Timer::builder().alarm(Alarm::Timerfd);
            let files = use_up();
            let error = builder.clone().build().unwrap_err();
            let text = error.to_string();
            assert!(text.contains("Timerfd") && text.contains("Too many open files"), "{text}");
            assert!(!text.contains("enable_io"), "{text}");
            assert_eq!((&error, &error), (&builder.clone().install().unwrap_err(), &error.clone()));
            drop(files);
            let timer = builder.build().unwrap();
            timer.sleep(ms(1)).await;
        });
    });
}

/// How many open files of the process are called `name`.
fn open_files(name: &str) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = open.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    links.filter(|link| link.to_string_lossy().contains(name)).count()
}

/// The builder made one as a check and dropped it, and the driver made another at its first poll.
#[test]
fn a_timer_that_was_built_has_its_alarm() {
    with_few_files("a_timer_that_was_built_has_its_alarm", || {
        current_thread().block_on(async {
            let timer = Timer::builder().alarm(Alarm::Timerfd).build().unwrap();
            let files = use_up();
            timer.sleep(ms(2)).await;
            drop(files);
            // The alarm thread has the other.
            assert_eq!(open_files("[timerfd]"), 2);
        });
    });
}

/// Sleeps in a task of a runtime until the process has `wanted` `timerfd`s, or gives up.
async fn comes_to(wanted: usize) -> bool {
    let nap = async || tokio::spawn(hairspring::sleep(ms(2))).await.unwrap();
    for _ in 0..10_000 {
        nap().await;
        if open_files("[timerfd]") == wanted {
            return true;
        }
    }
    false
}

/// A turn of the alarm thread costs twice what one of the runtime's own driver does.
#[test]
fn by_default_a_timerfd_is_taken_if_the_runtime_has_an_io_driver() {
    with_few_files("by_default_a_timerfd_is_taken_if_the_runtime_has_an_io_driver", || {
        multi_thread(1).block_on(async {
            // The alarm thread has one.
            assert!(comes_to(2).await);
            // And it serves.
            let naps: Vec<_> = (1..=20).map(|n| tokio::spawn(hairspring::sleep(ms(n)))).collect();
            for nap in naps {
                nap.await.unwrap();
            }
        });
    });
}

#[test]
fn by_default_no_timerfd_is_taken_if_the_runtime_has_no_io_driver_or_the_user_chose_the_thread() {
    let name = "by_default_no_timerfd_is_taken_if_the_runtime_has_no_io_driver_or_the_user_chose_the_thread";
    with_few_files(name, || {
        let with_io = multi_thread(1);
        with_io.block_on(async {
            Timer::builder().alarm(Alarm::Thread).install().unwrap();
        });
        let [_, without_io] = bare();
        for runtime in [&with_io, &without_io] {
            runtime.block_on(async {
                for _ in 0..200 {
                    tokio::spawn(hairspring::sleep(ms(2))).await.unwrap();
                }
                assert_eq!(open_files("[timerfd]"), 1);
            });
        }
    });
}

/// The system refuses the `timerfd` that the runtime could have.
#[test]
fn by_default_the_alarm_thread_goes_on_if_there_is_no_file() {
    with_few_files("by_default_the_alarm_thread_goes_on_if_there_is_no_file", || {
        multi_thread(1).block_on(async {
            hairspring::sleep(ms(2)).await;
            let _files = use_up();
            for _ in 0..200 {
                tokio::spawn(hairspring::sleep(ms(2))).await.unwrap();
            }
        });
    });
}

/// A driver makes its alarm at its first poll, and cannot report an error.
#[test]
fn a_driver_that_gets_no_file_takes_the_alarm_thread() {
    with_few_files("a_driver_that_gets_no_file_takes_the_alarm_thread", || {
        current_thread().block_on(async {
            let (timer, driver) = Timer::builder().alarm(Alarm::Timerfd).build_with_driver().unwrap();
            let _files = use_up();
            tokio::spawn(driver);
            timer.sleep(ms(2)).await;
        });
    });
}

/// Each kept its file and its task until the runtime ended.
#[test]
fn a_timer_that_was_replaced_releases_its_file_once_nothing_waits_on_it() {
    with_few_files("a_timer_that_was_replaced_releases_its_file_once_nothing_waits_on_it", || {
        for runtime in [current_thread(), multi_thread(2)] {
            runtime.block_on(async {
                let install = || Timer::builder().alarm(Alarm::Timerfd).install().unwrap();
                let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
                let comes_down_to = async |timers: usize| {
                    // The alarm thread has a file, too.
                    while tasks() > timers || open_files("[timerfd]") > 1 + timers {
                        tokio::task::yield_now().await;
                    }
                };
                for _ in 0..200 {
                    install();
                    hairspring::sleep(std::time::Duration::from_micros(100)).await;
                    comes_down_to(1).await;
                }
                // A default timer that nobody built, a handle, and what waits or may yet wait, each keep theirs.
                let kept = install();
                let (mut far, mut near) = (hairspring::sleep(HOUR), hairspring::sleep(ms(20)));
                assert!(poll(&mut far).is_pending() && poll(&mut near).is_pending());
                let of_another = install().sleep(ms(1));
                install();
                comes_down_to(3).await;
                of_another.await;
                comes_down_to(2).await;
                near.await;
                kept.sleep(ms(1)).await;
                drop(kept);
                assert_eq!((tasks(), Timer::current().metrics().pending()), (2, 0));
                // Cancelling the last is enough: nobody waits for its deadline.
                drop(far);
                comes_down_to(1).await;
                hairspring::sleep(ms(1)).await;
            });
        }
    });
}

/// The alarm thread sleeps on a `timerfd` if it gets one. Without, it fires all the same, each in time.
#[test]
fn the_alarm_thread_needs_no_file() {
    with_few_files("the_alarm_thread_needs_no_file", || {
        current_thread().block_on(async {
            let files = use_up();
            let start = std::time::Instant::now();
            let far = tokio::spawn(hairspring::sleep(HOUR));
            for _ in 0..20 {
                hairspring::sleep(ms(2)).await;
            }
            far.abort();
            assert!(start.elapsed() >= ms(40));
            drop(files);
            assert_eq!(open_files("[timerfd]"), 0);
        });
    });
}
