//! Which sub-agents began, so that their limits hold however many processes spawn them.
//!
//! All that a call spawns is checked and recorded in one IMMEDIATE transaction: all of it begins, or nothing. Sub-agents
//! of a process that died do not count as working.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use sinew_fs::process_identity::ProcessIdentity;
use sinew_tool::{SpawnLimit, agents};

use sinew_tool::sync::lock;

use super::{MessageError, MessageStore, register};
use crate::database::{Failed, now_ms, read, stored};

/// The sliding window in which sub-agents are counted, in milliseconds.
const WINDOW_MS: i64 = 60 * 60 * 1_000;

/// The limits of sub-agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildLimits {
    /// How many agents may be above one.
    pub max_depth: u32,
    /// How many one agent may spawn within an hour.
    pub max_children: u64,
    /// How many of one agent may work at once.
    pub max_running: u64,
    /// How many may begin beneath one session within an hour.
    pub max_total: u64,
}

impl Default for ChildLimits {
    fn default() -> Self {
        Self { max_depth: 5, max_children: 20, max_running: 5, max_total: 100 }
    }
}

/// Sub-agents that are to begin.
#[derive(Debug, Clone, Copy)]
pub struct NewChildren<'a> {
    /// The session of the agent that spawns them.
    pub session: &'a str,
    /// That agent, if it has a name.
    pub agent: Option<&'a str>,
    /// The first root.
    pub root: &'a str,
    /// Their templates, and the labels of their tasks.
    pub tasks: &'a [(&'a str, Option<&'a str>)],
}

impl MessageStore {
    /// Records that sub-agents begin, and returns their names. From then on they can get messages.
    pub fn begin_children(
        &self,
        new: &NewChildren<'_>,
        limits: ChildLimits,
    ) -> Result<Result<Vec<String>, SpawnLimit>, MessageError> {
        let own = ProcessIdentity::own();
        let process = serde_json::to_string(&own).unwrap_or_default();
        if limits.max_depth <= agents::depth(new.agent) {
            return Ok(Err(SpawnLimit::TooDeep(limits.max_depth)));
        }
        let unrecorded = lock(&self.unrecorded_ends).clone();
        let begun = self.change(|connection| {
            let now = now_ms();
            self.expire(connection, now)?;
            unrecorded.iter().try_for_each(|name| forget(connection, name))?;
            bury(connection, &own, now)?;
            let parent = agents::address(new.session, new.agent);
            if let Err(error) = check(connection, parent, new, limits, now)? {
                return Ok(Err(error));
            }
            register(connection, parent, new.root, now)?;
            let mut names = Vec::with_capacity(new.tasks.len());
            for (template, label) in new.tasks {
                connection
                    .prepare_cached(
                        "INSERT INTO child (name, parent, session, at_ms, is_running, process) \
                         VALUES ('', ?1, ?2, ?3, 1, ?4)",
                    )?
                    .execute(params![parent, new.session, now, process])?;
                let number = connection.last_insert_rowid();
                let name =
                    agents::name_beneath(new.session, new.agent, template, *label, read(number));
                connection
                    .prepare_cached("UPDATE child SET name = ?1 WHERE number = ?2")?
                    .execute(params![name, number])?;
                register(connection, &name, new.root, now)?;
                names.push(name);
            }
            Ok(Ok(names))
        })?;
        lock(&self.unrecorded_ends).retain(|name| !unrecorded.contains(name));
        Ok(begun)
    }

    /// Records that a sub-agent does not work any more: it gets no further messages. An end that cannot be recorded is recorded
    /// with the next spawn.
    pub fn end_child(&self, name: &str) -> Result<(), MessageError> {
        let ended = self.change(|connection| forget(connection, name));
        if ended.is_err() {
            lock(&self.unrecorded_ends).push(name.to_owned());
        }
        ended
    }
}

