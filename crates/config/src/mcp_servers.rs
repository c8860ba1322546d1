//! Validates the MCP servers of others: `[tools.mcp_servers]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sinew_guard::{HttpAddress, Layer};

use super::files::MCP_FILE;
use super::options::{McpServerOptions, OAuthOptions};
use super::{ConfigError, Layered, Origin, env_vars};

const KEY: &str = McpServerOptions::TABLE;
/// The longest name of a server, in bytes.
const MAX_NAME: usize = 64;
/// The longest time that a server may take, in seconds.
const MAX_TIMEOUT_S: u64 = 3_600;
/// Why a server gets no network.
const CLOSED: &str = "because `managed.network` says so for this machine";
/// The variable with the first root.
const WORKDIR: &str = "WORKDIR";

/// A server of others, validated, with its variables filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub place: ServerPlace,
    /// Whether its tools are hidden, unless `tools.surface` names them.
    pub internal_only: bool,
    /// Whether its tools are found by a search first.
    pub deferred: bool,
    /// How long it may take to start, to list its tools, and to answer a call.
    pub timeouts: [Duration; 3],
    /// Where it is written.
    pub origin: Origin,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerPlace {
    /// A program that is started.
    Program {
        /// The program and its arguments.
        command: Vec<String>,
        /// The directory in which it starts.
        cwd: PathBuf,
        /// Its own variables.
        env: Vec<(String, String)>,
        /// Whether it may reach the network.
        network: bool,
    },
    /// A server that runs elsewhere.
    Address {
        /// Its address.
        url: HttpAddress,
        /// Headers of every request.
        headers: Vec<(String, String)>,
        /// Who sinew is where the server wants a sign-in.
        oauth: OAuthOptions,
    },
}

impl Layered {
    /// Returns the enabled servers in the order of their names, and warnings. Paths start at the first root.
    pub fn mcp_servers(&self, root: &Path) -> Result<(Vec<McpServer>, Vec<String>), ConfigError> {
        let written = self.options.tools.as_ref().and_then(|tools| tools.mcp_servers.as_ref());
        let managed = self.options.managed.as_ref();
        let is_closed = managed.is_some_and(|managed| managed.network == Some(false));
        let (mut servers, mut warnings) = (Vec::new(), Vec::new());
        for (name, written) in written.into_iter().flatten() {
            if !written.enabled.unwrap_or(true) {
                continue;
            }
            let origin = self.servers.get(name).cloned().unwrap_or(Origin::Default);
            let mut warn = |problem| warnings.push(format!("{origin}: `{KEY}.{name}`: {problem}"));
            let mut server = match server(name, written, root, origin.clone(), &mut warn) {
                Ok(server) => server,
                // A client's file was not written for sinew.
                Err(why) if is_of_clients(&origin) => {
                    warn(format!("it is left out: it {why}"));
                    continue;
                }
                Err(why) => return Err(ConfigError(format!("{origin}: `{KEY}.{name}` {why}"))),
            };
            if is_closed && origin.layer() != Layer::System {
                match &mut server.place {
                    ServerPlace::Program { network, .. } if *network => {
                        *network = false;
                        warn(format!("it gets no network, {CLOSED}"));
                    }
                    ServerPlace::Program { .. } => {}
                    ServerPlace::Address { .. } => {
                        warn(format!("it is left out, {CLOSED}"));
                        continue;
                    }
                }
            }
            servers.push(server);
        }
        Ok((servers, warnings))
    }
}

fn is_of_clients(origin: &Origin) -> bool {
    matches!(origin, Origin::File(path, ..) if path.ends_with(MCP_FILE))
}

