//! Proves that commands may run without a question: what they change can be undone, and nothing leaves the sandbox.

use std::fmt;
use std::io;
use std::path::PathBuf;

use sinew_policy::rules::PathGlobs;
use sinew_tool::{Kind, ToolError};

use super::Commands;
use super::sandbox_level::{SandboxLevel, UNBOUNDED, UNLISTED};

sinew_tool::word_enum! {
    /// Which commands ask.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum AskCommands {
        /// Those whose effects leave the sandbox or cannot be undone.
        #[default]
        Auto = "auto",
        /// Every command that is not a plain read.
        Always = "always",
    }
}

/// The property of commands that is not proven, so that they ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotProven {
    /// The settings want a question for each command.
    Configured,
    /// Commands reach the network.
    Network,
    /// A root is or contains a home directory.
    Home(PathBuf),
    /// No session can be opened; says why.
    NoSession(String),
    /// No sandbox level works.
    NoSandbox,
    /// The settings keep no changes of commands.
    NoCheckpoints,
    /// Changes of commands cannot be recorded on this machine.
    NotRecorded,
    /// The kept changes have reached their limit.
    NoRoom,
    /// Processes of a command are not limited or not all killed.
    Processes,
}

impl fmt::Display for NotProven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configured => "`run.ask` is `always`",
            Self::Network => "the network is open to commands (`run.network`)",
            Self::Home(root) => {
                return write!(
                    f,
                    "the root {} holds a home directory; name a project with `--root`",
                    root.display()
                );
            }
            Self::NoSession(why) => return write!(f, "no sandbox can be started: {why}"),
            Self::NoSandbox => "no sandbox works here (`sinew doctor`)",
            Self::NoCheckpoints => {
                "checkpoints of commands are off (`checkpoints.commands`)"
            }
            Self::NotRecorded => "changes of commands cannot be recorded for undo here (`sinew doctor`)",
            Self::NoRoom => {
                "what this process keeps for undo has reached half of `checkpoints.max_bytes` or `max_count`"
            }
            Self::Processes => "nothing limits the processes of a command here (`sinew doctor`)",
        })
    }
}

impl Commands {
    /// Returns whether the settings want a question for each command that is not a plain read.
    pub fn always_ask(&self) -> bool {
        self.settings.ask == AskCommands::Always
    }

    /// Returns whether the changes of a session's commands are recorded for undo, and they reach no network.
    pub fn records(&self, session: &str, globs: &PathGlobs) -> bool {
        let session = self.session(session, globs);
        !self.reach_network() && session.is_ok_and(|session| session.keeps_changes)
    }

    /// Returns what keeps commands of a session from running unasked, if anything does; opens the session if needed.
    pub fn proven(&self, session: &str, globs: &PathGlobs) -> Result<(), NotProven> {
        if self.always_ask() {
            return Err(NotProven::Configured);
        }
        if self.reach_network() {
            return Err(NotProven::Network);
        }
        if let Some(root) = &self.home_root {
            return Err(NotProven::Home(root.clone()));
        }
        if self.keeper.is_none() {
            return Err(NotProven::NoCheckpoints);
        }
        let session = self.session(session, globs);
        let session = session
            .map_err(|ToolError { message, .. }| NotProven::NoSession(message.into_owned()))?;
        if session.level == SandboxLevel::None {
            return Err(NotProven::NoSandbox);
        }
        if !session.keeps_changes {
            return Err(NotProven::NotRecorded);
        }
        let is_unbounded = |what: &str| [UNBOUNDED, UNLISTED].contains(&what);
        match session.missing.iter().any(|one| is_unbounded(&one.what)) {
            true => Err(NotProven::Processes),
            false => Ok(()),
        }
    }
}

/// The error of a command that ran unasked only because its changes can be undone, where they cannot.
pub(super) fn not_kept(error: Option<io::Error>) -> ToolError {
    let message =
        "the command runs unasked only if its changes can be undone, and they cannot be recorded";
    let error = error.unwrap_or_else(|| io::Error::other("nothing records them"));
    ToolError::new(Kind::Unavailable, message)
        .hint("free space for the state directory, or set `run.ask = \"always\"` to be asked")
        .source(error.to_string())
}
