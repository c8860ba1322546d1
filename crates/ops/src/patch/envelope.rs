//! Parses the envelope: `*** Begin Patch`, files by name, `*** End Patch`.
//!
//! It has no line numbers: a hunk is found by its lines, after the lines that its headers name. Text around
//! it, such as a here-document or a fence, is skipped. One without its end is rejected as cut off.

use super::line::{Lines, bare};
use super::refusal::PatchError;
use super::{FilePatch, MAX_PARTS, PatchOp, hunk, section, unified};

/// Returns whether an envelope begins with this line.
pub(super) fn begins(raw: &[u8]) -> bool {
    raw.trim_ascii() == b"*** Begin Patch"
}

/// Returns whether a line belongs to an envelope and states a change.
pub(super) fn asks(raw: &[u8]) -> bool {
    let words = ["*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"];
    begins(raw) || words.iter().any(|word| raw.starts_with(word.as_bytes()))
}

/// Returns whether a diff begins outside an envelope.
fn is_diff(lines: Lines<'_>) -> bool {
    let begins = |raw: &[u8]| raw.starts_with(b"diff --git ") || raw.starts_with(b"@@");
    lines.peek().is_some_and(begins) || section::is_names(lines)
}

/// Parses the envelopes from here on; rejects other changes around them instead of skipping them.
pub(super) fn parse(
    mut lines: Lines<'_>,
    strip: Option<u32>,
) -> Result<Vec<FilePatch<'_>>, PatchError> {
    let begin = lines.number();
    let mut files: Vec<FilePatch<'_>> = Vec::new();
    let mut n_parts = 0;
    while let Some(raw) = lines.peek() {
        if !begins(raw) {
            if asks(raw) || is_diff(lines) {
                return Err(PatchError::Outside { line: lines.number() });
            }
            lines.next();
            continue;
        }
        lines.next();
        let end = end(lines)?;
        let mut inner = lines.only_until(&end);
        lines = end;
        skip_empty(&mut inner);
        let is_diff = inner.peek().is_some_and(|raw| !raw.starts_with(b"*** "));
        if is_diff {
            // Some models put a unified diff inside.
            let line = inner.number();
            let inside = unified::read(inner, strip)?;
            if inside.is_empty() {
                return Err(expected(line));
            }
            files.extend(inside);
            continue;
        }
        while inner.peek().is_some() {
            let file = read(&mut inner)?;
            n_parts += 1 + file.hunks.len();
            if MAX_PARTS < n_parts {
                return Err(PatchError::TooMany { line: file.line });
            }
            files.push(file);
            skip_empty(&mut inner);
        }
    }
    if files.is_empty() {
        return Err(PatchError::Envelope { line: begin, problem: "names no file" });
    }
    Ok(files)
}

/// Returns the place of the line that ends an envelope.
fn end(mut lines: Lines<'_>) -> Result<Lines<'_>, PatchError> {
    let begin = lines.number();
    while let Some(raw) = lines.peek() {
        if raw.trim_ascii_end() == b"*** End Patch" {
            return Ok(lines);
        }
        lines.next();
    }
    let problem = "has no `*** End Patch`, so it may have been cut off";
    Err(PatchError::Envelope { line: begin.saturating_sub(1), problem })
}

fn skip_empty(lines: &mut Lines<'_>) {
    while lines.peek().is_some_and(|raw| bare(raw).is_empty()) {
        lines.next();
    }
}

fn expected(line: u64) -> PatchError {
    let problem =
        "has a line that is none of `*** Add File:`, `*** Delete File:`, `*** Update File:`";
    PatchError::Envelope { line, problem }
}

/// Parses the changes of one file.
fn read<'p>(lines: &mut Lines<'p>) -> Result<FilePatch<'p>, PatchError> {
    let line = lines.number();
    let raw = lines.next().unwrap_or_default();
    let (deed, name) = if let Some(name) = raw.strip_prefix(b"*** Add File:") {
        (PatchOp::Create, name)
    } else if let Some(name) = raw.strip_prefix(b"*** Delete File:") {
        (PatchOp::Drop, name)
    } else if let Some(name) = raw.strip_prefix(b"*** Update File:") {
        (PatchOp::Change, name)
    } else {
        return Err(expected(line));
    };
    let name = path(name, line)?;
    let mut file = FilePatch {
        deed,
        old: (deed != PatchOp::Create).then(|| name.clone()),
        new: (deed != PatchOp::Drop).then_some(name),
        dropped: None,
        old_mode: None,
        new_mode: None,
        hunks: Vec::new(),
        line,
    };
    match deed {
        PatchOp::Create => file.hunks.extend(hunk::read_add(lines)),
        PatchOp::Change => read_update(lines, &mut file)?,
        _ => {}
    }
    Ok(file)
}

fn read_update<'p>(lines: &mut Lines<'p>, file: &mut FilePatch<'p>) -> Result<(), PatchError> {
    if let Some(name) = lines.peek().and_then(|raw| raw.strip_prefix(b"*** Move to:")) {
        file.new = Some(path(name, lines.number())?);
        file.deed = PatchOp::Rename;
        lines.next();
    }
    skip_empty(lines);
    while lines.peek().is_some_and(|raw| !raw.starts_with(b"*** ")) {
        let line = lines.number();
        if !lines.peek().is_some_and(|raw| b"@ +-\t".contains(raw.first().unwrap_or(&0))) {
            let problem = "has a line that begins with none of ` `, `+`, `-`, `@@`";
            return Err(PatchError::Envelope { line, problem });
        }
        file.hunks.push(hunk::read_update(lines)?);
        skip_empty(lines);
    }
    if file.hunks.is_empty() && file.deed == PatchOp::Change {
        return Err(PatchError::NoHunk { line: file.line });
    }
    Ok(())
}

fn path(text: &[u8], line: u64) -> Result<String, PatchError> {
    let refused = |problem| PatchError::Name { line, problem };
    let name = bare(text).trim_ascii().to_vec();
    let name = String::from_utf8(name).map_err(|_| refused("is not UTF-8"))?;
    match name.as_str() {
        "" => Err(refused("is empty")),
        name if name.contains('\0') => Err(refused("holds a NUL")),
        _ => Ok(name),
    }
}
