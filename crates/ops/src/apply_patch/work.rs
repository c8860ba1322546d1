//! Computes a patch's files in memory: each entry works on the result of the entry before.

use std::ops::Range;
use std::sync::Arc;

use sinew_tool::{
    Becomes, ContentHash, Context, Expect, FileError, FileKind, FileMode, FileOp, FileTarget,
    Identity, Kind, Seen, Slot, ToolError,
};

use super::names::{Entry, EntryNames};
use super::shown::{Fit, ShownEntry, fit};
use super::{Patched, What};
use crate::diff::DiffLimits;
use crate::edit;
use crate::patch::{self, FilePatch, Patch, PatchMode, Rejected};
use crate::replace;
use crate::source::{self, TextForm, Whole};

/// The most bytes of old and new contents that one patch may need.
const MAX_HELD: u64 = 1 << 30;

/// The most files whose errors are listed.
const MAX_TOLD: usize = 4;

/// The most lines of a preview, and of one file in it.
const MAX_LINES: usize = 2_000;

/// The directory entry of a name.
#[derive(Debug, Clone)]
enum Thing {
    Nothing,
    File(File),
    /// A symbolic link with this target.
    Link(Arc<Vec<u8>>),
}

#[derive(Debug, Clone)]
struct File {
    bytes: Arc<Vec<u8>>,
    /// The new executable bit, if the patch sets it.
    executable: Option<bool>,
    /// The name of the file before the patch.
    origin: Option<usize>,
}

/// The entry before the patch.
#[derive(Debug, Clone)]
struct Before {
    thing: Thing,
    /// `None` where nothing was there.
    identity: Option<Identity>,
    /// BLAKE3 of the content, where it was computed.
    hash: Option<ContentHash>,
}

/// The state of a name while the patch is applied in memory.
#[derive(Debug)]
struct NameState {
    before: Before,
    now: Thing,
    /// The entry that a later one will move away from here.
    aside: Option<Thing>,
}

/// A patch being applied in memory.
pub(super) struct Work<'w> {
    cx: &'w Context,
    names: &'w EntryNames,
    states: Vec<Option<NameState>>,
    /// Names of entries that failed: the result of later entries on them is unknown.
    spoiled: Vec<bool>,
    n_held: u64,
    shown: Vec<ShownEntry>,
}

/// A patch whose entries all fit.
pub(super) struct Done<'w> {
    cx: &'w Context,
    states: Vec<Option<NameState>>,
    shown: Vec<ShownEntry>,
    /// What becomes of each file, in the order of the patch.
    pub(super) patched: Vec<Patched>,
}

pub(super) struct EntryChange<'d> {
    slot: Slot,
    expect: Expect<'d>,
    now: &'d Thing,
    pieces: [&'d [u8]; 1],
    like: Option<Slot>,
}

impl<'w> Work<'w> {
    pub(super) fn new(cx: &'w Context, names: &'w EntryNames) -> Result<Self, ToolError> {
        let (mut first, mut by_path) = (None, std::collections::HashMap::new());
        for (at, name) in names.names.iter().enumerate() {
            let target = cx.target(at)?;
            let (other, changes) = *by_path.entry(&target.path).or_insert((at, name.changes));
            if other != at && (changes || name.changes) {
                first.get_or_insert((other, at));
            }
        }
        if let Some((one, other)) = first {
            let path = |at: usize| names.names.get(at).map_or("", |name| name.path.as_str());
            let message =
                format!("the patch names one file in two ways: {} and {}", path(one), path(other));
            return Err(ToolError::new(Kind::InvalidArgs, message).hint("use one name for it"));
        }
        let states = names.names.iter().map(|_| None).collect();
        let spoiled = vec![false; names.names.len()];
        Ok(Self { cx, names, states, spoiled, n_held: 0, shown: Vec::new() })
    }

