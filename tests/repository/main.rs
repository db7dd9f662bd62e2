//! Promises about the repository rather than the code: documents, examples, dependencies and architecture.

#[path = "../common/mod.rs"]
mod common;

mod abort;
mod architecture;
#[cfg(feature = "test-util")]
mod attribute;
mod dependencies;
mod docs;
mod ecosystem;
mod examples;
mod rendered;

use std::fs;
use std::path::{Path, PathBuf};

/// All files below a folder, except in `target`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| !path.ends_with("target"));
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
