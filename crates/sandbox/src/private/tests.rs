//! What commands see of private directories, over real trees.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::CommandSettings;

/// A tree and the settings over it.
struct Tree {
    _dir: tempfile::TempDir,
    top: PathBuf,
}

impl Tree {
    /// Makes directories, files that end in their content, and links.
    fn new(dirs: &[&str], links: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let top = fs::canonicalize(dir.path()).expect("a path");
        for name in dirs {
            fs::create_dir_all(top.join(name)).expect("a directory");
        }
        for (link, target) in links {
            let target = match target.strip_prefix('/') {
                Some(target) => top.join(target),
                None => PathBuf::from(target),
            };
            symlink(target, top.join(link)).expect("a link");
        }
        Self { _dir: dir, top }
    }

    fn at(&self, names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(|name| self.top.join(name)).collect()
    }

    fn view(&self, shown: &[&str], by_settings: &[&str], roots: &[&str]) -> PrivateView {
        let settings = CommandSettings {
            private: self.at(&["home", "home/me", "gone"]),
            homes: self.at(&["home/me"]),
            shown: self.at(shown),
            shown_by_settings: self.at(by_settings),
            caches: self.at(&["home/me/.npm"]),
            ..CommandSettings::default()
        };
        PrivateView::new(&settings, &self.at(roots))
    }
}

#[test]
fn roots_and_tools_are_seen() {
    let dirs = ["home/me/.cargo/bin", "home/me/.npm", "home/me/papers", "home/me/app", "home/you"];
    let tree = Tree::new(&dirs, &[]);
    let view = tree.view(
        &["home/me/.cargo", "home/me/.cargo/bin", "home/me/.missing"],
        &[],
        &["home/me/app"],
    );
    assert_eq!(view.dirs, tree.at(&["home"]));
    assert_eq!(view.shown, tree.at(&["home/me/.cargo", "home/me/.npm"]));
    assert_eq!(view.caches, tree.at(&["home/me/.npm"]));
    for (name, is_concealed) in [
        ("home/me/papers/x", true),
        ("home/you", true),
        ("home/me", true),
        ("home/me/.cargo/bin/x", false),
        ("home/me/app/x", false),
        ("opt/node", false),
    ] {
        let concealed = view.conceals(&tree.top.join(name), &tree.at(&["home/me/app"]));
        assert_eq!(concealed, is_concealed, "{name}");
    }
}

#[test]
fn links_on_the_way_are_there_too() {
    let dirs = ["data/me/.cargo", "data/me/.npm", "srv/nvm/current/bin", "home", "app"];
    let links = [("home/me", "/data/me"), ("data/me/nvm", "/srv/nvm")];
    let tree = Tree::new(&dirs, &links);
    let view = tree.view(&["home/me/.cargo", "home/me/nvm/current/bin"], &[], &["app"]);
    assert_eq!(view.dirs, tree.at(&["data/me", "home"]));
    assert_eq!(view.shown, tree.at(&["data/me/.cargo", "data/me/.npm"]));
    let targets = tree.at(&["srv/nvm", "data/me"]);
    let [nvm, me] = targets.as_slice() else { return };
    let expected =
        [(tree.top.join("data/me/nvm"), nvm.clone()), (tree.top.join("home/me"), me.clone())];
    assert_eq!(view.links, expected);
}

#[test]
fn what_a_command_can_change_shows_nothing() {
    let dirs = ["home/me/app", "home/me/papers", "home/me/.npm"];
    // Each link is where a command may write, or leads to a whole private directory.
    let links = [
        ("home/me/app/.venv", "/home/me"),
        ("home/me/app/to-papers", "/home/me/papers"),
        ("home/me/.conf", "app/to-papers"),
        ("home/me/.all", "/home/me"),
        ("home/me/.dots", "../me/.."),
    ];
    let tree = Tree::new(&dirs, &links);
    for shown in [
        "home/me/app/.venv",
        "home/me/app/.venv/papers",
        "home/me/.conf",
        "home/me/.all",
        "home/me/.dots",
        "home/me/.npm/..",
        "home",
        "",
    ] {
        let view = tree.view(&[shown], &[], &["home/me/app"]);
        assert_eq!(view.dirs, tree.at(&["home"]), "{shown}");
        assert_eq!(view.shown, tree.at(&["home/me/.npm"]), "{shown}");
    }
    // The control: a person names it.
    let view = tree.view(&[], &["home/me/papers"], &["home/me/app"]);
    assert_eq!(view.shown, tree.at(&["home/me/.npm", "home/me/papers"]));
    for by_settings in ["home", "home/me/.all"] {
        let view = tree.view(&[], &[by_settings], &["home/me/app"]);
        let is_public = !view.dirs.contains(&tree.top.join("home"));
        let is_shown = view.shown.contains(&tree.top.join("home/me"));
        assert!(is_public || is_shown, "{by_settings}: {view:?}");
    }
    // A root that contains a private directory makes it public.
    assert_eq!(tree.view(&[], &[], &["home/me"]).dirs, tree.at(&["home"]));
    assert_eq!(tree.view(&[], &[], &["home"]).dirs, Vec::<PathBuf>::new());
}

#[test]
fn the_repository_around_a_root_is_seen() {
    let dirs = [
        "home/me/.npm",
        "home/me/repo/.git/worktrees/wt",
        "home/me/repo/app",
        "home/me/wt",
        "home/me/forged/.git",
    ];
    let tree = Tree::new(&dirs, &[]);
    let own = tree.top.join("home/me/repo/.git/worktrees/wt");
    let written = |path: PathBuf, text: String| fs::write(path, text).expect("a file");
    written(tree.top.join("home/me/wt/.git"), format!("gitdir: {}\n", own.display()));
    written(own.join("commondir"), String::from("../..\n"));
    let view = tree.view(&[], &[], &["home/me/repo/app"]);
    assert_eq!(view.shown, tree.at(&["home/me/.npm", "home/me/repo"]));
    // The repository does not name the worktree yet: its file alone opens nothing.
    let view = tree.view(&[], &[], &["home/me/wt"]);
    assert_eq!(view.shown, tree.at(&["home/me/.npm", "home/me/wt"]));
    written(own.join("gitdir"), format!("{}/home/me/wt/.git\n", tree.top.display()));
    let view = tree.view(&[], &[], &["home/me/wt"]);
    assert_eq!(view.shown, tree.at(&["home/me/.npm", "home/me/repo/.git", "home/me/wt"]));
    // A home directory that is a repository stays private.
    fs::create_dir(tree.top.join("home/me/.git")).expect("a directory");
    fs::create_dir(tree.top.join("home/me/x")).expect("a directory");
    assert_eq!(tree.view(&[], &[], &["home/me/x"]).shown, tree.at(&["home/me/.npm"]));
}
