//! Parses the MCP client configuration files in a project and the servers that they start.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::jsonc;

/// The client configuration files in a project.
pub const FILES: [&str; 5] =
    [".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", "opencode.json", ".codex/config.toml"];

/// The tables in those files that map server names to servers.
const TABLES: [&str; 4] = ["mcpServers", "servers", "mcp", "mcp_servers"];

/// A server as a client starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The name in the table.
    pub name: String,
    /// The program and its arguments; empty for a server with a URL.
    pub words: Vec<String>,
    /// The environment variables that the client sets.
    pub variables: BTreeMap<String, String>,
    /// The working directory, if the file sets one.
    pub dir: Option<String>,
    /// Whether the entry names an env file with more variables.
    pub has_env_file: bool,
}

impl Server {
    /// Returns whether it may start sinew in a way that is not analysed:
    /// by a shell or wrapper program, with client-side expansions, or with an env file.
    pub fn is_unclear(&self) -> bool {
        let at = self.words.iter().position(|word| is_sinew(word));
        let in_front = self.words.iter().take(at.unwrap_or(self.words.len()));
        let is_env = |(n, word): (usize, &String)| match n {
            0 => word.rsplit('/').next() == Some("env"),
            _ => word.contains('=') && !word.starts_with('-'),
        };
        let mut texts = self.words.iter().chain(self.variables.values());
        if at.is_some() {
            let is_open = |text: &String| {
                let at = text.find("{env:").or_else(|| text.find("{file:"));
                at.is_some_and(|at| !text[..at].ends_with('$'))
            };
            return self.has_env_file || texts.any(is_open) || !in_front.enumerate().all(is_env);
        }
        let program = self.words.first().map(String::as_str).unwrap_or_default();
        let is_shell = SHELLS.contains(&program.rsplit('/').next().unwrap_or_default());
        let is_of_project = program.starts_with('.') || program.starts_with("${");
        is_shell || is_of_project || texts.any(|text| text.contains("sinew"))
    }
}

/// Shells, which run a command text or script.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"];

/// Returns whether a word names the program `sinew`.
pub fn is_sinew(word: &str) -> bool {
    word.rsplit('/').next() == Some("sinew")
}

/// Parses the servers of a file. The error names the place and the reason.
pub fn servers(path: &Path, text: &str) -> Result<Vec<Server>, String> {
    let entries = entries(path, text)?;
    Ok(entries.iter().filter_map(|(name, written)| server(name, written)).collect())
}

/// Returns the entries of a file as they are written.
pub(crate) fn entries(path: &Path, text: &str) -> Result<Vec<(String, Value)>, String> {
    let tree: Value = if path.extension().is_some_and(|extension| extension == "toml") {
        toml_edit::de::from_str(text).map_err(|error| error.to_string())?
    } else {
        jsonc::read(text).map_err(|error| error.to_string())?
    };
    let tables = TABLES.iter().filter_map(|table| tree.get(table)?.as_object());
    Ok(tables.flatten().map(|(name, written)| (name.clone(), written.clone())).collect())
}

pub(crate) fn server(name: &str, written: &Value) -> Option<Server> {
    let written = written.as_object()?;
    let texts = |value: Option<&Value>| -> Vec<String> {
        match value {
            Some(Value::String(word)) => vec![word.clone()],
            Some(Value::Array(words)) => {
                words.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect()
            }
            _ => Vec::new(),
        }
    };
    let mut words = texts(written.get("command"));
    words.extend(texts(written.get("args")));
    let variables =
        ["env", "environment"].into_iter().filter_map(|key| written.get(key)?.as_object());
    let variables = variables.flatten().filter_map(|(name, value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return None,
        };
        Some((name.clone(), value))
    });
    Some(Server {
        name: name.to_owned(),
        words,
        variables: variables.collect(),
        dir: written.get("cwd").and_then(Value::as_str).map(str::to_owned),
        has_env_file: written.contains_key("envFile"),
    })
}

