//! The tokens of a source file, in a row: groups are taken apart into their delimiters.

use std::ops::Range;

use proc_macro2::extra::invalidate_current_thread_spans;
use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

/// A token, and where it is in the source, in bytes. A doc comment is several tokens in the same place.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) range: Range<usize>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Kind {
    Ident(String),
    /// Also each `{`, `}` and the like.
    Punct(char),
    Literal,
}

pub(crate) struct Tokens(Vec<Token>);

impl Tokens {
    pub(crate) fn read(source: &str) -> Result<Tokens, LexError> {
        let mut tokens = Vec::new();
        flatten(source.parse()?, &mut tokens);
        // It keeps all sources for its spans, of which none is left.
        invalidate_current_thread_spans();
        Ok(Tokens(tokens))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn ident(&self, at: usize) -> Option<&str> {
        match &self.0.get(at)?.kind {
            Kind::Ident(name) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn is(&self, at: usize, punct: char) -> bool {
        self.0.get(at).is_some_and(|token| token.kind == Kind::Punct(punct))
    }

    /// Whether `::` begins here.
    pub(crate) fn is_separator(&self, at: usize) -> bool {
        self.is(at, ':') && self.is(at + 1, ':') && self.range(at).end == self.range(at + 1).start
    }

    pub(crate) fn range(&self, at: usize) -> Range<usize> {
        self.0[at].range.clone()
    }

    /// Where the bracket is that this one closes.
    pub(crate) fn opening(&self, closing: usize) -> Option<usize> {
        let mut depth = 0;
        (0..=closing).rev().find(|&at| {
            match self.0[at].kind {
                Kind::Punct(')' | ']' | '}') => depth += 1,
                Kind::Punct('(' | '[' | '{') => depth -= 1,
                _ => {}
            }
            depth == 0
        })
    }
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let kind = match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ('(', ')'),
                    Delimiter::Brace => ('{', '}'),
                    Delimiter::Bracket => ('[', ']'),
                    Delimiter::None => unreachable!("a source file has no such groups"),
                };
                let [open_range, close_range] = [group.span_open(), group.span_close()].map(|span| span.byte_range());
                tokens.push(Token { kind: Kind::Punct(open), range: open_range });
                flatten(group.stream(), tokens);
                tokens.push(Token { kind: Kind::Punct(close), range: close_range });
                continue;
            }
            TokenTree::Ident(ref ident) => Kind::Ident(ident.to_string()),
            TokenTree::Punct(ref punct) => Kind::Punct(punct.as_char()),
            TokenTree::Literal(_) => Kind::Literal,
        };
        tokens.push(Token { kind, range: tree.span().byte_range() });
    }
}
