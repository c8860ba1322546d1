//! Path rules: which paths beneath the roots calls may touch, and which names are protected.
//!
//! Configured globs match the real absolute path, after symlinks. Deny beats allow in any order, and neither
//! widens the roots. An invalid glob is an error at start: a deny rule that never matches protects nothing.
//!
//! Protected names make other programs act later: git hooks, settings of editors and agents, shell startup
//! files, CI pipelines. Every change of one asks, in any case, at any depth, even if it does not exist yet.
//! sinew's own directory is closed, except for parts that are meant to be read.
//!
//! A name counts if it ends at the root or beneath it in the real path, so a root `.github` or `.git/hooks`
//! is no bypass. A root deeper in such a directory is a workspace, as agents put worktrees in `.claude`, and
//! counts from its own name on.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sinew_tool::{Access, FileError, visible};

use crate::globs::{Globs, RuleError, Written};
use sinew_fs::roots::Roots;

/// Configuration keys of the lists.
const ALLOW: &str = "`tools.fs.allow_paths`";
const DENY: &str = "`tools.fs.deny_paths`";

/// Compiled path globs, and closed directories.
#[derive(Debug)]
pub struct PathRules {
    allow: Option<Globs>,
    deny: Option<Globs>,
    closed: Vec<PathBuf>,
    /// Paths that commands do not see either.
    hidden: Vec<PathBuf>,
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
            hidden: Vec::new(),
        })
    }

    /// Hides files and directories, by real path.
    pub fn hiding(self, hidden: Vec<PathBuf>) -> Self {
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
        let mut closed = self.closed.iter().chain(&self.hidden);
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
            return Err(FileError::Denied(String::from(
                "it belongs to sinew's own state, which no tool may touch",
            )));
        }
        if self.hidden.iter().any(|hidden| real.starts_with(hidden)) {
            return Err(FileError::Denied(String::from(
                "it holds secrets by its name; `run.show` lists what may be seen all the same",
            )));
        }
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
/// The same as a protected name.
const OWN_BENEATH: &str = ".sinew/";
/// The directory of git, whose files the file tools alone protect: every commit changes some.
const GIT: &str = ".git/";

/// Readable parts of sinew's own directory: these files, and everything beneath these directories.
const OWN_READABLE: &[&str] = &["config.toml", "memory.md", "skills/", "tool-output/"];

/// Protected names: one component, several with `/`, and `/` at the end for everything beneath. The first
/// match is reported. `.gitattributes` is absent on purpose: its filters run only if configured elsewhere.
const PROTECTED: &[&str] = &[
    ".git/hooks/",
    ".git/config",
    ".git/",
    ".gitmodules",
    ".gitconfig",
    ".config/git/",
    ".husky/",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".lefthook.yml",
    "lefthook.yaml",
    ".lefthook.yaml",
    ".mcp.json",
    ".vscode/",
    ".idea/",
    ".zed/",
    ".devcontainer/",
    ".devcontainer.json",
    ".vimrc",
    ".exrc",
    ".vim/",
    ".config/nvim/",
    ".nvim.lua",
    ".nvimrc",
    ".helix/",
    ".emacs",
    ".emacs.d/",
    ".dir-locals.el",
    ".editorconfig",
    "*.code-workspace",
    "rust-analyzer.toml",
    ".rust-analyzer.toml",
    ".envrc",
    ".direnv/",
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
    ".mise/",
    ".config/mise/",
    ".ssh/",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".login",
    ".cshrc",
    ".tcshrc",
    ".kshrc",
    ".xprofile",
    ".config/systemd/",
    ".config/autostart/",
    ".config/fish/",
    ".inputrc",
    ".ripgreprc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".cargo/config.toml",
    ".cargo/config",
    "rust-toolchain.toml",
    "rust-toolchain",
    ".Rprofile",
    ".bazelrc",
    ".mvn/",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    "SKILL.md",
    ".cursorrules",
    ".cursor/",
    ".windsurfrules",
    ".windsurf/",
    ".clinerules/",
    ".kiro/",
    ".continue/",
    ".opencode/",
    "opencode.json",
    "opencode.jsonc",
    "crush.json",
    ".crush.json",
    ".agents/",
    ".github/copilot-instructions.md",
    ".claude/",
    ".codex/",
    ".gemini/",
    ".config/sinew/",
    "sinew/config.toml",
];

/// Further protected names, which act on other machines: what is pushed runs there.
const ELSEWHERE: &[&str] = &[
    ".github/workflows/",
    ".github/actions/",
    ".gitlab-ci.yml",
    ".circleci/",
    ".travis.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "appveyor.yml",
    ".appveyor.yml",
    ".drone.yml",
    ".woodpecker.yml",
    ".woodpecker/",
    ".buildkite/",
    "Jenkinsfile",
];

