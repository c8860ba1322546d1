//! The MCP servers of others that the configuration names, with their pins in the state directory.

use std::sync::Arc;

use anyhow::Context as _;
use sinew_guard::{Layer, Profile, content_hash};
use sinew_mcp_client::{
    CredentialFiles, Endpoint, PinStore, ServerPin, ServerSettings, Servers, SignInSettings,
    Timeouts,
};
use sinew_runtime::Runtime;
use sinew_tool::{Kind, ToolError};

use crate::config::{LogLevel, McpServer, OAuthOptions, Origin, ServerFiles, ServerPlace};
use crate::screen::say;
use crate::wiring::Loaded;

/// Adds the pinned tools of the configured servers to a runtime. Without a server nothing is made.
pub(crate) fn add(loaded: &Loaded, runtime: &Arc<Runtime>) -> anyhow::Result<Option<Servers>> {
    let Some(root) = loaded.roots.first() else { return Ok(None) };
    // Nothing is known of what a server does, so none is started where tools only look.
    if loaded.settings.rules.profile == Profile::ReadOnly {
        return Ok(None);
    }
    let (servers, warnings) = loaded.layered.mcp_servers(root)?;
    if LogLevel::Warn <= loaded.settings.log {
        warnings.iter().for_each(|warning| say(warning));
    }
    if servers.is_empty() {
        return Ok(None);
    }
    let state = loaded.state.as_ref().context(
        "MCP servers are pinned in the state directory, and there is none; set XDG_STATE_HOME to an \
         absolute directory",
    )?;
    let surface = loaded.layered.options.tools.as_ref().and_then(|tools| tools.surface.clone());
    let surface: Arc<[String]> = surface.unwrap_or_default().into();
    let settings = servers.iter().map(|server| settings_of(server, &surface)).collect();
    let credentials = Arc::new(TokenFiles(ServerFiles::tokens(state)));
    let pins = Arc::new(PinFiles(ServerFiles::pins(state)));
    let warns = LogLevel::Warn <= loaded.settings.log;
    let tell = Box::new(move |words: &str| {
        if warns {
            say(words);
        }
    });
    Ok(Some(Servers::new(runtime, settings, pins, credentials, tell)))
}

fn settings_of(server: &McpServer, surface: &Arc<[String]>) -> ServerSettings {
    let [connect, list, call] = server.timeouts;
    ServerSettings {
        name: server.name.clone(),
        endpoint: match server.place.clone() {
            ServerPlace::Program { command: argv, cwd, env, network } => {
                Endpoint::Stdio { argv, cwd, env, network }
            }
            ServerPlace::Address { url: address, headers, oauth } => {
                let OAuthOptions { client_id, client_secret, scopes, callback_port } = oauth;
                let scopes = scopes.unwrap_or_default();
                let sign_in = SignInSettings { client_id, client_secret, scopes, callback_port };
                Endpoint::Http { address, headers, sign_in }
            }
        },
        internal_only: server.internal_only,
        deferred: server.deferred,
        surface: Arc::clone(surface),
        timeouts: Timeouts { connect, list, call },
        origin: server.origin.to_string(),
        pin: pin_of(server),
    }
}

/// Returns the name of the pin of a server: that of a project's server has the file that names it.
fn pin_of(server: &McpServer) -> String {
    match &server.origin {
        Origin::File(path, _, Layer::Project) => {
            let hash = content_hash(path.as_os_str().as_encoded_bytes()).to_string();
            format!("{}@{}", server.name, hash.get(..16).unwrap_or_default())
        }
        _ => server.name.clone(),
    }
}

/// Keeps pins as JSON in the state directory.
struct PinFiles(ServerFiles);

impl PinFiles {
    fn fail(&self, server: &str, problem: impl std::fmt::Display) -> ToolError {
        let path = self.0.path(server);
        let words = format!("the pin of the server `{server}`: {}: {problem}", path.display());
        ToolError::new(Kind::Unavailable, words)
            .hint("remove the file to pin the server anew, with what it lists then")
    }
}

impl PinStore for PinFiles {
    fn load(&self, server: &str) -> Result<Option<ServerPin>, ToolError> {
        let text = self.0.load(server).map_err(|error| self.fail(server, error))?;
        let read = |text: String| serde_json::from_str(&text);
        text.map(read).transpose().map_err(|error| self.fail(server, error))
    }

    fn save(&self, server: &str, pin: &ServerPin) -> Result<(), ToolError> {
        let text = serde_json::to_string_pretty(pin).unwrap_or_default();
        self.0.save(server, &text).map_err(|error| self.fail(server, error))
    }
}

/// Keeps tokens as JSON in the state directory.
struct TokenFiles(ServerFiles);

impl TokenFiles {
    fn fail(&self, server: &str, problem: impl std::fmt::Display) -> ToolError {
        let path = self.0.path(server);
        let words = format!("the tokens of the server `{server}`: {}: {problem}", path.display());
        ToolError::new(Kind::Unavailable, words)
            .hint(format!("`sinew mcp-servers logout {server}` removes them"))
    }
}

impl CredentialFiles for TokenFiles {
    fn load(&self, server: &str) -> Result<Option<String>, ToolError> {
        self.0.load(server).map_err(|error| self.fail(server, error))
    }

    fn save(&self, server: &str, text: &str) -> Result<(), ToolError> {
        self.0.save(server, text).map_err(|error| self.fail(server, error))
    }

    fn remove(&self, server: &str) -> Result<bool, ToolError> {
        self.0.remove(server).map_err(|error| self.fail(server, error))
    }

    fn lock(&self, server: &str) -> Result<Box<dyn Send>, ToolError> {
        let locked = self.0.lock(server).map_err(|error| self.fail(server, error))?;
        Ok(Box::new(locked))
    }
}
