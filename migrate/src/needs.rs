//! What a source file needs of hairspring, in its tests and outside of them.

use crate::{Needs, Rewriter, scopes};

/// The functions that need the feature `test-util`.
const CLOCK: [&str; 3] = ["advance", "pause", "resume"];
/// The items that need it.
const TESTS: [&str; 2] = ["test", "test_util"];
/// The methods that need the feature `tokio-util`.
const CANCELLATION: [&str; 2] = ["with_cancellation_token", "with_cancellation_token_owned"];

impl Needs {
    /// Adds what other sources need.
    pub fn add(&mut self, other: &Needs) {
        self.dependency |= other.dependency;
        self.features.extend(&other.features);
    }
}

impl Rewriter<'_> {
    pub(crate) fn find_needs(&mut self) {
        let tokens = self.tokens;
        let (tests, modules) = scopes::tests(tokens);
        let has_extension = self.names.contains(&"FutureExt");
        let is_clock = |at: &usize| CLOCK.contains(&tokens.text(*at));
        let moved = (0..tokens.len()).filter_map(|at| self.moved(at));
        let called = moved.filter(|at| is_clock(at) && tokens.is(at + 1, "("));
        let clock = called.chain(self.imported.iter().copied().filter(is_clock));
        let cancellation = self.calls(&CANCELLATION).filter(|_| has_extension);
        let found = clock.map(|at| (at, Some("test-util"))).chain(cancellation.map(|at| (at, Some("tokio-util"))));
        let quoted = self.quoted();
        let of_path = |at: &usize| (*at, TESTS.contains(&tokens.text(at + 3)).then_some("test-util"));
        let found = found.chain(self.uses.iter().map(of_path));
        let found: Vec<_> = found.filter(|(at, _)| !quoted.iter().any(|part| part.contains(at))).collect();
        for (at, feature) in found {
            let is_test = tests.iter().any(|part| part.contains(&at));
            let needs = if is_test { &mut self.result.tests } else { &mut self.result.program };
            needs.dependency = true;
            needs.features.extend(feature);
        }
        self.result.test_modules = modules;
    }
}