/// Names that the user's own commands execute later, such as `make` and `npm test`: a change is reported.
const RUN_LATER: &[&str] = &[
    "package.json",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Taskfile.yml",
    "Rakefile",
    "CMakeLists.txt",
    "build.rs",
    "build.gradle",
    "build.gradle.kts",
    "setup.py",
    "conftest.py",
    "noxfile.py",
    "tox.ini",
    "docker-compose.yml",
    "compose.yaml",
    "Dockerfile",
    ".venv/bin/",
    "venv/bin/",
    "node_modules/.bin/",
];

/// Returns the name at a real path that the user's own commands execute later: a file, or a directory with `/` at
/// the end. Third-party files of a package are left out, but what such a directory puts into the search path
/// of programs is not.
pub(crate) fn run_later(names: &Names) -> Option<&'static str> {
    let until = names.filled_by_tools();
    RUN_LATER.iter().copied().find(|rule| {
        // The directory begins where tools fill it.
        let until = if rule.ends_with('/') { until + 1 } else { until };
        names.fall_under(rule, until)
    })
}

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

/// Returns whether a part of a rule means a folded name. `*` at the start means any name with that end.
fn is_meant(name: &str, rule: &str) -> bool {
    match rule.strip_prefix('*') {
        Some(end) => name.len() > end.len() && name.ends_with(end.to_ascii_lowercase().as_str()),
        None => name.eq_ignore_ascii_case(rule),
    }
}

/// Components of a real path, folded as on case-insensitive file systems; they count from the root on.
pub struct Names {
    all: Vec<String>,
    n_above: usize,
}

impl Names {
    /// `named` is the end of the real path, from the name of the root on.
    pub fn new(real: &Path, named: &Path) -> Self {
        let all: Vec<String> = real.iter().map(fold).collect();
        let n_above = all.len() - named.iter().count();
        Self { all, n_above }
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
pub(crate) fn all_protected() -> impl Iterator<Item = &'static str> {
    PROTECTED.iter().chain(ELSEWHERE).copied()
}

/// Returns the protected name that a real path matches.
pub fn protected(names: &Names) -> Option<&'static str> {
    all_protected().find(|rule| names.fall_under(rule, usize::MAX))
}

/// Returns the protected name that a command would change at a real path, apart from `granted` ones and those
/// of git.
pub(crate) fn protection_from_commands(
    names: &Names,
    granted: &[String],
) -> Option<(&'static str, Protection)> {
    let until = names.filled_by_tools();
    let protection = |rule: &'static str| match rule {
        OWN_BENEATH => Protection::Closed,
        rule if ELSEWHERE.contains(&rule) => Protection::Elsewhere,
        _ => Protection::Executes,
    };
    // A name may be beneath that of a weaker rule.
    let found = for_commands(granted).filter(|rule| names.fall_under(rule, until));
    found.map(|rule| (rule, protection(rule))).max_by_key(|(_, protection)| *protection)
}

/// Returns the protected name beneath a real path: putting a symlink, file or directory there replaces it.
pub(crate) fn leads_to_protected(names: &Names, granted: &[String]) -> Option<&'static str> {
    let until = names.filled_by_tools();
    let of_git = OF_GIT.into_iter().filter(|rule| *rule != GIT && !is_granted(rule, granted));
    for_commands(granted).chain(of_git).find(|rule| {
        let parts: Vec<&str> = rule.trim_end_matches('/').split('/').collect();
        (1..parts.len()).any(|n| {
            let start = parts.get(..n).unwrap_or_default().join("/");
            names.fall_under(&start, until)
        })
    })
}

/// Returns the protected names for commands, without those of git.
fn for_commands(granted: &[String]) -> impl Iterator<Item = &'static str> + '_ {
    let all = all_protected().filter(|rule| !OF_GIT.contains(rule)).chain([OWN_BENEATH]);
    all.filter(|rule| !is_granted(rule, granted))
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
    all_protected().any(|rule| rule != GIT && is_granted(rule, &grant))
}

/// Returns sinew's own directory at the top of a root, if it exists: no command may change it.
pub fn own_at(root: &Path) -> Option<PathBuf> {
    Some(root.join(OWN)).filter(|path| rustix::fs::lstat(path).is_ok())
}

/// Returns the protected paths that exist at the top of a root, for commands whose changes cannot be judged.
pub fn protected_at(root: &Path, granted: &[String]) -> Vec<PathBuf> {
    const OTHERS_OF_GIT: [&str; 3] = [".git/config.worktree", ".git/commondir", ".git/gitdir"];
    let of_git = OF_GIT.into_iter().filter(|rule| *rule != GIT).chain(OTHERS_OF_GIT);
    let of_git = of_git.filter(|rule| !is_granted(rule, granted));
    for_commands(granted)
        .chain(of_git)
        .filter(|rule| *rule != OWN_BENEATH)
        .map(|rule| root.join(rule.trim_end_matches('/')))
        .filter(|path| rustix::fs::lstat(path).is_ok())
        .collect()
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
fn fold(name: &OsStr) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_stand_in_the_document_about_security() {
        let document = include_str!("../../../SECURITY.md");
        for rule in all_protected() {
            let covered = document.contains(&format!("`{rule}`")) || rule.starts_with(".git/");
            assert!(covered, "SECURITY.md does not name {rule}");
        }
    }
}
