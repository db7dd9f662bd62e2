//! The results of a crate's tests.

use std::collections::{BTreeMap, BTreeSet};

/// The tests of one copy over all runs.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    runs: usize,
    /// How often each test passed and failed.
    tests: BTreeMap<String, (usize, usize)>,
}

impl Outcome {
    /// Adds a run, from the test harness's output.
    pub(crate) fn add(&mut self, printed: &str) {
        self.runs += 1;
        let mut file = "";
        // Tests that have no result behind their name, because another test printed in between.
        let mut unclear = Vec::new();
        let mut failures = BTreeSet::new();
        for line in printed.lines() {
            if let Some(rest) = line.trim_start().strip_prefix("Running ") {
                file = rest.trim_start_matches("unittests ").split(' ').next().unwrap_or_default();
                unclear.clear();
                failures.clear();
            } else if let Some(name) = line.strip_prefix("    ") {
                failures.insert(name);
            } else if line.starts_with("test result: ") {
                for name in unclear.drain(..).filter(|name| !failures.contains(name)) {
                    let (passed, failed) = self.tests.entry(format!("{file} {name}")).or_default();
                    (*passed, *failed) = (*passed + 1, *failed - 1);
                }
            }
            let Some((name, rest)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) else {
                continue;
            };
            let name = name.trim_end_matches(" - should panic");
            // A test may print before its result, on the same line or earlier ones.
            let (passed, failed) = self.tests.entry(format!("{file} {name}")).or_default();
            if rest.ends_with("ok") {
                *passed += 1;
            } else if !rest.starts_with("ignored") {
                *failed += 1;
                if !rest.ends_with("FAILED") {
                    unclear.push(name);
                }
            }
        }
        self.tests.retain(|_, (passed, failed)| *passed + *failed > 0);
    }

    pub(crate) fn compiles(&self) -> bool {
        self.runs > 0
    }

    /// Tests that did not pass each time: they failed, or had no result because a run was stopped.
    pub(crate) fn failed(&self) -> BTreeSet<&str> {
        let tests = self.tests.iter().filter(|(_, (passed, _))| *passed < self.runs);
        tests.map(|(name, _)| name.as_str()).collect()
    }

    /// Tests that passed each time in another outcome but not in this one, or `compiles` if it did not.
    pub(crate) fn fails_unlike(&self, other: &Outcome) -> Vec<String> {
        if !self.compiles() {
            return vec!["compiles".to_owned()];
        }
        let passed =
            |outcome: &Outcome, name: &str| outcome.tests.get(name).is_some_and(|(passed, _)| *passed == outcome.runs);
        let names = other.tests.keys().filter(|name| passed(other, name) && !passed(self, name));
        names.cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.tests.len()
    }

    /// How many tests passed each time.
    pub(crate) fn passed(&self) -> usize {
        self.count() - self.failed().len()
    }

    /// As `12`, or `11 of 12` if one did not pass each time.
    pub(crate) fn summary(&self) -> String {
        match (self.runs, self.count(), self.passed()) {
            (0, ..) => "does not compile".to_owned(),
            (_, all, passed) if passed == all => all.to_string(),
            (_, all, passed) => format!("{passed} of {all}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(runs: &[&str]) -> Outcome {
        let mut outcome = Outcome::default();
        for printed in runs {
            outcome.add(printed);
        }
        outcome
    }

    #[test]
    fn tests_are_counted_by_file_and_over_all_runs() {
        let run = "   Running unittests src/lib.rs (deps/a-1)\ntest one ... ok\ntest two - should panic ... ok\n\
                   Running tests/b.rs (deps/b-2)\ntest one ... ok\ntest later ... ignored, slow\n\
                   test result: ok. 1 passed\n";
        let all = outcome(&[run, run]);
        assert_eq!(all.summary(), "3");
        let one_failed = outcome(&[run, &run.replace("two - should panic ... ok", "two - should panic ... FAILED")]);
        assert_eq!(one_failed.summary(), "2 of 3");
        assert_eq!(one_failed.fails_unlike(&all), ["src/lib.rs two"]);
        assert!(all.fails_unlike(&one_failed).is_empty(), "it failed before too");
    }

    #[test]
    fn a_result_may_be_torn_from_its_test() {
        let torn = "Running tests/b.rs (b)\ntest one ... a log's line\nok\ntest two ... a log's line\nFAILED\n\
                    failures:\n    two\n\ntest result: FAILED. 1 passed; 1 failed\n";
        assert_eq!(outcome(&[torn]).failed().into_iter().collect::<Vec<_>>(), ["tests/b.rs two"]);
        let stopped = outcome(&[torn.split("FAILED").next().unwrap()]);
        assert_eq!(stopped.summary(), "0 of 2");
    }

    #[test]
    fn a_test_without_a_result_has_not_passed() {
        let all = outcome(&["Running tests/b.rs (b)\ntest one ... ok\ntest two ... ok\n"]);
        let cut_short = outcome(&["Running tests/b.rs (b)\ntest one ... ok\n"]);
        assert_eq!(cut_short.fails_unlike(&all), ["tests/b.rs two"]);
        assert_eq!(outcome(&[]).fails_unlike(&all), ["compiles"]);
        assert_eq!(outcome(&[]).summary(), "does not compile");
    }
}
