//! Parses the part of a diff before the hunks of one file: names, modes, renames.
//!
//! A git diff states its operation. A plain diff marks a missing file by `/dev/null` or the Unix epoch.

use super::line::{Lines, bare};
use super::name::{self, HeaderName, Titled};
use super::refusal::PatchError;
use super::{FilePatch, PatchMode, PatchOp};

/// Returns whether two lines that name a file stand here.
pub(super) fn is_names(mut lines: Lines<'_>) -> bool {
    lines.peek().is_some_and(|raw| raw.starts_with(b"--- "))
        && lines.nth(1).is_some_and(|raw| raw.starts_with(b"+++ "))
}

/// Returns whether two lines that name a file stand here, with a hunk after them.
pub(super) fn is_header(mut lines: Lines<'_>) -> bool {
    is_names(lines) && lines.nth(2).is_some_and(|raw| raw.starts_with(b"@@"))
}

/// The header of one file, before it is interpreted.
#[derive(Debug, Default)]
pub(super) struct Section<'p> {
    line: u64,
    is_git: bool,
    /// Whether lines with the names were there, which promise hunks.
    promised: bool,
    old: Option<Titled>,
    new: Option<Titled>,
    /// The names of the line `diff --git`, where they can be told apart.
    pair: Option<(String, String)>,
    renamed: [Option<String>; 2],
    copied: [Option<String>; 2],
    old_mode: Option<PatchMode>,
    new_mode: Option<PatchMode>,
    created: bool,
    deleted: bool,
    pub(super) hunks: Vec<super::Hunk<'p>>,
}

impl<'p> Section<'p> {
    /// Begins a section for hunks that name no file.
    pub(super) fn nameless(line: u64) -> Self {
        Self { line, ..Self::default() }
    }

    /// Reads the two lines of a plain diff that name a file.
    pub(super) fn plain(lines: &mut Lines<'p>) -> Result<Self, PatchError> {
        let mut section = Self::nameless(lines.number());
        section.read_names(lines)?;
        Ok(section)
    }

    /// Reads the header of a git diff.
    pub(super) fn git(lines: &mut Lines<'p>) -> Result<Self, PatchError> {
        let line = lines.number();
        let mut section = Self { is_git: true, ..Self::nameless(line) };
        let first = lines.next().and_then(|raw| raw.strip_prefix(b"diff --git "));
        let refused = |problem| PatchError::Name { line, problem };
        section.pair = name::pair(first.unwrap_or_default()).map_err(refused)?;
        while let Some(raw) = lines.peek() {
            if is_names(*lines) {
                section.read_names(lines)?;
                break;
            }
            if !section.read_word(raw, lines.number())? {
                break;
            }
            lines.next();
        }
        Ok(section)
    }

    fn read_names(&mut self, lines: &mut Lines<'p>) -> Result<(), PatchError> {
        for at in [&mut self.old, &mut self.new] {
            let line = lines.number();
            let text = lines.next().and_then(|raw| raw.get(4..)).unwrap_or_default();
            *at = Some(name::titled(text).map_err(|problem| PatchError::Name { line, problem })?);
        }
        self.promised = true;
        Ok(())
    }

