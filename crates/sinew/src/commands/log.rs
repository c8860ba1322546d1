//! `sinew log`: shows the calls that concern this directory, the newest first, with what each changed.
//!
//! The audit log says which calls were made and how they ended; the checkpoints say what they changed, and which of them an undo
//! took back. Either may be missing. Both are only read, so the log works on a read-only file system and beside writers.

mod changes;
mod entry;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use sinew_guard::checkpoints::{CheckpointId, CheckpointReader, Listed, Query, UndoHistory};
use sinew_guard::{Audit, AuditError, Record, SessionsAndCalls, SystemClock, Wanted};
use sinew_tool::{Clock as _, shown_line};

use self::changes::CallChange;
use self::entry::LoggedCall;
use super::audit::form;
use super::undo::is_near;
use crate::cli::LogArgs;
use crate::config::{self, LedgerMode};
use crate::screen::{self, say};
use crate::wiring::{self, Loaded};

/// The most checkpoints that are looked at.
const MAX_LOOKED: usize = 10_000;
/// Records come in the order of their ends, but processes that write side by side can differ by so much.
const MARGIN_MS: u64 = 5_000;
/// How much the times of a call and of its checkpoint differ by rounding.
const ROUNDING_MS: u64 = 2;
/// How long before its intent a call makes its checkpoint, at most.
const INTENT_MS: u64 = 1_000;
/// The effects of calls that are shown without `--all`.
const SHOWN: [&str; 2] = ["change", "execute"];
/// How long lines are compared until the differences need not be the shortest.
const COMPARING: Duration = Duration::from_secs(2);

