//! What the files of MCP clients in a project start, and what of it would loosen.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, FromArgMatches};
use serde_json::Value;

use crate::cli::{Cli, Command};
use crate::config::env_vars;
use crate::jsonc;
use crate::wiring::{Places, Said};

/// Where clients look for servers in a project.
pub(crate) const FILES: [&str; 5] =
    [".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", "opencode.json", ".codex/config.toml"];

/// The tables of such files that hold servers by name.
const TABLES: [&str; 4] = ["mcpServers", "servers", "mcp", "mcp_servers"];

/// A server as a client starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// Its name there.
    pub(crate) name: String,
    /// The program and its arguments; empty where it is reached by an address.
    pub(crate) words: Vec<String>,
    /// Its variables.
    pub(crate) variables: BTreeMap<String, String>,
    /// The directory in which it starts, where that is written.
    pub(crate) dir: Option<String>,
    /// Whether more variables are in a file that it names.
    pub(crate) has_env_file: bool,
}

impl Server {
    /// Returns whether it may start sinew in a way that is not analysed: by a shell, by another program in front of
    /// it, with words that only the client expands, or with a file of variables.
    pub(crate) fn is_unclear(&self) -> bool {
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

/// Programs that start what a text or a script says.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"];

fn is_sinew(word: &str) -> bool {
    word.rsplit('/').next() == Some("sinew")
}

/// Reads the servers of a file. An error says what is wrong and where.
pub(crate) fn servers(path: &Path, text: &str) -> Result<Vec<Server>, String> {
    let tree: Value = if path.extension().is_some_and(|extension| extension == "toml") {
        toml_edit::de::from_str(text).map_err(|error| error.to_string())?
    } else {
        jsonc::read(text).map_err(|error| error.to_string())?
    };
    let tables = TABLES.iter().filter_map(|table| tree.get(table)?.as_object());
    Ok(tables.flatten().filter_map(|(name, written)| server(name, written)).collect())
}

fn server(name: &str, written: &Value) -> Option<Server> {
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

/// How a client starts sinew, with values in place of each `${NAME}` that clients expand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// The arguments of sinew.
    pub(crate) words: Vec<String>,
    /// Its variables, those that `env` sets in front of the program included.
    pub(crate) variables: BTreeMap<String, String>,
    /// The directory in which it starts.
    pub(crate) current: PathBuf,
}

impl Start {
    /// Returns how a server in a project starts sinew, if it does.
    pub(crate) fn of(server: &Server, project: &Path) -> Option<Self> {
        let project_name = project.to_str()?;
        let home = Places::of_process().homes().pop();
        let home = home.as_deref().and_then(Path::to_str);
        let meant = |word: &String| expanded(word, project_name, home);
        let mut words = server.words.iter().map(meant);
        let before: Vec<String> = words.by_ref().take_while(|word| !is_sinew(word)).collect();
        if before.len() == server.words.len() {
            return None;
        }
        let words: Vec<String> = words.collect();
        let current = match &server.dir {
            Some(dir) => project.join(meant(dir)),
            None => project.to_owned(),
        };
        let mut variables: BTreeMap<String, String> =
            server.variables.iter().map(|(name, value)| (name.clone(), meant(value))).collect();
        let set = before.iter().filter_map(|word| word.split_once('='));
        variables.extend(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Some(Self { words, variables, current })
    }
}

/// Puts values in place of `${NAME}` and `${NAME:-default}` as clients do, where a value is certain: the project
/// and the home directory, else the default. No variable of this process is read, since the text comes out of a
/// repository and is printed. What only the client knows stays as it is written.
fn expanded(text: &str, project: &str, home: Option<&str>) -> String {
    let value = |name: &str| match name.strip_prefix("env:").unwrap_or(name) {
        "workspaceFolder" | "CLAUDE_PROJECT_DIR" | "PWD" | "cwd" => Some(project),
        "workspaceFolderBasename" => project.rsplit('/').next(),
        "HOME" | "userHome" => home,
        _ => None,
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once("${") {
        let Some((inside, after)) = from.split_once('}') else { break };
        out.push_str(before);
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        match value(name).or(default) {
            Some(value) => out.push_str(value),
            None => out.extend(["${", inside, "}"]),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Returns what a server tells sinew, if it starts sinew as a server in a project.
pub(crate) fn said(server: &Server, project: &Path) -> Option<Said> {
    let Start { words, variables, current } = Start::of(server, project)?;
    let variables = variables.iter().map(|(name, value)| (name.as_str(), value.clone()));
    said_with(&words, &variables.collect(), current)
}

/// Reads arguments as sinew does, without the variables of this process.
pub(crate) fn parsed(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let program = std::iter::once(OsString::from("sinew"));
    let matches = Cli::command()
        .mut_args(|arg| arg.env(None::<&str>))
        .try_get_matches_from(program.chain(words))?;
    Cli::from_arg_matches(&matches)
}

/// Returns the variables that a server of sinew gets and that act before sinew runs: those of the dynamic loader, and
/// `PATH`, which says what program a name means.
pub(crate) fn loader_variables(server: &Server) -> Vec<(String, String)> {
    let acts = |name: &str| name.starts_with("LD_") || ["GLIBC_TUNABLES", "PATH"].contains(&name);
    let at = server.words.iter().position(|word| is_sinew(word));
    let at = at.or_else(|| server.is_unclear().then_some(server.words.len()));
    let Some(at) = at else { return Vec::new() };
    // `env` and its like set variables in front of the program.
    let set = server.words.iter().take(at).filter_map(|word| word.split_once('='));
    let variables = server.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all = variables.chain(set).filter(|(name, _)| acts(name));
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns what arguments and variables tell sinew, if they make it a server.
fn said_with(
    words: &[String],
    variables: &BTreeMap<&str, String>,
    current: PathBuf,
) -> Option<Said> {
    let is_written = |flag: &str| {
        let begins =
            |word: &String| word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='));
        words.iter().any(|word| word == flag || begins(word))
    };
    // A variable counts where its flag is not written; as a flag it means the same.
    let as_flags = VARIABLES.iter().filter_map(|(variable, flag)| {
        let value =
            variables.get(variable).filter(|value| !value.is_empty() && !is_written(flag))?;
        let is_on =
            || ["1", "true", "yes", "on", "y", "t"].contains(&value.to_lowercase().as_str());
        match *flag {
            "--read-only" => is_on().then(|| (*flag).to_owned()),
            flag => Some(format!("{flag}={value}")),
        }
    });
    let arguments: Vec<OsString> =
        as_flags.chain(words.iter().cloned()).map(OsString::from).collect();
    let cli = parsed(arguments.iter().cloned()).ok()?;
    let mut global = cli.global;
    global.config = global.config.map(|path| current.join(path));
    matches!(cli.command, Command::Mcp { .. }).then_some(Said {
        global,
        arguments,
        current,
        is_held: true,
        by_client: true,
        config_text: None,
        places: Places::of_process().with(variables),
    })
}

/// Variables with the flags that mean the same.
const VARIABLES: [(&str, &str); 10] = [
    (env_vars::ROOT, "--root"),
    (env_vars::DIALECT, "--dialect"),
    (env_vars::TOOLS, "--tools"),
    (env_vars::READ_ONLY, "--read-only"),
    (env_vars::CONFIG, "--config"),
    (env_vars::SET, "--set"),
    (env_vars::SESSION, "--session"),
    (env_vars::LOG, "--log"),
    (env_vars::APPROVALS, "--approvals"),
    (env_vars::REQUIRE_SANDBOX, "--require-sandbox"),
];

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

    #[test]
    fn expansion_takes_certain_values_only() {
        for (text, expected) in [
            ("plain $HOME ~", "plain $HOME ~"),
            ("${workspaceFolder}/x", "/p/q/x"),
            ("${CLAUDE_PROJECT_DIR:-.}:${PWD:-.}", "/p/q:/p/q"),
            ("${workspaceFolderBasename}", "q"),
            ("${HOME}/a${userHome}${env:HOME}", "/h/a/h/h"),
            ("${NAME:-x}${NAME:-}", "x"),
            ("${NAME}${HOME}", "${NAME}/h"),
            ("${HOME", "${HOME"),
            ("a${HOME}${", "a/h${"),
            ("${}", "${}"),
        ] {
            assert_eq!(expanded(text, "/p/q", Some("/h")), expected, "{text}");
        }
        assert_eq!(expanded("${HOME}", "/p", None), "${HOME}");
    }

    #[test]
    fn every_variable_has_its_flag() {
        let source = include_str!("config/env_vars.rs");
        let known = source.split('"').filter(|word| word.starts_with("SINEW_"));
        let mut known: Vec<&str> = known.collect();
        let mut here = VARIABLES.map(|(name, _)| name);
        known.sort_unstable();
        here.sort_unstable();
        assert_eq!(here.as_slice(), known);
    }

    #[test]
    fn what_a_server_tells_is_read_as_the_server_reads_it() {
        for (words, variables, expected) in [
            (&["/usr/bin/sinew", "mcp", "--approvals", "allow"][..], &[][..], Some("allow")),
            (&["env", "X=1", "sinew", "--approvals=allow", "mcp"], &[], Some("allow")),
            (&["sinew", "mcp"], &[("SINEW_APPROVALS", "allow")], Some("allow")),
            (&["sinew", "mcp", "--approvals", "ask"], &[("SINEW_APPROVALS", "allow")], Some("ask")),
            (&["sinew", "mcp"], &[("SINEW_APPROVALS", "")], Some("-")),
            (&["sinew", "mcp", "--approvals", "${MODE:-allow}"], &[], Some("allow")),
            (&["sinew", "mcp"], &[("SINEW_APPROVALS", "${MODE:-allow}")], Some("allow")),
            (&["sinew", "tools"], &[], None),
            (&["sinew", "mcp", "--nope"], &[], None),
            (&["other", "mcp"], &[], None),
            (&[], &[], None),
        ] {
            let server = Server {
                name: String::from("s"),
                words: words.iter().map(ToString::to_string).collect(),
                variables: variables
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                dir: None,
                has_env_file: false,
            };
            let said = said(&server, Path::new("/p"));
            let approvals =
                said.map(|said| said.global.approvals.unwrap_or_else(|| String::from("-")));
            assert_eq!(approvals.as_deref(), expected, "{words:?} {variables:?}");
        }
        let server = Server {
            name: String::from("s"),
            words: ["sinew", "mcp", "--root", "${workspaceFolder}/x"].map(str::to_owned).to_vec(),
            variables: BTreeMap::from([
                (String::from("SINEW_CONFIG"), String::from("evil.toml")),
                (String::from("SINEW_READ_ONLY"), String::from("1")),
            ]),
            dir: Some(String::from("sub")),
            has_env_file: false,
        };
        let said = said(&server, Path::new("/p")).expect("a server");
        assert_eq!(said.global.root, [PathBuf::from("/p/x")]);
        assert_eq!(said.global.config, Some(PathBuf::from("/p/sub/evil.toml")));
        assert!(said.global.read_only);
        assert_eq!(said.current, PathBuf::from("/p/sub"));
    }
}
