//! Parses how MCP clients start sinew: the arguments and variables in their configuration files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, FromArgMatches};

use crate::cli::{Cli, Command};
use crate::config::clients::{Server, is_sinew};
use crate::config::env_vars;
use crate::wiring::{CliInput, Places};

/// A client's start line of sinew, with each known `${NAME}` expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// The arguments of sinew.
    pub(crate) words: Vec<String>,
    /// Its variables, those of an `env` wrapper included.
    pub(crate) variables: BTreeMap<String, String>,
    /// The working directory.
    pub(crate) current: PathBuf,
}

impl Start {
    /// Returns the start line of a project's server, if it starts sinew.
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

/// Expands `${NAME}` and `${NAME:-default}` as clients do: the project, the home directory or the default.
/// Other names stay as written. It reads no variable of this process, since the repository's text is printed.
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

/// Returns the input of a project's server, if it starts sinew as a server.
pub(crate) fn said(server: &Server, project: &Path) -> Option<CliInput> {
    let Start { words, variables, current } = Start::of(server, project)?;
    let variables = variables.iter().map(|(name, value)| (name.as_str(), value.clone()));
    said_with(&words, &variables.collect(), current)
}

/// Parses arguments as sinew does, but ignores the variables of this process.
pub(crate) fn parsed(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let program = std::iter::once(OsString::from("sinew"));
    let matches = Cli::command()
        .mut_args(|arg| arg.env(None::<&str>))
        .try_get_matches_from(program.chain(words))?;
    Cli::from_arg_matches(&matches)
}

/// Returns the input from arguments and variables, if they start a server.
fn said_with(
    words: &[String],
    variables: &BTreeMap<&str, String>,
    current: PathBuf,
) -> Option<CliInput> {
    let is_written = |flag: &str| {
        let begins =
            |word: &String| word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='));
        words.iter().any(|word| word == flag || begins(word))
    };
    // A variable counts if its flag is absent; as a flag it means the same.
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
    matches!(cli.command, Command::Mcp(_)).then_some(CliInput {
        global,
        arguments,
        current,
        is_held: true,
        by_client: true,
        config_text: None,
        places: Places::of_process().with(variables),
    })
}

/// Variables and their equivalent flags.
const VARIABLES: [(&str, &str); 11] = [
    (env_vars::ROOT, "--root"),
    (env_vars::DIALECT, "--dialect"),
    (env_vars::TOOLS, "--tools"),
    (env_vars::READ_ONLY, "--read-only"),
    (env_vars::CONFIG, "--config"),
    (env_vars::SET, "--set"),
    (env_vars::SESSION, "--session"),
    (env_vars::LOG, "--log"),
    (env_vars::APPROVALS, "--approvals"),
    (env_vars::PROFILE, "--profile"),
    (env_vars::REQUIRE_SANDBOX, "--require-sandbox"),
];

#[cfg(test)]
mod tests {
    use super::*;

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
        let source = include_str!("../../config/src/env_vars.rs");
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
