//! Rewrites the paths of a source file from `tokio::time`, and from the timers of tokio-util, to hairspring.
//!
//! It reads tokens, so it finds paths inside macros, and leaves strings, comments and formatting as they are. It does not
//! know what a name means: a path that begins with the name of a module or of a renamed crate is not found. It notes
//! those that look like timers.

mod edit;
mod imports;
mod moves;
mod tokens;
mod tree;

use std::fmt::{self, Display, Formatter};
use std::{error, mem};

use crate::edit::{Edit, apply};
use crate::moves::Move;
use crate::tokens::Tokens;

/// A source file with its paths rewritten.
#[derive(Debug)]
pub struct Rewritten {
    /// The new text.
    pub source: String,
    /// How many paths were replaced.
    pub paths: usize,
    /// What the user should look at, in the order of the lines.
    pub notes: Vec<Note>,
}

/// Something that the user should look at.
#[derive(Debug, PartialEq)]
pub struct Note {
    /// The line in the old text, from 1.
    pub line: usize,
    /// What is to be looked at, and why.
    pub text: String,
}

/// A text that is not Rust, as a bracket is not closed.
#[derive(Debug, PartialEq)]
pub struct NotRust {
    /// The line at which reading failed, from 1.
    pub line: usize,
}

impl Display for NotRust {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "not Rust from line {} on: a bracket, a quote or a comment has no counterpart", self.line)
    }
}

impl error::Error for NotRust {}

/// Rewrites the paths of a source file.
///
/// # Errors
/// If the text names one of the crates that it is about, and is not Rust.
pub fn rewrite(source: &str) -> Result<Rewritten, NotRust> {
    let is_named = moves::crates().any(|name| source.contains(name));
    // The lexer would leave it out of its count.
    let (mark, text) = source.split_at(if source.starts_with('\u{feff}') { 3 } else { 0 });
    let tokens = match Tokens::read(text) {
        Ok(tokens) => tokens,
        Err(error) if is_named => return Err(NotRust { line: error.span().start().line }),
        Err(_) => return Ok(Rewritten { source: source.to_owned(), paths: 0, notes: Vec::new() }),
    };
    let mut rewriter = Rewriter {
        source: text,
        tokens: &tokens,
        edits: Vec::new(),
        notes: Vec::new(),
        paths: 0,
        modules: Vec::new(),
        used: Vec::new(),
    };
    rewriter.run();
    let Rewriter { edits, mut notes, paths, .. } = rewriter;
    notes.sort_by_key(|note| note.line);
    Ok(Rewritten { source: mark.to_owned() + &apply(text, 0..text.len(), edits), paths, notes })
}

struct Rewriter<'a> {
    source: &'a str,
    tokens: &'a Tokens,
    edits: Vec<Edit>,
    notes: Vec<Note>,
    paths: usize,
    /// Imported modules that may be tokio's: the name of each in the program, its path, and where it is imported.
    modules: Vec<(&'a str, String, usize)>,
    /// The modules by whose names the program finds timers.
    used: Vec<&'a str>,
}

/// What may be before a path that begins with `::`.
const KEYWORDS: [&str; 12] =
    ["as", "break", "dyn", "else", "for", "if", "impl", "in", "match", "mut", "return", "while"];

impl<'a> Rewriter<'a> {
    fn run(&mut self) {
        let mut at = 0;
        while at < self.tokens.len() {
            // `use<..>` in a type is something else.
            at = match self.tokens.ident(at) {
                Some("use") if !self.tokens.is(at + 1, '<') => self.import(at),
                Some("extern") => self.extern_crate(at),
                Some(name) if !KEYWORDS.contains(&name) && !self.goes_on(at) => self.path(at),
                _ => at + 1,
            };
        }
        self.note_what_is_left();
    }

