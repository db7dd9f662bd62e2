//! The parts of a source file that are compiled only for tests.

use std::ops::Range;

use crate::tokens::Tokens;

/// The tokens of what is only for tests, with the attribute that says so, and the modules in other files that are.
pub(crate) fn tests(tokens: &Tokens) -> (Vec<Range<usize>>, Vec<String>) {
    let (mut parts, mut modules) = (Vec::new(), Vec::new());
    for at in (0..tokens.len()).filter(|at| tokens.is(*at, "#")) {
        let is_inner = tokens.is(at + 1, "!");
        let open = at + 1 + usize::from(is_inner);
        if !tokens.is(open, "[") {
            continue;
        }
        let close = tokens.closing(open);
        if !is_for_tests(tokens, open + 1..close) {
            continue;
        }
        if is_inner {
            parts.push(0..tokens.len());
            continue;
        }
        let item = item(tokens, close + 1);
        let name = item.clone().find(|at| tokens.is(*at, "mod")).filter(|at| tokens.is(at + 2, ";"));
        modules.extend(name.map(|at| tokens.text(at + 1).to_owned()));
        parts.push(at..item.end);
    }
    (parts, modules)
}

/// Whether an attribute is `test` or `tokio::test` or the like, or `cfg(test)`, or with more conditions besides.
fn is_for_tests(tokens: &Tokens, attribute: Range<usize>) -> bool {
    let texts: Vec<&str> = attribute.map(|at| tokens.text(at)).collect();
    if texts[..].starts_with(&["cfg"]) {
        let is_sure = !texts.iter().any(|text| ["any", "not"].contains(text));
        return is_sure && texts.contains(&"test");
    }
    let path = texts.split(|text| *text == "(").next().unwrap_or_default();
    path.last() == Some(&"test")
}

/// The item that begins at a token, without the attributes before it.
fn item(tokens: &Tokens, mut start: usize) -> Range<usize> {
    while tokens.is(start, "#") && tokens.is(start + 1, "[") {
        start = tokens.closing(start + 1) + 1;
    }
    let head = (start..tokens.len()).map(|at| tokens.text(at)).take_while(|text| !["{", ";", "=", ","].contains(text));
    let has_body = ["enum", "fn", "impl", "macro_rules", "mod", "struct", "trait", "union"];
    let has_body = head.into_iter().any(|text| has_body.contains(&text));
    let mut at = start;
    while at < tokens.len() {
        match tokens.text(at) {
            ";" => return start..at + 1,
            "}" | ")" | "]" => return start..at,
            "," if !has_body => return start..at,
            "{" if has_body || at == start => return start..tokens.closing(at) + 1,
            "{" | "(" | "[" => at = tokens.closing(at),
            _ => {}
        }
        at += 1;
    }
    start..tokens.len()
}