    /// Applies every entry in memory, or returns the error of those that do not fit.
    pub(super) fn run(mut self, patch: &Patch<'_>) -> Result<Done<'w>, ToolError> {
        let names = self.names;
        let mut patched = Vec::with_capacity(patch.files.len());
        let mut failures: Vec<(usize, ToolError)> = Vec::new();
        for (file, entry) in patch.files.iter().zip(&names.entries) {
            self.cx.still_wanted()?;
            let about: Vec<usize> = entry.old.into_iter().chain(entry.new).collect();
            if about.iter().any(|at| self.spoiled.get(*at) == Some(&true)) {
                continue;
            }
            match self.entry(file, entry) {
                Ok(one) => patched.push(one),
                Err(error) if matches!(error.kind, Kind::Cancelled | Kind::Timeout) => {
                    return Err(error);
                }
                Err(error) => {
                    failures.push((about.first().copied().unwrap_or_default(), error));
                    for at in about {
                        self.spoiled.get_mut(at).into_iter().for_each(|spoiled| *spoiled = true);
                    }
                }
            }
        }
        match failures.is_empty() {
            true => Ok(Done { cx: self.cx, states: self.states, shown: self.shown, patched }),
            false => Err(self.refusal(failures)),
        }
    }

    /// Returns one error for all files that do not fit.
    fn refusal(&self, failures: Vec<(usize, ToolError)>) -> ToolError {
        let n = failures.len();
        let shown = |at: usize| self.names.names.get(at).map_or("", |name| name.path.as_str());
        let (mut messages, mut hints, mut kind) = (Vec::new(), Vec::new(), None);
        for (at, error) in failures.into_iter().take(MAX_TOLD) {
            kind.get_or_insert(error.kind);
            if let Some(hint) = error.hint {
                hints.push(if n == 1 {
                    hint.into_owned()
                } else {
                    format!("{}: {hint}", shown(at))
                });
            }
            messages.push(error.message.into_owned());
        }
        let more = n - messages.len();
        let more = if more == 0 { String::new() } else { format!("; {more} more files") };
        let message = format!("nothing was changed: {}{more}", messages.join("; "));
        let error = ToolError::new(kind.unwrap_or(Kind::NoMatch), message);
        if hints.is_empty() { error } else { error.hint(hints.join("\n\n")) }
    }

    fn target(&self, at: usize) -> Result<&'w FileTarget, ToolError> {
        self.cx.target(at)
    }

    fn about(&self, at: usize, error: FileError) -> ToolError {
        match self.target(at) {
            Ok(target) => self.cx.about(target, error),
            Err(error) => error,
        }
    }

    /// Returns the path of a name for replies.
    fn called(&self, at: usize) -> String {
        self.target(at).map_or(String::new(), |target| self.cx.shown(&target.path))
    }

    /// Adds to the bytes held in memory; rejects more than `MAX_HELD`.
    fn hold(&mut self, n_bytes: usize) -> Result<(), ToolError> {
        self.n_held = self.n_held.saturating_add(n_bytes as u64);
        if self.n_held <= MAX_HELD {
            return Ok(());
        }
        let message = format!(
            "the files of the patch, old and new, hold more than {MAX_HELD} bytes together"
        );
        Err(ToolError::new(Kind::LimitReached, message).hint("send it in parts"))
    }

    /// Returns the state of a name; loads its file on first use.
    fn state(&mut self, at: usize) -> Result<&mut NameState, ToolError> {
        if !matches!(self.states.get(at), Some(Some(_))) {
            let before = self.load(at)?;
            let state = NameState { now: before.thing.clone(), before, aside: None };
            if let Some(place) = self.states.get_mut(at) {
                *place = Some(state);
            }
        }
        self.states.get_mut(at).and_then(Option::as_mut).ok_or_else(|| {
            ToolError::new(Kind::ExecutionFailed, "the patch uses a name that it does not have")
        })
    }

