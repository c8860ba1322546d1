//! bound: truncates a reply to the limits of its row and stores the full text.
//!
//! Content and structured result are measured separately: clients show a model one or the other.

use std::io;
use std::path::Path;

use serde_json::Value;
use sinew_guard::Store;
use sinew_tool::{Block, Bound, Conventions, CutText, Reply, Request, Tool};

/// What beside the limits of the row decides how a reply is cut.
pub(super) struct Limits<'a> {
    pub(super) conventions: &'a Conventions,
    /// Where the full text is kept, if at all.
    pub(super) store: Option<&'a Store>,
    /// The first path of the call, as its arguments name it.
    pub(super) path: Option<&'a str>,
}

/// Truncates a long reply at a line end and says where the full text is, then gives it the dialect's envelope.
pub(super) fn bound(
    request: &Request,
    tool: Option<&dyn Tool>,
    limits: &Limits<'_>,
    mut reply: Reply,
) -> Reply {
    if limits.conventions.notes_apart {
        reply.part_notes();
    }
    let mut reply = truncated(request, tool, limits, reply);
    if let (None, Some(envelope)) = (&reply.structured, limits.conventions.envelope) {
        reply.structured = Some(envelope(&reply, limits.path));
    }
    reply
}

fn truncated(
    request: &Request,
    tool: Option<&dyn Tool>,
    limits: &Limits<'_>,
    mut reply: Reply,
) -> Reply {
    let row = tool.map_or(Bound::DEFAULT, Tool::bound);
    let limit = if reply.bounded { Bound::HARD } else { row };
    if let Some(structured) = &mut reply.structured
        && limit.max_bytes < size(structured)
    {
        let is_all = limits.conventions.notes_apart && is_text_of(structured, &reply.content);
        shorten(structured, limit.max_bytes);
        reply.meta.truncated = true;
        if is_all {
            // A cut through the text would leave no JSON.
            let text = structured.to_string();
            let whole = std::mem::replace(&mut reply.content, vec![Block::Text { text }]);
            let stored = kept(request, limits, &whole);
            reply.meta.note(match &stored {
                Ok(path) => format!("[the result was shortened; all of it is in {path}]"),
                Err(_) => String::from("[the result was shortened]"),
            });
            name_output(&mut reply, stored.ok());
            return reply;
        }
    }
    if fits(&reply.content, limit) {
        return reply;
    }
    let outputs = limits.conventions.outputs.as_ref();
    let n_title = outputs.map_or(0, |outputs| outputs.title_lines);
    let Some(cut) = cut_blocks(&reply.content, limit, n_title) else { return reply };
    let stored = kept(request, limits, &reply.content);
    reply.content = cut.content;
    reply.meta.truncated = true;
    match outputs {
        Some(outputs) => {
            let n_left_out = cut.all_lines.saturating_sub(cut.kept_lines);
            let stored = stored.as_deref().map_err(String::as_str);
            end_with(&mut reply.content, (outputs.words)(&CutText { n_left_out, stored }));
        }
        None => {
            let note = note(&stored, cut.kept_lines, cut.all_lines);
            match limits.conventions.notes_apart {
                true => reply.meta.note(note),
                false => end_with(&mut reply.content, note),
            }
        }
    }
    name_output(&mut reply, stored.ok());
    reply
}

/// Returns whether a structured result is the only text of a content.
fn is_text_of(structured: &Value, content: &[Block]) -> bool {
    let whole = structured.to_string();
    matches!(content, [Block::Text { text }] if *text == whole)
}

/// Stores the full text of a reply; returns its path relative to the first root, or why it is not kept.
fn kept(request: &Request, limits: &Limits<'_>, content: &[Block]) -> Result<String, String> {
    let store = limits.store.ok_or_else(|| {
        let directory = limits.conventions.outputs.map_or(".sinew", |outputs| outputs.directory);
        format!("{directory}/tool-output/ may not be written here")
    })?;
    store.put(&request.call_id, whole_text(content)).map_err(|error| error.message.into_owned())
}

