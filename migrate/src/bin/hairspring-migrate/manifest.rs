//! Manifests, edited so that comments and formatting stay.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value, value};

use crate::members::{Member, Part, Workspace, absolute, relative};
use crate::plan::Line;

const HAIRSPRING: &str = "hairspring";

/// The manifests of a workspace, by path.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    files: BTreeMap<PathBuf, Manifest>,
    /// The absolute path of a checkout to depend on. Without one it is the published version.
    checkout: Option<PathBuf>,
}

#[derive(Debug, Default)]
pub(crate) struct Manifest {
    document: DocumentMut,
    /// The tables and keys of what was edited.
    edited: Vec<(Vec<String>, String)>,
}

impl Manifests {
    pub(crate) fn new(checkout: Option<PathBuf>) -> Self {
        Manifests { files: BTreeMap::new(), checkout }
    }

    fn open(&mut self, folder: &Path) -> Result<&mut Manifest, String> {
        let path = folder.join("Cargo.toml");
        if !self.files.contains_key(&path) {
            let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let text = fs::read_to_string(&path).map_err(|error| failed(&error))?;
            let document = text.parse().map_err(|error| failed(&error))?;
            self.files.insert(path.clone(), Manifest { document, edited: Vec::new() });
        }
        Ok(self.files.get_mut(&path).expect("it has just been inserted"))
    }

    /// Adds the lines that a member needs, and those that its workspace then needs.
    pub(crate) fn add(&mut self, workspace: &Workspace, member: &Member, lines: Vec<Line>) -> Result<(), String> {
        if lines.is_empty() {
            return Ok(());
        }
        let tokio = member.dependencies.iter().filter(|it| it.name == "tokio" || it.name.starts_with("tokio-"));
        let tokio: Vec<&str> = tokio.map(|it| &*it.key).collect();
        let inherits = self.open(&member.folder)?.inherits(&tokio);
        let own = self.source(&member.folder);
        let manifest = self.open(&member.folder)?;
        for line in lines {
            match line {
                Line::Dependency { part, features, is_optional } => {
                    let source = if inherits { ("workspace", true.into()) } else { own.clone() };
                    let new = || new_dependency(source, &features, is_optional);
                    manifest.add_dependency(part, &tokio, &features, new);
                }
                Line::Feature { name, has, adds } => manifest.add_feature(name, has, adds),
            }
        }
        let source = self.source(&workspace.root);
        let checkout = self.checkout.clone();
        if inherits {
            self.open(&workspace.root)?.add_to_workspace(source);
        }
        let root = absolute(&workspace.root).unwrap_or_default();
        if let Some(inner) = checkout.as_ref().and_then(|checkout| checkout.strip_prefix(root).ok()) {
            self.open(&workspace.root)?.exclude(inner);
        }
        Ok(())
    }

    /// Where the manifest in a folder finds hairspring.
    fn source(&self, folder: &Path) -> (&'static str, Value) {
        let Some(checkout) = &self.checkout else { return ("version", env!("CARGO_PKG_VERSION").into()) };
        let folder = absolute(folder).unwrap_or_default();
        ("path", relative(&folder, checkout).to_string_lossy().replace('\\', "/").into())
    }

    /// What was edited, as text, with the path of each manifest.
    pub(crate) fn edited(&self) -> impl Iterator<Item = (&Path, String)> {
        let edited = self.files.iter().filter(|(_, manifest)| !manifest.edited.is_empty());
        edited.map(|(path, manifest)| (path.as_path(), manifest.text_of_edits()))
    }

    pub(crate) fn write(&self) -> io::Result<()> {
        let mut edited = self.files.iter().filter(|(_, manifest)| !manifest.edited.is_empty());
        edited.try_for_each(|(path, manifest)| fs::write(path, manifest.document.to_string()))
    }
}

