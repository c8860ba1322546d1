//! Says what a changed name means to programs outside the sandbox: which names of git lead to programs, which
//! names other programs on this host execute, and which ones act on other machines.
//!
//! Names of git are found by the form of the path, in `.git` and in any other directory that is a repository.
//! Repositories of submodules and working trees are inside the main one and count like it.

use std::path::{Path, PathBuf};

use crate::git_config::{self, ConfigOf};
use crate::protected::{Names, Protection, is_granted, protection_from_commands};

/// What a name beneath a root means to programs outside the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    /// Configuration of git, whose content is judged.
    Configuration(ConfigOf),
    /// A directory of a repository whose files lead git to programs, such as that of its hooks.
    Directory(&'static str),
    /// A file in it; git executes those that are no samples.
    Hook { is_sample: bool },
    /// A small file that leads git to other files or programs, whose content is judged.
    Pointer(Pointer),
    /// A name that programs on this host execute or obey; the content of a commit may be put there.
    Executes(&'static str),
    /// A name that acts on other machines, once it is pushed.
    Elsewhere(&'static str),
    /// A name that no command may change.
    Closed(&'static str),
}

/// The name of hooks, for messages and grants.
pub(crate) const HOOKS: &str = ".git/hooks/";

/// A file that leads git elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pointer {
    /// `.git` as a file: where the repository of a working tree is.
    Gitfile,
    /// `gitdir` of a working tree's directory: where the working tree is.
    Gitdir,
    /// `commondir` of a working tree's directory: where the main repository is.
    Commondir { is_worktree: bool },
    /// `objects/info/alternates`: where further objects are.
    Alternates,
    /// The steps of a rebase that is to go on.
    RebaseTodo,
    /// The merge strategy of a rebase that is to go on.
    RebaseStrategy,
    /// The options of a cherry-pick or revert that is to go on.
    SequencerOptions,
}

impl Guarded {
    /// Returns the name, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Configuration(ConfigOf::Gitmodules) => ".gitmodules",
            Self::Configuration(_) => ".git/config",
            Self::Hook { .. } => HOOKS,
            Self::Pointer(pointer) => match pointer {
                Pointer::Gitfile => ".git",
                Pointer::Gitdir => ".git/gitdir",
                Pointer::Commondir { .. } => ".git/commondir",
                Pointer::Alternates => ".git/objects/info/alternates",
                Pointer::RebaseTodo => "git-rebase-todo",
                Pointer::RebaseStrategy => "rebase-merge/strategy",
                Pointer::SequencerOptions => "sequencer/opts",
            },
            Self::Directory(name)
            | Self::Executes(name)
            | Self::Elsewhere(name)
            | Self::Closed(name) => name,
        }
    }
}

/// Finds what a path means. `real` is the real path of `names`; `exists` looks at real paths.
pub(crate) fn find(
    names: &Names,
    real: &Path,
    granted: &[String],
    exists: &dyn Fn(&Path) -> bool,
) -> Option<Guarded> {
    // Names of git count in directories that tools fill too: git of the user enters them from above.
    let beneath = names.names_of_root();
    let is_there = |n: usize| real.ancestors().nth(n).is_some_and(|dir| is_repository(dir, exists));
    let of_git = beneath.iter().position(|name| name == ".git");
    let in_git = of_git.and_then(|at| match beneath.get(at + 1..).unwrap_or_default() {
        [] => Some(Guarded::Pointer(Pointer::Gitfile)),
        names => in_repository(names, 1, &is_there),
    });
    let found = in_git.or_else(|| {
        let names = beneath.get(usize::from(1 < beneath.len())..)?;
        match names.last().map(String::as_str) {
            Some(".gitmodules") => Some(Guarded::Configuration(ConfigOf::Gitmodules)),
            _ => in_other(names, &is_there),
        }
    });
    match found {
        Some(found) if is_granted(found.name(), granted) => None,
        Some(found) => Some(found),
        None => protection(names, granted),
    }
}

fn protection(names: &Names, granted: &[String]) -> Option<Guarded> {
    let (name, protection) = protection_from_commands(names, granted)?;
    Some(match protection {
        Protection::Executes => Guarded::Executes(name),
        Protection::Elsewhere => Guarded::Elsewhere(name),
        Protection::Closed => Guarded::Closed(name),
    })
}

