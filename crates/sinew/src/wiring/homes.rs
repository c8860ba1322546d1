//! Rejects configuration and state directories of the user inside a project.
//! A project's file may set a client's variables, which must not make project files the user's own.
#![expect(clippy::disallowed_methods, reason = "looks for the files that mark a project")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::bail;
use sinew_guard::UserEntry;

use crate::config::clients;
use crate::config::{env_vars, real};

/// The mark of a project's top directory, beside client files.
const GIT: &str = ".git";

/// Returns the home directory of the user database, independent of variables.
pub(super) fn own() -> Option<PathBuf> {
    UserEntry::of_process().ok()??.home
}

/// Rejects user directories in the project around the current directory, or at an unusual path in any one.
pub(super) fn hold(current: &Path) -> anyhow::Result<()> {
    let home = own();
    let (own, current) = (home.as_ref().map(|home| real(home)), real(current));
    let marks = Marks::default();
    let dirs = [
        ("configuration", env_vars::XDG_CONFIG_HOME, env_vars::config_home(), ".config"),
        ("state", env_vars::XDG_STATE_HOME, env_vars::state_home(), ".local/state"),
    ];
    for (what, variable, dir, usual) in dirs {
        let Some(dir) = dir.or_else(|| Some(env_vars::home()?.join(usual))) else { continue };
        let is_usual = home.as_ref().is_some_and(|home| home.join(usual) == dir);
        let dir = real(&dir);
        let around = marks.project_around(&current, own.as_deref(), &dir);
        let other = || (!is_usual).then(|| marks.project_holding(own.as_deref(), &dir)).flatten();
        if let Some(project) = around.or_else(other) {
            bail!(
                "your {what} would be in {}, inside the project {}, where others may have written it; \
                 take HOME and {variable} out of what starts the server, or set {variable} to a directory \
                 outside",
                dir.display(),
                project.display()
            );
        }
    }
    Ok(())
}

/// Client variables that pass to the user's hooks, beside `LC_*`. None makes a program load code or settings.
const PASSED: [&str; 3] = ["LANG", "TERM", "TZ"];

/// Directories for the programs of hooks under any client `PATH`; the first list is in the home directory.
const PROGRAMS_AT_HOME: [&str; 4] = [".local/bin", "bin", ".cargo/bin", ".nix-profile/bin"];
const PROGRAMS: [&str; 10] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/snap/bin",
    "/run/current-system/sw/bin",
    "/nix/var/nix/profiles/default/bin",
    "/home/linuxbrew/.linuxbrew/bin",
];

/// Returns the hooks' variables in a process that a client started. Without a `home` from the user database,
/// `HOME` passes unchanged.
pub(super) fn variables_of_client(
    home: Option<OsString>,
    current: &Path,
) -> Vec<(OsString, OsString)> {
    let is_own = home.is_some();
    let passed = env_vars::all().filter_map(|(name, value)| {
        let passes = PASSED.iter().any(|passed| name == *passed)
            || name.as_bytes().starts_with(b"LC_")
            || (name == env_vars::HOME && !is_own);
        passes.then_some((name, value))
    });
    let at_home =
        home.iter().flat_map(|home| PROGRAMS_AT_HOME.map(|dir| Path::new(home).join(dir)));
    let named = outside_projects(std::env::split_paths(&env_vars::path()), current);
    let usual = at_home.chain(PROGRAMS.map(PathBuf::from));
    let usual = usual.filter(|dir| !named.contains(dir) && dir.is_dir());
    let path = std::env::join_paths(named.iter().cloned().chain(usual)).unwrap_or_default();
    let path = (OsString::from(env_vars::PATH), path);
    let user = UserEntry::of_process().ok().flatten().map(|entry| entry.name);
    let user =
        user.into_iter().flat_map(|user| ["USER", "LOGNAME"].map(|name| (name, user.clone())));
    let user = user.map(|(name, user)| (OsString::from(name), OsString::from(user)));
    let home = home.map(|home| (OsString::from(env_vars::HOME), home));
    passed.chain([path]).chain(user).chain(home).collect()
}

