//! Parses unified and git diffs: the files they name, and the hunks of each.
//!
//! Text around the diffs, as in mails and logs, is skipped; changes that cannot be applied are rejected.

use super::line::{Lines, bare};
use super::refusal::PatchError;
use super::section::{self, Section};
use super::{FilePatch, MAX_PARTS, envelope, hunk};

/// Reads all files of a diff.
pub(super) fn parse(patch: &[u8], strip: Option<u32>) -> Result<Vec<FilePatch<'_>>, PatchError> {
    let files = read(Lines::new(patch), strip)?;
    if files.is_empty() { Err(foreign(Lines::new(patch))) } else { Ok(files) }
}

/// Reads all files of a diff, none where there is none.
pub(super) fn read(
    mut lines: Lines<'_>,
    strip: Option<u32>,
) -> Result<Vec<FilePatch<'_>>, PatchError> {
    let mut files = Vec::new();
    let mut open: Option<Section<'_>> = None;
    let mut n_parts = 0;
    while let Some(raw) = lines.peek() {
        let line = lines.number();
        let next = if raw.starts_with(b"diff --git ") {
            Some(Section::git(&mut lines)?)
        } else if section::is_names(lines) {
            Some(Section::plain(&mut lines)?)
        } else if raw.starts_with(b"@@") && !raw.starts_with(b"@@@") {
            let file = open.get_or_insert_with(|| Section::nameless(line));
            file.hunks.push(hunk::read(&mut lines)?);
            n_parts += 1;
            None
        } else {
            refuse(raw, line)?;
            lines.next();
            continue;
        };
        if let Some(mut next) = next {
            if lines.peek().is_some_and(is_bare_hunk) && !hunk::is_signature(lines) {
                next.hunks.push(hunk::read_bare(&mut lines)?);
            }
            if let Some(file) = open.replace(next) {
                files.extend(file.finish(strip)?);
            }
            n_parts += 1;
        }
        if MAX_PARTS < n_parts {
            return Err(PatchError::TooMany { line });
        }
    }
    if let Some(file) = open {
        files.extend(file.finish(strip)?);
    }
    Ok(files)
}

/// Returns whether a line right after the names is of a hunk that lacks its header.
fn is_bare_hunk(raw: &[u8]) -> bool {
    matches!(raw.first(), Some(b' ' | b'+' | b'-'))
}

/// Rejects changes of files in an unknown way or in another format.
fn refuse(raw: &[u8], line: u64) -> Result<(), PatchError> {
    let begins = |word: &str| raw.starts_with(word.as_bytes());
    if begins("GIT binary patch") || (begins("Binary files ") && bare(raw).ends_with(b" differ")) {
        return Err(PatchError::Binary { line });
    }
    if begins("@@@") || begins("diff --cc ") || begins("diff --combined ") {
        return Err(PatchError::Combined { line });
    }
    if envelope::asks(raw) {
        return Err(PatchError::Outside { line });
    }
    if begins("***************") {
        return Err(PatchError::Format { line, found: "context diff" });
    }
    Ok(())
}

/// Returns the error for a text without a unified diff, by its format.
fn foreign(mut lines: Lines<'_>) -> PatchError {
    let mut script = None;
    while let Some(raw) = lines.peek() {
        let line = lines.number();
        lines.next();
        if let Some(line) = script.filter(|_| bare(raw) == b".") {
            return PatchError::Format { line, found: "ed script" };
        }
        let Some(command) = command(bare(raw)) else { continue };
        let next = lines.peek().unwrap_or_default();
        if next.starts_with(b"< ") || next.starts_with(b"> ") {
            return PatchError::Format { line, found: "normal diff" };
        }
        if command == b'd' {
            return PatchError::Format { line, found: "ed script" };
        }
        script.get_or_insert(line);
    }
    PatchError::Empty
}

/// Returns the letter of a line such as `3,5c3,9`.
fn command(text: &[u8]) -> Option<u8> {
    let is_range = |byte: &u8| byte.is_ascii_digit() || *byte == b',';
    let n_first = text.iter().take_while(|byte| is_range(byte)).count();
    let (letter, rest) = text.get(n_first..)?.split_first()?;
    let fits = 0 < n_first && b"acd".contains(letter) && rest.iter().all(is_range);
    fits.then_some(*letter)
}
