//! The rows that wait to be written, and the tables for them.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};
use sinew_tool::{Change, Clock, Closing, ContentHash, Event, Ticket};

use super::known::KnownRow;
use super::record::{Field, Fields, OfProcess, RecordDraft};
use crate::database::separated;
use crate::redact::Redactor;
use sinew_fs::clock::SystemClock;
use sinew_fs::process_identity::ProcessIdentity;

/// The version of the tables.
pub(super) const VERSION: i64 = 4;

/// The tables and their [`VERSION`], created in one transaction.
///
/// - A call without a change has one record, its outcome; a change has an intent first, named by the outcome.
/// - The outcome holds the first changed file; `further_change` holds the others.
/// - `process` holds the values that its records share; the view `entry` joins both.
/// - `unsettled` holds intents that may have left files behind, `chain` the key ID and the anchor.
/// - `known` has one row per file and caller, with an empty `agent` if the session has only one.
///
/// Records are never updated. There are no foreign keys: the chain reveals missing rows, and a delete in
/// `process` would scan all records. A `CHECK` with `IN` would build its list for each inserted record.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS process (
        process       INTEGER PRIMARY KEY,
        surface       TEXT NOT NULL,
        client        TEXT,
        os_user       TEXT NOT NULL,
        pid           INTEGER NOT NULL,
        pid_started   INTEGER NOT NULL,
        pid_namespace INTEGER NOT NULL,
        machine       TEXT NOT NULL,
        boot          TEXT NOT NULL
    ) STRICT;
    CREATE TABLE record (
        seq          INTEGER PRIMARY KEY,
        hash         BLOB NOT NULL,
        phase        TEXT NOT NULL CHECK (phase = 'intent' OR phase = 'outcome' OR phase = 'event'),
        at_ms        INTEGER NOT NULL,
        process      INTEGER NOT NULL,
        intent       INTEGER,
        call_id      TEXT,
        session      TEXT,
        agent        TEXT,
        parent       TEXT,
        dialect      TEXT,
        tool         TEXT,
        arguments    BLOB,
        effects      TEXT,
        file_path    TEXT,
        verdict      TEXT,
        rule         TEXT,
        origin       TEXT,
        approver     TEXT,
        answer       TEXT,
        waited_us    INTEGER,
        command      TEXT,
        rung         TEXT,
        background   TEXT,
        outcome      TEXT,
        duration_us  INTEGER,
        bytes        INTEGER,
        before_hash  TEXT,
        after_hash   TEXT,
        reply_bytes  INTEGER,
        event        TEXT,
        text         TEXT
    ) STRICT;
    CREATE TABLE further_change (
        seq         INTEGER NOT NULL,
        file_path   TEXT NOT NULL,
        bytes       INTEGER NOT NULL,
        before_hash TEXT,
        after_hash  TEXT
    ) STRICT;
    CREATE INDEX further ON further_change (seq);
    CREATE TABLE unsettled (
        seq         INTEGER PRIMARY KEY,
        temporaries BLOB NOT NULL
    ) STRICT;
    CREATE TABLE chain (
        one         INTEGER PRIMARY KEY CHECK (one = 1),
        key_id      BLOB NOT NULL,
        anchor_seq  INTEGER NOT NULL,
        anchor_hash BLOB NOT NULL,
        anchor_seal BLOB NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS known (
        path         BLOB NOT NULL,
        session      TEXT NOT NULL,
        agent        TEXT NOT NULL,
        deed         TEXT NOT NULL CHECK (deed IN ('read', 'wrote')),
        content_hash BLOB,
        state        BLOB,
        tool         TEXT NOT NULL,
        at_ms        INTEGER NOT NULL,
        process      INTEGER NOT NULL REFERENCES process (process),
        PRIMARY KEY (path, session, agent)
    ) STRICT, WITHOUT ROWID;
    CREATE VIEW entry AS SELECT * FROM record JOIN process USING (process);
    PRAGMA user_version = 4;
";

/// The objects that the schema creates, by kind and name.
pub(super) const OBJECTS: &[&str] = &[
    "index further",
    "table chain",
    "table further_change",
    "table known",
    "table process",
    "table record",
    "table unsettled",
    "view entry",
];

/// The limits of names and texts in a record, in bytes.
const MAX_NAME: usize = 256;
const MAX_PATH: usize = 4_096;
const MAX_COMMAND: usize = 4_096;
const MAX_TEXT: usize = 2_048;
/// Only this much of a longer text is searched for secrets.
const MAX_LOOKED: usize = 64 * 1_024;

/// The values that all records of a process share.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) surface: &'static str,
    pub(super) user: String,
    pub(super) mark: ProcessIdentity,
}

