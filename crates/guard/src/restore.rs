//! Turns a checkpoint into claims, so that a restore passes the same checks as any other change.
//!
//! The index names the paths. Each is inspected on handles, beneath the roots and under the path rules; the
//! plan follows from that. Its steps become claims, contained again with the right to change and bound to the
//! state that the plan found: a change in between is rejected.

pub(crate) mod git_files;
mod git_references;
mod rebuild;
mod told_plan;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{fstat, readlinkat};
use sinew_tool::{
    Access, CheckpointInfo, CheckpointQuery, Claim, ContentHash, FileError, FileKind, FileState,
    Identity, Kind, Links, NoCheckpoints, PathChange, Restore, RestoreAct, RestoreChoice,
    RestoreConflict, RestorePlan, RestoreStep, Ruling, Slot, Targets, ToolError, Was,
};

use crate::change::kept::path_of;
use crate::clear::Contained;
use crate::guard::Guard;
use crate::restore::git_files::GitFiles;
use crate::restore::told_plan::{change_of, told, was};
use sinew_fs::git_index;
use sinew_fs::resolve::{self, Place, Spot};
use sinew_fs::roots::{DIRECTORY_READ, FILE_READ, Roots, open_name};
use sinew_fs::stat::{error_of, identity_of};
use sinew_policy::judge::Case;
use sinew_policy::rule::{self, Beneath, Rule};
use sinew_records::checkpoints::{
    CallContext, CheckpointError, CheckpointId, Checkpoints, Entry, Held, History, Listed,
    PathState, Query, Scope, UndoHistory,
};

/// Attempts of a plan when others change the paths that it inspects.
const MAX_ATTEMPTS: u32 = 3;
/// The most changes that an undo passes over because a person took them back by hand.
const MAX_DONE: usize = 50;
/// The most checkpoints that one list reads.
const MAX_LOOKED: usize = 10_000;

/// Kept states by path.
type States = HashMap<PathBuf, Vec<PathState>>;

/// The restore of a call.
#[derive(Debug)]
pub(crate) struct Restoring {
    plan: RestorePlan,
    /// The checkpoint before which the session is afterwards, unless some paths alone are restored.
    since: Option<CheckpointId>,
    /// The kept states that the plan names, by path.
    states: States,
    /// The operations that each act stands for.
    operations: &'static [(RestoreAct, &'static [&'static str])],
    /// The operations that change memory files.
    of_memory: &'static [&'static str],
    git: GitFiles,
    /// Prevents garbage collection until the call ends.
    _held: Held,
}

impl Restoring {
    /// Returns the session whose changes are undone.
    pub(crate) fn session(&self) -> &str {
        &self.plan.session
    }

    /// Returns the checkpoint that is undone with all later ones of its session.
    pub(crate) fn since(&self) -> Option<CheckpointId> {
        self.since
    }

    /// Returns the files of git that it changes.
    pub(crate) fn git(&self) -> &GitFiles {
        &self.git
    }

    /// Returns what rules deny or ask of the steps' operations: a denied write is not restored either.
    pub(crate) fn held(
        &self,
        rules: &[Arc<Rule>],
        case: &Case<'_>,
        targets: &Targets,
    ) -> Option<Ruling> {
        let mut strongest: Option<Ruling> = None;
        let changed = targets.files.iter().filter(|file| file.claim.access.changes());
        for file in changed {
            let step = self.plan.steps.iter().find(|step| step.slot == Some(file.slot));
            let Some(act) = step.map(|step| step.act) else { continue };
            let known = self.operations.iter().find(|(known, _)| *known == act);
            let operations = match file.claim.memory {
                Some(_) => self.of_memory,
                None => known.map(|(_, operations)| *operations).unwrap_or_default(),
            };
            let at_path = Targets { files: vec![file.clone()], ..Targets::default() };
            for operation in operations {
                let case = Case { tool: operation, operation, ..*case };
                let Some(held) = rule::held(rules, &case, &at_path, None) else { continue };
                if strongest.as_ref().is_none_or(|strongest| strongest.verdict < held.verdict) {
                    let why = format!("{}; restoring this file acts as {operation}", held.why);
                    strongest = Some(Ruling { why: why.into(), ..held });
                }
            }
        }
        strongest
    }
}

