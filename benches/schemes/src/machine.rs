//! What the measurement was made on, for the record.

use std::process::Command;
use std::{fs, thread};

/// One line: processor, cores, kernel, compiler. What cannot be found out is said to be unknown.
pub(crate) fn describe() -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| format!("Linux {}", text.trim()));
    let compiler = Command::new("rustc").arg("--version").output().ok();
    let compiler = compiler.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let unknown = |what: Option<String>, name| what.unwrap_or_else(|| format!("unknown {name}"));
    format!(
        "{}, {} cores, {}, {}",
        unknown(processor, "processor"),
        thread::available_parallelism().map_or(0, usize::from),
        unknown(kernel, "kernel"),
        unknown(compiler, "compiler")
    )
}
