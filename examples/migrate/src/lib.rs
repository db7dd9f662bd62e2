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
#[derive(Debug, Default)]
pub struct Rewritten {
    /// The new text.
    pub source: String,
    /// How many paths were replaced.
    pub paths: usize,
    /// Lines of the old text that need a look, counted from 1, each with the reason.
    pub notes: Vec<(usize, String)>,
    /// Whether it controls the clock, which needs the feature `test-util`.
    pub needs_test_util: bool,
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
        Err(_) => return Ok(Rewritten { source: source.to_owned(), ..Rewritten::default() }),
    };
    let mut rewriter = Rewriter { tokens: &tokens, edits: Vec::new(), names: Vec::new(), notes: Vec::new(), paths: 0 };
    let needs_test_util = rewriter.run();
    let Rewriter { edits, mut notes, paths, .. } = rewriter;
    notes.sort_by_key(|(line, _)| *line);
    Ok(Rewritten { source: mark.to_owned() + &apply(text, 0..text.len(), edits), paths, notes, needs_test_util })
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
    /// What imports bring in from hairspring.
    names: Vec<&'a str>,
    notes: Vec<(usize, String)>,
    paths: usize,
}

impl Rewriter<'_> {
    /// Returns whether the source controls the clock.
    fn run(&mut self) -> bool {
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
        if self.names.contains(&"FutureExt") {
            let methods = ["with_cancellation_token", "with_cancellation_token_owned"];
            self.note_call(&methods, "is in hairspring's `FutureExt` with the feature `tokio-util`");
        }
        self.note_types();
        let is_clock =
            |at| ["advance", "pause", "resume"].contains(&self.tokens.text(at)) && self.tokens.is(at + 1, "(");
        (0..self.tokens.len()).filter_map(|at| self.moved(at)).any(is_clock)
    }

    /// The tokens of the names in the path that begins at a token.
    fn segments(&self, start: usize) -> Vec<usize> {
        let is_segment = |at: &usize| *at == start || self.tokens.continues(at - 2) && self.tokens.ident(*at).is_some();
        (start..self.tokens.len()).step_by(3).take_while(is_segment).collect()
    }

    /// Rewrites the path that begins at a token, if it has a replacement. Returns the token after it.
    fn path(&mut self, start: usize) -> usize {
        let tokens = self.tokens;
        let segments = self.segments(start);
        let at = segments[segments.len() - 1] + 1;
        let mut names: Vec<&str> = segments.iter().map(|segment| tokens.text(*segment)).collect();
        // In a macro, `$tokio` may be anything.
        if start > 0 && tokens.is(start - 1, "$") {
            names[0] = &tokens.source[tokens.range(start - 1..start + 1)];
        }
        if let Some(found) = moves::find(&names) {
            self.edits.push(self.replaced(&segments, found));
            self.paths += 1;
        } else {
            self.note_timer(start, &names);
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

    fn note(&mut self, at: usize, text: impl Into<String>) {
        self.note_offset(self.tokens.range(at..at + 1).start, text);
    }

    /// Notes something about a line, unless it has a note.
    fn note_offset(&mut self, offset: usize, text: impl Into<String>) {
        let line = 1 + self.tokens.source[..offset].matches('\n').count();
        if !self.notes.iter().any(|(noted, _)| *noted == line) {
            self.notes.push((line, text.into()));
        }
    }

    /// Notes a path that stays, if it leads to a timer that may be tokio's under an unknown name.
    fn note_timer(&mut self, at: usize, path: &[&str]) {
        let module = path.split(moves::is_timer).next().unwrap_or_default();
        if module.len() < path.len() && moves::may_be_time(module) {
            self.note_unknown(at, module);
        }
    }

    fn note_unknown(&mut self, at: usize, module: &[&str]) {
        let module = module.join("::");
        self.note(at, format!("`{module}` is not known: if it is tokio's, write `tokio::time`, and run this again"));
    }

    /// Notes the first call of one of these methods.
    fn note_call(&mut self, methods: &[&str], text: &str) {
        let tokens = self.tokens;
        let mut calls = (1..tokens.len()).filter(|at| tokens.is(at - 1, ".") && tokens.is(at + 1, "("));
        if let Some(at) = calls.find(|at| methods.contains(&tokens.text(*at))) {
            self.note(at, format!("`{}` {text}", tokens.text(at)));
        }
    }

    /// The last name of the path that begins at a token, if it leads to hairspring.
    fn moved(&self, at: usize) -> Option<usize> {
        let tokens = self.tokens;
        let start = tokens.range(at..at + 1).start;
        let is_inner = at > 0 && ["$", ".", "fn"].contains(&tokens.text(at - 1)) || at > 1 && tokens.continues(at - 2);
        let is_imported = self.names.contains(&tokens.text(at)) && !is_inner;
        let is_moved = is_imported || self.edits.iter().any(|(edit, _)| edit.start == start);
        if is_moved { self.segments(at).pop() } else { None }
    }

    /// Notes types in the interface of the program.
    fn note_types(&mut self) {
        let tokens = self.tokens;
        for at in (0..tokens.len()).filter(|at| tokens.is(*at, "type")) {
            let names = (at + 2..tokens.len()).take_while(|at| !tokens.is(*at, ";"));
            let mut moved = names.filter_map(|at| self.moved(at)).map(|last| tokens.text(last));
            if moved.any(|name| !["Duration", "SystemTime"].contains(&name)) && self.is_public(at) {
                self.note(at, "a type that may be public: users of this crate see hairspring's from now on");
            }
        }
    }

    /// Whether other crates may see a `type`: it is `pub`, or a trait's, for a type that is not private in this file.
    fn is_public(&self, at: usize) -> bool {
        let texts: Vec<&str> = (0..self.tokens.len()).map(|at| self.tokens.text(at)).collect();
        let mut depth = 0;
        let is_around = |text: &&str| {
            depth += i32::from(*text == "{") - i32::from(*text == "}");
            depth > 0
        };
        let open = texts[..at].iter().rposition(is_around).unwrap_or(0);
        let head = texts[..open].rsplit(|text| ["{", "}", ";"].contains(text)).next().unwrap_or_default();
        let of = head.windows(2).find(|two| two[0] == "for" && head.contains(&"impl")).map_or("", |two| two[1]);
        let is_private = |it: &[&str]| it[0] != "pub" && ["enum", "struct"].contains(&it[1]) && it[2] == of;
        texts[..at].ends_with(&["pub"]) || !of.is_empty() && !texts.windows(3).any(is_private)
    }

    /// Notes names in comments, in strings, and in code that was not read.
    fn note_texts(&mut self) {
        let source = self.tokens.source;
        for text in moves::texts() {
            let crate_name = text.split(':').next().unwrap_or_default();
            for (offset, _) in source.match_indices(crate_name) {
                // Generated code has spaces around `::`.
                let found = source[offset..].chars().filter(|c| !c.is_whitespace()).take(text.len());
                if found.eq(text.chars()) && !self.edits.iter().any(|(range, _)| range.contains(&offset)) {
                    self.note_offset(
                        offset,
                        format!("names `{text}`, probably in a comment, in a string or with spaces: left as it is"),
                    );
                }
            }
        }
    }
}
