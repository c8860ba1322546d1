//! Protected names: which of them a real path has, and who may change it.
//!
//! They make other programs act later: git hooks, settings of editors and agents, shell startup files, CI
//! pipelines. Every change of one asks, in any case, at any depth, even if it does not exist yet. The names,
//! with their reasons, are in a [table](table).
//!
//! A name counts if it ends at the root or beneath it in the real path, so a root `.github` or `.git/hooks`
//! is no bypass. A root deeper in such a directory is a workspace, as agents put worktrees in `.claude`, and
//! counts from its own name on.

mod index;
pub mod table;

use std::path::{Path, PathBuf};

use crate::rules::fold;
use index::{List, Match};
use table::{ELSEWHERE, ON_THIS_HOST, ProtectedName, RUN_LATER};

/// sinew's own directory, which no command may change.
const OWN_BENEATH: &str = ".sinew/";
/// The directory of git, whose files the file tools alone protect: every commit changes some.
const GIT: &str = ".git/";

/// The names of git itself, which [`guarded`](crate::guarded) tells apart for commands.
const OF_GIT: [&str; 4] = [".git/hooks/", ".git/config", ".git/", ".gitmodules"];

/// What a change of a protected name does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protection {
    /// It acts on other machines.
    Elsewhere,
    /// A program on this host executes or obeys it.
    Executes,
    /// It is sinew's own.
    Closed,
}

/// Directories that tools fill with third-party files: names in them are no settings of the project.
const FILLED_BY_TOOLS: &[&str] = &[
    "node_modules",
    "bower_components",
    "target",
    "build",
    "dist",
    "vendor",
    "third_party",
    ".venv",
    "venv",
    "site-packages",
    ".tox",
];

/// Returns whether tools fill directories of this name.
pub(crate) fn is_filled_by_tools(name: &str) -> bool {
    FILLED_BY_TOOLS.iter().any(|filled| filled.eq_ignore_ascii_case(name))
}

/// Returns whether a part of a rule means a folded name. `*` at its start or end means any characters there.
fn is_meant(name: &str, rule: &str) -> bool {
    let whole = rule.trim_matches('*');
    let part = match (rule.starts_with('*'), rule.ends_with('*')) {
        (false, false) => return name.eq_ignore_ascii_case(rule),
        (true, _) => name.len().checked_sub(whole.len()).and_then(|at| name.get(at..)),
        (false, true) => name.get(..whole.len()),
    };
    name.len() > whole.len() && part.is_some_and(|part| part.eq_ignore_ascii_case(whole))
}

/// Components of a real path, folded as on case-insensitive file systems; they count from the root on.
#[derive(Debug)]
pub struct Names {
    all: Vec<String>,
    n_above: usize,
    matches: Vec<Match>,
}

impl Names {
    /// `named` is the end of the real path, from the name of the root on.
    pub fn new(real: &Path, named: &Path) -> Self {
        let all: Vec<String> = real.iter().map(fold).collect();
        let n_above = all.len() - named.iter().count();
        let matches = index::matches(&all, n_above);
        Self { all, n_above, matches }
    }

    /// Returns the rule of the table that comes first of those that the path matches before index `until`.
    fn first(&self, is_meant: impl Fn(&Match) -> bool) -> Option<&'static str> {
        let meant = self.matches.iter().filter(|found| is_meant(found));
        meant.min_by_key(|found| found.rule.order).map(|found| found.rule.name)
    }

    /// Returns whether the path matches a rule that begins before index `until`.
    fn fall_under(&self, rule: &str, until: usize) -> bool {
        let whole = rule.trim_end_matches('/');
        let n_parts = whole.split('/').count();
        self.all.windows(n_parts).take(until).enumerate().any(|(at, window)| {
            let end = at + n_parts;
            self.n_above < end
                && (whole.len() < rule.len() || end == self.all.len())
                && window.iter().zip(whole.split('/')).all(|(name, rule)| is_meant(name, rule))
        })
    }

    /// Returns the index of the first directory that tools fill, else the number of components.
    fn filled_by_tools(&self) -> usize {
        let beneath = self.all.iter().enumerate().skip(self.n_above + 1);
        let mut filled = beneath.filter(|(_, name)| FILLED_BY_TOOLS.contains(&name.as_str()));
        filled.next().map_or(self.all.len(), |(at, _)| at)
    }

    /// Returns the components from the name of the root on.
    pub(crate) fn names_of_root(&self) -> &[String] {
        self.all.get(self.n_above..).unwrap_or_default()
    }

    /// Returns whether the path is a directory that tools fill, or lies in one.
    pub(crate) fn is_filled_by_tools(&self) -> bool {
        self.filled_by_tools() < self.all.len()
    }
}

/// Returns every protected name.
pub(crate) fn all() -> impl Iterator<Item = &'static ProtectedName> {
    ON_THIS_HOST.iter().chain(ELSEWHERE)
}

fn all_names() -> impl Iterator<Item = &'static str> {
    all().map(|row| row.name)
}

/// Returns the protected name that a real path matches.
pub fn protected(names: &Names) -> Option<&'static str> {
    names.first(|found| {
        matches!(found.rule.list, List::Protected(Protection::Executes | Protection::Elsewhere))
    })
}

