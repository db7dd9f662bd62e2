//! The priority of the alarm thread. A thread inherits policy, niceness and processors from the one that starts it,
//! which may be a background thread that happened to make the first timer.

#[cfg(target_os = "linux")]
pub(super) use linux::{Priority, settle};
#[cfg(not(target_os = "linux"))]
pub(super) use other::{Priority, settle};

#[cfg(target_os = "linux")]
mod linux {
    use std::cmp::Reverse;
    use std::fs::read_to_string;
    use std::num::NonZeroU64;

    use rustix::process::{getpid, setpriority_process};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};

    /// Ordered by scheduling policy, then by niceness. A greater priority is more urgent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(in super::super) struct Priority {
        policy: Reverse<u8>,
        niceness: Reverse<i32>,
    }

    impl Priority {
        pub(in super::super) fn of_this_thread() -> Priority {
            Priority::read("/proc/thread-self/stat").unwrap_or(Priority::LOWEST)
        }

        fn of_the_main_thread() -> Priority {
            let main = getpid().as_raw_nonzero();
            Priority::read(&format!("/proc/self/task/{main}/stat")).unwrap_or(Priority::COMMON)
        }

        /// Assumed for a thread if the system does not say.
        const LOWEST: Priority = Priority { policy: Reverse(u8::MAX), niceness: Reverse(i32::MAX) };

        /// Assumed for the main thread if the system does not say.
        const COMMON: Priority = Priority { policy: Reverse(1), niceness: Reverse(0) };

        fn read(stat: &str) -> Option<Priority> {
            let stat = read_to_string(stat).ok()?;
            // The third field comes after the thread's name, which is in parentheses.
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            let niceness = fields.get(19 - 3)?.parse().ok()?;
            let policy = match *fields.get(41 - 3)? {
                "0" => 1,
                "3" => 2, // Batch.
                "5" => 3, // Only if all others are idle.
                _ => 0,   // Real time.
            };
            Some(Priority { policy: Reverse(policy), niceness: Reverse(niceness) })
        }
    }

    /// Raises this thread to the main thread's priority if it is less urgent, and lets it use the main thread's
    /// processors too. What the system refuses stays as it was. Returns the priority reached, or `None` if it is no
    /// less urgent than the main thread.
    pub(in super::super) fn settle() -> Option<Priority> {
        // Linux would add up to 50 us to each wait, to wake threads together.
        let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
        if let (Ok(mut here), Ok(there)) = (sched_getaffinity(None), sched_getaffinity(Some(getpid()))) {
            (0..CpuSet::MAX_CPU).filter(|&processor| there.is_set(processor)).for_each(|processor| here.set(processor));
            let _ = sched_setaffinity(None, &here);
        }
        let main = Priority::of_the_main_thread();
        if Priority::of_this_thread() < main {
            let Reverse(niceness) = main.niceness;
            let _ = setpriority_process(None, niceness);
        }
        let reached = Priority::of_this_thread();
        (reached < main).then_some(reached)
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    /// All threads count as equally urgent: this system's priorities are not known.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(in super::super) struct Priority;

    impl Priority {
        pub(in super::super) fn of_this_thread() -> Priority {
            Priority
        }
    }

    pub(in super::super) fn settle() -> Option<Priority> {
        None
    }
}
