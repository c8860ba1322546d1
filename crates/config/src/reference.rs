//! Generates the configuration reference from the documentation of [`Options`].

use std::fmt::Write as _;

use serde_json::Value;

use super::Options;
use super::layers::DEFAULTS;

/// Returns the reference as Markdown: every key with its type and meaning.
pub fn reference() -> String {
    let schema = schemars::schema_for!(Options).to_value();
    let defaults: Value = serde_json::from_str(DEFAULTS).unwrap_or(Value::Null);
    let mut page = String::from(
        "# Configuration\n\n\
         This page is generated from the code, and a test compares both.\n\n\
         Files are TOML, or JSON where the name ends in `.json`. They are read in this order, later \
         ones over earlier ones: built-in defaults, `/etc/sinew/config.toml`, \
         `.config/sinew/config.toml` in the home directory that the user database (`/etc/passwd`) names, \
         `$XDG_CONFIG_HOME/sinew/config.toml` (`$HOME/.config/sinew/config.toml` unless it is set) where \
         that is another file, `.sinew/config.toml` in the first root (it comes with \
         the repository, so it can only tighten: the dialect stays, `serve` and limits only shrink, \
         lists of what is denied only grow, until you trust it), `--config FILE`, `SINEW_…` variables, \
         flags. What a client starts `sinew mcp` with can only tighten too ([trust.md](trust.md)). \
         Variables add a file and never take that of the user database away; where it has no entry for you, \
         HOME counts as it is. `sinew config show` prints every value and where it came from.\n\n\
         A variable that is empty counts as not set. `SINEW_READ_ONLY` takes `1`, `true`, `yes` and \
         `on`, or `0`, `false`, `no` and `off`, which leave `read_only` to the files.\n",
    );
    table(&mut page, "", &schema, &schema, &defaults);
    page
}

/// Returns every key.
pub fn keys() -> Vec<String> {
    let schema = schemars::schema_for!(Options).to_value();
    let mut keys = Vec::new();
    gather(&mut keys, "", &schema, &schema);
    keys
}

fn gather(keys: &mut Vec<String>, prefix: &str, object: &Value, schema: &Value) {
    let properties = object.pointer("/properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match referred(property, schema) {
            Some(object) => gather(keys, &key, object, schema),
            None => keys.push(key),
        }
    }
}

fn table(page: &mut String, prefix: &str, object: &Value, schema: &Value, defaults: &Value) {
    let Some(properties) = object.pointer("/properties").and_then(Value::as_object) else { return };
    let mut inner = Vec::new();
    let mut rows = String::new();
    for (name, property) in properties {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match referred(property, schema) {
            Some(object) => inner.push((key, object)),
            None => {
                let default = defaults.get(&key).map(|d| format!("`{d}`")).unwrap_or_default();
                let meaning = described(property).replace('\n', " ").replace('|', "\\|");
                let _ = writeln!(rows, "| `{key}` | {} | {default} | {meaning} |", kind(property));
            }
        }
    }
    if !rows.is_empty() {
        let title = if prefix.is_empty() { "Top level".into() } else { format!("`[{prefix}]`") };
        let _ = write!(
            page,
            "\n## {title}\n\n{}\n\n| key | type | default | meaning |\n|---|---|---|---|\n{rows}",
            described(object)
        );
    }
    for (key, object) in inner {
        table(page, &key, object, schema, defaults);
    }
}

/// Resolves the schema reference of an optional table.
fn referred<'a>(property: &Value, schema: &'a Value) -> Option<&'a Value> {
    let any = property.get("anyOf")?.as_array()?;
    let reference = any.iter().find_map(|choice| choice.get("$ref")?.as_str())?;
    schema.pointer(reference.trim_start_matches('#'))
}

fn described(value: &Value) -> &str {
    value.get("description").and_then(Value::as_str).unwrap_or_default()
}

fn kind(property: &Value) -> String {
    let word = |value: &Value| value.as_str().filter(|word| *word != "null").map(str::to_owned);
    match property.get("type") {
        Some(Value::Array(words)) => words.iter().filter_map(word).collect::<Vec<_>>().join(" or "),
        Some(single) => word(single).unwrap_or_default(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_current() {
        sinew_testkit::golden(
            &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md"),
            &super::reference(),
        );
    }
}
