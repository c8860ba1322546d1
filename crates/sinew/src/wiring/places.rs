//! Finds the user's configuration and state directories, by the home directory of the user database.
//!
//! A repository can set `HOME`, `XDG_CONFIG_HOME` and `XDG_STATE_HOME` for `sinew mcp`. So that home's
//! configuration always binds, and variables only add another. Without an existing home there, they count.
#![expect(clippy::disallowed_methods, reason = "looks for the home directory of the user database")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use sinew_guard::UserEntry;

use crate::config::{Origin, env_vars, real};

const CONFIG: &str = ".config";
const STATE: &str = ".local/state";
/// sinew's subdirectory of the configuration and state directories.
const SINEW: &str = "sinew";

/// The home directory of the user database, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DatabaseHome {
    Known(PathBuf),
    /// There is none, so variables count.
    None(String),
    /// The user database cannot be read.
    Unreadable(String),
}

/// The user's configuration and state directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) database: DatabaseHome,
    home: Option<PathBuf>,
    /// The value of `HOME`, absolute or relative.
    written_home: Option<OsString>,
    config_home: Option<PathBuf>,
    state_home: Option<PathBuf>,
}

/// A directory that a variable names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedDir {
    /// Its path, with sinew's subdirectory.
    pub(crate) path: PathBuf,
    /// The variable that names it.
    pub(crate) variable: &'static str,
}

impl NamedDir {
    pub(crate) fn origin(&self) -> Origin {
        Origin::Variable(self.variable)
    }
}

impl Places {
    /// Returns the places of this process.
    pub(crate) fn of_process() -> Self {
        Self {
            database: DatabaseHome::look(),
            home: env_vars::home(),
            written_home: env_vars::written_home(),
            config_home: env_vars::config_home(),
            state_home: env_vars::state_home(),
        }
    }

    /// Returns the places of a process with these additional variables.
    pub(crate) fn with(mut self, variables: &BTreeMap<&str, String>) -> Self {
        if let Some(value) = variables.get(env_vars::HOME) {
            self.written_home = Some(OsString::from(value));
        }
        for (name, place) in [
            (env_vars::HOME, &mut self.home),
            (env_vars::XDG_CONFIG_HOME, &mut self.config_home),
            (env_vars::XDG_STATE_HOME, &mut self.state_home),
        ] {
            if let Some(value) = variables.get(name) {
                // Only the client can expand a variable in it.
                let is_named = |path: &PathBuf| path.is_absolute() || value.contains('$');
                *place = Some(PathBuf::from(value)).filter(is_named);
            }
        }
        self
    }

    /// Returns the places without variables.
    pub(crate) fn of_database() -> Self {
        let database = DatabaseHome::look();
        match database {
            DatabaseHome::Known(_) => Self {
                database,
                home: None,
                written_home: None,
                config_home: None,
                state_home: None,
            },
            _ => Self::of_process(),
        }
    }

    /// Returns the configuration directory that always binds.
    pub(crate) fn config(&self) -> Option<PathBuf> {
        self.bound(CONFIG).or_else(|| Some(self.named_config()?.path))
    }

    /// Returns another configuration directory that variables name.
    pub(crate) fn other_config(&self) -> Option<NamedDir> {
        Self::differing(self.bound(CONFIG)?, self.named_config()?)
    }

    /// Returns the user's state directory.
    pub(crate) fn state(&self) -> Option<PathBuf> {
        self.bound(STATE).or_else(|| Some(self.named_state()?.path))
    }

    /// Returns another state directory that variables name.
    pub(crate) fn other_state(&self) -> Option<NamedDir> {
        Self::differing(self.bound(STATE)?, self.named_state()?)
    }

    /// Returns the state directory of a process whose variables the user set.
    pub(crate) fn chosen_state(&self) -> Option<PathBuf> {
        self.other_state().map(|other| other.path).or_else(|| self.state())
    }

    /// Returns the user's home directories: of the user database and of `HOME`.
    pub(crate) fn homes(&self) -> Vec<PathBuf> {
        let own = self.database.known().map(Path::to_owned);
        let is_own = |home: &PathBuf| own.as_deref().is_some_and(|own| is_same(own, home));
        let named = self.home.clone().filter(|home| !is_own(home));
        own.into_iter().chain(named).collect()
    }

    /// Returns `HOME` if it differs from the user database's home, even if relative or empty.
    pub(crate) fn other_home(&self) -> Option<&OsString> {
        let (own, written) = (self.database.known()?, self.written_home.as_ref()?);
        let path = Path::new(written);
        (!path.is_absolute() || !is_same(path, own)).then_some(written)
    }

    /// Returns the variables that name another directory, as shell assignments.
    pub(crate) fn said(&self) -> Vec<(&'static str, OsString)> {
        let others = [self.other_config(), self.other_state()];
        let names: Vec<_> = others.into_iter().flatten().map(|other| other.variable).collect();
        let written = |path: &Option<PathBuf>| path.clone().map(PathBuf::into_os_string);
        let home = self.other_home().cloned().map(|home| (env_vars::HOME, home));
        let dirs = [
            (env_vars::XDG_CONFIG_HOME, written(&self.config_home)),
            (env_vars::XDG_STATE_HOME, written(&self.state_home)),
        ];
        let dirs = dirs.into_iter().filter(|(name, _)| names.contains(name));
        home.into_iter().chain(dirs.filter_map(|(name, value)| Some((name, value?)))).collect()
    }

