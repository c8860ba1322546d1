//! Forgetting what is too old, too much or too many.
//!
//! Checkpoints are forgotten from the oldest on, then the contents that no checkpoint names are
//! removed. It runs on a thread of its own, rarely, with a connection of its own; of several
//! processes one does it. The newest checkpoint stays, and so does one whose call is under way. Calls
//! that keep contents meanwhile wait for one small batch at most.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::contents::{ContentFile, Contents};
use super::index::{self, Since};
use super::{CheckpointError, CheckpointId, CheckpointSettings};
use crate::database::{self, PATIENT, at_once};

/// After this time a collection is due, whatever was kept.
const MAX_PAUSE_MS: u64 = 60 * 60 * 1_000;
/// After this part of all that may be kept a collection is due, however early.
const PART: u64 = 8;
/// How many checkpoints are forgotten in one transaction.
const N_FORGOTTEN: usize = 100;
/// How many contents are collected while others wait.
const N_COLLECTED: usize = 32;
/// How long a collection goes on in a process that ends: a call that is a process of its own gets
/// something done too.
const GRACE: Duration = Duration::from_millis(200);
/// How often a collection that others did not let end is tried again, and how long it pauses before.
const MAX_PAUSES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// How long a collection waits for those who keep contents.
const WAIT: Duration = Duration::from_millis(200);

/// What a collection removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Checkpoints.
    pub n_checkpoints: u64,
    /// Contents that no checkpoint names any more.
    pub n_contents: u64,
    /// Bytes that they took.
    pub n_bytes: u64,
}

/// Collects what one state directory holds.
#[derive(Debug, Clone)]
pub(super) struct Collector {
    pub(super) database: PathBuf,
    pub(super) contents: Contents,
    pub(super) settings: CheckpointSettings,
    /// Since when the process ends.
    pub(super) ends: Arc<OnceLock<Instant>>,
}

impl Collector {
    /// Returns whether a collection is due.
    pub(super) fn is_due(&self, since: Since) -> bool {
        let pause = index::now_ms().abs_diff(since.collected_at_ms);
        MAX_PAUSE_MS <= pause || self.is_much(since.n_new_bytes)
    }

    /// Returns whether so many new bytes are a reason to collect.
    pub(super) fn is_much(&self, n_new: u64) -> bool {
        (self.settings.max_bytes / PART).max(1) <= n_new
    }

    /// Keeps the log of the database short and collects what is due, unless another process does.
    /// What fails is tried again when it is due the next time.
    pub(super) fn tend(&self) {
        let tend = || -> Result<(), CheckpointError> {
            let connection = self.open()?;
            database::shorten_log(&connection);
            let mut n_pauses = 0;
            // What becomes due meanwhile starts no other thread.
            while let Some(since) = self.claim(&connection)? {
                let collected = self.collect_with(&connection);
                if matches!(collected, Ok((_, true))) {
                    continue;
                }
                // What is left is due for the next one.
                index::give_back(&connection, since)?;
                if self.ends.get().is_some() || n_pauses == MAX_PAUSES {
                    return collected.map(drop);
                }
                n_pauses += 1;
                std::thread::sleep(PAUSE);
            }
            Ok(())
        };
        let _ = tend();
    }

    /// Begins a collection, if one is due and nobody else begins it.
    fn claim(&self, connection: &Connection) -> Result<Option<Since>, CheckpointError> {
        at_once(connection, |transaction| {
            let since = index::count(transaction, 0)?;
            let claims = self.is_due(since) && index::claim(transaction, since)?;
            Ok(claims.then_some(since))
        })
    }

    /// Collects now.
    pub(super) fn collect(&self) -> Result<Collected, CheckpointError> {
        self.collect_with(&self.open()?).map(|(collected, _)| collected)
    }

    fn open(&self) -> Result<Connection, CheckpointError> {
        Ok(database::open(&self.database, &index::TABLES, self.settings.sync, PATIENT)?)
    }

    /// Returns whether there is no time left.
    fn is_over(&self) -> bool {
        self.ends.get().is_some_and(|since| GRACE <= since.elapsed())
    }

