//! The priority and the CPUs of this crate's threads, on Linux.

#[cfg(target_os = "linux")]
use rustix::{process, thread as system};

/// Gives this thread the main thread's niceness, and all CPUs on which a thread of the process may run. Otherwise it would
/// inherit those of its creator, possibly a background thread, or one that is pinned to a CPU.
pub(crate) fn copy_the_main_threads_priority() {
    #[cfg(target_os = "linux")]
    {
        // By default Linux adds up to 50 us to each wait, to wake threads together.
        let _ = system::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
        let main = Some(process::getpid());
        let _ = system::sched_setaffinity(None, &the_processs_cpus());
        let _ = process::getpriority_process(main).and_then(|niceness| process::setpriority_process(None, niceness));
    }
}

/// The CPUs on which some thread of the process may run. A program may pin each thread, the main one included, to one.
#[cfg(target_os = "linux")]
fn the_processs_cpus() -> system::CpuSet {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let number = |name: std::ffi::OsString| name.to_str()?.parse().ok().and_then(process::Pid::from_raw);
    let threads = threads.filter_map(|thread| number(thread.file_name())).chain([process::getpid()]);
    let mut all = system::CpuSet::new();
    for cpus in threads.filter_map(|thread| system::sched_getaffinity(Some(thread)).ok()) {
        (0..system::CpuSet::MAX_CPU).filter(|&cpu| cpus.is_set(cpu)).for_each(|cpu| all.set(cpu));
    }
    all
}
