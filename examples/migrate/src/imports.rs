//! Imports. An item in the braces of another crate gets its own `use`.

use std::ops::Range;

use crate::moves::{self, Move};
use crate::tree::{End, Tree};
use crate::{Edit, Rewriter, apply};

impl<'a> Rewriter<'a> {
    /// Rewrites the import whose `use`, or the `crate` of `extern crate`, is at a token. Returns the token after it.
    pub(crate) fn import(&mut self, keyword: usize) -> usize {
        let tokens = self.tokens;
        let tree = Tree::read(tokens, keyword + 1).filter(|tree| tokens.is(tree.tokens.end, ";"));
        let Some(tree) = tree else { return keyword + 1 };
        let before = self.paths;
        let mut moved = Vec::new();
        let is_gone = self.tree(&tree, &[], &mut moved);
        if self.paths > before {
            let offset = tokens.range(keyword..keyword + 1).start;
            if keyword > 0 && tokens.is(keyword - 1, "pub") {
                self.note(offset, "a public import: users of this crate see hairspring's types from now on");
            }
            if tree.tokens.clone().any(|at| tokens.is(at, "*")) {
                self.note(offset, "a glob: also imports names that `tokio::time` lacks, such as `FutureExt`");
            }
        }
        let root = if tokens.is_separator(keyword + 1) { "::" } else { "" };
        let mut moved = moved.into_iter().map(|path| format!("{root}{path}"));
        if is_gone {
            self.edits.extend(moved.next().map(|first| (tokens.range(tree.tokens.clone()), first)));
        }
        if let Some(head) = self.head(keyword) {
            let behind = tokens.range(tree.tokens.end..tree.tokens.end + 1).end;
            self.edits.extend(moved.map(|path| (behind..behind, format!("\n{head} {path};"))));
        } else if moved.len() > 0 {
            let Range { start, end } = tokens.range(tree.tokens.clone());
            self.edits.push((start..start, "{".to_owned()));
            self.edits.extend(moved.map(|path| (end..end, format!(", {path}"))));
            self.edits.push((end..end, "}".to_owned()));
        }
        tree.tokens.end + 1
    }

    /// Rewrites a tree within the path `around` it. Puts items that leave that path into `moved`. Returns whether
    /// nothing is left of the tree, so the caller has to remove it.
    fn tree(&mut self, tree: &Tree, around: &[&'a str], moved: &mut Vec<String>) -> bool {
        let tokens = self.tokens;
        let mut path = around.to_vec();
        path.extend(tree.segments.iter().map(|segment| tokens.text(*segment)));
        if let Some(found) = moves::find(&path) {
            self.paths += 1;
            let edits = self.renamed(tree, Move { length: found.length - around.len(), ..found });
            if around.is_empty() {
                self.edits.extend(edits);
                return false;
            }
            moved.push(apply(tokens.source, tokens.range(tree.tokens.clone()), edits));
            return true;
        }
        let End::Group(trees) = &tree.end else {
            self.note_left(tree, &path);
            return false;
        };
        let edits_before = self.edits.len();
        let gone: Vec<&Tree> = trees.iter().filter(|inner| self.tree(inner, &path, moved)).collect();
        let text = &tokens.source[tokens.range(tree.tokens.clone())];
        if !gone.is_empty() && gone.len() == trees.len() && !text.contains("//") && !text.contains("/*") {
            self.edits.truncate(edits_before);
            return true;
        }
        let cuts = gone.into_iter().flat_map(|tree| self.cut(&tree.tokens));
        self.edits.extend(cuts.collect::<Vec<_>>());
        false
    }

    /// The edits that rename the beginning of a tree. A module keeps its name: `self` becomes `self as time`.
    fn renamed(&self, tree: &Tree, found: Move) -> Vec<Edit> {
        let mut edits = vec![self.replaced(&tree.segments, found)];
        let Some(alias) = found.alias.filter(|_| tree.segments.len() == found.length) else { return edits };
        match &tree.end {
            End::Name => edits[0].1.extend([" as ", alias]),
            End::Group(inner) => {
                let is_self = |tree: &&Tree| matches!(tree.end, End::Name) && self.tokens.is(tree.tokens.start, "self");
                edits.extend(inner.iter().filter(is_self).map(|tree| {
                    let end = self.tokens.range(tree.tokens.clone()).end;
                    (end..end, format!(" as {alias}"))
                }));
            }
            End::Renamed | End::Glob => {}
        }
        edits
    }

    /// Removes an item of a group, and its comma with the space after it. Comments between them stay.
    fn cut(&self, item: &Range<usize>) -> [Edit; 2] {
        let tokens = self.tokens;
        let name = tokens.range(item.clone());
        let has_comma = tokens.is(item.end, ",");
        let comma = if has_comma { tokens.range(item.end..item.end + 1) } else { name.end..name.end };
        let behind = tokens.source[comma.end..].trim_start();
        [(name, String::new()), (comma.start..tokens.source.len() - behind.len(), String::new())]
    }

    /// The `use` at a token, with its attributes and visibility. `None` if a macro has more of them before it, such as
    /// `$visibility`.
    fn head(&self, keyword: usize) -> Option<&'a str> {
        let tokens = self.tokens;
        let last = |text: &str, end: usize| (0..end).rev().find(|at| tokens.is(*at, text));
        let mut start = keyword;
        if keyword > 0 && (tokens.is(keyword - 1, "pub") || tokens.is(keyword - 1, ")")) {
            start = last("pub", keyword).unwrap_or(keyword);
        }
        while start > 0 && tokens.is(start - 1, "]") {
            let Some(attribute) = last("#", start).filter(|at| tokens.is(at + 1, "[")) else { break };
            start = attribute;
        }
        let is_all = start == 0 || [";", "{", "}", "(", "[", "]"].contains(&tokens.text(start - 1));
        is_all.then(|| &tokens.source[tokens.range(start..keyword + 1)])
    }

    /// Notes an import that stays, such as `use tokio as other`, `use tokio::*`, or timers of another crate.
    fn note_left(&mut self, tree: &Tree, path: &[&'a str]) {
        let offset = self.tokens.range(tree.tokens.clone()).start;
        let path = path.strip_suffix(&["self"]).unwrap_or(path);
        self.note_timer(offset, path);
        if path == ["tokio_stream", "StreamExt"] {
            self.note_stream_timer();
        }
        if !matches!(tree.end, End::Name) && moves::is_beginning(path) {
            let path = path.join("::");
            self.note(offset, format!("`{path}` under another name: paths that begin with that are not found"));
        }
        if moves::may_be_time(path) {
            self.note_unknown(offset, path);
        }
    }
}
