//! Stores the sessions of agents: their entries as JSON, without secrets, in a database of its own.
//!
//! Each entry is committed before the next step of the agent, so that a session survives any end of its process. Two processes
//! that continue one session find out by the number of the next entry.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;
use sinew_tool::sync::lock;

use crate::database::{self, Failed, PATIENT, Tables, at_once, is_file, now_ms, read, stored};
use crate::ledger::LedgerSync;
use crate::redact::Redactor;
use crate::session_claim::{SessionClaim, Unclaimed};
use sinew_fs::state::StateDir;

/// The file name of the database.
const NAME: &str = "sessions.db";
/// The longest title, in characters.
const MAX_TITLE: usize = 100;
/// The most secret-free JSON of one entry, in bytes.
const MAX_ENTRY: usize = 64 << 20;

const TABLES: Tables = Tables {
    version: 2,
    previous: Some(1),
    schema: "
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS session (
        id         TEXT PRIMARY KEY,
        parent     TEXT,
        title      TEXT NOT NULL,
        root       TEXT NOT NULL,
        dialect    TEXT NOT NULL,
        model      TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        n_entries  INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS session_updated ON session (updated_ms);
    CREATE TABLE IF NOT EXISTS entry (
        session TEXT NOT NULL REFERENCES session (id),
        number  INTEGER NOT NULL,
        at_ms   INTEGER NOT NULL,
        json    TEXT NOT NULL,
        PRIMARY KEY (session, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS session_grant (
        session TEXT NOT NULL,
        granted TEXT NOT NULL,
        PRIMARY KEY (session, granted)
    ) STRICT, WITHOUT ROWID;
    PRAGMA user_version = 2;
    COMMIT;",
};

/// Why sessions cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The database failed.
    #[error("the sessions in {path} cannot be used: {problem}")]
    Database {
        /// The database.
        path: String,
        /// The error of the database.
        problem: String,
    },
    /// There is no such session.
    #[error("there is no session `{0}`; `sinew sessions list` lists them")]
    Unknown(String),
    /// Another process added an entry.
    #[error("another process continues the session `{0}`; end one of them")]
    Taken(String),
    /// Another process has the session.
    #[error(
        "the session `{id}` is open in {}; end that, or go on with a copy: `sinew sessions fork {id}`",
        process.map_or_else(|| String::from("another process"), |number| format!("process {number}"))
    )]
    Open {
        /// Its name.
        id: String,
        /// The number of the process, where it is known.
        process: Option<u32>,
    },
    /// An entry is too large.
    #[error("an entry of the session has more than {} MiB", MAX_ENTRY >> 20)]
    TooLarge,
}

/// A stored session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// Its name.
    pub id: String,
    /// The session that it was forked from.
    pub parent: Option<String>,
    /// What it is about: its first message, cut.
    pub title: String,
    /// The first root.
    pub root: String,
    /// The dialect.
    pub dialect: String,
    /// The model, as the user named it.
    pub model: String,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// When its last entry was added.
    pub updated_ms: u64,
    /// How many entries it has.
    pub n_entries: u64,
}

/// What a new session starts with.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// Its name.
    pub id: &'a str,
    /// Its first message.
    pub title: &'a str,
    /// The first root.
    pub root: &'a str,
    /// The dialect.
    pub dialect: &'a str,
    /// The model, as the user named it.
    pub model: &'a str,
}

/// The sessions of a state directory.
#[derive(Debug)]
pub struct Sessions {
    path: PathBuf,
    redactor: Redactor,
    connection: Mutex<Option<Connection>>,
}

impl Sessions {
    /// Returns the sessions of a state directory; opens nothing yet.
    pub fn new(state: &StateDir, redactor: Redactor) -> Self {
        Self { path: state.path().join(NAME), redactor, connection: Mutex::new(None) }
    }

    /// Returns the sessions in a state directory, if it has a database of them.
    pub(crate) fn beneath(state: &Path, redactor: Redactor) -> Option<Self> {
        let path = state.join(NAME);
        is_file(&path).then(|| Self { path, redactor, connection: Mutex::new(None) })
    }

    /// Claims a session for this process, so that no other continues it.
    pub fn claim(&self, id: &str) -> Result<SessionClaim, SessionError> {
        let state = self.path.parent().unwrap_or(&self.path);
        SessionClaim::take(state, id).map_err(|unclaimed| match unclaimed {
            Unclaimed::Taken(process) => SessionError::Open { id: id.to_owned(), process },
            Unclaimed::Failed(error) => SessionError::Database {
                path: state.display().to_string(),
                problem: error.to_string(),
            },
        })
    }

