//! Which entries ignore files leave out, by the rules of ripgrep, on a [`Tree`].
//!
//! `.rgignore` beats `.ignore`, which beats `.gitignore`, which beats `.git/info/exclude`; within
//! one kind the deeper file beats the shallower. The last two count only inside a repository, and a
//! nested repository cuts off those around it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::tree::{Tree, What};

/// Compiled ignore files of one walk.
#[derive(Default)]
pub(crate) struct IgnoreRules(HashMap<PathBuf, Option<Gitignore>>);

impl IgnoreRules {
    /// Returns whether an entry is left out.
    pub(crate) fn leave_out(&mut self, tree: &Tree, path: &Path, directory: bool) -> bool {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        let is_repository =
            |dir: &Path| [".git", ".jj"].iter().any(|name| tree.get(&dir.join(name)).is_some());
        let n_inside = above.iter().position(|dir| is_repository(dir)).map_or(0, |at| at + 1);
        let kinds = [
            (".rgignore", above.len()),
            (".ignore", above.len()),
            (".gitignore", n_inside),
            (".git/info/exclude", n_inside),
        ];
        for (name, n) in kinds {
            for dir in above.iter().take(n) {
                let Ok(beneath) = path.strip_prefix(dir) else { continue };
                match self
                    .file(tree, &dir.join(name))
                    .map(|rules| rules.matched(beneath, directory))
                {
                    Some(Match::Ignore(_)) => return true,
                    Some(Match::Whitelist(_)) => return false,
                    Some(Match::None) | None => {}
                }
            }
        }
        false
    }

    fn file(&mut self, tree: &Tree, path: &Path) -> Option<&Gitignore> {
        if !self.0.contains_key(path) {
            let rules = match tree.get(path).map(|node| &node.what) {
                Some(What::File(text)) => Some(compile(text)),
                _ => None,
            };
            self.0.insert(path.to_owned(), rules);
        }
        self.0.get(path)?.as_ref()
    }
}

fn compile(text: &[u8]) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    for line in text.split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else { break };
        let _ = builder.add_line(None, line.strip_suffix('\r').unwrap_or(line));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
