//! Path rules for commands, so that a command's supervisor enforces the rules of the file tools.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use sinew_tool::FileError;
use sinew_tool::sync::lock;

use crate::git_config::{self, ConfigOf};
use crate::globs::RuleError;
use crate::guarded::{self, Guarded};
use crate::path_bytes;
use crate::protected::{self, Names, leads_to_protected};
use crate::rules::{PathGlobs, PathRules};

/// The rules of a session's commands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CommandRules {
    /// The real paths of the roots.
    #[serde(with = "path_bytes")]
    pub roots: Vec<PathBuf>,
    /// Paths outside the roots that commands may read.
    #[serde(with = "path_bytes")]
    pub read: Vec<PathBuf>,
    /// Protected names that commands may change.
    pub unprotected: Vec<String>,
    /// The path globs of the file tools.
    pub globs: PathGlobs,
    /// Whether commands may reach the network.
    pub network: bool,
    /// Hidden paths, which commands may not create either. There may be hundreds, and each change of a command asks for them.
    #[serde(with = "path_bytes")]
    pub hidden: HashSet<PathBuf>,
    /// Whether commands see the files of the host as they are.
    pub in_view_of_machine: bool,
    /// Directories beside the roots that are the session's own.
    #[serde(with = "path_bytes")]
    pub own: Vec<PathBuf>,
}

/// Why a command may not change a hidden path.
pub const HIDDEN: &str = "it is hidden from commands";

/// Why an operation is forbidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forbidden {
    /// It would change a protected name.
    Protected(&'static str),
    /// A path glob denies it; the reason in words.
    Denied(String),
}

/// The compiled rules.
#[derive(Debug)]
pub struct CommandJudge {
    rules: CommandRules,
    paths: Arc<PathRules>,
    /// The path that was judged last, since one call asks for several judgements of it.
    last: Mutex<Option<(PathBuf, Option<Arc<Names>>)>>,
}

impl CommandJudge {
    pub fn new(rules: CommandRules) -> Result<Self, RuleError> {
        let paths = Arc::new(PathRules::compile(&rules.globs, &[])?);
        Ok(Self { rules, paths, last: Mutex::default() })
    }

    /// Returns a judge for a command that may change these protected names too.
    pub fn granting(self: &Arc<Self>, granted: Vec<String>) -> Arc<Self> {
        if granted.is_empty() {
            return Arc::clone(self);
        }
        let mut rules = self.rules.clone();
        rules.unprotected.extend(granted);
        Arc::new(Self { rules, paths: Arc::clone(&self.paths), last: Mutex::default() })
    }

    /// Returns whether rules restrict reads.
    pub fn judges_reads(&self) -> bool {
        !self.rules.globs.is_empty()
    }

    pub fn may_reach_machines(&self) -> bool {
        self.rules.network
    }

    /// Returns whether a path is in the roots or the session's own; a command may use sockets there.
    pub fn is_its_own(&self, real: &Path) -> bool {
        self.is_beneath_a_root(real) || self.rules.own.iter().any(|own| real.starts_with(own))
    }

    /// Returns whether attribute changes need a judgement, because no mount restricts them.
    pub fn judges_attributes(&self) -> bool {
        self.rules.in_view_of_machine
    }

    /// Returns whether a command may change mode, owner, times or extended attributes of a file. If it sees
    /// the files of the host as they are, the kernel permits that for every file of its user.
    pub fn may_set_attributes(&self, real: &Path) -> bool {
        !self.rules.in_view_of_machine || self.is_its_own(real)
    }

    pub fn is_beneath_a_root(&self, real: &Path) -> bool {
        self.rules.roots.iter().any(|root| real.starts_with(root))
    }

    /// Rejects a change of anything beneath a hidden path.
    pub fn change(&self, real: &Path) -> Result<(), Forbidden> {
        // The session's own temporary files may be beneath a hidden path.
        let is_own = || self.rules.own.iter().any(|own| real.starts_with(own));
        if real.ancestors().any(|path| self.rules.hidden.contains(path)) && !is_own() {
            return Err(Forbidden::Denied(String::from(HIDDEN)));
        }
        Ok(())
    }

    /// Returns what a name means to programs outside the sandbox. `exists` looks at real paths.
    pub fn guarded(&self, real: &Path, exists: &dyn Fn(&Path) -> bool) -> Option<Guarded> {
        let names = self.names(real)?;
        guarded::find(&names, real, &self.rules.unprotected, exists)
    }

    /// Returns what the user's own commands execute later if a path changes: the path itself, or the directory of
    /// programs that holds it, relative to its root.
    pub fn runs_later(&self, real: &Path) -> Option<PathBuf> {
        let names = self.names(real)?;
        let what = protected::what_runs_later(&names, real)?;
        self.of_root(what).map(Path::to_owned)
    }

    /// Returns the directories at a path or beneath it whose programs the user's own commands execute.
    pub fn program_dirs(&self, real: &Path) -> Vec<PathBuf> {
        let Some(names) = self.names(real) else { return Vec::new() };
        protected::run_later_beneath(&names).map(|rest| real.join(rest)).collect()
    }

