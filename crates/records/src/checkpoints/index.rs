//! The checkpoint index in SQLite: the state of each path before and after its change.
//!
//! One transaction writes a checkpoint before its call changes anything, when the store already has its
//! contents. A later one settles it. Paths and symlink targets are bytes.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sinew_tool::{Clock, ContentHash};

use super::{CallContext, CheckpointId, Entry, Listed, PathState, Query};
use crate::database::{Tables, separated};
use sinew_fs::clock::SystemClock;
use sinew_fs::process_identity::{Life, ProcessIdentity};

/// The tables. `process` holds the values that all checkpoints of a process share. An entry without
/// `after_kind`, or not settled, belongs to a change that may not have happened.
pub(super) const TABLES: Tables = Tables {
    version: 2,
    previous: Some(1),
    schema: "
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS process (
        process       INTEGER PRIMARY KEY,
        pid           INTEGER NOT NULL,
        pid_started   INTEGER NOT NULL,
        pid_namespace INTEGER NOT NULL,
        machine       TEXT NOT NULL,
        boot          TEXT NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS checkpoint (
        number  INTEGER PRIMARY KEY AUTOINCREMENT,
        at_ms   INTEGER NOT NULL,
        process INTEGER NOT NULL REFERENCES process (process),
        session TEXT NOT NULL,
        agent   TEXT,
        turn    TEXT,
        call_id TEXT NOT NULL,
        dialect TEXT NOT NULL,
        tool    TEXT NOT NULL,
        roots   BLOB NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS entry (
        checkpoint    INTEGER NOT NULL REFERENCES checkpoint (number),
        path          BLOB NOT NULL,
        before_kind   TEXT NOT NULL,
        before_mode   INTEGER,
        before_size   INTEGER,
        before_hash   BLOB,
        before_target BLOB,
        after_kind    TEXT,
        after_mode    INTEGER,
        after_size    INTEGER,
        after_hash    BLOB,
        after_target  BLOB,
        settled       INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (checkpoint, path)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS restored (
        checkpoint INTEGER PRIMARY KEY REFERENCES checkpoint (number) ON DELETE CASCADE,
        since      INTEGER NOT NULL,
        is_redo    INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS kept ON entry (before_hash) WHERE before_hash IS NOT NULL;
    CREATE TABLE IF NOT EXISTS store (
        one             INTEGER PRIMARY KEY CHECK (one = 1),
        collected_at_ms INTEGER NOT NULL,
        new_bytes       INTEGER NOT NULL
    ) STRICT;
    INSERT OR IGNORE INTO store VALUES (1, unixepoch() * 1000, 0);
    PRAGMA user_version = 2;
    COMMIT;
",
};

/// The columns of a state, in their order.
const BEFORE: &str = "before_kind, before_mode, before_size, before_hash, before_target";
const AFTER: &str = "after_kind, after_mode, after_size, after_hash, after_target";

/// The bytes kept since the last collection, and its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    pub(super) n_new_bytes: u64,
    pub(super) collected_at_ms: i64,
}

/// A change of a path by a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) id: CheckpointId,
    pub(super) session: String,
    pub(super) entry: Entry,
}

/// Inserts this process and returns its ID.
pub(super) fn enter(transaction: &Connection, mark: &ProcessIdentity) -> rusqlite::Result<i64> {
    transaction.execute(
        "INSERT INTO process (pid, pid_started, pid_namespace, machine, boot)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![mark.pid, mark.started, mark.namespace, mark.machine, mark.boot],
    )?;
    Ok(transaction.last_insert_rowid())
}

/// Inserts a checkpoint without entries and returns its number.
pub(super) fn insert(
    transaction: &Connection,
    process: i64,
    mark: &CallContext,
) -> rusqlite::Result<CheckpointId> {
    transaction
        .prepare_cached(
            "INSERT INTO checkpoint (at_ms, process, session, agent, turn, call_id, dialect, tool,
                roots) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            now_ms(),
            process,
            mark.session,
            mark.agent,
            mark.turn,
            mark.call_id,
            mark.dialect,
            mark.tool,
            separated(&mark.roots),
        ])?;
    let id = CheckpointId(transaction.last_insert_rowid());
    if let Some(since) = mark.restores {
        transaction
            .prepare_cached(
                "INSERT INTO restored VALUES (?1, ?2,
                    EXISTS (SELECT 1 FROM restored WHERE checkpoint = ?2))",
            )?
            .execute([id.0, since.0])?;
    }
    Ok(id)
}

