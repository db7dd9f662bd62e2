//! The command line.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use toml_edit::DocumentMut;

use crate::members;

pub(crate) const HELP: &str = "\
Usage: hairspring-migrate [--check] [--manifests] [--path CHECKOUT] PATH..

Rewrites paths and imports of tokio::time (also as re-exported by actix, Rocket and n0-future), tokio_util::time,
tokio_util::future::FutureExt and tokio-stream's IntervalStream. PATH is the root of a workspace, the folder of a
package, another folder with .rs files, or a file. Of a workspace all members are rewritten, and printed is what each
member's Cargo.toml needs. Folders called `target`, hidden ones and those that do not exist are skipped. Strings,
comments and formatting stay as they are. Prints what may be another timer of tokio's, with line numbers of the old
file. Look at the diff afterwards, and run cargo fmt.

  --check          change nothing; print what would change
  --manifests      also write what each Cargo.toml needs; each PATH is a folder with a Cargo.toml
  --path CHECKOUT  depend on this checkout of hairspring, and not on the published version
  --help           print this

Exits with 1 if --check finds something to change, with 2 on bad arguments or if it left a file alone.
";

const OPTIONS: &str = "--check, --manifests, --path CHECKOUT, --help";

#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) check: bool,
    pub(crate) manifests: bool,
    /// The folder of hairspring, absolute.
    pub(crate) checkout: Option<PathBuf>,
    pub(crate) paths: Vec<PathBuf>,
}

impl Arguments {
    /// `None` if the user asks for help.
    pub(crate) fn read(mut given: impl Iterator<Item = OsString>) -> Result<Option<Arguments>, String> {
        let mut arguments = Arguments::default();
        let mut checkout = None;
        while let Some(argument) = given.next() {
            match argument.to_str() {
                Some("--help" | "-h") => return Ok(None),
                Some("--check") => arguments.check = true,
                Some("--manifests") => arguments.manifests = true,
                Some("--path") => {
                    checkout = Some(given.next().ok_or("`--path` needs the folder of a checkout of hairspring")?);
                }
                Some(option) if option.starts_with("--path=") => checkout = Some(option["--path=".len()..].into()),
                Some(option) if option.starts_with('-') => {
                    return Err(format!("there is no option `{option}`; allowed: {OPTIONS}"));
                }
                _ => arguments.paths.push(PathBuf::from(argument)),
            }
        }
        arguments.checkout = checkout.map(|folder| find_checkout(Path::new(&folder))).transpose()?;
        let is_there = |path: &PathBuf| path.extension().is_some() || path.try_exists().unwrap_or(true);
        let (paths, missing): (Vec<_>, Vec<_>) = arguments.paths.into_iter().partition(is_there);
        for path in missing {
            eprintln!("{}: skipped: there is no such folder", path.display());
        }
        if paths.is_empty() {
            return Err("name files or folders that exist, such as `.` or `src`; see --help".to_owned());
        }
        if let Some(path) = paths.iter().find(|path| arguments.manifests && !is_package(path)) {
            let path = path.display();
            return Err(format!(
                "`{path}` has no Cargo.toml; with --manifests, name the folder of a workspace or package"
            ));
        }
        Ok(Some(Arguments { paths, ..arguments }))
    }
}

/// Whether a path is the folder of a package or workspace.
pub(crate) fn is_package(path: &Path) -> bool {
    path.join("Cargo.toml").is_file()
}

fn find_checkout(folder: &Path) -> Result<PathBuf, String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let manifest = manifest.parse::<DocumentMut>().unwrap_or_default();
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(|name| name.as_str());
    let allowed = "allowed is a folder whose Cargo.toml has the package `hairspring`";
    let error = format!("`{}` is no checkout of hairspring; {allowed}", folder.display());
    let path = members::absolute(folder).map_err(|_| error.clone())?;
    if name == Some("hairspring") { Ok(path) } else { Err(error) }
}