    /// Returns a path in a root relative to the innermost one.
    pub fn of_root<'p>(&self, real: &'p Path) -> Option<&'p Path> {
        let roots = self.rules.roots.iter().filter(|root| real.starts_with(root));
        real.strip_prefix(roots.max_by_key(|root| root.as_os_str().len())?).ok()
    }

    /// Returns the directory that a new name would make a repository.
    pub fn completes(&self, real: &Path, exists: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
        guarded::completes(real, exists).filter(|dir| self.is_beneath_a_root(dir))
    }

    /// Returns why a guarded file may not change from one content to another. That of tracked names is judged
    /// elsewhere, since it needs the objects of the repository.
    pub fn content(
        &self,
        guarded: Guarded,
        real: &Path,
        before: &[u8],
        after: &[u8],
    ) -> Result<(), String> {
        match guarded {
            Guarded::Configuration(of) => git_config::judge(before, after, of),
            Guarded::Pointer(pointer) => {
                guarded::judge_pointer(pointer, real, after, &|path| self.is_judged(path))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a directory must not move to a path, or from there, since git finds repositories in it.
    pub fn is_in_repository(&self, real: &Path, exists: &dyn Fn(&Path) -> bool) -> bool {
        let mut above = real.ancestors().skip(1).take_while(|dir| self.is_beneath_a_root(dir));
        above.any(|dir| {
            dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
                || guarded::is_repository(dir, exists)
        })
    }

    /// Returns why a directory with this configuration may not become a repository.
    pub fn new_repository(&self, configuration: &[u8]) -> Result<(), String> {
        git_config::judge(&[], configuration, ConfigOf::Repository)
    }

    /// Judges opening a file or a directory for reading.
    pub fn open(&self, real: &Path, is_dir: bool) -> Result<(), Forbidden> {
        let is_given = || self.rules.read.iter().any(|path| real.starts_with(path));
        if !self.judges_reads() || !(self.is_beneath_a_root(real) || is_given()) {
            return Ok(());
        }
        let judged = if is_dir { self.paths.check_search(real) } else { self.paths.check(real) };
        judged.map_err(|error| match error {
            FileError::Denied(why) => Forbidden::Denied(why),
            other => Forbidden::Denied(other.about("it").message.into_owned()),
        })
    }

    /// Judges the creation of a non-directory. A symlink in place of a directory that holds protected names
    /// leads to others, and so does a file named `.git`.
    pub fn name(&self, real: &Path, is_link: bool) -> Result<(), Forbidden> {
        let leads = self.leads_to(real).filter(|name| is_link || name.starts_with(".git/"));
        leads.map_or(Ok(()), |name| Err(Forbidden::Protected(name)))
    }

    /// Returns the protected name beneath a directory of this real path.
    fn leads_to(&self, real: &Path) -> Option<&'static str> {
        let names = self.names(real)?;
        leads_to_protected(&names, &self.rules.unprotected)
    }

    /// Returns whether a directory must be copied, not renamed: files in it were not judged so far, or its
    /// name decides over them.
    pub fn must_be_copied(&self, from: &Path, to: &Path) -> bool {
        (!self.is_judged(from) && self.is_judged(to))
            || self.leads_to(from).is_some()
            || self.leads_to(to).is_some()
    }

    /// Returns whether a directory moves to where its files are not judged.
    pub fn goes_out(&self, from: &Path, to: &Path) -> bool {
        self.is_judged(from) && !self.is_judged(to)
    }

    /// Returns whether a path is in a root and in no directory that tools fill.
    pub fn is_judged(&self, real: &Path) -> bool {
        self.names(real).is_some_and(|names| !names.is_filled_by_tools())
    }

    /// Returns whether a directory must not be renamed, because path globs name files beneath it.
    pub fn globs_tell_apart(&self, from: &Path, to: &Path) -> bool {
        self.judges_reads() && [from, to].iter().any(|dir| self.paths.tell_apart_beneath(dir))
    }

    /// Returns whether a symlink at a path leads out of the roots, to this real path. Those in directories that tools
    /// fill do not count.
    pub fn leads_out(&self, link: &Path, to: &Path) -> bool {
        self.is_judged(link) && !self.is_beneath_a_root(to)
    }

    /// Returns the names of a path, from the name of its root on.
    fn names(&self, real: &Path) -> Option<Arc<Names>> {
        let mut last = lock(&self.last);
        if let Some((path, names)) = &*last
            && path == real
        {
            return names.clone();
        }
        let names = self.names_of(real).map(Arc::new);
        *last = Some((real.to_owned(), names.clone()));
        names
    }

    fn names_of(&self, real: &Path) -> Option<Names> {
        let roots = self.rules.roots.iter().filter(|root| real.starts_with(root));
        let root = roots.max_by_key(|root| root.as_os_str().len())?;
        let named = root.parent().and_then(|above| real.strip_prefix(above).ok());
        Some(Names::new(real, named.unwrap_or(real)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_paths_hold_what_is_beneath_and_not_what_is_the_sessions_own() {
        let judge = CommandJudge::new(CommandRules {
            hidden: ["/home/a/.keys", "/home/a/state/", "/srv/one"].map(PathBuf::from).into(),
            own: vec![PathBuf::from("/home/a/state/session")],
            ..CommandRules::default()
        })
        .expect("rules");
        for (path, may) in [
            ("/home/a/.keys", false),
            ("/home/a/.keys/", false),
            ("/home/a//.keys/./id", false),
            ("/home/a/.keys/deep/id", false),
            ("/home/a/state", false),
            ("/home/a/state/other/x", false),
            ("/home/a/state/session/x", true),
            ("/home/a/.keys2", true),
            ("/home/a", true),
            ("/srv/one.more", true),
            ("/", true),
        ] {
            assert_eq!(judge.change(Path::new(path)).is_ok(), may, "{path}");
        }
    }
}
