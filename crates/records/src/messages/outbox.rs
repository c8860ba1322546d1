//! The outbox: which messages to channels were sent, so that none is sent twice.
//!
//! A row is committed before its message leaves, and settled after the answer. A row of a process that died in between
//! stays uncertain: its session learns of it once, and sinew does not send the message again.

use rusqlite::{Connection, OptionalExtension, params};
use sinew_fs::process_identity::ProcessIdentity;
use sinew_tool::{ChannelMessage, UncertainMessage};

use super::{MessageError, MessageStore};
use crate::database::{Failed, now_ms, read};

/// The state of a message in the outbox.
mod state {
    /// It leaves now, or its process died.
    pub(super) const SENDING: &str = "sending";
    /// The service confirmed it.
    pub(super) const SENT: &str = "sent";
    /// The service refused it, or it never left: the same call may send it again.
    pub(super) const FAILED: &str = "failed";
    /// It may have arrived.
    pub(super) const UNCERTAIN: &str = "uncertain";
}

/// The entry of a message in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboxEntry {
    /// It is new, and may be sent. Beside it are earlier messages of the session that may not have arrived.
    New(Vec<UncertainMessage>),
    /// The same call sent it, in milliseconds since 1970.
    Sent(u64),
    /// The same call sent it, and it is not known whether it arrived.
    Uncertain(u64),
}

impl MessageStore {
    /// Records that a message leaves now, unless the same call sent the same one before.
    ///
    /// A client names its calls, and one that repeats a name repeats the call. Where sinew numbers them, each process begins
    /// anew: there an earlier message of that number counts only while the session does not know that it is in doubt.
    pub fn begin(&self, outgoing: &ChannelMessage<'_>) -> Result<OutboxEntry, MessageError> {
        let own = ProcessIdentity::own();
        let process = serde_json::to_string(&own).unwrap_or_default();
        let fingerprint = fingerprint(outgoing);
        let chat = self.redactor.redact(outgoing.chat);
        self.change(|connection| {
            let now = now_ms();
            self.expire(connection, now)?;
            let ChannelMessage { session, call_id, channel, .. } = *outgoing;
            if let Some(entry) = earlier(connection, outgoing, &fingerprint, &process)? {
                let told = "UPDATE outbox SET is_told = 1 WHERE session = ?1 AND call_id = ?2";
                connection.prepare_cached(told)?.execute(params![session, call_id])?;
                return Ok(entry);
            }
            let uncertain = lose(connection, session, &own, now)?;
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO outbox VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8)",
                )?
                .execute(params![
                    session,
                    call_id,
                    fingerprint,
                    channel,
                    chat,
                    state::SENDING,
                    now,
                    process
                ])?;
            Ok(OutboxEntry::New(uncertain))
        })
    }

    /// Records that the service confirmed a message.
    pub fn confirm(&self, session: &str, call_id: &str) -> Result<(), MessageError> {
        self.settle(session, call_id, state::SENT, false)
    }

    /// Records that a message did not leave, or that the service refused it.
    pub fn refuse(&self, session: &str, call_id: &str) -> Result<(), MessageError> {
        self.settle(session, call_id, state::FAILED, false)
    }

    /// Records that it is not known whether a message arrived, and whether the caller knows so.
    pub fn doubt(&self, session: &str, call_id: &str, is_told: bool) -> Result<(), MessageError> {
        self.settle(session, call_id, state::UNCERTAIN, is_told)
    }

    fn settle(
        &self,
        session: &str,
        call_id: &str,
        state: &str,
        is_told: bool,
    ) -> Result<(), MessageError> {
        self.change(|connection| {
            connection
                .prepare_cached(
                    "UPDATE outbox SET state = ?3, is_told = ?4 WHERE session = ?1 AND call_id = ?2",
                )?
                .execute(params![session, call_id, state, is_told])?;
            Ok(())
        })
    }
}

/// Returns the entry of the same message of the same call, if that prevents a new one.
fn earlier(
    connection: &Connection,
    outgoing: &ChannelMessage<'_>,
    fingerprint: &[u8],
    process: &str,
) -> Result<Option<OutboxEntry>, Failed> {
    let ChannelMessage { session, call_id, .. } = *outgoing;
    let found = connection
        .prepare_cached(
            "SELECT state, at_ms, is_told, process FROM outbox \
             WHERE session = ?1 AND call_id = ?2 AND fingerprint = ?3",
        )?
        .query_row(params![session, call_id, fingerprint], |row| {
            let is_own = row.get::<_, String>(3)? == process;
            Ok((row.get::<_, String>(0)?, read(row.get(1)?), row.get::<_, bool>(2)?, is_own))
        })
        .optional()?;
    let Some((state, at_ms, is_told, is_own)) = found else { return Ok(None) };
    let is_another = !is_own && is_numbered(session, call_id);
    Ok(match state.as_str() {
        state::FAILED => None,
        state::SENT => (!is_another).then_some(OutboxEntry::Sent(at_ms)),
        _ => (!is_another || !is_told).then_some(OutboxEntry::Uncertain(at_ms)),
    })
}

/// Returns whether sinew named a call: the session and a number.
fn is_numbered(session: &str, call_id: &str) -> bool {
    let number = call_id.strip_prefix(session).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
}

/// Marks messages whose process died while it sent them. Returns those of which the session does not know yet.
fn lose(
    connection: &Connection,
    session: &str,
    own: &ProcessIdentity,
    now: i64,
) -> Result<Vec<UncertainMessage>, Failed> {
    let mut statement = connection.prepare_cached(
        "SELECT call_id, channel, chat, at_ms, state, process FROM outbox \
         WHERE session = ?1 AND is_told = 0 AND state IN ('sending', 'uncertain') ORDER BY at_ms",
    )?;
    let rows = statement.query_map([session], |row| {
        let at_ms: i64 = row.get(3)?;
        let message = UncertainMessage {
            call_id: row.get(0)?,
            channel: row.get(1)?,
            chat: row.get(2)?,
            at_ms: read(at_ms),
        };
        Ok((message, at_ms, row.get::<_, String>(4)?, row.get::<_, String>(5)?))
    })?;
    let mut lost = Vec::new();
    for row in rows {
        let (message, at_ms, state, process) = row?;
        let process: Option<ProcessIdentity> = serde_json::from_str(&process).ok();
        let is_at_it =
            || process.is_some_and(|process| process.may_be_at_it(own, now.saturating_sub(at_ms)));
        if state == state::UNCERTAIN || !is_at_it() {
            lost.push(message);
        }
    }
    let mark =
        "UPDATE outbox SET state = 'uncertain', is_told = 1 WHERE session = ?1 AND call_id = ?2";
    for message in &lost {
        connection.prepare_cached(mark)?.execute(params![session, message.call_id])?;
    }
    Ok(lost)
}

/// Hashes the receiver of a message and what it says, each part after its length.
fn fingerprint(outgoing: &ChannelMessage<'_>) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    for part in [outgoing.channel, outgoing.chat, outgoing.content] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().as_bytes().to_vec()
}
