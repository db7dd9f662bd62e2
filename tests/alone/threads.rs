//! The threads of this crate have the main thread's niceness, and all CPUs of the process. A timer can do without.

use std::cell::RefCell;
use std::fs;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::task::Poll;
use std::thread;

use crate::common::{
    HOUR, HUNG, both_flavours, current_thread, inside, joined, ms, panic_message, poll, polled, step, wait_until,
};
use crate::{alone, sleeps, threads_named};
use futures::executor::block_on;
use hairspring::timer::Alarm;
use hairspring::{Instant, Sleep, Timer, boot, sleep, timeout, wall};
use rustix::process::{Resource, Rlimit, setpriority_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The niceness of a thread, and the CPUs that it may use.
type Urgency = (i32, String);

fn of(task: &Path) -> Option<Urgency> {
    let read = |file| fs::read_to_string(task.join(file)).ok();
    let stat = read("stat")?;
    // The name in brackets is followed by the state, then by the fourth and later fields.
    let niceness = stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()?;
    let status = read("status")?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some((niceness, allowed.trim().to_owned()))
}

/// The niceness and CPUs of all threads of this crate.
fn of_ours() -> Vec<Urgency> {
    threads_named("hairspring").iter().filter_map(|task| of(task)).collect()
}

/// `first` creates the first timers, on a separate thread. Whatever that thread's niceness and CPU affinity are, the
/// threads that serve later sleeps must have the main thread's.
fn first_timers(first: fn()) {
    let main = of(Path::new("/proc/self")).unwrap();
    thread::spawn(move || {
        first();
        sleep_on_both();
    })
    .join()
    .unwrap();
    let start = Instant::now();
    while of_ours().iter().any(|urgency| *urgency != main) {
        assert!(start.elapsed() < HUNG / 2, "{:?} instead of {main:?}", of_ours());
        sleep_on_both();
    }
}

fn sleep_on_both() {
    current_thread().block_on(sleep(ms(2)));
    block_on(sleep(ms(2)));
}

/// A bug that this crate had: timers fired hundreds of milliseconds late if a background thread created the program's
/// first timer, because the alarm thread inherited its niceness and CPU affinity.
#[test]
fn a_background_thread_does_not_lower_timer_priority() {
    alone(|| {
        let lower_and_raise = || setpriority_process(None, 19).and_then(|()| setpriority_process(None, 0));
        if thread::spawn(lower_and_raise).join().unwrap().is_err() {
            println!("not tested: the system does not let this process raise a thread's priority");
            return;
        }
        first_timers(|| setpriority_process(None, 19).unwrap());
    });
}

#[test]
fn a_background_thread_does_not_pin_timers() {
    alone(|| {
        first_timers(|| {
            let allowed = sched_getaffinity(None).unwrap();
            let mut one = CpuSet::new();
            one.set((0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap());
            sched_setaffinity(None, &one).unwrap();
        });
    });
}

/// A bug that this crate had: in a program that pins each of its threads, the timers of all CPUs waited for the one to which
/// the main thread was pinned.
#[test]
fn a_pinned_main_thread_does_not_pin_timers() {
    alone(|| {
        let main = Some(rustix::process::getpid());
        let allowed = sched_getaffinity(main).unwrap();
        let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        let mut one = CpuSet::new();
        one.set(cpus[0]);
        sched_setaffinity(main, &one).unwrap();
        sleep_on_both();
        let ours: Vec<_> = of_ours();
        let (main, mine) = (of(Path::new("/proc/self")).unwrap(), of(Path::new("/proc/thread-self")).unwrap());
        assert!(!ours.is_empty() && ours.iter().all(|(_, cpus)| *cpus == mine.1), "{ours:?}, not {mine:?}");
        assert!(cpus.len() == 1 || main.1 != mine.1);
    });
}

/// How many threads this process has started, this call's included.
fn started() -> u64 {
    let id = thread::spawn(|| format!("{:?}", thread::current().id())).join().unwrap();
    id.trim_start_matches("ThreadId(").trim_end_matches(')').parse().unwrap()
}

/// A bug that this crate had: the search for the runtime's I/O driver started a thread for each of its checks.
#[test]
fn a_healthy_runtime_without_an_io_driver_starts_few_threads() {
    alone(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
        runtime.block_on(runtime.spawn(sleep(ms(1)))).unwrap();
        let before = started();
        for _ in 0..20 {
            runtime.block_on(async {
                joined([(); 100].map(|()| tokio::spawn(sleep(ms(5))))).await;
                for _ in 0..20 {
                    sleep(ms(1)).await;
                }
            });
        }
        // On a busy machine helpers may fire a few of them. They are then used again.
        let more = started() - before - 1;
        assert!(more <= 10, "{more} threads");
    });
}

/// Has a helper thread wait for work. On a busy machine one would start at any time, even while threads are refused.
fn have_a_helper() {
    while !threads_named("hairspring-help").iter().any(|thread| sleeps(thread)) {
        block_on(sleep(ms(1)));
    }
}

/// Lets this process start no thread from now on: it has no memory for another stack. Unlike a limit on processes, this
/// also applies to root.
fn refuse_threads() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB"));
    let most = Some((kilobytes.unwrap().parse::<u64>().unwrap() + 1024) * 1024);
    setrlimit(Resource::As, Rlimit { current: most, maximum: most }).unwrap();
    assert!(thread::Builder::new().spawn(|| ()).is_err(), "the system still starts threads");
}

