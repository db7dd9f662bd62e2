//! Notes: what a user should look at.

use std::ops::Range;

use crate::{Rewriter, moves};

impl Rewriter<'_> {
    pub(crate) fn note(&mut self, at: usize, text: impl Into<String>) {
        self.note_offset(self.tokens.range(at..at + 1).start, text);
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.tokens.source[..offset].matches('\n').count()
    }

    /// Notes something about a line, unless it has a note.
    fn note_offset(&mut self, offset: usize, text: impl Into<String>) {
        let line = self.line(offset);
        if !self.result.notes.iter().any(|(noted, _)| *noted == line) {
            self.result.notes.push((line, text.into()));
        }
    }

    /// Notes a path that stays, if it leads to a timer that may be tokio's under an unknown name.
    pub(crate) fn note_timer(&mut self, at: usize, path: &[&str]) {
        let module = path.split(moves::is_timer).next().unwrap_or_default();
        if module.len() < path.len() && moves::may_be_time(module) {
            self.note_unknown(at, module);
        }
    }

    pub(crate) fn note_unknown(&mut self, at: usize, module: &[&str]) {
        let module = module.join("::");
        self.note(at, format!("`{module}` is not known: if it is tokio's, write `tokio::time`, and run this again"));
    }

    /// Notes the first call of one of these methods.
    pub(crate) fn note_call(&mut self, methods: &[&str], text: &str) {
        let first = self.calls(methods).next();
        if let Some(at) = first {
            self.note(at, format!("`{}` {text}", self.tokens.text(at)));
        }
    }

    /// The calls of these methods.
    pub(crate) fn calls<'b>(&'b self, methods: &'b [&str]) -> impl Iterator<Item = usize> + 'b {
        let tokens = self.tokens;
        let calls = (1..tokens.len()).filter(|at| tokens.is(at - 1, ".") && tokens.is(at + 1, "("));
        calls.filter(|at| methods.contains(&tokens.text(*at)))
    }

    /// Notes macros that bring paths to hairspring into other crates: exported ones, and what procedural ones quote.
    pub(crate) fn note_macros(&mut self) {
        let tokens = self.tokens;
        for export in (0..tokens.len()).filter(|at| tokens.is(*at, "macro_export")) {
            let Some(at) = (export..tokens.len()).find(|at| tokens.is(*at, "macro_rules")) else { continue };
            let body = at + 3..tokens.closing(at + 3);
            if !self.package.is_private && self.uses.iter().any(|used| body.contains(used)) {
                self.note(
                    at,
                    "an exported macro: crates that use it need hairspring, or re-export it and use `$crate`",
                );
            }
        }
        for quoted in self.quoted() {
            if let Some(used) = self.uses.iter().find(|used| quoted.contains(used)) {
                self.note(*used, "code that a macro makes: the crates that it goes into need hairspring");
            }
        }
    }

    /// What the source writes into other sources.
    pub(crate) fn quoted(&self) -> Vec<Range<usize>> {
        let tokens = self.tokens;
        let is_quote = |at: &usize| ["parse_quote", "quote", "quote_spanned"].contains(&tokens.text(*at));
        let quotes = (0..tokens.len()).filter(|at| is_quote(at) && tokens.is(at + 1, "!"));
        quotes.map(|at| at + 2..tokens.closing(at + 2)).collect()
    }

    /// Notes names in strings and in code that was not read, and finds the comments that have some.
    pub(crate) fn note_texts(&mut self) {
        let source = self.tokens.source;
        for text in moves::texts() {
            let crate_name = text.split(':').next().unwrap_or_default();
            for (offset, _) in source.match_indices(crate_name) {
                // Generated code has spaces around `::`.
                let found = source[offset..].chars().filter(|c| !c.is_whitespace()).take(text.len());
                if !found.eq(text.chars()) || self.edits.iter().any(|(range, _)| range.contains(&offset)) {
                    continue;
                }
                if self.tokens.has(offset) {
                    let text = format!("names `{text}`, probably in a string or with spaces: left as it is");
                    self.note_offset(offset, text);
                } else {
                    self.result.comments.push(self.line(offset));
                }
            }
        }
    }
}
