//! A process that can open no more files, or that closes all it has.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, bare, current_thread, inside, ms, multi_thread, must_end, poll};
use crate::with_few_files;
use futures::executor::block_on;
use hairspring::timer::{Alarm, BuildError};
use hairspring::{Timer, sleep, wall};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_gettime, timerfd_settime};

/// Opens files until the system refuses.
fn use_up() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// A bug that this crate had: the error blamed the runtime, as if it lacked `enable_io`.
#[test]
fn a_builder_says_that_files_are_used_up() {
    with_few_files(|| {
        current_thread().block_on(async {
            let builder = Timer::builder().alarm(Alarm::Timerfd);
            let files = use_up();
            let error = builder.clone().build().unwrap_err();
            let text = error.to_string();
            assert!(text.contains("Timerfd") && text.contains("Too many open files"), "{text}");
            assert!(!text.contains("enable_io"), "{text}");
            let BuildError::Alarm { alarm: Alarm::Timerfd, kind, .. } = &error else { panic!("{error:?}") };
            assert_ne!(*kind, ErrorKind::Unsupported);
            assert_eq!(builder.clone().install().unwrap_err(), error);
            drop(files);
            builder.build().unwrap().sleep(ms(1)).await;
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

/// Closes all files but the standard ones, as daemons do.
fn close_all() {
    wait_for_the_alarm_thread();
    // More than the process may have.
    (3..100).for_each(|file| {
        let _ = nix::unistd::close(file);
    });
}

/// The CPU time that this process has used.
fn cpu_time() -> Duration {
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

/// A bug that this crate had: the alarm thread waited for a `timerfd` that nobody could set any more.
#[test]
fn timers_fire_after_the_program_closed_all_files() {
    with_few_files(|| {
        must_end(|| {
            let far = thread::spawn(|| block_on(sleep(HOUR)));
            let soon = thread::spawn(|| block_on(sleep(ms(50))));
            thread::sleep(ms(10));
            close_all();
            block_on(sleep(ms(5)));
            soon.join().unwrap();
            sleeps_end();
            let before = cpu_time();
            block_on(sleep(ms(1_000)));
            let took = cpu_time().saturating_sub(before);
            assert!(took < ms(100), "waiting for a second took {took:?} of CPU time");
            assert!(!far.is_finished());
        });
    });
}

/// The alarm thread finds it before anyone sets an alarm.
#[test]
fn timers_fire_though_files_are_closed_just_before() {
    with_few_files(|| {
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

/// Nothing can drive such a runtime. The files that have its numbers now are not touched.
#[test]
fn a_timer_whose_runtime_lost_its_files_fires_elsewhere() {
    with_few_files(|| {
        must_end(|| {
            let runtime = current_thread();
            let build = || Timer::builder().alarm(Alarm::Timerfd).build_with_driver().unwrap();
            let (timer, mut driver) = inside(&runtime, build);
            assert!(inside(&runtime, || poll(&mut driver)).is_pending());
            let mut far = timer.sleep(HOUR);
            assert!(poll(&mut far).is_pending());
            // With a clock that may be paused, a helper thread turns for the driver, and nothing is due before `far`.
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
            // It would close the files that have its numbers now.
            std::mem::forget(runtime);
        });
    });
}

/// The files that a program opens next get the numbers of those that it has closed.
fn timers_fire_beside(another: fn() -> OwnedFd) {
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
}

#[test]
fn timers_fire_if_others_have_the_numbers_of_closed_files() {
    with_few_files(|| timers_fire_beside(null));
}

#[test]
fn timers_fire_if_other_timers_have_the_numbers_of_closed_files() {
    with_few_files(|| timers_fire_beside(alarm_clock));
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

/// A bug that this crate had: the builder opened one as a check and dropped it, and the driver opened another.
#[test]
fn a_timer_that_was_built_has_its_alarm() {
    with_few_files(|| {
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

#[test]
fn by_default_a_runtime_with_an_io_driver_gets_a_timerfd() {
    with_few_files(|| {
        multi_thread(1).block_on(async {
            let nap = |length| tokio::spawn(sleep(ms(length)));
            let mut naps = 0;
            // The alarm thread has one.
            while open_files("[timerfd]") < 2 {
                nap(2).await.unwrap();
                naps += 1;
                assert!(naps < 10_000, "it never gets one");
            }
            for nap in [1, 7, 4].map(nap) {
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

/// A bug that this crate had: thousands were read, on the thread that all timers depend on.
#[test]
fn few_files_are_read_to_find_no_io_driver() {
    with_few_files(|| {
        let [_, without_io] = bare();
        without_io.block_on(async {
            sleep(ms(1)).await;
            let (by_alarm, by_all) = (reads_by_the_alarm_thread(), reads(Path::new("/proc/self")));
            for _ in 0..600 {
                tokio::spawn(sleep(ms(1))).await.unwrap();
            }
            let read = reads(Path::new("/proc/self")) - by_all;
            assert_eq!(reads_by_the_alarm_thread(), by_alarm);
            // 32 checks, and the reads of the count itself.
            assert!((1..=40).contains(&read), "{read} reads");
        });
    });
}

#[test]
fn no_timerfd_is_opened_without_io_or_if_the_user_chose_the_thread() {
    with_few_files(|| {
        let with_io = multi_thread(1);
        inside(&with_io, || Timer::builder().alarm(Alarm::Thread).install().unwrap());
        let [_, without_io] = bare();
        for runtime in [&with_io, &without_io] {
            runtime.block_on(async {
                for _ in 0..100 {
                    tokio::spawn(sleep(ms(2))).await.unwrap();
                }
                assert_eq!(open_files("[timerfd]"), 1);
            });
        }
    });
}

/// A bug that this crate had: each kept its file and its task until the runtime ended.
#[test]
fn a_timer_that_was_replaced_releases_its_file() {
    with_few_files(|| {
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
                for _ in 0..100 {
                    install();
                    sleep(Duration::from_micros(100)).await;
                    comes_down_to(1).await;
                }
                // A default timer that nobody built, a handle, and a sleep, polled or not, each keep theirs.
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

/// The alarm thread has its file, and the runtime cannot get another.
#[test]
fn the_alarm_thread_goes_on_for_a_runtime_without_files() {
    with_few_files(|| {
        multi_thread(1).block_on(async {
            sleep(ms(2)).await;
            let _files = use_up();
            for _ in 0..100 {
                tokio::spawn(sleep(ms(2))).await.unwrap();
            }
        });
    });
}

#[test]
fn neither_the_alarm_thread_nor_a_driver_needs_a_file() {
    with_few_files(|| {
        current_thread().block_on(async {
            let files = use_up();
            let far = tokio::spawn(sleep(HOUR));
            for _ in 0..10 {
                let start = std::time::Instant::now();
                sleep(ms(2)).await;
                assert!(start.elapsed() >= ms(2));
            }
            far.abort();
            drop(files);
            assert_eq!(open_files("[timerfd]"), 0);
            // A driver creates its alarm at its first poll, and cannot report an error.
            let (timer, driver) = Timer::builder().alarm(Alarm::Timerfd).build_with_driver().unwrap();
            let _files = use_up();
            tokio::spawn(driver);
            timer.sleep(ms(2)).await;
        });
    });
}
