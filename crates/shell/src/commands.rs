//! Lists every command in a text, including those that wrappers run, for rules that deny or ask.
//!
//! It over-approximates: a part that cannot be parsed, or is only known at run time, counts as one that a
//! rule may match. What a program does by itself, such as an interpreter with its script, is not analysed.

use sinew_tool::{CommandList, Piece};
use tree_sitter::{Node, Tree};

use super::word::Word;
use super::wrappers::{self, Inside};
use super::{MAX_BYTES, tree};

/// The deepest nesting of commands.
const MAX_DEPTH: usize = 8;
/// The most commands.
const MAX_COMMANDS: usize = 2_000;
/// The most words of all commands together.
const MAX_WORDS: usize = 50_000;
/// The most bytes of nested texts.
const MAX_INNER_BYTES: usize = 4 * MAX_BYTES;
/// Why the commands of a text that is too long to parse are unknown.
const TOO_MUCH: &str = "it is too long to analyse";

/// Lists the commands of a parsed text.
pub(super) fn of_text(parsed: &Tree, text: &str) -> CommandList {
    let mut lister = Lister::default();
    lister.parsed(parsed, text, 0);
    lister.list
}

/// Lists a program with its arguments, and the commands that it runs.
pub(super) fn of_argv(argv: &[String]) -> CommandList {
    let mut lister = Lister::default();
    lister.command(argv.iter().cloned().map(Piece::Known).collect(), None, 0);
    lister.list
}

/// Lists the commands of a line.
#[cfg(test)]
pub(super) fn of(line: &sinew_tool::CommandLine) -> CommandList {
    match line {
        sinew_tool::CommandLine::Argv(argv) => of_argv(argv),
        sinew_tool::CommandLine::Shell(_, text) => super::list(text),
    }
}

/// Returns the list of a text that is not parsed.
pub(super) fn of_unparsed() -> CommandList {
    CommandList { unclear: Some(TOO_MUCH), ..CommandList::default() }
}

#[derive(Default)]
struct Lister {
    list: CommandList,
    n_inner_bytes: usize,
    n_words: usize,
}

impl Lister {
    fn text(&mut self, text: &str, depth: usize) {
        self.n_inner_bytes += text.len();
        if MAX_DEPTH < depth || MAX_INNER_BYTES < self.n_inner_bytes {
            self.list.unclear = Some("it is nested too deep");
            return;
        }
        match tree::parse(text) {
            Ok(parsed) => self.parsed(&parsed, text, depth),
            Err(_) => self.list.unclear = Some(TOO_MUCH),
        }
    }

    fn parsed(&mut self, parsed: &Tree, text: &str, depth: usize) {
        if parsed.root_node().has_error() {
            self.list.unclear = Some("it cannot be parsed");
        } else if is_odd(text) {
            self.list.unclear = Some("the shell may parse it differently than sinew does");
        }
        let written = tree::nodes(parsed, &["file_redirect"]);
        self.list.writes.extend(written.iter().filter_map(|(node, _)| target(*node, text)));
        for (node, around) in
            tree::nodes(parsed, &["command", "declaration_command", "unset_command"])
        {
            let (words, mut input, is_odd) = words(node, around, text);
            if is_odd {
                self.list.unclear =
                    Some("where the text of its input ends is written in several ways");
            }
            for words in words.into_iter().filter(|words| !words.is_empty()) {
                self.command(words, input.take(), depth);
            }
        }
    }

    /// Adds a command and those that it runs.
    fn command(&mut self, words: Vec<Piece>, input: Option<String>, depth: usize) {
        self.n_words += words.len();
        let is_full = MAX_COMMANDS <= self.list.all.len() || MAX_WORDS < self.n_words;
        if MAX_DEPTH < depth || is_full {
            self.list.unclear = Some("there are too many commands in it");
            return;
        }
        let inside = wrappers::inside(&words, input.as_deref());
        self.list.all.push(words);
        for inside in inside {
            if MAX_WORDS < self.n_words {
                self.list.unclear = Some("there are too many commands in it");
                return;
            }
            match inside {
                Inside::Words(words) if words.is_empty() => {}
                Inside::Words(words) => self.command(words, None, depth + 1),
                Inside::Text(text) => self.text(&text, depth + 1),
                Inside::Unknown => self.list.all.push(vec![Piece::unknown()]),
            }
        }
    }
}

/// Returns whether the grammar and a shell may read a text differently: backquotes, substitutions in the
/// patterns of a variable, values that are expanded again, lines joined inside a word.
fn is_odd(text: &str) -> bool {
    let has_place = text.contains("<<") || text.contains("${");
    (text.contains('`') && (has_place || text.contains("\\`")))
        || text.contains("@P}")
        || (text.contains("${") && text.contains("$("))
        || tree::joins_lines(text)
}

/// Returns words and input text of a command, and whether the text's end mark is odd. There may be several
/// commands: the grammar joins a line that begins with a backslash to the one before.
fn words(
    node: Node<'_>,
    around: Option<Node<'_>>,
    text: &str,
) -> (Vec<Vec<Piece>>, Option<String>, bool) {
    let mut before = Vec::new();
    let mut words = Vec::new();
    let mut input = None;
    let mut is_odd = false;
    for part in node.children(&mut node.walk()) {
        match part.kind() {
            "variable_assignment" if node.kind() == "command" && words.is_empty() => {}
            "file_redirect" | "heredoc_redirect" | "herestring_redirect" => {
                is_odd |= redirect(part, text, &mut words, &mut input);
            }
            _ => {
                let raw = text.get(part.byte_range()).unwrap_or_default();
                if raw.starts_with(char::is_whitespace) {
                    before.push(std::mem::take(&mut words));
                }
                words.push(piece(part, text));
            }
        }
    }
    // Redirections are siblings of the command, and words may follow them.
    if let Some(parent) = around {
        let body = parent.child_by_field_name("body");
        for part in parent.children(&mut parent.walk()).filter(|part| Some(*part) != body) {
            is_odd |= redirect(part, text, &mut words, &mut input);
        }
    }
    before.push(words);
    (before, input, is_odd)
}

