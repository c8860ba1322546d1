//! Inserts into TOML and removes from it as text, at offsets of the parser: a printer would drop comments of a removed value
//! and turn CRLF line ends into LF.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Document, InlineTable, Item as Node, Key, Table, TableLike, TomlError};

use super::error::EditError;
use super::item::{Insertion, Item};

/// Parses a text.
pub(super) fn parse(body: &str) -> Result<Value, EditError> {
    let document = document(body)?;
    toml_edit::de::from_document(document).map_err(|_| EditError::Unsafe)
}

fn document(body: &str) -> Result<Document<String>, EditError> {
    Document::parse(body.to_owned()).map_err(|error: TomlError| {
        let at = error.span().map_or(0, |span| span.start);
        let before = body.get(..at).unwrap_or_default();
        EditError::Syntax {
            line: before.matches('\n').count() + 1,
            column: before.chars().rev().take_while(|c| *c != '\n').count() + 1,
            problem: error.message().lines().next().unwrap_or_default().to_owned(),
        }
    })
}

/// Returns the insertions that add items, each of them two keys deep and none of them in the text.
pub(super) fn insertions(body: &str, items: &[Item]) -> Result<Vec<Insertion>, EditError> {
    let document = document(body)?;
    let text = TomlBody { body, newline: if body.contains("\r\n") { "\r\n" } else { "\n" } };
    let mut all = Vec::new();
    let mut blocks = Vec::new();
    for item in items {
        let [table, key] = item.path.as_slice() else { return Err(EditError::Unsafe) };
        let is_table = item.value.is_object();
        match document.as_table().get(table) {
            Some(Node::Value(toml_edit::Value::InlineTable(inline))) => {
                let span = inline.span().ok_or(EditError::Unsafe)?;
                all.push(text.within(&span, inline.is_empty(), key, &item.value));
            }
            Some(Node::Table(found)) if !is_table && found.is_dotted() => {
                let line = format!("{table}.{key} = {}", written(&item.value));
                all.push(text.line(end_of(found).ok_or(EditError::Unsafe)?, &line));
            }
            Some(Node::Table(found)) if !is_table && !found.is_implicit() => {
                let line = format!("{key} = {}", written(&item.value));
                all.push(text.line(end_of(found).ok_or(EditError::Unsafe)?, &line));
            }
            None | Some(Node::Table(_)) => blocks.push(block(table, key, &item.value)),
            Some(_) => return Err(EditError::Shape { key: table.clone() }),
        }
    }
    if !blocks.is_empty() {
        all.push(text.at_end(&blocks));
    }
    Ok(all)
}

/// Returns the end of the last value of a table itself, or of its header.
fn end_of(table: &Table) -> Option<usize> {
    let ends = table.iter().filter_map(|(_, node)| match node {
        Node::Value(value) => value.span().map(|span| span.end),
        Node::Table(dotted) if dotted.is_dotted() => end_of(dotted),
        _ => None,
    });
    let header = table.span().filter(|_| !table.is_dotted()).map(|span| span.end);
    ends.chain(header).max()
}

/// Returns the lines of a new table.
fn block(table: &str, key: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Object(object) => {
            let header = format!("[{table}.{key}]");
            let lines = object.iter().map(|(key, value)| format!("{key} = {}", written(value)));
            std::iter::once(header).chain(lines).collect()
        }
        scalar => vec![format!("[{table}]"), format!("{key} = {}", written(scalar))],
    }
}