impl Who {
    /// Inserts this process, with its client.
    pub(super) fn enter(
        &self,
        transaction: &Connection,
        client: Option<&str>,
    ) -> rusqlite::Result<OfProcess> {
        let ProcessIdentity { machine, boot, namespace, pid, started } = &self.mark;
        transaction.execute(
            "INSERT INTO process (surface, client, os_user, pid, pid_started, pid_namespace,
                machine, boot) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![self.surface, client, self.user, pid, started, namespace, machine, boot],
        )?;
        let mut fields: Fields<'_> = vec![("surface", Field::from(self.surface))];
        fields.extend(client.map(|client| ("client", Field::from(client.to_owned()))));
        fields.extend([
            ("os_user", Field::from(self.user.clone())),
            ("pid", Field::Integer(*pid)),
            ("pid_started", Field::Integer(*started)),
            ("pid_namespace", Field::Integer(*namespace)),
            ("machine", Field::from(machine.clone())),
            ("boot", Field::from(boot.clone())),
        ]);
        Ok(OfProcess { number: transaction.last_insert_rowid(), fields })
    }
}

/// A row that waits to be written.
pub(super) enum Row {
    Intent(Intent),
    Outcome {
        intent: Option<Ticket>,
        closing: Box<Closing>,
    },
    /// A caller's knowledge of a file.
    Known(Box<KnownRow>),
    /// An intent without effect: its call was withdrawn while it was written.
    Withdrawn(Ticket, u64),
    /// An event that is not a call.
    Event(Event, u64),
}

#[derive(Clone)]
pub(super) struct Intent {
    pub(super) ticket: Ticket,
    at_ms: u64,
    so_far: Box<Closing>,
    path: Option<PathBuf>,
    temporaries: Vec<PathBuf>,
}

/// The database operation for a row.
pub(super) enum WriteStep<'a> {
    /// A record, and the intent that it opens or closes.
    Record {
        draft: RecordDraft<'a>,
        opens: Option<(Ticket, Vec<u8>)>,
        closes: Option<Ticket>,
    },
    Known(&'a KnownRow),
}

impl Row {
    pub(super) fn intent(
        ticket: Ticket,
        so_far: &Closing,
        paths: &[PathBuf],
        temporaries: &[PathBuf],
    ) -> Self {
        Self::Intent(Intent {
            ticket,
            at_ms: SystemClock.wall_ms(),
            so_far: Box::new(so_far.clone()),
            path: paths.first().or(so_far.path.as_ref()).cloned(),
            temporaries: temporaries.to_vec(),
        })
    }

    pub(super) fn outcome(intent: Option<Ticket>, closing: Closing) -> Self {
        Self::Outcome { intent, closing: Box::new(closing) }
    }

    pub(super) fn event(event: Event) -> Self {
        Self::Event(event, SystemClock.wall_ms())
    }

    pub(super) fn withdrawn(ticket: Ticket) -> Self {
        Self::Withdrawn(ticket, SystemClock.wall_ms())
    }

    /// Returns the operation without secrets; `None` if its subject is one.
    pub(super) fn step(&self, clean: &Cleaner<'_>) -> Option<WriteStep<'_>> {
        let record = |draft, closes| WriteStep::Record { draft, opens: None, closes };
        Some(match self {
            Self::Intent(intent) => WriteStep::Record {
                draft: intent.draft(clean),
                opens: Some((intent.ticket, clean.temporaries(&intent.temporaries))),
                closes: None,
            },
            Self::Outcome { intent, closing } => record(outcome(closing, clean), *intent),
            Self::Known(row) if row.holds_secret(clean.0) => return None,
            Self::Known(row) => WriteStep::Known(row),
            Self::Withdrawn(ticket, at_ms) => {
                record(RecordDraft::new("event", *at_ms).with("event", "withdrawn"), Some(*ticket))
            }
            Self::Event(event, at_ms) => record(told(event, *at_ms, clean), None),
        })
    }
}

impl Intent {
    fn draft(&self, clean: &Cleaner<'_>) -> RecordDraft<'_> {
        known(RecordDraft::new("intent", self.at_ms), &self.so_far, self.path.as_deref(), clean)
    }
}

pub(super) fn told<'a>(event: &'a Event, at_ms: u64, clean: &Cleaner<'_>) -> RecordDraft<'a> {
    RecordDraft::new("event", at_ms)
        .with_any("session", event.session.as_deref().map(|session| clean.name(session)))
        .with("event", event.kind)
        .with("text", clean.text(&event.text, MAX_TEXT))
}

/// Adds the values that intent and outcome share: call and ruling.
fn known<'a>(
    draft: RecordDraft<'a>,
    closing: &'a Closing,
    path: Option<&'a Path>,
    clean: &Cleaner<'_>,
) -> RecordDraft<'a> {
    let (opening, command) = (&closing.opening, closing.command.as_deref());
    draft
        .with("call_id", clean.name(&opening.call_id))
        .with("session", clean.name(&opening.session))
        .with_any("agent", opening.agent.as_deref().map(|name| clean.name(name)))
        .with_any("parent", opening.parent.as_deref().map(|name| clean.name(name)))
        .with("dialect", clean.name(&opening.dialect))
        .with("tool", clean.name(&opening.tool))
        .with("arguments", Field::Bytes(Cow::Borrowed(&opening.arguments)))
        .with_any("effects", closing.effects.map(|effects| effects.names().join("+")))
        .with_any("file_path", path.map(|path| clean.path(path)))
        .with_any("verdict", closing.verdict)
        .with_any("rule", closing.rule)
        .with_any("origin", closing.origin.as_deref().map(|origin| clean.text(origin, MAX_PATH)))
        .with_any("approver", closing.approver.as_deref().map(|name| clean.name(name)))
        .with_any("answer", closing.answer)
        .with_any("waited_us", closing.waited_ms.map(micros))
        .with_any("command", command.map(|command| clean.text(command, MAX_COMMAND)))
        .with_any("rung", closing.sandbox_level)
        .with_any("background", closing.background.as_deref().map(|id| clean.name(id)))
}

