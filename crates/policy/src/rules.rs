//! Path rules: which paths beneath the roots calls may touch.
//!
//! Configured globs match the real absolute path, after symlinks. Deny beats allow in any order, and neither
//! widens the roots. An invalid glob is an error at start: a deny rule that never matches protects nothing.
//! sinew's own directory is closed, except for parts that are meant to be read.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sinew_tool::{Access, FileError, visible};

use crate::globs::{Globs, RuleError, Written};
use sinew_fs::roots::Roots;

/// Why sinew's own state is refused.
pub const OWN_STATE: &str =
    "it belongs to sinew's own state, which no tool may touch and no setting shows";

/// Returns why a path is refused that these paths of the settings hide.
pub fn holds_secrets<'p>(hidden_by: impl IntoIterator<Item = &'p PathBuf>) -> String {
    format!("it holds secrets by its name; `{}` shows it all the same", showing(hidden_by))
}

/// Returns the configuration line that shows hidden or private paths. A file in a hidden directory opens with the directory
/// alone.
pub fn showing<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> String {
    let paths = paths.into_iter().map(|path| path.to_string_lossy());
    format!("run.show = {}", serde_json::Value::from_iter(paths))
}

/// Configuration keys of the lists.
const ALLOW: &str = "`tools.fs.allow_paths`";
const DENY: &str = "`tools.fs.deny_paths`";

/// Compiled path globs, and closed directories.
#[derive(Debug)]
pub struct PathRules {
    allow: Option<Globs>,
    deny: Option<Globs>,
    closed: Vec<PathBuf>,
    /// Real paths that commands do not see either, of which there may be hundreds, each with its path in the settings.
    hidden: HashMap<PathBuf, PathBuf>,
}

/// Path globs as written, with what they mean for the roots.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathGlobs {
    allow: Vec<Written>,
    deny: Vec<Written>,
}

impl PathGlobs {
    /// Returns the configured globs. A root as it was given also stands for its real path.
    pub fn new(allow: &[String], deny: &[String], roots: &Roots) -> Result<Self, RuleError> {
        Ok(Self {
            allow: Written::all(ALLOW, allow, roots, false)?,
            deny: Written::all(DENY, deny, roots, true)?,
        })
    }

    /// Returns whether there are no globs.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}

impl PathRules {
    /// Compiles the globs; no call may touch `closed` directories.
    pub fn compile(globs: &PathGlobs, closed: &[PathBuf]) -> Result<Self, RuleError> {
        Ok(Self {
            allow: Globs::compile(ALLOW, &globs.allow, false)?,
            deny: Globs::compile(DENY, &globs.deny, true)?,
            closed: closed.to_vec(),
            hidden: HashMap::new(),
        })
    }

    /// Hides files and directories: their real paths, each with its path in the settings.
    pub fn hiding(self, hidden: HashMap<PathBuf, PathBuf>) -> Self {
        Self { hidden, ..self }
    }

    /// Returns whether every path beneath the roots passes, apart from sinew's own.
    pub fn is_empty(&self) -> bool {
        self.allow.is_none()
            && self.deny.is_none()
            && self.closed.is_empty()
            && self.hidden.is_empty()
    }

    /// Returns whether a path beneath a directory may be denied, so that a walk must judge each entry.
    pub(crate) fn judge_beneath(&self, dir: &Path) -> bool {
        let near = |closed: &PathBuf| closed.starts_with(dir) || dir.starts_with(closed);
        let mut closed = self.closed.iter().chain(self.hidden.keys());
        self.allow.is_some() || self.deny.is_some() || closed.any(near)
    }

    /// Rejects a real path that no call may touch.
    pub fn check(&self, real: &Path) -> Result<(), FileError> {
        self.check_denied(real)?;
        match &self.allow {
            Some(allow) if allow.first_match(real).is_none() => Err(FileError::Denied(
                String::from("no glob of `allow_paths` covers it; add one to the configuration"),
            )),
            _ => Ok(()),
        }
    }

    /// Rejects a real directory that no search may enter. One above an allowed path may be entered.
    pub fn check_search(&self, real: &Path) -> Result<(), FileError> {
        self.check_denied(real)?;
        match &self.allow {
            Some(allow) if !allow.may_lie_beneath(real) => self.check(real),
            _ => Ok(()),
        }
    }

    /// Returns whether the globs may judge paths beneath this directory unlike those beneath another.
    pub(crate) fn tell_apart_beneath(&self, dir: &Path) -> bool {
        self.allow.is_some() || self.deny.as_ref().is_some_and(|deny| deny.may_lie_beneath(dir))
    }

    fn check_denied(&self, real: &Path) -> Result<(), FileError> {
        if self.closed.iter().any(|closed| real.starts_with(closed)) {
            return Err(FileError::Denied(String::from(OWN_STATE)));
        }
        let mut hidden_by = real.ancestors().filter_map(|path| self.hidden.get(path)).peekable();
        if !self.hidden.is_empty() && hidden_by.peek().is_some() {
            return Err(FileError::Denied(holds_secrets(hidden_by)));
        }
        self.check_globs(real)
    }

    /// Rejects a real path that a glob of `deny_paths` names.
    pub fn check_globs(&self, real: &Path) -> Result<(), FileError> {
        match self.deny.as_ref().and_then(|deny| deny.first_match(real)) {
            Some(glob) => {
                Err(FileError::Denied(format!("the glob `{glob}` of `deny_paths` denies it")))
            }
            None => Ok(()),
        }
    }
}

/// sinew's own directory.
const OWN: &str = ".sinew";

/// Readable parts of sinew's own directory: these files, and everything beneath these directories.
const OWN_READABLE: &[&str] = &["config.toml", "memory.md", "skills/", "tool-output/"];

/// Returns sinew's own directory at the top of a root, if it exists: no command may change it.
pub fn own_at(root: &Path) -> Option<PathBuf> {
    Some(root.join(OWN)).filter(|path| rustix::fs::lstat(path).is_ok())
}

/// Rejects access to sinew's own directory, at any depth beneath a root, unless it reads a readable part.
/// `named` is the end of a real path, from the name of the root on.
pub fn check_own(named: &Path, access: Access) -> Result<(), FileError> {
    let Some(at) = named.iter().position(is_own) else { return Ok(()) };
    if access.changes() {
        return Err(FileError::Denied(String::from(
            "`.sinew` belongs to sinew and changes only through its own tools",
        )));
    }
    let rest = named.iter().skip(at + 1).map(fold).collect::<Vec<_>>().join("/");
    let readable = OWN_READABLE.iter().any(|rule| match rule.strip_suffix('/') {
        Some(dir) => rest == dir || rest.starts_with(rule),
        None => rest == *rule,
    });
    if readable || (rest.is_empty() && access == Access::Search) {
        return Ok(());
    }
    Err(FileError::Denied(String::from(
        "of `.sinew` only stored outputs, configuration, skills and MEMORY.md may be read",
    )))
}

/// Returns whether a component names sinew's own directory.
pub fn is_own(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_ascii() { bytes.eq_ignore_ascii_case(OWN.as_bytes()) } else { fold(name) == OWN }
}

/// Folds a name as case-insensitive file systems may see it, without invisible characters.
pub(crate) fn fold(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars()
        .filter(|c| !visible::is_ignorable(*c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}