    fn load(&mut self, at: usize) -> Result<Before, ToolError> {
        let target = self.target(at)?;
        let meta = match self.cx.world.files.meta(target.slot) {
            Ok(meta) => meta,
            Err(FileError::Missing) => {
                return Ok(Before { thing: Thing::Nothing, identity: None, hash: None });
            }
            Err(error) => return Err(self.about(at, error)),
        };
        match meta.kind {
            FileKind::File => {
                // The source of a copy may hold anything.
                let Whole { meta, bytes, hash } = match target.claim.access.changes() {
                    true => source::whole_if_known(self.cx, target)?,
                    false => source::whole(self.cx, target)?,
                };
                self.hold(bytes.len())?;
                let (bytes, origin) = (Arc::new(bytes), Some(at));
                let file = File { bytes, executable: None, origin };
                Ok(Before { thing: Thing::File(file), identity: Some(meta.identity), hash })
            }
            FileKind::Symlink => {
                let link = self.cx.world.files.link(target.slot);
                let link = link.map_err(|error| self.about(at, error))?;
                let thing = Thing::Link(Arc::new(link));
                Ok(Before { thing, identity: Some(meta.identity), hash: None })
            }
            other => Err(self.about(at, FileError::NotRegular(other))),
        }
    }

    fn entry(&mut self, file: &FilePatch<'_>, entry: &Entry) -> Result<Patched, ToolError> {
        use patch::PatchOp::{Change, Copy, Create, Delete, Drop, Rename};
        let main = entry.new.or(entry.old).unwrap_or_default();
        if let Some(new) = entry.new {
            self.check_free(new, entry)?;
        }
        let old = self.old(file, entry)?;
        let created = matches!(old, Thing::Nothing);
        let content = match &old {
            Thing::Nothing => Arc::default(),
            Thing::File(old) => Arc::clone(&old.bytes),
            Thing::Link(target) => Arc::clone(target),
        };
        let at = entry.old.or(entry.new).unwrap_or_default();
        let shown = self.called(at);
        let form = match &old {
            // A content without hunks may be anything.
            Thing::File(_) if !file.hunks.is_empty() => {
                TextForm::of(self.cx, self.target(at)?, &content)?
            }
            _ => TextForm::Plain,
        };
        let text = match &form {
            TextForm::Plain | TextForm::Unknown => Arc::clone(&content),
            TextForm::Encoded(_, text) => {
                self.hold(text.len())?;
                Arc::new(text.clone().into_bytes())
            }
        };
        let is_wanted = || self.cx.still_wanted().is_ok();
        let fit = fit(file, &text, is_wanted).map_err(|rejected| {
            let rejected = rejected.to_error(&shown);
            // A cancelled call reports its cancellation, not the hunks.
            self.cx.still_wanted().err().unwrap_or(rejected)
        })?;
        let thing = match file.deed {
            Delete | Drop => Thing::Nothing,
            Change | Create | Rename | Copy => {
                let bytes = self.applied(at, &content, (&form, &text), &fit)?;
                made(&old, file, bytes).map_err(|problem| {
                    let line = file.line;
                    let message = format!("line {line} of the patch {problem}: {shown}");
                    ToolError::new(Kind::InvalidArgs, message)
                })?
            }
        };
        let what = match file.deed {
            Change if created => What::Added,
            Create => What::Added,
            Rename if entry.new.is_none() => What::Modified,
            Change => What::Modified,
            Delete | Drop => What::Deleted,
            Rename => What::Renamed,
            Copy => What::Copied,
        };
        self.show(file, entry, (&old, &thing), what, (text, &fit));
        if let (Some(at), Rename, Some(_)) = (entry.old, file.deed, entry.new)
            && !entry.takes_aside
        {
            self.state(at)?.now = Thing::Nothing;
        }
        let state = self.state(main)?;
        if entry.pushes_aside {
            state.aside = Some(std::mem::replace(&mut state.now, thing));
        } else if !(entry.takes_aside && matches!(thing, Thing::Nothing)) {
            state.now = thing;
        }
        let from = entry.new.and(entry.old).map(|at| self.target(at)).transpose()?;
        Ok(Patched {
            what,
            path: self.target(main)?.path.clone(),
            from: from.map(|target| target.path.clone()),
            hunks: fit.applied.hunks,
        })
    }

