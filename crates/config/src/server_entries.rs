//! MCP servers in the files of clients, as entries of `[tools.mcp_servers]`. Entries that start sinew itself are for
//! clients, and left out.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::clients::{self, is_sinew};
use super::options::McpServerOptions;

/// The servers of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServerEntries {
    /// The entries by name, as the configuration has them.
    pub(crate) entries: Map<String, Value>,
    /// The keys that sinew does not know.
    pub(crate) unknown: Vec<String>,
}

impl ServerEntries {
    /// Reads the text of a client's file. Its servers are visible, unless an entry says otherwise.
    pub(crate) fn read(file: &Path, text: &str) -> Result<Self, String> {
        let mut servers = Self::default();
        for (name, written) in clients::entries(file, text)? {
            let starts_sinew = clients::server(&name, &written)
                .is_some_and(|server| program(&server.words).is_some_and(is_sinew));
            if let (false, Value::Object(written)) = (starts_sinew, &written) {
                let visible = (String::from("internal_only"), json!(false));
                let mut entry = Map::from_iter([visible]);
                servers.add(&name, written, &mut entry);
                servers.entries.insert(name, Value::Object(entry));
            }
        }
        Ok(servers)
    }

    /// Adds the keys of an entry that sinew knows.
    pub(crate) fn add(
        &mut self,
        name: &str,
        written: &Map<String, Value>,
        entry: &mut Map<String, Value>,
    ) {
        for (key, value) in written {
            match key.as_str() {
                // `command` and `url` say both.
                "type" | "transport" => {}
                "disabled" => {
                    entry.insert(String::from("enabled"), json!(*value != Value::Bool(true)));
                }
                "env" | "environment" => {
                    entry.insert(String::from("env"), texts_of(value));
                }
                "command" if value.is_array() => {
                    let mut words = value.as_array().cloned().unwrap_or_default();
                    if !words.is_empty() {
                        entry.insert(String::from("command"), words.remove(0));
                        entry.insert(String::from("args"), Value::Array(words));
                    }
                }
                key if McpServerOptions::KEYS.contains(&key) => {
                    entry.insert(key.to_owned(), value.clone());
                }
                key => self.unknown.push(format!("{name}.{key}")),
            }
        }
    }

    /// Returns the entries as options, or why one is none.
    pub(crate) fn options(
        entries: &Map<String, Value>,
    ) -> Result<std::collections::BTreeMap<String, McpServerOptions>, String> {
        let read = |(name, entry): (&String, &Value)| {
            let options = serde_json::from_value(entry.clone());
            let options = options.map_err(|error| format!("the server `{name}`: {error}"))?;
            Ok((name.clone(), options))
        };
        entries.iter().map(read).collect()
    }
}

/// Programs that start the one behind them.
const STARTERS: [&str; 6] = ["env", "npx", "bunx", "pnpx", "uvx", "nice"];

/// Returns the program of a command line, without what starts it.
fn program(words: &[String]) -> Option<&str> {
    let mut words = words.iter().map(String::as_str);
    let first = words.next()?;
    if !STARTERS.contains(&first.rsplit('/').next()?) {
        return Some(first);
    }
    words.find(|word| !word.starts_with('-') && !word.contains('='))
}

/// Returns variables whose values are texts.
fn texts_of(value: &Value) -> Value {
    let text = |value: &Value| match value {
        Value::String(text) => Value::from(text.as_str()),
        other => Value::from(other.to_string()),
    };
    let pairs = value.as_object().into_iter().flatten();
    Value::Object(pairs.map(|(name, value)| (name.clone(), text(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_start_sinew_are_left_out() {
        let read = |text: &str| ServerEntries::read(Path::new(".mcp.json"), text);
        let text = r#"{"mcpServers": {
            "sinew": {"command": "sinew", "args": ["mcp"]},
            "own": {"command": "/usr/bin/env", "args": ["-i", "A=b", "/opt/sinew", "mcp"]},
            "fs": {"command": "fs-server", "args": ["/src/sinew"]},
            "db": {"type": "stdio", "command": "npx", "args": ["-y", "db"], "env": {"PORT": 1}, "timeout": 5},
            "off": {"command": ["x", "y"], "disabled": true},
            "web": {"type": "http", "url": "https://x.test/mcp", "network": true}
        }}"#;
        let servers = read(text).expect("servers");
        let expected = json!({
            "db": {"internal_only": false, "command": "npx", "args": ["-y", "db"], "env": {"PORT": "1"}},
            "fs": {"internal_only": false, "command": "fs-server", "args": ["/src/sinew"]},
            "off": {"internal_only": false, "command": "x", "args": ["y"], "enabled": false},
            "web": {"internal_only": false, "url": "https://x.test/mcp", "network": true},
        });
        assert_eq!(ServerEntries::options(&servers.entries).map(|all| all.len()), Ok(4));
        assert_eq!(Value::Object(servers.entries), expected);
        assert_eq!(servers.unknown, ["db.timeout"]);
        for odd in ["{}", "[]", r#"{"mcpServers": []}"#, r#"{"mcpServers": {"a": 1}}"#] {
            assert_eq!(read(odd), Ok(ServerEntries::default()), "{odd}");
        }
        assert!(read("{").is_err());
    }
}
