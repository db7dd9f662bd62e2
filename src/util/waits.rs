//! Thread states: how often a tokio worker has parked and unparked, and on Linux, the system call that any thread of
//! this process is in, from `/proc/self/task/N/syscall`.

use std::ffi::c_long;
use std::fs::File;
use std::io::Read;

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

/// Numbers of system calls.
#[cfg(target_os = "linux")]
mod system {
    use std::ffi::c_long;

    pub(super) const READ: c_long = libc::SYS_read;

    /// Those that wait for many files. Newer architectures have only one.
    #[cfg(any(target_arch = "aarch64", target_arch = "loongarch64", target_arch = "riscv32", target_arch = "riscv64"))]
    pub(super) const EPOLL: &[c_long] = &[libc::SYS_epoll_pwait];
    #[cfg(not(any(
        target_arch = "aarch64",
        target_arch = "loongarch64",
        target_arch = "riscv32",
        target_arch = "riscv64"
    )))]
    pub(super) const EPOLL: &[c_long] = &[libc::SYS_epoll_wait, libc::SYS_epoll_pwait];

    /// Those that wait for another thread. Systems of 32 bits have one more, for limits of 64 bits, which `libc` does
    /// not name.
    #[cfg(target_pointer_width = "64")]
    pub(super) const FUTEX: &[c_long] = &[libc::SYS_futex];
    #[cfg(any(target_arch = "arm", target_arch = "x86"))]
    pub(super) const FUTEX: &[c_long] = &[libc::SYS_futex, 422];
    #[cfg(not(any(target_pointer_width = "64", target_arch = "arm", target_arch = "x86")))]
    pub(super) const FUTEX: &[c_long] = &[];

    pub(crate) fn current_number() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
    }
}

/// Other systems do not say what a thread does.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::ffi::c_long;

    pub(super) const READ: c_long = -1;
    pub(super) const EPOLL: &[c_long] = &[];
    pub(super) const FUTEX: &[c_long] = &[];

    pub(crate) fn current_number() -> u32 {
        0
    }
}

pub(crate) use system::current_number;
use system::{EPOLL, FUTEX, READ};

/// What a thread of this process may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// One of many files.
    Files,
    /// Another thread, with a limit, or data. A worker that is parked does not, unless its runtime has timers and no
    /// I/O driver.
    NotParked,
    Unknown,
}

pub(crate) fn wait_of(thread: u32) -> Wait {
    match are_known().then(|| system_call(thread)).flatten() {
        Some((call, _)) if EPOLL.contains(&call) => Wait::Files,
        Some((call, has_limit)) if call == READ || has_limit && FUTEX.contains(&call) => Wait::NotParked,
        _ => Wait::Unknown,
    }
}

/// The threads of this process with the name of `thread`, that one included. `None` if the process has more than `most`
/// threads, or the system does not say.
pub(crate) fn namesakes(thread: u32, most: usize) -> Option<Vec<u32>> {
    let name = |thread| std::fs::read(format!("/proc/self/task/{thread}/comm")).ok();
    let threads: Vec<u32> = std::fs::read_dir("/proc/self/task")
        .ok()?
        .take(most + 1)
        .map(|thread| thread.ok()?.file_name().to_str()?.parse().ok())
        .collect::<Option<_>>()?;
    let searched = name(thread)?;
    (threads.len() <= most)
        .then(|| threads.into_iter().filter(|&thread| name(thread).as_ref() == Some(&searched)).collect())
}

/// Whether the system uses this architecture's numbers. Under an emulator of another CPU, it uses the host's.
pub(crate) fn are_known() -> bool {
    static ARE_KNOWN: PerProcess<bool> = PerProcess::new();
    // A thread that reads its own state is reading a file.
    *ARE_KNOWN.get(|_| cfg!(target_os = "linux") && system_call(current_number()).is_some_and(|(call, _)| call == READ))
}

/// The number of the system call that a thread is in, and whether its fourth argument is given: of a wait for another
/// thread, a limit. `None` or -1 if it is in none.
fn system_call(thread: u32) -> Option<(c_long, bool)> {
    // One read suffices.
    let mut state = [0; 192];
    let length = File::open(format!("/proc/self/task/{thread}/syscall")).ok()?.read(&mut state).ok()?;
    let mut words = std::str::from_utf8(&state[..length]).ok()?.split_ascii_whitespace();
    let number = words.next()?.parse().ok()?;
    Some((number, words.nth(3).is_some_and(|limit| limit != "0x0")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_of_a_thread_is_read_again_each_time() {
        if !are_known() {
            return; // Under an emulator.
        }
        let (sender, number) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender.send(current_number()).unwrap();
            let _ = released.recv();
        });
        let other = number.recv().unwrap();
        let number = |thread| system_call(thread).map(|(number, _)| number);
        while number(other).is_none_or(|number| number == READ) {}
        assert_eq!(number(current_number()), Some(READ));
        assert_ne!(wait_of(other), Wait::Files);
        drop(release);
        thread.join().unwrap();
        while system_call(other).is_some() {}
    }
}