/// Removes the inbox of a sub-agent that ended.
fn forget(connection: &Connection, name: &str) -> Result<(), Failed> {
    for statement in [
        "UPDATE child SET is_running = 0 WHERE name = ?1",
        "DELETE FROM message WHERE target = ?1",
        "DELETE FROM agent WHERE id = ?1",
    ] {
        connection.prepare_cached(statement)?.execute([name])?;
    }
    Ok(())
}

/// Checks the limits that others reach too.
fn check(
    connection: &Connection,
    parent: &str,
    new: &NewChildren<'_>,
    limits: ChildLimits,
    now: i64,
) -> Result<Result<(), SpawnLimit>, Failed> {
    let n_new = new.tasks.len() as u64;
    let running = connection
        .prepare_cached("SELECT count(*) FROM child WHERE parent = ?1 AND is_running = 1")?
        .query_row([parent], |row| row.get(0))
        .map(read)?;
    if limits.max_running < running.saturating_add(n_new) {
        return Ok(Err(SpawnLimit::TooManyRunning { max: limits.max_running, running }));
    }
    let by_parent = "SELECT at_ms FROM child WHERE parent = ?1 AND ?2 < at_ms \
                     ORDER BY at_ms DESC LIMIT 1 OFFSET ?3";
    if let Some(retry_after) = wait(connection, by_parent, parent, n_new, limits.max_children, now)?
    {
        return Ok(Err(SpawnLimit::TooMany { max: limits.max_children, retry_after }));
    }
    let by_session = "SELECT at_ms FROM child WHERE session = ?1 AND ?2 < at_ms \
                      ORDER BY at_ms DESC LIMIT 1 OFFSET ?3";
    let waits = wait(connection, by_session, new.session, n_new, limits.max_total, now)?;
    Ok(match waits {
        Some(retry_after) => {
            Err(SpawnLimit::TooManyInSession { max: limits.max_total, retry_after })
        }
        None => Ok(()),
    })
}

/// Returns how long so many new ones wait, if they do: until the one is out of the window that is in their way.
fn wait(
    connection: &Connection,
    in_the_way: &str,
    whose: &str,
    n_new: u64,
    max: u64,
    now: i64,
) -> Result<Option<Option<Duration>>, Failed> {
    let Some(offset) = max.checked_sub(n_new) else { return Ok(Some(None)) };
    let since = now.saturating_sub(WINDOW_MS);
    let at: Option<i64> = connection
        .prepare_cached(in_the_way)?
        .query_row(params![whose, since, stored(offset)], |row| row.get(0))
        .optional()?;
    let left = |at: i64| Duration::from_millis(read(at.saturating_sub(since)));
    Ok(at.map(|at| Some(left(at))))
}

/// Marks those as ended whose process died, and removes what counts no more. Of a clock that was set back nothing counts.
fn bury(connection: &Connection, own: &ProcessIdentity, now: i64) -> Result<(), Failed> {
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT process, max(at_ms) FROM child WHERE is_running = 1 GROUP BY process",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
    for row in rows {
        let (process, at_ms): (String, i64) = row?;
        let identity: Option<ProcessIdentity> = serde_json::from_str(&process).ok();
        let age = now.saturating_sub(at_ms);
        if !identity.is_some_and(|identity| identity.may_be_at_it(own, age)) {
            let mut statement = connection
                .prepare_cached("SELECT name FROM child WHERE is_running = 1 AND process = ?1")?;
            let names = statement.query_map([process], |row| row.get::<_, String>(0))?;
            let names: Vec<String> = names.collect::<Result<_, _>>()?;
            names.iter().try_for_each(|name| forget(connection, name))?;
        }
    }
    connection
        .prepare_cached("DELETE FROM child WHERE is_running = 0 AND (at_ms <= ?1 OR ?2 < at_ms)")?
        .execute([now.saturating_sub(WINDOW_MS), now.saturating_add(WINDOW_MS)])?;
    Ok(())
}
