//! What the library rewrites and notes, and what the command does with files, packages and workspaces.

mod command;
mod common;
mod manifests;
mod needs;
mod notes;
mod rewrite;
mod staying;
mod workspace;
