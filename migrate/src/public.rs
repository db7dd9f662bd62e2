//! Items that other packages may see and that name a type of hairspring.

use std::ops::Range;

use crate::{Rewriter, scopes};

impl Rewriter<'_> {
    /// Notes them.
    pub(crate) fn note_public(&mut self) {
        let tokens = self.tokens;
        let (tests, _) = scopes::tests(tokens);
        for at in (0..tokens.len()).filter(|at| !tests.iter().any(|part| part.contains(at))) {
            let part = match tokens.text(at) {
                "type" => at + 2..self.end(at + 2, &[";"]),
                "pub" if !["(", "extern", "mod", "type", "use"].contains(&tokens.text(at + 1)) => {
                    self.signature(at + 1)
                }
                "fn" if self.is_in_public_trait(at) => self.signature(at),
                _ => continue,
            };
            let mut moved = part.filter_map(|at| self.moved(at)).map(|last| tokens.text(last));
            // `std` has these two. A name in small letters is a parameter's or a module's.
            let is_type =
                |name: &&str| name.starts_with(char::is_uppercase) && !["Duration", "SystemTime"].contains(name);
            let Some(name) = moved.find(is_type).filter(|_| self.is_public(at)) else { continue };
            if tokens.is(at, "type") {
                self.note(at, "a type that may be public: users of this crate see hairspring's from now on");
            } else {
                let text = format!("`{name}` in what may be public: users of this crate see hairspring's from now on");
                self.note(at, text);
            }
        }
    }

    /// The first of some tokens outside of brackets, or what ends them.
    fn end(&self, start: usize, ends: &[&str]) -> usize {
        let tokens = self.tokens;
        let (mut at, mut angles) = (start, 0);
        while at < tokens.len() {
            let text = tokens.text(at);
            match text {
                "<" => angles += 1,
                ">" if !["-", "="].contains(&tokens.text(at - 1)) => angles -= 1,
                _ if ends.contains(&text) && angles <= 0 => return at,
                "}" | ")" | "]" => return at,
                "{" | "(" | "[" => at = tokens.closing(at),
                _ => {}
            }
            at += 1;
        }
        tokens.len()
    }

    /// What an item shows to its users: all of an `enum`, and others up to their bodies and values.
    fn signature(&self, start: usize) -> Range<usize> {
        let tokens = self.tokens;
        if tokens.is(start, "enum") {
            let open = self.end(start, &["{", ";"]);
            return start..if tokens.is(open, "{") { tokens.closing(open) } else { open };
        }
        start..self.end(start, &["{", ";", "=", ","])
    }

    /// The tokens before the braces around a token, back to the item before.
    fn around(&self, at: usize) -> Vec<&str> {
        let open = self.tokens.opening(at).unwrap_or(0);
        let is_before = |at: &usize| !["{", "}", ";"].contains(&self.tokens.text(*at));
        let mut head: Vec<&str> = (0..open).rev().take_while(is_before).map(|at| self.tokens.text(at)).collect();
        head.reverse();
        head
    }

    fn is_in_public_trait(&self, at: usize) -> bool {
        self.around(at).windows(2).any(|two| two == ["pub", "trait"])
    }

    /// Whether other crates may see an item at a token: it is `pub`, or a trait's, and not of a type that is private in
    /// this file.
    fn is_public(&self, at: usize) -> bool {
        let tokens = self.tokens;
        let head = self.around(at);
        let of = head.iter().position(|text| *text == "for").map_or(&head[..], |at| &head[at + 1..]);
        let is_of = |at: &usize| ["enum", "struct"].contains(&tokens.text(*at)) && of.contains(&tokens.text(at + 1));
        let is_private = (0..tokens.len()).filter(is_of).any(|at| at == 0 || !tokens.is(at - 1, "pub"));
        let is_implemented = head.contains(&"impl") && head.contains(&"for");
        let is_said = tokens.is(at, "pub") || at > 0 && tokens.is(at - 1, "pub");
        !is_private && (is_said || is_implemented || head.contains(&"trait"))
    }
}
