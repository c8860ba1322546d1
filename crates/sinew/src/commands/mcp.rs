//! `sinew mcp`: serves the tools over MCP on standard input and output.

use std::process::ExitCode;

use sinew_mcp::{Options, Stream};

use crate::config::env_vars;
use crate::screen::say;
use crate::signals;
use crate::wiring::{self, DatabaseHome, Loaded};

/// Serves until the client closes its end. With `check` it stops before serving.
pub(crate) fn run(loaded: &Loaded, check: bool) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    super::tell_unconfirmed(loaded);
    // Printed at any log level, because a repository may have set the level.
    if let DatabaseHome::None(why) = &loaded.said.places.database {
        say(&format!(
            "{why}, so HOME, XDG_CONFIG_HOME and XDG_STATE_HOME count as they are, also those that a file of a \
             repository sets"
        ));
    }
    if !env_vars::settles_memory() {
        sinew_guard::keep_freed_memory();
    }
    let native = loaded.settings.dialect.name == "native";
    let serve = if native { ["core"] } else { ["all"] };
    let wired = wiring::wire(loaded, "mcp", &serve, None)?;
    if check {
        return Ok(ExitCode::SUCCESS);
    }
    let ends = sinew_guard::standard_streams()?;
    let (ledger, trace) = (wired.ledger.clone(), wired.trace.clone());
    let options = Options {
        dialect: None,
        session: wired.session,
        instructions: instructions(loaded),
        max_line_bytes: loaded.settings.max_line_bytes,
        inline: true,
        calls: signals::watched(&wired.runtime),
        on_client: Box::new(move |client| {
            if let Some(trace) = &trace {
                trace.set_client(&client);
            }
            if let Some(ledger) = &ledger {
                ledger.set_client(client);
            }
        }),
    };
    let stream = Stream {
        input: Box::new(ends.input),
        output: Box::new(ends.output),
        gone: Box::new(ends.gone),
    };
    let served = sinew_mcp::serve(std::sync::Arc::clone(&wired.runtime), options, stream);
    super::end_sessions(&wired.runtime, super::ENDS);
    super::flush(&wired.runtime);
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the instructions for the client's model: its roots and the restrictions.
fn instructions(loaded: &Loaded) -> String {
    let roots: Vec<String> = loaded.roots.iter().map(|root| root.display().to_string()).collect();
    format!(
        "File and search tools that work beneath: {}. Relative paths start at the first. Paths \
         outside are refused.",
        roots.join(", ")
    )
}
