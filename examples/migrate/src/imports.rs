//! Imports. What is nested in the braces of another crate gets a `use` of its own.

use std::ops::Range;

use crate::edit::{Edit, apply};
use crate::moves::{self, Move};
use crate::tree::{End, Tree};
use crate::{Rewriter, tokens::Tokens};

impl<'a> Rewriter<'a> {
    /// Rewrites the import whose `use` is at a token. Returns the token behind it.
    pub(crate) fn import(&mut self, keyword: usize) -> usize {
        let tokens = self.tokens;
        let tree = Tree::read(tokens, keyword + 1).filter(|tree| tokens.is(tree.tokens.end, ';'));
        let Some(tree) = tree else { return keyword + 1 };
        let semicolon = tree.tokens.end;
        let before = self.paths;
        let mut moved = Vec::new();
        let is_empty = self.tree(&tree, &[], &mut moved);
        if self.paths > before {
            self.note_import(keyword, &tree);
        }
        if tokens.is_separator(tree.tokens.start) {
            for path in &mut moved {
                path.insert_str(0, "::");
            }
        }
        let mut moved = moved.into_iter();
        if is_empty {
            let all = self.source_range(&tree.tokens);
            self.edits.extend(moved.next().map(|first| Edit::new(all, first)));
        }
        let (head, line_break) = self.head(keyword);
        let behind = tokens.range(semicolon).end;
        self.edits.extend(moved.map(|path| Edit::insert(behind, format!("{line_break}{head}use {path};"))));
        semicolon + 1
    }

