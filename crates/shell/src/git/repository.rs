//! Checks that a repository runs nothing of its own when it is read, and leads nowhere else.

use std::path::{Path, PathBuf};

use sinew_tool::{FileKind, Unclear};

use crate::Scene;
use crate::file_system::FileSystem;

pub(super) fn odd(why: impl Into<String>) -> Unclear {
    Unclear::new("shell.repository", why)
}

/// Returns the directory of a repository; rejects one that may run something when it is read.
pub(super) fn check(scene: &Scene<'_>, dir: &Path) -> Result<PathBuf, Unclear> {
    if dir.components().any(|part| part.as_os_str() == ".git") {
        return Err(odd("it runs inside the directory `.git`"));
    }
    let files = scene.files;
    let mut top = None;
    for above in dir.ancestors() {
        if is_there(files, &above.join("HEAD"))? || is_there(files, &above.join("commondir"))? {
            return Err(odd("git may take this directory, or one above it, for a bare repository"));
        }
        let git = above.join(".git");
        if !is_there(files, &git)? {
            continue;
        }
        let has = |name: &str| is_own_directory(files, &git.join(name));
        let is_whole = is_own_directory(files, &git)
            && has("objects")
            && has("refs")
            && is_there(files, &git.join("HEAD"))?;
        if !is_whole || is_there(files, &git.join("commondir"))? {
            return Err(odd("the repository is elsewhere, or is none"));
        }
        let n_seen = scene.seen.places.borrow().len();
        if !scene.seen.places.borrow().contains(&git) {
            if MAX_PLACES <= n_seen {
                return Err(odd("there are too many repositories to look at"));
            }
            check_config(files, &git)?;
            check_links(files, &git)?;
            scene.seen.places.borrow_mut().insert(git);
        }
        top.get_or_insert_with(|| above.to_owned());
    }
    let top = top.ok_or_else(|| odd("there is no repository here"))?;
    match scene.roots.iter().any(|root| top.starts_with(root)) {
        true => Ok(top),
        false => Err(odd("the repository holds more than the files beneath the roots")),
    }
}

/// The most repositories that are checked for a text.
const MAX_PLACES: usize = 16;

/// Returns whether a path is a directory, and no symlink to one.
fn is_own_directory(files: &dyn FileSystem, path: &Path) -> bool {
    matches!(files.lstat(path), Ok(Some(FileKind::Directory)))
}

/// Returns whether a name exists, also as a dangling symlink.
fn is_there(files: &dyn FileSystem, path: &Path) -> Result<bool, Unclear> {
    let found = files.lstat(path).map_err(|_| odd("the repository cannot be looked at"))?;
    Ok(found.is_some())
}

/// The most entries of a repository that are looked at.
const MAX_ENTRIES: usize = 5_000;

/// Rejects symlinks in a repository, and objects elsewhere: their targets would be shown.
fn check_links(files: &dyn FileSystem, git: &Path) -> Result<(), Unclear> {
    let unseen = || odd("the repository cannot be looked at");
    if is_there(files, &git.join("objects/info/alternates"))? {
        return Err(odd("the repository has objects elsewhere"));
    }
    let objects = git.join("objects");
    let mut left = vec![git.to_owned()];
    let mut n_entries = 0;
    while let Some(dir) = left.pop() {
        for entry in files.read_dir(&dir).map_err(|_| unseen())? {
            let (name, kind) = entry.map_err(|_| unseen())?;
            n_entries += 1;
            if !matches!(kind, FileKind::File | FileKind::Directory) || MAX_ENTRIES < n_entries {
                return Err(odd("the repository holds links, or too much to look at"));
            }
            let is_looked_at = match &dir {
                // Objects of `git lfs` are named by their content.
                dir if dir == git => name != "lfs",
                // So are loose objects, and there are many of them.
                dir if *dir == objects => name == "pack" || name == "info",
                _ => true,
            };
            if kind == FileKind::Directory && is_looked_at {
                left.push(dir.join(name));
            }
        }
    }
    Ok(())
}

