//! Parses the envelope: `*** Begin Patch`, files by name, `*** End Patch`.
//!
//! It has no line numbers: a hunk is found by its lines, after the lines that its headers name. Text around
//! it, such as a here-document or a fence, is skipped. One without its end is rejected as cut off.
//!
//! Blanks around a marker are ignored. Within a hunk, a marker after a blank may also be an unchanged line.
//! There it is a marker where an earlier one of the envelope had blanks before it, where no hunk could go on
//! behind it, or, for `*** Update File:`, where a hunk or a new name follows.

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

/// The headers of the files.
const HEADERS: [&[u8]; 3] = [b"*** Add File:", b"*** Delete File:", b"*** Update File:"];

/// The end of an envelope.
const END: &[u8] = b"*** End Patch";

/// Returns whether blanks stand before the text of a line.
fn is_padded(raw: &[u8]) -> bool {
    raw.first().is_some_and(u8::is_ascii_whitespace)
}

/// Returns whether the header of a file is here. `padded` is whether earlier markers had blanks before them.
fn is_header(mut lines: Lines<'_>, padded: bool) -> bool {
    let Some(raw) = lines.next() else { return false };
    let text = raw.trim_ascii_start();
    let next = lines.peek().unwrap_or_default();
    let is_move = next.trim_ascii_start().starts_with(b"*** Move to:");
    let goes_on = is_move || next.starts_with(b"@@");
    let is_known = padded || !is_padded(raw) || (text.starts_with(b"*** Update File:") && goes_on);
    is_known && HEADERS.iter().any(|word| text.starts_with(word))
}

/// Returns whether a line that could belong to a hunk is a marker with blanks before it.
pub(super) fn is_padded_marker(lines: Lines<'_>, padded: bool) -> bool {
    let mut after = lines;
    let Some(raw) = after.next().filter(|raw| is_padded(raw)) else { return false };
    let ends = after.peek().is_none_or(|next| next.starts_with(b"@@") || next.starts_with(b"*** "));
    is_header(lines, padded)
        || (padded && raw.trim_ascii_start().starts_with(b"@@"))
        || ((padded || ends) && hunk::is_end_of_file(raw))
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
        let mut padded = is_padded(raw);
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
        skip_blank(&mut inner);
        let is_diff = inner.peek().is_some_and(|raw| !raw.trim_ascii_start().starts_with(b"*** "));
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
            let file = read(&mut inner, &mut padded)?;
            n_parts += 1 + file.hunks.len();
            if MAX_PARTS < n_parts {
                return Err(PatchError::TooMany { line: file.line });
            }
            files.push(file);
            skip_blank(&mut inner);
        }
    }
    if files.is_empty() {
        return Err(PatchError::Envelope { line: begin, problem: "names no file" });
    }
    Ok(files)
}

/// Returns the place of the line that ends an envelope: the last one with blanks before it where no other
/// one does, since such a line may belong to a hunk.
fn end(mut lines: Lines<'_>) -> Result<Lines<'_>, PatchError> {
    let begin = lines.number();
    let mut padded = None;
    while let Some(raw) = lines.peek() {
        if raw.trim_ascii_end() == END {
            return Ok(lines);
        }
        if raw.trim_ascii() == END {
            padded = Some(lines);
        }
        if padded.is_some() && begins(raw) && !is_padded(raw) {
            break;
        }
        lines.next();
    }
    let problem = "has no `*** End Patch`, so it may have been cut off";
    padded.ok_or(PatchError::Envelope { line: begin.saturating_sub(1), problem })
}

/// Skips lines of nothing but blanks, where no hunk is open.
fn skip_blank(lines: &mut Lines<'_>) {
    while lines.peek().is_some_and(|raw| raw.trim_ascii().is_empty()) {
        lines.next();
    }
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

/// Parses the changes of one file, and notes whether its markers have blanks before them.
fn read<'p>(lines: &mut Lines<'p>, padded: &mut bool) -> Result<FilePatch<'p>, PatchError> {
    let line = lines.number();
    let raw = lines.next().unwrap_or_default();
    *padded |= is_padded(raw);
    let raw = raw.trim_ascii_start();
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
        PatchOp::Change => read_update(lines, &mut file, padded)?,
        _ => {}
    }
    Ok(file)
}

fn read_update<'p>(
    lines: &mut Lines<'p>,
    file: &mut FilePatch<'p>,
    padded: &mut bool,
) -> Result<(), PatchError> {
    if let Some(raw) = lines.peek()
        && let Some(name) = raw.trim_ascii_start().strip_prefix(b"*** Move to:")
    {
        file.new = Some(path(name, lines.number())?);
        file.deed = PatchOp::Rename;
        *padded |= is_padded(raw);
        lines.next();
    }
    skip_empty(lines);
    let is_hunk = |raw: &[u8]| is_padded(raw) && raw.trim_ascii_start().starts_with(b"@@");
    *padded |= lines.peek().is_some_and(is_hunk);
    while lines.peek().is_some_and(|raw| !raw.starts_with(b"*** ")) && !is_header(*lines, *padded) {
        let line = lines.number();
        if !lines.peek().is_some_and(|raw| b"@ +-\t".contains(raw.first().unwrap_or(&0))) {
            let problem = "has a line that begins with none of ` `, `+`, `-`, `@@`";
            return Err(PatchError::Envelope { line, problem });
        }
        file.hunks.push(hunk::read_update(lines, *padded)?);
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
