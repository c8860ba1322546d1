//! What arguments and variables may say where they may come out of a repository.
//!
//! A client starts `sinew mcp` with what a file of a project says, so such a layer can only tighten, but for
//! what loosens nothing: the vocabulary, the tools that are served, the name of the session, what is written
//! to standard error, roots that the client is in anyway, and that the client's own confirmation counts.
#![expect(clippy::disallowed_methods, reason = "roots are compared by where they really are")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use sinew_guard::Layer;

use super::super::env_vars;
use super::tighten::tightened;
use super::{ConfigError, HOOKS_DIR, Layers, LeftOut, Origin, USER_FILE, words};

impl Layers {
    /// Adds a directory of the configuration that variables name beside the user's own. Where variables can come
    /// out of a repository, it only tightens, and none of its hooks run.
    pub fn add_named_dir(&mut self, dir: &Path, origin: Origin) -> Result<(), ConfigError> {
        if self.held.is_none() {
            return self.add_user_dir(dir);
        }
        self.leave_out_place(env_vars::XDG_CONFIG_HOME, dir, origin);
        self.add_file(&dir.join(USER_FILE), Layer::Session, false)?;
        self.leave_out_hook_folders(&dir.join(HOOKS_DIR))
    }

    /// Leaves out a state directory that variables name, where they can come out of a repository: its grants
    /// would allow calls, and the user's ledger would miss them.
    pub fn leave_out_state(&mut self, dir: &Path, origin: Origin) {
        if self.held.is_some() {
            self.leave_out_place(env_vars::XDG_STATE_HOME, dir, origin);
        }
    }

    /// Leaves out a home directory that a variable names: the user's hooks would take settings and modules from it.
    pub fn leave_out_home(&mut self, home: &OsStr) {
        if self.held.is_some() {
            let (key, value) = (env_vars::HOME.to_owned(), Value::from(home.to_string_lossy()));
            self.left_out.push(LeftOut { key, value, origin: Origin::Variable(env_vars::HOME) });
        }
    }

    fn leave_out_place(&mut self, key: &str, dir: &Path, origin: Origin) {
        let value = Value::from(said(&real(dir)));
        self.left_out.push(LeftOut { key: key.to_owned(), value, origin });
    }

    /// Returns what is taken of a value that was said, and what is not.
    pub(super) fn argued(&self, key: &str, new: Value) -> (Option<Value>, Option<Value>) {
        let old = self.values.get(key);
        let value = match key {
            "dialect" | "session" | "log" => Some(new.clone()),
            // Whoever wrote which tools are served meant it.
            "serve" if old.is_none_or(|(_, origin)| origin.layer() == Layer::Session) => {
                Some(new.clone())
            }
            "roots" => return self.argued_roots(&new),
            // A person who wrote something else meant it.
            "approvals" if new.as_str() == Some("trust-client") => {
                let is_free = old.is_none_or(|(_, origin)| *origin == Origin::Default);
                let old = old.map(|(old, _)| old);
                if is_free { Some(new.clone()) } else { tightened(key, old, new.clone()) }
            }
            _ => tightened(key, old.map(|(old, _)| old), new.clone()),
        };
        match value {
            None => (None, Some(new)),
            taken => (taken, None),
        }
    }

    /// Takes roots at or below the current directory or one that somebody else named.
    fn argued_roots(&self, new: &Value) -> (Option<Value>, Option<Value>) {
        let Some(current) = &self.held else { return (Some(new.clone()), None) };
        let named = self.values.get("roots").map(|(old, _)| words(old)).unwrap_or_default();
        let named: Vec<PathBuf> = named.into_iter().map(|root| real(&current.join(root))).collect();
        let current_is = real(current);
        let lies_there = |root: &&str| {
            let root = real(&current.join(root));
            let is_home = self.homes.iter().any(|home| home.starts_with(&root));
            let is_below = root.starts_with(&current_is) && !is_home && root != Path::new("/");
            is_below || named.iter().any(|dir| root.starts_with(dir))
        };
        let (taken, left): (Vec<&str>, Vec<&str>) = words(new).into_iter().partition(lies_there);
        let list = |roots: Vec<&str>| Value::from(roots);
        let left_out = (!left.is_empty())
            .then(|| Value::from_iter(left.iter().map(|root| said(&real(&current.join(root))))));
        (((!taken.is_empty()) || left_out.is_none()).then(|| list(taken)), left_out)
    }
}

fn said(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns where a path really is; of what is not there yet, as far as it is there.
pub fn real(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut above = path;
    loop {
        if let Ok(mut real) = fs::canonicalize(above) {
            for part in rest.into_iter().rev() {
                match part {
                    Component::ParentDir => drop(real.pop()),
                    part => real.push(part),
                }
            }
            return real;
        }
        let Some(part) = above.components().next_back() else { return path.to_owned() };
        rest.push(part);
        let Some(parent) = above.parent() else { return path.to_owned() };
        above = parent;
    }
}
