//! bound: a reply is cut to what its row may hold, and the full text goes to the store.

use sinew_tool::{Block, Bound, Reply, Request, Tool};

use crate::runtime::Runtime;

/// Cuts a reply where it is too long, at the end of a line, and says where the rest is.
pub(super) fn bound(
    runtime: &Runtime,
    request: &Request,
    tool: Option<&dyn Tool>,
    mut reply: Reply,
) -> Reply {
    let row = tool.map_or(Bound::DEFAULT, Tool::bound);
    let limit = if reply.bounded { Bound::HARD } else { row };
    let Some(text) = whole_text(&reply) else { return reply };
    let Some(cut) = cut(text, limit) else { return reply };
    let stored = runtime.store.as_ref().and_then(|store| {
        sinew_tool::call_id(&request.call_id)?;
        store.put(&request.call_id, text).ok()
    });
    let note = match &stored {
        Some(path) => format!(
            "\n[output cut after {} of {} lines; the full text is in {path}: read it from line {} \
             or search it]",
            cut.kept_lines,
            cut.all_lines,
            cut.kept_lines + 1
        ),
        None => format!("\n[output cut after {} of {} lines]", cut.kept_lines, cut.all_lines),
    };
    let text = format!("{}{note}", text.get(..cut.kept_bytes).unwrap_or_default());
    reply.content = vec![Block::Text { text }];
    reply.meta.truncated = true;
    if let Some(path) = stored {
        reply.meta.output_id = Some(request.call_id.clone());
        reply.meta.output_path = Some(path);
    }
    reply
}

/// Returns the one text of a reply; replies of several blocks bound themselves.
fn whole_text(reply: &Reply) -> Option<&str> {
    match reply.content.first() {
        Some(Block::Text { text }) => Some(text),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Cut {
    kept_bytes: usize,
    kept_lines: usize,
    all_lines: usize,
}

/// Returns where to cut a text, or nothing where it fits. A first line that alone is too long is
/// cut inside, between two characters.
fn cut(text: &str, limit: Bound) -> Option<Cut> {
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
    if kept_lines == 0 {
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
        let cut = cut(text, limit).map(|cut| (&text[..cut.kept_bytes], cut.kept_lines));
        assert_eq!(cut, kept);
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
}
