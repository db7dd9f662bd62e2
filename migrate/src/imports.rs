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
        let before = self.result.paths;
        let mut moved = Vec::new();
        let is_gone = self.tree(&tree, &[], &mut moved);
        let is_public = keyword > 0 && tokens.is(keyword - 1, "pub") && !self.package.is_private;
        if is_public && self.result.paths > before {
            self.note(keyword, "a public import: users of this crate see hairspring's types from now on");
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
        if let ([], Some(first)) = (around, path.first_mut()) {
            *first = self.crate_name(first);
        }
        if let Some(found) = moves::find(&path) {
            // A re-export gets the list of all names, if that is the same as tokio's.
            let is_whole = matches!(tree.end, End::Glob) && tree.segments.len() == found.length;
            let is_public = tokens.is(tree.tokens.start.max(2) - 2, "pub");
            let is_reexport = is_whole && is_public && !["n0_future", "tokio_util"].contains(&path[0]);
            if let Some(star) = tree.tokens.clone().find(|at| tokens.is(*at, "*") && !is_reexport) {
                self.note(star, "this glob import was left alone: list the names that you use, and run this again");
                return false;
            }
            self.result.paths += 1;
            let inner = found.alias.unwrap_or("self");
            self.bring_in(tree, inner, found.to.starts_with(moves::HAIRSPRING));
            let mut edits = self.renamed(tree, Move { length: found.length - around.len(), ..found });
            if let (End::Group(trees), "n0_future") = (&tree.end, path[0]) {
                let is_other = |at| tokens.is(at, "SystemTime");
                let goes = |inner: &Tree| is_other(inner.tokens.start) && self.tree(inner, &path, moved);
                let gone: Vec<bool> = trees.iter().map(goes).collect();
                edits.extend(self.cut(tree, trees, &gone));
            }
            if around.is_empty() {
                self.edits.extend(edits);
                return false;
            }
            moved.push(apply(tokens.source, tokens.range(tree.tokens.clone()), edits));
            return true;
        }
        if path.first() == Some(&moves::HAIRSPRING) {
            self.bring_in(tree, moves::HAIRSPRING, true);
            return false;
        }
        let End::Group(trees) = &tree.end else {
            self.note_left(tree, &path);
            return false;
        };
        let edits_before = self.edits.len();
        let gone: Vec<bool> = trees.iter().map(|inner| self.tree(inner, &path, moved)).collect();
        let text = &tokens.source[tokens.range(tree.tokens.clone())];
        if !gone.is_empty() && !gone.contains(&false) && !text.contains("//") && !text.contains("/*") {
            self.edits.truncate(edits_before);
            return true;
        }
        self.edits.extend(self.cut(tree, trees, &gone));
        false
    }

    /// Notes the names that an import brings in. `inner` is what `self` means in it.
    fn bring_in(&mut self, tree: &Tree, inner: &'a str, is_ours: bool) {
        let tokens = self.tokens;
        let names = tree.tokens.clone().filter(|at| !tokens.is_separator(at + 1) && !tokens.is(*at, "as"));
        let meant = |name| if name == "self" { inner } else { name };
        self.names.extend(names.clone().filter_map(|at| tokens.ident(at)).map(meant));
        self.imported.extend(names.filter(|at| is_ours && !tokens.is(at - 1, "as")));
        self.uses.extend(is_ours.then(|| tree.segments.first().copied().unwrap_or(tree.tokens.start)));
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
            End::Glob => {
                let star = self.tokens.range(tree.tokens.end - 1..tree.tokens.end);
                let hidden = self.hidden_at(tree.tokens.start);
                let names = ["Duration", "error"].into_iter().chain(moves::TIMERS.split(", "));
                let names: Vec<&str> = names.filter(|name| !hidden.contains(name)).collect();
                edits.push((star, format!("{{{}}}", names.join(", "))));
            }
            End::Renamed => {}
        }
        edits
    }

    /// What the module around a token defines or imports by name, which hides the same names of a glob import.
    fn hidden_at(&self, token: usize) -> Vec<&'a str> {
        let tokens = self.tokens;
        let mut names = Vec::new();
        let mut at = tokens.opening(token).map_or(0, |open| open + 1);
        while at < tokens.len() && !tokens.is(at, "}") {
            match tokens.text(at) {
                "use" => names.extend(Tree::read(tokens, at + 1).iter().flat_map(|tree| tree.names(tokens))),
                "enum" | "mod" | "struct" | "trait" | "type" | "union" => {
                    names.extend(tokens.ident(at + 1).filter(|name| moves::is_type(name)));
                }
                "const" | "fn" | "static" => names.extend(tokens.ident(at + 1).filter(|name| !moves::is_type(name))),
                "(" | "[" | "{" => at = tokens.closing(at),
                _ => {}
            }
            at += 1;
        }
        names
    }

    /// Removes items of a group, each with its comma and the space after it. Comments between them stay. If one item is
    /// left, and no comment, its braces go, too.
    fn cut(&self, group: &Tree, trees: &[Tree], gone: &[bool]) -> Vec<Edit> {
        let (tokens, source) = (self.tokens, self.tokens.source);
        let mut kept = trees.iter().zip(gone).filter(|(_, gone)| !**gone).map(|(tree, _)| tree);
        if let (Some(only), None, true) = (kept.next(), kept.next(), gone.contains(&true)) {
            let (inside, only_at) = (trees[0].tokens.start - 1..group.tokens.end, only.tokens.clone());
            let (inside, only_range) = (tokens.range(inside), tokens.range(only_at.clone()));
            let around = [inside.start..only_range.start, only_range.end..inside.end];
            let has_comment = around.iter().any(|part| ["//", "/*"].iter().any(|it| source[part.clone()].contains(it)));
            if !has_comment && !tokens.is(only_at.start, "self") && !group.segments.is_empty() {
                return around.map(|part| (part, String::new())).into();
            }
        }
        let (mut edits, mut space) = (Vec::new(), "");
        for (tree, _) in trees.iter().zip(gone).filter(|(_, gone)| **gone) {
            let (name, end) = (tokens.range(tree.tokens.clone()), tree.tokens.end);
            let comma = if tokens.is(end, ",") { tokens.range(end..end + 1) } else { name.end..name.end };
            space = &source[comma.end..source.len() - source[comma.end..].trim_start().len()];
            edits.extend([(name, String::new()), (comma.start..comma.end + space.len(), String::new())]);
        }
        // The brace behind the last keeps its place, or there is no comma before it.
        let first = gone.iter().rposition(|gone| !gone).map_or(0, |kept| kept + 1);
        if let Some(tree) = trees.get(first) {
            let start = tokens.range(tree.tokens.clone()).start;
            let before = source[..start].trim_end().len();
            if space.contains('\n') {
                edits.push((before..start, space.to_owned()));
            } else if source[..before].ends_with(',') && !source[before..start].contains('\n') {
                edits.push((before - 1..start, String::new()));
            }
        }
        edits
    }

    /// The `use` at a token, with its indentation, attributes and visibility. `None` if a macro has more of them before
    /// it, such as `$visibility`.
    fn head(&self, keyword: usize) -> Option<String> {
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
        let Range { start, end } = tokens.range(start..keyword + 1);
        let line = tokens.source[..start].rsplit('\n').next().unwrap_or_default();
        let indentation = &line[..line.len() - line.trim_start().len()];
        is_all.then(|| indentation.to_owned() + &tokens.source[start..end])
    }

    /// Notes an import that stays, such as `use tokio as other`, `use tokio::*`, or timers of another crate.
    fn note_left(&mut self, tree: &Tree, path: &[&'a str]) {
        let at = tree.tokens.start;
        let path = path.strip_suffix(&["self"]).unwrap_or(path);
        self.note_timer(at, path);
        if path == ["tokio_stream", "StreamExt"] {
            // The trait stays for its other methods.
            let text = "is tokio's timer if it is from `tokio_stream::StreamExt`: `hairspring::StreamExt` has it too";
            self.note_call(&["chunks_timeout", "throttle", "timeout", "timeout_repeating"], text);
        }
        if !matches!(tree.end, End::Name) && moves::is_beginning(path) {
            let path = path.join("::");
            self.note(at, format!("`{path}` under another name: paths through it are left alone"));
        }
        if moves::may_be_time(path) {
            self.note_unknown(at, path);
        }
    }
}
