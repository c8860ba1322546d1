//! The values that a setup adds, and the insertions that add them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The format of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TextFormat {
    /// JSON with comments and trailing commas.
    Json,
    Toml,
}

/// How a value is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    /// The server: a different value of this name is an error.
    Server,
    /// A setting: a different value stays and is reported.
    Setting,
    /// An element of the array at the path.
    Element,
}

/// A value at a path of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Item {
    pub(super) path: Vec<String>,
    pub(super) value: Value,
    pub(super) role: Role,
}

impl Item {
    /// Returns the path as a reader writes it.
    pub(super) fn shown(&self) -> String {
        self.path.join(".")
    }
}

/// A text at an offset of the old text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Insertion {
    pub(super) at: usize,
    pub(super) text: String,
}

/// The additions to a text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Edit {
    /// In the order of their offsets.
    pub(super) insertions: Vec<Insertion>,
    /// The values that the text lacked.
    pub(super) items: Vec<Item>,
    /// The objects and arrays that the text lacked.
    pub(super) containers: Vec<Vec<String>>,
}

/// Adds an item to a tree.
pub(super) fn graft(tree: &mut Value, item: &Item) {
    let mut at = tree;
    let (parents, last) = match (item.role, item.path.split_last()) {
        (Role::Element, _) | (_, None) => (item.path.as_slice(), None),
        (_, Some((last, parents))) => (parents, Some(last)),
    };
    for (depth, key) in parents.iter().enumerate() {
        let is_array = last.is_none() && depth + 1 == parents.len();
        let empty = if is_array { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
        let Some(object) = at.as_object_mut() else { return };
        at = object.entry(key.clone()).or_insert(empty);
    }
    match (at, last) {
        (Value::Array(elements), None) => elements.push(item.value.clone()),
        (Value::Object(object), Some(key)) => drop(object.insert(key.clone(), item.value.clone())),
        _ => {}
    }
}

/// Removes an item from a tree, and then the containers that are empty.
pub(super) fn prune(tree: &mut Value, item: &Item, containers: &[Vec<String>]) {
    let (parents, last) = match (item.role, item.path.split_last()) {
        (Role::Element, _) | (_, None) => (item.path.as_slice(), None),
        (_, Some((last, parents))) => (parents, Some(last)),
    };
    match (at_mut(tree, parents), last) {
        (Some(Value::Array(elements)), None) => elements.retain(|one| *one != item.value),
        (Some(Value::Object(object)), Some(key)) => drop(object.shift_remove(key)),
        _ => {}
    }
    for path in containers.iter().rev().filter(|path| item.path.starts_with(path)) {
        let is_empty = at_mut(tree, path).is_some_and(|value| is_empty(value));
        let Some((key, parents)) = path.split_last() else { continue };
        if let (true, Some(Value::Object(object))) = (is_empty, at_mut(tree, parents)) {
            object.shift_remove(key);
        }
    }
}

fn at_mut<'a>(tree: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(tree, |at, key| at.get_mut(key))
}

/// Returns whether an object or array has nothing in it.
pub(super) fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}
