//! The tree of paths in a `use`.

use std::ops::Range;

use crate::tokens::Tokens;

/// A path such as `time::{self, Duration}`.
pub(crate) struct Tree {
    /// The tokens of the names before its end.
    pub(crate) segments: Vec<usize>,
    pub(crate) end: End,
    /// All its tokens.
    pub(crate) tokens: Range<usize>,
}

pub(crate) enum End {
    Name,
    Renamed,
    Glob,
    Group(Vec<Tree>),
}

impl Tree {
    /// Reads the tree that begins at a token. `None` if there is none, as with `$name` in a macro.
    pub(crate) fn read(tokens: &Tokens, start: usize) -> Option<Tree> {
        let mut segments = Vec::new();
        let mut at = if tokens.is_separator(start) { start + 2 } else { start };
        let (end, behind) = loop {
            if tokens.is(at, "*") {
                break (End::Glob, at + 1);
            }
            if tokens.is(at, "{") {
                break read_group(tokens, at)?;
            }
            tokens.ident(at)?;
            segments.push(at);
            at += 1;
            if tokens.is(at, "as") {
                break (End::Renamed, at + 2);
            }
            if !tokens.is_separator(at) {
                break (End::Name, at);
            }
            at += 2;
        };
        Some(Tree { segments, end, tokens: start..behind })
    }

    /// The names that it brings in, without those of globs and of modules named by `self`.
    pub(crate) fn names<'a>(&self, tokens: &Tokens<'a>) -> Vec<&'a str> {
        match &self.end {
            End::Name => self.segments.last().map(|last| tokens.text(*last)).into_iter().collect(),
            End::Renamed => vec![tokens.text(self.tokens.end - 1)],
            End::Glob => Vec::new(),
            End::Group(trees) => trees.iter().flat_map(|tree| tree.names(tokens)).collect(),
        }
    }
}

/// The trees in braces, and the token after the closing one.
fn read_group(tokens: &Tokens, open: usize) -> Option<(End, usize)> {
    let mut trees = Vec::new();
    let mut at = open + 1;
    while !tokens.is(at, "}") {
        let tree = Tree::read(tokens, at)?;
        at = tree.tokens.end + usize::from(tokens.is(tree.tokens.end, ","));
        trees.push(tree);
    }
    Some((End::Group(trees), at + 1))
}
