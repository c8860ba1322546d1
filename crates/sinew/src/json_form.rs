//! The form of `--json`: one object a line on standard output, with the same keys in every command, also for an error.
//!
//! docs/command-line.md lists the keys. `sinew pipe` and MCP have formats of their own.

use std::io::{self, Write as _};
use std::process::ExitCode;

use serde_json::{Value, json};
use sinew_tool::{ErrorBody, Kind};

use crate::config::ConfigError;
use crate::screen;

/// The exit code of a command line or configuration that is not valid.
pub(crate) const INVALID: u8 = 2;

/// An error that has an exit code and a kind of its own.
#[derive(Debug, thiserror::Error)]
#[error("{message}{}{}", if hint.is_some() { "; " } else { "" }, hint.as_deref().unwrap_or_default())]
pub(crate) struct CommandError {
    code: u8,
    kind: &'static str,
    message: String,
    hint: Option<String>,
}

impl CommandError {
    pub(crate) fn with(code: u8, kind: &'static str, message: impl Into<String>) -> anyhow::Error {
        Self { code, kind, message: message.into(), hint: None }.into()
    }

    /// Returns the error of a tool.
    pub(crate) fn of(code: u8, error: &ErrorBody) -> anyhow::Error {
        let ErrorBody { kind, message, hint } = error.clone();
        Self { code, kind: kind.as_str(), message, hint }.into()
    }

    /// Returns the error of a command that can ask no user.
    pub(crate) fn unasked(message: &str) -> anyhow::Error {
        let kind = Kind::ApprovalDenied;
        Self::with(kind.exit_code(), kind.as_str(), message)
    }
}

/// Returns whether the command line asks for JSON, also where the rest of it is not understood.
pub(crate) fn is_wanted() -> bool {
    std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}

/// Reports why a command failed: as an object where the command line asks for JSON, else on standard error.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let own = error.downcast_ref::<CommandError>();
    if is_wanted() {
        let kind = if error.is::<ConfigError>() { "config" } else { "failed" };
        let object = match own {
            Some(CommandError { kind, message, hint, .. }) => {
                object(kind, message, hint.as_deref())
            }
            None => object(kind, &format!("{error:#}"), None),
        };
        // The reader may have closed its end.
        let _ = write(&object);
    } else {
        screen::say_error(&format!("{error:#}"));
    }
    ExitCode::from(own.map_or(INVALID, |own| own.code))
}

/// Reports that the command line is not understood.
pub(crate) fn report_usage(text: &str) {
    if is_wanted() {
        let _ = write_error("usage", text.trim_end());
        return;
    }
    // The words that are quoted may come out of a file that a person was told to confirm.
    let text = screen::told(text);
    let rest = text.strip_prefix("error:");
    if rest.is_some() {
        let _ = write!(io::stderr(), "{}", screen::error_mark("error:"));
    }
    let _ = writeln!(screen::errors(), "{}", rest.unwrap_or(&text));
}

/// Returns the object of a failure.
pub(crate) fn object(kind: &str, message: &str, hint: Option<&str>) -> Value {
    json!({ "ok": false, "error": { "kind": kind, "message": message, "hint": hint } })
}

/// Writes the object of a failure.
pub(crate) fn write_error(kind: &str, message: &str) -> io::Result<()> {
    write(&object(kind, message, None))
}

/// Writes an object as one line.
pub(crate) fn write(object: &Value) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{object}")
}

/// Writes each object as one line.
pub(crate) fn write_all(objects: &mut dyn Iterator<Item = Value>) -> io::Result<()> {
    for object in objects {
        write(&object)?;
    }
    Ok(())
}
