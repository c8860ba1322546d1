//! Contains a call: resolves each of its paths to an open handle and judges it by the path rules.
//!
//! Every path is judged where it leads in the end, through links and `..`, beneath the roots of the
//! session or the narrower ones of the call. What comes out can be looked at and judged, not used.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sinew_fs::resolve::{self, Place, Spot};
use sinew_fs::roots::{DIRECTORY_PATH, Root, Roots};
use sinew_policy::protected::{self, Names};
use sinew_policy::rules;
use sinew_tool::{
    Access, Claim, FileError, FileState, FileTarget, Kind, Links, Position, Slot, Targets,
    ToolError,
};

use crate::clear::Contained;
use crate::guard::Guard;
use crate::moving;

/// How a path through a non-directory is handled.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InTheWay<'a> {
    /// It is rejected.
    Refused,
    /// It counts as missing for good.
    Passed,
    /// These are removed before the path is used.
    Cleared(&'a HashSet<PathBuf>),
}

/// Which claims may be outside the roots, where the settings allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayLeave {
    None,
    /// Those on what a command needs.
    Lent,
    /// Those that read, search, make or edit one file or directory.
    Files,
    All,
}

/// Returns whether a claim concerns nothing but the file or directory that it names.
fn leaves_alone(access: Access) -> bool {
    match access {
        Access::Read
        | Access::Search
        | Access::Write { .. }
        | Access::Edit { .. }
        | Access::Make => true,
        Access::Inspect | Access::Remove | Access::Move | Access::Lend { .. } => false,
    }
}

/// How the paths of a call are resolved.
#[derive(Debug, Clone, Copy)]
struct How<'a> {
    in_the_way: InTheWay<'a>,
    may_leave: MayLeave,
}

impl Guard {
    /// Contains the paths of a call, of which some may be outside the roots: a ruling asks for them.
    pub fn contain_call(
        self: &Arc<Self>,
        claims: &[Claim],
        cwd: Option<&Path>,
        narrowed: Option<&[PathBuf]>,
    ) -> Result<Contained, ToolError> {
        let how = How { in_the_way: InTheWay::Refused, may_leave: MayLeave::Files };
        self.contain_with(claims, cwd, narrowed, how)
    }

    /// Contains the paths of a call with a command, of which those that it needs may be outside the roots.
    pub fn contain_command(
        self: &Arc<Self>,
        claims: &[Claim],
        cwd: Option<&Path>,
        narrowed: Option<&[PathBuf]>,
    ) -> Result<Contained, ToolError> {
        let how = How { in_the_way: InTheWay::Refused, may_leave: MayLeave::Lent };
        self.contain_with(claims, cwd, narrowed, how)
    }

    /// Contains the paths of a call. Relative ones start at `cwd`, else at the first root. `narrowed` limits
    /// the call to directories beneath the roots.
    ///
    /// A missing path is a target. A path that leaves the roots, is denied or cannot be resolved is an error.
    pub fn contain(
        self: &Arc<Self>,
        claims: &[Claim],
        cwd: Option<&Path>,
        narrowed: Option<&[PathBuf]>,
    ) -> Result<Contained, ToolError> {
        let how = How { in_the_way: InTheWay::Refused, may_leave: MayLeave::None };
        self.contain_with(claims, cwd, narrowed, how)
    }

    /// Contains paths that [`Guard::contain`] rejects because a non-directory is in their way, as missing for
    /// good. Rules then judge them, and no error reveals whether the path exists.
    pub fn contain_behind(
        self: &Arc<Self>,
        claims: &[Claim],
        cwd: Option<&Path>,
        narrowed: Option<&[PathBuf]>,
    ) -> Result<Contained, ToolError> {
        let how = How { in_the_way: InTheWay::Passed, may_leave: MayLeave::None };
        self.contain_with(claims, cwd, narrowed, how)
    }

    /// Contains paths that a restore looks at.
    pub(crate) fn contain_looked_at(
        self: &Arc<Self>,
        claims: &[Claim],
        cwd: Option<&Path>,
        narrowed: Option<&[PathBuf]>,
    ) -> Result<Contained, ToolError> {
        let how = How { in_the_way: InTheWay::Refused, may_leave: MayLeave::All };
        self.contain_with(claims, cwd, narrowed, how)
    }

    /// Contains paths behind files and symlinks that the call removes first.
    pub(crate) fn contain_past(
        self: &Arc<Self>,
        claims: &[Claim],
        cwd: Option<&Path>,
        narrowed: Option<&[PathBuf]>,
        cleared: &HashSet<PathBuf>,
    ) -> Result<Contained, ToolError> {
        let how = How { in_the_way: InTheWay::Cleared(cleared), may_leave: MayLeave::All };
        self.contain_with(claims, cwd, narrowed, how)
    }

