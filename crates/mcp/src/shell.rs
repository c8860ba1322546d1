//! A server of a program's own tools over MCP.

use std::io;
use std::sync::Arc;

use sinew_runtime::{BuildError, CompositeToolProvider, Runtime, ToolProvider};

use crate::server::{Options, Stream, serve};

/// Serves the tools of providers over MCP, beside those of a runtime.
#[derive(Debug)]
pub struct McpServerShell {
    runtime: Arc<Runtime>,
    providers: CompositeToolProvider,
}

impl McpServerShell {
    /// Returns a server of the tools of a runtime.
    pub fn new(runtime: Arc<Runtime>) -> Self {
        Self { runtime, providers: CompositeToolProvider::default() }
    }

    /// Adds the tools of a provider as `{namespace}__{tool}`. They replace those of the same name that were registered
    /// before.
    pub fn register_provider(&mut self, provider: Box<dyn ToolProvider>) -> Result<(), BuildError> {
        self.providers.register(provider);
        self.providers.add_to(&self.runtime)
    }

    /// Returns the tools of all providers.
    pub fn providers(&self) -> &CompositeToolProvider {
        &self.providers
    }

    /// Serves a client until it closes its end.
    pub fn serve(&self, options: Options, stream: Stream) -> io::Result<()> {
        serve(Arc::clone(&self.runtime), options, stream)
    }
}