/// A restore that its call may perform.
struct Planned {
    contained: Contained,
    plan: RestorePlan,
    states: States,
    /// What each index of git means.
    meanings: HashMap<PathBuf, ContentHash>,
    /// Whether it changes something or is refused.
    acts: bool,
}

/// The state found at a path.
struct Look {
    state: PathState,
    identity: Option<Identity>,
    /// The names in a directory.
    names: Vec<CString>,
    /// What an index of git means.
    meaning: Option<ContentHash>,
    /// The command that makes a directory anew.
    rebuild: Option<&'static str>,
    /// Why no call can look at it, or change it.
    problem: Option<String>,
}

impl Guard {
    /// Contains a restore: the paths of a checkpoint become claims of the call of this session.
    pub fn contain_restore(
        self: &Arc<Self>,
        restore: &Restore,
        session: &str,
        cwd: Option<&Path>,
        narrowed: Option<&[PathBuf]>,
    ) -> Result<Contained, ToolError> {
        let checkpoints = self.shared.checkpoints.as_ref().ok_or_else(NoCheckpoints::error)?;
        checkpoints.catch_up();
        let (first, further) = match &restore.choice {
            RestoreChoice::Id(id) => {
                let no_id = |problem| {
                    ToolError::argument(restore.argument, format!("is not a checkpoint: {problem}"))
                };
                (id.parse().map_err(no_id)?, Vec::new())
            }
            RestoreChoice::Last { n, redo } => {
                last(checkpoints, session, (restore.argument, *n, *redo))?
            }
        };
        // After the choice: a command that ended before it is no longer under way.
        let under_way = checkpoints.paths_under_way();
        let of_call = (cwd, narrowed);
        let (mut contained, mut acts) =
            self.contain_checkpoint(restore, first, &under_way, of_call)?;
        // A change that a person took back by hand needs no undo.
        for id in further {
            if acts {
                break;
            }
            (contained, acts) = self.contain_checkpoint(restore, id, &under_way, of_call)?;
        }
        Ok(contained)
    }

    /// Contains the restore of one checkpoint; returns too whether it changes something or is refused.
    fn contain_checkpoint(
        self: &Arc<Self>,
        restore: &Restore,
        id: CheckpointId,
        under_way: &HashMap<PathBuf, bool>,
        of_call: (Option<&Path>, Option<&[PathBuf]>),
    ) -> Result<(Contained, bool), ToolError> {
        let checkpoints = self.shared.checkpoints.as_ref().ok_or_else(NoCheckpoints::error)?;
        let (held, operations) = (checkpoints.hold()?, restore.operations);
        let (id, history) = self.history(checkpoints, restore, id, of_call)?;
        let since = Some(id).filter(|_| !restore.only && restore.path.is_none());
        let entries = checkpoints.entries(id)?;
        let listed = checkpoints.listed(id)?;
        for _ in 0..MAX_ATTEMPTS {
            let planned = self.try_plan(
                checkpoints,
                restore,
                (&history, &listed, under_way),
                &entries,
                of_call,
            )?;
            if let Some(Planned { contained, plan, states, meanings, acts }) = planned {
                let git = GitFiles::of(&plan, meanings);
                let of_memory = restore.of_memory;
                let restoring =
                    Restoring { plan, since, states, operations, of_memory, git, _held: held };
                return Ok((contained.restoring(restoring), acts));
            }
        }
        Err(ToolError::new(Kind::Stale, "the files changed while the restore was worked out")
            .hint("repeat the call once no other process changes them"))
    }

