//! Thread states: how often a tokio worker has parked and unparked, and on Linux, the system call that any thread of
//! this process is in, from `/proc/self/task/N/syscall`.

#[cfg(target_os = "linux")]
pub(crate) use self::linux::*;

use tokio::runtime::RuntimeMetrics;

/// Whether tokio counts how often a worker parks. It does not on CPUs without 64-bit atomics.
pub(crate) const PARKS_ARE_COUNTED: bool = cfg!(target_has_atomic = "64");

/// How often a parked worker has parked and unparked so far. `None` if it is not parked, or tokio does not count.
pub(crate) fn while_parked(metrics: &RuntimeMetrics, worker: usize) -> Option<u64> {
    Some(parks(metrics, worker)).filter(|parks| parks % 2 == 1)
}

/// How often a worker has parked and unparked so far; zero if tokio does not count.
#[cfg(target_has_atomic = "64")]
pub(crate) fn parks(metrics: &RuntimeMetrics, worker: usize) -> u64 {
    metrics.worker_park_unpark_count(worker)
}

#[cfg(not(target_has_atomic = "64"))]
pub(crate) fn parks(_: &RuntimeMetrics, _: usize) -> u64 {
    0
}

/// Only Linux says what a thread waits for.
#[cfg(not(target_os = "linux"))]
pub(crate) fn current_number() -> u32 {
    0
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn are_known() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_for_files(_: u32) -> bool {
    false
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::Read;
    use std::sync::OnceLock;

    use libc::{SYS_epoll_pwait, SYS_read, c_long};

    /// The system call in which threads wait for other threads.
    #[cfg(not(target_arch = "riscv32"))]
    const FUTEX: c_long = libc::SYS_futex;
    #[cfg(target_arch = "riscv32")]
    const FUTEX: c_long = libc::SYS_futex_time64;

    /// The older of the two system calls that wait for many files. Newer architectures have only the other.
    #[cfg(not(any(
        target_arch = "aarch64",
        target_arch = "loongarch64",
        target_arch = "riscv32",
        target_arch = "riscv64"
    )))]
    const EPOLL_WAIT: c_long = libc::SYS_epoll_wait;
    #[cfg(any(target_arch = "aarch64", target_arch = "loongarch64", target_arch = "riscv32", target_arch = "riscv64"))]
    const EPOLL_WAIT: c_long = SYS_epoll_pwait;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Wait {
        /// For another thread of the process, on the futex at this address.
        ForWord(u64),
        ForFiles,
        /// In any other system call: its number, and the thread's stack pointer.
        In(c_long, u64),
    }

    pub(crate) fn current_number() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
    }

    pub(crate) fn is_for_files(thread: u32) -> bool {
        are_known() && doing(&file_of(thread), |doing| wait(doing) == Some(Wait::ForFiles))
    }

    /// The file that shows the system call of the thread with this number.
    pub(crate) fn file_of(thread: u32) -> String {
        format!("/proc/self/task/{thread}/syscall")
    }

    /// Whether the system uses this architecture's numbers. Under an emulator of another CPU, it uses the host's.
    pub(crate) fn are_known() -> bool {
        static ARE_KNOWN: OnceLock<bool> = OnceLock::new();
        *ARE_KNOWN.get_or_init(|| doing("/proc/thread-self/syscall", is_reading))
    }

    fn doing(file: &str, says_so: impl Fn(&[u8]) -> bool) -> bool {
        let mut text = [0; 192];
        let read = File::open(file).and_then(|mut file| file.read(&mut text));
        read.is_ok_and(|length| says_so(&text[..length]))
    }

    /// Whether a thread is reading a file. A thread that reads its own state is.
    fn is_reading(doing: &[u8]) -> bool {
        call(doing).is_some_and(|(call, _)| call == SYS_read)
    }

    /// The number of a thread's system call, and the words after it in its file.
    fn call(doing: &[u8]) -> Option<(c_long, impl Iterator<Item = &str>)> {
        let mut words = std::str::from_utf8(doing).ok()?.split_ascii_whitespace();
        Some((words.next()?.parse().ok()?, words))
    }

    /// The flag of a futex that is private to the process, unlike that of an ending thread, for example.
    const PRIVATE: u64 = 128;

    /// The system call that a thread waits in, from the contents of its file; `None` if it is in none.
    pub(crate) fn wait(doing: &[u8]) -> Option<Wait> {
        let (call, words) = call(doing).filter(|(call, _)| *call >= 0)?;
        let mut numbers = words.map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        let (first, second, stack) = (numbers.next()?, numbers.next()?, numbers.nth(4)?);
        Some(match call {
            FUTEX if second & PRIVATE != 0 => Wait::ForWord(first),
            _ if call == SYS_epoll_pwait || call == EPOLL_WAIT => Wait::ForFiles,
            _ => Wait::In(call, stack),
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn where_a_thread_waits_is_read_from_its_system_call() {
            let wait_in = |text: String| wait(text.as_bytes());
            let futex = format!("{FUTEX} 0x7ff0 0x89 0x2 0x0 0x0 0xffffffff 0x7ffd10 0x7f22\n");
            assert_eq!(wait_in(futex), Some(Wait::ForWord(0x7ff0)));
            let epoll = |call| format!("{call} 0x3 0x55 0x400 0x10 0x0 0x8 0x7ffd10 0x7f22\n");
            assert_eq!(wait_in(epoll(SYS_epoll_pwait)), Some(Wait::ForFiles));
            assert_eq!(wait_in(epoll(EPOLL_WAIT)), Some(Wait::ForFiles));
            let reads = format!("{SYS_read} 0x1 0x55 0x5 0x0 0x0 0x8 0x7ffd10 0x7f22\n");
            assert_eq!(wait_in(reads), Some(Wait::In(SYS_read, 0x007f_fd10)));
            assert_eq!(wait_in("running\n".into()), None);
            assert_eq!(wait_in("-1 0x007f_fd10 0x7f22\n".into()), None);
        }

        /// Under an emulator, a test clock waited forever because each thread seemed to run.
        #[test]
        fn numbers_of_another_architecture_are_not_taken_for_ours() {
            assert!(is_reading(format!("{SYS_read} 0x3 0x7f10 0xc0 0x0 0x0 0x8 0x7ffd10 0x7f22\n").as_bytes()));
            assert!(!is_reading(format!("{} 0x3 0x7f10 0xc0 0x0 0x0 0x8 0x7ffd10 0x7f22\n", SYS_read + 60).as_bytes()));
            assert!(!is_reading(b"running\n") && !is_reading(b""));
        }
    }
}