    fn bound(&self, usual: &str) -> Option<PathBuf> {
        Some(self.database.known()?.join(usual).join(SINEW))
    }

    fn named_config(&self) -> Option<NamedDir> {
        self.named(env_vars::XDG_CONFIG_HOME, self.config_home.as_ref(), CONFIG)
    }

    fn named_state(&self) -> Option<NamedDir> {
        self.named(env_vars::XDG_STATE_HOME, self.state_home.as_ref(), STATE)
    }

    fn named(
        &self,
        variable: &'static str,
        value: Option<&PathBuf>,
        usual: &str,
    ) -> Option<NamedDir> {
        match value {
            Some(dir) => Some(NamedDir { path: dir.join(SINEW), variable }),
            None => {
                let path = self.home.as_ref()?.join(usual).join(SINEW);
                Some(NamedDir { path, variable: env_vars::HOME })
            }
        }
    }

    fn differing(bound: PathBuf, named: NamedDir) -> Option<NamedDir> {
        (!is_same(&bound, &named.path)).then_some(named)
    }
}

/// Returns whether two paths lead to the same place. Most are the same text, so that no directory is looked at.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || real(one) == real(other)
}

impl DatabaseHome {
    fn look() -> Self {
        let home = match UserEntry::of_process() {
            Ok(Some(entry)) => entry.home,
            Ok(None) => return Self::None(String::from("the user database has no entry for you")),
            Err(error) => return Self::Unreadable(format!("the user database: {error}")),
        };
        match home {
            None => Self::None(String::from("your entry of the user database names no directory")),
            Some(home) => match unusable(&home) {
                None => Self::Known(home),
                Some(why) => Self::None(format!(
                    "the home directory of your entry in the user database {why}: {}",
                    home.display()
                )),
            },
        }
    }

    pub(crate) fn known(&self) -> Option<&Path> {
        match self {
            Self::Known(home) => Some(home),
            Self::None(_) | Self::Unreadable(_) => None,
        }
    }
}

/// Returns why a path is certainly no directory. Other errors return `None`, since its files may bind.
fn unusable(home: &Path) -> Option<&'static str> {
    match std::fs::metadata(home) {
        Ok(meta) => (!meta.is_dir()).then_some("is not a directory"),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Some("does not exist"),
            io::ErrorKind::NotADirectory => Some("is beneath a file"),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_never_replace_the_home_of_the_database() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = real(dir.path());
        let at = |name: &str| top.join(name);
        std::fs::create_dir_all(at("me/.config/sinew")).expect("a directory");
        std::os::unix::fs::symlink(at("me/.config"), at("link")).expect("a link");
        let plain = Places {
            database: DatabaseHome::Known(at("me")),
            home: Some(at("me")),
            written_home: Some(at("me").into()),
            config_home: None,
            state_home: None,
        };
        let text = |name: &str| at(name).display().to_string();
        for (variables, other_config, other_state) in [
            (BTreeMap::new(), None, None),
            (BTreeMap::from([("HOME", String::new())]), None, None),
            (BTreeMap::from([("HOME", String::from("x"))]), None, None),
            (BTreeMap::from([("HOME", text("me/"))]), None, None),
            (BTreeMap::from([("XDG_CONFIG_HOME", text("link"))]), None, None),
            (
                BTreeMap::from([("HOME", text("x"))]),
                Some((at("x/.config/sinew"), "HOME")),
                Some((at("x/.local/state/sinew"), "HOME")),
            ),
            (
                BTreeMap::from([("XDG_CONFIG_HOME", text("x"))]),
                Some((at("x/sinew"), "XDG_CONFIG_HOME")),
                None,
            ),
            (
                BTreeMap::from([("XDG_STATE_HOME", String::from("${A}/x"))]),
                None,
                Some((PathBuf::from("${A}/x/sinew"), "XDG_STATE_HOME")),
            ),
        ] {
            let places = plain.clone().with(&variables);
            assert_eq!(places.config(), Some(at("me/.config/sinew")), "{variables:?}");
            assert_eq!(places.state(), Some(at("me/.local/state/sinew")), "{variables:?}");
            let told = |dir: Option<NamedDir>| dir.map(|dir| (dir.path, dir.variable));
            assert_eq!(told(places.other_config()), other_config, "{variables:?}");
            assert_eq!(told(places.other_state()), other_state, "{variables:?}");
        }
        // Without an entry only the variables count.
        let bare = Places { database: DatabaseHome::None(String::new()), ..plain };
        let bare = bare.with(&BTreeMap::from([("HOME", text("x"))]));
        assert_eq!(bare.config(), Some(at("x/.config/sinew")));
        assert_eq!((bare.other_config(), bare.other_state()), (None, None));
    }
}
