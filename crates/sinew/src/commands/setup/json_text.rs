//! Inserts into JSON with comments and removes from it, as text: the parser gives offsets, and no printer is involved.

use std::ops::Range;

use jsonc_parser::ast::{self, Object};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Number, Value};

use super::error::EditError;
use super::item::{self, Insertion, Item, Role};
use super::json_layout::{self, Layout, Place};

/// The extensions that clients read: comments and trailing commas.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The most brackets that may be open at once.
const MAX_DEPTH: usize = 256;

/// Parses a text; one without a value is an empty object.
pub(super) fn parse(body: &str) -> Result<Value, EditError> {
    match tree(body)? {
        Some(root) => to_value(&root),
        None => Ok(Value::Object(Map::new())),
    }
}

/// Returns whether a text holds a value, and not only white space and comments.
pub(super) fn has_value(body: &str) -> bool {
    tree(body).is_ok_and(|root| root.is_some())
}

/// Returns the offsets of all strings and numbers, each with its path.
pub(super) fn leaves(body: &str) -> Vec<(Vec<String>, Range<usize>)> {
    fn add(node: &ast::Value<'_>, path: &[String], all: &mut Vec<(Vec<String>, Range<usize>)>) {
        match node {
            ast::Value::StringLit(_) | ast::Value::NumberLit(_) => {
                all.push((path.to_owned(), node.start()..node.end()));
            }
            ast::Value::Array(array) => array.elements.iter().for_each(|one| add(one, path, all)),
            ast::Value::Object(object) => {
                for property in &object.properties {
                    let name = property.name.as_str().to_owned();
                    let path: Vec<String> = path.iter().cloned().chain([name]).collect();
                    add(&property.value, &path, all);
                }
            }
            ast::Value::BooleanLit(_) | ast::Value::NullKeyword(_) => {}
        }
    }
    let mut all = Vec::new();
    if let Ok(Some(root)) = tree(body) {
        add(&root, &[], &mut all);
    }
    all
}

fn tree(body: &str) -> Result<Option<ast::Value<'_>>, EditError> {
    check_depth(body)?;
    let parsed = parse_to_ast(body, &CollectOptions::default(), &OPTIONS);
    let parsed = parsed.map_err(|error| EditError::Syntax {
        line: error.line_display(),
        column: error.column_display(),
        problem: error.kind().to_string().to_lowercase(),
    })?;
    Ok(parsed.value)
}

/// Refuses a text that is nested deeper than the parser, which calls itself, has stack for.
fn check_depth(body: &str) -> Result<(), EditError> {
    let (mut depth, mut line) = (0_usize, 1);
    let mut rest = body;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '"' => json_layout::end_of_string(rest),
            '/' => json_layout::end_of_comment(rest).unwrap_or(1),
            other => other.len_utf8(),
        };
        match first {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if MAX_DEPTH < depth {
            let problem = format!("more than {MAX_DEPTH} brackets are open");
            return Err(EditError::Syntax { line, column: 1, problem });
        }
        let (passed, after) = rest.split_at_checked(len).ok_or(EditError::Unsafe)?;
        line += passed.matches('\n').count();
        rest = after;
    }
    Ok(())
}