/// Keys, by section, that run nothing and lead nowhere else, or that a plain command overrides.
const KEYS: &[(&str, &[&str])] = &[
    ("branch", &["remote", "merge", "rebase", "description", "pushremote"]),
    ("color", &["ui", "status", "branch", "diff"]),
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "commentchar",
            "compression",
            "editor",
            "eol",
            "filemode",
            "fsmonitor",
            "hookspath",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "pager",
            "precomposeunicode",
            "preloadindex",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "symlinks",
            "untrackedcache",
            "whitespace",
        ],
    ),
    ("fetch", &["prune", "parallel", "recursesubmodules"]),
    ("gc", &["auto", "autodetach"]),
    ("init", &["defaultbranch"]),
    ("pull", &["rebase", "ff"]),
    ("push", &["default", "autosetupremote", "followtags"]),
    ("rebase", &["autostash", "autosquash"]),
    ("remote", &["url", "fetch", "pushurl", "tagopt", "prune"]),
    ("submodule", &["url", "active"]),
    ("user", &["name", "email", "signingkey"]),
];

/// The largest configuration, in bytes.
const MAX_CONFIG: u64 = 256 * 1024;

fn check_config(files: &dyn FileSystem, git: &Path) -> Result<(), Unclear> {
    if is_there(files, &git.join("config.worktree"))? {
        return Err(odd("the repository has settings for one of its places"));
    }
    let bytes = files.read(&git.join("config"), MAX_CONFIG).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let unseen = || odd("the settings of the repository cannot be looked at");
    check_settings(&text.ok_or_else(unseen)?)
}

/// Rejects settings with keys that are not listed as harmless, and lines of an unusual form.
fn check_settings(text: &str) -> Result<(), Unclear> {
    let mut known: &[&str] = &[];
    for line in text.lines() {
        let mut line = line.trim();
        if line.ends_with('\\') || line.contains(|c: char| c.is_control() && c != '\t') {
            return Err(odd("its settings have a line that goes on"));
        }
        if let Some(rest) = line.strip_prefix('[') {
            let (head, rest) =
                rest.split_once(']').ok_or_else(|| odd("its settings are cut off"))?;
            let section = head.split([' ', '\t', '.', '"']).next().unwrap_or_default();
            let section = section.to_ascii_lowercase();
            let found = KEYS.iter().find(|(name, _)| *name == section);
            let Some((_, keys)) = found.filter(|_| !rest.contains('[')) else {
                return Err(odd(format!("the repository has settings of `{section}`")));
            };
            known = keys;
            line = rest.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(line.len());
        let (key, rest) = line.split_at_checked(end).unwrap_or_default();
        let key = key.to_ascii_lowercase();
        let is_whole = rest.trim_start().is_empty() || rest.trim_start().starts_with('=');
        if !is_whole || !known.contains(&key.as_str()) {
            return Err(odd(format!("the repository has the setting `{key}`")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_may_run_something_are_found() {
        let check = |text: &str, is_plain: bool| {
            assert_eq!(check_settings(text).is_ok(), is_plain, "{text}");
        };
        check("", true);
        check("[core]\n\tbare = false\n\tfsmonitor = touch x\n[remote \"o\"]\n\turl = x\n", true);
        check("[user] name = A\n# [filter]\n", true);
        check("[core]\n\tworktree = /\n", false);
        check("[core]\n\tsshCommand\n", false);
        check("[CORE]\n\tGitProxy = x\n", false);
        check("[core] worktree = /\n", false);
        check("[filter \"x\"]\n\tclean = x\n", false);
        check("[Filter \"x\"]\n", false);
        check("[filter.x]\n", false);
        check("[core][filter \"x\"] clean = x\n", false);
        check("[include]\n\tpath = x\n", false);
        check("[includeIf \"gitdir:/\"]\n", false);
        check("[diff]\n\texternal = x\n", false);
        check("[log]\n\tshowSignature = true\n", false);
        check("\u{feff}[filter \"x\"]\n", false);
        check("[branch \"x]\"]\n", false);
        check("[remote \"o\"]\n\tpromisor = true\n", false);
        check("[remote \"o\"]\n\tuploadpack = touch x\n", false);
        check("[core]\n\tpager = x \\\n[user]\n\tworktree = /\n", false);
        check("[core]\n\tpager x\n", false);
    }
}