    /// Rejects creating a file where another one stays.
    fn check_free(&mut self, new: usize, entry: &Entry) -> Result<(), ToolError> {
        let state = self.state(new)?;
        let is_free = matches!(state.now, Thing::Nothing);
        if is_free || (entry.pushes_aside && state.aside.is_none()) {
            return Ok(());
        }
        Err(Rejected::Exists.to_error(&self.called(new)))
    }

    /// Returns the content that an entry starts from.
    fn old(&mut self, file: &FilePatch<'_>, entry: &Entry) -> Result<Thing, ToolError> {
        let Some(at) = entry.old else { return Ok(Thing::Nothing) };
        let state = self.state(at)?;
        let old = match file.deed {
            _ if entry.takes_aside => state.aside.take().unwrap_or(Thing::Nothing),
            // As in git, a copy has the content from before the patch.
            patch::PatchOp::Copy if !matches!(state.before.thing, Thing::Nothing) => {
                state.before.thing.clone()
            }
            _ => state.now.clone(),
        };
        let tells_link = [file.old_mode, file.new_mode].contains(&Some(PatchMode::Link));
        let needs_kind = !file.hunks.is_empty() || tells_link;
        match &old {
            Thing::Nothing if !file.may_create() => {
                let error = self.about(at, FileError::Missing);
                let hint = "renames and copies of a diff start from the files before it: rename to the last name at once";
                Err(if entry.takes_aside { error.hint(hint) } else { error })
            }
            Thing::Link(_) if needs_kind && !tells_link => Err(self.about(at, FileError::Link)),
            Thing::File(_) if tells_link => {
                let message = format!(
                    "line {} of the patch is about a symbolic link, but this is a file: {}",
                    file.line,
                    self.called(at)
                );
                Err(ToolError::new(Kind::NoMatch, message))
            }
            _ => Ok(old),
        }
    }

    /// Returns a content with the changes of its text.
    fn applied(
        &mut self,
        at: usize,
        content: &Arc<Vec<u8>>,
        (form, text): (&TextForm, &[u8]),
        fit: &Fit,
    ) -> Result<Arc<Vec<u8>>, ToolError> {
        let mut changes = fit.applied.changes();
        if changes.is_empty() {
            return Ok(Arc::clone(content));
        }
        for change in &mut changes {
            let Range { start, end } = change.range;
            change.range = start + fit.n_before..end + fit.n_before;
        }
        let encoded = form.encoded(self.cx, self.target(at)?, "the patch", text, &changes)?;
        let new = encoded.unwrap_or_else(|| replace::pieces(text, &changes).concat());
        self.hold(new.len())?;
        Ok(Arc::new(new))
    }

    fn show(
        &mut self,
        file: &FilePatch<'_>,
        entry: &Entry,
        (old, new): (&Thing, &Thing),
        what: What,
        (text, fit): (Arc<Vec<u8>>, &Fit),
    ) {
        let mut notes = Vec::new();
        match what {
            What::Renamed => notes.push("renamed"),
            What::Copied => notes.push("copied"),
            What::Added | What::Modified | What::Deleted => {}
        }
        match (old, new) {
            (Thing::Link(_), _) | (_, Thing::Link(_)) => notes.push("symbolic link"),
            (_, Thing::File(File { executable: Some(true), .. })) => notes.push("executable"),
            (_, Thing::File(File { executable: Some(false), .. })) => notes.push("not executable"),
            _ => {}
        }
        let main = entry.new.or(entry.old);
        let before = entry.old.filter(|_| what != What::Added).map(|at| self.called(at));
        let after = main.filter(|_| what != What::Deleted).map(|at| self.called(at));
        let has_content = file.deed == patch::PatchOp::Drop || !file.hunks.is_empty();
        let applied = has_content.then(|| fit.clone());
        self.shown.push(ShownEntry { before, after, old: text, applied, notes });
    }
}

