//! The Markdown files of the repository.

use std::fs;
use std::path::Path;

use crate::block::{self, Change};
use crate::blocks;
use crate::results::Results;

/// All of them, as they stand: their names from the top of the repository, and their texts.
pub(crate) struct Documents(Vec<(String, String)>);

/// A document with the text of its blocks put in.
pub(crate) struct Written {
    pub(crate) name: String,
    pub(crate) blocks: usize,
    pub(crate) changes: Vec<Change>,
    text: String,
}

impl Documents {
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut names = Vec::new();
        collect(root, "", &mut names).map_err(|error| format!("the documents: {error}"))?;
        names.sort();
        let read = |name: String| match fs::read_to_string(root.join(&name)) {
            Ok(text) => Ok((name, text)),
            Err(error) => Err(format!("{name}: {error}")),
        };
        names.into_iter().map(read).collect::<Result<_, _>>().map(Documents)
    }

    /// The documents as the results would have them, or all that is in the way of that, a line for each.
    pub(crate) fn rewrite(self, results: &Results) -> Result<Vec<Written>, String> {
        let mut written = Vec::new();
        let mut problems = Vec::new();
        for (name, text) in self.0 {
            match block::rewrite(&text, |block| blocks::generate(block, results)) {
                Ok(block::Rewritten { text, blocks, changes }) => written.push(Written { name, blocks, changes, text }),
                Err(faults) => {
                    problems.extend(faults.iter().map(|fault| format!("{name}:{}: {}", fault.line, fault.what)));
                }
            }
        }
        if problems.is_empty() { Ok(written) } else { Err(problems.join("\nerror: ")) }
    }
}

impl Written {
    pub(crate) fn save(&self, root: &Path) -> Result<(), String> {
        fs::write(root.join(&self.name), &self.text).map_err(|error| format!("{}: {error}", self.name))
    }
}

/// Adds the names of the Markdown files in `folder` of `root`. What is hidden or was built is no document.
fn collect(root: &Path, folder: &str, names: &mut Vec<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') || name == "target" {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(root, &path, names)?;
        } else if kind.is_file() && Path::new(&path).extension().is_some_and(|extension| extension == "md") {
            names.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_the_file_and_the_line_and_nothing_is_written_then() {
        let folder = std::env::temp_dir().join(format!("report-documents-{}", std::process::id()));
        fs::create_dir_all(folder.join("docs")).unwrap();
        fs::create_dir_all(folder.join("target")).unwrap();
        fs::write(folder.join("docs/a.md"), "\n<!-- report: soak -->\n<!-- /report -->\n").unwrap();
        fs::write(folder.join("b.md"), "<!-- report: none -->\n<!-- /report -->\n").unwrap();
        fs::write(folder.join("c.txt"), "<!-- report: c").unwrap();
        fs::write(folder.join("target/d.md"), "<!-- report: d").unwrap();
        let problems = Documents::read(&folder).and_then(|documents| documents.rewrite(&Results::new(&folder)));
        fs::remove_dir_all(&folder).unwrap();
        let problems = problems.err().unwrap();
        let problems: Vec<&str> = problems.split("\nerror: ").collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(
            problems[0].starts_with("b.md:1: block `none`: there is no such block; there are arm,"),
            "{problems:?}"
        );
        assert!(problems[1].starts_with("docs/a.md:2: block `soak`: docs/soak.txt: "), "{problems:?}");
    }
}
