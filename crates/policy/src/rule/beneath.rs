//! Path rules on paths that a call does not name: beneath a searched directory, or moved with a directory.

use std::path::Path;
use std::sync::Arc;

use sinew_tool::{Access, FileError, FileTarget, Targets, Verdict};

use super::{Condition, Object, Paths, Rule};
use crate::judge::Case;
use crate::rules::PathRules;
use sinew_fs::roots::Roots;

/// Returns the path rules that deny or ask for a call.
fn held_by_path<'r>(
    rules: &'r [Arc<Rule>],
    case: &'r Case<'_>,
) -> impl Iterator<Item = &'r Arc<Rule>> {
    rules.iter().filter(move |rule| rule.holds_by_path() && rule.meets(case))
}

/// Returns whether path rules deny or ask for a call.
pub fn judges_paths(rules: &[Arc<Rule>], case: &Case<'_>) -> bool {
    held_by_path(rules, case).next().is_some()
}

/// Rules on moved descendants, for the check just before the move.
#[derive(Debug)]
pub struct Taken {
    denied: Beneath,
    /// Paths that ask, unless the call has asked for them.
    asks: Beneath,
}

impl Taken {
    /// Returns the rules for a call; `was_asked` says that it asked because of moved descendants.
    pub fn of(rules: &[Arc<Rule>], case: &Case<'_>, was_asked: bool) -> Self {
        let with = |verdict: Verdict| {
            let rules = held_by_path(rules, case).filter(|rule| rule.verdict == verdict);
            Beneath(rules.map(|rule| Kept::of(rule, case)).collect())
        };
        let asks = if was_asked { Beneath(Vec::new()) } else { with(Verdict::Ask) };
        Self { denied: with(Verdict::Deny), asks }
    }

    /// Rejects a real path that did not exist when the call was judged.
    pub fn check(&self, real: &Path) -> Result<(), FileError> {
        if self.denied.hides(real, false) {
            return Err(FileError::Denied(String::from("a rule denies a path beneath it")));
        }
        if self.asks.hides(real, false) { Err(FileError::Changed) } else { Ok(()) }
    }
}

/// Judges paths beneath a directory that one call searches or lists.
#[derive(Debug, Clone, Copy)]
pub struct Judge<'a> {
    pub roots: &'a Roots,
    pub rules: &'a PathRules,
    /// Paths that rules hide from the call.
    pub beneath: Option<&'a Beneath>,
}

impl Judge<'_> {
    /// Returns whether a path beneath a directory may be hidden.
    pub fn judges_beneath(&self, dir: &Path) -> bool {
        self.beneath.is_some() || self.rules.judge_beneath(dir)
    }

    /// Returns whether the path rules show a path.
    pub fn may_see(&self, path: &Path, is_directory: bool) -> bool {
        let rules = self.rules;
        let rule = if is_directory { rules.check_search(path) } else { rules.check(path) };
        rule.is_ok() && !self.beneath.is_some_and(|beneath| beneath.hides(path, is_directory))
    }
}

/// A path rule that hides paths from a call.
#[derive(Debug, Clone)]
struct Kept {
    rule: Arc<Rule>,
    /// Indexes of the exceptions that hold for the call.
    excepted: Vec<usize>,
}

impl Kept {
    fn of(rule: &Arc<Rule>, case: &Case<'_>) -> Self {
        let meets = |(_, but): &(usize, &Condition)| but.meets(case, Verdict::Deny);
        let excepted = rule.unless.iter().enumerate().filter(meets).map(|(at, _)| at);
        Self { excepted: excepted.collect(), rule: Arc::clone(rule) }
    }

    fn may_lie_beneath(&self, dir: &Path) -> bool {
        paths_of(&self.rule.when).is_some_and(|paths| paths.may_lie_beneath(dir))
    }

    fn hides(&self, path: &Path, is_directory: bool) -> bool {
        let excepts =
            |paths: &Paths| paths.mean(path) || (is_directory && paths.may_lie_beneath(path));
        let excepted = self.excepted.iter().filter_map(|at| self.rule.unless.get(*at));
        paths_of(&self.rule.when).is_some_and(|paths| paths.mean(path))
            && !excepted.filter_map(paths_of).any(excepts)
    }
}

fn paths_of(condition: &Condition) -> Option<&Paths> {
    match &condition.object {
        Object::Paths(paths) => Some(paths),
        _ => None,
    }
}

/// Paths that rules hide from the searches of one call.
#[derive(Debug, Clone)]
pub struct Beneath(Vec<Kept>);

impl Beneath {
    /// Returns the rules that hide paths beneath the directories that a call searches, if any.
    pub fn of(rules: &[Arc<Rule>], case: &Case<'_>, targets: &Targets) -> Option<Self> {
        let searches = |file: &&FileTarget| file.claim.access == Access::Search;
        let mut searched = targets.files.iter().filter(searches).peekable();
        searched.peek()?;
        let searched: Vec<&Path> = searched.map(|file| file.path.as_path()).collect();
        let kept_out = held_by_path(rules, case).map(|rule| Kept::of(rule, case));
        let lies_there = |kept: &Kept| searched.iter().any(|dir| kept.may_lie_beneath(dir));
        let kept_out: Vec<_> = kept_out.filter(lies_there).collect();
        (!kept_out.is_empty()).then_some(Self(kept_out))
    }

    /// Returns the path rules that deny or ask for any of these calls, if any.
    pub fn of_calls(rules: &[Arc<Rule>], cases: &[Case<'_>]) -> Option<Self> {
        let mut kept_out = Vec::new();
        for rule in rules.iter().filter(|rule| rule.holds_by_path()) {
            let begin = kept_out.len();
            for kept in
                cases.iter().filter(|case| rule.meets(case)).map(|case| Kept::of(rule, case))
            {
                let mut others = kept_out.iter().skip(begin);
                if !others.any(|other: &Kept| other.excepted == kept.excepted) {
                    kept_out.push(kept);
                }
            }
        }
        (!kept_out.is_empty()).then_some(Self(kept_out))
    }

    /// Returns whether a hidden path may be at or beneath a directory.
    pub fn may_lie_beneath(&self, dir: &Path) -> bool {
        self.0.iter().any(|kept| kept.may_lie_beneath(dir))
    }

    /// Returns whether a path is hidden. A directory that contains an exception is entered.
    pub fn hides(&self, path: &Path, is_directory: bool) -> bool {
        self.0.iter().any(|kept| kept.hides(path, is_directory))
    }
}