/// Returns a server, or why it is none.
fn server(
    name: &str,
    written: &McpServerOptions,
    root: &Path,
    origin: Origin,
    warn: &mut dyn FnMut(String),
) -> Result<McpServer, String> {
    check_name(name)?;
    let mut missing = Vec::new();
    let variable = |name: &str| match name {
        WORKDIR => Some(root.to_string_lossy().into_owned()),
        name => env_vars::of_server(name),
    };
    let mut filled = |text: &String| filled_in(text, &variable, &mut missing);
    let program = written.command.as_ref().map(&mut filled).unwrap_or_default();
    let place = if program.is_empty() {
        let url = written.url.as_ref().map(&mut filled).unwrap_or_default();
        if url.is_empty() {
            return Err(String::from("needs `command` or `url`"));
        }
        let url = HttpAddress::parse(&url).map_err(|why| format!("has no usable `url`: {why}"))?;
        let headers = written.headers.iter().flatten();
        let headers = headers.map(|(name, value)| (name.clone(), filled(value))).collect();
        let mut oauth = written.oauth.clone().unwrap_or_default();
        oauth.client_secret = oauth.client_secret.as_ref().map(&mut filled);
        ServerPlace::Address { url, headers, oauth }
    } else {
        let mut command = vec![program];
        command.extend(written.args.iter().flatten().map(&mut filled));
        let env = written.env.iter().flatten();
        let env = env.map(|(name, value)| (name.clone(), filled(value))).collect();
        let cwd = written.cwd.as_ref().map(|cwd| root.join(filled(cwd)));
        let cwd = cwd.unwrap_or_else(|| root.to_owned());
        ServerPlace::Program { command, cwd, env, network: written.network.unwrap_or(false) }
    };
    for name in missing {
        warn(format!("the variable `{name}` is not set, so it is empty there"));
    }
    let within = |key: &str, value: Option<u64>, default: u64| match value.unwrap_or(default) {
        value if (1..=MAX_TIMEOUT_S).contains(&value) => Ok(Duration::from_secs(value)),
        value => Err(format!("has `{key}` = {value}; it must be from 1 to {MAX_TIMEOUT_S}")),
    };
    Ok(McpServer {
        name: name.to_owned(),
        place,
        internal_only: written.internal_only.unwrap_or(true),
        deferred: written.deferred.unwrap_or(false),
        timeouts: [
            within("connect_timeout_s", written.connect_timeout_s, 30)?,
            within("list_timeout_s", written.list_timeout_s, 10)?,
            within("call_timeout_s", written.call_timeout_s, 60)?,
        ],
        origin,
    })
}

fn check_name(name: &str) -> Result<(), String> {
    let is_carried = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_whole = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_carried);
    // Two underscores part the name of a server from that of a tool, and dialects write a dot as one.
    match is_whole && !name.replace('.', "_").contains("__") {
        true => Ok(()),
        false => Err(format!(
            "needs a name of 1 to {MAX_NAME} letters, digits, `-`, and single `_` or `.`"
        )),
    }
}

