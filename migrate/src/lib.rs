//! Rewrites the paths of a source file from `tokio::time`, and from the timers of tokio-util, to hairspring.
//!
//! It reads tokens, so it finds paths inside macros and keeps strings, comments and formatting. It does not resolve
//! names, so it misses paths that begin with a module. It notes those that look like timers.

mod imports;
mod moves;
mod needs;
mod notes;
mod public;
mod scopes;
mod tokens;
mod tree;

use std::collections::BTreeSet;
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
    /// Lines of the old text with a comment that names what was moved. Comments stay as they are.
    pub comments: Vec<usize>,
    /// What the new text needs outside of its tests.
    pub program: Needs,
    /// What its tests need: functions with `#[test]`, and what has `#[cfg(test)]`.
    pub tests: Needs,
    /// The names of modules in other files that have `#[cfg(test)]` here.
    pub test_modules: Vec<String>,
}

/// What sources need of hairspring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Whether they name the crate.
    pub dependency: bool,
    /// The features.
    pub features: BTreeSet<&'static str>,
}

/// What matters of the package that a source file belongs to.
#[derive(Clone, Debug, Default)]
pub struct Package {
    /// The dependencies that have another name in this package: that name, and the crate's, both with underscores.
    pub renamed: Vec<(String, String)>,
    /// Whether no other package sees its public items. They then need no note.
    pub is_private: bool,
}

/// Rewrites the paths of a source file.
///
/// # Errors
/// If the text is not Rust, and names a crate whose paths would be rewritten.
pub fn rewrite(source: &str, package: &Package) -> Result<Rewritten, String> {
    // The lexer does not count a byte order mark.
    let (mark, text) = source.split_at(if source.starts_with('\u{feff}') { 3 } else { 0 });
    let tokens = match Tokens::read(text) {
        Ok(tokens) => tokens,
        Err(error) if moves::concerns(text, package) => {
            let line = error.span().start().line;
            return Err(format!("not Rust from line {line} on: a bracket, a quote or a comment has no counterpart"));
        }
        Err(_) => return Ok(Rewritten { source: source.to_owned(), ..Rewritten::default() }),
    };
    let mut rewriter = Rewriter {
        tokens: &tokens,
        package,
        edits: Vec::new(),
        names: Vec::new(),
        imported: Vec::new(),
        uses: Vec::new(),
        result: Rewritten::default(),
    };
    rewriter.run();
    let Rewriter { edits, mut result, .. } = rewriter;
    result.notes.sort_by_key(|(line, _)| *line);
    result.comments.sort_unstable();
    result.comments.dedup();
    result.source = mark.to_owned() + &apply(text, 0..text.len(), edits);
    Ok(result)
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
    package: &'a Package,
    edits: Vec<Edit>,
    /// What imports bring in from hairspring.
    names: Vec<&'a str>,
    /// The tokens of what imports take from hairspring, whatever it is called here.
    imported: Vec<usize>,
    /// The tokens with which paths to hairspring begin, in code and in imports.
    uses: Vec<usize>,
    result: Rewritten,
}

impl<'a> Rewriter<'a> {
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
        self.note_call(&["num_alive_tasks"], "counts the timer's own task, too: it is not zero once there was a timer");
        self.note_macros();
        self.find_needs();
        if !self.package.is_private {
            self.note_public();
        }
    }

    /// The tokens of the names in the path that begins at a token.
    fn segments(&self, start: usize) -> Vec<usize> {
        let is_segment = |at: &usize| *at == start || self.tokens.continues(at - 2) && self.tokens.ident(*at).is_some();
        (start..self.tokens.len()).step_by(3).take_while(is_segment).collect()
    }

    /// The name of the crate with which a path begins, if the package gives it another.
    fn crate_name(&self, name: &'a str) -> &'a str {
        let renamed = self.package.renamed.iter().find(|(own, _)| own == name);
        renamed.map_or(name, |(_, name)| name)
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
        names[0] = self.crate_name(names[0]);
        if let Some(found) = moves::find(&names) {
            self.edits.push(self.replaced(&segments, found));
            self.result.paths += 1;
            self.uses.extend(found.to.starts_with(moves::HAIRSPRING).then_some(start));
        } else if names[0] == moves::HAIRSPRING && names.len() > 1 {
            self.uses.push(start);
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

    /// The last name of the path that begins at a token, if it leads to hairspring.
    fn moved(&self, at: usize) -> Option<usize> {
        let tokens = self.tokens;
        let is_inner = at > 0 && ["$", ".", "fn"].contains(&tokens.text(at - 1)) || at > 1 && tokens.continues(at - 2);
        let is_imported = self.names.contains(&tokens.text(at)) && !is_inner;
        if is_imported || self.uses.contains(&at) { self.segments(at).pop() } else { None }
    }
}
