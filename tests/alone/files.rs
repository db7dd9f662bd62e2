//! Which files this crate opens, and a process that can open no more.

use std::error::Error;
use std::fs::File;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, bare, current_thread, joined, ms, multi_thread, polled, until};
use crate::{alone, threads_named, with_few_files};
use futures::executor::block_on;
use hairspring::timer::Alarm;
use hairspring::{Timer, sleep, wall};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};

const ALARM_THREAD: &str = "hairspring-a";

/// Opens files until the system refuses.
fn use_up() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// A bug that this crate had: the error blamed the runtime, as if it lacked `enable_io`.
#[test]
fn a_builder_reports_that_no_file_can_be_opened() {
    with_few_files(|| {
        current_thread().block_on(async {
            let builder = Timer::builder().alarm(Alarm::Timerfd);
            let files = use_up();
            let error = builder.clone().build().unwrap_err();
            let by_system: &io::Error = error.source().unwrap().downcast_ref().unwrap();
            assert_eq!(by_system.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
            let text = error.to_string();
            assert!(text.contains("Timerfd") && text.contains(&by_system.to_string()), "{text}");
            assert!(!text.contains("enable_io"), "{text}");
            let as_io = io::Error::from(error.clone());
            assert_eq!((as_io.kind(), as_io.to_string()), (by_system.kind(), text));
            assert_eq!(builder.clone().install().unwrap_err(), error);
            drop(files);
            builder.build().unwrap().sleep(ms(1)).await;
        });
    });
}

/// The CPU time that this process has used.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}

/// Fails unless sleeping for a second takes hardly any CPU time.
fn a_sleep_is_idle() {
    let before = cpu_time();
    block_on(sleep(ms(1_000)));
    let took = cpu_time().saturating_sub(before);
    assert!(took < ms(100), "sleeping for a second took {took:?} of CPU time");
}

/// A bug that this crate had: in a process that may open no more files, as in some sandboxes, the alarm thread used a
/// CPU, because the system refuses to poll files there.
#[test]
fn a_process_that_may_have_no_files_is_idle() {
    alone(|| {
        let far = thread::spawn(|| block_on(wall::sleep_until(wall::now() + HOUR)));
        block_on(sleep(ms(5)));
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
        block_on(sleep(ms(5)));
        a_sleep_is_idle();
        assert!(!far.is_finished());
    });
}

/// How many open files of the process have `name` in their path.
pub(crate) fn open_files(name: &str) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = open.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    links.filter(|link| link.to_string_lossy().contains(name)).count()
}

/// A bug that this crate had: the builder opened a `timerfd` as a check and dropped it, and the driver opened another.
#[test]
fn a_built_timer_opens_a_single_timerfd() {
    with_few_files(|| {
        current_thread().block_on(async {
            let timer = Timer::builder().alarm(Alarm::Timerfd).build().unwrap();
            let files = use_up();
            timer.sleep(ms(2)).await;
            drop(files);
            // The other belongs to the alarm thread.
            assert_eq!(open_files("[timerfd]"), 2);
        });
    });
}

/// With `test-util`, a test may pause the clock of a current-thread runtime at any moment. A `timerfd` would not show it.
#[test]
fn a_runtime_with_io_gets_a_timerfd() {
    with_few_files(|| {
        let current = (!cfg!(feature = "test-util")).then(current_thread);
        // Starts the alarm thread, to which one belongs.
        let _outside = Timer::current();
        for runtime in current.into_iter().chain([multi_thread(1)]) {
            let before = open_files("[timerfd]");
            runtime.block_on(async {
                let nap = |length| tokio::spawn(sleep(ms(length)));
                let mut naps = 0;
                while open_files("[timerfd]") == before {
                    nap(2).await.unwrap();
                    naps += 1;
                    assert!(naps < 10_000, "the runtime never gets one");
                }
                joined([1, 7, 4].map(nap)).await;
            });
        }
    });
}

/// How many reads a thread or process has made. `of` is its folder in `/proc`.
fn reads(of: &Path) -> usize {
    let io = std::fs::read_to_string(of.join("io")).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("syscr: ")?.parse().ok()).unwrap_or(0)
}

fn reads_by_the_alarm_thread() -> usize {
    threads_named(ALARM_THREAD).iter().map(|thread| reads(thread)).sum()
}

/// A bug that this crate had: the search read thousands of files, on the thread that all timers depend on. A read takes
/// 5 us.
#[test]
fn the_search_for_an_io_driver_reads_few_files() {
    with_few_files(|| {
        let [_, without_io] = bare();
        without_io.block_on(async {
            sleep(ms(1)).await;
            let (by_alarm, by_all) = (reads_by_the_alarm_thread(), reads(Path::new("/proc/self")));
            for _ in 0..600 {
                tokio::spawn(sleep(ms(1))).await.unwrap();
            }
            let read = reads(Path::new("/proc/self")) - by_all;
            let by_alarm = reads_by_the_alarm_thread() - by_alarm;
            // Some forty checks, each of which reads one or two files for each thread of this process.
            let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
            assert!((1..=80 * threads).contains(&by_alarm), "{by_alarm} reads by the alarm thread, {threads} threads");
            // The rest are the reads that this test makes to count.
            assert!(read <= by_alarm + 8, "{read} reads");
        });
    });
}

#[test]
fn no_timerfd_without_io() {
    with_few_files(|| {
        for runtime in bare() {
            for alarm in [Alarm::Auto, Alarm::Thread] {
                runtime.block_on(async {
                    Timer::builder().alarm(alarm).install().unwrap();
                    for _ in 0..100 {
                        tokio::spawn(sleep(ms(2))).await.unwrap();
                    }
                    assert_eq!(open_files("[timerfd]"), 1);
                });
            }
        }
    });
}

/// A bug that this crate had: each replaced timer kept its file and its task until the runtime ended.
#[test]
fn a_replaced_timer_releases_its_file() {
    with_few_files(|| {
        for runtime in [current_thread(), multi_thread(2)] {
            runtime.block_on(async {
                let install = || Timer::builder().alarm(Alarm::Timerfd).install().unwrap();
                let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
                let comes_down_to = async |timers: usize| {
                    // One file belongs to the alarm thread.
                    until(|| tasks() <= timers && open_files("[timerfd]") <= 1 + timers).await;
                };
                for _ in 0..100 {
                    install();
                    sleep(Duration::from_micros(100)).await;
                    comes_down_to(1).await;
                }
                // Three stay: one has a handle and sleeps, one an unpolled sleep, and one is the default.
                let kept = install();
                let [far, near] = [HOUR, ms(20)].map(|after| polled(sleep(after)));
                let of_another = install().sleep(ms(1));
                install();
                comes_down_to(3).await;
                of_another.await;
                comes_down_to(2).await;
                near.await;
                kept.sleep(ms(1)).await;
                drop(kept);
                assert_eq!((tasks(), Timer::current().metrics().pending()), (2, 0));
                // Cancelling its last sleep ends a timer. It does not wait for the deadline.
                drop(far);
                comes_down_to(1).await;
                sleep(ms(1)).await;
            });
        }
    });
}

/// The alarm thread has a file, and the runtime cannot open one.
#[test]
fn the_alarm_thread_serves_a_runtime_without_files() {
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
fn timers_fire_if_no_timerfd_can_be_opened() {
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
        });
    });
}
