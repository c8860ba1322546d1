//! The MCP servers that a project's `.mcp.json` names, as entries of `[tools.mcp_servers]`.
//!
//! The file is of the project, so it counts only while the user trusts its content. Entries that start sinew itself are for
//! clients and left out.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::clients::{self, is_sinew};
use super::files::MCP_FILE;
use super::jsonc;
use super::options::McpServerOptions;

/// The table in it.
const TABLE: &str = "mcpServers";

/// The servers of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProjectServers {
    /// The entries by name, as the configuration has them.
    pub(crate) entries: Map<String, Value>,
    /// What is left out of them, in words.
    pub(crate) left_out: Vec<String>,
}

impl ProjectServers {
    /// Reads the text of a file.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let tree = jsonc::read(text).map_err(|error| error.to_string())?;
        let starts = clients::servers(Path::new(MCP_FILE), text)?;
        let mut servers = Self::default();
        for (name, written) in tree.get(TABLE).and_then(Value::as_object).into_iter().flatten() {
            let start = starts.iter().find(|start| start.name == *name);
            if start.is_some_and(|start| start.words.iter().any(|word| is_sinew(word))) {
                continue;
            }
            let Value::Object(written) = written else { continue };
            let entry = servers.entry(name, written);
            servers.entries.insert(name.clone(), Value::Object(entry));
        }
        Ok(servers)
    }

    /// Returns an entry with the keys that sinew knows; servers of such a file are visible.
    fn entry(&mut self, name: &str, written: &Map<String, Value>) -> Map<String, Value> {
        let mut entry = Map::from_iter([(String::from("internal_only"), json!(false))]);
        for (key, value) in written {
            match key.as_str() {
                // `command` and `url` say both.
                "type" | "transport" => {}
                "disabled" => {
                    entry.insert(String::from("enabled"), json!(*value != Value::Bool(true)));
                }
                "env" => {
                    let text = |value: &Value| match value {
                        Value::String(text) => Value::from(text.as_str()),
                        other => Value::from(other.to_string()),
                    };
                    let pairs = value.as_object().into_iter().flatten();
                    let env = pairs.map(|(name, value)| (name.clone(), text(value)));
                    entry.insert(key.clone(), Value::Object(env.collect()));
                }
                key if McpServerOptions::KEYS.contains(&key) => {
                    entry.insert(key.to_owned(), value.clone());
                }
                key => self.left_out.push(format!("`{name}.{key}`")),
            }
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_start_sinew_are_left_out() {
        let text = r#"{"mcpServers": {
            "sinew": {"command": "sinew", "args": ["mcp"]},
            "db": {"type": "stdio", "command": "npx", "args": ["-y", "db"], "env": {"PORT": 1}, "timeout": 5},
            "off": {"command": "x", "disabled": true},
            "web": {"type": "http", "url": "https://x.test/mcp", "network": true}
        }}"#;
        let servers = ProjectServers::read(text).expect("servers");
        let expected = json!({
            "db": {"internal_only": false, "command": "npx", "args": ["-y", "db"], "env": {"PORT": "1"}},
            "off": {"internal_only": false, "command": "x", "enabled": false},
            "web": {"internal_only": false, "url": "https://x.test/mcp", "network": true},
        });
        assert_eq!(Value::Object(servers.entries), expected);
        assert_eq!(servers.left_out, ["`db.timeout`"]);
        for odd in ["{}", "[]", r#"{"mcpServers": []}"#, r#"{"mcpServers": {"a": 1}}"#] {
            assert_eq!(ProjectServers::read(odd), Ok(ProjectServers::default()), "{odd}");
        }
        assert!(ProjectServers::read("{").is_err());
    }
}
