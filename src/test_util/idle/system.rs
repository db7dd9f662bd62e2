//! [`Thread`]: what Linux says about the threads of this process.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::util::waits;
pub(super) use crate::util::waits::{On, Wait, current_number};

/// The unit in which the system gives the start time of a thread.
const TICKS_PER_SECOND: u64 = 100;

/// A thread of this process.
#[derive(Debug)]
pub(super) struct Thread {
    number: u32,
    /// What it is doing: `running`, or a system call, its arguments and the stack.
    doing: File,
    /// Whether it sleeps or runs, among much else.
    stat: File,
    /// How long it has run and waited to run, and how often it was scheduled.
    scheduled: File,
}

/// The thread has ended.
#[derive(Debug)]
pub(super) struct Ended;

impl Thread {
    /// Returns `None` if there is no thread with that number, or the system does not say.
    pub(super) fn of(number: u32) -> Option<Thread> {
        if !waits::are_known() {
            return None;
        }
        let open = |what| File::open(format!("/proc/self/task/{number}/{what}")).ok();
        Some(Thread {
            number,
            doing: File::open(waits::file_of(number)).ok()?,
            stat: open("stat")?,
            scheduled: open("schedstat")?,
        })
    }

    pub(super) fn current() -> Option<Thread> {
        Thread::of(current_number())
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Where it waits, if it waits for another thread or for files.
    pub(super) fn wait(&self) -> Result<Option<Wait>, Ended> {
        Ok(waits::wait(read(&self.doing, &mut [0; 192]).ok_or(Ended)?))
    }

    /// Whether it runs or is ready to run; `None` if it has ended.
    ///
    /// The system reports a woken thread as still in its system call until its processor runs it, which takes
    /// milliseconds on a virtual processor that is not running.
    pub(super) fn is_awake(&self) -> Option<bool> {
        Some(is_awake(read(&self.stat, &mut [0; 192])?))
    }

    /// How often it was scheduled; `None` if it has ended. While this does not change, a waiting thread still waits.
    pub(super) fn runs(&self) -> Option<u64> {
        self.scheduled(2)
    }

    /// For how long it has run; `None` if it has ended.
    pub(super) fn processor_time(&self) -> Option<Duration> {
        self.scheduled(0).map(Duration::from_nanos)
    }

    fn scheduled(&self, field: usize) -> Option<u64> {
        let mut text = [0; 96];
        let text = std::str::from_utf8(read(&self.scheduled, &mut text)?).ok()?;
        text.split_ascii_whitespace().nth(field)?.parse().ok()
    }

    /// When it began, in the unit of [`present`].
    pub(super) fn began(&self) -> Option<u64> {
        let mut text = [0; 1024];
        let text = read(&self.stat, &mut text)?;
        // The name is in parentheses, and may contain some.
        let rest = std::str::from_utf8(&text[name_ends(text)? + 1..]).ok()?;
        rest.split_ascii_whitespace().nth(19)?.parse().ok()
    }

    /// Its name, cut to what the system keeps.
    pub(super) fn name(&self) -> Option<Vec<u8>> {
        fs::read(format!("/proc/self/task/{}/comm", self.number)).ok()
    }
}

/// The numbers of all threads, in order.
pub(super) fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The time, in ticks of 10 ms since the system was started.
pub(super) fn present() -> u64 {
    let since = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(since.tv_sec).unwrap_or(0);
    let rest = u64::try_from(since.tv_nsec).unwrap_or(0);
    seconds * TICKS_PER_SECOND + rest / (1_000_000_000 / TICKS_PER_SECOND)
}

/// Reads the beginning of a thread's file; `None` if the thread has ended.
fn read<'text>(file: &File, text: &'text mut [u8]) -> Option<&'text [u8]> {
    let length = file.read_at(text, 0).ok().filter(|&length| length > 0)?;
    Some(&text[..length])
}

fn name_ends(stat: &[u8]) -> Option<usize> {
    stat.iter().rposition(|&byte| byte == b')')
}

/// Whether a thread runs or is ready to run. Its state follows its name, which need not be UTF-8.
fn is_awake(stat: &[u8]) -> bool {
    name_ends(stat).is_none_or(|at| stat[at + 1..].starts_with(b" R"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_woken_is_awake() {
        assert!(is_awake(b"7 (tokio-runtime-w) R 1 7 7 0 -1"));
        assert!(!is_awake(b"7 (tokio-runtime-w) S 1 7 7 0 -1"));
        assert!(!is_awake(b"7 (a) R (b) S 1 7"), "a name with parentheses");
        if waits::are_known() {
            assert_eq!(Thread::current().unwrap().is_awake(), Some(true), "it reads this");
        }
    }

    #[test]
    fn a_thread_is_counted_as_it_runs_and_known_by_when_it_began() {
        if !waits::are_known() {
            return; // Under an emulator.
        }
        let before = present();
        std::thread::spawn(move || {
            let this = Thread::current().unwrap();
            let began = this.began().unwrap();
            assert!((before..=present()).contains(&began), "{before} {began}");
            assert!(all().binary_search(&this.number()).is_ok());
            let runs = this.runs().unwrap();
            std::thread::sleep(Duration::from_millis(1));
            assert!(this.runs().unwrap() > runs && runs > 0);
        })
        .join()
        .unwrap();
    }
}