/// Returns the directories outside every project.
fn outside_projects(dirs: impl Iterator<Item = PathBuf>, current: &Path) -> Vec<PathBuf> {
    let own = own().map(|home| real(&home));
    let current = real(current);
    let marks = Marks::default();
    let is_outside = |dir: &PathBuf| {
        let dir = real(dir);
        dir.is_absolute()
            && marks.project_around(&current, own.as_deref(), &dir).is_none()
            && marks.project_holding(own.as_deref(), &dir).is_none()
    };
    dirs.filter(is_outside).collect()
}

/// Which directories hold a file that marks a project, each looked at once.
#[derive(Default)]
struct Marks(RefCell<HashMap<PathBuf, bool>>);

impl Marks {
    fn is_marked(&self, above: &Path) -> bool {
        if let Some(known) = self.0.borrow().get(above) {
            return *known;
        }
        let mut marks = clients::FILES.into_iter().chain([GIT]);
        let is_marked = marks.any(|mark| std::fs::symlink_metadata(above.join(mark)).is_ok());
        self.0.borrow_mut().insert(above.to_owned(), is_marked);
        is_marked
    }

    /// Returns the project that is or contains a directory, at any path.
    fn project_holding<'a>(&self, own: Option<&Path>, dir: &'a Path) -> Option<&'a Path> {
        let strange = |project: &&Path| !own.is_some_and(|own| own.starts_with(project));
        dir.ancestors().filter(strange).find(|above| self.is_marked(above))
    }

    /// Returns the project that contains both directories. The home directory and its ancestors are no projects.
    fn project_around<'a>(
        &self,
        current: &'a Path,
        own: Option<&Path>,
        dir: &Path,
    ) -> Option<&'a Path> {
        let strange = |project: &&Path| !own.is_some_and(|own| own.starts_with(project));
        let mut around = current.ancestors().filter(|above| dir.starts_with(above)).filter(strange);
        around.find(|above| *above == current || self.is_marked(above))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_in_a_project_are_not_the_persons() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = real(dir.path());
        for name in ["repo/.git", "repo/sub/deep", "repo/nested", "home/x", "z/.vscode", "z/sub"] {
            std::fs::create_dir_all(top.join(name)).expect("a directory");
        }
        std::fs::write(top.join("repo/nested/.mcp.json"), "{}").expect("a file");
        std::fs::write(top.join("z/.vscode/mcp.json"), "{}").expect("a file");
        let home = top.join("home");
        for (current, place, project) in [
            ("repo", "repo/state", Some("repo")),
            ("repo/sub/deep", "repo/state", Some("repo")),
            ("repo/nested", "repo/state", Some("repo")),
            ("repo/nested", "repo/nested/x", Some("repo/nested")),
            ("z/sub", "z/state", Some("z")),
            ("repo", "home/.local/state", None),
            ("home/x", "home/.local/state", None),
            ("home", "home/.local/state", None),
            ("home/x", "home/x/state", Some("home/x")),
        ] {
            let found = top.join(current);
            let found = Marks::default().project_around(&found, Some(&home), &top.join(place));
            let expected = project.map(|name| top.join(name));
            assert_eq!(found, expected.as_deref(), "{current} {place}");
        }
        for (place, project) in [
            ("repo/cfg", Some("repo")),
            ("repo", Some("repo")),
            ("z/a/b", Some("z")),
            ("home/x", None),
            ("other", None),
        ] {
            let place = top.join(place);
            let found = Marks::default().project_holding(Some(&home), &place);
            let expected = project.map(|name| top.join(name));
            assert_eq!(found, expected.as_deref(), "{}", place.display());
        }
        let list = ["home/bin", "repo/bin", "z/sub", "other"].map(|name| top.join(name));
        let list = list.into_iter().chain([PathBuf::from("bin")]);
        let kept = outside_projects(list, &top.join("home/x"));
        assert_eq!(kept, ["home/bin", "other"].map(|name| top.join(name)));
        let alone = Marks::default().project_around(&home, None, &home).map(Path::to_owned);
        assert_eq!(alone, Some(home.clone()), "where the machine does not know the home");
    }
}