    /// Rewrites a tree within the path of those around it. What has moved, but not those around it, goes to `moved`.
    /// Returns whether that is the whole tree: whoever calls removes it.
    fn tree(&mut self, tree: &Tree, around: &[&'a str], moved: &mut Vec<String>) -> bool {
        let tokens = self.tokens;
        let mut path = around.to_vec();
        path.extend(tree.segments.iter().filter_map(|segment| tokens.ident(*segment)));
        if let Some(found) = moves::find(&path).filter(|found| found.length > around.len()) {
            self.paths += 1;
            let found = Move { length: found.length - around.len(), ..found };
            let edits = self.renamed(tree, found);
            if around.is_empty() {
                self.edits.extend(edits);
                return false;
            }
            moved.push(apply(self.source, self.source_range(&tree.tokens), edits));
            return true;
        }
        let End::Group(trees) = &tree.end else {
            self.note_left(tree, &path);
            return false;
        };
        let edits_before = self.edits.len();
        let go: Vec<&Tree> = trees.iter().filter(|inner| self.tree(inner, &path, moved)).collect();
        if !go.is_empty() && go.len() == trees.len() && !self.has_comment(&tree.tokens) {
            self.edits.truncate(edits_before);
            return true;
        }
        for gone in go {
            let edit = self.cut(&gone.tokens);
            self.edits.push(edit);
        }
        false
    }

    /// The edits that rename the beginning of a tree. A module keeps its name: `self` becomes `self as time`.
    fn renamed(&self, tree: &Tree, found: Move) -> Vec<Edit> {
        let mut edits = self.replace(&tree.segments, found);
        let Some(alias) = found.alias.filter(|_| tree.segments.len() == found.length) else { return edits };
        let mut is_now = |name: usize| edits.push(Edit::insert(self.tokens.range(name).end, format!(" as {alias}")));
        match &tree.end {
            End::Name => is_now(tree.segments[found.length - 1]),
            End::Group(inner) => {
                let selves = inner.iter().filter(|tree| tree.is_self(self.tokens));
                selves.for_each(|tree| is_now(tree.segments[0]));
            }
            End::Renamed | End::Glob => {}
        }
        edits
    }

    /// The edit that removes an item of a group: with its comma, and its line if it leaves that empty.
    fn cut(&self, item: &Range<usize>) -> Edit {
        let tokens = self.tokens;
        let has_comma = tokens.is(item.end, ',');
        let mut range = self.source_range(&(item.start..item.end + usize::from(has_comma)));
        let before = self.source[..range.start].trim_end().len();
        let after = &self.source[range.end..];
        let on_line = after.len() - after.trim_start_matches([' ', '\t']).len();
        let ends_line = after[on_line..].starts_with(['\n', '\r']);
        if ends_line && self.source[before..range.start].contains('\n') {
            range.start = before;
        } else if has_comma {
            range.end += on_line;
        } else if tokens.is(item.start - 1, ',') && tokens.range(item.start - 1).end == before {
            range.start = before - 1;
        }
        Edit::new(range, "")
    }

    /// What comes before a `use` and holds for it, to be written before another one; and what parts the two.
    fn head(&self, keyword: usize) -> (String, String) {
        let tokens = self.tokens;
        let mut start = keyword;
        if start > 0 && tokens.ident(start - 1) == Some("pub") {
            start -= 1;
        } else if let Some(open) = group_before(tokens, start, ')').filter(|open| tokens.ident(open - 1) == Some("pub"))
        {
            start = open - 1;
        }
        let visibility = &self.source[tokens.range(start).start..tokens.range(keyword).start];
        let mut attributes = Vec::new();
        while let Some(open) = group_before(tokens, start, ']').filter(|open| tokens.is(open - 1, '#')) {
            attributes.push(&self.source[tokens.range(open - 1).start..tokens.range(start - 1).end]);
            start = open - 1;
        }
        let begin = tokens.range(start).start;
        let line = self.source[..begin].rfind('\n').map_or(0, |end| end + 1);
        let indentation = &self.source[line..begin];
        let line_break = if indentation.trim().is_empty() {
            let end = if self.source.contains("\r\n") { "\r\n" } else { "\n" };
            format!("{end}{indentation}")
        } else {
            " ".to_owned()
        };
        // Doc comments are attributes, too. Once is enough for these.
        let mut parts: Vec<&str> = attributes.into_iter().rev().filter(|part| part.starts_with('#')).collect();
        parts.push(visibility);
        (parts.join(&line_break), line_break)
    }

    fn note_import(&mut self, keyword: usize, tree: &Tree) {
        let offset = self.tokens.range(keyword).start;
        if keyword > 0 && self.tokens.ident(keyword - 1) == Some("pub") {
            self.note(offset, "a public import: users of this crate see hairspring's types from now on");
        }
        if tree.tokens.clone().any(|token| self.tokens.is(token, '*')) {
            self.note(offset, "a glob: also imports what `tokio::time` does not have, as hairspring's `FutureExt`");
        }
    }

    /// Notes what was not replaced, as `use tokio as other`, `use tokio::*` and timers of other crates.
    fn note_left(&mut self, tree: &Tree, path: &[&'a str]) {
        let offset = self.source_range(&tree.tokens).start;
        let path = path.strip_suffix(&["self"]).unwrap_or(path);
        self.note_timer(offset, path);
        if !matches!(tree.end, End::Name) {
            self.note_other_name(offset, path);
        }
        if moves::may_be_time(path) {
            let module = path.join("::");
            match &tree.end {
                End::Glob => self.note_time(offset, &module),
                End::Renamed => {
                    let name = self.tokens.ident(tree.tokens.end - 1);
                    self.modules.extend(name.map(|name| (name, module, offset)));
                }
                End::Name | End::Group(_) => self.modules.push(("time", module, offset)),
            }
        }
    }

    fn source_range(&self, tokens: &Range<usize>) -> Range<usize> {
        self.tokens.range(tokens.start).start..self.tokens.range(tokens.end - 1).end
    }

    fn has_comment(&self, tokens: &Range<usize>) -> bool {
        let gap = |at: usize| self.tokens.range(at).end..self.tokens.range(at + 1).start;
        (tokens.start..tokens.end - 1).any(|at| !self.source[gap(at)].trim().is_empty())
    }
}

/// Where the group opens that ends before a token. Something is before it.
fn group_before(tokens: &Tokens, at: usize, close: char) -> Option<usize> {
    let closing = at.checked_sub(1).filter(|closing| tokens.is(*closing, close))?;
    tokens.opening(closing).filter(|open| *open > 0)
}
