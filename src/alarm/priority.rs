//! How urgent the alarm thread is. A thread inherits niceness and processors from the one that starts it, which may be a
//! background thread that happened to make the first timer.
//!
//! Must not know: what the thread does.

#[cfg(target_os = "linux")]
pub(super) use linux::{Priority, settle};
#[cfg(not(target_os = "linux"))]
pub(super) use other::{Priority, settle};

#[cfg(target_os = "linux")]
mod linux {
    use std::cmp::Reverse;
    use std::num::NonZeroU64;

    use rustix::process::{getpid, getpriority_process, setpriority_process};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};

    /// By its niceness; the greater is the more urgent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(in super::super) struct Priority(Reverse<i32>);

    impl Priority {
        pub(in super::super) fn of_this_thread() -> Priority {
            Priority::of(None)
        }

        fn of(thread: Option<rustix::process::Pid>) -> Priority {
            Priority(Reverse(getpriority_process(thread).unwrap_or(0)))
        }
    }

    /// Makes this thread as urgent as the main thread, if it is less, and allows it the main thread's processors, too.
    /// Whatever the system refuses stays as it was. Returns the priority reached.
    pub(in super::super) fn settle() -> Priority {
        // Linux would add up to 50 us to each wait, to wake threads together.
        let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
        let main = Some(getpid());
        if let (Ok(mut here), Ok(there)) = (sched_getaffinity(None), sched_getaffinity(main)) {
            (0..CpuSet::MAX_CPU).filter(|&processor| there.is_set(processor)).for_each(|processor| here.set(processor));
            let _ = sched_setaffinity(None, &here);
        }
        let Reverse(niceness) = Priority::of(main).0;
        if Priority::of(main) > Priority::of_this_thread() {
            let _ = setpriority_process(None, niceness);
        }
        Priority::of_this_thread()
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    /// The system's own are not known here, and all threads count as equally urgent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(in super::super) struct Priority;

    impl Priority {
        pub(in super::super) fn of_this_thread() -> Priority {
            Priority
        }
    }

    pub(in super::super) fn settle() -> Priority {
        Priority
    }
}
