//! The errors of `sinew setup`.

use std::path::PathBuf;

use serde_json::Value;
use sinew_guard::Redactor;

use super::item::Item;

/// Why a text cannot be edited. The file is added by [`SetupError::File`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EditError {
    #[error("line {line}, column {column}: {problem}; correct the file first, nothing was changed")]
    Syntax { line: usize, column: usize, problem: String },
    #[error("the key appears twice, and clients disagree which one counts; remove one first: {0}")]
    Twice(String),
    #[error(
        "the name is taken by a value that `sinew setup` did not write; rename or remove it first: {key} = {command}"
    )]
    Taken { key: String, command: String },
    #[error(
        "`{key}` changed since the setup and names another program; set its command to {program}, or remove it, then run the \
         command again"
    )]
    Changed { key: String, program: String },
    #[error("{}, so no server can be added; correct it first", shape(key))]
    Shape { key: String },
    #[error(
        "an edit here would change other values; edit the file by hand, as docs/clients.md shows"
    )]
    Unsafe,
}

impl EditError {
    /// Returns the error for an entry of another program. It shows the command and its arguments alone: the rest may hold
    /// secrets.
    pub(super) fn taken(server: &Item, found: &Value) -> Self {
        let words = ["command", "args"].into_iter();
        let words = words.filter_map(|key| Some((key.to_owned(), found.get(key)?.clone())));
        let command = match Value::Object(words.collect()) {
            Value::Object(words) if words.is_empty() => String::from("a value without a command"),
            command => Redactor::default().redact(&command.to_string()).into_owned(),
        };
        Self::Taken { key: server.shown(), command }
    }

    pub(super) fn changed(server: &Item, program: &str) -> Self {
        Self::Changed { key: server.shown(), program: program.to_owned() }
    }
}

fn shape(key: &str) -> String {
    match key {
        "" => String::from("the file holds no object"),
        key => format!("`{key}` is not an object"),
    }
}

/// Why a client was not set up.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    #[error(
        "{title} is not installed: PATH has no `{program}`, and there is no {dir}; install it first"
    )]
    NotInstalled { title: &'static str, program: &'static str, dir: String },
    #[error(
        "PATH has no `{program}`, which registers servers of {title}; install it, or add by hand to {file}: {entry}"
    )]
    NoProgram { title: &'static str, program: &'static str, file: String, entry: String },
    #[error(
        "PATH has no `{program}`, which removes servers of {title}; install it, or remove `{key}` from {file} by hand"
    )]
    NoRemoval { title: &'static str, program: &'static str, file: String, key: String },
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: EditError },
    #[error("{}: {problem}", path.display())]
    Refused { path: PathBuf, problem: &'static str },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("`{command}` failed: {said}")]
    Verb { command: String, said: String },
    #[error(
        "{0} is not set, so the files of clients cannot be found; set it to an absolute directory"
    )]
    NoPlace(&'static str),
    #[error("the path of this program is not UTF-8, and no configuration file can name it; move it: {}", .0.display())]
    Program(PathBuf),
    #[error("{}: the record of an earlier setup cannot be read: {problem}; move it away, then check the client's file by hand", path.display())]
    Record { path: PathBuf, problem: String },
}

impl SetupError {
    /// Returns the name of the error for programs.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::NotInstalled { .. } => "not_installed",
            Self::NoProgram { .. } | Self::NoRemoval { .. } => "no_program",
            Self::File { problem, .. } => match problem {
                EditError::Syntax { .. } => "syntax",
                EditError::Twice(_) | EditError::Shape { .. } => "shape",
                EditError::Taken { .. } => "taken",
                EditError::Changed { .. } => "changed",
                EditError::Unsafe => "unsafe",
            },
            Self::Refused { .. } => "refused",
            Self::Io { .. } => "io",
            Self::Verb { .. } => "client_failed",
            Self::NoPlace(_) => "no_place",
            Self::Program(_) => "program",
            Self::Record { .. } => "record",
        }
    }
}