    fn contain_with(
        self: &Arc<Self>,
        claims: &[Claim],
        cwd: Option<&Path>,
        narrowed: Option<&[PathBuf]>,
        how: How<'_>,
    ) -> Result<Contained, ToolError> {
        let roots = match narrowed {
            Some(paths) => Arc::new(self.narrow(paths)?),
            None => Arc::clone(&self.shared.roots),
        };
        let cwd = working_directory(&roots, cwd)?;
        let mut targets = Targets { files: Vec::with_capacity(claims.len()), ..Targets::default() };
        let mut places = Vec::with_capacity(claims.len());
        let mut dirs = HashMap::new();
        let may_leave = self.may_leave(how.may_leave, narrowed.is_some());
        for (at, claim) in claims.iter().enumerate() {
            let earlier = at.checked_sub(1).and_then(|at| claims.get(at));
            let is_moved_to = earlier.is_some_and(|earlier| earlier.access == Access::Move);
            let how = match may_leave {
                MayLeave::Lent if !matches!(claim.access, Access::Lend { .. }) => {
                    How { may_leave: MayLeave::None, ..how }
                }
                MayLeave::Files if is_moved_to || !leaves_alone(claim.access) => {
                    How { may_leave: MayLeave::None, ..how }
                }
                may_leave => How { may_leave, ..how },
            };
            let (target, mut place) = self
                .contain_one(&roots, &cwd, claim, Slot(at), how)
                .map_err(|error| about(claim, &cwd, error))?;
            if 1 < claims.len() {
                place.share(&mut dirs).map_err(|error| about(claim, &cwd, error))?;
            }
            targets.files.push(target);
            places.push(place);
        }
        self.judge_moves(&mut targets, &places).map_err(|(at, error)| match claims.get(at) {
            Some(claim) => about(claim, &cwd, error),
            None => error.about(""),
        })?;
        Ok(Contained::new(Arc::clone(self), roots, cwd, targets, places))
    }

    /// Judges the descendants of directories that move, each to the place after it.
    fn judge_moves(
        &self,
        targets: &mut Targets,
        places: &[Place],
    ) -> Result<(), (usize, FileError)> {
        for (at, pair) in places.windows(2).enumerate() {
            let [from, to] = pair else { continue };
            let Some([target, next]) = targets.files.get_mut(at..at + 2) else { continue };
            if target.claim.access != Access::Move || !from.is_directory() {
                continue;
            }
            let mut later = BTreeSet::new();
            let mut note = |real: &Path| {
                later.extend(self.runs_later_beneath(&to.real, real));
                Ok(())
            };
            let found = moving::descendants::judge(self.names(), from, &to.real, &mut note)
                .map_err(|error| (at, error))?;
            target.protected = target.protected.or(found);
            next.later_beneath = later.into_iter().collect();
        }
        Ok(())
    }

    /// Returns what the user's own commands execute of a path beneath a directory, relative to that: the path, or the
    /// directory of programs that holds it.
    fn runs_later_beneath(&self, dir: &Path, real: &Path) -> Option<PathBuf> {
        let names = Names::new(real, self.shared.roots.named(real));
        Some(protected::what_runs_later(&names, real)?.strip_prefix(dir).ok()?.to_owned())
    }

    /// Resolves and judges one path.
    fn contain_one(
        &self,
        roots: &Roots,
        cwd: &Path,
        claim: &Claim,
        slot: Slot,
        how: How<'_>,
    ) -> Result<(FileTarget, Place), FileError> {
        if let Some(scope) = claim.memory {
            return self.contain_memory(roots, claim, scope, slot);
        }
        let (mut place, position) = match self.resolved(roots, cwd, claim, how.in_the_way) {
            Err(refused @ FileError::Denied(_)) if how.may_leave != MayLeave::None => {
                self.outside(cwd, claim, how.in_the_way, refused)?
            }
            other => (other?, Position::Inside),
        };
        let root = match position {
            Position::Inside => roots.holding(&place.real).ok_or(FileError::Missing)?.real.clone(),
            Position::Programs | Position::Outside => match place.is_directory() {
                true => place.real.clone(),
                false => place.real.parent().unwrap_or(&place.real).to_owned(),
            },
        };
        // Names count from the roots of the session, not from the narrowed ones.
        let named = self.shared.roots.named(&place.real);
        self.check_rules(&place, named, claim.access)?;
        let names = claim.access.changes().then(|| Names::new(&place.real, named));
        let protected = names.as_ref().and_then(protected::protected);
        let runs_later = names.as_ref().and_then(protected::run_later).is_some();
        let may_create = matches!(claim.access, Access::Write { parents: true, .. } | Access::Make);
        let state = match &place.spot {
            Spot::Found(meta) => FileState::Found(meta.clone()),
            Spot::Missing | Spot::MissingParents(_) | Spot::Gone => FileState::Missing,
        };
        if !may_create && matches!(place.spot, Spot::MissingParents(_)) {
            place.orphan = true;
        }
        let path = place.real.clone();
        let claim = claim.clone();
        let later_beneath = Vec::new();
        let target = FileTarget {
            slot,
            claim,
            path,
            root,
            position,
            state,
            protected,
            runs_later,
            later_beneath,
        };
        Ok((target, place))
    }

