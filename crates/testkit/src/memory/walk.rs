//! A walk over a memory world.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sinew_tool::{
    Entry, FileError, FileKind, FileMeta, Flow, Visitor, Visitors, WalkOptions, WalkReport,
};

use super::STATE;
use super::files::open;
use crate::ignore_rules::IgnoreRules;
use crate::tree::{Node, Tree};

/// Visits the entries below a directory.
pub(super) fn run(
    tree: &Tree,
    start: &Path,
    options: &WalkOptions,
    visitors: &dyn Visitors,
    stop: &AtomicBool,
) -> WalkReport {
    let mut walk = Walk {
        tree,
        start,
        options,
        stop,
        visitors: [visitors.visitor(), visitors.visitor()],
        rules: IgnoreRules::default(),
        report: WalkReport { complete: true, ..WalkReport::default() },
    };
    let flow = walk.directory(start, 0);
    walk.report.complete = flow == Flow::Continue;
    walk.report
}

struct Walk<'w> {
    tree: &'w Tree,
    start: &'w Path,
    options: &'w WalkOptions,
    stop: &'w AtomicBool,
    visitors: [Box<dyn Visitor + 'w>; 2],
    rules: IgnoreRules,
    report: WalkReport,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Path, depth: usize) -> Flow {
        let mut entries: Vec<(&Path, &Node)> = self.tree.children(directory).collect();
        // Any order will do, as long as no test can rely on it.
        entries.sort_by_cached_key(|(path, _)| {
            let mut hasher = DefaultHasher::new();
            path.hash(&mut hasher);
            hasher.finish()
        });
        for (path, node) in entries {
            if self.stop.load(Ordering::Relaxed) || self.entry(path, node, depth) == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::Continue
    }

    fn entry(&mut self, path: &Path, node: &Node, depth: usize) -> Flow {
        let beneath = path.strip_prefix(self.start).unwrap_or(path);
        let is_directory = node.kind() == FileKind::Directory;
        let name = path.file_name().unwrap_or_default();
        let state = is_directory && STATE.iter().any(|state| name == *state);
        if state && !self.options.enter_state {
            self.report.skipped.hidden += 1;
            return Flow::Continue;
        }
        let heeds = self.options.heed_ignore;
        if heeds && self.rules.leave_out(self.tree, path, is_directory) {
            self.report.skipped.ignored += 1;
            return Flow::Continue;
        }
        self.visitors.rotate_left(1);
        let [visitor, _] = &mut self.visitors;
        if !is_directory || self.options.directories {
            let seen = Seen { path: beneath, name, node };
            if visitor.visit(&seen) == Flow::Stop {
                return Flow::Stop;
            }
        }
        let deep = self.options.max_depth.is_none_or(|max| depth < max);
        if is_directory && deep && visitor.enter(beneath) {
            return self.directory(path, depth + 1);
        }
        Flow::Continue
    }
}

struct Seen<'s> {
    path: &'s Path,
    name: &'s OsStr,
    node: &'s Node,
}

impl Entry for Seen<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn name(&self) -> &OsStr {
        self.name
    }

    fn kind(&self) -> FileKind {
        self.node.kind()
    }

    fn meta(&self) -> Result<FileMeta, FileError> {
        Ok(self.node.meta())
    }

    fn open(&self) -> Result<File, FileError> {
        open(self.node)
    }
}