/// Returns the note of sinew on a cut.
fn note(stored: &Result<String, String>, kept_lines: usize, all_lines: usize) -> String {
    match stored {
        Ok(path) => format!(
            "[output cut after {kept_lines} of {all_lines} lines; the full text is in {path}: read it from \
             line {} or search it]",
            kept_lines + 1
        ),
        Err(_) => format!("[output cut after {kept_lines} of {all_lines} lines]"),
    }
}

/// Adds lines behind the last text.
fn end_with(content: &mut Vec<Block>, lines: String) {
    match content.last_mut() {
        Some(Block::Text { text }) => {
            text.push('\n');
            text.push_str(&lines);
        }
        _ => content.push(Block::Text { text: lines }),
    }
}

/// Names a stored output in the metadata.
fn name_output(reply: &mut Reply, stored: Option<String>) {
    if let Some(path) = stored {
        reply.meta.output_id =
            Path::new(&path).file_stem().map(|id| id.to_string_lossy().into_owned());
        reply.meta.output_path = Some(path);
    }
}

/// Returns whether nothing needs truncation, the common case, without a copy.
fn fits(content: &[Block], limit: Bound) -> bool {
    let (mut n_bytes, mut n_bytes_in_all) = (0, 0);
    for block in content {
        match block {
            Block::Text { text } => {
                n_bytes += text.len();
                n_bytes_in_all += text.len();
            }
            other => n_bytes_in_all += size_of_block(other),
        }
    }
    let texts = content.iter().filter_map(Block::as_text);
    n_bytes <= limit.max_bytes
        && n_bytes_in_all <= Bound::HARD.max_bytes
        && limit
            .max_lines
            .is_none_or(|max| texts.map(|text| text.lines().count()).sum::<usize>() <= max)
}

/// Returns the size of a block that is no text.
fn size_of_block(block: &Block) -> usize {
    match block {
        Block::Mcp(block) => size(block),
        other => other.media().map_or(0, |(data, _)| data.len()),
    }
}

fn whole_text(content: &[Block]) -> String {
    let mut whole = String::new();
    for block in content {
        if let Block::Text { text } = block {
            if !whole.is_empty() && !whole.ends_with('\n') {
                whole.push('\n');
            }
            whole.push_str(text);
        }
    }
    whole
}

#[derive(Debug, PartialEq, Eq)]
struct CutBlocks {
    content: Vec<Block>,
    kept_lines: usize,
    all_lines: usize,
}

/// Truncates the blocks of a reply, `None` if they fit. Texts share one limit; a file block over the
/// hard cap is replaced with a line about it. The first text may begin with title lines.
fn cut_blocks(content: &[Block], limit: Bound, n_title: usize) -> Option<CutBlocks> {
    let mut left = limit;
    let mut left_in_all = Bound::HARD.max_bytes;
    let mut kept = Vec::with_capacity(content.len());
    let (mut kept_lines, mut all_lines) = (0, 0);
    let mut is_cut = false;
    for block in content {
        match block {
            Block::Text { text } => {
                let n_lines = text.lines().count();
                let n_title = if all_lines == 0 { n_title } else { 0 };
                all_lines += n_lines;
                if is_cut {
                    continue;
                }
                let max_bytes = left.max_bytes.min(left_in_all);
                let cut = cut(text, Bound { max_bytes, ..left }, n_title);
                is_cut = cut.is_some();
                let (n_bytes, n_lines) =
                    cut.map_or((text.len(), n_lines), |cut| (cut.kept_bytes, cut.kept_lines));
                kept_lines += n_lines;
                left.max_bytes = left.max_bytes.saturating_sub(n_bytes);
                left.max_lines = left.max_lines.map(|max| max.saturating_sub(n_lines));
                left_in_all = left_in_all.saturating_sub(n_bytes);
                if !is_cut || n_bytes != 0 {
                    let text = text.get(..n_bytes).unwrap_or_default().to_owned();
                    kept.push(Block::Text { text });
                }
            }
            other => {
                let n_bytes = size_of_block(other);
                if left_in_all < n_bytes {
                    is_cut = true;
                    let what = other.media().map_or("a block", |(_, mime_type)| mime_type);
                    kept.push(Block::Text { text: format!("[{what} left out: {n_bytes} bytes]") });
                } else {
                    left_in_all -= n_bytes;
                    kept.push(block.clone());
                }
            }
        }
    }
    is_cut.then_some(CutBlocks { content: kept, kept_lines, all_lines })
}

