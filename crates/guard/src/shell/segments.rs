//! The commands that stand anywhere in a text, for rules that deny and for people who read.

use sinew_tool::Segment;
use tree_sitter::{Node, Tree};

use super::word::Word;

/// The most commands that are told.
const MAX_SEGMENTS: usize = 1_000;
/// The most bytes that they hold together, with their words. Where commands stand inside others, each
/// holds the text of all that are in it.
const MAX_SEGMENT_BYTES: usize = 1 << 20;

/// Returns the commands of a tree in their order, also those inside substitutions.
pub(super) fn of(tree: &Tree, text: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut n_bytes = 0;
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        if matches!(
            node.kind(),
            "command" | "test_command" | "declaration_command" | "unset_command"
        ) {
            let segment = segment(node, text);
            n_bytes += segment.text.len() + segment.words.iter().map(String::len).sum::<usize>();
            if MAX_SEGMENT_BYTES < n_bytes {
                return segments;
            }
            segments.push(segment);
        }
        if segments.len() == MAX_SEGMENTS {
            return segments;
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return segments;
            }
        }
    }
}

fn segment(node: Node<'_>, text: &str) -> Segment {
    let raw = |node: Node<'_>| text.get(node.byte_range()).unwrap_or_default();
    let words = node.children(&mut node.walk()).map(|part| literal(part, text)).collect();
    Segment { text: raw(node).to_owned(), words }
}

/// Returns a word as a program would get it, or as it is written.
fn literal(node: Node<'_>, text: &str) -> String {
    let raw = text.get(node.byte_range()).unwrap_or_default();
    let mut word = Word::default();
    let parts: Vec<Node<'_>> = match node.kind() {
        "command_name" | "concatenation" => node.children(&mut node.walk()).collect(),
        _ => vec![node],
    };
    for part in parts {
        let piece = text.get(part.byte_range()).unwrap_or_default();
        let pushed = match part.kind() {
            "concatenation" => return literal(part, text),
            "word" | "number" => word.push_bare(piece),
            "raw_string" => {
                word.text.push_str(piece.trim_matches('\''));
                Ok(())
            }
            "string" => word.push_quoted(piece.trim_matches('"')),
            "ansi_c_string" if !piece.contains('\\') => {
                word.text.push_str(piece.trim_start_matches('$').trim_matches('\''));
                Ok(())
            }
            _ => return raw.to_owned(),
        };
        if pushed.is_err() {
            return raw.to_owned();
        }
    }
    word.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_names_of_programs_are_read() {
        for text in ["rm x", "'rm' x", "\"rm\" x", "$'rm' x", "r\\m x", "r'm' x", "$'r'm x"] {
            let segments = of(&crate::shell::tree::parse(text).unwrap(), text);
            let words: Vec<_> = segments.iter().map(|segment| segment.words.clone()).collect();
            assert_eq!(words, [["rm", "x"]], "{text}");
        }
    }
}