fn to_value(node: &ast::Value<'_>) -> Result<Value, EditError> {
    Ok(match node {
        ast::Value::StringLit(text) => Value::String(text.value.to_string()),
        // A number that no value holds is kept as its text: it is only compared.
        ast::Value::NumberLit(number) => match number.value.parse::<Number>() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::String(number.value.to_owned()),
        },
        ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(array) => {
            Value::Array(array.elements.iter().map(to_value).collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => {
            let mut map = Map::new();
            for property in &object.properties {
                let name = property.name.as_str();
                if map.insert(name.to_owned(), to_value(&property.value)?).is_some() {
                    return Err(EditError::Twice(name.to_owned()));
                }
            }
            Value::Object(map)
        }
    })
}

/// An object or array that gets new children.
struct Parent {
    place: Place,
    /// The new children: a tree whose properties or elements are added.
    new: Value,
}

/// Returns the insertions that add items, none of which is in the text.
pub(super) fn insertions(body: &str, items: &[Item]) -> Result<Vec<Insertion>, EditError> {
    let layout = Layout::of(body);
    let Some(root) = tree(body)? else {
        let mut new = Value::Object(Map::new());
        items.iter().for_each(|item| item::graft(&mut new, item));
        return Ok(vec![layout.whole(&new)]);
    };
    let mut parents: Vec<Parent> = Vec::new();
    for item in items {
        let (parent, depth) = deepest(&root, &item.path);
        let place = place(parent).ok_or(EditError::Unsafe)?;
        let rest =
            Item { path: item.path.get(depth..).unwrap_or_default().to_vec(), ..item.clone() };
        let known = parents.iter_mut().find(|known| known.place.open == place.open);
        match known {
            Some(known) => item::graft(&mut known.new, &rest),
            None => {
                let mut new = match rest.path.is_empty() {
                    true => Value::Array(Vec::new()),
                    false => Value::Object(Map::new()),
                };
                item::graft(&mut new, &rest);
                parents.push(Parent { place, new });
            }
        }
    }
    Ok(parents.iter().flat_map(|parent| layout.added(&parent.place, &parent.new)).collect())
}

/// Returns the deepest value on a path, and its depth.
fn deepest<'a, 'b>(root: &'b ast::Value<'a>, path: &[String]) -> (&'b ast::Value<'a>, usize) {
    let (mut at, mut depth) = (root, 0);
    for key in path {
        let Some(property) = at.as_object().and_then(|object| object.get(key)) else { break };
        at = &property.value;
        depth += 1;
    }
    (at, depth)
}

fn place(value: &ast::Value<'_>) -> Option<Place> {
    let range = value.range();
    let children: Vec<Range<usize>> = match value {
        ast::Value::Object(object) => object.properties.iter().map(span).collect(),
        ast::Value::Array(array) => array.elements.iter().map(span).collect(),
        _ => return None,
    };
    Some(Place { open: range.start, close: range.end.checked_sub(1)?, children })
}

fn span(node: &impl jsonc_parser::common::Ranged) -> Range<usize> {
    node.start()..node.end()
}

/// Removes an item, and then the containers of an edit that are empty.
pub(super) fn without(
    body: &str,
    item: &Item,
    containers: &[Vec<String>],
) -> Result<String, EditError> {
    let mut text = body.to_owned();
    let is_element = item.role == Role::Element;
    let Some((last, parents)) = item.path.split_last() else { return Err(EditError::Unsafe) };
    if is_element {
        while let Some(shorter) = without_element(&text, &item.path, &item.value)? {
            text = shorter;
        }
    } else {
        text = without_property(&text, parents, last)?;
    }
    for path in containers.iter().rev().filter(|path| item.path.starts_with(path)) {
        let tree = parse(&text)?;
        let value = path.iter().try_fold(&tree, |at, key| at.get(key));
        if let (true, Some((key, above))) = (value.is_some_and(item::is_empty), path.split_last()) {
            text = without_property(&text, above, key)?;
        }
    }
    Ok(text)
}

fn without_property(body: &str, parents: &[String], key: &str) -> Result<String, EditError> {
    let root = tree(body)?.ok_or(EditError::Unsafe)?;
    let (parent, depth) = deepest(&root, parents);
    let index =
        parent.as_object().filter(|_| depth == parents.len()).and_then(|object| index(object, key));
    let (Some(index), Some(place)) = (index, place(parent)) else { return Err(EditError::Unsafe) };
    Ok(Layout::of(body).removed(&place, index))
}

fn index(object: &Object<'_>, key: &str) -> Option<usize> {
    object.properties.iter().position(|property| property.name.as_str() == key)
}

fn without_element(
    body: &str,
    path: &[String],
    value: &Value,
) -> Result<Option<String>, EditError> {
    let root = tree(body)?.ok_or(EditError::Unsafe)?;
    let (parent, depth) = deepest(&root, path);
    let Some(array) = parent.as_array().filter(|_| depth == path.len()) else { return Ok(None) };
    let found = array.elements.iter().position(|one| to_value(one).as_ref() == Ok(value));
    let (Some(index), Some(place)) = (found, place(parent)) else { return Ok(None) };
    Ok(Some(Layout::of(body).removed(&place, index)))
}