/// Writes a value on one line. The strings of JSON are strings of TOML.
fn written(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let pairs: Vec<String> =
                object.iter().map(|(key, value)| format!("{key} = {}", written(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        Value::Array(elements) => {
            format!("[{}]", elements.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

struct TomlBody<'a> {
    body: &'a str,
    newline: &'static str,
}

impl TomlBody<'_> {
    /// Adds a line behind the one in which something ends.
    fn line(&self, end: usize, line: &str) -> Insertion {
        let rest = self.body.get(end..).unwrap_or_default();
        match rest.find('\n') {
            Some(at) => Insertion { at: end + at + 1, text: format!("{line}{}", self.newline) },
            None => Insertion { at: self.body.len(), text: format!("{}{line}", self.newline) },
        }
    }

    /// Adds to an inline table, on its line.
    fn within(&self, span: &Range<usize>, is_empty: bool, key: &str, value: &Value) -> Insertion {
        let inside = self.body.get(..span.end.saturating_sub(1)).unwrap_or_default();
        let inside = inside.trim_end();
        let separator = if is_empty || inside.ends_with(',') { "" } else { "," };
        let at = inside.len();
        Insertion { at, text: format!("{separator} {key} = {}", written(value)) }
    }

    /// Adds tables at the end, each behind an empty line.
    fn at_end(&self, blocks: &[Vec<String>]) -> Insertion {
        let newline = self.newline;
        let ends_line = self.body.is_empty() || self.body.ends_with('\n');
        let blocks: Vec<String> = blocks.iter().map(|lines| lines.join(newline)).collect();
        let blocks = blocks.join(&format!("{newline}{newline}"));
        let before = match (self.body.is_empty(), ends_line) {
            (true, _) => String::new(),
            (false, true) => newline.to_owned(),
            (false, false) => format!("{newline}{newline}"),
        };
        let after = if ends_line { newline } else { "" };
        Insertion { at: self.body.len(), text: format!("{before}{blocks}{after}") }
    }
}

/// Removes an item, and then the tables of an edit that are empty. Each byte that stays is as it was.
pub(super) fn without(
    body: &str,
    item: &Item,
    containers: &[Vec<String>],
) -> Result<String, EditError> {
    let mut text = removed(body, &item.path)?;
    for path in containers.iter().rev().filter(|path| item.path.starts_with(path)) {
        let parsed = document(&text)?;
        let found = path.iter().try_fold(parsed.as_item(), |at, key| at.get(key.as_str()));
        if found.and_then(Node::as_table_like).is_some_and(TableLike::is_empty) {
            text = removed(&text, path)?;
        }
    }
    Ok(text)
}

/// Returns a text without the value at a path.
fn removed(body: &str, path: &[String]) -> Result<String, EditError> {
    let document = document(body)?;
    let (key, parents) = path.split_last().ok_or(EditError::Unsafe)?;
    let parent = parents.iter().try_fold(document.as_item(), |at, key| at.get(key.as_str()));
    let parent = parent.ok_or(EditError::Unsafe)?;
    let mut ranges = Vec::new();
    match parent.as_inline_table() {
        Some(inline) => ranges.push(within_inline(body, inline, key)?),
        None => {
            let table = parent.as_table().ok_or(EditError::Unsafe)?;
            let (key, node) = table.get_key_value(key).ok_or(EditError::Unsafe)?;
            add_lines(body, key, node, &mut ranges)?;
        }
    }
    ranges.sort_by_key(|range| std::cmp::Reverse(range.start));
    let mut text = body.to_owned();
    ranges.into_iter().for_each(|range| text.replace_range(range, ""));
    Ok(text)
}

/// Adds the lines of a value: of its header and of each key. Lines of comments between them are of the user.
fn add_lines(
    body: &str,
    key: &Key,
    node: &Node,
    ranges: &mut Vec<Range<usize>>,
) -> Result<(), EditError> {
    match node {
        Node::Table(table) => {
            if let Some(header) =
                table.span().filter(|_| !table.is_dotted() && !table.is_implicit())
            {
                let mut lines = lines_of(body, &header);
                let before = body.get(..lines.start).unwrap_or_default();
                // An empty line before the header belongs to it.
                lines.start = match (before.strip_suffix("\r\n"), before.strip_suffix('\n')) {
                    (Some(above), _) | (None, Some(above)) if above.ends_with('\n') => above.len(),
                    _ => lines.start,
                };
                ranges.push(lines);
            }
            for (name, _) in table {
                let (key, node) = table.get_key_value(name).ok_or(EditError::Unsafe)?;
                add_lines(body, key, node, ranges)?;
            }
            Ok(())
        }
        Node::Value(value) => {
            let start = key.span().ok_or(EditError::Unsafe)?.start;
            let end = value.span().ok_or(EditError::Unsafe)?.end;
            ranges.push(lines_of(body, &(start..end)));
            Ok(())
        }
        Node::None | Node::ArrayOfTables(_) => Err(EditError::Unsafe),
    }
}

/// Returns the whole lines of a range.
fn lines_of(body: &str, range: &Range<usize>) -> Range<usize> {
    let before = body.get(..range.start).unwrap_or_default();
    let after = body.get(range.end..).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    start..after.find('\n').map_or(body.len(), |at| range.end + at + 1)
}

/// Returns the range of a key and its comma in an inline table.
fn within_inline(body: &str, inline: &InlineTable, key: &str) -> Result<Range<usize>, EditError> {
    let index = inline.iter().position(|(name, _)| name == key).ok_or(EditError::Unsafe)?;
    let value_end = |at: usize| Some(inline.iter().nth(at)?.1.span()?.end);
    let end = value_end(index).ok_or(EditError::Unsafe)?;
    if let Some(previous) = index.checked_sub(1).and_then(value_end) {
        return Ok(previous..end);
    }
    let start = inline.key(key).and_then(Key::span).ok_or(EditError::Unsafe)?.start;
    let rest = body.get(end..).unwrap_or_default();
    let blank = rest.len() - rest.trim_start().len();
    let has_comma = rest.get(blank..).is_some_and(|rest| rest.starts_with(','));
    Ok(start..if has_comma { end + blank + 1 } else { end })
}

/// Returns the offsets of all values but tables and arrays, each with its path.
pub(super) fn leaves(body: &str) -> Vec<(Vec<String>, Range<usize>)> {
    let mut all = Vec::new();
    if let Ok(document) = document(body) {
        add_leaves(document.as_item(), &[], &mut all);
    }
    all
}

fn add_leaves(node: &Node, path: &[String], all: &mut Vec<(Vec<String>, Range<usize>)>) {
    let below = |key: &str| path.iter().cloned().chain([key.to_owned()]).collect::<Vec<_>>();
    match node {
        Node::None => {}
        Node::Value(value) => add_leaves_of(value, path, all),
        Node::Table(table) => {
            table.iter().for_each(|(key, node)| add_leaves(node, &below(key), all));
        }
        Node::ArrayOfTables(tables) => {
            let nodes = tables.iter().flat_map(Table::iter);
            nodes.for_each(|(key, node)| add_leaves(node, &below(key), all));
        }
    }
}

fn add_leaves_of(
    value: &toml_edit::Value,
    path: &[String],
    all: &mut Vec<(Vec<String>, Range<usize>)>,
) {
    match value {
        toml_edit::Value::Array(array) => {
            array.iter().for_each(|one| add_leaves_of(one, path, all));
        }
        toml_edit::Value::InlineTable(inline) => {
            for (key, value) in inline {
                let path: Vec<String> = path.iter().cloned().chain([key.to_owned()]).collect();
                add_leaves_of(value, &path, all);
            }
        }
        scalar => all.extend(scalar.span().map(|span| (path.to_owned(), span))),
    }
}