    /// Plans a restore by the current state of its paths; returns `None` if that changed meanwhile.
    fn try_plan(
        self: &Arc<Self>,
        checkpoints: &Checkpoints,
        restore: &Restore,
        (history, listed, under_way): (&History, &Listed, &HashMap<PathBuf, bool>),
        entries: &[Entry],
        (cwd, narrowed): (Option<&Path>, Option<&[PathBuf]>),
    ) -> Result<Option<Planned>, ToolError> {
        let (looks, contained) = self.look(restore, history.paths(), cwd, narrowed)?;
        let seen = |path: &Path| match looks.get(path) {
            Some(look) => Ok(look.state.clone()),
            None => Err(ToolError::new(Kind::ExecutionFailed, "a path was not looked at")),
        };
        let meaning = |path: &Path, state: &PathState| match looks.get(path) {
            Some(look) if look.state == *state => look.meaning,
            _ => git_index::meaning(&checkpoints.content(path, state).ok()?.read_all().ok()?),
        };
        let means_same = |path: &Path, one: &PathState, other: &PathState| {
            git_index::is_index(path)
                && meaning(path, one).is_some_and(|one| meaning(path, other) == Some(one))
        };
        let plan = history.plan_by(seen, means_same)?;
        let entries = entries.iter().filter(|entry| looks.contains_key(&entry.path));
        let (mut plan, states) = told(&plan, listed, entries);
        annotate(&mut plan, &looks, under_way, (&states, checkpoints));
        // What a partial restore leaves may be in a directory that is to be replaced.
        while mark_not_emptied(&mut plan, &looks, restore.force) && restore.partial {
            plan.leave_refused(restore.force);
        }
        if restore.partial {
            plan.leave_refused(restore.force);
        }
        let meanings = looks.iter().filter_map(|(path, look)| Some((path.clone(), look.meaning?)));
        let meanings = meanings.collect();
        let is_refused = plan.refused(restore.force).next().is_some();
        let acts = is_refused || !plan.left.is_empty() || plan.acting().next().is_some();
        if restore.looks || is_refused {
            let slots = contained.targets().files.iter();
            let slots: BTreeMap<PathBuf, Slot> =
                slots.map(|target| (target.path.clone(), target.slot)).collect();
            for step in &mut plan.steps {
                step.slot = slots.get(&step.path).copied();
            }
            return Ok(Some(Planned { contained, plan, states, meanings, acts }));
        }
        let mut claims = Vec::new();
        for step in &mut plan.steps {
            if let Some(access) = access(step.act) {
                step.slot = Some(Slot(claims.len()));
                let path = written(&step.path)?;
                claims.push(self.claim_on(restore.argument, path, access));
            }
        }
        let cleared: HashSet<PathBuf> = plan
            .acting()
            .filter(|step| step.act == RestoreAct::Remove)
            .map(|step| step.path.clone())
            .collect();
        let contained = self.contain_past(&claims, cwd, narrowed, &cleared)?;
        let is_still =
            contained.targets().files.iter().zip(contained.places()).all(|(target, place)| {
                let now = match &target.state {
                    FileState::Missing => None,
                    FileState::Found(meta) => Some(meta.identity),
                };
                let Some(look) = looks.get(&target.path) else { return false };
                let means_same = || git_files::meaning(place).is_ok_and(|now| now == look.meaning);
                look.identity == now || (look.meaning.is_some() && means_same())
            });
        Ok(is_still.then_some(Planned { contained, plan, states, meanings, acts }))
    }

    /// Returns the first checkpoint of a restore and the history of its paths, which the call may name.
    fn history(
        self: &Arc<Self>,
        checkpoints: &Checkpoints,
        restore: &Restore,
        id: CheckpointId,
        (cwd, narrowed): (Option<&Path>, Option<&[PathBuf]>),
    ) -> Result<(CheckpointId, History), ToolError> {
        let scope = if restore.only { Scope::Only } else { Scope::Since };
        let of_call = self.contain(&[], cwd, narrowed)?;
        let mut history = checkpoints.history(id, scope)?;
        let is_outside = |path: &Path| !self.may_name(of_call.roots(), path);
        // What calls in other roots changed stays unknown here.
        let may_leave =
            history.paths().any(is_outside) && self.made_here(checkpoints, id, scope)?;
        let may_name = |path: &Path| {
            !is_outside(path) || (may_leave && self.may_name_outside(path, narrowed.is_some()))
        };
        // Ids are sequential: one from elsewhere must reveal nothing.
        if !history.paths().any(may_name) {
            return Err(CheckpointError::Unknown(id).into());
        }
        let id = if restore.turn { checkpoints.first_of_turn(id)? } else { id };
        if restore.turn {
            history = checkpoints.history(id, scope)?;
        }
        if let Some(path) = &restore.path {
            let one =
                self.contain_looked_at(&[self.looking(restore, path.clone())], cwd, narrowed)?;
            let real = one.targets().files.first().map(|target| target.path.clone());
            history.retain(|path| real.as_ref().is_some_and(|real| path.starts_with(real)));
        }
        if history.paths().next().is_none() {
            let problem = "the checkpoint has no such path";
            return Err(ToolError::new(Kind::NotFound, format!("{problem}: {id}"))
                .hint("CheckpointList shows what each checkpoint has"));
        }
        if !history.paths().all(may_name) {
            let problem = "the checkpoint has paths that this call may not touch";
            return Err(ToolError::new(Kind::PathDenied, format!("{problem}: {id}"))
                .hint("restore the others one by one with `path`"));
        }
        Ok((id, history))
    }

