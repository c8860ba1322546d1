//! Parses a text for the shell to a tree-sitter syntax tree, and reads the commands that are understood.
//!
//! Only a few kinds of nodes are understood, with known children. A difference between grammar and shell is
//! harmless: the script that runs is written anew from the understood commands.

use std::ops::ControlFlow;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sinew_tool::Unclear;
use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::MAX_BYTES;
use super::word::Word;

/// Limit of parsing, in processor time.
const MAX_TIME: Duration = Duration::from_millis(100);
/// The most nodes of a tree.
const MAX_NODES: usize = 50_000;
/// The deepest tree.
const MAX_DEPTH: usize = 100;
/// The most commands of a plain text.
const MAX_COMMANDS: usize = 100;

/// Commands in sequence.
pub(super) type List = Vec<Item>;

/// A pipeline, and when it runs.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) when: When,
    pub(super) negated: bool,
    pub(super) stages: Vec<Stage>,
}

/// When a pipeline runs, after the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Then,
    And,
    Or,
}

/// A part of a pipeline.
#[derive(Debug)]
pub(super) enum Stage {
    Simple(Simple),
    /// Commands in braces or parentheses.
    Group {
        list: List,
        is_subshell: bool,
        redirects: Vec<Redirect>,
    },
    /// Conditions with their branches, and the `else` branch.
    If {
        branches: Vec<(List, List)>,
        otherwise: Option<List>,
        redirects: Vec<Redirect>,
    },
}

/// A program with its arguments.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) variables: Vec<(String, Word)>,
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
}

/// A redirection of a stream.
#[derive(Debug)]
pub(super) enum Redirect {
    /// Standard input from a file.
    Read(Word),
    /// Standard input from a text.
    Text(String),
    /// A stream to `/dev/null`.
    Null(u32),
    /// Both output streams to `/dev/null`.
    BothNull,
    /// A stream to the target of another one.
    Same(u32, u32),
}

/// Parses a text within its limits.
pub(super) fn parse(text: &str) -> Result<Tree, Unclear> {
    if MAX_BYTES < text.len() {
        let (n, max) = (text.len(), MAX_BYTES);
        return Err(Unclear::new(
            "shell.size",
            format!("it has {n} bytes; at most {max} are analysed"),
        ));
    }
    let bytes = text.as_bytes();
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .map_err(|_| Unclear::new("shell.syntax", "the grammar of the shell cannot be used"))?;
    let begun = time_used();
    let mut in_time = |_: &ParseState| match time_used().saturating_sub(begun) {
        used if used < MAX_TIME => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let options = ParseOptions::new().progress_callback(&mut in_time);
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut read, None, Some(options));
    let tree = tree.ok_or_else(|| Unclear::new("shell.size", "it takes too long to parse"))?;
    if MAX_NODES < tree.root_node().descendant_count() {
        return Err(Unclear::new("shell.size", "it has too many parts"));
    }
    Ok(tree)
}

/// Returns the processor time of this thread, which other threads do not affect.
fn time_used() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or(0))
}

/// Returns the commands of a tree, if all of it is understood.
pub(super) fn understood(tree: &Tree, text: &str) -> Result<List, Unclear> {
    let root = tree.root_node();
    if root.has_error() {
        return Err(syntax("it cannot be parsed"));
    }
    if joins_lines(text) {
        return Err(syntax("a line goes on in the middle of a word"));
    }
    let mut reader = Reader { text, n_commands: 0, depth: 0 };
    let list = reader.statements(children(root))?;
    if list.is_empty() {
        return Err(syntax("there is no command in it"));
    }
    Ok(list)
}

/// Returns whether a backslash-newline joins lines inside a word, which the grammar takes for two words.
pub(super) fn joins_lines(text: &str) -> bool {
    let mut rest = text;
    let mut before = ' ';
    while let Some((head, tail)) = rest.split_once("\\\n") {
        before = head.chars().next_back().unwrap_or(before);
        // An escaped blank is part of a word.
        if head.ends_with("\\ ") || head.ends_with("\\\t") {
            return true;
        }
        let is_apart = |c: char| c == ' ' || c == '\t';
        if !is_apart(before) && !tail.starts_with(is_apart) {
            return true;
        }
        rest = tail;
    }
    false
}

/// Returns the nodes of some kinds in order, each with the node that holds its redirections.
pub(super) fn nodes<'t>(tree: &'t Tree, kinds: &[&str]) -> Vec<(Node<'t>, Option<Node<'t>>)> {
    let mut found = Vec::new();
    let mut cursor = tree.walk();
    let mut above: Vec<Node<'_>> = Vec::new();
    loop {
        let node = cursor.node();
        if kinds.contains(&node.kind()) {
            found.push((node, redirected(node, &above)));
        }
        if cursor.goto_first_child() {
            above.push(node);
            continue;
        }
        while !cursor.goto_next_sibling() {
            above.pop();
            if !cursor.goto_parent() {
                return found;
            }
        }
    }
}

