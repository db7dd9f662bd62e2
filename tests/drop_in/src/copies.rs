//! Copies of a crate, as published and switched to hairspring.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use hairspring_migrate::{Package, rewrite};

use crate::cargo::Cargo;
use crate::listed::Listed;

/// Which part of a crate is switched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Switched {
    Nothing,
    All,
    /// Only the sources, with the unit tests in them.
    Sources,
    /// Only the folder of integration tests.
    Tests,
}

impl Switched {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Switched::Nothing => "before",
            Switched::All => "after",
            Switched::Sources => "sources",
            Switched::Tests => "tests",
        }
    }

    fn folders(self) -> &'static [&'static str] {
        match self {
            Switched::Nothing => &[],
            Switched::All => &["src", "tests"],
            Switched::Sources => &["src"],
            Switched::Tests => &["tests"],
        }
    }
}

/// Lets cargo download a crate. Returns the folder of its sources.
pub(crate) fn fetch(cargo: &Cargo, listed: &Listed) -> Result<PathBuf, String> {
    let Listed { name, version, .. } = listed;
    let folder = cargo.out.join("fetch").join(name);
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         {name} = {{ version = \"={version}\", default-features = false }}\n"
    );
    let written = fs::create_dir_all(folder.join("src"))
        .and_then(|()| fs::write(folder.join("Cargo.toml"), manifest))
        .and_then(|()| fs::write(folder.join("src/lib.rs"), ""));
    written.map_err(|error| format!("{}: {error}", folder.display()))?;
    cargo.run(&folder, &["fetch"], 120)?.succeeded()?;
    let home = env::home_dir().ok_or("there is no home directory")?;
    let registries = env::var_os("CARGO_HOME").map_or(home.join(".cargo"), PathBuf::from).join("registry/src");
    let registries = fs::read_dir(&registries).map_err(|error| format!("{}: {error}", registries.display()))?;
    let mut sources = registries.flatten().map(|entry| entry.path().join(format!("{name}-{version}")));
    sources.find(|sources| sources.is_dir()).ok_or_else(|| format!("cargo has not fetched {name} {version}"))
}

/// Copies a crate and switches some of its folders. Returns the copy's folder and how many paths were replaced.
pub(crate) fn copy(cargo: &Cargo, listed: &Listed, from: &Path, switched: Switched) -> io::Result<(PathBuf, usize)> {
    let to = cargo.out.join("crates").join(&listed.name).join(switched.name());
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    copy_folder(from, &to)?;
    let lock = Path::new("Cargo.lock");
    let before = to.with_file_name(Switched::Nothing.name()).join(lock);
    if before.exists() {
        // All copies use the same dependencies.
        fs::copy(before, to.join(lock))?;
    }
    let manifest = to.join("Cargo.toml");
    fs::write(&manifest, manifest_of(&fs::read_to_string(&manifest)?, cargo, listed))?;
    let mut paths = 0;
    for folder in switched.folders() {
        paths += switch(&to.join(folder))?;
    }
    Ok((to, paths))
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            // Its authors' configuration of cargo.
            if name != ".cargo" {
                copy_folder(&entry.path(), &to.join(name))?;
            }
        } else if name != "Cargo.lock" && name != "rust-toolchain" && name != "rust-toolchain.toml" {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

/// The published manifest, which has a table for each dependency, with hairspring and without unneeded dependencies.
fn manifest_of(published: &str, cargo: &Cargo, listed: &Listed) -> String {
    let mut keeps = true;
    let mut result = String::new();
    for table in published.split_inclusive("\n\n") {
        let first = table.lines().next().unwrap_or_default();
        if first.starts_with('[') {
            let left_out = listed.without.iter().any(|name| first.ends_with(&format!("dev-dependencies.{name}]")));
            let is_bench = first == "[[bench]]" || first == "[[example]]";
            // Below it gets another, and a manifest may have only one.
            let is_empty = table.trim() == "[dev-dependencies]";
            keeps = !left_out && !is_bench && !is_empty;
        }
        if keeps {
            result += table;
        }
    }
    let (name, root) = (&listed.name, cargo.root.display());
    let mut own = Vec::new();
    if listed.only_tests || listed.itself {
        own.push(format!("[patch.crates-io.{name}]\npath = \".\""));
    }
    if !listed.only_tests {
        own.push(format!("[dependencies.hairspring]\npath = \"{root}\"\nfeatures = [\"tokio-util\"]"));
    }
    let own = own.join("\n\n");
    let features = "features = [\"test-util\", \"tokio-util\"]";
    let for_tests = format!("[dev-dependencies.hairspring]\npath = \"{root}\"\n{features}");
    let with = listed.with.join("\n");
    format!("{result}\n[workspace]\n\n{own}\n\n{for_tests}\n\n[dev-dependencies]\n{with}\n")
}

/// Rewrites all sources in a folder. Returns how many paths were replaced.
fn switch(folder: &Path) -> io::Result<usize> {
    let mut paths = 0;
    if !folder.is_dir() {
        return Ok(0);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            paths += switch(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            // Some files are not Rust, such as the expected output of a macro.
            if let Ok(rewritten) = rewrite(&fs::read_to_string(&path)?, &Package::default()) {
                paths += rewritten.paths;
                fs::write(&path, rewritten.source)?;
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listed;

    #[test]
    fn a_manifest_gains_hairspring_and_loses_unneeded_dependencies() {
        let list =
            "a 1.0.0 --tests\n    without criterion\n    with b = { version = \"1\" } # Imported, and not used.\n";
        let [listed] = &listed::read(list).unwrap()[..] else { panic!("one crate") };
        let cargo = Cargo { root: "/root".into(), out: "/out".into(), target: "/target".into(), flags: "" };
        let published = "[package]\nname = \"a\"\n\n[[bench]]\nname = \"x\"\n\n[dependencies.criterion]\nversion = \"1\"\n\n\
                         [dev-dependencies.criterion]\nversion = \"1\"\n\n[target.'cfg(unix)'.dev-dependencies.criterion]\n\
                         version = \"1\"\n\n[dev-dependencies]\n\n[dev-dependencies.c]\nversion = \"1\"\n";
        let expected = "[package]\nname = \"a\"\n\n[dependencies.criterion]\nversion = \"1\"\n\n\
                        [dev-dependencies.c]\nversion = \"1\"\n\n[workspace]\n\n\
                        [dependencies.hairspring]\npath = \"/root\"\nfeatures = [\"tokio-util\"]\n\n\
                        [dev-dependencies.hairspring]\npath = \"/root\"\nfeatures = [\"test-util\", \"tokio-util\"]\n\n\
                        [dev-dependencies]\nb = { version = \"1\" } # Imported, and not used.\n";
        assert_eq!(manifest_of(published, &cargo, listed), expected);
        // A dependency of its tests uses it.
        let [listed] = &listed::read(&format!("{list}    itself\n")).unwrap()[..] else { panic!("one crate") };
        let patched = expected.replace("[workspace]\n\n", "[workspace]\n\n[patch.crates-io.a]\npath = \".\"\n\n");
        assert_eq!(manifest_of(published, &cargo, listed), patched);
    }
}