    /// Reads one line of the header of a git diff; returns whether it was one.
    fn read_word(&mut self, raw: &[u8], line: u64) -> Result<bool, PatchError> {
        let after = |word: &str| raw.strip_prefix(word.as_bytes());
        let mode = |text| read_mode(text).ok_or(PatchError::Mode { line });
        let name = |text| name::whole(text).map_err(|problem| PatchError::Name { line, problem });
        if let Some(text) = after("old mode ") {
            self.old_mode = Some(mode(text)?);
        } else if let Some(text) = after("new mode ") {
            self.new_mode = Some(mode(text)?);
        } else if let Some(text) = after("new file mode ") {
            (self.new_mode, self.created) = (Some(mode(text)?), true);
        } else if let Some(text) = after("deleted file mode ") {
            (self.old_mode, self.deleted) = (Some(mode(text)?), true);
        } else if let Some(text) = after("rename from ").or_else(|| after("rename old ")) {
            self.renamed[0] = Some(name(text)?);
        } else if let Some(text) = after("rename to ").or_else(|| after("rename new ")) {
            self.renamed[1] = Some(name(text)?);
        } else if let Some(text) = after("copy from ") {
            self.copied[0] = Some(name(text)?);
        } else if let Some(text) = after("copy to ") {
            self.copied[1] = Some(name(text)?);
        } else if let Some(text) = after("index ") {
            // An unchanged mode follows here.
            if let Some(at) = memchr::memchr(b' ', text) {
                let same = mode(text.get(at + 1..).unwrap_or_default())?;
                self.old_mode.get_or_insert(same);
                self.new_mode.get_or_insert(same);
            }
        } else {
            return Ok(after("similarity index ")
                .or_else(|| after("dissimilarity index "))
                .is_some());
        }
        Ok(true)
    }

