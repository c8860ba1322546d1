//! Appends records to the end of the chain, in one transaction.

use std::time::Duration;

use rusqlite::Connection;
use sinew_tool::Ticket;
use sinew_tool::sync::lock;

use super::key::Key;
use super::opening::{self, FileId, OpenLedger};
use super::record::{self, Link, OfProcess};
use super::row::{Cleaner, Row, WriteStep};
use super::{Database, SharedLedger, head};
use crate::database::{Failed, at_once};

/// The result of one transaction.
struct Written {
    process: OfProcess,
    tail: Link,
    opened: Vec<(Ticket, i64)>,
    closed: Vec<Ticket>,
    /// Whether the head was wrong and must be rewritten.
    head_was_wrong: bool,
}

impl SharedLedger {
    pub(super) fn insert<'a>(
        &self,
        database: &mut Database,
        rows: impl Iterator<Item = &'a Row>,
        patience: Duration,
    ) -> Result<(), Failed> {
        // Redacts before the transaction, so that no other process waits for it.
        let clean = Cleaner(&self.recorded.redactor);
        let steps: Vec<WriteStep<'_>> = rows.filter_map(|row| row.step(&clean)).collect();
        let client = lock(&self.client).as_deref().map(|client| clean.name(client).into_owned());
        for _ in 0..2 {
            let open = self.connection(database, patience)?;
            let written = self.transaction(open, &steps, client.as_deref())?;
            // A database that was just renamed aside does not count: retries with the new one.
            if self.is_there(open) {
                self.written(open, written, client);
                return Ok(());
            }
        }
        Err(Failed::new("the database was taken away while it was written"))
    }

    /// Remembers the result of a transaction and notes the head.
    fn written(&self, open: &mut OpenLedger, written: Written, client: Option<String>) {
        // The records count anyway; the next write notes the head again.
        let _ = open.head.note(&open.key, written.tail, written.head_was_wrong);
        open.process = Some((written.process, client));
        let mut intents = lock(&self.intents);
        intents.extend(written.opened.iter().map(|(ticket, seq)| (*ticket, (open.file, *seq))));
        for ticket in &written.closed {
            intents.remove(ticket);
        }
    }

    /// Appends steps to the end of the chain.
    fn transaction(
        &self,
        open: &mut OpenLedger,
        steps: &[WriteStep<'_>],
        client: Option<&str>,
    ) -> Result<Written, Failed> {
        let OpenLedger { connection, key, head, file, process } = open;
        at_once(connection, |connection| {
            let mut tail = record::tail(connection, Link::START)?;
            let wrong = head::wrong(connection, head.noted(key), tail)?;
            let process = match process {
                Some((known, of)) if of.as_deref() == client && is_entered(connection, known)? => {
                    known.clone()
                }
                _ => self.who().enter(connection, client)?,
            };
            let mut written = Written {
                process,
                tail,
                opened: Vec::new(),
                closed: Vec::new(),
                head_was_wrong: wrong.is_some(),
            };
            if let Some(event) = wrong {
                let draft = opening::event(&self.recorded.redactor, &event);
                record::append(connection, key, &mut tail, &written.process, &draft)?;
            }
            for step in steps {
                self.step(connection, (key, *file), &mut tail, &mut written, step)?;
            }
            written.tail = tail;
            Ok::<_, Failed>(written)
        })
    }

    fn step(
        &self,
        connection: &Connection,
        (key, file): (&Key, FileId),
        tail: &mut Link,
        written: &mut Written,
        step: &WriteStep<'_>,
    ) -> Result<(), Failed> {
        let (draft, opens, closes) = match step {
            WriteStep::Known(row) => return Ok(row.insert(connection, written.process.number)?),
            WriteStep::Record { draft, opens, closes } => (draft, opens, closes),
        };
        let now = closes.and_then(|ticket| {
            let now = written.opened.iter().find(|(opened, _)| *opened == ticket);
            let before = || lock(&self.intents).get(&ticket).copied();
            now.map(|(_, seq)| *seq)
                .or_else(|| before().filter(|(of, _)| *of == file).map(|(_, seq)| seq))
        });
        match now {
            Some(intent) => {
                let closing = draft.closing(intent);
                record::append(connection, key, tail, &written.process, &closing)?;
                connection
                    .prepare_cached("DELETE FROM unsettled WHERE seq = ?1")?
                    .execute([intent])?;
            }
            None => record::append(connection, key, tail, &written.process, draft)?,
        }
        written.closed.extend(*closes);
        if let Some((ticket, temporaries)) = opens {
            written.opened.push((*ticket, tail.seq));
            connection
                .prepare_cached("INSERT INTO unsettled (seq, temporaries) VALUES (?1, ?2)")?
                .execute((tail.seq, temporaries))?;
        }
        Ok(())
    }
}

/// Returns whether the database still has a process: retention removes those without records.
fn is_entered(connection: &Connection, process: &OfProcess) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM process WHERE process = ?1)")?
        .query_row([process.number], |row| row.get(0))
}
