//! Finds the source files, rewrites them, and sorts what they need by the part of the package that they belong to.

use std::path::{Path, PathBuf};
use std::{fs, io};

use hairspring_migrate::{Needs, Package, Rewritten, rewrite};

use crate::members::{Member, Part, Workspace};

/// What the parts of a package need.
#[derive(Debug, Default)]
pub(crate) struct PartNeeds {
    pub(crate) program: Needs,
    pub(crate) tests: Needs,
    pub(crate) build: Needs,
}

/// The sum over all files.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) files: usize,
    pub(crate) changed: usize,
    pub(crate) left_alone: usize,
    /// The places of comments that name what was moved.
    pub(crate) comments: Vec<String>,
}

impl Totals {
    pub(crate) fn leave_alone(&mut self, path: &Path, error: &io::Error) {
        eprintln!("{}: left alone: {error}", path.display());
        self.left_alone += 1;
    }

    /// Rewrites the files of a package, or only checks them. Returns what they need.
    pub(crate) fn package(&mut self, member: &Member, workspace: &Workspace, check: bool) -> PartNeeds {
        let files = self.find(&member.folder, workspace);
        let is_inside = |path: &Path| path.strip_prefix(&member.folder).is_ok_and(|inner| !inner.starts_with(".."));
        let outside = member.targets.iter().filter(|target| !is_inside(&target.source));
        outside.for_each(|target| say_outside(&target.source));
        self.files(&files, member, check)
    }

    /// Finds the files in a folder of a workspace. Leaves out packages in it, and says which are no members.
    pub(crate) fn find(&mut self, folder: &Path, workspace: &Workspace) -> Vec<PathBuf> {
        let (mut files, mut packages) = (Vec::new(), Vec::new());
        let found = find(folder, &mut files, Some(&mut packages));
        found.unwrap_or_else(|error| self.leave_alone(folder, &error));
        let is_other = |folder: &&PathBuf| workspace.members.iter().all(|member| member.folder != **folder);
        packages.iter().filter(is_other).for_each(|folder| say_outside(folder));
        files
    }

    /// Rewrites files, or only checks them. Returns what they need.
    pub(crate) fn files(&mut self, files: &[PathBuf], member: &Member, check: bool) -> PartNeeds {
        self.files += files.len();
        let mut new = Vec::new();
        for file in files {
            match self.rewrite(file, &member.package, check) {
                Ok(rewritten) => new.push((file, rewritten)),
                Err(error) => self.leave_alone(file, &error),
            }
        }
        let test_modules: Vec<PathBuf> = new.iter().flat_map(|(file, new)| test_modules(file, new, member)).collect();
        let mut needs = PartNeeds::default();
        for (file, new) in &new {
            needs.tests.add(&new.tests);
            let is_for_tests = test_modules.iter().any(|module| file.with_extension("").starts_with(module));
            match part(file, member) {
                Part::Build => needs.build.add(&new.program),
                Part::Program if !is_for_tests => needs.program.add(&new.program),
                _ => needs.tests.add(&new.program),
            }
        }
        needs
    }

    fn rewrite(&mut self, file: &Path, package: &Package, check: bool) -> io::Result<Rewritten> {
        let new = rewrite(&fs::read_to_string(file)?, package).map_err(io::Error::other)?;
        let shown = file.display();
        for (line, note) in &new.notes {
            println!("{shown}:{line}: {note}");
        }
        self.comments.extend(new.comments.iter().map(|line| format!("{shown}:{line}")));
        if new.paths > 0 {
            println!("{shown}: {} {}", new.paths, if new.paths == 1 { "path" } else { "paths" });
            self.changed += 1;
            if !check {
                fs::write(file, &new.source)?;
            }
        }
        Ok(new)
    }
}

fn say_outside(path: &Path) {
    println!("{}: left out, as it is outside of the packages named: name it, too", path.display());
}

/// The part that a file belongs to, if nothing else says so by the folder that it is in.
fn part(file: &Path, member: &Member) -> Part {
    if let Some(target) = member.targets.iter().find(|target| target.source == file) {
        return target.part;
    }
    let inner = file.strip_prefix(&member.folder).unwrap_or(file);
    let is_tests = |name: &str| inner.components().any(|it| it.as_os_str() == name);
    match inner.file_name() {
        Some(name) if name == "build.rs" && !is_tests("src") => Part::Build,
        _ if ["benches", "examples", "tests"].into_iter().any(is_tests) && !is_tests("src") => Part::Tests,
        _ => Part::Program,
    }
}

/// The modules in other files that a file says are for tests, without `.rs` and `/mod.rs`.
fn test_modules(file: &Path, new: &Rewritten, member: &Member) -> Vec<PathBuf> {
    let is_root = member.targets.iter().any(|target| target.source == file);
    let is_root = is_root || ["lib", "main", "mod"].iter().any(|name| file.file_stem().is_some_and(|it| it == *name));
    let folder = if is_root { file.parent().map(PathBuf::from).unwrap_or_default() } else { file.with_extension("") };
    new.test_modules.iter().map(|name| folder.join(name)).collect()
}

/// Finds the sources in a folder, or the one file. Leaves out other packages in it if there is a list for them.
pub(crate) fn find(path: &Path, files: &mut Vec<PathBuf>, mut packages: Option<&mut Vec<PathBuf>>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_skipped = entry.file_name().to_str().is_some_and(|name| name == "target" || name.starts_with('.'));
        let is_source = path.extension().is_some_and(|extension| extension == "rs") && path.is_file();
        // Does not follow links to folders, because they may form a cycle.
        if is_skipped || !is_source && !entry.file_type()?.is_dir() {
            continue;
        }
        match &mut packages {
            Some(packages) if path.join("Cargo.toml").is_file() => packages.push(path),
            _ => find(&path, files, packages.as_deref_mut())?,
        }
    }
    Ok(())
}
