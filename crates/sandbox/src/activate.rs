//! The environment that a project asks for, if the user allows it.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

sinew_tool::word_enum! {
    /// The kinds of environment that sinew looks for in the working directory and above it, up to its root.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Activate {
        /// A virtual environment of Python: its programs come first.
        Venv = "venv",
        /// What direnv makes of an `.envrc` that the user allowed.
        Direnv = "direnv",
    }
}

/// Names that virtual environments have.
const VENVS: &[&str] = &[".venv", "venv"];

/// Returns the virtual environment of a directory beneath one of the roots.
pub(super) fn venv(cwd: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let is_venv = |dir: &PathBuf| fs::metadata(dir.join("pyvenv.cfg")).is_ok();
    up_to_root(cwd, roots).flat_map(|dir| VENVS.iter().map(|name| dir.join(name))).find(is_venv)
}

/// Returns the files that direnv may read for a directory beneath one of the roots, existing or not.
pub(super) fn files(cwd: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    let names = [".envrc", ".env"];
    up_to_root(cwd, roots).flat_map(|dir| names.map(|name| dir.join(name))).collect()
}

/// Returns whether direnv has something to do in a directory beneath one of the roots.
pub(super) fn has_envrc(cwd: &Path, roots: &[PathBuf]) -> bool {
    up_to_root(cwd, roots).any(|dir| fs::metadata(dir.join(".envrc")).is_ok())
}

/// Puts a virtual environment into an environment.
pub(super) fn enter(venv: &Path, env: &mut Vec<(OsString, OsString)>) {
    let old = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
    let dirs = std::iter::once(venv.join("bin"));
    let dirs = dirs.chain(std::env::split_paths(old.as_deref().unwrap_or(OsStr::new(""))));
    // A directory with a colon in its name cannot be one of several.
    let Ok(path) = std::env::join_paths(dirs) else { return };
    env.retain(|(name, _)| name != "PATH" && name != "VIRTUAL_ENV");
    env.push((OsString::from("PATH"), path));
    env.push((OsString::from("VIRTUAL_ENV"), venv.into()));
}

fn up_to_root<'a>(cwd: &'a Path, roots: &'a [PathBuf]) -> impl Iterator<Item = &'a Path> {
    cwd.ancestors().take_while(|dir| roots.iter().any(|root| dir.starts_with(root)))
}