/// Finds a name in a repository by the names beneath it, `n_levels` above which its working tree may lie.
/// `is_there` says whether the last so many names are beneath a repository.
fn in_repository(
    names: &[String],
    n_levels: usize,
    is_there: &dyn Fn(usize) -> bool,
) -> Option<Guarded> {
    let first = names.first()?.as_str();
    if !matches!(first, "modules" | "worktrees") || names.len() <= 2 {
        return in_part(names, false);
    }
    // The name of a submodule may have several parts, so its repository may begin at each of them.
    let mut is_clear = true;
    for (at, rest) in (2..names.len()).filter_map(|at| Some((at, names.get(at..)?))) {
        let name = rest.first()?.as_str();
        // Names of references and objects mean nothing, unless there is a repository.
        is_clear &= !matches!(name, "refs" | "logs" | "objects");
        let found = match name {
            "modules" | "worktrees" => in_repository(rest, n_levels + at, is_there),
            _ => in_part(rest, first == "worktrees" && at == 2),
        };
        let of_objects = name == "objects" && found.is_some();
        match found.filter(|_| is_clear || of_objects || is_there(rest.len())) {
            Some(Guarded::Configuration(ConfigOf::Repository)) if first == "modules" => {
                let of = ConfigOf::Submodule { n_levels: n_levels + at };
                return Some(Guarded::Configuration(of));
            }
            None => {}
            found => return found,
        }
    }
    None
}

/// Finds a name by the names beneath a repository's own directory.
fn in_part(names: &[String], is_worktree: bool) -> Option<Guarded> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Some(match *names.as_slice() {
        ["config" | "config.worktree"] => Guarded::Configuration(ConfigOf::Repository),
        ["hooks"] => Guarded::Directory(HOOKS),
        ["rebase-merge" | "rebase-apply"] => Guarded::Directory("rebase-merge"),
        ["sequencer"] => Guarded::Directory("sequencer"),
        ["objects"] | ["objects", "info"] => Guarded::Directory("objects"),
        ["modules" | "worktrees"] | ["modules" | "worktrees", _] => Guarded::Directory("modules"),
        // The old form of remotes.
        ["remotes" | "branches"] => Guarded::Directory("remotes"),
        ["remotes" | "branches", ..] => Guarded::Closed("remotes"),
        ["hooks", .., last] => Guarded::Hook { is_sample: last.ends_with(".sample") },
        ["commondir"] => Guarded::Pointer(Pointer::Commondir { is_worktree }),
        ["gitdir"] => Guarded::Pointer(Pointer::Gitdir),
        ["objects", "info", "alternates"] => Guarded::Pointer(Pointer::Alternates),
        ["rebase-merge" | "rebase-apply", "git-rebase-todo" | "git-rebase-todo.backup"] => {
            Guarded::Pointer(Pointer::RebaseTodo)
        }
        ["rebase-merge", "strategy"] => Guarded::Pointer(Pointer::RebaseStrategy),
        ["sequencer", "opts"] => Guarded::Pointer(Pointer::SequencerOptions),
        _ => return None,
    })
}

/// Finds a name in a repository that is not named `.git`, such as a bare one.
fn in_other(names: &[String], is_there: &dyn Fn(usize) -> bool) -> Option<Guarded> {
    // So many names are beneath a repository at most, that of a working tree of a bare one.
    for n in (1..=names.len().min(5)).rev() {
        let rest = names.get(names.len() - n..)?;
        let found = in_repository(rest, 1, is_there);
        // One that leads to another repository makes any directory with a HEAD one.
        let is_commondir =
            n == 1 && matches!(found, Some(Guarded::Pointer(Pointer::Commondir { .. })));
        if found.is_some() && (is_commondir || is_there(n)) {
            return found;
        }
    }
    None
}

/// Returns whether git takes a directory for a repository.
pub(crate) fn is_repository(dir: &Path, exists: &dyn Fn(&Path) -> bool) -> bool {
    ["HEAD", "objects", "refs"].iter().all(|name| exists(&dir.join(name)))
}