/// Inserts or replaces the entry of a path.
pub(super) fn insert_entry(
    transaction: &Connection,
    id: CheckpointId,
    path: &Path,
    before: &PathState,
    after: Option<&PathState>,
    is_settled: bool,
) -> rusqlite::Result<()> {
    let (before, after) = (Columns::of(Some(before)), Columns::of(after));
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO entry VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
                ?13)",
        )?
        .execute(params![
            id.0,
            path.as_os_str().as_bytes(),
            before.kind,
            before.mode,
            before.size,
            before.hash,
            before.target,
            after.kind,
            after.mode,
            after.size,
            after.hash,
            after.target,
            is_settled,
        ])
        .map(|_| ())
}

/// Returns the checkpoint that a call has since a time, in milliseconds since 1970, and whether it has entries.
pub(super) fn checkpoint_of(
    connection: &Connection,
    mark: &CallContext,
    since_ms: i64,
) -> rusqlite::Result<Option<(CheckpointId, bool)>> {
    connection
        .prepare_cached(
            "SELECT number, EXISTS (SELECT 1 FROM entry WHERE checkpoint = number) FROM checkpoint
             WHERE session = ?1 AND call_id = ?2 AND ?3 <= at_ms",
        )?
        .query_row(params![mark.session, mark.call_id, since_ms], |row| {
            Ok((CheckpointId(row.get(0)?), row.get(1)?))
        })
        .optional()
}

/// Settles an entry with the state that its change left.
pub(super) fn settle(
    transaction: &Connection,
    id: CheckpointId,
    path: &Path,
    after: &PathState,
) -> rusqlite::Result<()> {
    let after = Columns::of(Some(after));
    transaction
        .prepare_cached(
            "UPDATE entry SET after_kind = ?3, after_mode = ?4, after_size = ?5, after_hash = ?6,
                after_target = ?7, settled = 1 WHERE checkpoint = ?1 AND path = ?2",
        )?
        .execute(params![
            id.0,
            path.as_os_str().as_bytes(),
            after.kind,
            after.mode,
            after.size,
            after.hash,
            after.target,
        ])
        .map(|_| ())
}

/// Removes an entry whose change did not happen.
pub(super) fn withdraw(
    transaction: &Connection,
    id: CheckpointId,
    path: &Path,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("DELETE FROM entry WHERE checkpoint = ?1 AND path = ?2")?
        .execute(params![id.0, path.as_os_str().as_bytes()])?;
    transaction
        .prepare_cached(
            "DELETE FROM checkpoint WHERE number = ?1
                AND NOT EXISTS (SELECT 1 FROM entry WHERE checkpoint = ?1)",
        )?
        .execute([id.0])
        .map(|_| ())
}

/// Adds bytes to the count of new ones; returns the count since the last collection.
pub(super) fn count(transaction: &Connection, n_new: u64) -> rusqlite::Result<Since> {
    if n_new != 0 {
        transaction
            .prepare_cached("UPDATE store SET new_bytes = new_bytes + ?1")?
            .execute([signed(n_new)])?;
    }
    transaction
        .prepare_cached("SELECT new_bytes, collected_at_ms FROM store")?
        .query_row([], |row| {
            Ok(Since { n_new_bytes: unsigned(row.get(0)?), collected_at_ms: row.get(1)? })
        })
}

/// Claims a collection, unless another process did since these values were read.
pub(super) fn claim(transaction: &Connection, since: Since) -> rusqlite::Result<bool> {
    let n = transaction.execute(
        "UPDATE store SET new_bytes = 0, collected_at_ms = ?1
         WHERE collected_at_ms = ?2 AND ?3 <= new_bytes",
        params![now_ms(), since.collected_at_ms, signed(since.n_new_bytes)],
    )?;
    Ok(n == 1)
}

/// Restores these values, so that an unfinished collection is due again.
pub(super) fn give_back(connection: &Connection, since: Since) -> rusqlite::Result<()> {
    connection
        .execute(
            "UPDATE store SET new_bytes = new_bytes + ?1, collected_at_ms = ?2",
            params![signed(since.n_new_bytes), since.collected_at_ms],
        )
        .map(|_| ())
}

