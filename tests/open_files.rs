//! A process that can open no more files, or that closes all it has. These tests have a process of their own, because they
//! use up or close all of its files.

#![cfg(target_os = "linux")] // No other system's alarms take a file.

mod common;

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{HOUR, bare, current_thread, inside, ms, multi_thread, must_end, poll};
use futures::executor::block_on;
use hairspring::timer::{Alarm, BuildError};
use hairspring::{Timer, sleep, wall};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_gettime, timerfd_settime};

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
            assert!(
                matches!(error, BuildError::Alarm { alarm: Alarm::Timerfd, kind, .. } if kind != ErrorKind::Unsupported)
            );
            assert_eq!((&error, &error), (&builder.clone().install().unwrap_err(), &error.clone()));
            drop(files);
            let timer = builder.build().unwrap();
            timer.sleep(ms(1)).await;
        });
    });
}

/// Waits until the alarm thread waits for its file. One that changes hands just before is the one case not noticed.
fn wait_for_the_alarm_thread() {
    let is_asleep = |task: &Path| {
        let read = |file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        read("comm").starts_with("hairspring-a")
            && read("stat").rsplit_once(')').is_some_and(|(_, state)| state.trim_start().starts_with('S'))
    };
    let mut seen = 0;
    while seen < 3 {
        let asleep = std::fs::read_dir("/proc/self/task").unwrap().any(|task| is_asleep(&task.unwrap().path()));
        seen = if asleep { seen + 1 } else { 0 };
        thread::yield_now();
    }
}

/// Closes all files but the standard ones, whoever owns them, as daemons do.
fn close_all() {
    wait_for_the_alarm_thread();
    // More than the process may have.
    (3..100).for_each(|file| {
        let _ = nix::unistd::close(file);
    });
}

/// The processor time that this process has taken.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}

/// Sleeps outside of any runtime and in new ones.
fn sleeps_end() {
    block_on(sleep(ms(5)));
    for runtime in [current_thread(), multi_thread(1)] {
        runtime.block_on(async {
            tokio::spawn(sleep(ms(5))).await.unwrap();
            let timer = Timer::builder().alarm(Alarm::Timerfd).build().unwrap();
            timer.sleep(ms(5)).await;
        });
    }
}

/// The alarm thread waited for a `timerfd` that nobody could set any more, and who booked panicked.
#[test]
fn timers_fire_after_the_program_has_closed_all_files() {
    with_few_files("timers_fire_after_the_program_has_closed_all_files", || {
        must_end(|| {
            let far = thread::spawn(|| block_on(sleep(HOUR)));
            let soon = thread::spawn(|| block_on(sleep(ms(50))));
            thread::sleep(ms(10));
            close_all();
            block_on(sleep(ms(5)));
            soon.join().unwrap();
            sleeps_end();
            let before = processor_time();
            block_on(sleep(ms(1_000)));
            let took = processor_time().saturating_sub(before);
            assert!(took < ms(100), "to wait for a second took {took:?} of processor time");
            assert!(!far.is_finished());
        });
    });
}

/// So the alarm thread finds it before anyone books.
#[test]
fn timers_fire_after_the_program_has_closed_all_files_while_one_was_about_to_fire() {
    with_few_files("timers_fire_after_the_program_has_closed_all_files_while_one_was_about_to_fire", || {
        must_end(|| {
            let soon = [10, 20].map(|after| thread::spawn(move || block_on(sleep(ms(after)))));
            thread::sleep(ms(5));
            close_all();
            for soon in soon {
                soon.join().unwrap();
            }
            sleeps_end();
        });
    });
}

/// Nothing can drive such a runtime. What has its files' numbers now is left as it is.
#[test]
fn a_timer_whose_runtime_has_lost_its_files_fires_elsewhere() {
    with_few_files("a_timer_whose_runtime_has_lost_its_files_fires_elsewhere", || {
        must_end(|| {
            let runtime = current_thread();
            let build = || Timer::builder().alarm(Alarm::Timerfd).build_with_driver().unwrap();
            let (timer, mut driver) = inside(&runtime, build);
            assert!(inside(&runtime, || poll(&mut driver)).is_pending());
            let mut far = timer.sleep(HOUR);
            assert!(poll(&mut far).is_pending());
            // With a clock that may be paused, a helper thread turns in place of the driver, and nothing is due before `far`.
            let turns = if cfg!(feature = "test-util") { 2 } else { 1 };
            while timer.metrics().turns() < turns {
                thread::yield_now();
            }
            thread::sleep(ms(10));
            close_all();
            let others: Vec<OwnedFd> = (0..20).map(|_| alarm_clock()).collect();
            block_on(timer.sleep(ms(5)));
            assert!(poll(&mut far).is_pending());
            drop((far, driver));
            assert!(others.iter().all(is_as_it_was), "another's file was changed");
            // It would close what has the numbers of its files.
            std::mem::forget(runtime);
        });
    });
}

