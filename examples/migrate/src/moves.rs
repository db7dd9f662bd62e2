//! Which paths become which.

/// The beginnings of paths that are replaced, and what by.
const MOVES: [(&[&str], &str); 4] = [
    (&["tokio", "time"], "hairspring"),
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
pub(crate) fn is_of(name: &str) -> bool {
    MOVES.iter().any(|(from, _)| from[0] == name)
}

/// How the paths that are replaced look in comments and strings.
pub(crate) fn texts() -> impl Iterator<Item = String> {
    MOVES.iter().map(|(from, _)| from.join("::"))
}
