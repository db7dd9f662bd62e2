//! Changes to a text: everything else in it stays as it is, to the byte.

use std::ops::Range;

/// In place of a range of a source comes a text.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
}

impl Edit {
    pub(crate) fn new(range: Range<usize>, text: impl Into<String>) -> Edit {
        Edit { range, text: text.into() }
    }

    pub(crate) fn insert(at: usize, text: impl Into<String>) -> Edit {
        Edit::new(at..at, text)
    }
}

/// A part of a source with the edits made. None of them overlap.
pub(crate) fn apply(source: &str, part: Range<usize>, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut result = String::new();
    let mut at = part.start;
    for Edit { range, text } in edits {
        result += &source[at..range.start];
        result += &text;
        at = range.end;
    }
    result + &source[at..part.end]
}