/// Returns the parent whose redirections apply to this command in a shell, as the last one of its list.
fn redirected<'t>(node: Node<'t>, above: &[Node<'t>]) -> Option<Node<'t>> {
    let body_ends = |parent: &Node<'t>| {
        parent.child_by_field_name("body").map_or(parent.end_byte(), |body| body.end_byte())
    };
    for parent in above.iter().rev() {
        match parent.kind() {
            "redirected_statement" if body_ends(parent) == node.end_byte() => return Some(*parent),
            "list" | "pipeline" | "negated_command" if parent.end_byte() == node.end_byte() => {}
            _ => return None,
        }
    }
    None
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

fn syntax(why: impl Into<String>) -> Unclear {
    Unclear::new("shell.syntax", why)
}

fn not_understood(node: Node<'_>) -> Unclear {
    syntax(match node.kind() {
        "simple_expansion" | "expansion" => {
            String::from("what a variable holds is only known when it runs")
        }
        "command_substitution" | "process_substitution" => {
            String::from("it holds what another command writes, which is only known when it runs")
        }
        "arithmetic_expansion" => String::from("a sum is only worked out when it runs"),
        "&" => String::from("a part of it goes on in the background"),
        kind => format!("it contains syntax the policy cannot analyse: {}", kind.replace('_', " ")),
    })
}

struct Reader<'t> {
    text: &'t str,
    n_commands: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn raw(&self, node: Node<'_>) -> &'t str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn statements(&mut self, nodes: Vec<Node<'_>>) -> Result<List, Unclear> {
        self.depth += 1;
        if MAX_DEPTH < self.depth {
            return Err(Unclear::new("shell.size", "it is nested too deep"));
        }
        let mut list = List::new();
        for node in nodes {
            match node.kind() {
                ";" | "\n" | "comment" => {}
                _ => self.statement(node, When::Then, &mut list)?,
            }
        }
        self.depth -= 1;
        Ok(list)
    }

    /// Reads a statement, which may be several pipelines.
    fn statement(&mut self, node: Node<'_>, when: When, list: &mut List) -> Result<(), Unclear> {
        self.depth += 1;
        if MAX_DEPTH < self.depth {
            return Err(Unclear::new("shell.size", "it is nested too deep"));
        }
        // A chain nests to the left, to any depth.
        let mut first = node;
        let mut rest = Vec::new();
        while first.kind() == "list" {
            let parts = children(first);
            let [left, sign, right] = parts.as_slice() else { return Err(not_understood(first)) };
            let next = match sign.kind() {
                "&&" => When::And,
                "||" => When::Or,
                _ => return Err(not_understood(*sign)),
            };
            rest.push((*right, next));
            first = *left;
        }
        self.pipeline(first, when, list)?;
        for (node, next) in rest.into_iter().rev() {
            self.pipeline(node, next, list)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn pipeline(&mut self, node: Node<'_>, when: When, list: &mut List) -> Result<(), Unclear> {
        let item = |stages| Item { when, negated: false, stages };
        match node.kind() {
            "list" => self.statement(node, when, list),
            "negated_command" => {
                let parts = children(node);
                let [_, inner] = parts.as_slice() else { return Err(not_understood(node)) };
                let begin = list.len();
                self.statement(*inner, when, list)?;
                match list.get_mut(begin..) {
                    Some([one]) if !one.negated => one.negated = true,
                    _ => return Err(not_understood(node)),
                }
                Ok(())
            }
            "pipeline" => {
                let mut stages = Vec::new();
                for part in children(node) {
                    match part.kind() {
                        "|" => {}
                        _ => stages.push(self.stage(part)?),
                    }
                }
                list.push(item(stages));
                Ok(())
            }
            "redirected_statement" => self.redirected(node, when, list),
            _ => {
                let stage = self.stage(node)?;
                list.push(item(vec![stage]));
                Ok(())
            }
        }
    }

    /// Reads a statement whose redirections apply to its last command.
    fn redirected(&mut self, node: Node<'_>, when: When, list: &mut List) -> Result<(), Unclear> {
        let body = node.child_by_field_name("body");
        let mut redirects = Vec::new();
        for part in children(node).into_iter().filter(|part| Some(*part) != body) {
            redirects.push(self.redirect(part)?);
        }
        let Some(body) = body else { return Err(not_understood(node)) };
        self.statement(body, when, list)?;
        let last = list.last_mut().and_then(|item| item.stages.last_mut());
        match last {
            Some(Stage::Simple(simple)) => simple.redirects.extend(redirects),
            Some(Stage::Group { redirects: own, .. } | Stage::If { redirects: own, .. }) => {
                own.extend(redirects);
            }
            None => return Err(not_understood(node)),
        }
        Ok(())
    }

    fn stage(&mut self, node: Node<'_>) -> Result<Stage, Unclear> {
        match node.kind() {
            "command" => self.command(node).map(Stage::Simple),
            "test_command" => self.test(node).map(Stage::Simple),
            "redirected_statement" => {
                let mut list = List::new();
                self.redirected(node, When::Then, &mut list)?;
                let stage = list.pop().filter(|_| list.is_empty());
                let stage =
                    stage.and_then(|mut item| item.stages.pop().filter(|_| item.stages.is_empty()));
                stage.ok_or_else(|| not_understood(node))
            }
            kind @ ("subshell" | "compound_statement") => {
                let signs = if kind == "subshell" { ["(", ")"] } else { ["{", "}"] };
                let parts = children(node);
                let inner = parts.iter().filter(|part| !signs.contains(&part.kind()));
                let list = self.statements(inner.copied().collect())?;
                let is_subshell = kind == "subshell";
                Ok(Stage::Group { list, is_subshell, redirects: Vec::new() })
            }
            "if_statement" => self.condition(node),
            _ => Err(not_understood(node)),
        }
    }

    fn condition(&mut self, node: Node<'_>) -> Result<Stage, Unclear> {
        let mut branches = Vec::new();
        let mut otherwise = None;
        let (mut asked, mut body): (Vec<Node<'_>>, Vec<Node<'_>>) = (Vec::new(), Vec::new());
        let mut in_body = false;
        for part in children(node) {
            match part.kind() {
                "if" | "fi" => {}
                "then" => in_body = true,
                "elif_clause" => return Err(not_understood(part)),
                "else_clause" => {
                    let inner = children(part).into_iter().filter(|part| part.kind() != "else");
                    otherwise = Some(self.statements(inner.collect())?);
                }
                _ if in_body => body.push(part),
                _ => asked.push(part),
            }
        }
        let (asked, body) = (self.statements(asked)?, self.statements(body)?);
        let is_empty = otherwise.as_ref().is_some_and(Vec::is_empty);
        if asked.is_empty() || body.is_empty() || is_empty {
            return Err(not_understood(node));
        }
        branches.push((asked, body));
        Ok(Stage::If { branches, otherwise, redirects: Vec::new() })
    }

    fn command(&mut self, node: Node<'_>) -> Result<Simple, Unclear> {
        self.n_commands += 1;
        if MAX_COMMANDS < self.n_commands {
            let why = format!("it has more than {MAX_COMMANDS} commands");
            return Err(Unclear::new("shell.size", why));
        }
        let mut simple = Simple::default();
        for part in children(node) {
            match part.kind() {
                "variable_assignment" if simple.words.is_empty() => {
                    let parts = children(part);
                    let [name, sign, value] = parts.as_slice() else {
                        return Err(not_understood(part));
                    };
                    if name.kind() != "variable_name" || sign.kind() != "=" {
                        return Err(not_understood(part));
                    }
                    let value = self.word(*value)?;
                    simple.variables.push((self.raw(*name).to_owned(), value));
                }
                "command_name" => {
                    let parts = children(part);
                    let [name] = parts.as_slice() else { return Err(not_understood(part)) };
                    let word = self.word(*name)?;
                    simple.words.push(word);
                }
                "file_redirect" | "heredoc_redirect" | "herestring_redirect" => {
                    let redirect = self.redirect(part)?;
                    simple.redirects.push(redirect);
                }
                _ => {
                    let word = self.word(part)?;
                    simple.words.push(word);
                }
            }
        }
        if simple.words.is_empty() {
            return Err(not_understood(node));
        }
        Ok(simple)
    }

    /// Reads `[ … ]` as a command.
    fn test(&mut self, node: Node<'_>) -> Result<Simple, Unclear> {
        let parts = children(node);
        let [open, inner @ .., close] = parts.as_slice() else { return Err(not_understood(node)) };
        if open.kind() != "[" || close.kind() != "]" {
            return Err(not_understood(node));
        }
        let mut words = vec![Word::literal("[")];
        for part in inner {
            self.operands(*part, &mut words, 0)?;
        }
        words.push(Word::literal("]"));
        Ok(Simple { words, ..Simple::default() })
    }

    fn operands(
        &mut self,
        node: Node<'_>,
        words: &mut Vec<Word>,
        depth: usize,
    ) -> Result<(), Unclear> {
        if MAX_DEPTH < depth {
            return Err(not_understood(node));
        }
        match node.kind() {
            "unary_expression" | "binary_expression" => children(node)
                .into_iter()
                .try_for_each(|part| self.operands(part, words, depth + 1)),
            "test_operator" | "=" | "==" | "!=" | "!" => {
                words.push(Word::literal(self.raw(node)));
                Ok(())
            }
            _ => {
                let word = self.word(node)?;
                words.push(word);
                Ok(())
            }
        }
    }

    fn word(&mut self, node: Node<'_>) -> Result<Word, Unclear> {
        let mut word = Word::default();
        self.push(node, &mut word)?;
        Ok(word)
    }

    fn push(&mut self, node: Node<'_>, word: &mut Word) -> Result<(), Unclear> {
        let raw = self.raw(node);
        if raw == "{}" {
            word.text.push_str(raw);
            return Ok(());
        }
        match node.kind() {
            "word" | "number" if node.named_child_count() == 0 => word.push_bare(raw),
            "raw_string" => {
                let inner = raw.strip_prefix('\'').and_then(|raw| raw.strip_suffix('\''));
                let inner = inner.filter(|inner| !inner.contains('\''));
                word.text.push_str(inner.ok_or_else(|| not_understood(node))?);
                Ok(())
            }
            "string" => {
                let inner = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
                word.push_quoted(inner.ok_or_else(|| not_understood(node))?)
            }
            "concatenation" => {
                let parts = children(node);
                // There must be no gap between the parts.
                let mut at = node.start_byte();
                for part in parts {
                    if part.start_byte() != at {
                        return Err(not_understood(node));
                    }
                    at = part.end_byte();
                    self.push(part, word)?;
                }
                if at == node.end_byte() { Ok(()) } else { Err(not_understood(node)) }
            }
            _ => Err(not_understood(node)),
        }
    }

    fn redirect(&mut self, node: Node<'_>) -> Result<Redirect, Unclear> {
        match node.kind() {
            "file_redirect" => self.file_redirect(node),
            "heredoc_redirect" => self.heredoc(node),
            _ => Err(not_understood(node)),
        }
    }

    fn file_redirect(&mut self, node: Node<'_>) -> Result<Redirect, Unclear> {
        let mut parts = children(node);
        let fd = match parts.first() {
            Some(first) if first.kind() == "file_descriptor" => {
                let fd = self.raw(*first).parse::<u32>().map_err(|_| not_understood(*first))?;
                parts.remove(0);
                Some(fd)
            }
            _ => None,
        };
        let [sign, target] = parts.as_slice() else { return Err(not_understood(node)) };
        let word = self.word(*target)?;
        let is_null = word.text == "/dev/null" && !word.is_pattern();
        let number = word.text.parse::<u32>().ok().filter(|number| (1..=2).contains(number));
        match (sign.kind(), fd) {
            ("<", None | Some(0)) => Ok(Redirect::Read(word)),
            (">" | ">>", None | Some(1 | 2)) if is_null => Ok(Redirect::Null(fd.unwrap_or(1))),
            ("&>" | "&>>", None) if is_null => Ok(Redirect::BothNull),
            (">&", None | Some(1 | 2)) if number.is_some() => {
                Ok(Redirect::Same(fd.unwrap_or(1), number.unwrap_or(1)))
            }
            (sign, _) => {
                let why = format!("`{sign}` opens or changes `{}`", word.text);
                Err(Unclear::new("shell.write", why))
            }
        }
    }

    /// Reads a here-document.
    fn heredoc(&mut self, node: Node<'_>) -> Result<Redirect, Unclear> {
        let parts = children(node);
        let kinds: Vec<&str> = parts.iter().map(Node::kind).collect();
        let (["<<", "heredoc_start", "heredoc_body", "heredoc_end"], [_, start, body, _]) =
            (kinds.as_slice(), parts.as_slice())
        else {
            return Err(not_understood(node));
        };
        // The grammar drops blanks at the beginning of the text.
        let end = parts.last().map_or(body.end_byte(), Node::start_byte);
        let line = self.text.get(start.end_byte()..end).unwrap_or_default();
        let Some(text) = line.strip_prefix('\n') else { return Err(not_understood(node)) };
        let start = self.raw(*start);
        let is_literal = start.starts_with('\'') && start.ends_with('\'');
        let inner = start.strip_prefix('\'').and_then(|start| start.strip_suffix('\''));
        if inner.unwrap_or(start).contains(['\'', '"', '\\']) {
            return Err(syntax("where the text of its input ends is written in several ways"));
        }
        let expands = text.contains(['$', '`', '\\']);
        if !is_literal && (expands || start.contains(['\\', '"', '$', '`'])) {
            return Err(syntax("the text of its input is expanded when it runs"));
        }
        Ok(Redirect::Text(text.to_owned()))
    }
}
