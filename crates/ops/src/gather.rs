//! Gathers the best entries of a walk from all of its threads.

use std::path::Path;
use std::sync::Mutex;

use sinew_tool::sync::{into_inner, lock};
use sinew_tool::{
    Context, Entry, FileTarget, Flow, Skipped, ToolError, Visitor, Visitors, WalkOptions,
};

use crate::best::Best;
use crate::watch::Watch;

/// Decides which entries of a walk a search keeps.
pub(crate) trait Gatherer: Sync {
    /// The kept part of an entry; the least items are the best.
    type Item: Ord + Send;

    /// Visits an entry, on one of several threads.
    fn visit(&self, entry: &dyn Entry, found: &mut ThreadFound<Self::Item>);

    /// Returns whether the walk enters a directory.
    fn enter(&self, _path: &Path) -> bool {
        true
    }
}

/// The results of one thread.
pub(crate) struct ThreadFound<T> {
    pub(crate) best: Best<T>,
    /// How many entries count, kept or not.
    pub(crate) total: u64,
    pub(crate) unreadable: u64,
}

/// The results of all threads.
pub(crate) struct Gathered<T> {
    /// The best, in order.
    pub(crate) items: Vec<T>,
    pub(crate) total: u64,
    pub(crate) skipped: Skipped,
    pub(crate) timed_out: bool,
}

/// Walks beneath a target, and returns the best `limit` items.
pub(crate) fn gather<G: Gatherer>(
    cx: &Context,
    target: &FileTarget,
    options: &WalkOptions,
    limit: usize,
    search: &G,
) -> Result<Gathered<G::Item>, ToolError> {
    let watch = Watch::new(cx);
    let threads = Threads { search, limit, watch: &watch, found: Mutex::new(None) };
    let report = cx
        .world
        .files
        .walk(target.slot, options, &threads, cx.cancel.flag())
        .map_err(|error| cx.about(target, error))?;
    watch.not_cancelled()?;
    let found = into_inner(threads.found).unwrap_or_else(|| ThreadFound::new(limit));
    let mut skipped = report.skipped;
    skipped.unreadable += found.unreadable;
    let timed_out = watch.out_of_time();
    Ok(Gathered { items: found.best.into_sorted(), total: found.total, skipped, timed_out })
}

impl<T: Ord> ThreadFound<T> {
    fn new(limit: usize) -> Self {
        Self { best: Best::new(limit), total: 0, unreadable: 0 }
    }
}

struct Threads<'a, G: Gatherer> {
    search: &'a G,
    limit: usize,
    watch: &'a Watch<'a>,
    found: Mutex<Option<ThreadFound<G::Item>>>,
}

struct Thread<'a, G: Gatherer> {
    all: &'a Threads<'a, G>,
    found: Option<ThreadFound<G::Item>>,
    n_seen: u32,
}

impl<G: Gatherer> Visitors for Threads<'_, G> {
    fn visitor(&self) -> Box<dyn Visitor + '_> {
        Box::new(Thread { all: self, found: Some(ThreadFound::new(self.limit)), n_seen: 0 })
    }
}

impl<G: Gatherer> Visitor for Thread<'_, G> {
    fn visit(&mut self, entry: &dyn Entry) -> Flow {
        match &mut self.found {
            Some(found) if !self.all.watch.over_sometimes(&mut self.n_seen) => {
                self.all.search.visit(entry, found);
                Flow::Continue
            }
            _ => Flow::Stop,
        }
    }

    fn enter(&mut self, path: &Path) -> bool {
        self.all.search.enter(path)
    }
}

impl<G: Gatherer> Drop for Thread<'_, G> {
    fn drop(&mut self) {
        let Some(found) = self.found.take() else { return };
        let mut all = lock(&self.all.found);
        match &mut *all {
            None => *all = Some(found),
            Some(all) => {
                all.best.merge(found.best);
                all.total += found.total;
                all.unreadable += found.unreadable;
            }
        }
    }
}