    /// Creates a session without entries. One of the same name stays as it is.
    pub fn create(&self, new: &NewSession<'_>) -> Result<(), SessionError> {
        let title: String = self.redactor.redact(&first_line(new.title)).into_owned();
        let now = now_ms();
        self.with(|connection| {
            // A session that expired may have had this name.
            let stale = "DELETE FROM session_grant WHERE session = ?1 AND NOT EXISTS (SELECT 1 FROM session WHERE id = ?1)";
            connection.execute(stale, [new.id])?;
            connection.execute(
                "INSERT OR IGNORE INTO session VALUES (?1, NULL, ?2, ?3, ?4, ?5, ?6, ?6, 0)",
                params![new.id, title, new.root, new.dialect, new.model, now],
            )?;
            Ok(())
        })
    }

    /// Appends the entry with this number, which is the number of entries so far. Returns it as it is stored, as JSON.
    pub fn append(&self, id: &str, number: u64, entry: &Value) -> Result<String, SessionError> {
        let json = self.redacted(entry).to_string();
        if MAX_ENTRY < json.len() {
            return Err(SessionError::TooLarge);
        }
        let now = now_ms();
        let added = self.with(|connection| {
            at_once(connection, |connection| -> Result<bool, Failed> {
                let statement = "UPDATE session SET n_entries = ?2 + 1, updated_ms = ?3 WHERE id = ?1 AND n_entries = ?2";
                let number = stored(number);
                let n = connection.prepare_cached(statement)?.execute(params![id, number, now])?;
                if n == 1 {
                    let statement = "INSERT INTO entry VALUES (?1, ?2, ?3, ?4)";
                    connection.prepare_cached(statement)?.execute(params![id, number, now, json])?;
                }
                Ok(n == 1)
            })
        })?;
        if added {
            return Ok(json);
        }
        Err(match self.find(id)? {
            Some(_) => SessionError::Taken(id.to_owned()),
            None => SessionError::Unknown(id.to_owned()),
        })
    }

