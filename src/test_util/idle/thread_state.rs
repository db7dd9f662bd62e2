//! [`Thread`] and [`Seen`]: whether a thread runs, as Linux tells. Other systems do not.
//!
//! A thread that was woken counts as running, although no CPU may have run it yet: on a busy machine, that takes
//! milliseconds.

#[cfg(target_os = "linux")]
pub(super) use linux::{Seen, Thread};
#[cfg(not(target_os = "linux"))]
pub(super) use other::{Seen, Thread};

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, Instant};

    use crate::util::waits::{self, Wait};

    #[derive(Debug)]
    pub(in super::super) struct Thread {
        /// Says which system call it is in.
        doing: File,
        /// Says whether it sleeps or runs, among much else.
        stat: File,
    }

    impl Thread {
        /// Returns `None` if the system does not say what the calling thread does.
        pub(in super::super) fn current() -> Option<Thread> {
            let number = waits::current_number();
            let doing = File::open(waits::file_of(number)).ok().filter(|_| waits::are_known())?;
            let stat = File::open(format!("/proc/self/task/{number}/stat")).ok()?;
            Some(Thread { doing, stat })
        }

        /// Whether it waits, and no CPU is to run it. `None` if it has ended.
        pub(in super::super) fn sleeps(&self) -> Option<bool> {
            read(&self.stat, &mut [0; 192]).map(|stat| !is_awake(stat))
        }

        /// Where it waits; `None` if it runs, is ready to run, or has ended.
        fn wait(&self) -> Option<Wait> {
            let wait = waits::wait(read(&self.doing, &mut [0; 192])?)?;
            self.sleeps()?.then_some(wait)
        }
    }

    fn read<'text>(file: &File, text: &'text mut [u8]) -> Option<&'text [u8]> {
        let length = file.read_at(text, 0).ok()?;
        Some(&text[..length])
    }

    /// Whether a thread runs or is ready to run. The state follows the name, which is in parentheses, may contain some,
    /// and need not be UTF-8.
    fn is_awake(stat: &[u8]) -> bool {
        let name_ends = stat.iter().rposition(|&byte| byte == b')');
        name_ends.is_none_or(|at| stat[at + 1..].starts_with(b" R"))
    }

    /// How long a thread must wait on a futex the first time before that counts as waiting to be woken. From then on it
    /// counts immediately, because `block_on` always waits on the same futex.
    const FIRST: Duration = Duration::from_millis(20);
    /// How long it must wait anywhere else. Another futex is then taken for that of `block_on`.
    const ELSEWHERE: Duration = Duration::from_millis(100);

    /// A thread in `block_on`, and where it was seen.
    #[derive(Debug)]
    pub(in super::super) struct Seen {
        thread: Thread,
        /// The futex of `block_on`, once known.
        word: Option<u64>,
        /// Where it was at the last check, and since when.
        at: Option<(Wait, Instant)>,
    }

    impl Seen {
        pub(in super::super) fn current() -> Option<Seen> {
            Some(Seen { thread: Thread::current()?, word: None, at: None })
        }

        pub(in super::super) fn runs(&mut self) -> bool {
            let Some(wait) = self.thread.wait() else {
                self.at = None;
                return true;
            };
            let since = self.at.filter(|(at, _)| *at == wait).map_or_else(Instant::now, |(_, since)| since);
            self.at = Some((wait, since));
            let longest = match wait {
                Wait::ForFiles => Duration::ZERO,
                Wait::ForWord(word) if self.word == Some(word) => Duration::ZERO,
                Wait::ForWord(_) if self.word.is_none() => FIRST,
                _ => ELSEWHERE,
            };
            let waits = since.elapsed() >= longest;
            if let (true, Wait::ForWord(word)) = (waits, wait) {
                self.word = Some(word);
            }
            !waits
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_thread_that_was_woken_runs() {
            assert!(is_awake(b"7 (tokio-runtime-w) R 1 7 7 0 -1"));
            assert!(!is_awake(b"7 (tokio-runtime-w) S 1 7 7 0 -1"));
            assert!(!is_awake(b"7 (a) R (b) S 1 7"), "a name with parentheses");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    #[derive(Debug)]
    pub(in super::super) enum Thread {}

    impl Thread {
        pub(in super::super) fn current() -> Option<Thread> {
            None
        }

        pub(in super::super) fn sleeps(&self) -> Option<bool> {
            match *self {}
        }
    }

    #[derive(Debug)]
    pub(in super::super) enum Seen {}

    impl Seen {
        pub(in super::super) fn current() -> Option<Seen> {
            None
        }

        pub(in super::super) fn runs(&mut self) -> bool {
            match *self {}
        }
    }
}
