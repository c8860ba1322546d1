//! Finds the lines of keys and rules in TOML texts, for origins and errors.

use std::collections::BTreeMap;
use std::path::Path;

use super::ConfigError;

/// The key of the rules.
pub(crate) const RULES: &str = "rules";

/// Returns the line of every key of a TOML document, whose text it gets beside it.
pub(crate) fn lines_of_document(
    document: &toml_edit::Document<&str>,
    text: &str,
) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    collect_lines("", document.as_table(), text, &mut lines);
    lines
}

/// Returns the line of every rule in a TOML text.
pub(crate) fn lines_of_rules(text: &str) -> Vec<usize> {
    let document = toml_edit::Document::parse(text);
    let lines = document.map(|document| lines_of_document(&document, text)).unwrap_or_default();
    let line = |at: usize| lines.get(&format!("{RULES}[{at}]")).copied();
    (0..).map_while(line).collect()
}

/// Prefixes an error about rules with the file, line and column of its key.
pub(crate) fn placed(path: &Path, text: &str, error: ConfigError) -> ConfigError {
    let key = error.0.split('`').find(|part| part.starts_with(RULES));
    let at = key.and_then(|key| place_of(text, key));
    let at = at.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
    ConfigError(format!("{}{at}: {}", path.display(), error.0.trim_end()))
}

/// Returns the line and column of a key's value, or of its parent if it is missing.
fn place_of(text: &str, key: &str) -> Option<(usize, usize)> {
    let document = toml_edit::Document::parse(text).ok()?;
    let mut item = document.as_item();
    let mut found = None;
    for part in key.split(['.', '[']) {
        let next = match part.strip_suffix(']') {
            Some(at) => at.parse::<usize>().ok().and_then(|at| item.get(at)),
            None => item.get(part),
        };
        let Some(next) = next else { break };
        item = next;
        found = item.span().or(found);
    }
    let before = text.get(..found?.start)?;
    let line = before.rsplit('\n').next().unwrap_or_default();
    Some((before.matches('\n').count() + 1, line.chars().count() + 1))
}

fn collect_lines(
    prefix: &str,
    table: &dyn toml_edit::TableLike,
    text: &str,
    lines: &mut BTreeMap<String, usize>,
) {
    for (name, item) in table.iter() {
        let key = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        if let Some(inner) = item.as_table_like() {
            add_line(key.clone(), item.span(), text, lines);
            collect_lines(&key, inner, text, lines);
        } else {
            let tables =
                item.as_array_of_tables().into_iter().flatten().map(toml_edit::Table::span);
            let values = item.as_array().into_iter().flatten().map(toml_edit::Value::span);
            for (at, span) in tables.chain(values).enumerate() {
                add_line(format!("{key}[{at}]"), span, text, lines);
            }
            let first = item.as_array_of_tables().and_then(|tables| tables.get(0)?.span());
            add_line(key, item.span().or(first), text, lines);
        }
    }
}

fn add_line(
    key: String,
    span: Option<std::ops::Range<usize>>,
    text: &str,
    lines: &mut BTreeMap<String, usize>,
) {
    if let Some(span) = span {
        let before = text.get(..span.start).unwrap_or_default();
        lines.insert(key, before.matches('\n').count() + 1);
    }
}