    /// Returns a session.
    pub fn find(&self, id: &str) -> Result<Option<StoredSession>, SessionError> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached("SELECT * FROM session WHERE id = ?1")?;
            Ok(statement.query_row([id], session).optional()?)
        })
    }

    /// Returns the sessions of a root, or of all, the latest first.
    pub fn list(&self, root: Option<&str>, limit: u64) -> Result<Vec<StoredSession>, SessionError> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT * FROM session WHERE ?1 IS NULL OR root = ?1 ORDER BY updated_ms DESC, rowid DESC LIMIT ?2",
            )?;
            let rows = statement.query_map(params![root, stored(limit)], session)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Returns the entries of a session with their times, in milliseconds since 1970.
    pub fn entries(&self, id: &str) -> Result<Vec<(u64, Value)>, SessionError> {
        if self.find(id)?.is_none() {
            return Err(SessionError::Unknown(id.to_owned()));
        }
        self.with(|connection| {
            let statement = "SELECT at_ms, json FROM entry WHERE session = ?1 ORDER BY number";
            let mut statement = connection.prepare_cached(statement)?;
            let rows = statement.query_map([id], |row| {
                let (at_ms, json): (i64, String) = (row.get(0)?, row.get(1)?);
                Ok((read(at_ms), json))
            })?;
            let mut entries = Vec::new();
            for row in rows {
                let (at_ms, json) = row?;
                let entry = serde_json::from_str(&json).map_err(|error| {
                    Failed::new(format!("an entry of `{id}` is broken: {error}"))
                })?;
                entries.push((at_ms, entry));
            }
            Ok(entries)
        })
    }

    /// Stores what an answer granted for the rest of a session, as text.
    pub fn keep_grants(&self, id: &str, granted: &[String]) -> Result<(), SessionError> {
        self.with(|connection| {
            let statement =
                "INSERT OR IGNORE INTO session_grant SELECT ?1, ?2 FROM session WHERE id = ?1";
            let mut statement = connection.prepare_cached(statement)?;
            for text in granted {
                statement.execute(params![id, text])?;
            }
            Ok(())
        })
    }

    /// Returns what answers granted for the rest of a session.
    pub fn grants(&self, id: &str) -> Result<Vec<String>, SessionError> {
        self.with(|connection| {
            let statement = "SELECT granted FROM session_grant WHERE session = ?1";
            let mut statement = connection.prepare_cached(statement)?;
            let texts = statement.query_map([id], |row| row.get(0))?;
            Ok(texts.collect::<Result<_, _>>()?)
        })
    }

    /// Copies a session under a new name, without what answers granted.
    pub fn fork(&self, id: &str, new: &str) -> Result<(), SessionError> {
        let now = now_ms();
        let n = self.with(|connection| {
            at_once(connection, |connection| -> Result<usize, Failed> {
                let n = connection.execute(
                    "INSERT INTO session SELECT ?2, id, title, root, dialect, model, ?3, ?3, n_entries \
                     FROM session WHERE id = ?1",
                    params![id, new, now],
                )?;
                connection.execute(
                    "INSERT INTO entry SELECT ?2, number, at_ms, json FROM entry WHERE session = ?1",
                    params![id, new],
                )?;
                Ok(n)
            })
        })?;
        if n == 0 { Err(SessionError::Unknown(id.to_owned())) } else { Ok(()) }
    }

    /// Removes sessions whose last entry is older than this, and the oldest beyond this number. Returns how many went.
    pub fn expire(&self, max_age: Option<Duration>, max_count: u64) -> Result<u64, SessionError> {
        let oldest = max_age.map(|age| {
            let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            now_ms().saturating_sub(age)
        });
        self.with(|connection| {
            at_once(connection, |connection| -> Result<u64, Failed> {
                let expired = "SELECT id FROM session WHERE updated_ms < ?1 OR id NOT IN \
                               (SELECT id FROM session ORDER BY updated_ms DESC, rowid DESC LIMIT ?2)";
                let oldest = oldest.unwrap_or(i64::MIN);
                let bounds = params![oldest, stored(max_count)];
                for table in ["entry", "session_grant"] {
                    connection.execute(&format!("DELETE FROM {table} WHERE session IN ({expired})"), bounds)?;
                }
                let n = connection.execute(&format!("DELETE FROM session WHERE id IN ({expired})"), bounds)?;
                database::shorten_log(connection);
                Ok(n as u64)
            })
        })
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failed>,
    ) -> Result<T, SessionError> {
        let mut connection = lock(&self.connection);
        let done = match &*connection {
            Some(open) => work(open),
            None => database::open(&self.path, &TABLES, LedgerSync::Normal, PATIENT)
                .and_then(|open| work(connection.insert(open))),
        };
        done.map_err(|failed| SessionError::Database {
            path: self.path.display().to_string(),
            problem: match failed.corrupt {
                true => format!("{}; move the file away to begin anew", failed.problem),
                false => failed.problem,
            },
        })
    }

    /// Redacts the values in a text of JSON, so that it stays JSON.
    fn redacted_arguments(&self, text: &str) -> Value {
        match serde_json::from_str::<Value>(text) {
            Ok(arguments) if self.redactor.finds(text) => self.redacted(&arguments).to_string(),
            Ok(_) => text.to_owned(),
            Err(_) => self.redactor.redact(text).into_owned(),
        }
        .into()
    }

    /// Returns a value whose texts hold no secret. An item that its provider signed is removed where it holds one.
    fn redacted(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redactor.redact(text).into_owned()),
            Value::Array(all) => all.iter().map(|value| self.redacted(value)).collect(),
            Value::Object(members) => {
                let member = |(key, value): (&String, &Value)| {
                    let clean = match value {
                        Value::String(text) if key == ARGUMENTS => self.redacted_arguments(text),
                        value => self.redacted(value),
                    };
                    let clean = if key == SEALED && clean != *value { Value::Null } else { clean };
                    (key.clone(), clean)
                };
                Value::Object(members.iter().map(member).collect())
            }
            other => other.clone(),
        }
    }
}

/// The key of arguments, which are JSON in a text.
const ARGUMENTS: &str = "arguments";
/// The key of items that their providers signed.
const SEALED: &str = "sealed";

fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match line.char_indices().nth(MAX_TITLE) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