/// Returns what programs do with a protected name, in words.
pub fn what_happens(name: &str) -> Option<&'static str> {
    all().find(|row| row.name == name).map(|row| row.what)
}

/// Returns the name at a real path that the user's own commands execute later: a file, or a directory with `/` at
/// the end. Third-party files of a package are left out, but what such a directory puts into the search path
/// of programs is not.
pub fn run_later(names: &Names) -> Option<&'static str> {
    let until = names.filled_by_tools();
    names.first(|found| {
        // The directory begins where tools fill it.
        let until = if found.rule.is_dir { until + 1 } else { until };
        found.rule.list == List::RunLater && found.at < until
    })
}

/// Returns the member of a file's JSON object that the user's own commands execute later, where that is not the
/// whole file.
pub fn executed_member(real: &Path) -> Option<&'static str> {
    let name = fold(real.file_name()?);
    RUN_LATER.iter().find(|row| is_meant(&name, row.name))?.member
}

/// Returns what the user's own commands execute later if a real path changes: the path itself, or the directory of
/// programs that holds it.
pub fn what_runs_later<'p>(names: &Names, real: &'p Path) -> Option<&'p Path> {
    match run_later(names)?.strip_suffix('/') {
        // The directory itself executes nothing.
        Some(programs) if real.ends_with(programs) => None,
        Some(_) => real.parent(),
        None => Some(real),
    }
}

/// Returns where beneath a real path the user's own commands execute programs, as relative paths: an empty one where
/// the path itself is such a directory.
pub(crate) fn run_later_beneath(names: &Names) -> impl Iterator<Item = String> + '_ {
    let until = names.filled_by_tools() + 1;
    let dirs = RUN_LATER.iter().filter_map(|row| row.name.strip_suffix('/'));
    dirs.flat_map(move |dir| {
        let parts: Vec<&str> = dir.split('/').collect();
        let starts = (1..=parts.len()).filter_map(|n| parts.split_at_checked(n));
        let here = starts.filter(|(start, _)| names.fall_under(&start.join("/"), until));
        here.map(|(_, rest)| rest.join("/")).collect::<Vec<_>>()
    })
}

/// Returns the protected name that a command would change at a real path, apart from `granted` ones and those
/// of git.
pub(crate) fn protection_from_commands(
    names: &Names,
    granted: &[String],
) -> Option<(&'static str, Protection)> {
    let until = names.filled_by_tools();
    let found = names.matches.iter().filter(|found| found.at < until);
    let found = found.filter_map(|Match { rule, .. }| match rule.list {
        List::Protected(protection) if is_for_commands(rule.name, granted) => {
            Some((rule, protection))
        }
        _ => None,
    });
    // A name may be beneath that of a weaker rule.
    let strongest = found.max_by_key(|(rule, protection)| (*protection, rule.order));
    strongest.map(|(rule, protection)| (rule.name, protection))
}

/// Returns the protected name beneath a real path: putting a symlink, file or directory there replaces it.
pub(crate) fn leads_to_protected(names: &Names, granted: &[String]) -> Option<&'static str> {
    let until = names.filled_by_tools();
    names.first(|found| {
        let rule = found.rule;
        rule.list == List::LeadsTo && found.at < until && !is_granted(rule.name, granted)
    })
}

/// Returns the protected names for commands, without those of git.
fn for_commands(granted: &[String]) -> impl Iterator<Item = (&'static str, Protection)> + '_ {
    let executed = ON_THIS_HOST.iter().map(|row| (row.name, Protection::Executes));
    let elsewhere = ELSEWHERE.iter().map(|row| (row.name, Protection::Elsewhere));
    let all = executed.chain(elsewhere).chain([(OWN_BENEATH, Protection::Closed)]);
    all.filter(|(rule, _)| is_for_commands(rule, granted))
}

/// Returns whether a protected name is none of git and not granted.
fn is_for_commands(rule: &str, granted: &[String]) -> bool {
    !OF_GIT.contains(&rule) && !is_granted(rule, granted)
}

/// Returns whether a name is granted, or is beneath a granted one.
pub(crate) fn is_granted(rule: &str, granted: &[String]) -> bool {
    let whole = rule.trim_end_matches('/');
    granted.iter().any(|grant| {
        let rest = whole.strip_prefix(grant.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Returns whether a grant covers any name that commands may not change; `.sinew` is never granted.
pub fn can_be_granted(grant: &str) -> bool {
    let grant = [grant.to_owned()];
    all_names().any(|rule| rule != GIT && is_granted(rule, &grant))
}

/// Returns the protected paths that exist at the top of a root, for commands whose changes cannot be judged.
pub fn protected_at(root: &Path, granted: &[String]) -> Vec<PathBuf> {
    const OTHERS_OF_GIT: [&str; 3] = [".git/config.worktree", ".git/commondir", ".git/gitdir"];
    let of_git = OF_GIT.into_iter().filter(|rule| *rule != GIT).chain(OTHERS_OF_GIT);
    let of_git = of_git.filter(|rule| !is_granted(rule, granted));
    for_commands(granted)
        .filter(|(_, protection)| *protection != Protection::Closed)
        .map(|(rule, _)| rule)
        .chain(of_git)
        .map(|rule| root.join(rule.trim_end_matches('/')))
        .filter(|path| rustix::fs::lstat(path).is_ok())
        .collect()
}

#[cfg(test)]
mod tests;