/// Returns the file that a redirection writes.
fn target(node: Node<'_>, text: &str) -> Option<Piece> {
    let parts: Vec<Node<'_>> = node.children(&mut node.walk()).collect();
    let mut parts = parts.into_iter().skip_while(|part| part.kind() == "file_descriptor");
    let sign = parts.next()?;
    let target = parts.next()?;
    (sign.kind() != "<").then(|| piece(target, text))
}

/// Reads the words or the input text in a redirection; returns whether the text's end mark is odd.
fn redirect(
    node: Node<'_>,
    text: &str,
    words: &mut Vec<Piece>,
    input: &mut Option<String>,
) -> bool {
    let mut is_odd = false;
    let raw = |node: Node<'_>| text.get(node.byte_range()).unwrap_or_default();
    let parts: Vec<Node<'_>> = node.children(&mut node.walk()).collect();
    match node.kind() {
        "file_redirect" => {
            let named = parts.iter().filter(|part| part.is_named());
            let behind = named.filter(|part| part.kind() != "file_descriptor").skip(1);
            words.extend(behind.map(|part| piece(*part, text)));
        }
        "heredoc_redirect" => {
            let place = |kind: &str| parts.iter().find(|part| part.kind() == kind);
            let end = place("heredoc_end").map_or(node.end_byte(), Node::start_byte);
            let line = place("heredoc_start").and_then(|start| text.get(start.end_byte()..end));
            *input = line.and_then(|line| Some(line.split_once('\n')?.1.to_owned()));
            let start = place("heredoc_start").map_or("", |start| raw(*start));
            let quotes = ['\'', '"', '\\'];
            let whole = |quote: char| start.strip_prefix(quote)?.strip_suffix(quote);
            let inner = whole('\'').or_else(|| whole('"'));
            is_odd = inner.unwrap_or(start).contains(quotes);
            if inner.is_none() {
                // A program reads the text without its escapes.
                *input = input.take().map(|text| wrappers::unescaped(&text));
            }
            // The grammar may take lines of the text for words.
            let is_text = |part: &Node<'_>| raw(*part).starts_with(char::is_whitespace);
            for part in parts.into_iter().take_while(|part| !is_text(part)) {
                match part.kind() {
                    "word"
                    | "string"
                    | "raw_string"
                    | "concatenation"
                    | "number"
                    | "simple_expansion"
                    | "expansion"
                    | "ansi_c_string"
                    | "command_substitution" => words.push(piece(part, text)),
                    "file_redirect" => {
                        redirect(part, text, words, &mut None);
                    }
                    _ => {}
                }
            }
        }
        "herestring_redirect" => {
            let word = parts.iter().find(|part| part.is_named());
            *input = word.map(|part| match piece(*part, text) {
                Piece::Known(word) => word,
                Piece::Open { raw, .. } => wrappers::unquoted(&raw),
            });
        }
        _ => {}
    }
    is_odd
}

/// Returns a word as far as it is known.
pub(super) fn piece(node: Node<'_>, text: &str) -> Piece {
    let raw = text.get(node.byte_range()).unwrap_or_default();
    let mut word = Word::default();
    if push(node, text, &mut word) && !word.is_pattern() {
        return Piece::Known(word.text);
    }
    let many = raw.contains("$@") || raw.contains("[@]") || raw.contains("@}");
    let is_one = raw.len() > 1 && raw.starts_with('"') && raw.ends_with('"') && !many;
    Piece::Open { raw: raw.to_owned(), is_one: is_one && node.kind() == "string" }
}

/// Adds the known part of a word; returns whether that is all of it.
fn push(node: Node<'_>, text: &str, word: &mut Word) -> bool {
    let raw = text.get(node.byte_range()).unwrap_or_default();
    let inner = |open: &str, close: &str| raw.strip_prefix(open)?.strip_suffix(close);
    match node.kind() {
        _ if raw == "{}" => {
            word.text.push_str(raw);
            true
        }
        "word" | "number" if node.named_child_count() == 0 => {
            let is_first = word.text.is_empty();
            word.push_bare(if is_first { raw.trim_start() } else { raw }).is_ok()
        }
        // A name to unset or declare, with its value.
        "variable_name" => word.push_bare(raw).is_ok(),
        "raw_string" => inner("'", "'").is_some_and(|inner| {
            word.text.push_str(inner);
            true
        }),
        "ansi_c_string" => inner("$'", "'").is_some_and(|inner| {
            word.text.push_str(inner);
            !inner.contains('\\')
        }),
        "string" => inner("\"", "\"").is_some_and(|inner| word.push_quoted(inner).is_ok()),
        "translated_string" => {
            inner("$\"", "\"").is_some_and(|inner| word.push_quoted(inner).is_ok())
        }
        "command_name" | "concatenation" => {
            let parts: Vec<Node<'_>> = node.children(&mut node.walk()).collect();
            let mut at = node.start_byte();
            let joined = parts.iter().all(|part| {
                let is_next = part.start_byte() == at;
                at = part.end_byte();
                is_next
            });
            joined && parts.iter().all(|part| push(*part, text, word))
        }
        // Anonymous nodes that are words, such as the name of a declaration command.
        _ if !node.is_named() => word.push_bare(raw).is_ok(),
        _ => false,
    }
}