/// What the manifest of files without a package needs, as text.
pub(crate) fn text_without_package(checkout: Option<PathBuf>, lines: Vec<Line>) -> String {
    let source = Manifests::new(checkout).source(Path::new("."));
    let mut manifest = Manifest::default();
    for line in lines {
        if let Line::Dependency { part, features, .. } = line {
            let new = || new_dependency(source.clone(), &features, false);
            manifest.add_dependency(part, &[], &features, new);
        }
    }
    manifest.text_of_edits()
}

fn table_of(part: Part) -> &'static str {
    match part {
        Part::Program => "dependencies",
        Part::Tests => "dev-dependencies",
        Part::Build => "build-dependencies",
    }
}

impl Manifest {
    /// The tables with the dependencies of a part, first that for all platforms.
    fn tables(&self, part: Part) -> Vec<Vec<String>> {
        let targets = self.document.get("target").and_then(Item::as_table_like);
        let targets = targets.into_iter().flat_map(TableLike::iter).map(|(target, _)| target.to_owned());
        let tables = targets.map(|target| vec!["target".to_owned(), target, table_of(part).to_owned()]);
        [vec![table_of(part).to_owned()]].into_iter().chain(tables).collect()
    }

    fn get(&self, table: &[String]) -> Option<&dyn TableLike> {
        table.iter().try_fold(self.document.as_item(), |item, key| item.get(key)).and_then(Item::as_table_like)
    }

    fn has(&self, table: &[String], is_it: impl Fn(&str, &Item) -> bool) -> bool {
        self.get(table).is_some_and(|table| table.iter().any(|(key, item)| is_it(key, item)))
    }

    /// Whether one of some dependencies is that of the workspace.
    fn inherits(&self, keys: &[&str]) -> bool {
        let inherits = |key: &str, item: &Item| {
            keys.contains(&key) && item.get("workspace").and_then(Item::as_bool).unwrap_or(false)
        };
        let parts = [Part::Program, Part::Tests, Part::Build];
        parts.iter().flat_map(|part| self.tables(*part)).any(|table| self.has(&table, inherits))
    }

    /// Adds hairspring, or the features that it lacks, where it is, or else where another of some dependencies is.
    fn add_dependency(&mut self, part: Part, beside: &[&str], features: &BTreeSet<String>, new: impl FnOnce() -> Item) {
        let tables = self.tables(part);
        let table = tables.iter().find(|table| self.has(table, |key, _| key == HAIRSPRING));
        let table = table.or_else(|| tables.iter().find(|table| self.has(table, |key, _| beside.contains(&key))));
        let table = table.unwrap_or(&tables[0]).clone();
        let dependencies = table_at(&mut self.document, &table);
        if let Some(dependency) = like_table(dependencies).get_mut(HAIRSPRING) {
            add_features(dependency, features);
        } else {
            insert(dependencies, beside, new());
        }
        self.edited.push((table, HAIRSPRING.to_owned()));
    }

    fn add_feature(&mut self, name: String, has: Vec<String>, adds: String) {
        let table = vec!["features".to_owned()];
        let feature = like_table(table_at(&mut self.document, &table))
            .entry(&name)
            .or_insert_with(|| value(Array::from_iter(has)));
        if let Some(values) = feature.as_array_mut() {
            push(values, adds);
        }
        if !self.edited.contains(&(table.clone(), name.clone())) {
            self.edited.push((table, name));
        }
    }

    fn add_to_workspace(&mut self, from: (&str, Value)) {
        let table = ["workspace", "dependencies"].map(str::to_owned).to_vec();
        let dependencies = table_at(&mut self.document, &table);
        if dependencies.get(HAIRSPRING).is_none() {
            insert(dependencies, &["tokio"], new_dependency(from, &BTreeSet::new(), false));
            self.edited.push((table, HAIRSPRING.to_owned()));
        }
    }

    /// A checkout within the workspace's folder has a workspace of its own.
    fn exclude(&mut self, folder: &Path) {
        let Some(workspace) = self.document.get_mut("workspace").and_then(Item::as_table_like_mut) else { return };
        let Some(excluded) = workspace.entry("exclude").or_insert_with(|| value(Array::new())).as_array_mut() else {
            return;
        };
        if !excluded.iter().filter_map(Value::as_str).any(|path| folder.starts_with(path)) {
            push(excluded, folder.to_string_lossy().replace('\\', "/"));
            self.edited.push((vec!["workspace".to_owned()], "exclude".to_owned()));
        }
    }

