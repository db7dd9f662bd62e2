//! The priority of the alarm thread. A thread inherits niceness and processors from the one that starts it, which may be
//! a background thread that happened to make the first timer. So the alarm thread copies the main thread's, once.

use std::num::NonZeroU64;

use rustix::process::{getpid, getpriority_process, setpriority_process};
use rustix::thread::{sched_getaffinity, sched_setaffinity, set_current_timer_slack};

/// Gives this thread the main thread's niceness and processors. What the system refuses stays as it was.
pub(super) fn copy_the_main_threads() {
    // Linux would add up to 50 us to each wait, to wake threads together.
    let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
    let main = Some(getpid());
    let _ = sched_getaffinity(main).and_then(|processors| sched_setaffinity(None, &processors));
    let _ = getpriority_process(main).and_then(|niceness| setpriority_process(None, niceness));
}
