//! Restricts the arguments and variables of a server that a client starts.
//!
//! They may come from a project file, so they can only tighten. Exceptions loosen nothing: dialect, served
//! tools, session name, log level, roots below the current directory, and trust in its own confirmations.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sinew_guard::{Layer, real};

use super::super::env_vars;
use super::super::files::HOOKS_DIR;
use super::tighten::tightened;
use super::{ConfigError, Layers, LeftOut, Origin, USER_FILE, words};

impl Layers {
    /// Adds a configuration directory that variables name beside the user's own. If variables may come from a
    /// repository, it only tightens and its hooks are left out.
    pub fn add_named_dir(&mut self, dir: &Path, origin: Origin) -> Result<(), ConfigError> {
        if self.held.is_none() {
            return self.add_user_dir(dir);
        }
        self.leave_out_place(env_vars::XDG_CONFIG_HOME, dir, origin);
        self.add_file(&dir.join(USER_FILE), Layer::Session, false)?;
        self.leave_out_hook_folders(&dir.join(HOOKS_DIR))
    }

    /// Drops a state directory from untrusted variables: its grants would allow calls, and the user's ledger
    /// would miss them.
    pub fn leave_out_state(&mut self, dir: &Path, origin: Origin) {
        if self.held.is_some() {
            self.leave_out_place(env_vars::XDG_STATE_HOME, dir, origin);
        }
    }

    /// Drops an untrusted `HOME`: the user's hooks would load settings and modules from it.
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

    /// Splits an argument's value into the accepted and the dropped part.
    pub(super) fn argued(&self, key: &str, new: Value) -> (Option<Value>, Option<Value>) {
        let old = self.values.get(key);
        let value = match key {
            "dialect" | "session" | "log" => Some(new.clone()),
            // Without a value from a file any list counts.
            "serve" if old.is_none_or(|(_, origin)| origin.layer() == Layer::Session) => {
                Some(new.clone())
            }
            "roots" => return self.argued_roots(&new),
            // A mode that another layer set may only be tightened.
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

    /// Accepts roots at or below the current directory or a root of another layer.
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
