//! Which paths become which.

/// The beginnings of paths that are replaced, and what by.
const MOVES: [(&[&str], &str); 8] = [
    (&["tokio", "time"], "hairspring"),
    // These re-export it.
    (&["actix", "clock"], "hairspring"),
    (&["actix_rt", "time"], "hairspring"),
    (&["actix_web", "rt", "time"], "hairspring"),
    (&["rocket", "tokio", "time"], "hairspring"),
    (&["tokio_util", "time"], "hairspring"),
    (&["tokio_util", "future", "FutureExt"], "hairspring::FutureExt"),
    // Tokio-stream's takes only tokio's `Interval`.
    (&["tokio_stream", "wrappers", "IntervalStream"], "hairspring::stream::IntervalStream"),
];

#[derive(Clone, Copy)]
pub(crate) struct Move {
    /// How many names are replaced.
    pub(crate) length: usize,
    pub(crate) to: &'static str,
    /// What to import it as, so that the rest of the program finds it under its old name.
    pub(crate) alias: Option<&'static str>,
}

/// What becomes of a path.
pub(crate) fn find(path: &[&str]) -> Option<Move> {
    let (from, to) = MOVES.iter().find(|(from, _)| path.starts_with(from))?;
    let name = *from.last()?;
    let keeps_name = to.ends_with(name);
    Some(Move { length: from.len(), to, alias: (!keeps_name).then_some(name) })
}

/// The crates that a path may be of.
pub(crate) fn crates() -> impl Iterator<Item = &'static str> {
    MOVES.iter().map(|(from, _)| from[0])
}

/// Whether there are paths that begin with this one and are replaced.
pub(crate) fn is_beginning(path: &[&str]) -> bool {
    !path.is_empty() && MOVES.iter().any(|(from, _)| from.len() > path.len() && from.starts_with(path))
}

/// Whether this is what a module `time` has if it is tokio's.
pub(crate) fn is_timer(name: &str) -> bool {
    let types = ["Instant", "Interval", "MissedTickBehavior", "Sleep", "Timeout"];
    let functions = ["interval", "interval_at", "sleep", "sleep_until", "timeout", "timeout_at"];
    types.contains(&name) || functions.contains(&name)
}

/// Whether the module at the end of a path may be tokio's under a name that is not known. The program's own modules are
/// rewritten where they import.
pub(crate) fn may_be_time(module: &[&str]) -> bool {
    let [first, .., "time"] = module else { return false };
    !["std", "core", "crate", "self", "super"].contains(first)
}

/// How the paths that are replaced look in comments and strings.
pub(crate) fn texts() -> impl Iterator<Item = String> {
    MOVES.iter().map(|(from, _)| from.join("::"))
}
