//! Unknown keys of a JSON configuration: warnings in the dialect clawft, errors in any other.
//!
//! The names of `[tools.commandPolicy]` and `[tools.exec]` are those of clawft's own JSON file, so that file is given
//! to `--config` as it is; most of its keys are about other things than tools. Which dialect counts is only known
//! once all layers are there. Inside sinew's own sections an unknown key stays an error.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{ConfigError, Layers, Origin};
use crate::options::McpServerOptions;

/// The most unknown keys of a file that are named.
const MAX_NAMED: usize = 50;

/// The unknown keys of one file, and the error that they are in other dialects.
#[derive(Debug, Clone)]
pub(super) struct UnknownKeys {
    keys: Vec<String>,
    origin: Origin,
    error: String,
}

impl UnknownKeys {
    pub(super) fn new(keys: Vec<String>, origin: Origin, error: ConfigError) -> Self {
        Self { keys, origin, error: error.0 }
    }
}

/// The sections that clawft has too.
const SECTIONS: [&str; 6] =
    ["", "tools.", "tools.commandPolicy.", "tools.urlPolicy.", "tools.exec.", "tools.web_search."];

/// The keys that clawft also reads in snake case: the section, the key as its program may have it, and as its page has it.
const SNAKE_CASE: [(&str, &str, &str); 5] = [
    ("/tools", "command_policy", "commandPolicy"),
    ("/tools", "url_policy", "urlPolicy"),
    ("/tools/urlPolicy", "allow_private", "allowPrivate"),
    ("/tools/urlPolicy", "allowed_domains", "allowedDomains"),
    ("/tools/urlPolicy", "blocked_domains", "blockedDomains"),
];

/// Removes the unknown keys of a tree at its top and in the sections that clawft has too; returns their names.
pub(super) fn take(tree: &mut Value) -> Vec<String> {
    move_endpoint(tree);
    rename_snake_case(tree);
    let known = crate::keys();
    let mut taken = Vec::new();
    for section in SECTIONS {
        let names: BTreeSet<&str> = known
            .iter()
            .filter_map(|key| key.strip_prefix(section))
            .filter_map(|rest| rest.split('.').next())
            .collect();
        let part =
            section.split_terminator('.').try_fold(&mut *tree, |part, name| part.get_mut(name));
        let Some(Value::Object(part)) = part else { continue };
        let all: Map<String, Value> = std::mem::take(part);
        for (name, value) in all {
            match names.contains(name.as_str()) {
                true => _ = part.insert(name, value),
                false => taken.push(format!("{section}{name}")),
            }
        }
    }
    taken.extend(take_of_servers(tree));
    taken
}

/// Removes the unknown keys of MCP servers.
fn take_of_servers(tree: &mut Value) -> Vec<String> {
    let servers = tree.pointer_mut("/tools/mcp_servers").and_then(Value::as_object_mut);
    let mut taken = Vec::new();
    for (name, server) in servers.into_iter().flatten() {
        let Value::Object(members) = server else { continue };
        members.retain(|key, _| {
            let is_known = McpServerOptions::KEYS.contains(&key.as_str());
            if !is_known {
                taken.push(format!("{}.{name}.{key}", McpServerOptions::TABLE));
            }
            is_known
        });
    }
    taken
}

/// Moves the endpoint of `tools.web.search`, as clawft's program has it, to `tools.web_search`, as its page has it.
fn move_endpoint(tree: &mut Value) {
    let written = tree.pointer_mut("/tools/web/search").and_then(Value::as_object_mut);
    let Some(endpoint) = written.and_then(|search| search.remove("endpoint")) else { return };
    if let Some(web) = tree.pointer_mut("/tools/web").and_then(Value::as_object_mut)
        && web.get("search").and_then(Value::as_object).is_some_and(Map::is_empty)
    {
        web.remove("search");
    }
    let Some(tools) = tree.get_mut("tools").and_then(Value::as_object_mut) else { return };
    if tools.get("web").and_then(Value::as_object).is_some_and(Map::is_empty) {
        tools.remove("web");
    }
    let search = tools.entry("web_search").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(search) = search
        && search.get("endpoint").and_then(Value::as_str).is_none_or(str::is_empty)
    {
        search.insert(String::from("endpoint"), endpoint);
    }
}