/// Shows the log.
pub(crate) fn run(loaded: &Loaded, args: &LogArgs) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    super::warn_of_other_ledger(loaded);
    let roots: Vec<PathBuf> = match loaded.roots.as_slice() {
        [] => vec![config::real(&loaded.said.current)],
        roots => roots.iter().map(|root| config::real(root)).collect(),
    };
    let mut sources = Sources::open(loaded)?;
    let session = loaded.settings.session.as_deref();
    let known = KnownCheckpoints::of(&mut sources, session, &roots)?;
    let calls = calls(&sources, known, args)?;
    if calls.is_empty() && !sources.is_empty() && 0 < args.limit {
        say(&nothing(session, args.all));
    }
    let until = SystemClock.now() + COMPARING;
    if args.json {
        print_json(&sources, &calls, &roots, (args.patch, until))?;
    } else {
        print_text(&sources, &calls, &roots, (args.patch, until))?;
    }
    let is_unkept = |call: &LoggedCall| call.checkpoint.is_none() && call.has_recorded_changes();
    if !loaded.settings.files.checkpoint_before_mutation && calls.iter().any(is_unkept) {
        say("checkpoints are off, so lines are not counted and nothing can be undone; \
             `tools.fs.checkpoint_before_mutation = true` keeps what changes");
    }
    Ok(if sources.is_damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns why the log is empty.
fn nothing(session: Option<&str>, all: bool) -> String {
    let place = match session {
        Some(session) => format!("of session {}", shown_line(session)),
        None => String::from("in this directory"),
    };
    match all {
        true => format!("no call {place} is recorded"),
        false => {
            format!("no call {place} changed files or ran a command; `--all` shows the others")
        }
    }
}

/// The audit log and the checkpoints, where they can be read.
struct Sources {
    audit: Option<Audit>,
    checkpoints: Option<CheckpointReader>,
    /// Whether one of them exists and cannot be read.
    is_damaged: bool,
}

impl Sources {
    /// Opens both; prints which one is missing and what to do.
    #[expect(clippy::disallowed_methods, reason = "a log creates no state directory")]
    fn open(loaded: &Loaded) -> anyhow::Result<Self> {
        let mut sources = Self { audit: None, checkpoints: None, is_damaged: false };
        let state = loaded.state.as_deref().filter(|state| state.is_dir());
        if let Some(state) = state {
            match CheckpointReader::open(state) {
                Ok(reader) => sources.checkpoints = reader,
                Err(error) => sources.fails(&format!("the checkpoints cannot be read: {error}")),
            }
            match Audit::open(&wiring::state_dir(loaded)?) {
                Ok(audit) => sources.audit = Some(audit),
                Err(AuditError::Empty) => {}
                Err(error) => sources.fails(&error.to_string()),
            }
        }
        let has_changes = sources.checkpoints.is_some();
        match (&loaded.settings.ledger, &sources.audit) {
            (LedgerMode::Off, _) => say(
                "the audit log is off, so only changes with a checkpoint are added to this log; \
                 `ledger.mode = \"sqlite\"` records every call",
            ),
            (_, None) if !sources.is_damaged && has_changes => {
                say("no call is in the audit log, so only changes with a checkpoint are shown");
            }
            (_, None) if !sources.is_damaged => say(
                "nothing is recorded yet; calls over `sinew mcp`, `sinew run`, `sinew chat` and `sinew call` are",
            ),
            _ => {}
        }
        Ok(sources)
    }

    fn fails(&mut self, why: &str) {
        say(why);
        self.is_damaged = true;
    }

    fn is_empty(&self) -> bool {
        self.audit.is_none() && self.checkpoints.is_none()
    }
}

/// The checkpoints of the sessions that are shown.
struct KnownCheckpoints {
    sessions: BTreeSet<String>,
    /// The newest first.
    listed: Vec<Listed>,
    /// Where the checkpoints of each call ID are in the list.
    by_call: HashMap<String, Vec<usize>>,
    /// The changes that an undo took back, and the undos that a redo took back.
    undone: HashSet<CheckpointId>,
    /// The checkpoints whose call was found in the audit log.
    recorded: HashSet<CheckpointId>,
}

impl KnownCheckpoints {
    /// Finds the sessions with a call in these roots, or the one that is named, and their checkpoints.
    fn of(sources: &mut Sources, session: Option<&str>, roots: &[PathBuf]) -> anyhow::Result<Self> {
        let query = Query { session, turn: None, id: None, before: None, limit: MAX_LOOKED };
        let listed = sources.checkpoints.as_ref().map(|reader| reader.list(&query));
        let mut listed = listed.unwrap_or_else(|| Ok(Vec::new())).unwrap_or_else(|error| {
            sources.fails(&format!("the checkpoints cannot be read: {error}"));
            Vec::new()
        });
        let mut sessions = BTreeSet::new();
        match session {
            Some(session) => drop(sessions.insert(session.to_owned())),
            None => {
                let near = |one: &&Listed| one.mark.roots.iter().any(|root| is_near(root, roots));
                sessions.extend(listed.iter().filter(near).map(|one| one.mark.session.clone()));
                for root in roots {
                    let beneath = sources.audit.as_ref().map(|audit| audit.sessions_beneath(root));
                    sessions.extend(beneath.transpose()?.unwrap_or_default());
                }
            }
        }
        listed.retain(|one| sessions.contains(&one.mark.session));
        let mut by_call: HashMap<String, Vec<usize>> = HashMap::new();
        let mut by_session: HashMap<&str, Vec<Listed>> = HashMap::new();
        for (at, one) in listed.iter().enumerate() {
            by_call.entry(one.mark.call_id.clone()).or_default().push(at);
            by_session.entry(&one.mark.session).or_default().push(one.clone());
        }
        let undone = by_session.values().flat_map(|listed| undone(listed)).collect();
        Ok(Self { sessions, listed, by_call, undone, recorded: HashSet::new() })
    }

    /// Returns the checkpoint of a recorded call. A restore has one of the session that it restores. Sessions use call IDs again,
    /// so the time decides too.
    fn checkpoint(&self, record: &Record) -> Option<&Listed> {
        let made = span(record);
        let ids = self.by_call.get(record.text("call_id")?)?;
        let may_be = |one: &&Listed| {
            made.contains(&one.at_ms)
                && record.text("tool") == Some(&one.mark.tool)
                && !self.recorded.contains(&one.id)
        };
        let is_other = |one: &Listed| record.text("session") != Some(&one.mark.session);
        let distance = |one: &Listed| one.at_ms.abs_diff(*made.start());
        let found = ids.iter().filter_map(|at| self.listed.get(*at)).filter(may_be);
        found.min_by_key(|one| (is_other(one), distance(one)))
    }

    fn call(&self, record: Option<Record>, checkpoint: Option<Listed>) -> LoggedCall {
        let at_ms = match (&record, &checkpoint) {
            (Some(record), _) => end_ms(record),
            (None, checkpoint) => checkpoint.as_ref().map_or(0, |one| one.at_ms),
        };
        let is_undone = checkpoint.as_ref().is_some_and(|one| self.undone.contains(&one.id));
        LoggedCall { at_ms, record, checkpoint, is_undone }
    }
}

/// Returns the changes of a session that an undo took back, and the undos that a redo took back.
fn undone(listed: &[Listed]) -> Vec<CheckpointId> {
    let in_force: HashSet<CheckpointId> = UndoHistory::of(listed).changes().collect();
    let redos: Vec<(CheckpointId, CheckpointId)> = listed
        .iter()
        .filter(|one| one.is_redo)
        .filter_map(|one| Some((one.mark.restores?, one.id)))
        .collect();
    let is_undone = |one: &&Listed| match one.mark.restores {
        None => !in_force.contains(&one.id),
        Some(_) => !one.is_redo && redos.iter().any(|(since, id)| (*since..*id).contains(&one.id)),
    };
    listed.iter().filter(is_undone).map(|one| one.id).collect()
}

/// Returns when a call ended, or its intent was written.
fn end_ms(record: &Record) -> u64 {
    let number = |name| record.number(name).unwrap_or(0).unsigned_abs();
    number("at_ms").saturating_add(number("duration_us") / 1_000)
}

/// Returns when the checkpoint of a call may have been made. The intent of a call that has not ended says when it began.
fn span(record: &Record) -> RangeInclusive<u64> {
    let begin = record.number("at_ms").unwrap_or(0).unsigned_abs().saturating_sub(ROUNDING_MS);
    match record.text("phase") {
        Some("outcome") => begin..=end_ms(record).saturating_add(ROUNDING_MS),
        _ => begin.saturating_sub(INTENT_MS)..=u64::MAX,
    }
}

/// Why no further record is read.
enum Halt {
    Done,
    Failed(AuditError),
}

impl From<AuditError> for Halt {
    fn from(error: AuditError) -> Self {
        Self::Failed(error)
    }
}

/// Returns the calls that are shown, the newest first.
fn calls(
    sources: &Sources,
    mut known: KnownCheckpoints,
    args: &LogArgs,
) -> anyhow::Result<Vec<LoggedCall>> {
    let mut found: Vec<LoggedCall> = Vec::new();
    if args.limit == 0 {
        return Ok(found);
    }
    if let Some(audit) = &sources.audit {
        let sessions = known.sessions.iter().cloned().collect();
        let calls = known.by_call.keys().cloned().collect();
        let wanted = Wanted {
            among: Some(SessionsAndCalls { sessions, calls }),
            without_ended_intents: true,
            newest_first: true,
            ..Wanted::default()
        };
        let read = audit.records(&wanted, |record| {
            let oldest = found.get(args.limit - 1).map_or(0, |call| call.at_ms);
            if end_ms(&record).saturating_add(MARGIN_MS) < oldest {
                return Err(Halt::Done);
            }
            let checkpoint = known.checkpoint(&record).cloned();
            known.recorded.extend(checkpoint.as_ref().map(|one| one.id));
            let session = record.text("session").unwrap_or_default();
            let is_of = checkpoint.is_some() || known.sessions.contains(session);
            let is_shown = args.all || checkpoint.is_some() || is_change_or_command(&record);
            let is_call = record.text("phase") != Some("event");
            if is_of && is_shown && is_call && found.len() < args.limit {
                found.push(known.call(Some(record), checkpoint));
            }
            Ok(())
        });
        if let Err(Halt::Failed(error)) = read {
            return Err(error.into());
        }
    }
    // Changes of processes without an audit log.
    for one in known.listed.iter().filter(|one| !known.recorded.contains(&one.id)) {
        let at = found.iter().position(|call| call.at_ms <= one.at_ms).unwrap_or(found.len());
        if at < args.limit {
            found.insert(at, known.call(None, Some(one.clone())));
            found.truncate(args.limit);
        }
    }
    Ok(found)
}

fn is_change_or_command(record: &Record) -> bool {
    let effects = record.text("effects").unwrap_or_default();
    effects.split('+').any(|effect| SHOWN.contains(&effect))
}

/// Writes one JSON object a line.
fn print_json(
    sources: &Sources,
    calls: &[LoggedCall],
    roots: &[PathBuf],
    (with_diff, until): (bool, Instant),
) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for call in calls {
        let changes = changes::of_call(sources.checkpoints.as_ref(), call, roots, until);
        let diff = with_diff.then(|| diff(&changes, until));
        form::write_line(&mut out, &entry::object(call, &changes, diff))?;
    }
    Ok(out.flush()?)
}