    /// Returns whether a checkpoint, and in that scope all later ones of its session, belong to calls in these roots.
    fn made_here(
        &self,
        checkpoints: &Checkpoints,
        id: CheckpointId,
        scope: Scope,
    ) -> Result<bool, ToolError> {
        let of_id = Query { session: None, turn: None, id: Some(id), before: None, limit: 1 };
        let Some(listed) = checkpoints.list(&of_id)?.pop() else { return Ok(false) };
        if !self.is_made_here(&listed.mark) {
            return Ok(false);
        }
        if scope == Scope::Only {
            return Ok(true);
        }
        let (session, mut before) = (listed.mark.session, None);
        loop {
            let session = Some(session.as_str());
            let later = Query { session, turn: None, id: None, before, limit: 200 };
            let page = checkpoints.list(&later)?;
            let mut later = page.iter().take_while(|listed| id < listed.id);
            if !later.all(|listed| self.is_made_here(&listed.mark)) {
                return Ok(false);
            }
            match page.last().map(|listed| listed.id) {
                Some(last) if id < last => before = Some(last),
                Some(_) | None => return Ok(true),
            }
        }
    }

    /// Returns whether a checkpoint belongs to a call in these roots and in no other one.
    fn is_made_here(&self, mark: &CallContext) -> bool {
        let is_here = |root: &PathBuf| self.shared.roots.at(root).is_some();
        !mark.roots.is_empty() && mark.roots.iter().all(is_here)
    }

