//! Garbage collection: removes checkpoints beyond the limits of age, size and number.
//!
//! The oldest checkpoints go first, then the contents that no checkpoint names. A separate thread with its
//! own connection runs rarely, in one process at a time. The newest checkpoint and those of running calls
//! stay, and those of running processes for a day, beyond size and number too. Calls that keep contents wait for one small batch at most.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::commands::adopted_contents;
use super::contents::{ContentFile, Contents};
use super::index::{self, Since};
use super::{CheckpointError, CheckpointId, CheckpointSettings};
use crate::database::{self, PATIENT, at_once};

/// A collection is due after this time.
const MAX_PAUSE_MS: u64 = 60 * 60 * 1_000;
/// A collection is due earlier after this part of the byte limit.
const PART: u64 = 8;
/// Checkpoints per transaction.
const N_FORGOTTEN: usize = 100;
/// Contents removed under one exclusive lock.
const N_COLLECTED: usize = 32;
/// How long a collection goes on after its process begins to end: short processes must finish some work.
const GRACE: Duration = Duration::from_millis(200);
/// Retries of a collection that other processes blocked, and the pause before each.
const MAX_PAUSES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// How many times the limits what running processes hold may take.
const HELD: usize = 2;
/// How long a collection waits for calls that keep contents.
const WAIT: Duration = Duration::from_millis(200);

/// The result of a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Removed checkpoints.
    pub n_checkpoints: u64,
    /// Removed contents, which no checkpoint named.
    pub n_contents: u64,
    /// The bytes of these contents.
    pub n_bytes: u64,
}

/// The garbage collector of one state directory.
#[derive(Debug, Clone)]
pub(super) struct Collector {
    pub(super) database: PathBuf,
    pub(super) contents: Contents,
    pub(super) settings: CheckpointSettings,
    /// Set when this process ends.
    pub(super) ends: Arc<OnceLock<Instant>>,
}

impl Collector {
    pub(super) fn is_due(&self, since: Since) -> bool {
        let pause = index::now_ms().abs_diff(since.collected_at_ms);
        MAX_PAUSE_MS <= pause || self.is_much(since.n_new_bytes)
    }

    /// Returns whether so many new bytes make a collection due.
    pub(super) fn is_much(&self, n_new: u64) -> bool {
        (self.settings.max_bytes / PART).max(1) <= n_new
    }

    /// Shortens the write-ahead log and collects if due and unclaimed. Errors wait for the next due time.
    pub(super) fn tend(&self) {
        let tend = || -> Result<(), CheckpointError> {
            let connection = self.open()?;
            database::shorten_log(&connection);
            let mut n_pauses = 0;
            // A collection that becomes due meanwhile starts no other thread.
            while let Some(since) = self.claim(&connection)? {
                let collected = self.collect_with(&connection);
                if matches!(collected, Ok((_, true))) {
                    continue;
                }
                // The rest is due for the next collection.
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

    /// Claims a collection if one is due and unclaimed.
    fn claim(&self, connection: &Connection) -> Result<Option<Since>, CheckpointError> {
        at_once(connection, |transaction| {
            let since = index::count(transaction, 0)?;
            let claims = self.is_due(since) && index::claim(transaction, since)?;
            Ok(claims.then_some(since))
        })
    }

    pub(super) fn collect(&self) -> Result<Collected, CheckpointError> {
        self.collect_with(&self.open()?).map(|(collected, _)| collected)
    }

    fn open(&self) -> Result<Connection, CheckpointError> {
        Ok(database::open(&self.database, &index::TABLES, self.settings.sync, PATIENT)?)
    }

    /// Returns whether the grace period of an ending process is over.
    fn is_over(&self) -> bool {
        self.ends.get().is_some_and(|since| GRACE <= since.elapsed())
    }

    /// Collects; returns whether nothing is left to do.
    fn collect_with(&self, connection: &Connection) -> Result<(Collected, bool), CheckpointError> {
        let mut collected = Collected::default();
        let is_done = self.forget(connection, &mut collected)?;
        let is_done = self.sweep(connection, &mut collected)? && is_done;
        Ok((collected, is_done))
    }

    /// Removes checkpoints beyond the limits; returns whether all are gone.
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
        let (too_much, far_too_much) = self.too_much(connection)?;
        let far_too_many = all.len().saturating_sub(max_count.saturating_mul(HELD));
        let stays: HashSet<CheckpointId> = index::under_way(connection)?.into_iter().collect();
        let holds_ms = i64::try_from(self.settings.holds_for.as_millis()).unwrap_or(i64::MAX);
        let held = index::of_living(connection, index::now_ms().saturating_sub(holds_ms))?;
        let held: HashSet<CheckpointId> = held.into_iter().collect();
        let goes: Vec<CheckpointId> = all
            .iter()
            .enumerate()
            .filter(|(at, (id, at_ms))| {
                let is_beyond = |too_many: usize, too_much: Option<CheckpointId>| {
                    *at < too_many || too_much.is_some_and(|last| *id <= last)
                };
                *at_ms < oldest_ms
                    || is_beyond(far_too_many, far_too_much)
                    || (is_beyond(too_many, too_much) && !held.contains(id))
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

    /// Returns the last checkpoint to remove for the byte limit, and for that of held ones. Contents count for their newest
    /// checkpoint.
    fn too_much(
        &self,
        connection: &Connection,
    ) -> Result<(Option<CheckpointId>, Option<CheckpointId>), CheckpointError> {
        let found = self.contents.list()?.into_iter();
        let sizes: HashMap<_, u64> =
            found.filter_map(|found| Some((found.content?, found.n_bytes))).collect();
        let mut named = index::named(connection)?;
        named.sort_by_key(|(_, newest)| std::cmp::Reverse(*newest));
        let max_bytes = self.settings.max_bytes;
        let beyond = |max_bytes: u64| {
            let mut n_bytes = 0_u64;
            named.iter().find_map(|(content, newest)| {
                n_bytes = n_bytes.saturating_add(sizes.get(content).copied().unwrap_or(0));
                (max_bytes < n_bytes).then_some(*newest)
            })
        };
        Ok((beyond(max_bytes), beyond(max_bytes.saturating_mul(HELD as u64))))
    }

    /// Removes contents that no checkpoint names, and files of dead processes; returns whether all are gone.
    fn sweep(
        &self,
        connection: &Connection,
        collected: &mut Collected,
    ) -> Result<bool, CheckpointError> {
        let mut named: HashSet<_> =
            index::named(connection)?.into_iter().map(|(content, _)| content).collect();
        named.extend(index::kept_indexes(connection)?);
        let mut unnamed: Vec<ContentFile> = self.contents.list()?;
        unnamed.retain(|found| match found.content {
            Some(content) => !named.contains(&content),
            None => found.is_left_over(),
        });
        while !unnamed.is_empty() {
            let batch = unnamed.split_off(unnamed.len().saturating_sub(N_COLLECTED));
            // Does not block calls that keep contents; the next collection continues.
            let Some(alone) = self.contents.alone(WAIT)? else { return Ok(false) };
            let adopted = adopted_contents(self.database.parent().unwrap_or(&self.database));
            let mut gone = Vec::with_capacity(batch.len());
            for mut found in batch {
                // Checked again: only under this lock can no call name it.
                let is_named = match found.content {
                    Some(content) => {
                        adopted.contains(&content) || index::is_named(connection, content)?
                    }
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
