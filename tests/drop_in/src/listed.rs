//! The list of crates, in the file `crates`.

/// A crate whose tests are run.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Arguments of `cargo test`.
    pub(crate) arguments: Vec<String>,
    /// Dependencies to leave out, because only benches, examples or documentation use them.
    pub(crate) without: Vec<String>,
    /// Development dependencies that were not published: lines of a manifest.
    pub(crate) with: Vec<String>,
    /// Tests that fail only on hairspring, by the ends of their names, with the reason.
    pub(crate) differs: Vec<(String, String)>,
    /// Tests that do so sometimes.
    pub(crate) sometimes: Vec<(String, String)>,
    /// A remark for the table.
    pub(crate) remark: String,
    /// Hairspring depends on this crate, so only its tests can use hairspring.
    pub(crate) only_tests: bool,
    /// Its development dependencies depend on it, and have to use the same copy.
    pub(crate) itself: bool,
    /// Files of tests that `--timers` runs.
    pub(crate) timers: Vec<String>,
}

/// Reads the list: a line for each crate, with indented lines about it below.
pub(crate) fn read(text: &str) -> Result<Vec<Listed>, String> {
    let mut crates: Vec<Listed> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("crates, line {}: {what}: {line}", index + 1);
        let mut words = line.split_whitespace();
        let Some(first) = words.next().filter(|word| !word.starts_with('#')) else { continue };
        let rest: Vec<String> = words.map(str::to_owned).collect();
        if !line.starts_with(' ') {
            let (version, arguments) = rest.split_first().ok_or_else(|| wrong("a version is missing"))?;
            crates.push(Listed {
                name: first.to_owned(),
                version: version.clone(),
                arguments: arguments.to_vec(),
                without: Vec::new(),
                with: Vec::new(),
                differs: Vec::new(),
                sometimes: Vec::new(),
                remark: String::new(),
                only_tests: false,
                itself: false,
                timers: Vec::new(),
            });
            continue;
        }
        let last = crates.last_mut().ok_or_else(|| wrong("a crate comes first"))?;
        match first {
            "without" => last.without.extend(rest),
            "with" => last.with.push(rest.join(" ")),
            "timers" => last.timers.extend(rest),
            "only_tests" => last.only_tests = true,
            "itself" => last.itself = true,
            "remark" => last.remark = rest.join(" "),
            "differs" | "sometimes" => {
                let (name, why) = rest.split_first().ok_or_else(|| wrong("a name is missing"))?;
                let tests = if first == "differs" { &mut last.differs } else { &mut last.sometimes };
                tests.push((name.clone(), why.join(" ")));
            }
            _ => return Err(wrong("allowed: without, with, only_tests, itself, timers, remark, differs, sometimes")),
        }
    }
    Ok(crates)
}
