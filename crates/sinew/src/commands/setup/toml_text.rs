//! Inserts into TOML as text, at offsets of the parser: a printer would turn CRLF line ends into LF.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Document, DocumentMut, Item as Node, Table, TomlError};

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

/// Removes an item, and then the tables of an edit that are empty. The printer of the parser keeps comments and order; CRLF
/// line ends are put back.
pub(super) fn without(
    body: &str,
    item: &Item,
    containers: &[Vec<String>],
) -> Result<String, EditError> {
    let mut document: DocumentMut = body.parse().map_err(|_| EditError::Unsafe)?;
    let Some((last, parents)) = item.path.split_last() else { return Err(EditError::Unsafe) };
    remove(document.as_item_mut(), parents, last);
    for path in containers.iter().rev().filter(|path| item.path.starts_with(path)) {
        let Some((key, above)) = path.split_last() else { continue };
        let found = path.iter().try_fold(document.as_item(), |at, key| at.get(key.as_str()));
        if found.and_then(Node::as_table_like).is_some_and(toml_edit::TableLike::is_empty) {
            remove(document.as_item_mut(), above, key);
        }
    }
    let text = document.to_string();
    let is_crlf =
        body.contains("\r\n") && body.matches('\n').count() == body.matches("\r\n").count();
    Ok(if is_crlf { text.replace("\r\n", "\n").replace('\n', "\r\n") } else { text })
}

fn remove(root: &mut Node, parents: &[String], key: &str) {
    let parent = parents.iter().try_fold(root, |at, key| at.get_mut(key.as_str()));
    if let Some(table) = parent.and_then(Node::as_table_like_mut) {
        table.remove(key);
    }
}