/// The files that a program opens next get the numbers of those that it has closed.
fn timers_fire_beside(name: &str, another: fn() -> OwnedFd) {
    with_few_files(name, || {
        must_end(move || {
            let far = thread::spawn(|| block_on(sleep(HOUR)));
            let jump = thread::spawn(|| block_on(wall::sleep_until(wall::now() + HOUR)));
            thread::sleep(ms(10));
            close_all();
            let others: Vec<OwnedFd> = (0..10).map(|_| another()).collect();
            sleeps_end();
            assert!(others.iter().all(is_as_it_was), "another's file was changed");
            assert!(!far.is_finished() && !jump.is_finished());
        });
    });
}

#[test]
fn timers_fire_if_the_numbers_of_closed_files_are_given_to_others() {
    timers_fire_beside("timers_fire_if_the_numbers_of_closed_files_are_given_to_others", null);
}

#[test]
fn timers_fire_if_the_numbers_of_closed_files_are_given_to_other_timers() {
    timers_fire_beside("timers_fire_if_the_numbers_of_closed_files_are_given_to_other_timers", alarm_clock);
}

fn null() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

/// One that goes off in an hour.
fn alarm_clock() -> OwnedFd {
    let clock = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).unwrap();
    let it_value = Timespec { tv_sec: 3_600, tv_nsec: 0 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    timerfd_settime(&clock, TimerfdTimerFlags::empty(), &once).unwrap();
    clock
}

fn is_as_it_was(file: &OwnedFd) -> bool {
    match timerfd_gettime(file) {
        Ok(time) => time.it_interval.tv_sec == 0 && (1_800..=3_600).contains(&time.it_value.tv_sec),
        Err(error) => error == Errno::INVAL,
    }
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
    let nap = async || tokio::spawn(sleep(ms(2))).await.unwrap();
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
            let naps: Vec<_> = (1..=20).map(|n| tokio::spawn(sleep(ms(n)))).collect();
            for nap in naps {
                nap.await.unwrap();
            }
        });
    });
}

/// How many reads a thread has made, or the process with all its threads, if `of` is its folder in `/proc`.
fn reads(of: &Path) -> usize {
    let io = std::fs::read_to_string(of.join("io")).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("syscr: ")?.parse().ok()).unwrap_or(0)
}

/// How many reads the alarm thread has made. Linux keeps 15 letters of a name.
fn reads_by_the_alarm_thread() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    let name = |thread: &PathBuf| std::fs::read_to_string(thread.join("comm")).unwrap_or_default();
    threads.filter(|thread| name(thread).trim() == "hairspring-alar").map(|thread| reads(&thread)).sum()
}

/// It was some thousands, on the thread that all timers depend on.
#[test]
fn few_files_are_read_to_find_no_io_driver_and_none_by_the_alarm_thread() {
    with_few_files("few_files_are_read_to_find_no_io_driver_and_none_by_the_alarm_thread", || {
        let [_, without_io] = bare();
        without_io.block_on(async {
            sleep(ms(1)).await;
            let (by_alarm, by_all) = (reads_by_the_alarm_thread(), reads(Path::new("/proc/self")));
            for _ in 0..2_000 {
                tokio::spawn(sleep(ms(1))).await.unwrap();
            }
            let read = reads(Path::new("/proc/self")) - by_all;
            assert_eq!(reads_by_the_alarm_thread(), by_alarm);
            // 32 looks, and what a reading of the count itself takes.
            assert!((1..=40).contains(&read), "{read} reads");
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
                    tokio::spawn(sleep(ms(2))).await.unwrap();
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
            sleep(ms(2)).await;
            let _files = use_up();
            for _ in 0..200 {
                tokio::spawn(sleep(ms(2))).await.unwrap();
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
                    sleep(Duration::from_micros(100)).await;
                    comes_down_to(1).await;
                }
                // A default timer that nobody built, a handle, and what waits or may yet wait, each keep theirs.
                let kept = install();
                let (mut far, mut near) = (sleep(HOUR), sleep(ms(20)));
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
                sleep(ms(1)).await;
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
            let far = tokio::spawn(sleep(HOUR));
            for _ in 0..20 {
                sleep(ms(2)).await;
            }
            far.abort();
            assert!(start.elapsed() >= ms(40));
            drop(files);
            assert_eq!(open_files("[timerfd]"), 0);
        });
    });
}