    /// Inspects each path; returns the call that may inspect them again.
    fn look<'a>(
        self: &Arc<Self>,
        restore: &Restore,
        paths: impl Iterator<Item = &'a Path>,
        cwd: Option<&Path>,
        narrowed: Option<&[PathBuf]>,
    ) -> Result<(BTreeMap<PathBuf, Look>, Contained), ToolError> {
        let mut looks = BTreeMap::new();
        let mut claims = Vec::new();
        // Paths that are no directory, in the order of paths: nothing is beneath them.
        let mut in_the_way: HashSet<PathBuf> = HashSet::new();
        for path in paths {
            if resolve::is_past(path, &in_the_way) {
                looks.insert(path.to_owned(), Look::of_nothing());
                continue;
            }
            if path.to_str().is_none() {
                let of_call = self.contain(&[], cwd, narrowed)?;
                let place = resolve::resolve(of_call.roots(), path, Links::Itself);
                let look = place.and_then(|place| look_at(&place));
                let why = "its name is not UTF-8, so no call can change it";
                let look = look.unwrap_or_else(|_| Look::of_nothing());
                looks.insert(path.to_owned(), Look { problem: Some(why.to_owned()), ..look });
                continue;
            }
            let claim = self.looking(restore, written(path)?);
            match self.contain_looked_at(std::slice::from_ref(&claim), cwd, narrowed) {
                Ok(one) => {
                    let target = one.targets().files.first().map(|target| target.path.as_path());
                    let look = match one.places().first() {
                        Some(place) if target == Some(path) => look_at(place),
                        _ => {
                            let why =
                                "a symbolic link is on the way now, and a restore follows none";
                            looks.insert(path.to_owned(), Look::of_problem(why.to_owned()));
                            continue;
                        }
                    };
                    let look = match look {
                        Ok(look) => Some(look),
                        Err(FileError::Permission) => {
                            let why = String::from("the system denies access");
                            looks.insert(path.to_owned(), Look::of_problem(why));
                            claims.push(claim);
                            continue;
                        }
                        Err(error) => return Err(error.about(&path.to_string_lossy())),
                    };
                    let is_in_the_way = |look: &Look| {
                        !matches!(look.state, PathState::Directory { .. } | PathState::Absent)
                    };
                    if look.as_ref().is_some_and(is_in_the_way) {
                        in_the_way.insert(path.to_owned());
                    }
                    looks.extend(look.map(|look| (path.to_owned(), look)));
                    claims.push(claim);
                }
                Err(error) if error.kind == Kind::PermissionDenied => {
                    let why = String::from("the system denies access");
                    looks.insert(path.to_owned(), Look::of_problem(why));
                }
                // A non-directory took the place of the parent.
                Err(error) if error.kind == Kind::NotRegularFile => {
                    let look = Look::of_nothing();
                    looks.insert(path.to_owned(), look);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((looks, self.contain_looked_at(&claims, cwd, narrowed)?))
    }

    fn looking(&self, restore: &Restore, path: String) -> Claim {
        self.claim_on(restore.argument, path, Access::Inspect)
    }
}

impl Look {
    fn of_problem(why: String) -> Self {
        Self { problem: Some(why), ..Self::of_nothing() }
    }

    fn of_nothing() -> Self {
        Self {
            state: PathState::Absent,
            identity: None,
            names: Vec::new(),
            meaning: None,
            rebuild: None,
            problem: None,
        }
    }
}

/// Returns the checkpoint whose restore takes the last changes or undos of a session back, and the earlier changes that are
/// tried where that one is as it was before.
fn last(
    checkpoints: &Checkpoints,
    session: &str,
    (argument, n, redo): (&str, usize, bool),
) -> Result<(CheckpointId, Vec<CheckpointId>), ToolError> {
    let session = Some(session);
    let query = Query { session, turn: None, id: None, before: None, limit: MAX_LOOKED };
    let ids = UndoHistory::of(&checkpoints.list(&query)?).left(redo);
    let what = if redo { "undos" } else { "file changes" };
    let n_left = ids.len();
    let mut ids = ids.into_iter().skip(n.saturating_sub(1));
    let Some(first) = ids.next() else {
        if 0 < n_left {
            let problem = format!("{what} of this session left to take back: {n_left}, not {n}");
            return Err(ToolError::argument(argument, problem));
        }
        let message = format!("no {what} of this session are left to take back");
        return Err(ToolError::new(Kind::ExecutionFailed, message).hint(match redo {
            true => "a change after an undo makes the undo final",
            false => "changes of other sessions and the user are not undone",
        }));
    };
    let further = if n == 1 && !redo { ids.take(MAX_DONE).collect() } else { Vec::new() };
    Ok((first, further))
}

/// Adds what the plan of the records does not know: names that no call can give, paths that a running command changes,
/// references to objects that are gone, and how a directory that moves aside is made anew.
fn annotate(
    plan: &mut RestorePlan,
    looks: &BTreeMap<PathBuf, Look>,
    under_way: &HashMap<PathBuf, bool>,
    (states, checkpoints): (&States, &Checkpoints),
) {
    for step in &mut plan.steps {
        let problem = looks.get(&step.path).and_then(|look| look.problem.clone());
        let is_unknown = |path: &PathBuf| path.to_str().is_some();
        // What could not be looked at may differ, also where nothing seems to be there.
        if let Some(why) =
            problem.filter(|_| step.act != RestoreAct::Nothing || is_unknown(&step.path))
        {
            step.conflict = Some(RestoreConflict { why, can_be_forced: false });
        }
    }
    let acting = plan.steps.iter_mut().filter(|step| step.act != RestoreAct::Nothing);
    let may_wait = |step: &&mut RestoreStep| {
        step.conflict.as_ref().is_none_or(|conflict| conflict.can_be_forced)
    };
    for step in acting.filter(may_wait) {
        let is_under_way = |(n_up, path)| {
            under_way.get(path).is_some_and(|reaches_beneath| n_up == 0 || *reaches_beneath)
        };
        if step.path.ancestors().enumerate().any(is_under_way) {
            let why = String::from("a command that runs changes it");
            step.conflict = Some(RestoreConflict { why, can_be_forced: true });
        }
    }
    git_references::mark(plan, |step| {
        let mut known = states.get(&step.path)?.iter();
        let state = known.find(|state| was(state) == step.wanted)?;
        checkpoints.content(&step.path, state).ok()?.read_all().ok()
    });
    for step in plan.steps.iter_mut().filter(|step| step.act == RestoreAct::SetAside) {
        let look = looks.get(&step.path);
        step.rebuild = look.and_then(|look| look.rebuild);
        // There is nothing in it to be executed or lost.
        if look.is_some_and(|look| look.names.len() <= 2) {
            step.act = RestoreAct::RemoveDirectory;
        }
    }
}

/// Marks each directory that is replaced and not emptied, and returns whether there is one. A directory is emptied if all that
/// is in it is removed, and in turn emptied.
fn mark_not_emptied(plan: &mut RestorePlan, looks: &BTreeMap<PathBuf, Look>, force: bool) -> bool {
    let removed = |step: &&RestoreStep| {
        let is_done = step.conflict.as_ref().is_none_or(|conflict| force && conflict.can_be_forced);
        matches!(step.act, RestoreAct::Remove | RestoreAct::SetAside) && is_done
    };
    let mut gone: HashSet<PathBuf> =
        plan.steps.iter().filter(removed).map(|step| step.path.clone()).collect();
    let mut dirs: Vec<&mut RestoreStep> =
        plan.steps.iter_mut().filter(|step| step.act == RestoreAct::RemoveDirectory).collect();
    dirs.sort_by_key(|step| std::cmp::Reverse(step.path.components().count()));
    let mut is_one_left = false;
    for step in dirs {
        let names = looks.get(&step.path).map(|look| look.names.as_slice()).unwrap_or_default();
        let mut names = names.iter().map(|name| name.to_bytes());
        let is_emptied = names.all(|name| {
            matches!(name, b"." | b"..") || gone.contains(&step.path.join(path_of(name)))
        });
        if is_emptied {
            gone.insert(step.path.clone());
        } else if step.wanted != Was::Absent && step.conflict.is_none() {
            let why = "a directory is in the way, and holds what the restore does not remove";
            step.conflict = Some(RestoreConflict { why: why.to_owned(), can_be_forced: false });
            is_one_left = true;
        }
    }
    is_one_left
}

/// Returns a real path as the text of a claim.
fn written(path: &Path) -> Result<String, ToolError> {
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(ToolError::new(
            Kind::InvalidPath,
            format!("the path is not UTF-8 and cannot be named: {}", path.to_string_lossy()),
        )
        .hint("restore the other paths one by one with `path`")),
    }
}

/// Returns the access that a step needs.
fn access(act: RestoreAct) -> Option<Access> {
    match act {
        RestoreAct::Remove | RestoreAct::RemoveDirectory | RestoreAct::SetAside => {
            Some(Access::Remove)
        }
        RestoreAct::MakeDirectory
        | RestoreAct::Write
        | RestoreAct::MakeLink
        | RestoreAct::BringBack => Some(Access::Write { parents: true, links: Links::Itself }),
        RestoreAct::Nothing => None,
    }
}

/// Returns the state of a place when it was contained.
fn look_at(place: &Place) -> Result<Look, FileError> {
    let Spot::Found(meta) = &place.spot else {
        return Ok(Look::of_nothing());
    };
    let mut names = Vec::new();
    let (mut meaning, mut rebuild) = (None, None);
    let state = match (meta.kind, &place.name) {
        (FileKind::File, Some(name)) => {
            let file = open_name(place.parent()?.as_fd(), name, FILE_READ).map_err(error_of)?;
            let file = File::from(file);
            let is_same = || fstat(&file).map(|stat| identity_of(&stat) == meta.identity);
            let state = PathState::of_file(&file, meta).map_err(FileError::Io)?;
            if git_index::is_index(&place.real) {
                meaning = git_files::meaning_of(&file)?;
            }
            if !is_same().map_err(error_of)? {
                return Err(FileError::Changed);
            }
            state
        }
        (FileKind::Symlink, Some(name)) => {
            let target = readlinkat(&*place.parent()?, name, Vec::new()).map_err(error_of)?;
            PathState::Link(path_of(target.to_bytes()).to_owned())
        }
        (FileKind::Directory, _) => {
            let dir = place.open_directory(DIRECTORY_READ)?;
            for entry in rustix::fs::Dir::read_from(&dir).map_err(error_of)? {
                names.push(entry.map_err(error_of)?.file_name().to_owned());
            }
            rebuild = rebuild::command(place);
            PathState::directory(meta.mode)
        }
        _ => PathState::Special,
    };
    Ok(Look { state, identity: Some(meta.identity), names, meaning, rebuild, problem: None })
}

/// The checkpoints of the World of one call.
#[derive(Debug)]
pub(crate) struct OfWorld {
    guard: Arc<Guard>,
    roots: Arc<Roots>,
    restoring: Option<Arc<Restoring>>,
    /// Paths that rules deny to the call.
    kept_out: Option<Arc<Beneath>>,
}

impl OfWorld {
    pub(crate) fn new(
        guard: Arc<Guard>,
        roots: Arc<Roots>,
        restoring: Option<Arc<Restoring>>,
        kept_out: Option<Arc<Beneath>>,
    ) -> Self {
        Self { guard, roots, restoring, kept_out }
    }

    fn store(&self) -> Result<&Arc<Checkpoints>, ToolError> {
        self.guard.shared.checkpoints.as_ref().ok_or_else(NoCheckpoints::error)
    }
}

impl sinew_tool::Checkpoints for OfWorld {
    fn list(&self, query: &CheckpointQuery) -> Result<Vec<CheckpointInfo>, ToolError> {
        let store = self.store()?;
        let (mut found, mut before, mut n_looked) = (Vec::new(), None, 0);
        while found.len() < query.limit && n_looked < MAX_LOOKED {
            let session = query.session.as_deref();
            let page = store.list(&Query {
                session,
                turn: query.turn.as_deref(),
                id: None,
                before,
                limit: 200,
            })?;
            let Some(last) = page.last() else { break };
            (before, n_looked) = (Some(last.id), n_looked + page.len());
            for listed in page {
                let is_narrowed = self.guard.check_whole(&self.roots).is_err();
                let is_made_here = self.guard.is_made_here(&listed.mark);
                let is_wanted = |path: &Path| {
                    let is_out = self.kept_out.as_ref().is_some_and(|out| out.hides(path, false));
                    !is_out
                        && (self.guard.may_name(&self.roots, path)
                            || (is_made_here && self.guard.may_name_outside(path, is_narrowed)))
                        && query.path.as_ref().is_none_or(|wanted| path.starts_with(wanted))
                };
                let changes: Vec<PathChange> = match store.entries(listed.id) {
                    Ok(entries) => entries
                        .iter()
                        .filter(|entry| is_wanted(&entry.path))
                        .map(change_of)
                        .collect(),
                    // It was garbage-collected meanwhile.
                    Err(_) => Vec::new(),
                };
                if changes.is_empty() || query.limit <= found.len() {
                    continue;
                }
                let mark = listed.mark;
                found.push(CheckpointInfo {
                    id: listed.id.to_string(),
                    at_ms: listed.at_ms,
                    session: mark.session,
                    agent: mark.agent,
                    turn: mark.turn,
                    call_id: mark.call_id,
                    dialect: mark.dialect,
                    tool: mark.tool,
                    changes,
                });
            }
        }
        Ok(found)
    }

    fn plan(&self) -> Option<&RestorePlan> {
        self.restoring.as_ref().map(|restoring| &restoring.plan)
    }

    fn content(&self, path: &Path, wanted: &Was) -> Result<Vec<u8>, ToolError> {
        let of_path = |restoring: &'_ Arc<Restoring>| restoring.states.get(path).cloned();
        let known = self.restoring.as_ref().and_then(of_path).unwrap_or_default();
        let mut known = known.iter();
        let Some(state) = known.find(|state| was(state) == *wanted) else {
            return Err(ToolError::new(
                Kind::ExecutionFailed,
                "the call did not ask for this content",
            ));
        };
        Ok(self.store()?.content(path, state)?.read_all()?)
    }
}
