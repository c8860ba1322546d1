//! Settings of servers, as the configuration gives them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sinew_guard::HttpAddress;
use sinew_runtime::Visibility;
use sinew_tool::{Host, name_matches};

use crate::sign_in::SignInSettings;

/// How one server is reached, and which of its tools are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Its name in the configuration.
    pub name: String,
    /// How it is reached.
    pub endpoint: Endpoint,
    /// Whether its tools are hidden, unless `surface` names them.
    pub internal_only: bool,
    /// Whether its tools are found by a search first.
    pub deferred: bool,
    /// Names of tools, with `*`, that are never hidden, in the form `{server}__{tool}`.
    pub surface: Arc<[String]>,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// Where its settings are from, for messages.
    pub origin: String,
    /// The name of its pin: servers of two projects may have the same name.
    pub pin: String,
}

impl ServerSettings {
    /// Returns the host of its address, where it has one.
    pub(crate) fn host(&self) -> Option<Host> {
        match &self.endpoint {
            Endpoint::Stdio { .. } => None,
            Endpoint::Http { address, .. } => Some(address.host()),
        }
    }

    /// Returns whether a tool of the server is listed.
    pub(crate) fn visibility(&self, tool: &str) -> Visibility {
        let name = format!("{}__{tool}", self.name);
        let is_surfaced = || self.surface.iter().any(|pattern| name_matches(pattern, &name));
        match (self.internal_only && !is_surfaced(), self.deferred) {
            (true, _) => Visibility::Hidden,
            (false, true) => Visibility::Deferred,
            (false, false) => Visibility::Shown,
        }
    }
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A program that is started, and spoken to over its standard streams.
    Stdio {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The directory in which it starts.
        cwd: PathBuf,
        /// Its own variables.
        env: Vec<(String, String)>,
        /// Whether it may reach the network.
        network: bool,
    },
    /// A server that runs elsewhere, spoken to over streamable HTTP.
    Http {
        /// Its address.
        address: HttpAddress,
        /// Headers of every request.
        headers: Vec<(String, String)>,
        /// Who sinew is where the server wants a sign-in.
        sign_in: SignInSettings,
    },
}

/// How long a server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To start and to agree on a protocol version.
    pub connect: Duration,
    /// To list its tools.
    pub list: Duration,
    /// To answer a call; each report of progress begins it anew.
    pub call: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            list: Duration::from_secs(10),
            call: Duration::from_secs(60),
        }
    }
}
