//! Links work where readers follow them: in the rendered documentation, and in the package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files;

/// The values of an attribute in a page, without the anchors.
fn attributes<'a>(page: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let values = page.split(name).skip(1).map(|rest| rest.split('"').next().unwrap());
    values.map(|link| link.split(['#', '?']).next().unwrap())
}

/// Whether a link leads to a file of this documentation. Others lead to items of crates that were not rendered.
fn is_local(link: &str, page: &Path, root: &Path) -> bool {
    let is_page = [".html", ".md", ".svg", ".png"].iter().any(|ending| link.ends_with(ending));
    let outside = page.parent().unwrap().strip_prefix(root).unwrap().components().count();
    is_page && !link.contains("://") && link.matches("../").count() <= outside
}

/// `.ci/run` renders the documentation with all features and with none, and each time runs this.
#[test]
#[ignore = "needs the folder of the rendered documentation in HAIRSPRING_RENDERED"]
fn links_in_the_rendered_documentation_lead_to_a_page() {
    let root = PathBuf::from(std::env::var_os("HAIRSPRING_RENDERED").expect("a folder")).join("hairspring");
    let mut count = 0;
    for path in files(&root).into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "html")) {
        let page = fs::read_to_string(&path).unwrap();
        for link in attributes(&page, "href=\"").chain(attributes(&page, "src=\"")) {
            if is_local(link, &path, &root) {
                let target = path.parent().unwrap().join(link);
                assert!(target.exists(), "{} links to {link}", path.strip_prefix(&root).unwrap().display());
                count += 1;
            }
        }
    }
    assert!(count > 1_000, "{count} links");
}

/// Or to an example: `examples` is a package of its own, so cargo leaves it out.
#[test]
fn the_packaged_readme_leads_to_what_is_packaged() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = Command::new(env!("CARGO")).args(["package", "--list", "--allow-dirty"]).current_dir(root).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let links: Vec<_> = readme.split("](").skip(1).map(|rest| rest.split([')', '#']).next().unwrap()).collect();
    assert!(links.len() > 10, "{links:?}");
    for link in links {
        let is_there = listed.lines().any(|file| file == link || file.starts_with(&format!("{link}/")))
            || link.starts_with("examples/") && root.join(link).exists();
        assert!(is_there, "README.md links to {link}, which the package leaves out");
    }
}
