//! `sinew mcp`: serves the tools over MCP on standard input and output.

use std::process::ExitCode;

use sinew_guard::SandboxLevel;
use sinew_mcp::{Options, Stream};
use sinew_runtime::Runtime;
use sinew_tool::wire_name;

use crate::agent::spawner::Spawner;
use crate::config::{LogLevel, env_vars};
use crate::screen::say;
use crate::signals;
use crate::wiring::{self, DatabaseHome, Loaded, Wired};

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
    Spawner::add(loaded, &wired);
    if check {
        return Ok(ExitCode::SUCCESS);
    }
    let ends = sinew_guard::standard_streams()?;
    warn_of_weak_sandbox(loaded, &wired);
    let (ledger, trace) = (wired.ledger.clone(), wired.trace.clone());
    let (servers, session) = (wired.servers.clone(), wired.session.clone());
    let options = Options {
        dialect: None,
        session: wired.session.clone(),
        instructions: instructions(loaded, &wired.runtime),
        max_line_bytes: loaded.settings.max_line_bytes,
        inline: true,
        calls: signals::watched(&wired.runtime),
        on_ready: Box::new(move || {
            servers.iter().for_each(|servers| servers.begin(&session));
        }),
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
    super::close(&wired);
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Prints, once, that a Moltis server has no strong sandbox, as Moltis does at its start.
fn warn_of_weak_sandbox(loaded: &Loaded, wired: &Wired) {
    if loaded.settings.dialect.name != "moltis" || loaded.settings.log < LogLevel::Warn {
        return;
    }
    let what = match wired.runtime.probe_commands(&wired.session) {
        Some(Ok((SandboxLevel::Namespaces | SandboxLevel::Bubblewrap, _))) => return,
        Some(Ok((level, _))) => format!("commands run at the sandbox level `{level}`"),
        Some(Err(error)) => format!("commands do not run: {error}"),
        None => String::from("commands do not run: there is no directory for sessions"),
    };
    say(&format!("no strong sandbox: {what}; file tools work on this machine; see `sinew doctor`"));
}

/// Returns the instructions for the client's model: its roots, the served tools, and which to prefer.
fn instructions(loaded: &Loaded, runtime: &Runtime) -> String {
    let roots: Vec<String> = loaded.roots.iter().map(|root| root.display().to_string()).collect();
    let catalogs = runtime.catalogs();
    let Some(catalog) = catalogs.first() else { return String::new() };
    // Its rows refuse relative paths.
    let paths = match loaded.settings.dialect.name {
        "moltis" => "Paths are absolute",
        _ => "Relative paths start at the first",
    };
    // Tools of other servers may come later.
    let tools = catalog.own_names().map(str::to_owned);
    let mut text = format!(
        "Tools that work beneath: {}. {paths}. Paths outside are refused.\nThere are {}.",
        roots.join(", "),
        quoted(tools)
    );
    for line in preferences(|operation| catalog.does(operation)) {
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// Returns which tool to prefer for what, a sentence each. `does` names the served tool of an operation.
fn preferences<'a>(does: impl Fn(&str) -> Option<&'a str>) -> Vec<String> {
    let shell = does("Bash").map(wire_name);
    let served = |operations: &[&str]| -> Option<String> {
        let names: Vec<&str> = operations.iter().filter_map(|operation| does(operation)).collect();
        (!names.is_empty()).then(|| quoted(names.into_iter().map(str::to_owned)))
    };
    let mut lines = Vec::new();
    for (deed, operations, programs) in [
        ("Search with", &["Grep", "Glob"][..], "`grep` or `find`"),
        ("Read and list with", &["Read", "List"][..], "`cat` or `ls`"),
    ] {
        if let (Some(names), Some(shell)) = (served(operations), &shell) {
            lines.push(format!("{deed} {names} rather than {programs} in `{shell}`."));
        }
    }
    if let Some(names) = served(&["Edit", "MultiEdit", "ApplyPatch"]) {
        let others = match (does("Write").map(wire_name), &shell) {
            (Some(write), Some(shell)) => {
                format!(" rather than rewriting them with `{write}` or `sed` in `{shell}`")
            }
            (Some(write), None) => format!(" rather than rewriting them with `{write}`"),
            (None, Some(shell)) => format!(" rather than with `sed` in `{shell}`"),
            (None, None) => String::new(),
        };
        lines.push(format!("Change files with {names}{others}."));
    }
    lines
}

/// Returns names in backticks, with commas and an `and`.
fn quoted(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{}`", wire_name(&name))).collect();
    match (names.pop(), names.is_empty()) {
        (None, _) => String::from("none"),
        (Some(last), true) => last,
        (Some(last), false) => format!("{} and {last}", names.join(", ")),
    }
}