/// Returns the result under the name that an entry creates or changes.
fn made(old: &Thing, file: &FilePatch<'_>, bytes: Arc<Vec<u8>>) -> Result<Thing, &'static str> {
    let is_link = match old {
        Thing::Nothing => file.new_mode == Some(PatchMode::Link),
        Thing::Link(_) => true,
        Thing::File(_) => false,
    };
    if is_link {
        if !matches!(file.new_mode, None | Some(PatchMode::Link)) {
            return Err("makes a file of a symbolic link; remove the one and create the other");
        }
        if bytes.is_empty() || 4_096 <= bytes.len() || bytes.contains(&0) {
            return Err("gives a symbolic link a target that no link can have");
        }
        return Ok(Thing::Link(bytes));
    }
    let modes = (file.old_mode, file.new_mode);
    let told = match (old, modes) {
        (Thing::Nothing, (_, Some(PatchMode::Executable))) => Some(true),
        (Thing::File(_), (Some(before), Some(after))) if before != after => {
            Some(after == PatchMode::Executable)
        }
        _ => None,
    };
    let (known, origin) = match old {
        Thing::File(old) => (old.executable, old.origin),
        Thing::Nothing | Thing::Link(_) => (None, None),
    };
    Ok(Thing::File(File { bytes, executable: told.or(known), origin }))
}

impl Done<'_> {
    /// Returns the changes of all files as titled diffs, for the user who decides about them.
    pub(super) fn question(&self) -> String {
        let limits = edit::question_limits(self.cx);
        self.shown.iter().map(|shown| shown.diff(limits)).collect()
    }

    /// Returns the same for a dry run, within its limits.
    pub(super) fn diff(&self) -> String {
        let mut out = String::new();
        let mut n_lines = 0;
        for (at, shown) in self.shown.iter().enumerate() {
            if MAX_LINES <= n_lines {
                out.push_str(&format!("[{} more files]\n", self.shown.len() - at));
                break;
            }
            let diff = shown.diff(DiffLimits {
                max_lines: MAX_LINES - n_lines,
                ..edit::dry_run_limits(self.cx)
            });
            n_lines += diff.lines().count();
            out.push_str(&diff);
        }
        out
    }

    pub(super) fn deeds(&self) -> Vec<EntryChange<'_>> {
        let states = self.states.iter().enumerate();
        states.filter_map(|(at, state)| state.as_ref()?.change(at)).collect()
    }
}

impl NameState {
    fn change(&self, at: usize) -> Option<EntryChange<'_>> {
        let Before { thing: before, identity, hash } = &self.before;
        let is_same = match (before, &self.now) {
            (Thing::Nothing, Thing::Nothing) => true,
            (Thing::Link(before), Thing::Link(now)) => before == now,
            (Thing::File(before), Thing::File(now)) => {
                now.executable.is_none() && now.origin == Some(at) && before.bytes == now.bytes
            }
            _ => false,
        };
        if is_same {
            return None;
        }
        let expect = match (identity, before) {
            (Some(identity), Thing::File(File { bytes, .. }) | Thing::Link(bytes)) => {
                Expect::Same(Seen::new(*identity, bytes).hashed(*hash))
            }
            _ => Expect::Nothing,
        };
        let (content, origin): (&[u8], _) = match &self.now {
            Thing::Nothing => (&[], None),
            Thing::File(file) => (&file.bytes, file.origin),
            Thing::Link(target) => (target, None),
        };
        let like = origin.filter(|origin| *origin != at).map(Slot);
        Some(EntryChange { slot: Slot(at), expect, now: &self.now, pieces: [content], like })
    }
}

impl EntryChange<'_> {
    /// Returns the change as a file operation of the World.
    pub(super) fn deed(&self) -> FileOp<'_> {
        let [content] = self.pieces;
        let becomes = match self.now {
            Thing::Nothing => Becomes::Nothing,
            Thing::Link(_) => Becomes::Link(content),
            Thing::File(file) => Becomes::File {
                pieces: &self.pieces,
                mode: file.executable.map_or(FileMode::Kept, FileMode::Executable),
                like: self.like,
            },
        };
        FileOp { slot: self.slot, expect: self.expect, becomes }
    }
}
