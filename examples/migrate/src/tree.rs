//! What a `use` imports, as it is nested in the source.

use std::ops::Range;

use crate::tokens::Tokens;

/// A path and what it ends in, as `time::{self, Duration}`.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The tokens of the names before what it ends in.
    pub(crate) segments: Vec<usize>,
    pub(crate) end: End,
    /// All its tokens.
    pub(crate) tokens: Range<usize>,
}

#[derive(Debug)]
pub(crate) enum End {
    Name,
    Renamed,
    Glob,
    Group(Vec<Tree>),
}

impl Tree {
    /// Reads the tree that begins at a token. `None` if that is not one, as in a macro with `$name` in it.
    pub(crate) fn read(tokens: &Tokens, start: usize) -> Option<Tree> {
        let mut segments = Vec::new();
        let mut at = if tokens.is_separator(start) { start + 2 } else { start };
        loop {
            if tokens.is(at, '*') {
                return Some(Tree { segments, end: End::Glob, tokens: start..at + 1 });
            }
            if tokens.is(at, '{') {
                let (trees, end) = read_group(tokens, at)?;
                return Some(Tree { segments, end: End::Group(trees), tokens: start..end });
            }
            tokens.ident(at)?;
            segments.push(at);
            at += 1;
            if tokens.ident(at) == Some("as") {
                tokens.ident(at + 1)?;
                return Some(Tree { segments, end: End::Renamed, tokens: start..at + 2 });
            }
            if !tokens.is_separator(at) {
                return Some(Tree { segments, end: End::Name, tokens: start..at });
            }
            at += 2;
        }
    }

    /// Whether this is `self` without another name, in braces.
    pub(crate) fn is_self(&self, tokens: &Tokens) -> bool {
        matches!(self.end, End::Name) && self.segments.len() == 1 && tokens.ident(self.segments[0]) == Some("self")
    }
}

/// The trees between a brace and the one that closes it, and the token behind that.
fn read_group(tokens: &Tokens, open: usize) -> Option<(Vec<Tree>, usize)> {
    let mut trees = Vec::new();
    let mut at = open + 1;
    while !tokens.is(at, '}') {
        let tree = Tree::read(tokens, at)?;
        at = tree.tokens.end;
        trees.push(tree);
        if tokens.is(at, ',') {
            at += 1;
        } else if !tokens.is(at, '}') {
            return None;
        }
    }
    Some((trees, at + 1))
}