    fn text_of_edits(&self) -> String {
        let mut shown = DocumentMut::new();
        for (table, key) in &self.edited {
            if let Some(mut item) = self.get(table).and_then(|table| table.get(key)).cloned() {
                if let Some(table) = item.as_table_mut() {
                    // Of a table of its own, its place in the manifest.
                    table.set_position(None);
                }
                like_table(table_at(&mut shown, table)).insert(key, item);
            }
        }
        shown.to_string().trim().to_owned()
    }
}

/// The table at a path, which becomes one if there is none.
fn table_at<'a>(document: &'a mut DocumentMut, path: &[String]) -> &'a mut Item {
    let mut item = document.as_item_mut();
    for (place, key) in path.iter().enumerate() {
        item = like_table(item).entry(key).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(place + 1 < path.len());
            Item::Table(table)
        });
    }
    item
}

/// Inserts the dependency, in order if the others are. Or else behind the last of some, so that it gets under no comment
/// on others.
fn insert(dependencies: &mut Item, beside: &[&str], dependency: Item) {
    let table = like_table(dependencies);
    let mut keys: Vec<String> = table.iter().map(|(key, _)| key.to_owned()).collect();
    let last = keys.iter().rposition(|key| beside.contains(&&**key));
    table.insert(HAIRSPRING, dependency);
    if keys.is_sorted() {
        table.sort_values();
    } else if let (Some(last), Some(table)) = (last, dependencies.as_table_mut()) {
        keys.insert(last + 1, HAIRSPRING.to_owned());
        let place = |key: &str| keys.iter().position(|it| it == key);
        table.sort_values_by(|a, _, b, _| place(a).cmp(&place(b)));
    }
}

fn like_table(item: &mut Item) -> &mut dyn TableLike {
    item.as_table_like_mut().expect("cargo has read it")
}

fn new_dependency((key, source): (&str, Value), features: &BTreeSet<String>, is_optional: bool) -> Item {
    if features.is_empty() && !is_optional {
        if key == "workspace" {
            let mut table = Table::new();
            table.set_dotted(true);
            table.insert(key, Item::Value(source));
            return Item::Table(table);
        }
        if key == "version" {
            return Item::Value(source);
        }
    }
    let mut table = InlineTable::new();
    table.insert(key, source);
    if !features.is_empty() {
        table.insert("features", Array::from_iter(features).into());
    }
    if is_optional {
        table.insert("optional", true.into());
    }
    value(table)
}

fn add_features(dependency: &mut Item, features: &BTreeSet<String>) {
    if let Some(version) = dependency.as_str() {
        *dependency = new_dependency(("version", version.into()), features, false);
    } else if let Some(table) = dependency.as_table_like_mut() {
        if let Some(has) = table.entry("features").or_insert_with(|| value(Array::new())).as_array_mut() {
            let missing = features.iter().filter(|name| !has.iter().any(|it| it.as_str() == Some(name)));
            missing.cloned().collect::<Vec<_>>().into_iter().for_each(|name| push(has, name));
        }
        if let Some(table) = dependency.as_inline_table_mut() {
            // Otherwise a space stays between the last value and the comma.
            table.fmt();
        }
    }
}

/// Appends a text to an array. If each of its values has a line, so has this one.
fn push(array: &mut Array, text: String) {
    let last = array.len().checked_sub(1).and_then(|last| array.get(last)).map(|last| last.decor().clone());
    array.push(text);
    let prefix = last.as_ref().and_then(|decor| decor.prefix()).and_then(|prefix| prefix.as_str()).unwrap_or_default();
    if let (true, Some(new)) = (prefix.contains('\n'), array.iter_mut().last()) {
        new.decor_mut().set_prefix(prefix);
    }
}