    /// Replaces the path that begins at a token, if it is one that has moved. Returns the token behind it.
    fn path(&mut self, start: usize) -> usize {
        let tokens = self.tokens;
        let mut segments = vec![start];
        let mut at = start + 1;
        while tokens.is_separator(at) && tokens.ident(at + 2).is_some() {
            segments.push(at + 2);
            at += 3;
        }
        let names: Vec<&str> = segments.iter().filter_map(|segment| tokens.ident(*segment)).collect();
        if let Some(found) = moves::find(&names) {
            let edits = self.replace(&segments, found);
            self.edits.extend(edits);
            self.paths += 1;
        } else {
            self.note_timer(tokens.range(start).start, &names);
        }
        at
    }

    /// Notes `extern crate tokio as other`. Returns a token behind `extern`.
    fn extern_crate(&mut self, start: usize) -> usize {
        if let (Some("crate"), Some(name), Some("as")) =
            (self.tokens.ident(start + 1), self.tokens.ident(start + 2), self.tokens.ident(start + 3))
        {
            self.note_other_name(self.tokens.range(start).start, &[name]);
        }
        start + 1
    }

    /// Puts the new path in place of the first names of an old one. What is between these, as comments, stays.
    fn replace(&self, segments: &[usize], found: Move) -> Vec<Edit> {
        let (first, last) = (segments[0], segments[found.length - 1]);
        let mut edits = vec![Edit::new(self.tokens.range(first), found.to)];
        edits.extend((first + 1..=last).map(|token| Edit::new(self.tokens.range(token), "")));
        edits
    }

    /// Whether the path in which a name is has begun before it, as in `crate::tokio`.
    fn goes_on(&self, name: usize) -> bool {
        if name < 3 || !self.tokens.is_separator(name - 2) {
            return false;
        }
        let before = name - 3;
        match self.tokens.ident(before) {
            Some(word) => !KEYWORDS.contains(&word),
            // Of generics, and not an arrow.
            None => {
                self.tokens.is(before, '>')
                    && !(before > 0 && (self.tokens.is(before - 1, '-') || self.tokens.is(before - 1, '=')))
            }
        }
    }

    fn note(&mut self, offset: usize, text: impl Into<String>) {
        let line = 1 + self.source[..offset].matches('\n').count();
        let note = Note { line, text: text.into() };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes a crate or a module whose paths are replaced, but not under the other name that it is given.
    fn note_other_name(&mut self, offset: usize, path: &[&str]) {
        if moves::is_beginning(path) {
            let path = path.join("::");
            self.note(offset, format!("`{path}` under another name: paths that begin with that are not found"));
        }
    }

    /// Notes a path that was not replaced if it leads to a timer: tokio's, perhaps, under a name that is not known.
    fn note_timer(&mut self, offset: usize, path: &[&'a str]) {
        let Some(timer) = path.iter().position(|name| moves::is_timer(name)) else { return };
        let module = &path[..timer];
        if let [name] = module {
            self.used.push(name);
        }
        if moves::may_be_time(module) {
            self.note_time(offset, &module.join("::"));
        }
    }

    fn note_time(&mut self, offset: usize, module: &str) {
        self.note(offset, format!("`{module}` is not known: if it is tokio's, replace it by `hairspring`"));
    }

    fn note_what_is_left(&mut self) {
        for (name, module, offset) in mem::take(&mut self.modules) {
            if self.used.contains(&name) {
                self.note_time(offset, &module);
            }
        }
        let by_token = (0..self.tokens.len())
            .find(|at| self.tokens.ident(*at).is_some_and(|name| name.starts_with("with_cancellation_token")));
        if let Some(at) = by_token.filter(|_| self.paths > 0) {
            self.note(self.tokens.range(at).start, "hairspring's `FutureExt` has this with the feature `tokio-util`");
        }
        // Comments, strings, and what could not be read.
        for text in moves::texts() {
            for (offset, _) in self.source.match_indices(&text) {
                if !self.edits.iter().any(|edit| edit.range.contains(&offset)) {
                    self.note(offset, format!("names `{text}`, in a comment or a string, say: left as it is"));
                }
            }
        }
    }
}
