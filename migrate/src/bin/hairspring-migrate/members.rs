//! The packages of a workspace, as cargo knows them.

use std::collections::BTreeSet;
use std::path::{self, Component, Path, PathBuf};
use std::process::Command;
use std::{env, io};

use hairspring_migrate::Package;
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Workspace {
    /// Its folder. This and all other paths begin with the path that the user gave.
    pub(crate) root: PathBuf,
    pub(crate) members: Vec<Member>,
    /// Whether the user gave its root, and no package is there.
    pub(crate) is_virtual: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Member {
    pub(crate) folder: PathBuf,
    pub(crate) package: Package,
    pub(crate) targets: Vec<Target>,
    pub(crate) dependencies: Vec<Dependency>,
    /// Those of the manifest, and those that optional dependencies imply.
    pub(crate) features: Vec<(String, Vec<String>)>,
}

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) part: Part,
    /// The file of its root module.
    pub(crate) source: PathBuf,
}

/// What of a package its files belong to. Each part has its own dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Program,
    /// Also benchmarks and examples.
    Tests,
    Build,
}

#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) part: Part,
    pub(crate) name: String,
    /// The name in this package.
    pub(crate) key: String,
    pub(crate) is_optional: bool,
    pub(crate) features: BTreeSet<String>,
}

/// The workspace of which a folder is the root, or the one package that is there.
pub(crate) fn find(path: &Path) -> Result<Workspace, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let here = absolute(path).map_err(|error| failed(&error))?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Without dependencies it needs neither a lock file nor the registry.
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]).arg(here.join("Cargo.toml"));
    let output = cargo.output().map_err(|error| failed(&format!("cannot run cargo: {error}")))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))?;
    let shown = |absolute: &str| path.join(relative(&here, Path::new(absolute)));
    let root = text(&metadata["workspace_root"]);
    let mut members: Vec<Member> = list(&metadata["packages"]).map(|package| member(package, shown)).collect();
    if Path::new(root) != here {
        members.retain(|member| member.folder == path);
    }
    if members.is_empty() {
        return Err(failed(&"the workspace has no members"));
    }
    let (root, is_whole) = (shown(root), Path::new(root) == here);
    let is_virtual = is_whole && members.iter().all(|member| member.folder != root);
    Ok(Workspace { root, members, is_virtual })
}

fn member(package: &Value, shown: impl Fn(&str) -> PathBuf) -> Member {
    let dependencies: Vec<Dependency> = list(&package["dependencies"]).map(dependency).collect();
    let renamed = dependencies.iter().filter(|it| it.key != it.name);
    let renamed = renamed.map(|it| (it.key.replace('-', "_"), it.name.replace('-', "_"))).collect();
    let is_library = |kind: &Value| ["dylib", "lib", "rlib"].contains(&text(kind));
    let has_library = list(&package["targets"]).any(|target| list(&target["kind"]).any(is_library));
    let is_published = package["publish"].as_array().is_none_or(|registries| !registries.is_empty());
    let features = package["features"].as_object().into_iter().flatten();
    Member {
        folder: shown(text(&package["manifest_path"])).parent().map(PathBuf::from).unwrap_or_default(),
        // The users of one that is not published are in the same workspace, and move with it.
        package: Package { renamed, is_private: !has_library || !is_published },
        targets: list(&package["targets"])
            .map(|target| Target { part: part_of(&target["kind"][0]), source: shown(text(&target["src_path"])) })
            .collect(),
        dependencies,
        features: features.map(|(name, values)| (name.clone(), texts(values))).collect(),
    }
}

fn dependency(dependency: &Value) -> Dependency {
    let name = text(&dependency["name"]);
    Dependency {
        part: part_of(&dependency["kind"]),
        name: name.to_owned(),
        key: dependency["rename"].as_str().unwrap_or(name).to_owned(),
        is_optional: dependency["optional"] == true,
        features: texts(&dependency["features"]),
    }
}

/// Of a kind of target or of dependency.
fn part_of(kind: &Value) -> Part {
    match text(kind) {
        "bench" | "dev" | "example" | "test" => Part::Tests,
        "build" | "custom-build" => Part::Build,
        _ => Part::Program,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts<T: FromIterator<String>>(value: &Value) -> T {
    list(value).map(|value| text(value).to_owned()).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The absolute path, as cargo prints it.
pub(crate) fn absolute(path: &Path) -> io::Result<PathBuf> {
    // There `canonicalize` returns paths that begin with `\\?\`.
    if cfg!(windows) { path::absolute(path) } else { path.canonicalize() }
}

/// The way from one absolute path to another.
pub(crate) fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    if common == 0 {
        return to.to_owned();
    }
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}