    /// Returns the patch of the section's file, or `None` where nothing changes.
    pub(super) fn finish(
        mut self,
        strip: Option<u32>,
    ) -> Result<Option<FilePatch<'p>>, PatchError> {
        if self.promised && self.hunks.is_empty() {
            return Err(PatchError::NoHunk { line: self.line });
        }
        self.check_consistent(strip)?;
        let hunks = std::mem::take(&mut self.hunks);
        let deed = self.deed(&hunks);
        let ([old, new], dropped) = self.names(deed, strip)?;
        let file = FilePatch {
            deed,
            old,
            new,
            dropped,
            old_mode: self.old_mode,
            new_mode: self.new_mode,
            hunks,
            line: self.line,
        };
        let is_idle =
            deed == PatchOp::Change && file.hunks.is_empty() && file.old_mode == file.new_mode;
        Ok((!is_idle).then_some(file))
    }

    /// Rejects a git diff that names one file in one line and another one in the next.
    fn check_consistent(&self, strip: Option<u32>) -> Result<(), PatchError> {
        let refused = |problem| Err(PatchError::Contradiction { line: self.line, problem });
        let moved = [&self.renamed, &self.copied].map(|names| names.iter().any(Option::is_some));
        let deeds = [self.created, self.deleted, moved[0], moved[1]];
        if 1 < deeds.iter().filter(|asked| **asked).count() {
            return refused("asks for two things");
        }
        if !self.is_git || !self.promised {
            return Ok(());
        }
        let path = |title: &Option<Titled>| match title.as_ref().map(|title| &title.name) {
            Some(HeaderName::Path(path)) => Some(path.clone()),
            Some(HeaderName::Null) | None => None,
        };
        let bare = |names: [Option<String>; 2]| {
            let [old, new] = names;
            let n_prefixes = name::n_prefixes(old.as_deref(), new.as_deref(), true);
            let n_parts = strip.unwrap_or(n_prefixes);
            let cut = |name: String| name::stripped(&name, n_parts).unwrap_or_default().to_owned();
            [old.map(cut), new.map(cut)]
        };
        let titled = bare([path(&self.old), path(&self.new)]);
        let named = match &self.pair {
            _ if moved[0] || moved[1] => {
                let n_parts = strip.unwrap_or(1).saturating_sub(1);
                let names = if moved[0] { &self.renamed } else { &self.copied };
                let cut = |name: String| name::stripped(&name, n_parts).map(str::to_owned);
                names.clone().map(|name| name.and_then(cut))
            }
            Some((old, new)) => bare([Some(old.clone()), Some(new.clone())]),
            None => return Ok(()),
        };
        let differs = |(titled, named): (&Option<String>, &Option<String>)| {
            titled.is_some() && titled != named
        };
        let is_half = (moved[0] || moved[1]) && titled.contains(&None);
        if is_half || titled.iter().zip(&named).any(differs) {
            return refused("names different files");
        }
        Ok(())
    }

    fn deed(&self, hunks: &[super::Hunk<'p>]) -> PatchOp {
        let is_null = |title: &Option<Titled>| {
            title.as_ref().is_some_and(|title| title.name == HeaderName::Null)
        };
        let is_epoch = |title: &Option<Titled>| title.as_ref().is_some_and(|title| title.is_epoch);
        let only = match hunks {
            [hunk] => Some(hunk),
            _ => None,
        };
        let makes = is_epoch(&self.old) && only.is_some_and(|hunk| !hunk.has_old());
        let removes = is_epoch(&self.new) && only.is_some_and(|hunk| !hunk.has_new());
        if self.created || is_null(&self.old) || makes {
            PatchOp::Create
        } else if self.deleted || is_null(&self.new) || removes {
            PatchOp::Delete
        } else if self.renamed.iter().any(Option::is_some) {
            PatchOp::Rename
        } else if self.copied.iter().any(Option::is_some) {
            PatchOp::Copy
        } else {
            PatchOp::Change
        }
    }

    /// Returns the names before and after, without the parts that do not belong to them, and the differing
    /// name that a creation or a deletion drops.
    fn names(
        &mut self,
        deed: PatchOp,
        strip: Option<u32>,
    ) -> Result<([Option<String>; 2], Option<String>), PatchError> {
        let line = self.line;
        let moved = match deed {
            PatchOp::Rename => Some(std::mem::take(&mut self.renamed)),
            PatchOp::Copy => Some(std::mem::take(&mut self.copied)),
            _ => None,
        };
        if let Some([old, new]) = moved {
            let both = "is missing: a rename and a copy have two";
            let (Some(old), Some(new)) = (old, new) else {
                return Err(PatchError::Name { line, problem: both });
            };
            // These names never have the prefixes that git puts before the others.
            let n_parts = strip.unwrap_or(1).saturating_sub(1);
            let names = [Some(self.strip(&old, n_parts)?), Some(self.strip(&new, n_parts)?)];
            return Ok((names, None));
        }
        let path = |title: Option<Titled>| match title?.name {
            HeaderName::Path(path) => Some(path),
            HeaderName::Null => None,
        };
        let (old, new) = match self.promised {
            true => (path(self.old.take()), path(self.new.take())),
            false => self.pair.take().unzip(),
        };
        if self.is_git && old.is_none() && new.is_none() {
            return Err(PatchError::Name { line, problem: "cannot be read: add `---` and `+++`" });
        }
        let n_prefixes = name::n_prefixes(old.as_deref(), new.as_deref(), self.is_git);
        let n_parts = strip.unwrap_or(n_prefixes);
        let cut = |name: Option<String>| name.map(|name| self.strip(&name, n_parts)).transpose();
        let (old, new) = (cut(old)?, cut(new)?);
        let differing = |used: Option<&String>, other: Option<String>| {
            other.filter(|other| used.is_some_and(|used| used != other))
        };
        match deed {
            PatchOp::Create => {
                let dropped = differing(new.as_ref(), old.clone());
                Ok(([None, new.or(old)], dropped))
            }
            PatchOp::Delete => {
                let dropped = differing(old.as_ref(), new.clone());
                Ok(([old.or(new), None], dropped))
            }
            _ if self.is_git && old != new => Err(PatchError::Name {
                line,
                problem: "differs from the other one: add `rename from` and `rename to`",
            }),
            _ => Ok(([old, new], None)),
        }
    }

    fn strip(&self, name: &str, n_parts: u32) -> Result<String, PatchError> {
        let problem = "has too few parts to strip";
        let stripped = name::stripped(name, n_parts);
        stripped.map(str::to_owned).ok_or(PatchError::Name { line: self.line, problem })
    }
}

fn read_mode(text: &[u8]) -> Option<PatchMode> {
    let mode = u32::from_str_radix(std::str::from_utf8(bare(text)).ok()?.trim(), 8).ok()?;
    match mode >> 12 {
        0o10 if mode & 0o100 != 0 => Some(PatchMode::Executable),
        0o10 => Some(PatchMode::Plain),
        0o12 => Some(PatchMode::Link),
        _ => None,
    }
}