fn session(row: &Row<'_>) -> rusqlite::Result<StoredSession> {
    Ok(StoredSession {
        id: row.get("id")?,
        parent: row.get("parent")?,
        title: row.get("title")?,
        root: row.get("root")?,
        dialect: row.get("dialect")?,
        model: row.get("model")?,
        created_ms: read(row.get("created_ms")?),
        updated_ms: read(row.get("updated_ms")?),
        n_entries: read(row.get("n_entries")?),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "ghp_0123456789012345678901234567890123456789";

    fn sessions() -> (tempfile::TempDir, Sessions) {
        let dir = tempfile::tempdir().expect("a directory");
        let state = StateDir::open(&dir.path().join("state")).expect("a state directory");
        (dir, Sessions::new(&state, Redactor::default()))
    }

    fn create(sessions: &Sessions, id: &str, root: &str) {
        let new = NewSession { id, title: "\n do it \nnow", root, dialect: "native", model: "m" };
        sessions.create(&new).expect("a session");
    }

    #[test]
    fn entries_are_kept_in_order_without_secrets() {
        let (_dir, sessions) = sessions();
        create(&sessions, "s", "/r");
        let text = json!({"text": format!("my token is {SECRET}"), "sealed": {"item": "signed"}});
        let sealed = json!({"sealed": {"item": {"thinking": SECRET}}});
        let arguments = json!({"command": format!("echo \"TOKEN={SECRET}\"")}).to_string();
        let call = json!({"arguments": arguments});
        for (number, entry) in [text, sealed, call].iter().enumerate() {
            sessions.append("s", number as u64, entry).expect("an entry");
        }
        let entries: Vec<Value> =
            sessions.entries("s").expect("entries").into_iter().map(|(_, entry)| entry).collect();
        let text =
            json!({"text": "my token is [redacted: GitHub token]", "sealed": {"item": "signed"}});
        let [first, second, third] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!((first, second), (&text, &json!({"sealed": null})));
        let arguments = third["arguments"].as_str().expect("a text");
        let arguments: Value = serde_json::from_str(arguments).expect("still JSON");
        assert!(!arguments.to_string().contains(SECRET), "{arguments}");
        let found = sessions.find("s").expect("found").expect("a session");
        assert_eq!((found.title.as_str(), found.n_entries), ("do it", 3));
    }

    #[test]
    fn second_process_of_a_session_is_refused() {
        let (_dir, sessions) = sessions();
        create(&sessions, "s", "/r");
        sessions.append("s", 0, &json!(1)).expect("an entry");
        assert_eq!(sessions.append("s", 0, &json!(2)), Err(SessionError::Taken(String::from("s"))));
        let unknown = SessionError::Unknown(String::from("x"));
        assert_eq!(sessions.append("x", 0, &json!(2)), Err(unknown.clone()));
        assert_eq!(sessions.entries("x"), Err(unknown.clone()));
        assert_eq!(sessions.fork("x", "y"), Err(unknown));
    }

    #[test]
    fn fork_goes_on_alone() {
        let (_dir, sessions) = sessions();
        create(&sessions, "s", "/r");
        sessions.append("s", 0, &json!(1)).expect("an entry");
        for _ in 0..2 {
            sessions.keep_grants("s", &[String::from("rule")]).expect("kept");
        }
        sessions.fork("s", "t").expect("a fork");
        sessions.append("t", 1, &json!(2)).expect("an entry");
        assert_eq!(sessions.entries("s").expect("entries").len(), 1);
        assert_eq!(sessions.entries("t").expect("entries").len(), 2);
        // A grant of one session does not hold in its copy.
        assert_eq!(sessions.grants("s"), Ok(vec![String::from("rule")]));
        assert_eq!(sessions.grants("t"), Ok(Vec::new()));
        let fork = sessions.find("t").expect("found").expect("a session");
        assert_eq!((fork.parent.as_deref(), fork.title.as_str()), (Some("s"), "do it"));
    }

    #[test]
    fn old_sessions_expire() {
        let (_dir, sessions) = sessions();
        for n in 0..5 {
            create(&sessions, &format!("s{n}"), if n == 4 { "/other" } else { "/r" });
            sessions.append(&format!("s{n}"), 0, &json!(n)).expect("an entry");
        }
        let ids = |root| -> Vec<String> {
            let listed = sessions.list(root, 10).expect("a list");
            listed.into_iter().map(|session| session.id).collect()
        };
        assert_eq!(ids(Some("/r")), ["s3", "s2", "s1", "s0"]);
        sessions.keep_grants("s0", &[String::from("rule")]).expect("kept");
        assert_eq!(sessions.expire(Some(Duration::from_secs(60)), 3), Ok(2));
        assert_eq!(sessions.grants("s0"), Ok(Vec::new()));
        assert_eq!(ids(None), ["s4", "s3", "s2"]);
        assert_eq!(sessions.expire(Some(Duration::ZERO), 3).map(|n| n <= 3), Ok(true));
    }

    #[test]
    fn damaged_database_is_an_error_that_says_what_to_do() {
        let (dir, sessions) = sessions();
        #[expect(clippy::disallowed_methods, reason = "a test damages the file")]
        std::fs::write(dir.path().join("state").join(NAME), "x".repeat(4_096)).expect("written");
        let error = sessions.list(None, 1).expect_err("damaged").to_string();
        assert!(error.contains("sessions.db") && error.contains("move the file away"), "{error}");
    }
}