fn outcome<'a>(closing: &'a Closing, clean: &Cleaner<'_>) -> RecordDraft<'a> {
    let change = closing.changes.first();
    let path = change.map(|change| &change.path).or(closing.path.as_ref());
    let draft = RecordDraft::new("outcome", closing.opened_at_ms);
    let mut draft = known(draft, closing, path.map(PathBuf::as_path), clean)
        .with("outcome", closing.error.map_or("ok", |kind| kind.as_str()))
        .with("duration_us", micros(closing.duration_ms))
        .with_any("bytes", change.map(|change| change.bytes))
        .with_any("before_hash", change.and_then(|change| change.before).map(hex))
        .with_any("after_hash", change.and_then(|change| change.after).map(hex))
        .with("reply_bytes", closing.reply_bytes)
        .with_any("text", text_of(closing).map(|text| clean.text(&text, MAX_TEXT).into_owned()));
    for change in closing.changes.iter().skip(1) {
        draft.change(further(change, clean));
    }
    draft
}

/// Returns what else is said of a call: what it changed that acts later, or where its tool comes from.
fn text_of(closing: &Closing) -> Option<String> {
    let origin = || closing.tool_origin.as_ref().map(ToString::to_string);
    closing.consequences.clone().or_else(origin)
}

fn further<'a>(change: &'a Change, clean: &Cleaner<'_>) -> Fields<'a> {
    let mut fields: Fields<'_> = vec![
        ("file_path", Field::from(clean.path(&change.path))),
        ("bytes", Field::from(change.bytes)),
    ];
    fields.extend(change.before.map(|hash| ("before_hash", hex(hash))));
    fields.extend(change.after.map(|hash| ("after_hash", hex(hash))));
    fields
}

fn micros(ms: f64) -> i64 {
    (ms * 1e3).round() as i64
}

/// Removes secrets and truncates long texts.
pub(super) struct Cleaner<'a>(pub(super) &'a Redactor);

impl Cleaner<'_> {
    pub(super) fn name<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.text(text, MAX_NAME)
    }

    pub(super) fn path<'a>(&self, path: &'a Path) -> Cow<'a, str> {
        match path.to_string_lossy() {
            Cow::Borrowed(text) => self.text(text, MAX_PATH),
            Cow::Owned(text) => Cow::Owned(self.text(&text, MAX_PATH).into_owned()),
        }
    }

    pub(super) fn text<'a>(&self, text: &'a str, max: usize) -> Cow<'a, str> {
        let n_bytes = text.len();
        let looked = text.get(..text.floor_char_boundary(MAX_LOOKED)).unwrap_or_default();
        let clean = self.0.redact(looked);
        if clean.len() <= max && looked.len() == n_bytes {
            return clean;
        }
        let kept = clean.get(..clean.floor_char_boundary(max)).unwrap_or_default();
        Cow::Owned(format!("{kept} [cut: {n_bytes} bytes]"))
    }

    /// Returns the paths of temporary files without those that hold a secret: leftovers matter less.
    fn temporaries(&self, paths: &[PathBuf]) -> Vec<u8> {
        let is_clean = |path: &&PathBuf| !self.0.finds(&path.to_string_lossy());
        separated(&paths.iter().filter(is_clean).cloned().collect::<Vec<_>>())
    }
}

fn hex(hash: ContentHash) -> Field<'static> {
    Field::from(hash.to_string())
}
