//! Rewrites the paths of a source file from `tokio::time`, and from the timers of tokio-util, to hairspring.
//!
//! It reads tokens, so it finds paths inside macros and keeps strings, comments and formatting. It does not resolve
//! names, so it misses paths that begin with a module or a renamed crate. It notes those that look like timers.

mod imports;
mod moves;
mod tokens;
mod tree;

use std::ops::Range;

use crate::moves::Move;
use crate::tokens::Tokens;

/// A source file with its paths rewritten.
#[derive(Debug)]
pub struct Rewritten {
    /// The new text.
    pub source: String,
    /// How many paths were replaced.
    pub paths: usize,
    /// Lines of the old text that need a look, counted from 1, each with the reason.
    pub notes: Vec<(usize, String)>,
}

/// Rewrites the paths of a source file.
///
/// # Errors
/// If the text is not Rust, and names a crate whose paths would be rewritten.
pub fn rewrite(source: &str) -> Result<Rewritten, String> {
    // The lexer does not count a byte order mark.
    let (mark, text) = source.split_at(if source.starts_with('\u{feff}') { 3 } else { 0 });
    let tokens = match Tokens::read(text) {
        Ok(tokens) => tokens,
        Err(error) if moves::concerns(text) => {
            let line = error.span().start().line;
            return Err(format!("not Rust from line {line} on: a bracket, a quote or a comment has no counterpart"));
        }
        Err(_) => return Ok(Rewritten { source: source.to_owned(), paths: 0, notes: Vec::new() }),
    };
    let mut rewriter = Rewriter { tokens: &tokens, edits: Vec::new(), notes: Vec::new(), paths: 0 };
    rewriter.run();
    let Rewriter { edits, mut notes, paths, .. } = rewriter;
    notes.sort_by_key(|(line, _)| *line);
    Ok(Rewritten { source: mark.to_owned() + &apply(text, 0..text.len(), edits), paths, notes })
}

/// A range of the source, and its replacement.
type Edit = (Range<usize>, String);

/// Makes the edits in a part of a source. They do not overlap.
fn apply(source: &str, part: Range<usize>, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut text = source[part.clone()].to_owned();
    for (range, replacement) in edits.into_iter().rev() {
        text.replace_range(range.start - part.start..range.end - part.start, &replacement);
    }
    text
}

struct Rewriter<'a> {
    tokens: &'a Tokens<'a>,
    edits: Vec<Edit>,
    notes: Vec<(usize, String)>,
    paths: usize,
}

impl Rewriter<'_> {
    fn run(&mut self) {
        let mut at = 0;
        while at < self.tokens.len() {
            at = match self.tokens.ident(at) {
                // `use<..>` in a type is something else.
                Some("use") if !self.tokens.is(at + 1, "<") => self.import(at),
                Some("crate") if at > 0 && self.tokens.is(at - 1, "extern") => self.import(at),
                Some(_) if at < 2 || !self.tokens.continues(at - 2) => self.path(at),
                _ => at + 1,
            };
        }
        self.note_texts();
        self.note_test_clock();
    }

    /// Rewrites the path that begins at a token, if it has a replacement. Returns the token after it.
    fn path(&mut self, start: usize) -> usize {
        let tokens = self.tokens;
        let mut segments = vec![start];
        let mut at = start + 1;
        while tokens.continues(at) && tokens.ident(at + 2).is_some() {
            segments.push(at + 2);
            at += 3;
        }
        let mut names: Vec<&str> = segments.iter().map(|segment| tokens.text(*segment)).collect();
        // In a macro, `$tokio` may be anything.
        if start > 0 && tokens.is(start - 1, "$") {
            names[0] = &tokens.source[tokens.range(start - 1..start + 1)];
        }
        if let Some(found) = moves::find(&names) {
            self.edits.push(self.replaced(&segments, found));
            self.paths += 1;
        } else {
            self.note_timer(tokens.range(start..at).start, &names);
        }
        at
    }

    /// Replaces the first names of a path. Comments between them stay.
    fn replaced(&self, segments: &[usize], found: Move) -> Edit {
        let (tokens, first, last) = (self.tokens, segments[0], segments[found.length - 1]);
        let gap = |at| &tokens.source[tokens.range(at..at + 1).end..tokens.range(at + 1..at + 2).start];
        let comments: String = (first..last).map(gap).filter(|gap| gap.contains('/')).collect();
        (tokens.range(first..last + 1), found.to.to_owned() + &comments)
    }

    fn note(&mut self, offset: usize, text: impl Into<String>) {
        let line = 1 + self.tokens.source[..offset].matches('\n').count();
        let note = (line, text.into());
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes a path that stays, if it leads to a timer that may be tokio's under an unknown name.
    fn note_timer(&mut self, offset: usize, path: &[&str]) {
        let module = path.split(moves::is_timer).next().unwrap_or_default();
        if module.len() < path.len() && moves::may_be_time(module) {
            self.note_unknown(offset, module);
        }
    }

    fn note_unknown(&mut self, offset: usize, module: &[&str]) {
        let module = module.join("::");
        self.note(offset, format!("`{module}` is not known: if it is tokio's, replace it by `hairspring`"));
    }

    /// Notes the first call that controls the clock.
    fn note_test_clock(&mut self) {
        let tokens = self.tokens;
        let is_call = |at: &usize| {
            let is_other = *at > 0 && (tokens.is(at - 1, ".") || tokens.is(at - 1, "fn"));
            matches!(tokens.text(*at), "pause" | "resume" | "advance") && tokens.is(at + 1, "(") && !is_other
        };
        if let Some(at) = (0..tokens.len()).find(is_call).filter(|_| self.paths > 0) {
            let needs = "needs hairspring's feature `test-util`, in `[dev-dependencies]`";
            self.note(tokens.range(at..at + 1).start, format!("`{}` {needs}", tokens.text(at)));
        }
    }

    /// Notes the first call that may be to a timer of tokio-stream's `StreamExt`, which stays for its other methods.
    fn note_stream_timer(&mut self) {
        let tokens = self.tokens;
        let is_call = |at: &usize| {
            let is_timer = ["chunks_timeout", "throttle", "timeout", "timeout_repeating"].contains(&tokens.text(*at));
            is_timer && tokens.is(at - 1, ".") && tokens.is(at + 1, "(")
        };
        if let Some(at) = (1..tokens.len()).find(is_call) {
            let needs = "is tokio's timer if it is from `tokio_stream::StreamExt`: `hairspring::StreamExt` has it too";
            self.note(tokens.range(at..at + 1).start, format!("`{}` {needs}", tokens.text(at)));
        }
    }

    /// Notes names in comments, in strings, and in code that was not read.
    fn note_texts(&mut self) {
        let source = self.tokens.source;
        if let Some(method) = source.find("with_cancellation_token").filter(|_| self.paths > 0) {
            self.note(method, "hairspring's `FutureExt` has this with the feature `tokio-util`");
        }
        for text in moves::texts() {
            let crate_name = text.split(':').next().unwrap_or_default();
            for (offset, _) in source.match_indices(crate_name) {
                // Generated code has spaces around `::`.
                let found = source[offset..].chars().filter(|c| !c.is_whitespace()).take(text.len());
                if found.eq(text.chars()) && !self.edits.iter().any(|(range, _)| range.contains(&offset)) {
                    self.note(
                        offset,
                        format!("names `{text}`, probably in a comment, in a string or with spaces: left as it is"),
                    );
                }
            }
        }
    }
}
