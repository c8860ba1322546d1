//! What this process was given: its arguments, its variables and the places that they name.
#![expect(
    clippy::disallowed_methods,
    reason = "the current directory is where relative paths begin"
)]

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use sinew_guard::shell_quoted;
use sinew_tool::shown;

use super::{DatabaseHome, Places, homes};
use crate::cli::Global;
use crate::config::{self, Origin, env_vars};

/// The command-line input of a process: its options, and which of them are flags.
#[derive(Debug, Clone)]
pub(crate) struct CliInput {
    pub(crate) global: Global,
    /// The raw arguments.
    pub(crate) arguments: Vec<OsString>,
    /// The current directory.
    pub(crate) current: PathBuf,
    /// Whether it may come from a repository, so that unconfirmed values only tighten.
    pub(crate) is_held: bool,
    /// Whether a client started the process, confirmed or not.
    pub(crate) by_client: bool,
    /// The text of the `--config` file at the first read.
    pub(crate) config_text: Option<String>,
    /// The places of the user's configuration and state.
    pub(crate) places: Places,
}

impl CliInput {
    /// Returns the input of a process that the user started.
    pub(crate) fn by_person(global: &Global) -> anyhow::Result<Self> {
        let arguments = std::env::args_os().skip(1).collect();
        Ok(Self {
            global: global.clone(),
            arguments,
            current: current_dir()?,
            is_held: false,
            by_client: false,
            config_text: None,
            places: Places::of_process(),
        })
    }

    /// Returns the input of a process that a client started, perhaps from a project's file.
    /// It is an error if the user's directories would be in a project or cannot be determined.
    pub(crate) fn by_client(global: &Global) -> anyhow::Result<Self> {
        let said = Self::by_person(global)?;
        if let DatabaseHome::Unreadable(problem) = &said.places.database {
            bail!("{problem}; without it sinew cannot find the rules of the user");
        }
        homes::hold(&said.current)?;
        // The confirmed line is the server's, without `--check`.
        let arguments = said.arguments.into_iter().filter(|word| word != "--check").collect();
        Ok(Self { is_held: true, by_client: true, arguments, ..said })
    }

    /// Reads the `--config` file once, so that the confirmed text is the text in use (no TOCTOU race).
    pub(super) fn read_config(&mut self) {
        let path = self.global.config.as_ref();
        self.config_text = path.and_then(|path| config::read_text(path).ok());
    }

    /// Returns the variables of the user's hooks. A client's variables may come from a repository and make
    /// programs load its modules, so few pass; `HOME` is the user database's unless another one is confirmed.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        match self.by_client {
            false => env_vars::all().collect(),
            true => {
                let confirmed = self.places.other_home().filter(|_| !self.is_held).cloned();
                let own = self.places.database.known().map(|home| home.as_os_str().to_owned());
                homes::variables_of_client(confirmed.or(own), &self.current)
            }
        }
    }

    /// Returns whether a client started this process, so that its variables may come from a repository.
    pub(crate) fn is_by_client(&self) -> bool {
        self.by_client
    }

    /// Returns the origin of an option: its variable, unless the flag is written.
    pub(super) fn origin(&self, variable: &'static str, flag: &'static str) -> Origin {
        let written = self.arguments.iter().any(|arg| {
            let arg = arg.to_string_lossy();
            arg == flag || arg.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
        });
        if written { Origin::Flag(flag) } else { Origin::Variable(variable) }
    }

    /// Returns the shell command that confirms this input.
    pub(crate) fn line(&self) -> String {
        let mut words: Vec<String> = env_vars::own()
            .chain(self.places.said())
            .map(|(name, value)| format!("{name}={}", quoted(&value.to_string_lossy())))
            .collect();
        words.push(String::from("sinew trust --arguments --"));
        words.extend(self.arguments.iter().map(|arg| quoted(&arg.to_string_lossy())));
        words.join(" ")
    }
}

/// Quotes a word for a shell, with invisible characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => shown(&shell_quoted(text)),
    }
}

/// Returns the current directory.
pub(crate) fn current_dir() -> anyhow::Result<PathBuf> {
    std::env::current_dir().context("the current directory cannot be read")
}