/// Writes the entries in columns, and the diffs beneath them.
fn print_text(
    sources: &Sources,
    calls: &[LoggedCall],
    roots: &[PathBuf],
    (with_diff, until): (bool, Instant),
) -> anyhow::Result<()> {
    let mut out = screen::output();
    let now = SystemClock.wall_ms();
    let heads: Vec<(String, String)> =
        calls.iter().map(|call| (call.id(), entry::ago(now, call.at_ms))).collect();
    let width =
        |of: fn(&(String, String)) -> &String| heads.iter().map(|head| of(head).len()).max();
    let (id_width, ago_width) = (width(|head| &head.0), width(|head| &head.1));
    let (id_width, ago_width) = (id_width.unwrap_or(0), ago_width.unwrap_or(0));
    for (call, (id, ago)) in calls.iter().zip(&heads) {
        let changes = changes::of_call(sources.checkpoints.as_ref(), call, roots, until);
        let entry::EntryLines { head, marks, lines } = entry::lines(call, &changes, roots);
        write!(out, "{id:<id_width$}  {ago:<ago_width$}  {head}")?;
        for mark in marks {
            out.write_all(b"  ")?;
            out.mark(&mark)?;
        }
        writeln!(out)?;
        for line in lines {
            writeln!(out, "{:id_width$}    {line}", "")?;
        }
        let diff = if with_diff { diff(&changes, until) } else { String::new() };
        if !diff.is_empty() {
            writeln!(out, "{diff}")?;
        }
    }
    Ok(out.flush()?)
}

fn diff(changes: &[CallChange], until: Instant) -> String {
    changes.iter().map(|change| change.diff(until)).collect()
}

/// Returns a path as it is seen from the root that it is in.
fn from_root<'p>(path: &'p Path, roots: &[PathBuf]) -> &'p Path {
    let inner = roots.iter().find_map(|root| path.strip_prefix(root).ok());
    inner.filter(|inner| !inner.as_os_str().is_empty()).unwrap_or(path)
}
