//! The tokens of a source file, with groups flattened and without doc comments.

use std::ops::Range;

use proc_macro2::{LexError, TokenStream, TokenTree};

pub(crate) struct Tokens<'a> {
    pub(crate) source: &'a str,
    ranges: Vec<Range<usize>>,
}

impl<'a> Tokens<'a> {
    pub(crate) fn read(source: &'a str) -> Result<Self, LexError> {
        let mut tokens = Tokens { source, ranges: Vec::new() };
        tokens.flatten(source.parse()?);
        Ok(tokens)
    }

    fn flatten(&mut self, stream: TokenStream) {
        for tree in stream {
            let range = tree.span().byte_range();
            // A doc comment is an attribute to the lexer.
            let is_comment = ["//", "/*"].iter().any(|start| self.source[range.clone()].starts_with(start));
            match tree {
                _ if is_comment => {}
                TokenTree::Group(group) => {
                    self.ranges.push(group.span_open().byte_range());
                    self.flatten(group.stream());
                    self.ranges.push(group.span_close().byte_range());
                }
                _ => self.ranges.push(range),
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Where some tokens are in the source, in bytes.
    pub(crate) fn range(&self, tokens: Range<usize>) -> Range<usize> {
        self.ranges[tokens.start].start..self.ranges[tokens.end - 1].end
    }

    /// A token. Empty after the last.
    pub(crate) fn text(&self, at: usize) -> &'a str {
        self.ranges.get(at).map_or("", |range| &self.source[range.clone()])
    }

    pub(crate) fn is(&self, at: usize, text: &str) -> bool {
        self.text(at) == text
    }

    pub(crate) fn ident(&self, at: usize) -> Option<&'a str> {
        let text = self.text(at);
        let name = text.strip_prefix("r#").unwrap_or(text);
        let is_ident = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        is_ident.then_some(text)
    }

    /// Whether `::` is here.
    pub(crate) fn is_separator(&self, at: usize) -> bool {
        self.is(at, ":") && self.is(at + 1, ":")
    }

    /// Whether `::` is here and continues the token before it. In `return ::tokio` it begins a path.
    pub(crate) fn continues(&self, at: usize) -> bool {
        let continues = |before: &Range<usize>| {
            before.end == self.ranges[at].start
                && self.source[before.clone()].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '>')
        };
        self.is_separator(at) && at.checked_sub(1).is_some_and(|before| continues(&self.ranges[before]))
    }

    /// The brace around a token, if there is one.
    pub(crate) fn opening(&self, token: usize) -> Option<usize> {
        let mut depth = 0;
        let is_around = |at: &usize| {
            depth += i32::from(self.is(*at, "{")) - i32::from(self.is(*at, "}"));
            depth > 0
        };
        (0..token).rev().find(is_around)
    }

    /// The bracket that closes the one at a token, or the last token.
    pub(crate) fn closing(&self, open: usize) -> usize {
        let mut depth = 0;
        let closes = |at: &usize| {
            depth += i32::from(["(", "[", "{"].contains(&self.text(*at)));
            depth -= i32::from([")", "]", "}"].contains(&self.text(*at)));
            depth == 0
        };
        (open..self.len()).find(closes).unwrap_or(self.len() - 1)
    }

    /// Whether a byte of the source is part of a token, and not of a comment.
    pub(crate) fn has(&self, offset: usize) -> bool {
        let after = self.ranges.partition_point(|range| range.end <= offset);
        self.ranges.get(after).is_some_and(|range| range.contains(&offset))
    }
}
