//! Adds values to the text of a configuration file, and removes them again, so that every other byte stays.
//!
//! An edit is a list of insertions: it replaces nothing. While the text is as an edit left it, taking the insertions out
//! gives the old bytes. After other changes each value is found by its path, and removed only while it is equal.

use serde_json::Value;

use super::error::EditError;
use super::item::{Edit, Insertion, Item, Role, TextFormat, graft, prune};
use super::{json_text, toml_text};

/// The byte order mark, which no parser here takes.
const BOM: &str = "\u{feff}";

/// A text with values added.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) text: String,
    pub(super) edit: Edit,
    /// The settings that have another value, and the values in place of a needed object or array.
    pub(super) left: Vec<Item>,
}

/// How a wanted value relates to a text.
#[derive(Debug, PartialEq)]
pub(super) enum ItemMatch {
    /// It is there.
    Present,
    /// Another value is there.
    Other(Value),
    /// The path is absent from this depth on.
    Absent { depth: usize },
    /// The value at this depth is neither an object nor the array that is needed.
    Shape { depth: usize },
}

/// Adds the items that a text lacks; fails where that would change any other value.
pub(super) fn merge(format: TextFormat, text: &str, wanted: &[Item]) -> Result<Merged, EditError> {
    let body = text.strip_prefix(BOM).unwrap_or(text);
    let tree = parse(format, body)?;
    let (mut missing, mut left) = (Vec::new(), Vec::new());
    let mut containers: Vec<Vec<String>> = Vec::new();
    for item in wanted {
        match look(&tree, item) {
            ItemMatch::Present => {}
            ItemMatch::Absent { depth } => {
                let last = item.path.len() - usize::from(item.role != Role::Element);
                let new = (depth + 1..=last).filter_map(|n| item.path.get(..n).map(<[_]>::to_vec));
                let new: Vec<_> = new.filter(|path| !containers.contains(path)).collect();
                containers.extend(new);
                missing.push(item.clone());
            }
            ItemMatch::Other(value) if item.role == Role::Server => {
                return Err(EditError::taken(item, &value));
            }
            ItemMatch::Shape { depth } if item.role == Role::Server => {
                let key = item.path.get(..depth).unwrap_or_default().join(".");
                return Err(EditError::Shape { key });
            }
            ItemMatch::Other(_) => left.push(item.clone()),
            ItemMatch::Shape { depth } => {
                let path = item.path.get(..depth).unwrap_or_default().to_vec();
                let what = Item { path, ..item.clone() };
                if left.iter().all(|known: &Item| known.path != what.path) {
                    left.push(what);
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(Merged { text: text.to_owned(), edit: Edit::default(), left });
    }
    let mut insertions = match format {
        TextFormat::Json => json_text::insertions(body, &missing)?,
        TextFormat::Toml => toml_text::insertions(body, &missing)?,
    };
    insertions.iter_mut().for_each(|one| one.at += text.len() - body.len());
    insertions.sort_by_key(|one| one.at);
    let new = apply(text, &insertions).ok_or(EditError::Unsafe)?;
    // Parsed again, the text must have its old values and the items, and nothing else.
    let mut expected = tree;
    missing.iter().for_each(|item| graft(&mut expected, item));
    let read =
        parse(format, new.strip_prefix(BOM).unwrap_or(&new)).map_err(|_| EditError::Unsafe)?;
    if read != expected {
        return Err(EditError::Unsafe);
    }
    Ok(Merged { text: new, edit: Edit { insertions, items: missing, containers }, left })
}

/// Parses a text without a byte order mark; one without a value is an empty object.
pub(super) fn parse(format: TextFormat, body: &str) -> Result<Value, EditError> {
    match format {
        TextFormat::Json => json_text::parse(body),
        TextFormat::Toml => toml_text::parse(body),
    }
}

/// Returns how an item relates to a tree.
pub(super) fn look(tree: &Value, item: &Item) -> ItemMatch {
    let mut at = tree;
    for (depth, key) in item.path.iter().enumerate() {
        let Some(object) = at.as_object() else { return ItemMatch::Shape { depth } };
        match object.get(key) {
            Some(value) => at = value,
            None => return ItemMatch::Absent { depth },
        }
    }
    match (item.role, at) {
        (Role::Element, Value::Array(elements)) if elements.contains(&item.value) => {
            ItemMatch::Present
        }
        (Role::Element, Value::Array(_)) => ItemMatch::Absent { depth: item.path.len() },
        (Role::Element, _) => ItemMatch::Shape { depth: item.path.len() },
        (Role::Server, found) if starts_same(found, &item.value) => ItemMatch::Present,
        (Role::Setting, found) if *found == item.value => ItemMatch::Present,
        (Role::Server | Role::Setting, found) => ItemMatch::Other(found.clone()),
    }
}

/// Returns whether two entries of a server start the same program with the same arguments.
pub(super) fn starts_same(one: &Value, other: &Value) -> bool {
    fn words(server: &Value) -> Option<Vec<&str>> {
        let args = server.get("args").and_then(Value::as_array);
        let args = args.into_iter().flatten().map(Value::as_str);
        match server.get("command")? {
            Value::Array(words) => words.iter().map(Value::as_str).chain(args).collect(),
            command => std::iter::once(command.as_str()).chain(args).collect(),
        }
    }
    words(one).is_some_and(|words_of_one| Some(words_of_one) == words(other))
}

/// Returns whether two entries of a server start the same program, with any arguments.
pub(super) fn starts_program(one: &Value, other: &Value) -> bool {
    fn program(server: &Value) -> Option<&str> {
        match server.get("command")? {
            Value::Array(words) => words.first()?.as_str(),
            command => command.as_str(),
        }
    }
    program(one).is_some_and(|of_one| Some(of_one) == program(other))
}

/// Puts insertions into a text.
pub(super) fn apply(text: &str, insertions: &[Insertion]) -> Option<String> {
    let (mut new, mut from) = (String::with_capacity(text.len()), 0);
    for one in insertions {
        new.push_str(text.get(from..one.at)?);
        new.push_str(&one.text);
        from = one.at;
    }
    new.push_str(text.get(from..)?);
    Some(new)
}

/// Takes insertions out of a text; returns `None` where one is not at its place.
pub(super) fn revert(text: &str, insertions: &[Insertion]) -> Option<String> {
    let (mut old, mut from, mut shift) = (String::with_capacity(text.len()), 0, 0);
    for one in insertions {
        let at = one.at + shift;
        old.push_str(text.get(from..at)?);
        from = at + one.text.len();
        if text.get(at..from)? != one.text {
            return None;
        }
        shift += one.text.len();
    }
    old.push_str(text.get(from..)?);
    Some(old)
}

/// A text with the values of an edit removed.
#[derive(Debug, PartialEq)]
pub(super) struct Undone {
    pub(super) text: String,
    /// The items that stay, because their values changed since.
    pub(super) kept: Vec<Item>,
    /// Whether the text was exactly as the edit had left it.
    pub(super) is_exact: bool,
}

/// Removes the values of an edit that are still equal. `is_untouched` means that the text is as the edit left it.
pub(super) fn undo(
    format: TextFormat,
    text: &str,
    edit: &Edit,
    is_untouched: bool,
) -> Result<Undone, EditError> {
    if is_untouched && let Some(text) = revert(text, &edit.insertions) {
        return Ok(Undone { text, kept: Vec::new(), is_exact: true });
    }
    let bom = if text.starts_with(BOM) { BOM } else { "" };
    let mut body = text.strip_prefix(BOM).unwrap_or(text).to_owned();
    let tree = parse(format, &body)?;
    let (ours, kept): (Vec<_>, Vec<_>) = edit
        .items
        .iter()
        .filter(|item| is_there(&tree, item))
        .partition(|item| is_equal(&tree, item));
    let kept: Vec<Item> = kept.into_iter().cloned().collect();
    let mut expected = tree;
    ours.iter().for_each(|item| prune(&mut expected, item, &edit.containers));
    // Where only other parts changed, the insertions are still there, each in one piece.
    if kept.is_empty()
        && let Some(without) = cut(&body, &edit.insertions)
        && parse(format, &without).is_ok_and(|read| read == expected)
    {
        return Ok(Undone { text: format!("{bom}{without}"), kept, is_exact: false });
    }
    for item in ours {
        let shorter = match format {
            TextFormat::Json => json_text::without(&body, item, &edit.containers),
            TextFormat::Toml => toml_text::without(&body, item, &edit.containers),
        };
        // The text could be parsed, so an error is one of a removal and not of the user.
        body = shorter.map_err(|_| EditError::Unsafe)?;
    }
    if parse(format, &body).map_err(|_| EditError::Unsafe)? != expected {
        return Err(EditError::Unsafe);
    }
    Ok(Undone { text: format!("{bom}{body}"), kept, is_exact: false })
}

/// Returns whether a property, or the array of an element, is there.
fn is_there(tree: &Value, item: &Item) -> bool {
    let found = item.path.iter().try_fold(tree, |at, key| at.get(key));
    match item.role {
        // An element that is gone was removed by its owner, which is no change of a value.
        Role::Element => {
            found.and_then(Value::as_array).is_some_and(|elements| elements.contains(&item.value))
        }
        Role::Server | Role::Setting => found.is_some(),
    }
}

fn is_equal(tree: &Value, item: &Item) -> bool {
    let found = item.path.iter().try_fold(tree, |at, key| at.get(key));
    item.role == Role::Element || found == Some(&item.value)
}

/// Cuts the text of each insertion, which must be there once, out of a text. A comma of its own is as far before the next
/// insertion as it was.
fn cut(body: &str, insertions: &[Insertion]) -> Option<String> {
    const COMMA: &str = ",";
    let mut text = body.to_owned();
    for (n, one) in insertions.iter().enumerate().filter(|(_, one)| one.text != COMMA) {
        let mut places = text.match_indices(&one.text).map(|(at, _)| at);
        let (at, None) = (places.next()?, places.next()) else { return None };
        text.replace_range(at..at + one.text.len(), "");
        let before = n.checked_sub(1).and_then(|n| insertions.get(n));
        if let Some(comma) = before.filter(|before| before.text == COMMA) {
            let place = at.checked_sub(one.at - comma.at + COMMA.len())?;
            if text.get(place..place + COMMA.len())? != COMMA {
                return None;
            }
            text.replace_range(place..place + COMMA.len(), "");
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests;