/// Returns a server's variables that act before sinew runs: those of the dynamic loader, and `PATH`.
pub fn loader_variables(server: &Server) -> Vec<(String, String)> {
    let acts = |name: &str| name.starts_with("LD_") || ["GLIBC_TUNABLES", "PATH"].contains(&name);
    let at = server.words.iter().position(|word| is_sinew(word));
    let at = at.or_else(|| server.is_unclear().then_some(server.words.len()));
    let Some(at) = at else { return Vec::new() };
    // Wrappers such as `env` set variables in front of the program.
    let set = server.words.iter().take(at).filter_map(|word| word.split_once('='));
    let variables = server.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all = variables.chain(set).filter(|(name, _)| acts(name));
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_in_the_files_of_clients() {
        let codex = "[mcp_servers.s]\ncommand = \"sinew\"\nargs = [\"mcp\"]\nenv = { A = \"b\" }\n";
        for (file, text) in [
            (
                ".mcp.json",
                r#"{"mcpServers": {"s": {"command": "sinew", "args": ["mcp"], "env": {"A": "b"}}}}"#,
            ),
            (
                ".vscode/mcp.json",
                "{\"servers\": {\"s\": {\"command\": \"sinew\", \"args\": [\"mcp\"], // x\n\"env\": {\"A\": \"b\"},}}}",
            ),
            (
                "opencode.json",
                r#"{"mcp": {"s": {"command": ["sinew", "mcp"], "environment": {"A": "b"}}}}"#,
            ),
            (".codex/config.toml", codex),
        ] {
            let found = servers(Path::new(file), text).expect(file);
            let server = Server {
                name: String::from("s"),
                words: vec![String::from("sinew"), String::from("mcp")],
                variables: BTreeMap::from([(String::from("A"), String::from("b"))]),
                dir: None,
                has_env_file: false,
            };
            assert_eq!(found, [server], "{file}");
        }
        let error = servers(Path::new(".mcp.json"), "{\n  \"a\" 1}").expect_err("no JSON");
        assert!(error.contains("line 2 column 7"), "{error}");
        for odd in ["{}", "[]", "1", r#"{"mcpServers": [1]}"#, r#"{"mcpServers": {"s": 1}}"#] {
            assert_eq!(servers(Path::new("x.json"), odd).expect(odd), [], "{odd}");
        }
    }

    #[test]
    fn unclear_starts_are_told_apart() {
        for (written, expected) in [
            (r#"{"command": "sinew", "args": ["mcp"]}"#, false),
            (r#"{"command": "/usr/bin/env", "args": ["A=b", "/x/sinew", "mcp"]}"#, false),
            (r#"{"command": "npx", "args": ["server"], "envFile": ".env"}"#, false),
            (r#"{"command": "env", "args": ["-S", "A=b sinew mcp"]}"#, true),
            (r#"{"command": "env", "args": ["-u", "A", "sinew", "mcp"]}"#, true),
            (r#"{"command": "sh", "args": ["-c", "exec sinew mcp --approvals allow"]}"#, true),
            (r#"{"command": "unshare", "args": ["-U", "sinew", "mcp"]}"#, true),
            (r#"{"command": "sinew", "args": ["mcp"], "envFile": ".env"}"#, true),
            (r#"{"command": "sinew", "args": ["mcp"], "env": {"HOME": "{env:X}"}}"#, true),
            (r#"{"command": "sinew", "args": ["mcp"], "env": {"HOME": "${env:HOME}"}}"#, false),
            (r#"{"command": "sh", "args": ["-c", "$X"], "env": {"X": "exec sinew mcp"}}"#, true),
            (r#"{"command": "./run.sh"}"#, true),
            (r#"{"command": "${workspaceFolder}/run"}"#, true),
        ] {
            let text = format!(r#"{{"servers": {{"s": {written}}}}}"#);
            let found = servers(Path::new("x.json"), &text).expect(written);
            assert_eq!(found.iter().any(Server::is_unclear), expected, "{written}");
        }
    }
}
