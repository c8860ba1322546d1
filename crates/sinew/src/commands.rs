//! Implements the subcommands, one file each, and their shared warnings.

pub(crate) mod agents;
pub(crate) mod approve;
pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod chat;
pub(crate) mod checkpoint;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod help;
pub(crate) mod hook;
pub(crate) mod import;
pub(crate) mod log;
pub(crate) mod manual;
pub(crate) mod mcp;
pub(crate) mod mcp_servers;
pub(crate) mod pipe;
pub(crate) mod policy;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod sessions;
pub(crate) mod setup;
pub(crate) mod skills;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod undo;

use std::time::Duration;

use sinew_mcp_client::Servers;
use sinew_runtime::Runtime;
use sinew_tool::shown_line;

use crate::config::LogLevel;
use crate::screen::say;
use crate::wiring::{self, Loaded, Wired};

/// Writes the configuration warnings to standard error.
fn warn(loaded: &Loaded) {
    if LogLevel::Warn <= loaded.settings.log {
        let few = few(&loaded.layered.warnings, "`sinew doctor --json` has them all");
        few.iter().for_each(|warning| say(warning));
    }
    if let Some(stopped) = &loaded.stopped {
        say(&format!("{stopped}; the project's configuration is left out"));
    }
}

/// Prints that another ledger also has records.
fn warn_of_other_ledger(loaded: &Loaded) {
    if let Some(other) = wiring::other_ledger(loaded) {
        say(&other);
    }
}

/// The limit of warnings that are printed, and of the text of each.
const MAX_WARNINGS: usize = 5;
const MAX_WARNING: usize = 1_000;

/// Returns the first warnings and the number of the rest: a project can cause thousands.
fn few(warnings: &[String], where_all: &str) -> Vec<String> {
    let cut = |warning: &String| match warning.char_indices().nth(MAX_WARNING) {
        Some((at, _)) => format!("{}…", warning.get(..at).unwrap_or_default()),
        None => warning.clone(),
    };
    let mut few: Vec<String> = warnings.iter().take(MAX_WARNINGS).map(cut).collect();
    if let Some(n_more @ 1..) = warnings.len().checked_sub(MAX_WARNINGS) {
        few.push(format!("and {n_more} more warnings; {where_all}"));
    }
    few
}

/// Flushes the ledger. The calls have run, so a failure is printed and their exit status stays.
fn flush(runtime: &Runtime) {
    if let Err(error) = runtime.flush() {
        let hint = error.hint.as_deref().unwrap_or_default();
        say(&format!("{error}; {hint}"));
    }
}

/// The total time-out of session-end hooks.
const ENDS: Duration = Duration::from_secs(10);

/// Ends what a surface started: sessions, background commands and MCP servers; then writes the records.
fn close(wired: &Wired) {
    end_sessions(&wired.runtime, ENDS);
    wired.runtime.end_background();
    wired.servers.iter().for_each(Servers::close);
    flush(&wired.runtime);
}

/// Runs the session-end hooks outside a Tokio runtime.
pub(crate) fn end_sessions(runtime: &Runtime, within: Duration) {
    if !runtime.has_sessions_to_end() {
        return;
    }
    // Without free threads or file descriptors no hook could run either.
    if let Ok(tokio) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        tokio.block_on(runtime.end_sessions(within));
    }
}

/// Prints the dropped arguments and variables at any log level, since a repository may have set the level.
fn tell_unconfirmed(loaded: &Loaded) {
    let left_out: Vec<_> = loaded.layered.unconfirmed().collect();
    for left in left_out.iter().take(MAX_WARNINGS) {
        let (origin, left) = (left.origin.to_string(), left.to_string());
        let (origin, left) = (shown_line(&origin), shown_line(&left));
        say(&format!("{origin}: left out until you confirm it: {left}"));
    }
    if left_out.is_empty() {
        return;
    }
    if let Some(n_more @ 1..) = left_out.len().checked_sub(MAX_WARNINGS) {
        say(&format!("and {n_more} more are left out until you confirm them"));
    }
    if loaded.layered.keeps_from_trusting {
        let system = crate::config::SYSTEM_FILE;
        say(&format!(
            "`managed.trust` in {system} forbids confirming them; set them in that file if you may"
        ));
        return;
    }
    let (current, line) = (loaded.said.current.display().to_string(), loaded.said.line());
    say(&format!(
        "arguments and variables of `sinew mcp` may come out of a repository, so they loosen nothing \
         unconfirmed; to confirm them: cd {} && {line}",
        wiring::quoted(&current),
    ));
}
