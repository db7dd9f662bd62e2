//! Rewrites the paths of programs from `tokio::time` to hairspring, and edits their manifests: see `--help`.

mod arguments;
mod manifest;
mod members;
mod plan;
mod sources;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use arguments::Arguments;
use manifest::Manifests;
use members::{Member, Part};
use sources::Totals;

fn main() -> ExitCode {
    match Arguments::read(env::args_os().skip(1)) {
        Ok(Some(arguments)) => match run(&arguments) {
            Ok(code) => code,
            Err(error) => failed(&error),
        },
        Ok(None) => {
            print!("{}", arguments::HELP);
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &str) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(2)
}

fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let check = arguments.check;
    let mut totals = Totals::default();
    let (packages, others): (Vec<_>, Vec<_>) = arguments.paths.iter().partition(|path| arguments::is_package(path));
    // Reads all manifests before it writes anything.
    let workspaces = packages.into_iter().map(|path| members::find(path)).collect::<Result<Vec<_>, _>>()?;
    let mut manifests = Manifests::new(arguments.checkout.clone());
    for workspace in &workspaces {
        if workspace.is_virtual {
            totals.find(&workspace.root, workspace);
        }
        for member in &workspace.members {
            let needs = totals.package(member, workspace, check);
            manifests.add(workspace, member, plan::plan(member, &needs))?;
        }
    }
    let of_others = others_need(&others, arguments, &mut totals);
    println!("{} of {} files {}", totals.changed, totals.files, if check { "to change" } else { "changed" });
    print_comments(&totals.comments);
    let writes = arguments.manifests && !check;
    if writes {
        manifests.write().map_err(|error| format!("a manifest cannot be written: {error}"))?;
    }
    let mut edited = 0;
    for (path, lines) in manifests.edited() {
        println!("\n{} {}:\n{lines}", path.display(), if writes { "now has" } else { "needs" });
        edited += 1;
    }
    if !of_others.is_empty() {
        println!("`pause`, `resume`, `advance` and some others need lines like these in Cargo.toml:\n{of_others}");
    }
    let is_to_change = totals.changed > 0 || arguments.manifests && edited > 0;
    Ok(ExitCode::from(if totals.left_alone > 0 { 2 } else { u8::from(check && is_to_change) }))
}

/// Rewrites files and folders without a manifest. Returns what one needs besides the dependency.
fn others_need(paths: &[&PathBuf], arguments: &Arguments, totals: &mut Totals) -> String {
    let mut files = Vec::new();
    for path in paths {
        sources::find(path, &mut files, None).unwrap_or_else(|error| totals.leave_alone(path, &error));
    }
    let member = Member::default();
    let needs = totals.files(&files, &member, arguments.check);
    let mut lines = plan::plan(&member, &needs);
    let is_plain = |line: &plan::Line| {
        matches!(line, plan::Line::Dependency { part, features, .. }
        if features.is_empty() && *part != Part::Build)
    };
    lines.retain(|line| !is_plain(line));
    manifest::text_without_package(arguments.checkout.clone(), lines)
}

/// In one line, because comments need no change.
fn print_comments(places: &[String]) {
    const SHOWN: usize = 3;
    if places.is_empty() {
        return;
    }
    let more = if places.len() > SHOWN { ", .." } else { "" };
    let shown = places[..places.len().min(SHOWN)].join(", ");
    let lines = if places.len() == 1 { "line has a comment that names" } else { "lines have comments that name" };
    println!("{} {lines} what was moved, left as it is: {shown}{more}", places.len());
}
