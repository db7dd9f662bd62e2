//! What a thread of this process waits for, as Linux says in `/proc/self/task/N/syscall`.

/// The system call in which threads wait to be woken by another thread.
const FUTEX: u64 = if cfg!(target_arch = "x86_64") {
    202
} else if cfg!(target_pointer_width = "32") {
    240
} else {
    98
};

/// The system calls in which a thread waits for many files: `epoll_wait` and `epoll_pwait`, if the system has both.
const EPOLL: [u64; 2] = if cfg!(target_arch = "x86_64") {
    [232, 281]
} else if cfg!(target_arch = "x86") {
    [256, 319]
} else if cfg!(target_pointer_width = "32") {
    [252, 346]
} else {
    [22, 22]
};

/// Where a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) on: On,
    /// The address of the word, or zero.
    pub(crate) word: u64,
    /// The stack pointer.
    pub(crate) stack: u64,
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    /// To be woken by another, through a word in memory.
    Word,
    /// The same, with a timeout.
    TimedWord,
    Files,
}

/// The number of the calling thread.
pub(crate) fn current_number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// The file that says what the thread with that number is doing.
pub(crate) fn file_of(thread: u32) -> String {
    format!("/proc/self/task/{thread}/syscall")
}

/// Where a thread waits, by the contents of its file; `None` if it does anything else.
pub(crate) fn wait(doing: &[u8]) -> Option<Wait> {
    let mut words = std::str::from_utf8(doing).ok()?.split_ascii_whitespace();
    let call: u64 = words.next()?.parse().ok()?;
    let mut numbers = words.map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let (first, timeout) = (numbers.next()?, numbers.nth(2)?);
    let stack = numbers.nth(2)?;
    let (on, word) = match call {
        FUTEX if timeout == 0 => (On::Word, first),
        FUTEX => (On::TimedWord, first),
        call if EPOLL.contains(&call) => (On::Files, 0),
        _ => return None,
    };
    Some(Wait { on, word, stack })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_thread_waits_is_read_from_its_system_call() {
        let futex = |timeout| format!("{FUTEX} 0x7ff0 0x89 0x2 {timeout} 0x0 0xffffffff 0x7ffd10 0x7f22\n");
        let wait_in = |text: String| wait(text.as_bytes());
        let at = |on, word| Some(Wait { on, word, stack: 0x7f_fd10 });
        assert_eq!(wait_in(futex("0x0")), at(On::Word, 0x7ff0));
        assert_eq!(wait_in(futex("0x7ffd30")), at(On::TimedWord, 0x7ff0));
        assert_eq!(wait_in(format!("{} 0x3 0x55 0x400 0x10 0x0 0x8 0x7ffd10 0x7f22\n", EPOLL[0])), at(On::Files, 0));
        assert_eq!(wait_in("1 0x1 0x55 0x5 0x0 0x0 0x8 0x7ffd10 0x7f22\n".into()), None, "it writes");
        assert_eq!(wait_in("running\n".into()), None);
        assert_eq!(wait_in("-1 0x7ffd10 0x7f22\n".into()), None);
    }
}