/// Replaces `${NAME}` by a variable, and `${NAME:-text}` by the text where there is none.
fn filled_in(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    missing: &mut Vec<String>,
) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, behind)) = after.split_once('}') else { break };
        filled.push_str(before);
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        match (variable(name), default) {
            (Some(value), _) => filled.push_str(&value),
            (None, Some(default)) => filled.push_str(default),
            (None, None) if missing.iter().any(|known| known == name) => {}
            (None, None) => missing.push(name.to_owned()),
        }
        rest = behind;
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in() {
        let variable = |name: &str| (name == "A").then(|| String::from("one"));
        for (text, expected, absent) in [
            ("plain $A", "plain $A", ""),
            ("${A}/${A}", "one/one", ""),
            ("x${B}y${B}", "xy", "B"),
            ("${B:-two}${A:-two}", "twoone", ""),
            ("${A", "${A", ""),
            ("${}", "", ""),
        ] {
            let mut missing = Vec::new();
            assert_eq!(filled_in(text, &variable, &mut missing), expected, "{text}");
            let expected: Vec<&str> =
                if text == "${}" { vec![""] } else { absent.split_terminator(' ').collect() };
            assert_eq!(missing, expected, "{text}");
        }
    }

    const A: &str = "[tools.mcp_servers.a]\ncommand = \"x\"\n";

    fn read(toml: &str) -> Result<(Vec<McpServer>, Vec<String>), String> {
        let mut layers = crate::Layers::with_defaults().expect("defaults");
        layers.add_named(Path::new("c.toml"), toml.to_owned()).map_err(|error| error.0)?;
        let layered = layers.merge().map_err(|error| error.0)?;
        layered.mcp_servers(Path::new("/root")).map_err(|error| error.0)
    }

    #[test]
    fn servers_have_defaults_and_limits() {
        let (servers, warnings) = read(
            "[tools.mcp_servers.\"a.b\"]\ncommand = \"npx\"\nargs = [\"-y\", \"${WORKDIR}/x\"]\n\
             env = { A = \"b\" }\ncwd = \"sub\"\n[tools.mcp_servers.off]\ncommand = \"x\"\nenabled = false\n\
             [tools.mcp_servers.web]\nurl = \"https://x.test/mcp\"\nheaders = { A = \"b\" }\noauth = { client_id = \"c\" }\n",
        )
        .expect("servers");
        let [server, elsewhere] = servers.as_slice() else { panic!("{servers:?}") };
        let ServerPlace::Program { command, cwd, network, .. } = &server.place else {
            panic!("{server:?}")
        };
        assert_eq!(command, &["npx", "-y", "/root/x"]);
        assert_eq!(cwd, Path::new("/root/sub"));
        assert!(server.internal_only && !server.deferred && !network);
        let url = HttpAddress::parse("https://x.test/mcp").expect("an address");
        let headers = vec![(String::from("A"), String::from("b"))];
        let client_id = Some(String::from("c"));
        let oauth = OAuthOptions { client_id, ..OAuthOptions::default() };
        assert_eq!(elsewhere.place, ServerPlace::Address { url, headers, oauth });
        assert_eq!(server.timeouts.map(|timeout| timeout.as_secs()), [30, 10, 60]);
        assert_eq!(server.origin.to_string(), "c.toml:1");
        assert!(warnings.is_empty(), "{warnings:?}");
        let mut layers = crate::Layers::with_defaults().expect("defaults");
        layers.add_named(Path::new("c.toml"), String::from(A)).expect("a file");
        for set in ["tools.mcp_servers.a.env={ X = \"1\" }", "tools.mcp_servers.b.command=y"] {
            layers.set_written(set, Origin::Flag("--set")).expect(set);
        }
        let (servers, _) =
            layers.merge().expect("layers").mcp_servers(Path::new("/")).expect("servers");
        let words = servers.iter().map(|one| match &one.place {
            ServerPlace::Program { command, env, .. } => (command.join(" "), env.len()),
            ServerPlace::Address { .. } => panic!("{one:?}"),
        });
        let words: Vec<_> = words.collect();
        assert_eq!(
            words,
            [(String::from("x"), 1), (String::from("y"), 0)],
            "flags add to an entry"
        );
        for (toml, expected) in [
            ("[tools.mcp_servers.a]\n", "c.toml:1: `tools.mcp_servers.a` needs `command` or `url`"),
            (
                "[tools.mcp_servers.a]\nurl = \"http://x.test/\"\n",
                "no usable `url`: `http` is for this machine",
            ),
            ("[tools.mcp_servers.\"a b\"]\ncommand = \"x\"\n", "needs a name of 1 to 64"),
            ("[tools.mcp_servers.\"a_.b\"]\ncommand = \"x\"\n", "single `_` or `.`"),
            ("[tools.mcp_servers.a]\ncommand = \"x\"\ncall_timeout_s = 0\n", "from 1 to 3600"),
            ("[tools.mcp_servers.a]\ncommand = \"x\"\ncolour = 1\n", "unknown field `colour`"),
        ] {
            let error = read(toml).expect_err(toml);
            assert!(error.contains(expected), "{error}");
        }
    }
}
