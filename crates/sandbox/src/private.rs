//! Private directories, such as the home directory: commands see only the roots and what is shown of them.
#![expect(clippy::disallowed_methods, reason = "the guard may look at the system")]

use std::path::{Path, PathBuf};

use super::real_or_same;

/// The private directories of commands, and what they see in them.
#[derive(Debug, Clone, Default)]
pub(super) struct PrivateView {
    /// The directories, by real path. None is in another, and no root contains one.
    pub(super) dirs: Vec<PathBuf>,
    /// Existing files and directories in them that commands may read, by real path. None is in another.
    pub(super) shown: Vec<PathBuf>,
    /// Symlinks on the way to what is shown, each with the real path behind it.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
}

impl PrivateView {
    /// Looks at the directories and at what is shown of them. One that is shown itself is not private.
    pub(super) fn new(private: &[PathBuf], shown: &[PathBuf], roots: &[PathBuf]) -> Self {
        let shown_dirs: Vec<PathBuf> = shown.iter().map(|path| real_or_same(path)).collect();
        let is_seen = |dir: &PathBuf| {
            let mut seen = roots.iter().chain(&shown_dirs);
            seen.any(|seen| dir.starts_with(seen))
        };
        let real = private.iter().filter_map(|dir| real_directory(dir));
        let dirs = outermost(real.filter(|dir| !is_seen(dir) && dir.parent().is_some()).collect());
        let is_private = |path: &Path| dirs.iter().any(|dir| path.starts_with(dir));
        let mut view = Self { dirs: Vec::new(), shown: Vec::new(), links: Vec::new() };
        for path in shown {
            let Some(real) = real_path(path) else { continue };
            let written = real_parent(path);
            if written != real && is_private(&written) && !roots.contains(&written) {
                view.links.push((written, real.clone()));
            }
            if is_private(&real) {
                view.shown.push(real);
            }
        }
        view.shown = outermost(view.shown);
        view.links.retain(|(link, _)| !view.shown.iter().any(|shown| link.starts_with(shown)));
        view.links.sort();
        view.links.dedup();
        view.dirs = dirs;
        view
    }

    /// Returns whether commands do not see a real path because it is private.
    pub(super) fn conceals(&self, real: &Path, roots: &[PathBuf]) -> bool {
        let within = |dirs: &[PathBuf]| dirs.iter().any(|dir| real.starts_with(dir));
        within(&self.dirs) && !within(&self.shown) && !within(roots)
    }
}

/// Returns the paths without those in another, sorted.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup_by(|later, earlier| later.starts_with(earlier));
    paths
}

/// Returns the path with its parent resolved, but not its last name.
fn real_parent(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real_or_same(parent).join(name),
        _ => path.to_owned(),
    }
}

fn real_path(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

pub(super) fn real_directory(path: &Path) -> Option<PathBuf> {
    real_path(path).filter(|path| path.is_dir())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn shows_roots_tools_and_the_links_to_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = fs::canonicalize(dir.path()).expect("a path");
        for name in ["home/me/.cargo/bin", "home/me/papers", "home/me/app", "home/you", "opt/node"] {
            fs::create_dir_all(top.join(name)).expect("a directory");
        }
        fs::write(top.join("home/me/.gitconfig"), "").expect("a file");
        symlink(top.join("opt/node"), top.join("home/me/.nvm")).expect("a link");
        symlink(top.join("home/me/papers"), top.join("home/me/.rustup")).expect("a link");
        let at = |names: &[&str]| names.iter().map(|name| top.join(name)).collect::<Vec<_>>();
        let shown = at(&[
            "home/me/.cargo",
            "home/me/.cargo/bin",
            "home/me/.gitconfig",
            "home/me/.nvm",
            "home/me/.missing",
        ]);
        let roots = at(&["home/me/app"]);
        let view = PrivateView::new(&at(&["home", "home/me", "gone"]), &shown, &roots);
        assert_eq!(view.dirs, at(&["home"]));
        assert_eq!(view.shown, at(&["home/me/.cargo", "home/me/.gitconfig"]));
        assert_eq!(view.links, [(top.join("home/me/.nvm"), top.join("opt/node"))]);
        for (name, is_concealed) in [
            ("home/me/papers/x", true),
            ("home/you", true),
            ("home/me", true),
            ("home/me/.cargo/bin/x", false),
            ("home/me/app/x", false),
            ("opt/node", false),
        ] {
            assert_eq!(view.conceals(&top.join(name), &roots), is_concealed, "{name}");
        }
        // A link that a person made to a directory of their own shows it.
        let view = PrivateView::new(&at(&["home/me"]), &at(&["home/me/.rustup"]), &roots);
        assert_eq!(view.shown, at(&["home/me/papers"]));
        // A root or a shown path that contains a directory makes it public.
        for (shown, roots) in [(at(&["home"]), roots.clone()), (Vec::new(), at(&["home/me"]))] {
            let view = PrivateView::new(&at(&["home/me"]), &shown, &roots);
            assert_eq!(view.dirs, Vec::<PathBuf>::new());
        }
    }
}