pub(super) fn session_of(
    connection: &Connection,
    id: CheckpointId,
) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT session FROM checkpoint WHERE number = ?1")?
        .query_row([id.0], |row| row.get(0))
        .optional()
}

/// Returns the first checkpoint of the same session, agent and turn without another turn in between.
pub(super) fn first_of_turn(
    connection: &Connection,
    id: CheckpointId,
) -> rusqlite::Result<Option<CheckpointId>> {
    connection.query_row(
        "SELECT min(first.number) FROM checkpoint AS first JOIN checkpoint AS one
         ON first.session = one.session AND first.agent IS one.agent AND first.turn = one.turn
         WHERE one.number = ?1 AND first.number <= one.number AND first.number > (
            SELECT coalesce(max(other.number), 0) FROM checkpoint AS other
            WHERE other.session = one.session AND other.agent IS one.agent
               AND other.turn IS NOT one.turn AND other.number < one.number)",
        [id.0],
        |row| row.get::<_, Option<i64>>(0).map(|number| number.map(CheckpointId)),
    )
}

/// Lists checkpoints, the newest first.
pub(super) fn list(connection: &Connection, query: &Query<'_>) -> rusqlite::Result<Vec<Listed>> {
    connection
        .prepare_cached(
            "SELECT number, at_ms, session, agent, turn, call_id, dialect, tool, roots,
                (SELECT count(*) FROM entry WHERE checkpoint = number), since, is_redo
             FROM checkpoint LEFT JOIN restored ON restored.checkpoint = number
             WHERE (?1 IS NULL OR session = ?1) AND (?2 IS NULL OR number < ?2)
                AND (?3 IS NULL OR number = ?3) AND (?4 IS NULL OR turn = ?4)
             ORDER BY number DESC LIMIT ?5",
        )?
        .query_map(
            params![
                query.session,
                query.before.map(|id| id.0),
                query.id.map(|id| id.0),
                query.turn,
                i64::try_from(query.limit).unwrap_or(i64::MAX)
            ],
            |row| {
                Ok(Listed {
                    id: CheckpointId(row.get(0)?),
                    at_ms: unsigned(row.get(1)?),
                    mark: CallContext {
                        session: row.get(2)?,
                        agent: row.get(3)?,
                        turn: row.get(4)?,
                        call_id: row.get(5)?,
                        dialect: row.get(6)?,
                        tool: row.get(7)?,
                        roots: parted(&row.get::<_, Vec<u8>>(8)?),
                        restores: row.get::<_, Option<i64>>(10)?.map(CheckpointId),
                    },
                    n_paths: unsigned(row.get(9)?),
                    is_redo: row.get::<_, Option<bool>>(11)?.unwrap_or(false),
                })
            },
        )?
        .collect()
}

pub(super) fn entries(connection: &Connection, id: CheckpointId) -> rusqlite::Result<Vec<Entry>> {
    let sql = format!("SELECT path, settled, {BEFORE}, {AFTER} FROM entry WHERE checkpoint = ?1");
    connection.prepare_cached(&sql)?.query_map([id.0], |row| entry_at(row, 0))?.collect()
}

/// Passes on every change of this or a later checkpoint, the oldest first.
pub(super) fn changes_since(
    connection: &Connection,
    id: CheckpointId,
    mut take: impl FnMut(Change),
) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT number, session, path, settled, {BEFORE}, {AFTER}
         FROM entry JOIN checkpoint ON number = checkpoint
         WHERE ?1 <= checkpoint ORDER BY checkpoint"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([id.0])?;
    while let Some(row) = rows.next()? {
        take(Change {
            id: CheckpointId(row.get(0)?),
            session: row.get(1)?,
            entry: entry_at(row, 2)?,
        });
    }
    Ok(())
}

pub(super) fn total(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("SELECT count(*) FROM checkpoint", [], |row| row.get(0).map(unsigned))
}

pub(super) fn newest(connection: &Connection) -> rusqlite::Result<Option<CheckpointId>> {
    connection.query_row("SELECT max(number) FROM checkpoint", [], |row| {
        row.get::<_, Option<i64>>(0).map(|number| number.map(CheckpointId))
    })
}

