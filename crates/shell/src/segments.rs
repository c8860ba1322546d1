//! Lists the commands in a text, for rules that deny and for display.

use sinew_tool::Segment;
use tree_sitter::{Node, Tree};

use super::tree;
use super::word::Word;

/// The most commands that are listed.
const MAX_SEGMENTS: usize = 1_000;
/// The most bytes of all segments with their words; a nested command counts in each outer one too.
const MAX_SEGMENT_BYTES: usize = 1 << 20;

/// Node kinds that are commands.
const KINDS: &[&str] = &["command", "test_command", "declaration_command", "unset_command"];

/// Returns the commands of a tree in order, also those inside substitutions.
pub(super) fn of(tree: &Tree, text: &str) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut n_bytes = 0;
    for (node, around) in tree::nodes(tree, KINDS).into_iter().take(MAX_SEGMENTS) {
        let segment = segment(node, around, text);
        n_bytes += segment.text.len() + segment.words.iter().map(String::len).sum::<usize>();
        if MAX_SEGMENT_BYTES < n_bytes {
            break;
        }
        segments.push(segment);
    }
    segments
}

/// Returns a command with its redirections, which are siblings.
fn segment(node: Node<'_>, around: Option<Node<'_>>, text: &str) -> Segment {
    let is_body = |around: &Node<'_>| around.child_by_field_name("body") == Some(node);
    let whole = around.filter(is_body).unwrap_or(node);
    let words = node.children(&mut node.walk()).map(|part| literal(part, text)).collect();
    Segment { text: text.get(whole.byte_range()).unwrap_or_default().to_owned(), words }
}

/// Returns a word as a program gets it, else as written.
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
    fn redirections_belong_to_their_commands() {
        let text = "ls -l > f 2>&1; cat <a | wc; (id; true) > g; x=$(date >h)";
        let segments = of(&crate::tree::parse(text).unwrap(), text);
        let texts: Vec<_> = segments.iter().map(|segment| segment.text.as_str()).collect();
        assert_eq!(texts, ["ls -l > f 2>&1", "cat <a", "wc", "id", "true", "date >h"]);
        assert_eq!(segments[0].words, ["ls", "-l"]);
    }

    #[test]
    fn quoted_names_of_programs_are_read() {
        for text in ["rm x", "'rm' x", "\"rm\" x", "$'rm' x", "r\\m x", "r'm' x", "$'r'm x"] {
            let segments = of(&crate::tree::parse(text).unwrap(), text);
            let words: Vec<_> = segments.iter().map(|segment| segment.words.clone()).collect();
            assert_eq!(words, [["rm", "x"]], "{text}");
        }
    }
}