/// Returns the directory that a new name at a path would make a repository.
pub(crate) fn completes(real: &Path, exists: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let dir = real.parent()?;
    let name = real.file_name()?.to_str()?;
    let parts = ["HEAD", "objects", "refs"];
    let part = parts.iter().find(|part| part.eq_ignore_ascii_case(name))?;
    if exists(real) {
        return None;
    }
    let others = parts.iter().filter(|other| *other != part);
    others.into_iter().all(|other| exists(&dir.join(other))).then(|| dir.to_owned())
}

/// The largest pointer that is judged, in bytes. A rebase of ten thousand commits has a longer one.
pub const MAX_POINTER_BYTES: usize = 1024 * 1024;

/// Returns why a pointer at a real path may not have this content. `is_judged` says whether a real path is
/// in a root, where names are judged.
pub(crate) fn judge_pointer(
    pointer: Pointer,
    real: &Path,
    content: &[u8],
    is_judged: &dyn Fn(&Path) -> bool,
) -> Result<(), String> {
    let text = std::str::from_utf8(content).map_err(|_| String::from("it is not UTF-8"))?;
    let dir = real.parent().unwrap_or(real);
    let inside = |path: &str| {
        let path = plainly(&dir.join(path));
        is_judged(&path)
    };
    let one_line = text.strip_suffix('\n').unwrap_or(text);
    let is_one_line = !one_line.is_empty() && !one_line.contains(['\n', '\r', '\0']);
    let is_ok = match pointer {
        Pointer::Gitfile => {
            let named = one_line.strip_prefix("gitdir: ").filter(|_| is_one_line);
            named.is_some_and(|path| is_part_of_git(&plainly(&dir.join(path)), is_judged))
        }
        Pointer::Gitdir => is_one_line && inside(one_line),
        Pointer::Commondir { is_worktree } => is_worktree && one_line == "../..",
        Pointer::Alternates => {
            let objects = dir.parent().unwrap_or(dir);
            let inside = |path: &str| is_judged(&plainly(&objects.join(path)));
            let is_plain = |line: &str| !line.starts_with('"') && inside(line);
            text.lines().all(|line| line.is_empty() || line.starts_with('#') || is_plain(line))
        }
        Pointer::RebaseTodo => text.lines().all(is_harmless_step),
        Pointer::RebaseStrategy => is_strategy(one_line),
        Pointer::SequencerOptions => git_config::judge_sequencer_options(content),
    };
    let why = match pointer {
        Pointer::Gitfile | Pointer::Gitdir | Pointer::Alternates => "it leads out of the roots",
        Pointer::Commondir { .. } => "it leads git to another repository",
        Pointer::RebaseTodo => "it holds a step that executes a command or stops",
        Pointer::RebaseStrategy | Pointer::SequencerOptions => "it names a merge strategy",
    };
    if is_ok { Ok(()) } else { Err(why.to_owned()) }
}

/// Returns whether a path is that of a submodule's or working tree's own directory in `.git`, where no symlink
/// can be made.
fn is_part_of_git(path: &Path, is_judged: &dyn Fn(&Path) -> bool) -> bool {
    let mut names = path.iter().skip_while(|name| *name != ".git").skip(1);
    let is_part = names.next().is_some_and(|name| name == "modules" || name == "worktrees");
    is_part && names.next().is_some() && is_judged(path)
}

/// The merge strategies of git itself; another one is a program.
const STRATEGIES: [&str; 7] =
    ["ort", "recursive", "resolve", "octopus", "ours", "subtree", "theirs"];

pub(crate) fn is_strategy(name: &str) -> bool {
    STRATEGIES.contains(&name)
}

/// Returns whether a step of a rebase executes no command when the user lets it go on.
fn is_harmless_step(line: &str) -> bool {
    const STEPS: [&str; 24] = [
        "pick",
        "p",
        "reword",
        "r",
        "edit",
        "e",
        "squash",
        "s",
        "fixup",
        "f",
        "drop",
        "d",
        "label",
        "l",
        "reset",
        "t",
        "merge",
        "m",
        "noop",
        "update-ref",
        "u",
        "revert",
        "#",
        "",
    ];
    let line = line.trim_start();
    line.starts_with('#') || STEPS.contains(&line.split_whitespace().next().unwrap_or_default())
}

/// Resolves `.` and `..` in a path by its text.
pub fn plainly(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(plain.pop()),
            std::path::Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests;