/// Returns the size of a value as JSON in bytes.
fn size(value: &Value) -> usize {
    struct Count(usize);

    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    // Writing to a counter cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// The most rounds of measuring and shortening before a value becomes null.
const MAX_ROUNDS: u32 = 64;

/// Shortens the largest list or text until a value fits; its shape stays. Otherwise it becomes null.
fn shorten(value: &mut Value, max_bytes: usize) {
    for round in 0.. {
        if size(value) <= max_bytes {
            break;
        }
        if MAX_ROUNDS <= round || !halve(value) {
            *value = Value::Null;
            return;
        }
    }
    if let Some(truncated) = value.get_mut("truncated") {
        *truncated = Value::Bool(true);
    }
}

/// Halves the largest part that can be halved; returns whether there was one.
fn halve(value: &mut Value) -> bool {
    match value {
        Value::String(text) if !text.is_empty() => {
            text.truncate(text.floor_char_boundary(text.len() / 2));
            true
        }
        Value::Array(items) if 1 < items.len() => {
            items.truncate(items.len() / 2);
            true
        }
        Value::Array(items) => items.first_mut().is_some_and(halve),
        Value::Object(fields) => {
            let largest = fields.values_mut().max_by_key(|field| size(field));
            largest.is_some_and(halve)
        }
        _ => false,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Cut {
    kept_bytes: usize,
    kept_lines: usize,
    all_lines: usize,
}

/// Returns where to cut a text, `None` if it fits. A first line over the limit is cut between characters, also
/// behind title lines.
fn cut(text: &str, limit: Bound, n_title: usize) -> Option<Cut> {
    let many = |max_lines: usize| text.lines().nth(max_lines).is_some();
    if text.len() <= limit.max_bytes && !limit.max_lines.is_some_and(many) {
        return None;
    }
    let max_lines = limit.max_lines.unwrap_or(usize::MAX);
    let mut kept_bytes = 0;
    let mut kept_lines = 0;
    for line in text.split_inclusive('\n').take(max_lines) {
        let end = kept_bytes + line.len();
        if limit.max_bytes < end {
            break;
        }
        kept_bytes = end;
        kept_lines += 1;
    }
    if kept_lines <= n_title && kept_lines < max_lines {
        kept_bytes = text.floor_char_boundary(limit.max_bytes);
    }
    let kept = text.get(..kept_bytes).unwrap_or_default();
    let kept_bytes = kept.strip_suffix('\n').unwrap_or(kept).len();
    Some(Cut { kept_bytes, kept_lines, all_lines: text.lines().count() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, max_lines: usize, max_bytes: usize, kept: Option<(&str, usize)>) {
        let limit = Bound { max_lines: Some(max_lines), max_bytes };
        let cut = cut(text, limit, 0).map(|cut| (&text[..cut.kept_bytes], cut.kept_lines));
        assert_eq!(cut, kept);
    }

    fn texts(content: &[Block]) -> Vec<&str> {
        let mut texts = Vec::new();
        for block in content {
            texts.push(match block {
                Block::Text { text } => text.as_str(),
                _ => "",
            });
        }
        texts
    }

    /// Regression: only the first text counted, and only as the first block.
    #[test]
    fn every_block_counts() {
        let text = |text: &str| Block::Text { text: text.to_owned() };
        let image = |n| Block::Image { data: "x".repeat(n), mime_type: String::from("image/png") };
        let limit = Bound { max_lines: Some(3), max_bytes: 10 };
        let check = |content: &[Block], kept: Option<(&[&str], usize, usize)>| {
            let cut = cut_blocks(content, limit, 0);
            let cut = cut.as_ref().map(|cut| (texts(&cut.content), cut.kept_lines, cut.all_lines));
            let cut = cut.as_ref().map(|(texts, kept, all)| (texts.as_slice(), *kept, *all));
            assert_eq!(cut, kept);
        };
        check(&[text("a\nb\n"), text("c")], None);
        check(&[text("a\nb\n"), text("c\nd"), text("e")], Some((&["a\nb\n", "c"], 3, 5)));
        check(&[text("a\nb\nc"), text("d")], Some((&["a\nb\nc"], 3, 4)));
        check(&[text("12345678"), text("90\nab")], Some((&["12345678", "90"], 1, 3)));
        check(&[image(100), text("12345678901")], Some((&["", "1234567890"], 0, 1)));
        let most = 1_048_570;
        check(&[image(most), text("1234567890")], Some((&["", "123456"], 0, 1)));
        let left_out = "[image/png left out: 1048577 bytes]";
        check(&[text("a"), image(1_048_577), image(3)], Some((&["a", left_out, ""], 1, 1)));
    }

    #[test]
    fn structured_results_keep_their_shape() {
        let rows: Vec<usize> = (0..1_000).collect();
        let mut value = serde_json::json!({ "rows": rows, "truncated": false, "root": "/r" });
        shorten(&mut value, 100);
        assert!(size(&value) <= 100, "{value}");
        assert_eq!((&value["truncated"], &value["root"]), (&Value::Bool(true), &"/r".into()));
        assert_eq!(value["rows"][3], 3, "{value}");
        let mut text = serde_json::json!({ "content": "é".repeat(1_000) });
        shorten(&mut text, 64);
        assert!(size(&text) <= 64 && text["content"].as_str().is_some_and(|t| !t.is_empty()));
        let mut deep = serde_json::json!([[["x".repeat(1_000)]]]);
        shorten(&mut deep, 64);
        assert!(size(&deep) <= 64 && deep[0][0][0].is_string(), "{deep}");
        let mut odd = serde_json::json!({ "a": 1, "b": 2 });
        shorten(&mut odd, 4);
        assert_eq!(odd, Value::Null);
        let many: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
        let mut many: Value = many.into_iter().map(|key| (key, Value::from("text"))).collect();
        shorten(&mut many, 1_000);
        assert_eq!(many, Value::Null, "many small parts are given up soon");
    }

    #[test]
    fn text_is_cut_at_the_end_of_a_line() {
        check("a\nb\n", 2, 10, None);
        check("a\nb\nc", 2, 10, Some(("a\nb", 2)));
        check("aa\nbb\ncc\n", 9, 6, Some(("aa\nbb", 2)));
        check("aa\nbb\ncc\n", 9, 7, Some(("aa\nbb", 2)));
        check("ééé", 9, 3, Some(("é", 0)));
        check("", 0, 0, None);
    }

    /// A cut through the text of a long object had left no JSON.
    #[test]
    fn long_object_stays_json_and_its_text() {
        let conventions = Conventions { notes_apart: true, ..Conventions::DEFAULT };
        let limits = Limits { conventions: &conventions, store: None, path: None };
        let request = Request::new("c1", "x", sinew_tool::Arguments::default());
        let mut reply = Reply::json(serde_json::json!({ "a": "x".repeat(100_000), "b": 1 }));
        reply.note("[a note]");
        let reply = bound(&request, None, &limits, reply);
        let object = reply.structured.clone().unwrap_or_default();
        assert_eq!((texts(&reply.content), &object["b"]), (vec![&*object.to_string()], &1.into()));
        assert!(size(&object) <= 50 * 1024 && reply.meta.truncated);
        assert_eq!(reply.meta.notes, ["[a note]", "[the result was shortened]"]);
        // A text that is no object is cut as ever, and the note on it stays apart.
        let reply = bound(&request, None, &limits, Reply::text("line\n".repeat(2_001)));
        assert_eq!(texts(&reply.content), ["line\n".repeat(2_000).trim_end()]);
        assert_eq!(reply.meta.notes, ["[output cut after 2000 of 2001 lines]"]);
    }

    #[test]
    fn a_long_line_behind_a_title_is_cut() {
        let limit = Bound { max_lines: Some(9), max_bytes: 10 };
        for (text, n_title, kept, n_lines) in [
            ("title\nlong line\n", 1, "title\nlong", 1),
            ("title\nlong line\n", 0, "title", 1),
            ("title\na\nlong line\n", 1, "title\na", 2),
            ("a longer title\nb", 1, "a longer t", 0),
        ] {
            let cut = cut(text, limit, n_title).expect("a cut");
            assert_eq!((&text[..cut.kept_bytes], cut.kept_lines), (kept, n_lines), "{text}");
        }
    }
}
