//! The paths that are replaced.

use crate::Package;

pub(crate) const HAIRSPRING: &str = "hairspring";

/// The beginning of each path, and its replacement.
const MOVES: [(&[&str], &str); 10] = [
    (&["tokio", "time"], "hairspring"),
    // These re-export it.
    (&["actix", "clock"], "hairspring"),
    (&["actix_rt", "time"], "hairspring"),
    (&["actix_web", "rt", "time"], "hairspring"),
    (&["rocket", "tokio", "time"], "hairspring"),
    // This re-exports it together with `std`'s `SystemTime`.
    (&["n0_future", "time", "SystemTime"], "std::time::SystemTime"),
    (&["n0_future", "time"], "hairspring"),
    (&["tokio_util", "time"], "hairspring"),
    (&["tokio_util", "future", "FutureExt"], "hairspring::FutureExt"),
    // tokio-stream's takes only tokio's `Interval`.
    (&["tokio_stream", "wrappers", "IntervalStream"], "hairspring::stream::IntervalStream"),
];

#[derive(Clone, Copy)]
pub(crate) struct Move {
    /// The number of names that are replaced.
    pub(crate) length: usize,
    pub(crate) to: &'static str,
    /// The name under which to import it, because the rest of the program uses that.
    pub(crate) alias: Option<&'static str>,
}

/// The replacement for a path.
pub(crate) fn find(path: &[&str]) -> Option<Move> {
    let (from, to) = MOVES.iter().find(|(from, _)| path.starts_with(from))?;
    Some(Move { length: from.len(), to, alias: from.last().copied().filter(|name| !to.ends_with(name)) })
}

/// Whether a source names a crate with paths that are replaced.
pub(crate) fn concerns(source: &str, package: &Package) -> bool {
    let is_renamed =
        |(own, name): &(String, String)| source.contains(own) && MOVES.iter().any(|(from, _)| from[0] == name);
    MOVES.iter().any(|(from, _)| source.contains(from[0])) || package.renamed.iter().any(is_renamed)
}

/// Whether some paths that begin with this one are replaced.
pub(crate) fn is_beginning(path: &[&str]) -> bool {
    !path.is_empty() && MOVES.iter().any(|(from, _)| from.len() > path.len() && from.starts_with(path))
}

/// What tokio's module `time` has besides `Duration`, `error` and the control of the clock.
pub(crate) const TIMERS: &str = "Instant, Interval, MissedTickBehavior, Sleep, Timeout, \
                                 interval, interval_at, sleep, sleep_until, timeout, timeout_at";

/// Whether a name of the module is a type's or a module's, which hides no function.
pub(crate) fn is_type(name: &str) -> bool {
    name == "error" || name.starts_with(char::is_uppercase)
}

pub(crate) fn is_timer(name: &&str) -> bool {
    TIMERS.split(", ").any(|timer| timer == *name)
}

/// Whether a module may be tokio's, re-exported. The program's own modules are rewritten where they import.
pub(crate) fn may_be_time(module: &[&str]) -> bool {
    let own = ["std", "core", "crate", "$crate", "self", "super"];
    let others = ["compio", "monoio", "nix", "ntex", "time", "tracing_subscriber"];
    matches!(module, [first, .., "time"] if !own.contains(first) && !others.contains(first))
}

/// The paths that are replaced, as they look in comments and strings.
pub(crate) fn texts() -> impl Iterator<Item = String> {
    MOVES.iter().map(|(from, _)| from.join("::"))
}
