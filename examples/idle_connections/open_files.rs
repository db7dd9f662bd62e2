//! The limit on open files, which a process with thousands of connections meets first.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

use crate::options::Options;

/// Each connection takes a socket on either side, and both sides are in this process.
const PER_CONNECTION: u64 = 2;
/// For the listener and what libraries open.
const SPARE: u64 = 16;

/// Lowers the number of connections to what this process may open, and says so.
pub(crate) fn fit(options: Options) -> io::Result<Options> {
    let needed = options.connections * PER_CONNECTION + SPARE;
    let free = count_free(needed)?;
    if free == needed {
        return Ok(options);
    }
    let connections = free.saturating_sub(SPARE) / PER_CONNECTION;
    println!(
        "notice: {} connections take {needed} open files and this process may open {free} more.\n        \
         For all of them, run `ulimit -n {}` in the shell first. This run goes on with {connections}.",
        options.connections,
        needed + SPARE,
    );
    if connections == 0 {
        return Err(io::Error::other("no file is left to open for a single connection"));
    }
    Ok(Options { connections, ..options })
}

/// How many files can be opened, `enough` at most. Asking the system for its limit takes unsafe code; trying does not.
fn count_free(enough: u64) -> io::Result<u64> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut opened = Vec::new();
    for _ in 0..enough {
        let Ok(copy) = socket.try_clone() else { break };
        opened.push(copy);
    }
    Ok(u64::try_from(opened.len()).unwrap_or(enough))
}

/// What to do about `error`, where it is the limit on open files, met in spite of [`fit`].
pub(crate) fn advice_on(error: &io::Error) -> &'static str {
    // `ENFILE` and `EMFILE`, the same on every Unix. The standard library has no name for them.
    let is_limit = cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24));
    if is_limit { "\nRaise the limit with `ulimit -n 24000` in the shell, or lower `--connections`." } else { "" }
}