/// Returns the checkpoints of calls that still run.
pub(super) fn under_way(connection: &Connection) -> rusqlite::Result<Vec<CheckpointId>> {
    let own = ProcessIdentity::own();
    let mut statement = connection.prepare(
        "SELECT DISTINCT number, pid, pid_started, pid_namespace, machine, boot
         FROM entry JOIN checkpoint ON number = checkpoint JOIN process USING (process)
         WHERE settled = 0",
    )?;
    let rows = statement.query_map([], |row| Ok((CheckpointId(row.get(0)?), mark_at(row, 1)?)))?;
    let mut alive = Vec::new();
    for row in rows {
        let (id, mark) = row?;
        if mark.life(&own) == Life::Alive {
            alive.push(id);
        }
    }
    Ok(alive)
}

/// Returns the checkpoints since a time whose process runs.
pub(super) fn of_living(
    connection: &Connection,
    since_ms: i64,
) -> rusqlite::Result<Vec<CheckpointId>> {
    let own = ProcessIdentity::own();
    let mut statement = connection.prepare(
        "SELECT process, pid, pid_started, pid_namespace, machine, boot FROM process
         WHERE process IN (SELECT process FROM checkpoint WHERE ?1 < at_ms)",
    )?;
    let processes = statement.query_map([since_ms], |row| Ok((row.get(0)?, mark_at(row, 1)?)))?;
    let processes = processes.collect::<rusqlite::Result<Vec<(i64, ProcessIdentity)>>>()?;
    let mut statement =
        connection.prepare("SELECT number FROM checkpoint WHERE process = ?1 AND ?2 < at_ms")?;
    let mut all = Vec::new();
    for (process, _) in processes.iter().filter(|(_, mark)| mark.life(&own) == Life::Alive) {
        let ids = statement.query_map([*process, since_ms], |row| Ok(CheckpointId(row.get(0)?)))?;
        all.extend(ids.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    Ok(all)
}

/// Returns the checkpoints up to one with their times, the oldest first.
pub(super) fn up_to(
    connection: &Connection,
    last: CheckpointId,
) -> rusqlite::Result<Vec<(CheckpointId, i64)>> {
    connection
        .prepare("SELECT number, at_ms FROM checkpoint WHERE number <= ?1 ORDER BY number")?
        .query_map([last.0], |row| Ok((CheckpointId(row.get(0)?), row.get(1)?)))?
        .collect()
}

/// Removes a checkpoint with its entries.
pub(super) fn remove(transaction: &Connection, id: CheckpointId) -> rusqlite::Result<()> {
    transaction.prepare_cached("DELETE FROM entry WHERE checkpoint = ?1")?.execute([id.0])?;
    transaction
        .prepare_cached("DELETE FROM checkpoint WHERE number = ?1")?
        .execute([id.0])
        .map(|_| ())
}

/// Removes ended processes without checkpoints.
pub(super) fn remove_processes(transaction: &Connection) -> rusqlite::Result<()> {
    let own = ProcessIdentity::own();
    let mut statement = transaction.prepare(
        "SELECT process, pid, pid_started, pid_namespace, machine, boot FROM process
         WHERE process NOT IN (SELECT process FROM checkpoint)",
    )?;
    let unnamed: Vec<(i64, ProcessIdentity)> = statement
        .query_map([], |row| Ok((row.get(0)?, mark_at(row, 1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (process, _) in unnamed.iter().filter(|(_, mark)| mark.life(&own) == Life::Dead) {
        transaction.execute("DELETE FROM process WHERE process = ?1", [process])?;
    }
    Ok(())
}

/// Returns each named content with the newest checkpoint that names it.
pub(super) fn named(connection: &Connection) -> rusqlite::Result<Vec<(ContentHash, CheckpointId)>> {
    connection
        .prepare(
            "SELECT before_hash, max(checkpoint) FROM entry WHERE before_hash IS NOT NULL
             GROUP BY before_hash",
        )?
        .query_map([], |row| {
            Ok((ContentHash::from(row.get::<_, [u8; 32]>(0)?), CheckpointId(row.get(1)?)))
        })?
        .collect()
}

/// Returns the contents that commands left in indexes of git.
pub(super) fn kept_indexes(connection: &Connection) -> rusqlite::Result<HashSet<ContentHash>> {
    connection
        .prepare(
            "SELECT after_hash FROM entry
             WHERE after_hash IS NOT NULL AND substr(path, -6) = CAST('/index' AS BLOB)",
        )?
        .query_map([], |row| row.get::<_, [u8; 32]>(0).map(ContentHash::from))?
        .collect()
}

pub(super) fn is_named(connection: &Connection, content: ContentHash) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM entry WHERE before_hash = ?1)")?
        .query_row([content.as_bytes()], |row| row.get(0))
}

/// Returns the time in milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    signed(SystemClock.wall_ms())
}

struct Columns<'a> {
    kind: Option<&'static str>,
    mode: Option<u32>,
    size: Option<i64>,
    hash: Option<&'a [u8]>,
    target: Option<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn of(state: Option<&'a PathState>) -> Self {
        let none = Self { kind: None, mode: None, size: None, hash: None, target: None };
        match state {
            None => none,
            Some(PathState::Absent) => Self { kind: Some("absent"), ..none },
            Some(PathState::File { content, size, mode }) => Self {
                kind: Some("file"),
                mode: Some(*mode),
                size: Some(signed(*size)),
                hash: Some(content.as_bytes()),
                ..none
            },
            Some(PathState::Unkept { size, mode }) => {
                Self { kind: Some("unkept"), mode: Some(*mode), size: Some(signed(*size)), ..none }
            }
            Some(PathState::Link(target)) => {
                Self { kind: Some("link"), target: Some(target.as_os_str().as_bytes()), ..none }
            }
            Some(PathState::Directory { mode }) => {
                Self { kind: Some("directory"), mode: Some(*mode), ..none }
            }
            Some(PathState::Special) => Self { kind: Some("special"), ..none },
            Some(PathState::Rebuilt) => Self { kind: Some("rebuilt"), ..none },
            Some(PathState::SetAside(to)) => {
                Self { kind: Some("set_aside"), target: Some(to.as_os_str().as_bytes()), ..none }
            }
        }
    }
}

/// Reads a process identity from the column `at` on.
fn mark_at(row: &Row<'_>, at: usize) -> rusqlite::Result<ProcessIdentity> {
    Ok(ProcessIdentity {
        pid: row.get(at)?,
        started: row.get(at + 1)?,
        namespace: row.get(at + 2)?,
        machine: row.get(at + 3)?,
        boot: row.get(at + 4)?,
    })
}

/// Reads an entry from the column `at` on: path, settled, and both states.
fn entry_at(row: &Row<'_>, at: usize) -> rusqlite::Result<Entry> {
    Ok(Entry {
        path: path_of(row.get(at)?),
        settled: row.get(at + 1)?,
        before: state_at(row, at + 2)?.ok_or_else(|| strange(at + 2, "no state"))?,
        after: state_at(row, at + 7)?,
    })
}

/// Reads a state from the column `at` on.
fn state_at(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<PathState>> {
    let Some(kind) = row.get::<_, Option<String>>(at)? else { return Ok(None) };
    let mode = || row.get::<_, u32>(at + 1);
    let size = || row.get(at + 2).map(unsigned);
    Ok(Some(match kind.as_str() {
        "absent" => PathState::Absent,
        "file" => {
            PathState::hashed(ContentHash::from(row.get::<_, [u8; 32]>(at + 3)?), size()?, mode()?)
        }
        "unkept" => PathState::unkept(size()?, mode()?),
        "link" => PathState::Link(path_of(row.get(at + 4)?)),
        "directory" => PathState::directory(mode()?),
        "special" => PathState::Special,
        "rebuilt" => PathState::Rebuilt,
        "set_aside" => PathState::SetAside(path_of(row.get(at + 4)?)),
        _ => return Err(strange(at, "no kind of state")),
    }))
}

/// Returns the error for a row that sinew never writes.
fn strange(column: usize, problem: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, problem.into())
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// Splits the bytes that [`separated`] joined.
fn parted(bytes: &[u8]) -> Vec<PathBuf> {
    let paths = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    paths.map(|path| path_of(path.to_vec())).collect()
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