/// A bug that this crate had: in a container that limits threads, building a timer panicked.
#[test]
fn a_timer_that_gets_no_thread_is_an_error_or_does_without() {
    alone(|| {
        let runtime = current_thread();
        refuse_threads();
        runtime.block_on(async {
            for alarm in [Alarm::Auto, Alarm::Thread, Alarm::Timerfd] {
                let builder = || Timer::builder().alarm(alarm);
                for error in [builder().build().unwrap_err(), builder().install().unwrap_err()] {
                    let text = error.to_string();
                    assert!(text.starts_with(&format!("alarm is {alarm:?}: the system refused it")), "{text}");
                    assert!(text.contains("alarm thread") && text.contains("os error"), "{text}");
                }
            }
            let said = panic_message(|| poll(&mut sleep(ms(1))));
            assert!(said.starts_with("hairspring failed to start the alarm thread: "), "{said}");

            let timer = Timer::builder().alarm(Alarm::Tokio).install().unwrap();
            sleep(ms(1)).await;
            assert!(timer.timeout(ms(1), std::future::pending::<()>()).await.is_err());
            let timer = Timer::builder().alarm(Alarm::Tokio).build().unwrap();
            timer.sleep(ms(1)).await;
            timer.shutdown();
        });
    });
}

/// A bug that this crate had: the driver panicked, and so did each that replaced it, without end.
#[cfg(feature = "test-util")]
#[test]
fn a_paused_clock_that_gets_no_thread_rounds_up() {
    alone(|| {
        have_a_helper();
        current_thread().block_on(async {
            sleep(ms(1)).await;
            let timer = Timer::current();
            // A thread of tokio's pool, which stays for a while: without one, tokio panics.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            refuse_threads();
            hairspring::pause();
            let start = Instant::now();
            sleep(ms(1) / 2).await;
            assert!((ms(1) / 2..ms(3)).contains(&start.elapsed()), "{:?}", start.elapsed());
            assert!(!timer.is_shutdown());
        });
    });
}

/// How many threads watch for jumps of a clock.
fn watchers() -> usize {
    threads_named("hairspring-jump").len()
}

#[test]
fn one_thread_watches_for_jumps_while_something_waits_for_them() {
    alone(|| {
        block_on(sleep(ms(1)));
        assert_eq!(watchers(), 0);
        let day = polled(boot::sleep(24 * HOUR));
        // A thread has its name once it runs.
        wait_until(|| watchers() > 0);
        for _ in 0..20 {
            block_on(wall::sleep_until(wall::now() + ms(1)));
            assert_eq!(watchers(), 1);
        }
        drop(day);
        // A helper thread stays for ten seconds, in case something is to do again. Linux cuts its name.
        wait_until(|| threads_named("hairspring-help").is_empty());
        assert_eq!(watchers(), 1, "it sleeps until a clock jumps");
    });
}

/// Nothing tells this sleep of jumps.
#[test]
fn without_a_thread_that_watches_for_jumps_a_sleep_reads_its_clock_once_a_second() {
    alone(|| {
        have_a_helper();
        let runtime = current_thread();
        refuse_threads();
        let (mut day, mut polls) = (boot::sleep(24 * HOUR), 0);
        let polled_again = poll_fn(|cx| {
            assert!(Pin::new(&mut day).poll(cx).is_pending());
            polls += 1;
            if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
        });
        runtime.block_on(timeout(HUNG, polled_again)).unwrap();
    });
}

/// Bugs that this crate had: with tokio's alarm this panicked, and no later sleep on the timer ended.
#[test]
fn a_thread_local_variable_may_use_a_timer_while_it_is_dropped() {
    struct Resets(Option<Sleep>);
    impl Drop for Resets {
        fn drop(&mut self) {
            self.0.take().expect("it was set").reset_at(Instant::now() + ms(1));
        }
    }
    thread_local!(static LAST: RefCell<Resets> = const { RefCell::new(Resets(None)) });

    alone(|| {
        for alarm in [Alarm::Auto, Alarm::Thread, Alarm::Timerfd, Alarm::Tokio] {
            for runtime in both_flavours() {
                step();
                let timer = inside(&runtime, || Timer::builder().alarm(alarm).build().unwrap());
                let uses = || {
                    // tokio's variables are created later, and dropped before.
                    LAST.with_borrow_mut(|last| last.0 = Some(polled(timer.sleep(HOUR))));
                };
                thread::scope(|scope| scope.spawn(uses).join().unwrap());
                runtime.block_on(timer.sleep(ms(2)));
            }
        }
    });
}