    /// Resolves a claim beneath the roots.
    fn resolved(
        &self,
        roots: &Roots,
        cwd: &Path,
        claim: &Claim,
        in_the_way: InTheWay<'_>,
    ) -> Result<Place, FileError> {
        let links = claim.access.links();
        Ok(match &claim.path {
            Some(written) => {
                resolve::check_spelling(Path::new(written))?;
                // Joining keeps a trailing slash: `a/` is a directory.
                let path = resolve::joined(cwd, Path::new(written));
                match in_the_way {
                    InTheWay::Cleared(cleared) if resolve::is_past(&path, cleared) => {
                        resolve::past(roots, &path, links, cleared)?
                    }
                    _ => match (resolve::resolve(roots, &path, links), in_the_way) {
                        (Err(FileError::NotDirectory), InTheWay::Passed) => {
                            resolve::behind(roots, &path, links)?
                        }
                        (other, _) => other?,
                    },
                }
            }
            None => resolve::resolve(roots, cwd, links)?,
        })
    }

    /// Applies the path rules to a resolved path, and to each parent that would be created.
    fn check_rules(&self, place: &Place, named: &Path, access: Access) -> Result<(), FileError> {
        rules::check_own(named, access)?;
        if self.rules.is_empty() {
            return Ok(());
        }
        if access == Access::Search && place.is_directory() {
            return self.rules.check_search(&place.real);
        }
        self.rules.check(&place.real)?;
        if let Spot::MissingParents(names) = &place.spot {
            let created = place.real.ancestors().skip(1).take(names.len());
            for parent in created {
                self.rules.check_search(parent)?;
            }
        }
        Ok(())
    }

    /// Returns the real path of the directory at which the relative paths of a call start.
    pub fn working_directory(
        &self,
        cwd: Option<&Path>,
        narrowed: Option<&[PathBuf]>,
    ) -> Result<Arc<Path>, ToolError> {
        match narrowed {
            Some(paths) => working_directory(&self.narrow(paths)?, cwd),
            None => working_directory(&self.shared.roots, cwd),
        }
    }

    /// Opens the roots of one call.
    fn narrow(&self, paths: &[PathBuf]) -> Result<Roots, ToolError> {
        let open = |path: &PathBuf| {
            resolve::check_spelling(path)?;
            let place = resolve::resolve(&self.shared.roots, path, Links::Follow)?;
            let handle = Arc::new(place.open_directory(DIRECTORY_PATH)?);
            let given = path.components().collect();
            Ok(Root { handle, real: place.real, given })
        };
        let roots = paths
            .iter()
            .map(|path| open(path).map_err(|error: FileError| error.about(&path.to_string_lossy())))
            .collect::<Result<Vec<_>, _>>()?;
        if roots.is_empty() {
            return Err(ToolError::new(Kind::PathDenied, "the request leaves no root to work in"));
        }
        Ok(Roots::narrowed(roots, self.shared.roots.resolver()))
    }
}

/// Returns the real path of the directory that relative paths start at.
fn working_directory(roots: &Roots, cwd: Option<&Path>) -> Result<Arc<Path>, ToolError> {
    let Some(first) = roots.first() else {
        return Err(ToolError::new(Kind::PathDenied, "there is no root to work in"));
    };
    let Some(cwd) = cwd else { return Ok(Arc::from(first.real.as_path())) };
    if cwd == first.real {
        return Ok(Arc::from(cwd));
    }
    let shown = cwd.to_string_lossy();
    let about = |error: FileError| {
        let error = error.about(&shown);
        ToolError { message: format!("working directory: {}", error.message).into(), ..error }
    };
    resolve::check_spelling(cwd).map_err(about)?;
    let place = resolve::resolve(roots, &first.real.join(cwd), Links::Follow).map_err(about)?;
    match (&place.spot, place.is_directory()) {
        (_, true) => Ok(Arc::from(place.real)),
        (Spot::Found(_), false) => Err(about(FileError::NotDirectory)),
        _ => Err(about(FileError::Missing)),
    }
}

/// Returns the error of a claim for the model, with the name of its argument.
fn about(claim: &Claim, cwd: &Path, error: FileError) -> ToolError {
    let shown = match &claim.path {
        Some(written) => written.clone(),
        None => cwd.to_string_lossy().into_owned(),
    };
    claim.about(error.about(&shown))
}
