//! Thread states: how often a tokio worker has parked and unparked, and on Linux, the system call that any thread of
//! this process is in, from `/proc/self/task/N/syscall`.

use std::ffi::c_long;
use std::fs::File;
use std::io::{Read, Seek};

use tokio::runtime::RuntimeMetrics;

use super::sync::PerProcess;

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

#[cfg(target_os = "linux")]
mod system {
    #[cfg(any(
        target_arch = "aarch64",
        target_arch = "loongarch64",
        target_arch = "riscv32",
        target_arch = "riscv64"
    ))]
    pub(super) use libc::SYS_epoll_pwait as EPOLL_WAIT;
    /// The older of the two system calls that wait for many files. Newer architectures have only the other.
    #[cfg(not(any(
        target_arch = "aarch64",
        target_arch = "loongarch64",
        target_arch = "riscv32",
        target_arch = "riscv64"
    )))]
    pub(super) use libc::SYS_epoll_wait as EPOLL_WAIT;
    pub(super) use libc::{SYS_epoll_pwait as EPOLL_PWAIT, SYS_read as READ};

    pub(crate) fn current_number() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
    }
}

/// Other systems do not say what a thread does.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::ffi::c_long;

    pub(super) const READ: c_long = -1;
    pub(super) const EPOLL_WAIT: c_long = -1;
    pub(super) const EPOLL_PWAIT: c_long = -1;

    pub(crate) fn current_number() -> u32 {
        0
    }
}

pub(crate) use system::current_number;
use system::{EPOLL_PWAIT, EPOLL_WAIT, READ};

/// The number of a system call, and its first four arguments.
pub(crate) type Call = (c_long, [u64; 4]);

pub(crate) fn is_for_files(thread: u32) -> bool {
    let file = are_known().then(|| open(thread, "syscall")).flatten();
    file.and_then(|file| call(&file)).and_then(polled).is_some()
}

/// The file with which a system call waits for many files.
pub(crate) fn polled((number, [file, ..]): Call) -> Option<u64> {
    (number == EPOLL_WAIT || number == EPOLL_PWAIT).then_some(file)
}

/// Opens the system's file with this name about the thread with this number.
pub(crate) fn open(thread: u32, name: &str) -> Option<File> {
    File::open(format!("/proc/self/task/{thread}/{name}")).ok()
}

/// Whether the system uses this architecture's numbers. Under an emulator of another CPU, it uses the host's.
pub(crate) fn are_known() -> bool {
    static ARE_KNOWN: PerProcess<bool> = PerProcess::new();
    *ARE_KNOWN.get(|_| {
        // A thread that reads its own state is reading a file.
        let own = cfg!(target_os = "linux").then(|| open(current_number(), "syscall")).flatten();
        own.and_then(|file| call(&file)).is_some_and(|(number, _)| number == READ)
    })
}

/// The system call that a thread is in, from its file; `None` if it is in none, or has ended.
pub(crate) fn call(file: &File) -> Option<Call> {
    read(file, &mut [0; 192]).and_then(parse)
}

/// Reads a file about a thread again. `None` if the thread has ended.
pub(crate) fn read<'text>(mut file: &File, text: &'text mut [u8]) -> Option<&'text [u8]> {
    file.rewind().ok()?;
    let length = file.read(text).ok()?;
    Some(&text[..length])
}

fn parse(text: &[u8]) -> Option<Call> {
    let mut words = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let number = words.next()?.parse().ok().filter(|&number| number >= 0)?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    Some((number, [argument()?, argument()?, argument()?, argument()?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_call_is_its_number_and_four_arguments() {
        assert_eq!(
            parse(b"202 0x7ff0 0x89 0x2 0x3 0x0 0xffffffff 0x7ffd10 0x7f22\n"),
            Some((202, [0x7ff0, 0x89, 2, 3]))
        );
        assert_eq!(parse(b"running\n"), None);
        assert_eq!(parse(b"-1 0x7ffd10 0x7f22\n"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn the_call_of_a_thread_is_read_again_each_time() {
        if !are_known() {
            return; // Under an emulator.
        }
        let file = open(current_number(), "syscall").unwrap();
        let mut text = [0; 192];
        for _ in 0..2 {
            assert_eq!(parse(read(&file, &mut text).unwrap()).unwrap().0, READ);
        }
        let (sender, number) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender.send(current_number()).unwrap();
            let _ = released.recv();
        });
        let other = open(number.recv().unwrap(), "syscall").unwrap();
        while call(&other).is_none_or(|(number, _)| number == READ) {}
        assert!(!is_for_files(current_number()));
        drop(release);
        thread.join().unwrap();
        while read(&other, &mut text).is_some_and(|text| !text.is_empty()) {}
        assert_eq!(call(&other), None, "it has ended");
    }
}