    /// Collects, and returns whether all of it is done.
    fn collect_with(&self, connection: &Connection) -> Result<(Collected, bool), CheckpointError> {
        let mut collected = Collected::default();
        let is_done = self.forget(connection, &mut collected)?;
        let is_done = self.sweep(connection, &mut collected)? && is_done;
        Ok((collected, is_done))
    }

    /// Forgets checkpoints that are too old, too much or too many. Returns whether all are gone.
    fn forget(
        &self,
        connection: &Connection,
        collected: &mut Collected,
    ) -> Result<bool, CheckpointError> {
        let Some(newest) = index::newest(connection)? else { return Ok(true) };
        let all = index::up_to(connection, newest)?;
        let max_count = usize::try_from(self.settings.max_count).unwrap_or(usize::MAX);
        let too_many = all.len().saturating_sub(max_count);
        let max_age_ms = i64::try_from(self.settings.max_age.as_millis()).unwrap_or(i64::MAX);
        let oldest_ms = index::now_ms().saturating_sub(max_age_ms);
        let too_much = self.too_much(connection)?;
        let stays: HashSet<CheckpointId> = index::under_way(connection)?.into_iter().collect();
        let goes: Vec<CheckpointId> = all
            .iter()
            .enumerate()
            .filter(|(at, (id, at_ms))| {
                *at < too_many || *at_ms < oldest_ms || too_much.is_some_and(|last| *id <= last)
            })
            .map(|(_, (id, _))| *id)
            .filter(|id| *id < newest && !stays.contains(id))
            .collect();
        let mut left = goes.len();
        for batch in goes.chunks(N_FORGOTTEN) {
            at_once(connection, |transaction| {
                batch.iter().try_for_each(|id| index::remove(transaction, *id))
            })?;
            collected.n_checkpoints += batch.len() as u64;
            left -= batch.len();
            if 0 < left && self.is_over() {
                return Ok(false);
            }
        }
        at_once(connection, index::remove_processes)?;
        Ok(true)
    }

    /// Returns the last of the checkpoints that have to go for the rest to be small enough. A content
    /// counts where it was named last: it stays as long.
    fn too_much(&self, connection: &Connection) -> Result<Option<CheckpointId>, CheckpointError> {
        let found = self.contents.list()?.into_iter();
        let sizes: HashMap<_, u64> =
            found.filter_map(|found| Some((found.content?, found.n_bytes))).collect();
        let mut named = index::named(connection)?;
        named.sort_by_key(|(_, newest)| std::cmp::Reverse(*newest));
        let mut n_bytes = 0_u64;
        Ok(named.into_iter().find_map(|(content, newest)| {
            n_bytes = n_bytes.saturating_add(sizes.get(&content).copied().unwrap_or(0));
            (self.settings.max_bytes < n_bytes).then_some(newest)
        }))
    }

    /// Removes the contents that no checkpoint names, and what deaths left behind. Returns whether
    /// all are gone.
    fn sweep(
        &self,
        connection: &Connection,
        collected: &mut Collected,
    ) -> Result<bool, CheckpointError> {
        let named: HashSet<_> =
            index::named(connection)?.into_iter().map(|(content, _)| content).collect();
        let mut unnamed: Vec<ContentFile> = self.contents.list()?;
        unnamed.retain(|found| match found.content {
            Some(content) => !named.contains(&content),
            None => found.is_left_over(),
        });
        while !unnamed.is_empty() {
            let batch = unnamed.split_off(unnamed.len().saturating_sub(N_COLLECTED));
            // Whoever keeps all the time is not kept waiting; the next collection goes on.
            let Some(alone) = self.contents.alone(WAIT)? else { return Ok(false) };
            let mut gone = Vec::with_capacity(batch.len());
            for mut found in batch {
                // It may have been named since; now nobody can name it.
                let is_named = match found.content {
                    Some(content) => index::is_named(connection, content)?,
                    None => false,
                };
                if !is_named {
                    alone.collect(&mut found)?;
                    gone.push(found);
                }
            }
            alone.remove(&gone);
            collected.n_contents +=
                gone.iter().filter(|found| found.content.is_some()).count() as u64;
            collected.n_bytes += gone.iter().map(|found| found.n_bytes).sum::<u64>();
            if !unnamed.is_empty() && self.is_over() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
