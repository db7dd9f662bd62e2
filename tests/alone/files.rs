//! A process that can open no more files, or that closes all of its files.

use std::error::Error;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, bare, current_thread, joined, ms, multi_thread, polled, until, wait_until};
use crate::{alone, sleeps, threads_named, with_few_files};
use futures::executor::block_on;
use hairspring::timer::Alarm;
use hairspring::{Timer, sleep, wall};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_gettime, timerfd_settime};
use tokio::net::UdpSocket;

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

/// Waits until the alarm thread waits for its file. If the file is closed and its number reused just before that, the
/// thread does not notice.
fn wait_for_the_alarm_thread() {
    let mut seen = 0;
    while seen < 3 {
        let asleep = threads_named(ALARM_THREAD).iter().any(|thread| sleeps(thread));
        seen = if asleep { seen + 1 } else { 0 };
        thread::yield_now();
    }
}

/// Closes all files but the standard ones, as daemons do.
fn close_all() {
    wait_for_the_alarm_thread();
    // More than the process may open.
    (3..100).for_each(|file| {
        let _ = nix::unistd::close(file);
    });
}

/// The CPU time that this process has used.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}

/// Sleeps outside any runtime, and in new runtimes.
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

/// Fails unless sleeping for a second takes hardly any CPU time.
fn a_sleep_is_idle() {
    let before = cpu_time();
    block_on(sleep(ms(1_000)));
    let took = cpu_time().saturating_sub(before);
    assert!(took < ms(100), "sleeping for a second took {took:?} of CPU time");
}

/// Fails unless timers fire after the program has closed its files, and opened others with the same numbers.
/// With other files nothing is due `soon`: an alarm thread that is about to wait would not notice.
fn timers_fire_beside(others: &[fn() -> OwnedFd], soon: &[u64], sets_an_alarm: bool) {
    let far = thread::spawn(|| block_on(sleep(HOUR)));
    let jump = thread::spawn(|| block_on(wall::sleep_until(wall::now() + HOUR)));
    let soon: Vec<_> = soon.iter().map(|&after| thread::spawn(move || block_on(sleep(ms(after))))).collect();
    thread::sleep(ms(10));
    close_all();
    let others: Vec<OwnedFd> = others.iter().cycle().take(10).map(|open| open()).collect();
    if sets_an_alarm {
        block_on(sleep(ms(5)));
    }
    for soon in soon {
        soon.join().unwrap();
    }
    sleeps_end();
    assert!(others.iter().all(is_as_it_was), "a file of the program was changed");
    assert!(!far.is_finished() && !jump.is_finished());
}

/// A bug that this crate had: the alarm thread kept waiting for a `timerfd` that had been closed.
#[test]
fn timers_fire_after_all_files_were_closed() {
    with_few_files(|| {
        timers_fire_beside(&[], &[20, 50], true);
        a_sleep_is_idle();
    });
}

/// The alarm thread wakes before anyone sets an alarm, so it is the first to find its file closed.
#[test]
fn timers_fire_if_files_are_closed_just_before() {
    with_few_files(|| timers_fire_beside(&[], &[20, 50], false));
}

#[test]
fn timers_fire_if_closed_file_numbers_are_reused() {
    with_few_files(|| timers_fire_beside(&[null], &[], false));
}

#[test]
fn timers_fire_if_another_timerfd_reuses_a_number() {
    with_few_files(|| timers_fire_beside(&[alarm_clock], &[], false));
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

fn null() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

/// A `timerfd` that goes off in an hour.
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

/// The numbers of all open `timerfd`s.
fn timerfds() -> Vec<RawFd> {
    let link = |number: &RawFd| std::fs::read_link(format!("/proc/self/fd/{number}"));
    (3..64).filter(|number| link(number).is_ok_and(|link| link.ends_with("anon_inode:[timerfd]"))).collect()
}

/// Uses a timer whose `timerfd` the program replaces by another file with the same number, which it passes to `take`.
/// Returns once that timer has ended.
async fn replace_timerfd<T>(other: OwnedFd, take: impl FnOnce(OwnedFd) -> T) -> T {
    let before = timerfds();
    let timer = Timer::builder().alarm(Alarm::Timerfd).build().unwrap();
    timer.sleep(ms(1)).await;
    let number = timerfds().into_iter().find(|number| !before.contains(number)).unwrap();
    nix::unistd::close(number).unwrap();
    // If a thread has just opened a file, that may have the number for a moment.
    let mut copies = std::iter::repeat_with(|| fcntl_dupfd_cloexec(&other, number).unwrap());
    let taken = take(copies.find(|copy| copy.as_raw_fd() == number).unwrap());
    timer.sleep(ms(1)).await;
    drop(timer);
    until(|| tokio::runtime::Handle::current().metrics().num_alive_tasks() == 0).await;
    taken
}

/// A bug that this crate had: each runtime whose `timerfd` the program had closed kept its own files for good.
#[test]
fn a_runtime_closes_its_files_although_its_timerfd_was_closed() {
    with_few_files(|| {
        // The alarm thread and tokio open files that they keep.
        current_thread().block_on(sleep(ms(1)));
        let before = open_files("");
        for new in [current_thread, || multi_thread(1)].repeat(20) {
            let clock = new().block_on(replace_timerfd(alarm_clock(), |clock| clock));
            assert!(is_as_it_was(&clock), "a file of the program was changed");
            // The same runtime waits for this one.
            new().block_on(async {
                let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap().into_std().unwrap();
                let register = |socket: OwnedFd| UdpSocket::from_std(socket.into()).unwrap();
                let socket = replace_timerfd(socket.into(), register).await;
                socket.send_to(b"x", socket.local_addr().unwrap()).await.unwrap();
                assert_eq!(socket.recv(&mut [0]).await.unwrap(), 1);
            });
        }
        // A thread of this crate may still use the last runtime.
        wait_until(|| open_files("") <= before);
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
