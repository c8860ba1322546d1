//! Renders the output of a command as a terminal shows it at the end.
//!
//! Escape sequences are removed, and an overwritten line, as of a progress bar, keeps its last state. A run
//! of invalid UTF-8 becomes one replacement character. Output over the limit loses its middle, by lines.

use std::borrow::Cow;

use sinew_tool::Output;

/// An output as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownOutput {
    pub(crate) text: String,
    /// A note about the omitted part.
    pub(crate) left_out: Option<String>,
    pub(crate) is_cut: bool,
}

/// Shows an output in at most so many bytes and lines.
pub(crate) fn show(
    output: &Output,
    raw: bool,
    (max_bytes, max_lines): (usize, usize),
) -> ShownOutput {
    let clean = |bytes: &[u8]| if raw { lossy(bytes) } else { cleaned(bytes) };
    let whole = output.n_left_out() == 0;
    if whole {
        let text = clean(&[output.head.as_slice(), &output.tail].concat());
        if text.len() <= max_bytes && text.lines().count() <= max_lines {
            return ShownOutput { text, left_out: None, is_cut: false };
        }
        let head = beginning(&text, max_bytes / 2, max_lines / 2).to_owned();
        let rest = text.get(head.len()..).unwrap_or_default();
        let tail = end(rest, max_bytes / 2, max_lines - max_lines / 2).to_owned();
        return joined(&head, &tail, output.total);
    }
    // A character that the middle took a part of is left out with it.
    let head = clean(&output.head);
    let tail = clean(&output.tail);
    joined(
        beginning(&head, max_bytes / 2, max_lines / 2),
        end(&tail, max_bytes / 2, max_lines - max_lines / 2),
        output.total,
    )
}

/// Returns the kept beginning of an output, as on a screen.
pub(crate) fn shown(output: &Output) -> String {
    cleaned(&beginning_of(output))
}

/// Returns the kept beginning of an output, as it was written.
pub(crate) fn written(output: &Output) -> String {
    lossy(&beginning_of(output))
}

fn beginning_of(output: &Output) -> Cow<'_, [u8]> {
    match output.n_left_out() == 0 && !output.tail.is_empty() {
        true => Cow::Owned([output.head.as_slice(), &output.tail].concat()),
        false => Cow::Borrowed(&output.head),
    }
}

/// Returns the first bytes of a text, up to the end of a character.
pub(crate) fn first_bytes(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or(text)
}

fn joined(head: &str, tail: &str, total: u64) -> ShownOutput {
    let mut text = head.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str("[…]\n");
    text.push_str(tail);
    let n_shown = head.len() + tail.len();
    let left_out = format!("{n_shown} of {total} bytes shown, the beginning and the end");
    ShownOutput { text, left_out: Some(left_out), is_cut: true }
}

/// Returns the first bytes and lines, up to the end of a line where there is one.
fn beginning(text: &str, max_bytes: usize, max_lines: usize) -> &str {
    let by_lines = text.split_inclusive('\n').take(max_lines).map(str::len).sum::<usize>();
    let most = text.floor_char_boundary(by_lines.min(max_bytes));
    let cut = text.get(..most).unwrap_or_default();
    match cut.rfind('\n') {
        Some(at) if most < text.len() => cut.get(..=at).unwrap_or_default(),
        _ => cut,
    }
}

/// Returns the last bytes and lines, from the start of a line where there is one.
fn end(text: &str, max_bytes: usize, max_lines: usize) -> &str {
    let by_lines = text.split_inclusive('\n').rev().take(max_lines).map(str::len).sum::<usize>();
    let from = text.ceil_char_boundary(text.len() - by_lines.min(max_bytes));
    let cut = text.get(from..).unwrap_or_default();
    let at_start = from == 0 || text.as_bytes().get(from - 1) == Some(&b'\n');
    match cut.find('\n') {
        Some(at) if !at_start => cut.get(at + 1..).unwrap_or_default(),
        _ => cut,
    }
}

fn lossy(bytes: &[u8]) -> String {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    }
}

/// Returns bytes as the final text on a screen.
pub fn cleaned(bytes: &[u8]) -> String {
    let stripped = strip_ansi_escapes::strip(guarded(bytes));
    let text = GUARDED.iter().fold(lossy(&stripped), |text, (byte, stand_in)| {
        text.replace(stand_in, &char::from(*byte).to_string())
    });
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, ending) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        // A return at the end of a line belongs to its ending.
        let line = line.trim_end_matches('\r');
        out.push_str(line.rsplit('\r').next().unwrap_or_default());
        out.push_str(ending);
    }
    out.retain(|c| c == '\n' || c == '\t' || !c.is_control());
    out
}

/// Stand-ins for bytes that would be removed with the escape sequences.
const GUARDED: [(u8, &str); 2] = [(b'\r', "\u{f8fe}"), (b'\t', "\u{f8ff}")];

fn guarded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match GUARDED.iter().find(|(guarded, _)| guarded == byte) {
            Some((_, stand_in)) => out.extend_from_slice(stand_in.as_bytes()),
            None => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> Output {
        Output { head: bytes.to_vec(), tail: Vec::new(), total: bytes.len() as u64 }
    }

    #[test]
    fn what_stands_there_at_the_end_is_shown() {
        for (bytes, expected) in [
            (&b"plain\n"[..], "plain\n"),
            (b"\x1b[31mred\x1b[0m\n", "red\n"),
            (b"10%\r50%\r100%\n", "100%\n"),
            (b"10%\r50%\r100%", "100%"),
            (b"dos\r\nlines\r\n", "dos\nlines\n"),
            (b"10%\r\x1b[K20%\r\x1b[K", "20%"),
            (b"\x1b]0;title\x07text\n", "text\n"),
            (b"bell\x07 back\x08\n", "bell back\n"),
            (b"tab\tstays\n", "tab\tstays\n"),
            (b"a\xff\xc3\n", "a\u{fffd}\u{fffd}\n"),
            ("é 漢\n".as_bytes(), "é 漢\n"),
            (b"a\0b\n", "ab\n"),
        ] {
            assert_eq!(show(&whole(bytes), false, (100, 10)).text, expected, "{bytes:?}");
        }
        let raw = b"\x1b[31m1%\r2%\x1b[0m\n";
        assert_eq!(show(&whole(raw), true, (100, 10)).text.as_bytes(), raw);
    }

    #[test]
    fn the_middle_is_left_out_at_the_ends_of_lines() {
        let lines: String = (1..=9).map(|n| format!("line {n}\n")).collect();
        let by_lines = show(&whole(lines.as_bytes()), false, (1_000, 4));
        assert_eq!(by_lines.text, "line 1\nline 2\n[…]\nline 8\nline 9\n");
        assert_eq!(
            by_lines.left_out.as_deref(),
            Some("28 of 63 bytes shown, the beginning and the end")
        );
        let by_bytes = show(&whole(lines.as_bytes()), false, (20, 100));
        assert_eq!(by_bytes.text, "line 1\n[…]\nline 9\n");
        let long = "é".repeat(100);
        let one_line = show(&whole(long.as_bytes()), false, (21, 100));
        assert_eq!(one_line.text, "ééééé\n[…]\nééééé");
        let parts =
            Output { head: b"one\ntwo\xc3".to_vec(), tail: b"\xa9x\nend\n".to_vec(), total: 99 };
        let shown = show(&parts, false, (1_000, 100));
        assert!(shown.is_cut && shown.text.starts_with("one\n") && shown.text.ends_with("end\n"));
    }
}