/// Renames keys in snake case, unless the other spelling is there too.
fn rename_snake_case(tree: &mut Value) {
    for (section, snake, camel) in SNAKE_CASE {
        let Some(section) = tree.pointer_mut(section).and_then(Value::as_object_mut) else {
            continue;
        };
        if !section.contains_key(camel)
            && let Some(value) = section.remove(snake)
        {
            section.insert(camel.to_owned(), value);
        }
    }
}

/// Makes the unknown keys of all files warnings, or returns the first error if the dialect is not clawft.
pub(super) fn settle(layers: &mut Layers) -> Result<(), ConfigError> {
    let dialect = layers.values.get("dialect");
    let is_clawft = dialect.is_some_and(|(name, _)| *name == sinew_dialects::CLAWFT.name);
    for UnknownKeys { keys, origin, error } in std::mem::take(&mut layers.unknown) {
        if !is_clawft {
            return Err(ConfigError(error));
        }
        for key in keys.iter().take(MAX_NAMED) {
            layers.warn(format!("{origin}: `{key}` is left out: sinew has no such key"));
        }
        if MAX_NAMED < keys.len() {
            let n_more = keys.len() - MAX_NAMED;
            layers
                .warn(format!("{origin}: {n_more} more keys are left out: sinew has no such keys"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    /// Returns the warnings of a JSON file in a dialect, or its error.
    fn warnings(tree: &Value, dialect: &str) -> Result<Vec<String>, String> {
        let mut layers = Layers::with_defaults().expect("defaults");
        layers
            .add_named(Path::new("c.json"), tree.to_string())
            .map_err(|error| error.to_string())?;
        layers.set("dialect", Value::from(dialect), Origin::Flag("--dialect"));
        layers.merge().map(|layered| layered.warnings).map_err(|error| error.to_string())
    }

    #[test]
    fn unknown_keys_warn_in_clawft_alone() {
        let tree = json!({
            "agents": {"x": 1},
            "read_only": true,
            "tools": {
                "mcp_servers": {"a": {"command": "x", "transport": "stdio"}},
                "exec": {"timeout": 45, "shell": "zsh"},
                "commandPolicy": {"mode": "denylist", "level": 1},
                "fs": {"track_reads": true},
            },
        });
        let left_out = |key: &str| format!("c.json: `{key}` is left out: sinew has no such key");
        assert_eq!(
            warnings(&tree, "clawft"),
            Ok(vec![
                left_out("agents"),
                left_out("tools.commandPolicy.level"),
                left_out("tools.exec.shell"),
                left_out("tools.mcp_servers.a.transport"),
            ])
        );
        for dialect in ["native", "molf"] {
            let error = warnings(&tree, dialect).expect_err(dialect);
            assert!(error.starts_with("c.json: unknown field `agents`"), "{error}");
        }
        let known = json!({
            "tools": {
                "exec": {"timeout": 45},
                "command_policy": {"mode": "denylist"},
                "url_policy": {"allowed_domains": ["wiki.example"], "blockedDomains": ["x.org"]},
            },
        });
        for dialect in ["clawft", "native"] {
            assert_eq!(warnings(&known, dialect), Ok(Vec::new()), "{dialect}");
        }
        for wrong in [
            json!({"run": {"sandbx": "none"}}),
            json!({"tools": {"fs": {"track_read": true}}}),
            json!({"tools": {"exec": {"timeout": "long"}}}),
            json!({"tools": 1}),
        ] {
            assert!(warnings(&wrong, "clawft").is_err(), "{wrong}");
        }
        let many: Value = (0..60).map(|n| (format!("k{n}"), Value::Null)).collect();
        let named = warnings(&many, "clawft").expect("warnings");
        assert_eq!(named.len(), MAX_NAMED + 1);
        assert!(named[MAX_NAMED].contains("10 more keys"), "{}", named[MAX_NAMED]);
    }
}
