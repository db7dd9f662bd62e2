//! What the documents say of the repository holds.

use std::fs;
use std::path::Path;

/// Each test that docs/bugs.md names is in the file that it links to.
#[test]
fn the_tests_that_the_table_of_bugs_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("docs/bugs.md")).unwrap();
    let mut links = 0;
    for link in table.split("[`").skip(1) {
        let (test, rest) = link.split_once("`](../").expect("a test, and the file that it is in");
        let (file, _) = rest.split_once(')').unwrap();
        let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(source.contains(&format!("fn {test}()")), "{file} has no test {test}");
        links += 1;
    }
    assert!(links > 50, "{links} links");
    for row in table.lines().filter(|row| row.starts_with("| ") && !row.starts_with("| **")).skip(1) {
        assert!(row.contains("[`"), "no test is named for this bug: {row}");
    }
}
