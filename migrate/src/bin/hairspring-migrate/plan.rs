//! What the manifest of a member needs, by what its sources need and where it has tokio.

use std::collections::BTreeSet;

use crate::members::{Dependency, Member, Part};
use crate::sources::PartNeeds;

/// A line that a manifest needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// hairspring as a dependency of a part, with at least these features.
    Dependency { part: Part, features: BTreeSet<String>, is_optional: bool },
    /// A feature of the package, with these values to add to those that it has.
    Feature { name: String, has: Vec<String>, adds: String },
}

const TEST_UTIL: &str = "test-util";

pub(crate) fn plan(member: &Member, needs: &PartNeeds) -> Vec<Line> {
    let named = |names: &BTreeSet<&str>| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let (mut program, mut tests) = (named(&needs.program.features), named(&needs.tests.features));
    // What only tests enable in tokio, only tests enable here.
    let controls_time = program.contains(TEST_UTIL);
    let tokio = member.dependencies.iter().filter(|it| it.name == "tokio" && it.part == Part::Program);
    let tokio: Vec<&Dependency> = tokio.collect();
    if controls_time && !tokio.iter().any(|it| it.features.contains(TEST_UTIL)) {
        program.remove(TEST_UTIL);
        tests.insert(TEST_UTIL.to_owned());
    }
    let is_optional = !tokio.is_empty() && tokio.iter().all(|tokio| tokio.is_optional);
    let mut lines = Vec::new();
    if needs.program.dependency {
        lines.extend(dependency(member, Part::Program, program.clone(), is_optional));
        lines.extend(features(member, &tokio, controls_time, is_optional));
    }
    let mut has = program;
    let own = member.dependencies.iter().filter(|it| it.name == "hairspring" && it.part == Part::Program);
    has.extend(own.clone().flat_map(|it| it.features.clone()));
    let has_own = !is_optional && (needs.program.dependency || own.count() > 0);
    let is_missing = !tests.is_subset(&has) || needs.tests.dependency && !has_own;
    if is_missing {
        let all = if has_own { tests.difference(&has).cloned().collect() } else { tests };
        lines.extend(dependency(member, Part::Tests, all, false));
    }
    if needs.build.dependency {
        lines.extend(dependency(member, Part::Build, named(&needs.build.features), false));
    }
    lines
}

/// hairspring as a dependency of a part, unless it is that.
fn dependency(member: &Member, part: Part, features: BTreeSet<String>, is_optional: bool) -> Option<Line> {
    let mut same = member.dependencies.iter().filter(|it| it.name == "hairspring" && it.part == part);
    let is_there = same.any(|it| it.features.is_superset(&features));
    (!is_there).then_some(Line::Dependency { part, features, is_optional })
}

/// The features of the package that enable tokio, or its `test-util`, do the same with hairspring.
fn features(member: &Member, tokio: &[&Dependency], controls_time: bool, is_optional: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, has) in &member.features {
        let mut adds = BTreeSet::new();
        for key in tokio.iter().map(|tokio| &tokio.key) {
            let enables = |value: &String| *value == format!("dep:{key}") || value.starts_with(&format!("{key}/"));
            if is_optional && has.iter().any(enables) {
                adds.insert("dep:hairspring".to_owned());
            }
            for mark in ["", "?"] {
                if controls_time && has.contains(&format!("{key}{mark}/{TEST_UTIL}")) {
                    adds.insert(format!("hairspring{mark}/{TEST_UTIL}"));
                }
            }
        }
        let adds = adds.into_iter().filter(|value| !has.contains(value));
        lines.extend(adds.map(|adds| Line::Feature { name: name.clone(), has: has.clone(), adds }));
    }
    lines
}
